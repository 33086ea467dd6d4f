package laxity;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxFiles;
import org.apache.spark.sql.connector.read.streaming.ReadMaxRows;
import scala.collection.Iterator;

/**
 * The batch size of a running query: Spark asks each source for data up to a limit it looks up anew for every batch.
 * The user's own limit is never exceeded, and sources whose unit is not known are left alone.
 */
public final class SourceLimits {
  private final Object execution;
  private final List sources = new ArrayList();
  private final List originals = new ArrayList();

  public SourceLimits(Stream stream) throws Exception {
    execution = stream.execution;
    Iterator entries = current().iterator();
    while (entries.hasNext()) {
      scala.Tuple2 entry = (scala.Tuple2) entries.next();
      sources.add(entry._1());
      originals.add(entry._2());
    }
  }

  private scala.collection.immutable.Map current() throws Exception {
    return (scala.collection.immutable.Map) Reflect.get(execution, "uniqueSources");
  }

  /** At most `amount` rows (or files, by the source) a batch from each source; zero lifts our limit. */
  public void apply(long amount) throws Exception {
    scala.collection.immutable.Map map = current();
    for (int i = 0; i < sources.size(); i++) {
      ReadLimit wanted = limit(sources.get(i), (ReadLimit) originals.get(i), amount);
      map = (scala.collection.immutable.Map) map.updated(sources.get(i), wanted);
    }
    Reflect.set(execution, "uniqueSources", map);
  }

  public void restore() throws Exception {
    apply(0);
  }

  private static ReadLimit limit(Object source, ReadLimit original, long amount) {
    if (amount <= 0) return original;
    int files = (int) Math.min(amount, Integer.MAX_VALUE);
    // A limit of the user's says what the source counts in.
    if (original instanceof ReadMaxRows) return ReadLimit.maxRows(Math.min(amount, ((ReadMaxRows) original).maxRows()));
    if (original instanceof ReadMaxFiles) return ReadLimit.maxFiles(Math.min(files, ((ReadMaxFiles) original).maxFiles()));
    if (!(original instanceof ReadAllAvailable)) return original;
    String unit = unit(source);
    if (unit.equals("rows")) return ReadLimit.maxRows(amount);
    return unit.equals("files") ? ReadLimit.maxFiles(files) : original;
  }

  /** What a source without any limit counts in. Spark has no way to ask, so the ones that are known are named. */
  public static String unit(Object source) {
    String type = source.getClass().getSimpleName();
    if (type.startsWith("Kafka")) return "rows";
    if (type.equals("FileStreamSource")) return "files";
    return "";
  }
}

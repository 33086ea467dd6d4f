package laxity;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import scala.Tuple2;
import scala.collection.Iterator;

/**
 * How long the events of a query's next batch may have been there.
 *
 * If the batch before took all there was, they came after offsets were read for it. If it was limited, it left events
 * behind, and those came after the last reading whose offsets it has caught up with. Without this a query far behind
 * would seem to answer as fast as one that has caught up.
 */
public final class Backlog {
  private static final int MOST_READINGS = 512;
  private static final Pattern NUMBER = Pattern.compile("\\d+");

  private static final class Reading {
    final double time;
    final Map latest; // source → offset, as Spark writes it

    Reading(double time, Map latest) {
      this.time = time;
      this.latest = latest;
    }
  }

  private final List readings = new ArrayList(); // what was there when, oldest first; none while nothing is left behind

  /** No event of the next batch was there before this moment. */
  double oldest(Stream stream) throws Exception {
    Map end = new HashMap();
    Map latest = new HashMap();
    if (!leftBehind(stream, end, latest)) {
      readings.clear();
      return stream.lastRead;
    }
    if (readings.size() >= MOST_READINGS) { // any may be forgotten: what is left still holds, less sharply
      for (int i = readings.size() - 2; i > 0; i -= 2) readings.remove(i);
    }
    readings.add(new Reading(stream.lastRead, latest));
    double oldest = stream.oldest;
    while (!readings.isEmpty() && covers(end, ((Reading) readings.get(0)).latest)) {
      oldest = Math.max(oldest, ((Reading) readings.remove(0)).time);
    }
    return oldest;
  }

  /** Did the last batch leave anything it could have read? Notes its offsets, and what the newest were. */
  private static boolean leftBehind(Stream stream, Map end, Map latest) throws Exception {
    Object context = stream.context();
    scala.collection.Map ends = (scala.collection.Map) Reflect.call(context, "endOffsets");
    scala.collection.Map newest = (scala.collection.Map) Reflect.call(context, "latestOffsets");
    boolean left = false;
    for (Iterator i = ends.iterator(); i.hasNext(); ) {
      Tuple2 entry = (Tuple2) i.next();
      Object source = entry._1();
      Object until = newest.contains(source) ? newest.apply(source) : null; // many sources do not tell
      if (filesLeft(source)) {
        left = true;
        latest.put(source, null);
      } else if (until != null && !until.equals(entry._2())) {
        left = true;
      }
      if (until == null) continue;
      end.put(source, json(entry._2()));
      latest.put(source, json(until));
    }
    return left;
  }

  /** The file source lists its folder, hands out what is allowed and keeps the rest for later batches. */
  static boolean filesLeft(Object source) throws Exception {
    if (!source.getClass().getSimpleName().equals("FileStreamSource")) return false;
    scala.collection.Iterable unread = (scala.collection.Iterable) Reflect.get(source, "unreadFiles");
    return unread != null && !unread.isEmpty();
  }

  static boolean filesLeft(Stream stream) throws Exception {
    scala.collection.Map sources = (scala.collection.Map) Reflect.get(stream.execution, "uniqueSources");
    for (Iterator i = sources.keysIterator(); i.hasNext(); ) {
      if (filesLeft(i.next())) return true;
    }
    return false;
  }

  private static String json(Object offset) throws Exception {
    return (String) Reflect.call(offset, "json");
  }

  private static boolean covers(Map end, Map latest) {
    for (java.util.Iterator i = latest.entrySet().iterator(); i.hasNext(); ) {
      Map.Entry entry = (Map.Entry) i.next();
      if (!reaches((String) end.get(entry.getKey()), (String) entry.getValue())) return false;
    }
    return true;
  }

  /** Offsets are opaque, but they are numbers among fixed text, and grow. */
  public static boolean reaches(String end, String latest) {
    if (end == null || latest == null) return false;
    if (!NUMBER.matcher(end).replaceAll("#").equals(NUMBER.matcher(latest).replaceAll("#"))) return false;
    Matcher mine = NUMBER.matcher(end);
    Matcher theirs = NUMBER.matcher(latest);
    while (mine.find() && theirs.find()) {
      if (new BigInteger(mine.group()).compareTo(new BigInteger(theirs.group())) < 0) return false;
    }
    return true;
  }
}

package laxity.bench;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxRows;
import org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl;
import org.apache.spark.sql.execution.streaming.sources.RateStreamMicroBatchInputPartition;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A source for benchmarks: rows arrive by a schedule, tick by tick, and the same rows in every run.
 *
 * A schedule is a list of runs, "ticks*rows,…": so many ticks with so many rows each. The rows of a tick become available
 * together at its end; their event times lie inside it. Like Kafka it can be limited to a number of rows a batch.
 *
 * Only the driver knows these classes. What travels to executors are Spark's own: the partitions and the reader of its
 * `rate` source, which turn a range of numbers into rows (timestamp, value).
 */
public final class Ticks implements TableProvider, Table, SupportsRead {
  private static final StructType SCHEMA =
      new StructType().add("timestamp", DataTypes.TimestampType).add("value", DataTypes.LongType);

  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return SCHEMA;
  }

  public Transform[] inferPartitioning(CaseInsensitiveStringMap options) {
    return new Transform[0];
  }

  public boolean supportsExternalMetadata() {
    return false;
  }

  public Table getTable(StructType schema, Transform[] partitioning, Map properties) {
    return this;
  }

  public String name() {
    return "ticks";
  }

  public StructType schema() {
    return SCHEMA;
  }

  public Set capabilities() {
    return new HashSet(Collections.singletonList(TableCapability.MICRO_BATCH_READ));
  }

  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new Builder(options);
  }

  public static final class Builder implements ScanBuilder, Scan {
    private final CaseInsensitiveStringMap options;

    public Builder(CaseInsensitiveStringMap options) {
      this.options = options;
    }

    public Scan build() {
      return this;
    }

    public StructType readSchema() {
      return SCHEMA;
    }

    public String description() {
      return "ticks";
    }

    public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
      return new TickStream(options);
    }
  }

  /** A position: the number of ticks that are over. */
  public static final class TickOffset extends Offset {
    final long ticks;

    public TickOffset(long ticks) {
      this.ticks = ticks;
    }

    public String json() {
      return Long.toString(ticks);
    }
  }

  public static final class TickStream implements MicroBatchStream, SupportsAdmissionControl {
    private final long originMillis;
    private final long tickMillis;
    private final int partitions;
    private final long mostRows;
    private final long[] firstTick; // of each run
    private final long[] firstRow; // number of the first row of each run
    private final long[] rowsPerTick;
    private final long allTicks;

    public TickStream(CaseInsensitiveStringMap options) {
      originMillis = options.getLong("originMillis", 0);
      tickMillis = options.getLong("tickMillis", 10);
      partitions = options.getInt("partitions", 2);
      mostRows = options.getLong("maxRowsPerTrigger", 0);
      String[] runs = options.get("schedule").split(",");
      firstTick = new long[runs.length];
      firstRow = new long[runs.length];
      rowsPerTick = new long[runs.length];
      long tick = 0;
      long row = 0;
      for (int i = 0; i < runs.length; i++) {
        String[] run = runs[i].split("\\*");
        firstTick[i] = tick;
        firstRow[i] = row;
        rowsPerTick[i] = Long.parseLong(run[1]);
        tick += Long.parseLong(run[0]);
        row += Long.parseLong(run[0]) * rowsPerTick[i];
      }
      allTicks = tick;
    }

    private int runAt(long tick) {
      int low = 0;
      int high = firstTick.length - 1;
      while (low < high) {
        int middle = (low + high + 1) / 2;
        if (firstTick[middle] <= tick) low = middle;
        else high = middle - 1;
      }
      return low;
    }

    private long rowsBefore(long tick) {
      int run = runAt(tick);
      return firstRow[run] + (tick - firstTick[run]) * rowsPerTick[run];
    }

    private long ticksOver() {
      long now = (System.currentTimeMillis() - originMillis) / tickMillis;
      return Math.max(0, Math.min(allTicks, now));
    }

    public Offset initialOffset() {
      return new TickOffset(0);
    }

    public Offset deserializeOffset(String json) {
      return new TickOffset(Long.parseLong(json.trim()));
    }

    public void commit(Offset end) {}

    public void stop() {}

    public ReadLimit getDefaultReadLimit() {
      return mostRows > 0 ? ReadLimit.maxRows(mostRows) : ReadLimit.allAvailable();
    }

    public Offset latestOffset() {
      return new TickOffset(ticksOver());
    }

    public Offset reportLatestOffset() {
      return latestOffset();
    }

    /** Silence is no news: without rows the position stays, and so Spark runs no batch. */
    public Offset latestOffset(Offset start, ReadLimit limit) {
      long from = ((TickOffset) start).ticks;
      long over = ticksOver();
      if (rowsBefore(over) == rowsBefore(from)) return start;
      if (!(limit instanceof ReadMaxRows)) return new TickOffset(over);
      long most = rowsBefore(from) + ((ReadMaxRows) limit).maxRows();
      long low = from + 1; // at least one tick, or it would never go on
      long high = over;
      while (low < high) {
        long middle = (low + high + 1) / 2;
        if (rowsBefore(middle) <= most) low = middle;
        else high = middle - 1;
      }
      return new TickOffset(low);
    }

    /** Within a run rows are evenly spread, which is all that the rate source's partitions can say. */
    public InputPartition[] planInputPartitions(Offset start, Offset end) {
      long from = ((TickOffset) start).ticks;
      long to = ((TickOffset) end).ticks;
      List pieces = new ArrayList(); // of long[]{first tick, last tick}
      for (int run = runAt(from); run < firstTick.length && firstTick[run] < to; run++) {
        long last = run + 1 < firstTick.length ? Math.min(to, firstTick[run + 1]) : to;
        long first = Math.max(from, firstTick[run]);
        if (rowsPerTick[run] > 0 && last > first) pieces.add(new long[] {first, last});
      }
      int each = Math.max(1, (partitions + pieces.size() - 1) / Math.max(1, pieces.size()));
      List plan = new ArrayList();
      for (int i = 0; i < pieces.size(); i++) {
        long[] piece = (long[]) pieces.get(i);
        double millisPerRow = tickMillis / (double) rowsPerTick[runAt(piece[0])];
        for (int p = 0; p < each; p++) {
          plan.add(new RateStreamMicroBatchInputPartition(p, each, rowsBefore(piece[0]), rowsBefore(piece[1]),
              originMillis + piece[0] * tickMillis, millisPerRow));
        }
      }
      return (InputPartition[]) plan.toArray(new InputPartition[0]);
    }

    public PartitionReaderFactory createReaderFactory() {
      try {
        // A Scala object: javac would not see its interface, so it is taken by its one instance.
        Class type = Class.forName("org.apache.spark.sql.execution.streaming.sources.RateStreamMicroBatchReaderFactory$");
        return (PartitionReaderFactory) type.getField("MODULE$").get(null);
      } catch (Exception missing) {
        throw new IllegalStateException("this Spark's rate source has no reader of that name", missing);
      }
    }

    public String toString() {
      return "ticks";
    }
  }
}

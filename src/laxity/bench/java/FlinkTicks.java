package laxity.bench;

import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.List;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.functions.source.legacy.RichSourceFunction;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.Table;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;

/**
 * The contest's queries on Flink: one job each, over the same schedule of ticks as Ticks.java.
 *
 * Arguments: REST port, jar, folder, file of jobs; a line of that is "name TAB origin millis TAB tick millis TAB schedule
 * TAB SQL", where the SQL is views and then the query, separated by semicolons. A job writes to FOLDER/name.rows "millis,rows so far" and to FOLDER/name.answers "window end,emitted millis".
 */
public final class FlinkTicks {
  private FlinkTicks() {}

  /** The rows of a tick are emitted at its end, and the watermark follows at once. */
  public static final class TickSource extends RichSourceFunction<Long> {
    private final String file;
    private final long origin;
    private final long tick;
    private final String schedule;
    private volatile boolean running = true;

    TickSource(String file, long origin, long tick, String schedule) {
      this.file = file;
      this.origin = origin;
      this.tick = tick;
      this.schedule = schedule;
    }

    @Override
    public void run(SourceContext<Long> context) throws Exception {
      long begin = origin;
      long value = 0;
      long told = 0;
      try (PrintWriter progress = new PrintWriter(Files.newBufferedWriter(Paths.get(file)), true)) {
        for (String part : schedule.split(",")) {
          String[] run = part.split("\\*");
          long ticks = Long.parseLong(run[0]);
          long rows = Long.parseLong(run[1]);
          for (long number = 0; number < ticks && running; number++, begin += tick) {
            long now = System.currentTimeMillis();
            if (now < begin + tick) Thread.sleep(begin + tick - now);
            if (now - told >= 200) {
              progress.println(now + "," + value);
              told = now;
            }
            if (rows == 0) continue;
            synchronized (context.getCheckpointLock()) {
              for (long row = 0; row < rows; row++) {
                context.collectWithTimestamp(value++, begin + Math.round(row * (double) tick / rows));
              }
              context.emitWatermark(new Watermark(begin + Math.round((rows - 1) * (double) tick / rows) - 1));
            }
          }
        }
      }
    }

    @Override
    public void cancel() {
      running = false;
    }
  }

  /** Notes when a result left. */
  public static final class Emission extends RichMapFunction<Row, Row> {
    private final String file;
    private transient PrintWriter answers;

    Emission(String file) {
      this.file = file;
    }

    @Override
    public void open(OpenContext context) throws Exception {
      answers = new PrintWriter(Files.newBufferedWriter(Paths.get(file)), true);
    }

    @Override
    public Row map(Row row) {
      long end = ((LocalDateTime) row.getField(0)).toInstant(ZoneOffset.UTC).toEpochMilli();
      answers.println(end + "," + System.currentTimeMillis());
      return row;
    }

    @Override
    public void close() {
      if (answers != null) answers.close();
    }
  }

  public static void main(String[] arguments) throws Exception {
    int port = Integer.parseInt(arguments[0]);
    Path folder = Paths.get(arguments[2]);
    List<String> jobs = Files.readAllLines(Paths.get(arguments[3]));
    for (String job : jobs) {
      String[] part = job.split("\t");
      StreamExecutionEnvironment env = StreamExecutionEnvironment.createRemoteEnvironment("localhost", port, arguments[1]);
      env.setParallelism(1);
      env.setBufferTimeout(5);
      env.getConfig().enableObjectReuse();
      StreamTableEnvironment tables = StreamTableEnvironment.create(env);
      tables.getConfig().set("table.local-time-zone", "UTC");
      String rows = folder.resolve(part[0] + ".rows").toString();
      TickSource source = new TickSource(rows, Long.parseLong(part[1]), Long.parseLong(part[2]), part[3]);
      DataStream<Long> ticks = env.addSource(source, part[0], Types.LONG);
      Schema schema =
          Schema.newBuilder()
              .columnByMetadata("ts", DataTypes.TIMESTAMP_LTZ(3), "rowtime")
              .watermark("ts", "SOURCE_WATERMARK()")
              .build();
      tables.createTemporaryView("ticks", tables.fromDataStream(ticks, schema));
      String[] statements = part[4].split(";");
      for (int i = 0; i < statements.length - 1; i++) tables.executeSql(statements[i]);
      Table result = tables.sqlQuery(statements[statements.length - 1]);
      tables
          .toDataStream(result)
          .map(new Emission(folder.resolve(part[0] + ".answers").toString()))
          .returns(Types.ROW())
          .sinkTo(new DiscardingSink<>());
      env.executeAsync(part[0]);
    }
  }
}

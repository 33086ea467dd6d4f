package laxity;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A streaming query as the hooks see it. Times are seconds since 1970.
 *
 * The facts of the current micro-batch (`arrival`, `watermark`, `token`) are what travels with its task sets: Cameo's
 * priority context. They are set in the query's own thread when the batch starts.
 */
public final class Stream {
  public static final int IDLE = 0;
  public static final int HELD = 1;
  public static final int RUNNING = 2;

  public final Object execution; // a StreamExecution
  public final String id;
  public final String runId;
  public final String name;

  /**
   * What the current batch is ordered by: when offsets were read before. A query that left events behind has some that
   * are older, but is not ordered by them: once far behind it would pass everybody until it has caught up, and those who
   * could still keep their targets would miss them for it. So each of its batches is due one target after its reading.
   */
  public volatile double arrival = Double.NaN;
  /** No event of the current batch was there before this moment: what its latency is measured from. */
  public volatile double oldest = Double.NaN;
  /** The watermark before the current batch; windows that end after it are still to come. */
  public volatile double watermark = Double.NaN;
  /** The watermark that the batches so far have reached; the next batch will have it. */
  public volatile double reachedWatermark = Double.NaN;
  public volatile double token = Double.POSITIVE_INFINITY;

  public volatile int state = IDLE;
  public volatile double stateSince;
  /** When offsets were read last. */
  public volatile double lastRead = Double.NaN;
  /** The batch the gate was last passed for; the same again means that there was no data. */
  public long lastBatch = -1;
  public boolean foundNothing;
  public volatile boolean gated;
  public volatile boolean announced;
  public volatile String unmanaged; // why this query is left alone, or null
  /** Batch → {seconds held by the gate, arrival}, until the batch's progress report takes it. */
  public final ConcurrentHashMap batchFacts = new ConcurrentHashMap();

  final Backlog backlog = new Backlog();
  public final SmallBatches smallBatches = new SmallBatches(this);

  private long batch = -1;
  private final Map firstStage = new HashMap(); // job id → its first stage in this batch
  private final Map jobOrdinal = new HashMap();

  public Stream(Object execution) throws Exception {
    this.execution = execution;
    this.id = String.valueOf(Reflect.call(execution, "id"));
    this.runId = String.valueOf(Reflect.call(execution, "runId"));
    Object named = Reflect.call(execution, "name");
    this.name = named == null ? "" : named.toString();
    this.stateSince = System.currentTimeMillis() / 1000.0;
  }

  /**
   * Where a stage stands in its batch's plan, the same from batch to batch: the ordinal of its job and the distance
   * from that job's first stage (Spark numbers the stages of a job in one go).
   */
  public synchronized String position(long batchId, int jobId, int stageId) {
    if (batchId != batch) {
      batch = batchId;
      firstStage.clear();
      jobOrdinal.clear();
    }
    Integer job = Integer.valueOf(jobId);
    Integer first = (Integer) firstStage.get(job);
    if (first == null) {
      first = Integer.valueOf(stageId);
      firstStage.put(job, first);
      jobOrdinal.put(job, Integer.valueOf(jobOrdinal.size()));
    }
    return jobOrdinal.get(job) + "." + (stageId - first.intValue());
  }

  public void enter(int newState, double now) {
    state = newState;
    stateSince = now;
  }

  /** The batch that is about to run, or runs. */
  public long currentBatch() throws Exception {
    return ((Number) Reflect.call(context(), "batchId")).longValue();
  }

  /** The watermark of the batch planned last, in seconds; NaN before there is one. */
  public double plannedWatermark() throws Exception {
    Object metadata = Reflect.call(context(), "offsetSeqMetadata");
    if (metadata == null) return Double.NaN;
    long millis = ((Number) Reflect.call(metadata, "batchWatermarkMs")).longValue();
    return millis <= 0 ? Double.NaN : millis / 1000.0;
  }

  /** What the batches that are over have brought the watermark to, in seconds; NaN before there is one. */
  public double trackedWatermark() throws Exception {
    Object tracker = Reflect.get(execution, "watermarkTracker");
    if (tracker == null) return Double.NaN;
    long millis = ((Number) Reflect.call(tracker, "currentWatermark")).longValue();
    return millis <= 0 ? Double.NaN : millis / 1000.0;
  }

  Object context() throws Exception {
    return Reflect.call(execution, "getLatestExecutionContext");
  }

  /** Continuous and real-time queries: their tasks run for minutes, and answer while they do. */
  boolean answersWithinTasks() {
    return unmanaged != null && (unmanaged.startsWith("Continuous") || unmanaged.startsWith("RealTime"));
  }

  public boolean isActive() throws Exception {
    return ((Boolean) Reflect.call(execution, "isActive")).booleanValue();
  }
}

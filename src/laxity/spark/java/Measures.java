package laxity;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerStageCompleted;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.SparkListenerTaskStart;
import org.apache.spark.sql.streaming.SourceProgress;
import org.apache.spark.sql.streaming.StreamingQueryListener;
import org.apache.spark.sql.streaming.StreamingQueryProgress;

/** What came of it: the costs of each stage and the times of each batch, for Python to learn from (Cameo's replies). */
public final class Measures extends SparkListener {
  private final Hub hub;
  private final Map stages = new HashMap(); // stage id → Work
  private final Map jobs = new HashMap(); // job id → ids of its stages
  private final Map runningByQuery = new HashMap(); // query id → int[1], above zero
  private final Map runningTasks = new HashMap(); // task id → query id; a task may outlive its cancelled stage

  /** Tasks a stage whose times are told one by one: enough for a picture, little enough for a tick. */
  private static final int MOST_RUNS = 64;

  private static final class Work {
    String query;
    long batch;
    String position;
    String parents = "";
    int job;
    int tasks;
    long submitted;
    long firstLaunch;
    double taskSeconds;
    double longestTask;
    String behind = "";
    int runs;
    final StringBuilder timeline = new StringBuilder(); // of its first tasks: start after submission:duration:executor
  }

  public Measures(Hub hub) {
    this.hub = hub;
  }

  private static Work work(Properties p, int job) {
    Work w = new Work();
    w.query = p == null ? null : p.getProperty("sql.streaming.queryId");
    String batch = p == null ? null : p.getProperty("streaming.sql.batchId");
    w.batch = batch == null ? -1 : Long.parseLong(batch);
    w.job = job;
    return w;
  }

  public void onJobStart(SparkListenerJobStart e) {
    List ids = new ArrayList();
    scala.collection.Iterator i = e.stageInfos().iterator();
    while (i.hasNext()) {
      org.apache.spark.scheduler.StageInfo info = (org.apache.spark.scheduler.StageInfo) i.next();
      Work w = work(e.properties(), e.jobId());
      StringBuilder parents = new StringBuilder();
      scala.collection.Iterator before = info.parentIds().iterator();
      while (before.hasNext()) {
        if (parents.length() > 0) parents.append(',');
        parents.append(before.next());
      }
      w.parents = parents.toString();
      stages.put(Integer.valueOf(info.stageId()), w);
      ids.add(Integer.valueOf(info.stageId()));
    }
    jobs.put(Integer.valueOf(e.jobId()), ids);
  }

  /** Stages that were skipped never complete. */
  public void onJobEnd(SparkListenerJobEnd e) {
    List ids = (List) jobs.remove(Integer.valueOf(e.jobId()));
    for (int i = 0; ids != null && i < ids.size(); i++) stages.remove(ids.get(i));
  }

  public void onStageSubmitted(SparkListenerStageSubmitted e) {
    Work w = (Work) stages.get(Integer.valueOf(e.stageInfo().stageId()));
    if (w == null) stages.put(Integer.valueOf(e.stageInfo().stageId()), w = work(e.properties(), -1));
    w.tasks = e.stageInfo().numTasks();
    w.submitted = e.stageInfo().submissionTime().isDefined()
        ? ((Number) e.stageInfo().submissionTime().get()).longValue() : System.currentTimeMillis();
    w.behind = whoRuns(w.query);
  }

  /** The queries that hold slots at this moment, the one asking left out. */
  private String whoRuns(String except) {
    StringBuilder who = new StringBuilder();
    for (Iterator i = runningByQuery.entrySet().iterator(); i.hasNext(); ) {
      Map.Entry entry = (Map.Entry) i.next();
      int count = ((int[]) entry.getValue())[0];
      if (count <= 0 || entry.getKey().equals(except)) continue;
      if (who.length() > 0) who.append(',');
      who.append(entry.getKey()).append(':').append(count);
    }
    return who.toString();
  }

  private void taskRuns(long task, String query) {
    String key = query == null ? "batch" : query;
    int[] count = (int[]) runningByQuery.get(key);
    if (count == null) runningByQuery.put(key, count = new int[1]);
    count[0]++;
    runningTasks.put(Long.valueOf(task), key);
  }

  private void taskEnded(long task) {
    Object key = runningTasks.remove(Long.valueOf(task));
    int[] count = key == null ? null : (int[]) runningByQuery.get(key);
    if (count != null && --count[0] <= 0) runningByQuery.remove(key);
  }

  public void onTaskStart(SparkListenerTaskStart e) {
    Work w = (Work) stages.get(Integer.valueOf(e.stageId()));
    if (w == null) return;
    if (w.firstLaunch == 0) w.firstLaunch = e.taskInfo().launchTime();
    taskRuns(e.taskInfo().taskId(), w.query);
  }

  public void onTaskEnd(SparkListenerTaskEnd e) {
    taskEnded(e.taskInfo().taskId());
    Work w = (Work) stages.get(Integer.valueOf(e.stageId()));
    if (w == null) return;
    double seconds = e.taskInfo().duration() / 1000.0;
    w.taskSeconds += seconds;
    w.longestTask = Math.max(w.longestTask, seconds);
    if (w.runs++ < MOST_RUNS) {
      if (w.timeline.length() > 0) w.timeline.append(',');
      w.timeline.append(e.taskInfo().launchTime() - w.submitted).append(':').append(e.taskInfo().duration())
          .append(':').append(e.taskInfo().executorId());
    }
  }

  public void onStageCompleted(SparkListenerStageCompleted e) {
    int id = e.stageInfo().stageId();
    Work w = (Work) stages.remove(Integer.valueOf(id));
    if (w == null || w.query == null) return;
    long done = e.stageInfo().completionTime().isDefined()
        ? ((Number) e.stageInfo().completionTime().get()).longValue() : System.currentTimeMillis();
    hub.report("E\tid=" + w.query + "\tbatch=" + w.batch + "\tjob=" + w.job + "\tstage=" + id + "\tparents=" + w.parents
        + "\ttasks=" + w.tasks + "\tsubmitted=" + w.submitted / 1000.0
        + "\tlaunched=" + (w.firstLaunch == 0 ? w.submitted : w.firstLaunch) / 1000.0 + "\tdone=" + done / 1000.0
        + "\tseconds=" + w.taskSeconds + "\tlongest=" + w.longestTask + "\tbehind=" + Fields.encode(w.behind)
        + "\truns=" + Fields.encode(w.timeline.toString()));
  }

  public void onOtherEvent(SparkListenerEvent e) {
    try {
      hub.trip("measure");
      if (e instanceof StreamingQueryListener.QueryProgressEvent) {
        batch(((StreamingQueryListener.QueryProgressEvent) e).progress());
      } else if (e instanceof StreamingQueryListener.QueryTerminatedEvent) {
        StreamingQueryListener.QueryTerminatedEvent t = (StreamingQueryListener.QueryTerminatedEvent) e;
        String error = t.exception().isDefined() ? (String) t.exception().get() : "";
        hub.report("T\tid=" + t.id() + "\trun=" + t.runId()
            + "\terror=" + Fields.encode(error.length() > 2000 ? error.substring(0, 2000) : error));
      }
    } catch (Throwable error) {
      hub.notice("measure", "a batch could not be measured", error);
    }
  }

  private void batch(StreamingQueryProgress p) throws Exception {
    StringBuilder line = new StringBuilder("B\tid=").append(p.id()).append("\trun=").append(p.runId())
        .append("\tbatch=").append(p.batchId()).append("\trows=").append(p.numInputRows())
        .append("\tstarted=").append(java.time.Instant.parse(p.timestamp()).toEpochMilli() / 1000.0);
    for (Iterator i = p.durationMs().entrySet().iterator(); i.hasNext(); ) {
      Map.Entry entry = (Map.Entry) i.next();
      line.append("\td.").append(entry.getKey()).append('=').append(((Number) entry.getValue()).longValue() / 1000.0);
    }
    for (Iterator i = p.eventTime().entrySet().iterator(); i.hasNext(); ) {
      Map.Entry entry = (Map.Entry) i.next();
      line.append("\te.").append(entry.getKey()).append('=')
          .append(java.time.Instant.parse((String) entry.getValue()).toEpochMilli() / 1000.0);
    }
    Stream stream = hub.stream(p.id().toString());
    SourceProgress[] sources = p.sources();
    boolean backlog = stream != null && Backlog.filesLeft(stream); // did a source have more than this batch took?
    for (int i = 0; i < sources.length; i++) {
      String latest = sources[i].latestOffset();
      if (latest != null && !latest.equals("null") && !latest.equals(sources[i].endOffset())) backlog = true;
    }
    double[] facts = stream == null ? null : (double[]) stream.batchFacts.remove(Long.valueOf(p.batchId()));
    line.append("\tbacklog=").append(backlog ? 1 : 0).append("\theld=").append(facts == null ? 0.0 : facts[0])
        .append("\tarrival=").append(facts == null ? Double.NaN : facts[1]);
    hub.report(line.toString());
  }
}

package laxity.bench;

import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerTaskEnd;

/** Which query ran which task when, for pictures: one line a task, "query id,stage of its batch,start,end". */
public final class TaskLog extends SparkListener {
  private final Map<Integer, String> stages = new HashMap<Integer, String>(); // stage id → "query id,place"
  private final Map<String, int[]> batches = new HashMap<String, int[]>(); // query id → {batch, stages so far}
  private StringBuilder lines = new StringBuilder();

  public synchronized void onJobStart(SparkListenerJobStart job) {
    Properties properties = job.properties();
    String query = properties == null ? null : properties.getProperty("sql.streaming.queryId");
    String batch = properties == null ? null : properties.getProperty("streaming.sql.batchId");
    if (query == null || batch == null) return;
    int number = Integer.parseInt(batch);
    int[] before = (int[]) batches.get(query);
    if (before == null || before[0] != number) before = new int[] {number, 0};
    batches.put(query, before);
    for (scala.collection.Iterator ids = job.stageIds().iterator(); ids.hasNext(); before[1]++) {
      stages.put((Integer) ids.next(), query + "," + before[1]);
    }
  }

  public synchronized void onTaskEnd(SparkListenerTaskEnd end) {
    Object stage = stages.get(Integer.valueOf(end.stageId()));
    if (stage == null) return;
    lines.append(stage).append(',').append(end.taskInfo().launchTime());
    lines.append(',').append(end.taskInfo().finishTime()).append('\n');
  }

  /** Everything since it was asked last. */
  public synchronized String take() {
    String taken = lines.toString();
    lines = new StringBuilder();
    return taken;
  }
}

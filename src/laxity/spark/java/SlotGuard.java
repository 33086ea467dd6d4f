package laxity;

import org.apache.spark.SparkConf;
import org.apache.spark.scheduler.LiveListenerBus;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.apache.spark.scheduler.TaskSetExcludelist;
import org.apache.spark.scheduler.TaskSetManager;
import org.apache.spark.util.Clock;

/**
 * Decides, slot by slot, whether a task set may take one: the place for hard caps and reserved slots.
 *
 * A pool can only order task sets; the first one listed then takes every free slot it has tasks for. But before each
 * single task Spark asks the task set's list of excluded executors about the executor on offer. This is that list, with
 * one more reason to say no. The same list is also asked whether a task set can run *anywhere*, to abort one that
 * cannot; that question must not hear about us. The two differ in what is asked before: of an offer, only whether the
 * node is excluded for the task set; in the survey, also whether it is excluded for a task.
 */
public final class SlotGuard extends TaskSetExcludelist {
  private final LaxityPool pool;
  private final TaskSetManager tasks;
  private boolean offered;

  private SlotGuard(LaxityPool pool, TaskSetManager tasks, LiveListenerBus bus, SparkConf conf, Clock clock, boolean dry) {
    super(bus, conf, tasks.stageId(), tasks.taskSet().stageAttemptId(), clock, dry);
    this.pool = pool;
    this.tasks = tasks;
  }

  /** Replace the list of a task set that has just been submitted, so that no failure is recorded in it yet. */
  static void install(LaxityPool pool, TaskSetManager tasks, TaskSchedulerImpl scheduler) throws Exception {
    scala.Option stock = tasks.taskSetExcludelistHelperOpt();
    boolean dry = stock.isEmpty() || ((TaskSetExcludelist) stock.get()).isDryRun();
    SlotGuard guard = new SlotGuard(
        pool, tasks, scheduler.sc().listenerBus(), scheduler.conf(), new org.apache.spark.util.SystemClock(), dry);
    Reflect.set(tasks, "taskSetExcludelistHelperOpt", new scala.Some(guard));
  }

  public boolean isNodeExcludedForTaskSet(String node) {
    offered = true;
    return super.isNodeExcludedForTaskSet(node);
  }

  public boolean isNodeExcludedForTask(String node, int index) {
    offered = false;
    return super.isNodeExcludedForTask(node, index);
  }

  public boolean isExecutorExcludedForTaskSet(String executor) {
    return super.isExecutorExcludedForTaskSet(executor) || (offered && pool.refuses(tasks));
  }
}

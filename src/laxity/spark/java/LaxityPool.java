package laxity;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.Schedulable;
import org.apache.spark.scheduler.SchedulableBuilder;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.apache.spark.scheduler.TaskSetManager;
import scala.collection.mutable.ArrayBuffer;

/**
 * The root pool: which task set gets the next free slot (Cameo's two levels), and who may take one at all.
 *
 * It keeps no priorities. Each resource offer evaluates the rules on the facts of the streams' current batches; a
 * failure, or decisions gone stale, falls back to Spark's own FIFO order.
 */
public final class LaxityPool extends Pool {
  private static final String QUERY_ID = "sql.streaming.queryId";
  private static final String BATCH_ID = "streaming.sql.batchId";
  /** When work outside streaming queries is due, in seconds since 1970: set by `with lx.target(...)`. */
  private static final String DUE = "laxity.due";
  private static final String TENANT = "laxity.tenant";

  private final Hub hub;
  private final TaskSchedulerImpl scheduler;
  private final Pool stockPool;
  private final SchedulableBuilder stockBuilder;
  private final ConcurrentHashMap seats = new ConcurrentHashMap(); // TaskSetManager → Seat
  private long nextSequence = 0;
  private volatile long sorts = 0;
  private volatile long sortNanos = 0;

  /** What is known of a task set from the moment it is submitted. */
  static final class Seat {
    final TaskSetManager tasks;
    final long sequence;
    final double submitted;
    final String queryId;
    final String position;
    final String tenant;
    final double due;
    final double local;
    double priority;
    boolean lax;

    Seat(TaskSetManager tasks, long sequence, double submitted, String queryId, String position, String tenant,
        double due, double local) {
      this.tasks = tasks;
      this.sequence = sequence;
      this.submitted = submitted;
      this.queryId = queryId;
      this.position = position;
      this.tenant = tenant;
      this.due = due;
      this.local = local;
    }
  }

  public LaxityPool(Hub hub, TaskSchedulerImpl scheduler) throws Exception {
    super("", scheduler.rootPool().schedulingMode(), 0, 0);
    this.hub = hub;
    this.scheduler = scheduler;
    this.stockPool = scheduler.rootPool();
    this.stockBuilder = (SchedulableBuilder) Reflect.get(scheduler, "schedulableBuilder");
  }

  /** Take Spark's root pool's place, with the task sets that are in it. */
  public void install() throws Exception {
    synchronized (scheduler) {
      moveTaskSets(stockPool, new org.apache.spark.scheduler.FIFOSchedulableBuilder(this));
      Reflect.set(scheduler, "schedulableBuilder", new org.apache.spark.scheduler.FIFOSchedulableBuilder(this));
      Reflect.set(scheduler, "rootPool", this);
    }
  }

  public void uninstall() throws Exception {
    synchronized (scheduler) {
      if (scheduler.rootPool() != this) return;
      Reflect.set(scheduler, "rootPool", stockPool);
      Reflect.set(scheduler, "schedulableBuilder", stockBuilder);
      moveTaskSets(this, stockBuilder);
      seats.clear();
    }
    revive();
  }

  private static void moveTaskSets(Pool from, SchedulableBuilder to) {
    List leaves = new ArrayList();
    collect(from, leaves);
    for (int i = 0; i < leaves.size(); i++) {
      TaskSetManager tasks = (TaskSetManager) leaves.get(i);
      Pool parent = tasks.parent();
      parent.removeSchedulable(tasks);
      parent.decreaseRunningTasks(tasks.runningTasks());
      to.addTaskSetManager(tasks, tasks.taskSet().properties());
      tasks.parent().increaseRunningTasks(tasks.runningTasks());
    }
  }

  private static void collect(Pool pool, List leaves) {
    for (Iterator i = pool.schedulableQueue().iterator(); i.hasNext(); ) {
      Object child = i.next();
      if (child instanceof Pool) collect((Pool) child, leaves);
      else leaves.add(child);
    }
  }

  public void addSchedulable(Schedulable child) {
    super.addSchedulable(child);
    if (!(child instanceof TaskSetManager)) return;
    TaskSetManager tasks = (TaskSetManager) child;
    try {
      hub.trip("submit");
      seats.put(tasks, seat(tasks));
      SlotGuard.install(this, tasks, scheduler);
    } catch (Throwable error) {
      hub.notice("submit", "a task set could not be looked at; it runs in order of arrival", error);
    }
  }

  public void removeSchedulable(Schedulable child) {
    super.removeSchedulable(child);
    seats.remove(child);
    hub.gate.wake();
  }

  private Seat seat(TaskSetManager tasks) {
    Properties p = tasks.taskSet().properties();
    String query = p == null ? null : p.getProperty(QUERY_ID);
    String batch = p == null ? null : p.getProperty(BATCH_ID);
    String due = p == null ? null : p.getProperty(DUE);
    String tenant = p == null ? null : p.getProperty(TENANT);
    Stream stream = hub.stream(query);
    String position = null;
    double local = 0;
    if (stream != null && batch != null) {
      long number = Long.parseLong(batch);
      position = stream.position(number, tasks.priority(), tasks.stageId());
      local = number;
    }
    return new Seat(tasks, nextSequence++, Hub.now(), query, position, tenant,
        due == null ? Double.NaN : Double.parseDouble(due), local);
  }

  public ArrayBuffer getSortedTaskSetQueue() {
    hub.slots.adjust();
    long before = System.nanoTime();
    try {
      hub.trip("order");
      double now = Hub.now();
      Decisions d = hub.decisions(now);
      if (d == null || !d.order) return super.getSortedTaskSetQueue();
      return inOrder(d, now);
    } catch (Throwable error) {
      hub.notice("order", "task sets could not be ordered; Spark's own order holds", error);
      return super.getSortedTaskSetQueue();
    } finally {
      sortNanos += System.nanoTime() - before;
      sorts++;
    }
  }

  /**
   * Two levels (§5.2): the task sets of one operator (a stage of a query) by local priority, operators by the global
   * priority of their next task set; ties by arrival, then by Spark's own order.
   */
  private ArrayBuffer inOrder(Decisions d, double now) {
    List ready = new ArrayList();
    for (Iterator i = schedulableQueue().iterator(); i.hasNext(); ) {
      Object child = i.next();
      if (!(child instanceof TaskSetManager)) continue;
      TaskSetManager tasks = (TaskSetManager) child;
      Seat seat = (Seat) seats.get(tasks);
      if (seat == null) {
        seat = seat(tasks);
        seats.put(tasks, seat);
      }
      evaluate(seat, d, now);
      if (tasks.isSchedulable()) ready.add(seat);
    }
    ArrayBuffer queue = new ArrayBuffer(ready.size());
    Object[] ordered = TwoLevels.order(ready.toArray());
    for (int i = 0; i < ordered.length; i++) queue.addOne(((Seat) ordered[i]).tasks);
    return queue;
  }

  private void evaluate(Seat seat, Decisions d, double now) {
    Stream stream = hub.stream(seat.queryId);
    QueryRule rule = stream == null ? null : d.query(seat.queryId);
    if (rule != null) {
      // A query that Laxity leaves alone has no gate to tell when its batch began.
      if (stream.answersWithinTasks()) seat.priority = seat.submitted;
      else if (Double.isNaN(stream.arrival)) seat.priority = seat.submitted + rule.rule.offset;
      else seat.priority = rule.priority(seat.position, stream);
      seat.lax = rule.rule.isDeadline() && seat.priority - now > d.horizon;
    } else {
      seat.priority = Double.isNaN(seat.due) ? seat.submitted + d.bestEffort : seat.due;
      seat.lax = seat.priority - now > d.horizon;
    }
  }

  String tenant(Seat seat) {
    if (seat.tenant != null) return seat.tenant;
    Decisions d = hub.decisions(Hub.now());
    QueryRule rule = d == null ? null : d.query(seat.queryId);
    return rule == null ? "default" : rule.tenant;
  }

  /** Asked for every slot a task set is about to take (see SlotGuard). */
  boolean refuses(TaskSetManager tasks) {
    try {
      hub.trip("caps");
      return isRefused(tasks);
    } catch (Throwable error) {
      hub.notice("caps", "caps and reserved slots do not hold", error);
      return false;
    }
  }

  private boolean isRefused(TaskSetManager tasks) {
    Decisions d = hub.decisions(Hub.now());
    Seat seat = (Seat) seats.get(tasks);
    if (d == null || seat == null) return false;
    if (d.order && d.reserve > 0 && seat.lax && running(null) >= hub.slots.cores()) return true;
    if (d.caps.isEmpty()) return false;
    String tenant = tenant(seat);
    Integer cap = (Integer) d.caps.get(tenant);
    return cap != null && running(tenant) >= cap.intValue();
  }

  /** Tasks running now, of one tenant or of all. */
  private int running(String tenant) {
    int total = 0;
    for (Iterator i = seats.values().iterator(); i.hasNext(); ) {
      Seat seat = (Seat) i.next();
      int tasks = seat.tasks.runningTasks();
      if (tasks > 0 && (tenant == null || tenant.equals(tenant(seat)))) total += tasks;
    }
    return total;
  }

  /** Tasks of a query that are submitted and not done. */
  int unfinishedTasks(String queryId) {
    int total = 0;
    for (Iterator i = seats.values().iterator(); i.hasNext(); ) {
      Seat seat = (Seat) i.next();
      if (queryId.equals(seat.queryId)) total += seat.tasks.numTasks() - seat.tasks.tasksSuccessful();
    }
    return total;
  }

  boolean someWait() {
    for (Iterator i = seats.values().iterator(); i.hasNext(); ) {
      if (((Seat) i.next()).tasks.isSchedulable()) return true;
    }
    return false;
  }

  void revive() {
    scheduler.backend().reviveOffers();
  }

  /** Seconds one call takes on average with what waits now: for the benchmark. */
  public double timeSort(int calls) {
    long before = System.nanoTime();
    synchronized (scheduler) {
      for (int i = 0; i < calls; i++) inOrder(hub.decisions(Hub.now()), Hub.now());
    }
    return (System.nanoTime() - before) / 1e9 / calls;
  }

  void describe(StringBuilder out) {
    Map running = new HashMap();
    for (Iterator i = seats.values().iterator(); i.hasNext(); ) {
      Seat seat = (Seat) i.next();
      String key = seat.queryId == null ? "" : seat.queryId;
      int[] counts = (int[]) running.get(key);
      if (counts == null) running.put(key, counts = new int[2]);
      counts[0] += seat.tasks.runningTasks();
      counts[1] += seat.tasks.numTasks() - seat.tasks.tasksSuccessful() - seat.tasks.runningTasks();
    }
    for (Iterator i = running.entrySet().iterator(); i.hasNext(); ) {
      Map.Entry entry = (Map.Entry) i.next();
      int[] counts = (int[]) entry.getValue();
      out.append("R\tid=").append(entry.getKey()).append("\trunning=").append(counts[0])
          .append("\twaiting=").append(counts[1]).append('\n');
    }
    out.append("P\tsorts=").append(sorts).append("\tnanos=").append(sortNanos).append('\n');
  }
}

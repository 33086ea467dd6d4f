package laxity;

import java.util.Properties;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * Two lanes of task threads in an executor that lives in the driver's JVM (local mode): urgent tasks and lax tasks never
 * share a thread, so each thread can have an operating-system priority of its own, set once, from outside.
 */
public final class TaskThreads extends ThreadPoolExecutor {
  private final Hub hub;
  private final Object executor;
  private final ThreadPoolExecutor stock;
  private final ThreadPoolExecutor urgent;
  private final ThreadPoolExecutor lax;

  public TaskThreads(Hub hub, Object executor) throws Exception {
    super(0, 1, 1, TimeUnit.SECONDS, new LinkedBlockingQueue());
    this.hub = hub;
    this.executor = executor;
    this.stock = (ThreadPoolExecutor) Reflect.get(executor, "threadPool");
    this.urgent = lane(false);
    this.lax = lane(true);
  }

  /** The executor inside the driver, or null on a cluster. */
  public static Object localExecutor(Hub hub) throws Exception {
    Object endpoint = hub.slots.localEndpointOrNull();
    return endpoint == null ? null : Reflect.get(endpoint, "executor");
  }

  private ThreadPoolExecutor lane(boolean lax) {
    ThreadFactory own = stock.getThreadFactory();
    return new ThreadPoolExecutor(
        0, Integer.MAX_VALUE, 60, TimeUnit.SECONDS, new SynchronousQueue(), new Announcing(hub, own, lax));
  }

  private static final class Announcing implements ThreadFactory {
    private final Hub hub;
    private final ThreadFactory factory;
    private final boolean lax;

    Announcing(Hub hub, ThreadFactory factory, boolean lax) {
      this.hub = hub;
      this.factory = factory;
      this.lax = lax;
    }

    public Thread newThread(Runnable work) {
      return factory.newThread(new Announced(hub, work, lax));
    }
  }

  private static final class Announced implements Runnable {
    private final Hub hub;
    private final Runnable work;
    private final boolean lax;

    Announced(Hub hub, Runnable work, boolean lax) {
      this.hub = hub;
      this.work = work;
      this.lax = lax;
    }

    public void run() {
      hub.announceThread("", lax);
      work.run();
    }
  }

  public void install() throws Exception {
    Reflect.set(executor, "threadPool", this);
  }

  /** Tasks that run in our threads finish there; the threads end when they are done. */
  public void uninstall() throws Exception {
    if (Reflect.get(executor, "threadPool") == this) Reflect.set(executor, "threadPool", stock);
    urgent.shutdown();
    lax.shutdown();
  }

  public void execute(Runnable task) {
    boolean slow = false;
    try {
      hub.trip("threads");
      slow = isLax(task);
    } catch (Throwable error) {
      hub.notice("threads", "tasks cannot be told apart; all run with the same priority", error);
    }
    try {
      (slow ? lax : urgent).execute(task);
    } catch (RejectedExecutionException detached) { // between our going and Spark's asking its own pool
      stock.execute(task);
    }
  }

  private boolean isLax(Runnable task) throws Exception {
    double now = Hub.now();
    Decisions d = hub.decisions(now);
    if (d == null) return false;
    Object description = Reflect.get(task, "taskDescription");
    Properties p = (Properties) Reflect.call(description, "properties");
    String due = p.getProperty("laxity.due");
    if (due != null) return Double.parseDouble(due) - now > d.horizon;
    String id = p.getProperty("sql.streaming.queryId");
    Stream stream = hub.stream(id);
    if (stream != null && stream.answersWithinTasks()) return false;
    QueryRule rule = d.query(id);
    return rule == null || !rule.urgent;
  }

  public void shutdown() {
    urgent.shutdown();
    lax.shutdown();
    stock.shutdown();
    super.shutdown();
  }
}

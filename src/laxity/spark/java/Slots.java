package laxity;

import java.lang.reflect.Field;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.scheduler.TaskSchedulerImpl;

/**
 * Slots beyond an executor's cores, reserved for urgent work, and the tokens of tenants.
 *
 * Spark's slots are a count the driver keeps; executors start whatever they are sent. Raising the count lets an urgent
 * task start beside the lax ones, so that the operating system shares the CPU between them at once, instead of waiting
 * for one to end. Lax work never gets more tasks than there are cores (LaxityPool.refuses).
 *
 * The counts belong to the scheduler backend's own thread, which is also the one that asks the pool for its order: they
 * are only touched there.
 */
public final class Slots {
  private final Hub hub;
  private final Map added = new HashMap(); // holder of a count → slots we added
  private volatile int cores = 0;
  private volatile int reserved = 0;
  private volatile boolean releasing = false;
  private volatile boolean failed = false;
  private Object localEndpoint;
  private final ConcurrentHashMap buckets = new ConcurrentHashMap(); // tenant → double[]{interval, used}

  public Slots(Hub hub) {
    this.hub = hub;
  }

  /** Cores of all executors: the most tasks lax work may have. */
  public int cores() {
    return cores > 0 ? cores : Math.max(1, hub.context.defaultParallelism());
  }

  /** Called in the backend's thread before each round of offers. */
  void adjust() {
    if (failed) return;
    try {
      hub.trip("slots");
      Decisions d = hub.decisions(Hub.now());
      int wanted = releasing || d == null || !d.order ? 0 : d.reserve;
      TaskSchedulerImpl scheduler = (TaskSchedulerImpl) hub.context.taskScheduler();
      Object backend = scheduler.backend();
      Map holders = new HashMap();
      int total = 0;
      if (backend.getClass().getSimpleName().equals("LocalSchedulerBackend")) {
        total = ((Number) Reflect.call(backend, "totalCores")).intValue();
        holders.put(localEndpoint(), Boolean.TRUE);
      } else {
        scala.collection.Map executors = (scala.collection.Map) Reflect.get(backend, "executorDataMap");
        scala.collection.Iterator i = executors.valuesIterator();
        while (i.hasNext()) {
          Object executor = i.next();
          total += ((Number) Reflect.call(executor, "totalCores")).intValue();
          holders.put(executor, Boolean.TRUE);
        }
      }
      cores = total;
      for (Iterator i = holders.keySet().iterator(); i.hasNext(); ) top(i.next(), wanted);
      added.keySet().retainAll(holders.keySet());
      int sum = 0;
      for (Iterator i = added.values().iterator(); i.hasNext(); ) sum += ((Integer) i.next()).intValue();
      reserved = sum;
    } catch (Throwable error) {
      failed = true;
      hub.notice("slots", "slots cannot be reserved on this cluster manager", error);
    }
  }

  private void top(Object holder, int wanted) throws Exception {
    Integer have = (Integer) added.get(holder);
    int change = wanted - (have == null ? 0 : have.intValue());
    if (change == 0) return;
    Field free = Reflect.field(holder.getClass(), "freeCores");
    if (free.getType() == Integer.TYPE) {
      free.setInt(holder, free.getInt(holder) + change);
    } else {
      scala.math.BigDecimal count = (scala.math.BigDecimal) free.get(holder);
      free.set(holder, count.$plus(scala.math.BigDecimal.valueOf((long) change)));
    }
    if (wanted == 0) added.remove(holder);
    else added.put(holder, Integer.valueOf(wanted));
  }

  private Object localEndpoint() throws Exception {
    if (localEndpoint == null) localEndpoint = localEndpointOrNull();
    if (localEndpoint == null) throw new IllegalStateException("no LocalEndpoint");
    return localEndpoint;
  }

  /** Where local mode keeps its count of free cores and its executor; null on a cluster. */
  public Object localEndpointOrNull() throws Exception {
    Object dispatcher = Reflect.get(Reflect.get(Reflect.get(hub.context, "_env"), "rpcEnv"), "dispatcher");
    Iterator i = ((Map) Reflect.get(dispatcher, "endpointRefs")).keySet().iterator();
    while (i.hasNext()) {
      Object endpoint = i.next();
      if (endpoint.getClass().getSimpleName().equals("LocalEndpoint")) return endpoint;
    }
    return null;
  }

  /** Take the extra slots back; returns once the backend's thread has done so, or after a few seconds. */
  public void release() throws InterruptedException {
    releasing = true;
    for (int i = 0; i < 300 && reserved > 0 && !failed; i++) {
      ((TaskSchedulerImpl) hub.context.taskScheduler()).backend().reviveOffers();
      Thread.sleep(10);
    }
  }

  /**
   * Token fair sharing: one token is one task-second, granted to a tenant at a rate and spread over each second. A
   * batch takes the tokens its work needs, in advance where it needs more than an interval has; its tag is the moment
   * its first token stands for. Without tokens left it waits behind all that have some.
   */
  void drawToken(Stream stream, double now) {
    Decisions d = hub.decisions(now);
    QueryRule rule = d == null ? null : d.query(stream.id);
    if (rule == null || rule.tokenRate <= 0) {
      stream.token = Double.POSITIVE_INFINITY;
      return;
    }
    double interval = Math.floor(now);
    double[] bucket = (double[]) buckets.get(rule.tenant);
    if (bucket == null) {
      buckets.putIfAbsent(rule.tenant, new double[] {interval, 0});
      bucket = (double[]) buckets.get(rule.tenant);
    }
    synchronized (bucket) {
      if (interval > bucket[0]) {
        bucket[1] = Math.max(0, bucket[1] - (interval - bucket[0]) * rule.tokenRate);
        bucket[0] = interval;
      }
      if (bucket[1] >= rule.tokenRate) {
        stream.token = Double.POSITIVE_INFINITY;
      } else {
        stream.token = interval + bucket[1] / rule.tokenRate;
        bucket[1] += Math.max(rule.batchWork, 0.001);
      }
    }
  }

  void describe(StringBuilder out) {
    out.append("K\tcores=").append(cores()).append("\treserved=").append(reserved).append('\n');
  }
}

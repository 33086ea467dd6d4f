package laxity;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.util.Clock;

/**
 * When a query's next micro-batch starts.
 *
 * Urgent queries pass as soon as a batch is worth its cost: at once, unless they wait for a window to be complete. Lax
 * ones wait, in order of their start deadlines, only while urgent queries exist and the driver or the slots are busy, and
 * never beyond their own start deadline or the longest hold. What arrives meanwhile joins one larger batch.
 */
public final class Gate {
  /** Slack before a start deadline at which a held query passes whatever else goes on. */
  private static final double MARGIN = 0.2;
  private static final long RECHECK_MILLIS = 100;

  private final Hub hub;
  private final Object lock = new Object();
  private final List waiting = new ArrayList(); // of Stream
  private final List admitted = new ArrayList(); // lax streams whose batch runs

  public Gate(Hub hub) {
    this.hub = hub;
  }

  /** Put our clock into the query's trigger; only processing-time triggers have one. */
  public void install(Stream stream) throws Exception {
    Object trigger = Reflect.get(stream.execution, "trigger");
    String kind = trigger.getClass().getSimpleName();
    if (!kind.equals("ProcessingTimeTrigger")) {
      stream.unmanaged = kind;
      return;
    }
    Object executor = Reflect.get(stream.execution, "triggerExecutor");
    if (executor == null) return; // still starting: the next exchange tries again
    long interval = ((Number) Reflect.call(trigger, "intervalMs")).longValue();
    Clock stock = (Clock) Reflect.get(executor, "clock");
    if (!(stock instanceof GateClock)) Reflect.set(executor, "clock", new GateClock(this, stream, stock, interval == 0));
    stream.gated = true;
  }

  public void uninstall(Stream stream) throws Exception {
    stream.smallBatches.interpret(false);
    if (stream.unmanaged != null) return;
    Object executor = Reflect.get(stream.execution, "triggerExecutor");
    if (executor == null) return;
    Object clock = Reflect.get(executor, "clock");
    if (clock instanceof GateClock) {
      ((GateClock) clock).retire();
      Reflect.set(executor, "clock", ((GateClock) clock).stock);
    }
    forget(stream);
    stream.gated = false;
  }

  public void forget(Stream stream) {
    synchronized (lock) {
      admitted.remove(stream);
      waiting.remove(stream);
      lock.notifyAll();
    }
  }

  public void wake() {
    synchronized (lock) {
      lock.notifyAll();
    }
  }

  /** Called in the query's own thread between two batches. */
  public void pass(Stream stream) throws InterruptedException {
    double asked = Hub.now();
    if (!stream.announced) {
      stream.announced = true;
      hub.announceThread(stream.id, false);
    }
    noteArrival(stream, asked);
    leave(stream);
    try {
      hub.trip("moment");
      stream.watermark = stream.plannedWatermark();
      stream.reachedWatermark = stream.trackedWatermark();
      look(stream);
      rest(stream);
      hold(stream, asked);
      hub.slots.drawToken(stream, asked);
    } catch (InterruptedException stop) {
      throw stop;
    } catch (Throwable error) {
      hub.notice("moment", "the trigger gate failed and stays open", error);
    }
    chooseStyle(stream);
    double now = Hub.now();
    stream.lastRead = now;
    stream.enter(Stream.RUNNING, now);
    stream.batchFacts.put(Long.valueOf(nextBatch(stream)), new double[] {now - asked, stream.oldest});
  }

  private void noteArrival(Stream stream, double asked) {
    boolean first = Double.isNaN(stream.lastRead);
    stream.arrival = first ? asked : stream.lastRead;
    double oldest = stream.arrival;
    try {
      hub.trip("backlog");
      if (!first) oldest = stream.backlog.oldest(stream);
    } catch (Throwable error) {
      hub.notice("backlog", "the latency of a query that is behind is measured from its last reading only", error);
    }
    stream.oldest = oldest;
  }

  private void chooseStyle(Stream stream) {
    try {
      hub.trip("plans");
      Decisions d = hub.decisions(Hub.now());
      QueryRule rule = d == null ? null : d.query(stream.id);
      stream.smallBatches.interpret(rule != null && rule.interpreted);
    } catch (Throwable error) {
      hub.notice("plans", "small batches keep running on generated code", error);
    }
  }

  private long nextBatch(Stream stream) {
    try {
      return stream.currentBatch();
    } catch (Exception unknown) {
      return -1;
    }
  }

  /** Did an operation stop the query here? Then it has to pass again. */
  boolean stands(Stream stream) throws InterruptedException {
    try {
      return Boundary.of(stream.id).reached(stream);
    } catch (InterruptedException stop) {
      throw stop;
    } catch (Throwable error) {
      hub.notice("boundary", "an operation on a query was left out", error);
      return false;
    }
  }

  /** The batch before is over: its place is free. */
  private void leave(Stream stream) {
    synchronized (lock) {
      if (admitted.remove(stream)) lock.notifyAll();
    }
  }

  /** Was there nothing to do when the gate was passed last? Then the batch is still the same. */
  private void look(Stream stream) {
    long batch = nextBatch(stream);
    stream.foundNothing = batch == stream.lastBatch;
    stream.lastBatch = batch;
  }

  /**
   * Spark looks for new data a hundred times a second, for every query. One that has time can look less often when there
   * was nothing: the driver's CPU goes to those that have none.
   */
  private void rest(Stream stream) throws InterruptedException {
    Decisions d = stream.foundNothing ? hub.decisions(Hub.now()) : null;
    QueryRule rule = d == null ? null : d.query(stream.id);
    if (rule == null || !d.gate || rule.urgent || rule.pace <= 0 || !urgentQueriesExist(d)) return;
    Thread.sleep((long) (rule.pace * 1000));
  }

  private void hold(Stream stream, double asked) throws InterruptedException {
    synchronized (lock) {
      try {
        boolean queued = false;
        while (true) {
          double now = Hub.now();
          Decisions d = hub.decisions(now);
          QueryRule rule = d == null ? null : d.query(stream.id);
          if (rule == null || !stream.gated) return;
          double wait;
          if (rule.paused) {
            wait = RECHECK_MILLIS / 1000.0;
          } else {
            if (!d.gate || !rule.rule.isDeadline() || !urgentQueriesExist(d)) return;
            if (rule.urgent) {
              wait = Math.min(rule.worthwhile(stream, now), asked + rule.maxHold) - now;
              if (!(wait > 0)) return;
            } else {
              double limit = Math.min(rule.startDeadline(stream) - MARGIN, asked + rule.maxHold);
              if (!(now < limit)) {
                admitted.add(stream);
                return;
              }
              if (!queued) {
                waiting.add(stream);
                queued = true;
              }
              if (isFirst(stream, d) && roomForLax(d)) {
                admitted.add(stream);
                return;
              }
              wait = limit - now;
            }
          }
          if (stream.state != Stream.HELD) stream.enter(Stream.HELD, now);
          lock.wait(Math.max(1, Math.min(RECHECK_MILLIS, (long) (wait * 1000))));
        }
      } finally {
        waiting.remove(stream);
      }
    }
  }

  private boolean urgentQueriesExist(Decisions d) {
    for (Iterator i = hub.streams().iterator(); i.hasNext(); ) {
      QueryRule other = d.query(((Stream) i.next()).id);
      if (other != null && other.urgent) return true;
    }
    return false;
  }

  private boolean isFirst(Stream stream, Decisions d) {
    double mine = d.query(stream.id).startDeadline(stream);
    for (int i = 0; i < waiting.size(); i++) {
      Stream other = (Stream) waiting.get(i);
      QueryRule rule = other == stream ? null : d.query(other.id);
      if (rule == null || rule.paused) continue;
      double theirs = rule.startDeadline(other);
      if (theirs < mine || (theirs == mine && i < waiting.indexOf(stream))) return false;
    }
    return true;
  }

  /**
   * Another lax batch may start if fewer than `planners` of those admitted keep the driver busy (a batch that has no
   * tasks out is being planned or committed) and no more tasks are out than the slots will work off while it is planned.
   */
  private boolean roomForLax(Decisions d) {
    int planning = 0;
    int tasks = 0;
    for (int i = 0; i < admitted.size(); i++) {
      int out = hub.pool == null ? 0 : hub.pool.unfinishedTasks(((Stream) admitted.get(i)).id);
      if (out == 0) planning++;
      tasks += out;
    }
    return planning < d.planners && tasks < 2 * Math.max(1, hub.slots.cores());
  }
}

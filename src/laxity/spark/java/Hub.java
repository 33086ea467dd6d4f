package laxity;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.SparkContext;

/**
 * One attachment of Laxity to a Spark application: what the hooks share.
 *
 * Python calls `exchange` a few times a second: decisions go in, measurements come out. Between two calls the hooks
 * work from the last decisions alone; if Python stops calling, they go stale and Spark behaves as it would by itself.
 */
public final class Hub {
  private static final int MOST_LINES = 20000;
  private static final org.slf4j.Logger LOG = org.slf4j.LoggerFactory.getLogger("laxity");

  public final SparkContext context;
  public final Gate gate = new Gate(this);
  public final Slots slots = new Slots(this);
  private final Object sharedState;
  private final ConcurrentHashMap streams = new ConcurrentHashMap(); // query id → Stream
  private final ConcurrentHashMap limits = new ConcurrentHashMap(); // query id → SourceLimits
  private final ConcurrentLinkedQueue lines = new ConcurrentLinkedQueue();
  private final AtomicInteger lineCount = new AtomicInteger();
  private final Set noticed = ConcurrentHashMap.newKeySet();
  private volatile Decisions decisions = new Decisions("", 0);
  private volatile boolean stale = true;
  private volatile String fault = "";
  private long exchangeNanos = 0;
  public volatile LaxityPool pool;

  public Hub(SparkContext context, Object sharedState) {
    this.context = context;
    this.sharedState = sharedState;
  }

  public static double now() {
    return System.currentTimeMillis() / 1000.0;
  }

  /** The current decisions, or null once they are stale: then every hook steps aside. */
  public Decisions decisions(double now) {
    Decisions d = decisions;
    if (!d.stale(now)) return d;
    if (!stale) {
      stale = true;
      String message = "no decision has come for " + d.staleAfter + " s: Spark schedules on its own until one does";
      notice("stale", message);
      LOG.warn("Laxity: " + message); // Python, which would say so, may be gone
    }
    return null;
  }

  public String exchange(String text) throws Exception {
    long before = System.nanoTime();
    double now = now();
    Decisions d = new Decisions(text, now);
    adoptAll();
    decisions = d;
    if (stale) {
      stale = false;
      noticed.remove("stale");
    }
    applyLimits(text);
    gate.wake();
    // Offers are made when something happens; a cap lifted just now is nothing Spark would see.
    if (pool != null && pool.someWait()) pool.revive();
    StringBuilder out = new StringBuilder();
    for (Object line = lines.poll(); line != null; line = lines.poll()) {
      lineCount.decrementAndGet();
      out.append((String) line).append('\n');
    }
    describe(out, now);
    exchangeNanos += System.nanoTime() - before;
    out.append("X\tnanos=").append(exchangeNanos).append('\n');
    return out.toString();
  }

  private void describe(StringBuilder out, double now) {
    for (Iterator i = streams.values().iterator(); i.hasNext(); ) {
      Stream s = (Stream) i.next();
      out.append("S\tid=").append(s.id).append("\trun=").append(s.runId).append("\tname=").append(Fields.encode(s.name))
          .append("\tstate=").append(s.state).append("\tsince=").append(s.stateSince)
          .append("\tgated=").append(s.gated ? 1 : 0)
          .append("\tarrival=").append(s.lastRead).append("\twatermark=").append(s.watermark);
      if (s.unmanaged != null) out.append("\tunmanaged=").append(Fields.encode(s.unmanaged));
      out.append('\n');
    }
    LaxityPool p = pool;
    if (p != null) p.describe(out);
    slots.describe(out);
  }

  // Streams.

  public Stream stream(String id) {
    return id == null ? null : (Stream) streams.get(id);
  }

  public Collection streams() {
    return streams.values();
  }

  /** Take up queries that appeared, let go of those that are gone. */
  public void adoptAll() throws Exception {
    Collection running = ((ConcurrentHashMap) Reflect.call(sharedState, "activeStreamingQueries")).values();
    Set seen = new HashSet();
    for (Iterator i = running.iterator(); i.hasNext(); ) {
      Object execution = i.next();
      String id = String.valueOf(Reflect.call(execution, "id"));
      seen.add(id);
      adopt(id, execution);
    }
    for (Iterator i = streams.values().iterator(); i.hasNext(); ) {
      Stream s = (Stream) i.next();
      if (!seen.contains(s.id)) {
        i.remove();
        limits.remove(s.id);
        gate.forget(s);
      }
    }
  }

  private synchronized void adopt(String id, Object execution) {
    try {
      Stream stream = stream(id);
      if (stream == null || stream.execution != execution) {
        stream = new Stream(execution);
        streams.put(id, stream);
        limits.remove(id);
      }
      if (!stream.gated && stream.unmanaged == null) gate.install(stream);
    } catch (Throwable error) {
      notice("adopt " + id, "query " + id + " could not be taken up", error);
    }
  }

  // Sizes.

  private void applyLimits(String text) {
    String[] all = text.split("\n");
    for (int i = 0; i < all.length; i++) {
      if (!all[i].startsWith("L\t")) continue;
      Fields f = new Fields(all[i]);
      String id = f.text("id", "");
      Stream stream = stream(id);
      if (stream == null) continue;
      try {
        trip("size");
        SourceLimits own = (SourceLimits) limits.get(id);
        if (own == null) {
          own = new SourceLimits(stream);
          limits.put(id, own);
        }
        own.apply((long) f.number("value", 0));
      } catch (Throwable error) {
        notice("size " + id, "the batch size of query " + id + " could not be set", error);
      }
    }
  }

  // Threads.

  /**
   * The calling thread works for a query (or, without an id, for a lane of tasks): tell Python its Linux id, so that it
   * can be given a priority. On other systems there is nothing to tell.
   */
  public void announceThread(String queryId, boolean lax) {
    try {
      java.nio.file.Path self = java.nio.file.Files.readSymbolicLink(java.nio.file.Paths.get("/proc/thread-self", new String[0]));
      report("H\ttid=" + self.getFileName() + "\tid=" + queryId + "\tlax=" + (lax ? 1 : 0));
    } catch (Exception notLinux) {
      // priorities are a bonus
    }
  }

  // Reports.

  public void report(String line) {
    if (lineCount.incrementAndGet() > MOST_LINES) { // nobody listens: keep the newest
      if (lines.poll() != null) lineCount.decrementAndGet();
    }
    lines.add(line);
  }

  public void notice(String key, String message, Throwable error) {
    notice(key, message + ": " + error);
  }

  /** Tell the user, once. */
  public void notice(String key, String message) {
    if (noticed.add(key)) report("N\tkey=" + Fields.encode(key) + "\tmessage=" + Fields.encode(message));
  }

  /** Make a hook throw, to test that Spark goes on without it. */
  public void setFault(String hook) {
    fault = hook;
  }

  public void trip(String hook) {
    if (fault.length() > 0 && fault.equals(hook)) throw new IllegalStateException("fault injected into " + hook);
  }

  /** Put back clocks and limits; the pool and the slots are put back by their own. */
  public void release() throws Exception {
    decisions = new Decisions("", 0);
    Boundary.releaseAll();
    Replan.forgetAll();
    List all = new ArrayList(streams.values());
    for (int i = 0; i < all.size(); i++) {
      Stream stream = (Stream) all.get(i);
      gate.uninstall(stream);
      SourceLimits own = (SourceLimits) limits.get(stream.id);
      if (own != null) own.restore();
    }
    gate.wake();
    streams.clear();
    limits.clear();
  }
}

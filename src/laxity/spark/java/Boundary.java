package laxity;

import java.util.Iterator;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxFiles;
import org.apache.spark.sql.connector.read.streaming.ReadMaxRows;
import scala.Tuple2;

/**
 * The place between two micro-batches of a query: the barrier that control operations ride.
 *
 * Whoever wants to change the query raises the barrier; the query's own thread stops there, with no batch in flight and
 * everything before it committed, until it is lowered. A lease bounds the wait: if Python dies, the query goes on.
 */
public final class Boundary {
  private static final ConcurrentHashMap PLACES = new ConcurrentHashMap(); // query id → Boundary

  private final Object lock = new Object();
  private boolean raised;
  private boolean parked;
  private boolean expired;
  private double leaseEnd;
  private long batch = -1;
  private double pace;
  private double lastStart = Double.NaN;
  private long limit;
  private boolean limitChanged;
  private Object limited; // the execution whose limits were noted
  private scala.collection.immutable.Map ownLimits;

  private Boundary() {}

  public static Boundary of(String id) {
    Boundary fresh = new Boundary();
    Boundary known = (Boundary) PLACES.putIfAbsent(id, fresh);
    return known == null ? fresh : known;
  }

  /** Laxity steps aside: nobody may be left standing, or slowed. */
  public static void releaseAll() {
    for (Iterator i = PLACES.values().iterator(); i.hasNext(); ) {
      Boundary place = (Boundary) i.next();
      synchronized (place.lock) {
        place.raised = false;
        place.pace = 0;
        place.restoreLimits();
        place.lock.notifyAll();
      }
    }
    PLACES.clear();
  }

  // From Python.

  public void block(double lease) {
    synchronized (lock) {
      raised = true;
      expired = false;
      leaseEnd = Hub.now() + lease;
      lock.notifyAll();
    }
  }

  /** The batch that will run next once the query stands at the barrier; -1 if it does not within the time. */
  public long standing(long millis) throws InterruptedException {
    long end = System.currentTimeMillis() + millis;
    synchronized (lock) {
      while (!parked) {
        long left = end - System.currentTimeMillis();
        if (left <= 0) return -1;
        lock.wait(left);
      }
      return batch;
    }
  }

  /** Let the query go on. False if it had gone on by itself, because the lease had run out. */
  public boolean lower() {
    synchronized (lock) {
      raised = false;
      lock.notifyAll();
      return !expired;
    }
  }

  public void renew(double lease) {
    synchronized (lock) {
      leaseEnd = Hub.now() + lease;
    }
  }

  /** At least so many seconds between two looks at the sources; zero for as soon as possible. */
  public void setPace(double seconds) {
    synchronized (lock) {
      pace = seconds;
      lock.notifyAll();
    }
  }

  /** At most so many rows (or files, by the source) a batch from each source; zero for the query's own limit. */
  public void setLimit(long amount) {
    synchronized (lock) {
      limit = amount;
      limitChanged = true;
    }
  }

  // From the query's thread.

  /** True if the query stood here: it then has to pass the gate again, which may hold other orders now. */
  public boolean reached(Stream stream) throws InterruptedException {
    synchronized (lock) {
      boolean stood = false;
      while (true) {
        double now = Hub.now();
        if (raised && now < leaseEnd) {
          stand(stream);
          stood = true;
        } else if (raised) {
          raised = false;
          expired = true;
        } else if (stood) {
          return true;
        } else if (pace > 0 && now < lastStart + pace) {
          lock.wait(Math.max(1, (long) ((lastStart + pace - now) * 1000)));
        } else {
          break;
        }
      }
      lastStart = Hub.now();
      applyLimit(stream);
      return false;
    }
  }

  /** The wait of a trigger with an interval; operations are served meanwhile. */
  public void waitUntil(Stream stream, long millis) throws InterruptedException {
    synchronized (lock) {
      for (long left = millis - System.currentTimeMillis(); left > 0; left = millis - System.currentTimeMillis()) {
        if (raised && Hub.now() < leaseEnd) stand(stream);
        else lock.wait(Math.min(left, 1000));
      }
    }
  }

  private void stand(Stream stream) throws InterruptedException {
    try {
      batch = stream.currentBatch();
    } catch (Exception unknown) {
      batch = -1;
    }
    parked = true;
    lock.notifyAll();
    try {
      while (raised) {
        double left = leaseEnd - Hub.now();
        if (left <= 0) {
          expired = true;
          raised = false;
          return;
        }
        lock.wait(Math.max(1, (long) (left * 1000)));
      }
    } finally {
      parked = false;
    }
  }

  // Batch size.

  private void applyLimit(Stream stream) {
    if (limited == stream.execution && !limitChanged) return;
    if (limited == null && limit == 0) return;
    try {
      if (limited != stream.execution) {
        limited = stream.execution;
        ownLimits = (scala.collection.immutable.Map) Reflect.get(stream.execution, "uniqueSources");
      }
      scala.collection.immutable.Map map = ownLimits;
      scala.collection.Iterator entries = ownLimits.iterator();
      while (limit > 0 && entries.hasNext()) {
        Tuple2 entry = (Tuple2) entries.next();
        map = (scala.collection.immutable.Map) map.updated(entry._1(), bounded(entry._1(), (ReadLimit) entry._2()));
      }
      Reflect.set(stream.execution, "uniqueSources", map);
      limitChanged = false;
    } catch (Exception error) {
      throw new IllegalStateException("the batch size could not be set: " + error, error);
    }
  }

  private void restoreLimits() {
    if (limited == null || ownLimits == null) return;
    try {
      Reflect.set(limited, "uniqueSources", ownLimits);
    } catch (Exception gone) {
      // the query has ended
    }
  }

  private ReadLimit bounded(Object source, ReadLimit own) {
    String unit = SourceLimits.unit(source);
    boolean all = own instanceof ReadAllAvailable;
    if (unit.equals("rows") && (all || own instanceof ReadMaxRows)) return ReadLimit.maxRows(limit);
    if (unit.equals("files") && (all || own instanceof ReadMaxFiles)) {
      return ReadLimit.maxFiles((int) Math.min(limit, Integer.MAX_VALUE));
    }
    return own;
  }
}

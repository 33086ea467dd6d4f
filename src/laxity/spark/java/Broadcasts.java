package laxity;

import org.apache.spark.SparkConf;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.broadcast.BroadcastFactory;
import org.apache.spark.util.SerializableConfiguration;
import scala.reflect.ClassTag;

/**
 * What every micro-batch sends to executors beside its rows, made cheap. Spark allocates a block of 4 MB for each
 * broadcast however small it is, some sixteen megabytes a batch, which keep the garbage collector busy.
 */
public final class Broadcasts implements BroadcastFactory {
  private static final String BLOCK_SIZE = "spark.broadcast.blockSize";
  private static final int SMALL = 1 << 20;
  private static final int CONFIGURATION_KILOBYTES = 256; // more than one takes, compressed

  private final Hub hub;
  private final Object manager;
  private final BroadcastFactory stock;
  private final boolean ownSize; // did the user choose a block size?

  public Broadcasts(Hub hub) throws Exception {
    this.hub = hub;
    this.manager = Reflect.get(Reflect.get(hub.context, "_env"), "broadcastManager");
    this.stock = (BroadcastFactory) Reflect.get(manager, "broadcastFactory");
    this.ownSize = hub.context.conf().contains(BLOCK_SIZE);
  }

  public void install() throws Exception {
    Reflect.set(manager, "broadcastFactory", this);
  }

  public void uninstall() throws Exception {
    if (Reflect.get(manager, "broadcastFactory") == this) Reflect.set(manager, "broadcastFactory", stock);
  }

  public Broadcast newBroadcast(Object value, boolean isLocal, long id, boolean serializedOnly, ClassTag type) {
    try {
      hub.trip("broadcasts");
      if (value instanceof SerializableConfiguration) {
        return sized(CONFIGURATION_KILOBYTES, value, isLocal, id, serializedOnly, type);
      }
      if (value instanceof byte[] && ((byte[]) value).length < SMALL) {
        return sized(2 + ((byte[]) value).length / 1024, value, isLocal, id, serializedOnly, type);
      }
    } catch (Throwable error) {
      hub.notice("broadcasts", "tasks are sent as stock Spark sends them", error);
    }
    return stock.newBroadcast(value, isLocal, id, serializedOnly, type);
  }

  /** Spark looks the block size up for each broadcast; two at a time may get each other's, which does no harm. */
  private Broadcast sized(int kilobytes, Object value, boolean isLocal, long id, boolean serializedOnly, ClassTag type) {
    if (ownSize) return stock.newBroadcast(value, isLocal, id, serializedOnly, type);
    SparkConf conf = hub.context.conf();
    conf.set(BLOCK_SIZE, kilobytes + "k");
    try {
      return stock.newBroadcast(value, isLocal, id, serializedOnly, type);
    } finally {
      conf.remove(BLOCK_SIZE);
    }
  }

  public boolean newBroadcast$default$4() {
    return false;
  }

  public void initialize(boolean isDriver, SparkConf conf) {}

  public void unbroadcast(long id, boolean removeFromDriver, boolean blocking) {
    stock.unbroadcast(id, removeFromDriver, blocking);
  }

  public void stop() {
    stock.stop();
  }
}

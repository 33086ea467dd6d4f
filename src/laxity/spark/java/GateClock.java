package laxity;

import org.apache.spark.unsafe.Platform;
import org.apache.spark.util.Clock;

/**
 * The clock of a query's trigger. Spark asks it for the time before each batch, and with an interval also waits on it;
 * both in the query's own thread, before offsets are read: the place to hold a batch back at no cost.
 */
public final class GateClock implements Clock {
  public final Clock stock;
  private final Gate gate;
  private final Stream stream;
  private final boolean immediate;
  private volatile boolean retired;

  public GateClock(Gate gate, Stream stream, Clock stock, boolean immediate) {
    this.gate = gate;
    this.stream = stream;
    this.stock = stock;
    this.immediate = immediate;
  }

  public void retire() {
    retired = true;
  }

  /** With no interval this is asked exactly once a batch, at its start. */
  public long getTimeMillis() {
    if (immediate) pass();
    return stock.getTimeMillis();
  }

  public long nanoTime() {
    return stock.nanoTime();
  }

  public long waitTillTime(long target) {
    if (retired) {
      stock.waitTillTime(target);
    } else {
      try {
        Boundary.of(stream.id).waitUntil(stream, target);
      } catch (InterruptedException stop) {
        Platform.throwException(stop);
      }
      pass();
    }
    return stock.getTimeMillis();
  }

  private void pass() {
    if (retired) return;
    try {
      gate.pass(stream);
      while (!retired && gate.stands(stream)) {
        stream.lastRead = stream.arrival; // what arrived while it stood there has waited since then
        gate.pass(stream);
      }
    } catch (InterruptedException stop) {
      Platform.throwException(stop); // stop() interrupts; Spark knows the exception by its type
    }
  }
}

package laxity;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;

/** The order of Cameo's two-level queue, for a set that is there at once (laxity.core.queue holds one over time). */
public final class TwoLevels {
  private TwoLevels() {}

  /** Like Double.compare, but zero equals minus zero, as everywhere else. */
  private static int byValue(double a, double b) {
    return a < b ? -1 : a > b ? 1 : a == b ? 0 : Double.compare(a, b);
  }

  /** One operator's task sets by local priority, seen through the first that is left. */
  private static final class Operator {
    final List seats = new ArrayList();
    int next = 0;

    LaxityPool.Seat head() {
      return (LaxityPool.Seat) seats.get(next);
    }
  }

  private static final class ByLocal implements Comparator {
    public int compare(Object a, Object b) {
      LaxityPool.Seat x = (LaxityPool.Seat) a;
      LaxityPool.Seat y = (LaxityPool.Seat) b;
      int c = byValue(x.local, y.local);
      return c != 0 ? c : Long.compare(x.sequence, y.sequence);
    }
  }

  private static final class ByGlobal implements Comparator {
    public int compare(Object a, Object b) {
      LaxityPool.Seat x = a instanceof Operator ? ((Operator) a).head() : (LaxityPool.Seat) a;
      LaxityPool.Seat y = b instanceof Operator ? ((Operator) b).head() : (LaxityPool.Seat) b;
      int c = byValue(x.priority, y.priority);
      return c != 0 ? c : Long.compare(x.sequence, y.sequence);
    }
  }

  private static final Comparator BY_LOCAL = new ByLocal();
  private static final Comparator BY_GLOBAL = new ByGlobal();

  public static Object[] order(Object[] seats) {
    Map operators = new HashMap();
    boolean alone = true;
    for (int i = 0; i < seats.length; i++) {
      LaxityPool.Seat seat = (LaxityPool.Seat) seats[i];
      // Work outside streaming queries has no operator in common.
      Object key = seat.queryId == null ? (Object) seat : seat.queryId + " " + seat.position;
      Operator operator = (Operator) operators.get(key);
      if (operator == null) operators.put(key, operator = new Operator());
      else alone = false;
      operator.seats.add(seat);
    }
    if (alone) { // one task set an operator, as nearly always
      Arrays.sort(seats, BY_GLOBAL);
      return seats;
    }
    PriorityQueue heads = new PriorityQueue(Math.max(1, operators.size()), BY_GLOBAL);
    Object[] all = operators.values().toArray();
    for (int i = 0; i < all.length; i++) {
      java.util.Collections.sort(((Operator) all[i]).seats, BY_LOCAL);
      heads.add(all[i]);
    }
    Object[] ordered = new Object[seats.length];
    for (int i = 0; i < ordered.length; i++) {
      Operator operator = (Operator) heads.poll();
      ordered[i] = operator.head();
      operator.next++;
      if (operator.next < operator.seats.size()) heads.add(operator);
    }
    return ordered;
  }
}

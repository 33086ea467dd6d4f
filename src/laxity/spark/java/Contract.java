package laxity;

import java.util.ArrayList;
import java.util.List;

/**
 * The rules and the queue without a running job, for the test that feeds the same contexts to laxity.core and to these
 * classes (tests/spark/test_rules.py). A context is a line of the wire format: the query's id, the stage's position, the
 * local priority, and the facts a rule looks at.
 */
public final class Contract {
  private Contract() {}

  /** The global priority of each context, as text that is exact. */
  public static String priorities(String decisions, String contexts) {
    StringBuilder out = new StringBuilder();
    List seats = seats(decisions, contexts);
    for (int i = 0; i < seats.size(); i++) out.append(((LaxityPool.Seat) seats.get(i)).priority).append('\n');
    return out.toString();
  }

  /** The contexts' numbers, from 0, in the order they would get slots. */
  public static String order(String decisions, String contexts) {
    StringBuilder out = new StringBuilder();
    Object[] ordered = TwoLevels.order(seats(decisions, contexts).toArray());
    for (int i = 0; i < ordered.length; i++) out.append(((LaxityPool.Seat) ordered[i]).sequence).append('\n');
    return out.toString();
  }

  private static List seats(String decisions, String contexts) {
    Decisions d = new Decisions(decisions, 0);
    List seats = new ArrayList();
    String[] lines = contexts.split("\n");
    for (int i = 0; i < lines.length; i++) {
      Fields f = new Fields(lines[i]);
      String id = f.text("id", "");
      String position = f.text("at", "");
      LaxityPool.Seat seat =
          new LaxityPool.Seat(null, i, 0, id, position, null, Double.NaN, f.number("local", 0));
      seat.priority = d.query(id).priority(
          position, f.number("arrival", 0), f.number("progress", Double.NaN), f.number("token", 0));
      seats.add(seat);
    }
    return seats;
  }
}

package laxity;

import java.util.HashMap;
import java.util.Map;

/** Everything Python decided at one moment. Immutable; the hooks read it and keep nothing else. */
public final class Decisions {
  public final Map queries = new HashMap(); // query id → QueryRule
  public final Map caps = new HashMap(); // tenant → most tasks at a time
  public final double stamp;
  /** Older than this, decisions no longer count: order falls back to arrival and gates open. */
  public final double staleAfter;
  public final boolean order;
  public final boolean gate;
  /** Slots an executor has beyond its cores, for work whose laxity is below `horizon` only. */
  public final int reserve;
  public final double horizon;
  public final int planners;
  /** The target of work nobody gave one, and where non-streaming jobs wait meanwhile. */
  public final double bestEffort;

  public Decisions(String text, double now) {
    stamp = now;
    String[] lines = text.split("\n");
    Fields all = new Fields("G");
    for (int i = 0; i < lines.length; i++) {
      if (lines[i].length() == 0) continue;
      Fields f = new Fields(lines[i]);
      if (f.kind.equals("G")) all = f;
      else if (f.kind.equals("Q")) queries.put(f.text("id", ""), new QueryRule(f));
      else if (f.kind.equals("C")) caps.put(f.text("tenant", ""), Integer.valueOf((int) f.number("slots", 0)));
    }
    staleAfter = all.number("stale", 5);
    order = all.flag("order");
    gate = all.flag("gate");
    reserve = (int) all.number("reserve", 0);
    horizon = all.number("horizon", 2);
    planners = (int) all.number("planners", 1);
    bestEffort = all.number("best", 600);
  }

  public boolean stale(double now) {
    return now - stamp > staleAfter;
  }

  public QueryRule query(String id) {
    return id == null ? null : (QueryRule) queries.get(id);
  }
}

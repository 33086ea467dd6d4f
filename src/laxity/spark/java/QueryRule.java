package laxity;

import java.util.HashMap;
import java.util.Map;

/** What Python decided for one query. Immutable: a new one replaces it a few times a second. */
public final class QueryRule {
  public final String tenant;
  public final Rule rule;
  /** Offset of the rule for a stage of the micro-batch, by position; where absent, the rule's own. */
  public final Map stageOffsets;
  /** Offset for the micro-batch as a whole: what the trigger gate compares with now. */
  public final double batchOffset;
  /** Does this query answer within moments, so that others make room for it? */
  public final boolean urgent;
  public final boolean paused;
  public final double maxHold;
  /** How long to leave the sources alone after looking there in vain, while urgent queries exist. */
  public final double pace;
  /**
   * An urgent query's batches begin at its frontier, and this many seconds before it, and twice as many, and so on:
   * zero lets it begin whenever it likes.
   */
  public final double step;
  /** How far the predicted frontier may be off. */
  public final double margin;
  /** How long a batch takes. */
  public final double takes;
  /** Are its batches too small for generated code to be worth generating? */
  public final boolean interpreted;
  /** The work of one micro-batch in task-seconds, and the tenant's tokens (task-seconds a second). */
  public final double batchWork;
  public final double tokenRate;

  public QueryRule(Fields f) {
    tenant = f.text("tenant", "default");
    rule = new Rule(
        (int) f.number("base", Rule.ARRIVAL), f.number("offset", 0), f.number("slide", 0), f.number("origin", 0),
        f.number("delay", 0), f.number("p0", 0), f.number("t0", 0), f.number("slope", 1));
    batchOffset = f.number("batch", rule.offset);
    urgent = f.flag("urgent");
    paused = f.flag("paused");
    maxHold = f.number("hold", 0);
    pace = f.number("pace", 0);
    step = f.number("step", 0);
    margin = f.number("margin", 0);
    takes = f.number("takes", 0);
    interpreted = f.flag("interpreted");
    batchWork = f.number("work", 0);
    tokenRate = f.number("tokens", 0);
    Map offsets = new HashMap();
    String stages = f.text("stages", "");
    if (stages.length() > 0) {
      String[] parts = stages.split(",");
      for (int i = 0; i < parts.length; i++) {
        int at = parts[i].indexOf(':');
        offsets.put(parts[i].substring(0, at), Double.valueOf(parts[i].substring(at + 1)));
      }
    }
    stageOffsets = offsets;
  }

  public double priority(String position, Stream stream) {
    return priority(position, stream.arrival, progress(stream), stream.token);
  }

  double priority(String position, double arrival, double progress, double token) {
    Double stage = position == null ? null : (Double) stageOffsets.get(position);
    return rule.baseValue(arrival, progress, token) + (stage == null ? rule.offset : stage.doubleValue());
  }

  /** The moment by which the stream's next micro-batch must have started. */
  public double startDeadline(Stream stream) {
    return rule.baseValue(stream.arrival, progress(stream), stream.token) + batchOffset;
  }

  /**
   * When an urgent query's next batch is worth its cost: a batch before the window is complete only brings work forward,
   * and every batch costs its fixed part. In the past if it should begin at once.
   */
  public double worthwhile(Stream stream, double now) {
    if (step <= 0) return now;
    if (rule.base != Rule.FRONTIER) return stream.foundNothing ? now : stream.lastRead + step;
    double reached = stream.reachedWatermark;
    if (!(stream.watermark == stream.watermark) || !(reached == reached)) return now; // not known yet
    double next = rule.frontierProgress(reached + rule.delay);
    if (rule.frontierProgress(stream.watermark + rule.delay) < next) return now; // a window waits to be emitted
    double frontier = rule.time(next) + margin;
    if (frontier <= now) return now;
    double steps = Math.floor((frontier - now) / step);
    double start = frontier - steps * step;
    // The start before this one was missed: make it up, if that leaves the frontier free.
    if (stream.lastRead < start - step) start = now;
    return start + takes > frontier ? frontier : start;
  }

  /** A watermark trails the stream's progress by the delay; rules speak of progress. */
  private double progress(Stream stream) {
    return stream.watermark + rule.delay;
  }
}

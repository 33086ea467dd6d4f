package laxity;

/**
 * The twin of laxity.core.rules.PriorityRule. Both do the same operations on doubles in the same order, so that they
 * agree to the last bit; tests/spark/test_rules.py feeds both.
 */
public final class Rule {
  public static final int CONSTANT = 0;
  public static final int ARRIVAL = 1;
  public static final int FRONTIER = 2;
  public static final int TOKEN = 3;

  public final int base;
  public final double offset;
  public final double slide;
  public final double origin;
  public final double delay;
  public final double p0;
  public final double t0;
  public final double slope;

  public Rule(int base, double offset, double slide, double origin, double delay, double p0, double t0, double slope) {
    this.base = base;
    this.offset = offset;
    this.slide = slide;
    this.origin = origin;
    this.delay = delay;
    this.p0 = p0;
    this.t0 = t0;
    this.slope = slope;
  }

  public double evaluate(double arrival, double progress, double token) {
    return baseValue(arrival, progress, token) + offset;
  }

  public double baseValue(double arrival, double progress, double token) {
    if (base == CONSTANT) return 0.0;
    if (base == TOKEN) return token;
    if (base == FRONTIER && progress == progress) { // known: not NaN
      double time = time(frontierProgress(progress));
      return arrival > time ? arrival : time; // a window is not complete before what it waits for
    }
    return arrival;
  }

  /** When the sources reach a progress. */
  public double time(double progress) {
    return t0 + slope * (progress - p0);
  }

  public double frontierProgress(double progress) {
    return (Math.floor((progress - delay - origin) / slide) + 1.0) * slide + origin + delay;
  }

  /** Is the value a moment in time, so that laxity (value − now) has a meaning? */
  public boolean isDeadline() {
    return base == ARRIVAL || base == FRONTIER;
  }
}

package laxity;

import org.apache.spark.sql.RuntimeConfig;
import org.apache.spark.sql.SparkSession;

/**
 * Whether a query's batches run on generated code. Spark writes Java for every batch anew and looks it up in a cache of
 * what was compiled before: for a thousand rows that costs more than it saves, so small batches are interpreted. It is
 * chosen between two batches, in the query's own session, and changes no result. Who set any of it decides himself.
 */
public final class PlanStyle {
  private static final String[][] INTERPRETED = {
    {"spark.sql.codegen.wholeStage", "false"}, {"spark.sql.codegen.factoryMode", "NO_CODEGEN"},
  };

  private final Stream stream;
  private boolean interpreted;

  public PlanStyle(Stream stream) {
    this.stream = stream;
  }

  public synchronized void interpret(boolean wanted) throws Exception {
    if (wanted == interpreted) return;
    RuntimeConfig conf = ((SparkSession) Reflect.call(stream.execution, "sparkSessionForStream")).conf();
    for (int i = 0; i < INTERPRETED.length; i++) {
      if (wanted && ((Boolean) Reflect.call(conf, "contains", new Object[] {INTERPRETED[i][0]})).booleanValue()) return;
    }
    for (int i = 0; i < INTERPRETED.length; i++) {
      if (wanted) conf.set(INTERPRETED[i][0], INTERPRETED[i][1]);
      else conf.unset(INTERPRETED[i][0]);
    }
    interpreted = wanted;
  }
}

package laxity;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.ConcatWs;
import org.apache.spark.sql.catalyst.expressions.EvalMode$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count$;
import org.apache.spark.sql.catalyst.expressions.aggregate.HyperLogLogPlusPlus;
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.CollectMetrics;
import org.apache.spark.sql.catalyst.plans.logical.Deduplicate;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.types.StringType$;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampType;
import scala.Option;

/**
 * Orders for the plan of a query's next batches: count keys in one batch of some, spread the load of a hot key.
 *
 * Spark plans every batch anew, and this rule runs among its optimisations. It must find its own work when it is run on
 * a plan twice, and it fails open: a plan it cannot change stays as it is, and the order says why.
 */
public final class Replan extends org.apache.spark.sql.catalyst.rules.Rule {
  public static final String METRICS = "laxity";
  private static final int HEAVIEST = 16;
  private static final int TRACKED = 1024;

  private static final ConcurrentHashMap ORDERS = new ConcurrentHashMap(); // query id → Orders

  private static final class Orders {
    volatile int every; // batches from one that counts to the next; 0 for none
    volatile List columns = new ArrayList(); // names to count by, or none: the query's own keys
    volatile Skew repair;
    volatile String problem = "";
  }

  private final SparkContext context;

  public Replan(SparkContext context) {
    this.context = context;
  }

  // From Python, while the query stands at a boundary.

  /** In the query's own session, so that it works for queries that run already. */
  public static synchronized void install(Object execution) throws Exception {
    Object session = Reflect.call(execution, "sparkSessionForStream");
    org.apache.spark.sql.ExperimentalMethods methods = (org.apache.spark.sql.ExperimentalMethods) Reflect.call(session, "experimental");
    scala.collection.Iterator rules = methods.extraOptimizations().iterator();
    while (rules.hasNext()) if (rules.next() instanceof Replan) return;
    Replan rule = new Replan((SparkContext) Reflect.call(session, "sparkContext"));
    methods.extraOptimizations_$eq((scala.collection.immutable.Seq) methods.extraOptimizations().appended(rule));
  }

  public static void monitor(String id, int every, List columns) {
    Orders orders = orders(id);
    orders.columns = new ArrayList(columns);
    orders.every = every;
    orders.problem = "";
  }

  /** `method`: broadcast, salt or none. */
  public static void repair(String id, String method, List hot, int ways) {
    Orders orders = orders(id);
    orders.repair = method.equals("none") ? null : new Skew(method.equals("broadcast"), hot, ways);
    orders.problem = "";
  }

  /** Why the last batch's plan was left as it was; empty if it was not. */
  public static String problem(String id) {
    return orders(id).problem;
  }

  private static Orders orders(String id) {
    Orders fresh = new Orders();
    Orders known = (Orders) ORDERS.putIfAbsent(id, fresh);
    return known == null ? fresh : known;
  }

  public static void forgetAll() {
    ORDERS.clear();
  }

  // While a batch is planned.

  public TreeNode apply(TreeNode plan) {
    String id = context.getLocalProperty("sql.streaming.queryId");
    Orders orders = id == null ? null : (Orders) ORDERS.get(id);
    if (orders == null) return plan;
    LogicalPlan changed = (LogicalPlan) plan;
    if (!changed.isStreaming()) return plan; // what foreachBatch does with the batch is not the query
    try {
      if (orders.every > 0 && isTurn(orders.every)) changed = counted(changed, orders.columns);
      Skew repair = orders.repair;
      if (repair != null) changed = repair.spread(changed);
      return changed;
    } catch (Throwable error) {
      orders.problem = String.valueOf(error.getMessage());
      return plan;
    }
  }

  private boolean isTurn(int every) {
    String batch = context.getLocalProperty("streaming.sql.batchId");
    return batch == null || Long.parseLong(batch) % every == 0;
  }

  private static LogicalPlan counted(LogicalPlan plan, List columns) {
    if (find(plan, 'M') != null) return plan;
    LogicalPlan place;
    List keys = new ArrayList();
    if (columns.isEmpty()) {
      place = keysOf(plan, keys);
      if (place == null) throw new IllegalStateException("the query groups and joins by no key; name the columns to count");
    } else {
      place = placeOf(plan, columns, keys);
      if (place == null) throw new IllegalStateException("no column of the query's input is named " + columns);
    }
    return Trees.replaced(plan, place, new CollectMetrics(METRICS, metrics(keys), place, 0L));
  }

  /** The keys of the query's first join, aggregation or deduplication, and what they are computed from. */
  private static LogicalPlan keysOf(LogicalPlan plan, List keys) {
    Join join = (Join) find(plan, 'J');
    if (join != null) {
      scala.Tuple8 parts = (scala.Tuple8) ExtractEquiJoinKeys$.MODULE$.unapply(join).get();
      boolean left = join.left().isStreaming();
      Trees.addAll(keys, (scala.collection.Seq) (left ? parts._2() : parts._3()));
      return left ? join.left() : join.right();
    }
    Aggregate aggregate = (Aggregate) find(plan, 'A');
    if (aggregate != null) {
      List all = new ArrayList();
      Trees.addAll(all, aggregate.groupingExpressions());
      for (Iterator i = all.iterator(); i.hasNext(); ) { // time says nothing about skew
        Expression key = (Expression) i.next();
        if (!(key.dataType() instanceof StructType) && !(key.dataType() instanceof TimestampType)) keys.add(key);
      }
      if (!keys.isEmpty()) return aggregate.child();
    }
    Deduplicate deduplicate = (Deduplicate) find(plan, 'D');
    if (deduplicate == null) return null;
    Trees.addAll(keys, deduplicate.keys());
    return deduplicate.child();
  }

  /** The first node in a plan, from the top: a streaming (J)oin by keys, (A)ggregate, (D)eduplicate; our (M)etrics. */
  private static LogicalPlan find(LogicalPlan node, char kind) {
    switch (kind) {
      case 'J':
        if (node instanceof Join && node.isStreaming() && ExtractEquiJoinKeys$.MODULE$.unapply((Join) node).isDefined()) return node;
        break;
      case 'A': if (node instanceof Aggregate && node.isStreaming()) return node; break;
      case 'D': if (node instanceof Deduplicate && node.isStreaming()) return node; break;
      default: if (node instanceof CollectMetrics && ((CollectMetrics) node).name().equals(METRICS)) return node;
    }
    scala.collection.Iterator children = node.children().iterator();
    while (children.hasNext()) {
      LogicalPlan found = find((LogicalPlan) children.next(), kind);
      if (found != null) return found;
    }
    return null;
  }

  /** The lowest streaming node that has columns of these names. */
  private static LogicalPlan placeOf(LogicalPlan node, List columns, List keys) {
    scala.collection.Iterator children = node.children().iterator();
    while (children.hasNext()) {
      LogicalPlan found = placeOf((LogicalPlan) children.next(), columns, keys);
      if (found != null) return found;
    }
    if (!node.isStreaming()) return null;
    List found = new ArrayList();
    for (Iterator i = columns.iterator(); i.hasNext(); ) {
      String wanted = (String) i.next();
      scala.collection.Iterator output = node.output().iterator();
      while (output.hasNext()) {
        Attribute column = (Attribute) output.next();
        if (column.name().equals(wanted)) found.add(column);
      }
    }
    if (found.size() < columns.size()) return null;
    keys.addAll(found);
    return node;
  }

  private static scala.collection.immutable.Seq metrics(List keys) {
    List out = new ArrayList();
    Expression text = text(keys);
    out.add(named("rows", Count$.MODULE$.apply(Literal$.MODULE$.apply(Integer.valueOf(1)))));
    out.add(named("keys", new HyperLogLogPlusPlus(text, 0.02, 0, 0)));
    AggregateFunction heaviest = heaviest(text);
    if (heaviest != null) out.add(named("heaviest", heaviest));
    return Trees.seq(out);
  }

  /** A sketch of the heaviest keys; Spark has one from 4.1 on. */
  private static AggregateFunction heaviest(Expression text) {
    try {
      Class type = Class.forName("org.apache.spark.sql.catalyst.expressions.aggregate.ApproxTopK", true, text.getClass().getClassLoader());
      return (AggregateFunction) type.getConstructor(new Class[] {Expression.class, int.class, int.class})
          .newInstance(new Object[] {text, Integer.valueOf(HEAVIEST), Integer.valueOf(TRACKED)});
    } catch (Exception before41) {
      return null;
    }
  }

  private static Alias named(String name, AggregateFunction function) {
    return Trees.alias(function.toAggregateExpression(), name);
  }

  /** Keys as one text, as they are shown and compared. */
  static Expression text(List keys) {
    List texts = new ArrayList();
    for (Iterator i = keys.iterator(); i.hasNext(); ) {
      Expression key = (Expression) i.next();
      boolean already = key.dataType() == StringType$.MODULE$;
      texts.add(already ? key : new Cast(key, StringType$.MODULE$, Option.apply("UTC"), EvalMode$.MODULE$.LEGACY()));
    }
    if (texts.size() == 1) return (Expression) texts.get(0);
    texts.add(0, Literal$.MODULE$.apply("|"));
    return new ConcatWs(Trees.seq(texts));
  }
}

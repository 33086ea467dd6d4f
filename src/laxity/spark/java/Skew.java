package laxity;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Explode;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.Murmur3Hash;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.Pmod;
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys$;
import org.apache.spark.sql.catalyst.plans.logical.BROADCAST$;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.HintInfo;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinHint;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.IntegerType$;
import org.apache.spark.sql.types.Metadata;
import scala.Option;
import scala.Tuple8;
import scala.collection.immutable.Nil$;

/**
 * Spreads the load of a hot key in a join of a stream with a table: Chi's figure 5a, at Spark's grain.
 *
 * Broadcast: every task has the whole table, so no row travels to where its key lives. Salt: a hot key becomes several;
 * a row of the stream gets one of them by its content, the table's rows of that key are repeated for each. The result
 * is the same in either case: Spark allows the stream only on the side whose rows are kept, and each row of the stream
 * still meets each of its partners once.
 */
public final class Skew {
  private static final String SALT = "laxity_salt";

  private final boolean broadcast;
  private final List hot; // of String
  private final int ways;

  Skew(boolean broadcast, List hot, int ways) {
    this.broadcast = broadcast;
    this.hot = new ArrayList(hot);
    this.ways = ways;
  }

  /** The join of a stream and a table by keys, or null. */
  static Join join(LogicalPlan node) {
    if (node instanceof Join) {
      Join join = (Join) node;
      if (join.left().isStreaming() != join.right().isStreaming() && ExtractEquiJoinKeys$.MODULE$.unapply(join).isDefined()) return join;
    }
    scala.collection.Iterator children = node.children().iterator();
    while (children.hasNext()) {
      Join found = join((LogicalPlan) children.next());
      if (found != null) return found;
    }
    return null;
  }

  LogicalPlan spread(LogicalPlan plan) {
    Join join = join(plan);
    if (join == null) throw new IllegalStateException("the query joins no stream with a table by a key");
    boolean left = join.left().isStreaming();
    if (broadcast) {
      if (!join.hint().leftHint().isEmpty() || !join.hint().rightHint().isEmpty()) return plan;
      Option hint = Option.apply(new HintInfo(Option.apply(BROADCAST$.MODULE$)));
      JoinHint both = left ? new JoinHint(Option.empty(), hint) : new JoinHint(hint, Option.empty());
      return Trees.replaced(plan, join, new Join(join.left(), join.right(), join.joinType(), join.condition(), both));
    }
    if (salted(join)) return plan;
    return Trees.replaced(plan, join, salt(join, left));
  }

  private static boolean salted(Join join) {
    scala.collection.Iterator columns = join.left().output().iterator();
    while (columns.hasNext()) if (((org.apache.spark.sql.catalyst.expressions.Attribute) columns.next()).name().equals(SALT)) return true;
    return false;
  }

  private LogicalPlan salt(Join join, boolean left) {
    Tuple8 parts = (Tuple8) ExtractEquiJoinKeys$.MODULE$.unapply(join).get();
    List streamKeys = new ArrayList(), tableKeys = new ArrayList();
    Trees.addAll(streamKeys, (scala.collection.Seq) (left ? parts._2() : parts._3()));
    Trees.addAll(tableKeys, (scala.collection.Seq) (left ? parts._3() : parts._2()));
    LogicalPlan stream = left ? join.left() : join.right();
    LogicalPlan table = left ? join.right() : join.left();

    // By content, so that a task that is repeated salts its rows as it did before.
    Expression any = new Pmod(new Murmur3Hash((scala.collection.immutable.Seq) stream.output(), 42), number(ways));
    Alias streamSalt = Trees.alias(new If(isHot(streamKeys), any, number(0)), SALT);
    List columns = new ArrayList();
    Trees.addAll(columns, stream.output());
    columns.add(streamSalt);
    LogicalPlan saltedStream = new Project(Trees.seq(columns), stream);

    AttributeReference tableSalt = new AttributeReference(SALT, IntegerType$.MODULE$, false, Metadata.empty(),
        NamedExpression$.MODULE$.newExprId(), (scala.collection.immutable.Seq) (Object) Nil$.MODULE$);
    List generated = new ArrayList();
    generated.add(tableSalt);
    Expression salts = new If(isHot(tableKeys), numbers(ways), numbers(1));
    LogicalPlan saltedTable = new Generate(new Explode(salts), (scala.collection.immutable.Seq) (Object) Nil$.MODULE$, false,
        Option.empty(), Trees.seq(generated), table);

    Expression same = new EqualTo(streamSalt.toAttribute(), tableSalt);
    Expression condition = new And((Expression) join.condition().get(), same);
    Join spread = new Join(left ? saltedStream : saltedTable, left ? saltedTable : saltedStream, join.joinType(),
        Option.apply(condition), join.hint());
    return new Project((scala.collection.immutable.Seq) join.output(), spread);
  }

  private Expression isHot(List keys) {
    List literals = new ArrayList();
    for (Iterator i = hot.iterator(); i.hasNext(); ) literals.add(Literal$.MODULE$.apply(i.next()));
    return new In(Replan.text(keys), Trees.seq(literals));
  }

  private static Expression number(int value) {
    return Literal$.MODULE$.apply(Integer.valueOf(value));
  }

  private static Expression numbers(int count) {
    Object[] all = new Object[count];
    for (int i = 0; i < count; i++) all[i] = Integer.valueOf(i);
    return new Literal(new GenericArrayData(all), new ArrayType(IntegerType$.MODULE$, false));
  }

  /** What a repair would meet: how the query joins now, how large the table is, what else holds it back. */
  public static String describe(Object execution) throws Exception {
    Object last = Reflect.call(execution, "lastExecution");
    if (last == null) return "";
    LogicalPlan plan = (LogicalPlan) Reflect.call(last, "optimizedPlan");
    String physical = String.valueOf(Reflect.call(last, "executedPlan"));
    Join join = join(plan);
    StringBuilder out = new StringBuilder("J");
    out.append("\tshuffled=").append(physical.contains("SortMergeJoin") || physical.contains("ShuffledHashJoin") ? 1 : 0);
    out.append("\tbroadcast=").append(physical.contains("BroadcastHashJoin") ? 1 : 0);
    out.append("\tstreams=").append(physical.contains("StreamingSymmetricHashJoin") ? 1 : 0);
    out.append("\taggregates=").append(physical.contains("StateStoreSave") || physical.contains("SessionWindowStateStoreSave") ? 1 : 0);
    if (join != null) {
      LogicalPlan table = join.left().isStreaming() ? join.right() : join.left();
      out.append("\tbytes=").append(table.stats().sizeInBytes().toString());
    }
    return out.toString();
  }
}

package laxity;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.Option;
import scala.collection.immutable.Nil$;

/** Building and exchanging parts of Spark's plans from Java. */
final class Trees {
  private Trees() {}

  static scala.collection.immutable.Seq seq(List items) {
    return ((scala.collection.mutable.Buffer) scala.jdk.javaapi.CollectionConverters.asScala(items)).toList();
  }

  static void addAll(List to, scala.collection.Seq from) {
    scala.collection.Iterator items = from.iterator();
    while (items.hasNext()) to.add(items.next());
  }

  static Alias alias(Expression expression, String name) {
    return new Alias(expression, name, NamedExpression$.MODULE$.newExprId(), (scala.collection.immutable.Seq) (Object) Nil$.MODULE$,
        Option.empty(), (scala.collection.immutable.Seq) (Object) Nil$.MODULE$);
  }

  /** The plan with one of its nodes exchanged for another. */
  static LogicalPlan replaced(LogicalPlan plan, LogicalPlan old, LogicalPlan fresh) {
    return (LogicalPlan) plan.transformUp(new Exchange(old, fresh));
  }

  private static final class Exchange extends scala.runtime.AbstractPartialFunction implements java.io.Serializable {
    private final LogicalPlan old;
    private final LogicalPlan fresh;

    Exchange(LogicalPlan old, LogicalPlan fresh) {
      this.old = old;
      this.fresh = fresh;
    }

    public boolean isDefinedAt(Object x) {
      return x == old;
    }

    public Object applyOrElse(Object x, scala.Function1 otherwise) {
      return x == old ? fresh : otherwise.apply(x);
    }
  }
}

package laxity;

import java.io.ByteArrayOutputStream;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.api.java.UDF2;
import org.apache.spark.sql.api.java.UDF3;
import org.apache.spark.sql.api.java.UDF4;
import org.apache.spark.sql.api.java.UDF5;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ScalaUDF;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.expressions.UserDefinedFunction;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataType;

/**
 * Variables and functions whose meaning is chosen batch by batch.
 *
 * A column made by `variable` or `function` is a marker. Spark optimises the plan of every micro-batch anew; this rule
 * then puts today's expression in the marker's place. All markers of a batch are replaced from one map, and that map is
 * only exchanged while the query stands at a boundary: no batch sees a mixture.
 */
public final class Variables extends org.apache.spark.sql.catalyst.rules.Rule {
  private static final String VARIABLE = "laxity_variable";
  private static final String FUNCTION = "laxity_function";
  private static final String ARGUMENT = "laxity_argument";
  private static final String FOLDER = "laxity/control";

  /** Query id → Chosen. */
  private static final ConcurrentHashMap QUERIES = new ConcurrentHashMap();
  /** Function → label → Expression over arguments; the label "" holds the first label's name. */
  private static final ConcurrentHashMap BODIES = new ConcurrentHashMap();
  private static volatile Object sharedState;

  /** What one run of a query has been told. */
  private static final class Chosen {
    final Object execution;
    volatile Map values; // name → Expression, or a String: the label of a function's body

    Chosen(Object execution, Map values) {
      this.execution = execution;
      this.values = values;
    }
  }

  public static final class Stub implements UDF1, UDF2, UDF3, UDF4, UDF5, java.io.Serializable {
    private static Object unbound() {
      throw new IllegalStateException("a Laxity variable was not bound: call laxity.attach(spark) before the query starts");
    }

    public Object call(Object a) { return unbound(); }

    public Object call(Object a, Object b) { return unbound(); }

    public Object call(Object a, Object b, Object c) { return unbound(); }

    public Object call(Object a, Object b, Object c, Object d) { return unbound(); }

    public Object call(Object a, Object b, Object c, Object d, Object e) { return unbound(); }
  }

  // Markers.

  public static Column variable(String name, Column otherwise, DataType type) {
    return functions.udf((UDF2) new Stub(), type).withName(VARIABLE).asNonNullable()
        .apply(new Column[] {functions.lit(name), otherwise});
  }

  public static Column argument(int at, DataType type) {
    return functions.udf((UDF1) new Stub(), type).withName(ARGUMENT).apply(new Column[] {functions.lit(Integer.valueOf(at))});
  }

  public static Column function(String name, List arguments, DataType type) {
    Column[] all = new Column[arguments.size() + 1];
    all[0] = functions.lit(name);
    for (int i = 0; i < arguments.size(); i++) all[i + 1] = (Column) arguments.get(i);
    UserDefinedFunction udf;
    switch (all.length) {
      case 1: udf = functions.udf((UDF1) new Stub(), type); break;
      case 2: udf = functions.udf((UDF2) new Stub(), type); break;
      case 3: udf = functions.udf((UDF3) new Stub(), type); break;
      case 4: udf = functions.udf((UDF4) new Stub(), type); break;
      default: udf = functions.udf((UDF5) new Stub(), type);
    }
    return udf.withName(FUNCTION).apply(all);
  }

  private static boolean is(Object x, String marker) {
    return x instanceof ScalaUDF && ((ScalaUDF) x).udfName().isDefined() && ((ScalaUDF) x).udfName().get().equals(marker);
  }

  private static String name(Object marker) {
    return ((Expression) ((ScalaUDF) marker).children().head()).toString();
  }

  // What a query has.

  /** A line for each variable and function that the query's plan names, or that a batch of it has used. */
  public static String describe(Object execution) throws Exception {
    Finder finder = new Finder();
    ((LogicalPlan) Reflect.call(execution, "analyzedPlan")).transformAllExpressions(finder);
    StringBuilder out = new StringBuilder();
    for (Iterator i = finder.found.values().iterator(); i.hasNext(); ) {
      ScalaUDF marker = (ScalaUDF) i.next();
      boolean variable = is(marker, VARIABLE);
      out.append(variable ? "V" : "F").append("\tname=").append(Fields.encode(name(marker)))
          .append("\ttype=").append(Fields.encode(marker.dataType().catalogString()));
      if (variable) out.append("\tsql=").append(Fields.encode(((Expression) marker.children().apply(1)).sql()));
      out.append('\n');
    }
    return out.toString();
  }

  private static final class Finder extends scala.runtime.AbstractPartialFunction implements java.io.Serializable {
    final Map found = new TreeMap();

    public boolean isDefinedAt(Object x) {
      if (is(x, VARIABLE) || is(x, FUNCTION)) found.put(name(x), x);
      return false;
    }

    public Object applyOrElse(Object x, scala.Function1 otherwise) {
      isDefinedAt(x);
      return otherwise.apply(x);
    }
  }

  // What it is told.

  /** The one expression that a data set of one column selects, as far as Spark can evaluate it beforehand. */
  public static Expression expression(Object dataset) throws Exception {
    Object execution = Reflect.call(dataset, "queryExecution");
    Expression analyzed = head((LogicalPlan) Reflect.call(execution, "analyzed"));
    // Optimising would take Python functions out of the expression.
    return hasPython(analyzed) ? analyzed : head((LogicalPlan) Reflect.call(execution, "optimizedPlan"));
  }

  private static Expression head(LogicalPlan plan) {
    Expression first = (Expression) plan.expressions().head();
    return first instanceof Alias ? ((Alias) first).child() : first;
  }

  private static boolean hasPython(Expression e) {
    if (e.getClass().getSimpleName().equals("PythonUDF")) return true;
    scala.collection.Iterator children = e.children().iterator();
    while (children.hasNext()) if (hasPython((Expression) children.next())) return true;
    return false;
  }

  public static void define(String function, String label, Expression body) {
    ConcurrentHashMap labels = new ConcurrentHashMap();
    ConcurrentHashMap known = (ConcurrentHashMap) BODIES.putIfAbsent(function, labels);
    if (known != null) labels = known;
    labels.putIfAbsent("", label);
    labels.put(label, body);
  }

  /** Exchange some values, all at once, from the next batch on. Only while the query stands at a boundary. */
  public static void choose(Object execution, Map changes) throws Exception {
    Chosen chosen = chosen(execution);
    Map next = new HashMap(chosen.values);
    for (Iterator i = changes.entrySet().iterator(); i.hasNext(); ) {
      Map.Entry e = (Map.Entry) i.next();
      if (e.getValue() == null) next.remove(e.getKey());
      else next.put(e.getKey(), e.getValue());
    }
    chosen.values = Collections.unmodifiableMap(next);
  }

  public static String current(Object execution) throws Exception {
    return text(chosen(execution).values);
  }

  private static String text(Map values) {
    StringBuilder out = new StringBuilder();
    for (Iterator i = new TreeMap(values).entrySet().iterator(); i.hasNext(); ) {
      Map.Entry e = (Map.Entry) i.next();
      boolean label = e.getValue() instanceof String;
      String value = label ? (String) e.getValue() : ((Expression) e.getValue()).sql();
      out.append(label ? "F" : "V").append("\tname=").append(Fields.encode((String) e.getKey()))
          .append(label ? "\tlabel=" : "\tsql=").append(Fields.encode(value)).append('\n');
    }
    return out.toString();
  }

  private static Chosen chosen(Object execution) throws Exception {
    String id = String.valueOf(Reflect.call(execution, "id"));
    Chosen known = (Chosen) QUERIES.get(id);
    if (known != null && known.execution == execution) return known;
    Chosen fresh = new Chosen(execution, load(execution));
    QUERIES.put(id, fresh);
    return fresh;
  }

  // In the checkpoint, so that a query that is started again, or whose batch is repeated, goes on with what it had.

  public static void save(Object execution, long batch) throws Exception {
    Path folder = folder(execution);
    FileSystem files = files(execution, folder);
    files.mkdirs(folder);
    Path hidden = new Path(folder, "." + batch);
    FSDataOutputStream out = files.create(hidden, true);
    out.write(current(execution).getBytes("UTF-8"));
    out.close();
    Path place = new Path(folder, String.valueOf(batch));
    files.delete(place, false);
    files.rename(hidden, place);
  }

  private static Map load(Object execution) throws Exception {
    Path folder = folder(execution);
    FileSystem files = files(execution, folder);
    if (!files.exists(folder)) return Collections.EMPTY_MAP;
    FileStatus[] all = files.listStatus(folder);
    long last = -1;
    for (int i = 0; i < all.length; i++) {
      String own = all[i].getPath().getName();
      if (own.length() > 0 && Character.isDigit(own.charAt(0))) last = Math.max(last, Long.parseLong(own));
    }
    if (last < 0) return Collections.EMPTY_MAP;
    ByteArrayOutputStream text = new ByteArrayOutputStream();
    FSDataInputStream in = files.open(new Path(folder, String.valueOf(last)));
    byte[] buffer = new byte[4096];
    for (int n = in.read(buffer); n >= 0; n = in.read(buffer)) text.write(buffer, 0, n);
    in.close();
    Map values = new HashMap();
    String[] lines = text.toString("UTF-8").split("\n");
    for (int i = 0; i < lines.length; i++) {
      if (lines[i].length() == 0) continue;
      Fields f = new Fields(lines[i]);
      Object value = f.kind.equals("F") ? (Object) f.text("label", "") : constant(execution, f.text("sql", "NULL"));
      values.put(f.text("name", ""), value);
    }
    return Collections.unmodifiableMap(values);
  }

  private static Expression constant(Object execution, String sql) throws Exception {
    Object session = Reflect.call(execution, "sparkSession");
    return expression(Reflect.call(session, "sql", new Object[] {"SELECT " + sql}));
  }

  private static Path folder(Object execution) throws Exception {
    return new Path((String) Reflect.call(execution, "resolvedCheckpointRoot"), FOLDER);
  }

  private static FileSystem files(Object execution, Path at) throws Exception {
    Object session = Reflect.call(execution, "sparkSession");
    return at.getFileSystem(((SparkContext) Reflect.call(session, "sparkContext")).hadoopConfiguration());
  }

  // The rule.

  /** Make markers work in a session; queries started from it afterwards inherit the rule. */
  public static synchronized void install(Object session) throws Exception {
    sharedState = Reflect.call(session, "sharedState");
    org.apache.spark.sql.ExperimentalMethods methods = (org.apache.spark.sql.ExperimentalMethods) Reflect.call(session, "experimental");
    scala.collection.Iterator rules = methods.extraOptimizations().iterator();
    while (rules.hasNext()) if (rules.next() instanceof Variables) return;
    methods.extraOptimizations_$eq((scala.collection.immutable.Seq) methods.extraOptimizations().appended(new Variables()));
  }

  public TreeNode apply(TreeNode plan) {
    Binder binder = new Binder();
    TreeNode bound = ((LogicalPlan) plan).transformAllExpressions(binder);
    if (!binder.python) return bound;
    return org.apache.spark.sql.execution.python.ExtractPythonUDFs$.MODULE$.apply((LogicalPlan) bound);
  }

  /** What the query whose batch this thread plans has been told; nothing outside of one. */
  private static Map valuesHere() {
    try {
      String id = ((SparkContext) Reflect.call(sharedState, "sparkContext")).getLocalProperty("sql.streaming.queryId");
      if (id == null) return Collections.EMPTY_MAP;
      Map running = (Map) Reflect.call(sharedState, "activeStreamingQueries");
      Object execution = running.get(UUID.fromString(id));
      return execution == null ? Collections.EMPTY_MAP : chosen(execution).values;
    } catch (RuntimeException error) {
      throw error;
    } catch (Exception error) {
      throw new IllegalStateException("the variables of a query cannot be read: " + error, error);
    }
  }

  private static final class Binder extends scala.runtime.AbstractPartialFunction implements java.io.Serializable {
    private transient Map values;
    boolean python;

    public boolean isDefinedAt(Object x) {
      return is(x, VARIABLE) || is(x, FUNCTION);
    }

    public Object applyOrElse(Object x, scala.Function1 otherwise) {
      if (!isDefinedAt(x)) return otherwise.apply(x);
      if (values == null) values = valuesHere();
      Object value = values.get(name(x));
      ScalaUDF marker = (ScalaUDF) x;
      if (is(x, VARIABLE)) return value == null ? marker.children().apply(1) : value;
      return body(marker, value);
    }

    private Expression body(ScalaUDF marker, Object label) {
      String function = name(marker);
      Map labels = (Map) BODIES.get(function);
      Object wanted = label != null || labels == null ? label : labels.get("");
      Expression body = labels == null ? null : (Expression) labels.get(String.valueOf(wanted));
      if (body == null) {
        throw new IllegalStateException("function " + function + " has no version '" + wanted + "' in this program; define it");
      }
      if (hasPython(body)) python = true;
      return (Expression) body.transform(new Arguments(marker));
    }
  }

  private static final class Arguments extends scala.runtime.AbstractPartialFunction implements java.io.Serializable {
    private final ScalaUDF marker;

    Arguments(ScalaUDF marker) {
      this.marker = marker;
    }

    public boolean isDefinedAt(Object x) {
      return is(x, ARGUMENT);
    }

    public Object applyOrElse(Object x, scala.Function1 otherwise) {
      if (!isDefinedAt(x)) return otherwise.apply(x);
      return marker.children().apply(Integer.parseInt(name(x)) + 1);
    }
  }
}

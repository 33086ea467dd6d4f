package laxity;

import java.io.File;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.streaming.StreamingQueryListener;

/**
 * Keeps an application that has lost a query from committing for it. Before a batch's offsets are fixed and before it is
 * committed, in the query's own thread, two files are looked at: that of the epoch this application claimed must be there
 * (or the store has gone away), that of the next epoch must not (or another application runs the query by now). Python may
 * be paused or dead meanwhile: nothing of it is needed.
 */
public final class CommitFence extends StreamingQueryListener {
  private final Object sharedState;
  private final ConcurrentHashMap guards = new ConcurrentHashMap(); // checkpoint root -> File[] {mine, next}

  public CommitFence(Object sharedState) {
    this.sharedState = sharedState;
  }

  public void guard(String root, String mine, String next) {
    guards.put(clean(root), new File[] {new File(mine), new File(next)});
  }

  public void release(String root) {
    guards.remove(clean(root));
  }

  /** In the query's thread, before its first batch. A query of the fleet that cannot be fenced must not run. */
  public void onQueryStarted(StreamingQueryListener.QueryStartedEvent e) {
    ConcurrentHashMap running = (ConcurrentHashMap) call(sharedState, "activeStreamingQueries");
    Object execution = running.get(e.id());
    if (execution == null) return;
    String root = clean((String) call(execution, "resolvedCheckpointRoot"));
    if (!guards.containsKey(root)) return; // not of the fleet
    try {
      wrap(call(execution, "offsetLog"), root);
      wrap(call(execution, "commitLog"), root);
    } catch (Exception error) {
      guards.put(root, new File[] {new File(root, "laxity-fence/unfenced"), new File(root)}); // nothing passes
      throw new IllegalStateException("cannot fence " + root, error);
    }
  }

  private static Object call(Object target, String name) {
    try {
      return Reflect.call(target, name);
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }

  private void wrap(Object log, String root) throws Exception {
    Object manager = Reflect.get(log, "fileManager");
    Class type = Reflect.field(log.getClass(), "fileManager").getType();
    Reflect.set(log, "fileManager",
        Proxy.newProxyInstance(type.getClassLoader(), new Class[] {type}, new Handler(this, manager, root)));
  }

  void check(String root) {
    File[] guard = (File[]) guards.get(root);
    if (guard == null) throw new IllegalStateException("laxity: this application has given up " + root);
    if (guard[1].exists())
      throw new IllegalStateException("laxity: fenced, another application runs the query of " + root);
    if (!guard[0].exists())
      throw new IllegalStateException("laxity: the checkpoint store is away, no lease at " + guard[0]);
  }

  private static String clean(String root) {
    String path = root.startsWith("file:") ? root.substring(5) : root;
    while (path.startsWith("//")) path = path.substring(1);
    while (path.endsWith("/")) path = path.substring(0, path.length() - 1);
    return path;
  }

  public void onQueryProgress(StreamingQueryListener.QueryProgressEvent e) {}

  public void onQueryTerminated(StreamingQueryListener.QueryTerminatedEvent e) {}

  private static final class Handler implements InvocationHandler {
    private final CommitFence fence;
    private final Object manager;
    private final String root;

    Handler(CommitFence fence, Object manager, String root) {
      this.fence = fence;
      this.manager = manager;
      this.root = root;
    }

    public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
      if (method.getName().equals("createAtomic")) fence.check(root);
      try {
        return method.invoke(manager, arguments);
      } catch (InvocationTargetException error) {
        throw error.getCause();
      }
    }
  }
}

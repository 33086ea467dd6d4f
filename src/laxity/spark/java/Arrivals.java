package laxity;

import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.streaming.StreamingQueryListener;

/**
 * Sees each query of a session the moment it starts: Spark calls this in the query's own thread, before its logs and
 * sources exist, so a local checkpoint can still be told to use the file system in LocalFiles.
 */
public final class Arrivals extends StreamingQueryListener {
  private static final String MANAGER_KEY = "spark.sql.streaming.checkpointFileManagerClass";

  private final Hub hub;
  private final Object sharedState;
  private final String manager; // class name, or null: leave checkpoints alone

  public Arrivals(Hub hub, Object sharedState, String manager) {
    this.hub = hub;
    this.sharedState = sharedState;
    this.manager = manager;
  }

  public void onQueryStarted(StreamingQueryListener.QueryStartedEvent e) {
    if (manager == null) return;
    try {
      hub.trip("files");
      ConcurrentHashMap running = (ConcurrentHashMap) Reflect.call(sharedState, "activeStreamingQueries");
      Object execution = running.get(e.id());
      if (execution == null) return;
      String root = (String) Reflect.call(execution, "resolvedCheckpointRoot");
      if (!root.startsWith("file:") && !root.startsWith("/")) return;
      Object session = Reflect.call(execution, "sparkSessionForStream");
      Object settings = Reflect.call(session, "conf");
      if (!((Boolean) Reflect.call(settings, "contains", new Object[] {MANAGER_KEY})).booleanValue()) {
        settings.getClass().getMethod("set", new Class[] {String.class, String.class})
            .invoke(settings, new Object[] {MANAGER_KEY, manager});
      }
    } catch (Throwable error) {
      hub.notice("files", "checkpoint files are written as stock Spark writes them", error);
    }
  }

  public void onQueryProgress(StreamingQueryListener.QueryProgressEvent e) {}

  public void onQueryTerminated(StreamingQueryListener.QueryTerminatedEvent e) {}
}

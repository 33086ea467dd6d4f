package laxity;

import java.lang.reflect.Constructor;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.streaming.StreamingQueryListener;

/**
 * Sees each query of a session the moment it starts: Spark calls this in the query's own thread, before its first batch,
 * so a local checkpoint can still be told to use the file system in LocalFiles.
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
        // State stores ask for the setting later; these two logs have their manager already.
        Object conf = Reflect.call(Reflect.call(session, "sessionState"), "newHadoopConf");
        replaceManager(Reflect.call(execution, "offsetLog"), conf);
        replaceManager(Reflect.call(execution, "commitLog"), conf);
      }
    } catch (Throwable error) {
      hub.notice("files", "checkpoint files are written as stock Spark writes them", error);
    }
  }

  private void replaceManager(Object log, Object conf) throws Exception {
    Class type = Class.forName(manager, true, log.getClass().getClassLoader());
    Constructor constructor = type.getConstructor(new Class[] {Path.class, Configuration.class});
    Object path = Reflect.get(log, "metadataPath");
    Reflect.set(log, "fileManager", constructor.newInstance(new Object[] {path, conf}));
  }

  public void onQueryProgress(StreamingQueryListener.QueryProgressEvent e) {}

  public void onQueryTerminated(StreamingQueryListener.QueryTerminatedEvent e) {}
}

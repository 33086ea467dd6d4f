package laxity;

import java.io.IOException;
import java.lang.reflect.Method;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Local checkpoint files without forked shell commands: Hadoop's own file system starts `chmod` for every file unless
 * its native library is there; java.nio sets the same bits in microseconds. Files, names and checksums stay the same, so
 * a checkpoint moves freely between this and stock Spark.
 */
public final class LocalFiles extends RawLocalFileSystem {
  private static final URI ROOT = URI.create("file:///");

  public void setPermission(Path path, FsPermission permission) throws IOException {
    String bits = permission.toString().substring(0, 9).replace('t', 'x').replace('T', '-');
    try {
      Files.setPosixFilePermissions(pathToFile(path).toPath(), PosixFilePermissions.fromString(bits));
    } catch (UnsupportedOperationException notPosix) {
      super.setPermission(path, permission);
    }
  }

  /** Serve `file:` in this JVM; returns what served it before. */
  public static FileSystem install(Configuration conf) throws Exception {
    FileSystem before = FileSystem.get(ROOT, conf);
    if (before instanceof LocalFileSystem && ((LocalFileSystem) before).getRaw() instanceof LocalFiles) return before;
    LocalFileSystem checked = new LocalFileSystem(new LocalFiles());
    checked.initialize(ROOT, conf);
    cache(conf, checked);
    return before;
  }

  public static void uninstall(Configuration conf, FileSystem before) throws Exception {
    cache(conf, before);
  }

  private static void cache(Configuration conf, FileSystem fs) throws Exception {
    Method add = FileSystem.class.getDeclaredMethod(
        "addFileSystemForTesting", new Class[] {URI.class, Configuration.class, FileSystem.class});
    add.setAccessible(true);
    add.invoke(null, new Object[] {ROOT, conf, fs});
  }
}

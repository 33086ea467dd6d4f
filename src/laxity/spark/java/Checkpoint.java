package laxity;

import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.util.TreeSet;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.fs.Path;

/**
 * The files of a query's checkpoint, while no batch is in flight.
 *
 * What belongs to a batch says so in its name: `offsets/N` and `commits/N`, `state/…/N+1.*` (a version is a batch and
 * one), `state/…/_metadata/v2/N`, and our own `laxity/control/N` (values from batch N on). So a checkpoint is taken
 * back to a batch by moving later files out of the way; nothing is deleted.
 */
public final class Checkpoint {
  private static final String OURS = "laxity";

  private final Configuration conf;
  private final Path root;
  private final FileSystem files;

  public Checkpoint(Object conf, Object root) throws Exception {
    this.conf = (Configuration) conf;
    this.root = new Path((String) root);
    this.files = this.root.getFileSystem(this.conf);
  }

  // Looking.

  /** The batches that are committed, ascending, separated by commas. */
  public String committed() throws Exception {
    TreeSet found = new TreeSet();
    FileStatus[] all = list(new Path(root, "commits"));
    for (int i = 0; i < all.length; i++) {
      long batch = number(all[i].getPath().getName());
      if (batch >= 0 && !all[i].getPath().getName().startsWith(".")) found.add(Long.valueOf(batch));
    }
    String text = found.toString();
    return text.substring(1, text.length() - 1);
  }

  public String read(String relative) throws Exception {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    FSDataInputStream in = files.open(new Path(root, relative));
    byte[] buffer = new byte[8192];
    for (int n = in.read(buffer); n >= 0; n = in.read(buffer)) out.write(buffer, 0, n);
    in.close();
    return out.toString("UTF-8");
  }

  /** The values of variables as they were chosen last, as Variables keeps them; "" if they never were. */
  public String control() throws Exception {
    FileStatus[] all = list(new Path(root, OURS + "/control"));
    long last = -1;
    for (int i = 0; i < all.length; i++) {
      if (!all[i].getPath().getName().startsWith(".")) last = Math.max(last, number(all[i].getPath().getName()));
    }
    return last < 0 ? "" : read(OURS + "/control/" + last);
  }

  public boolean exists() throws Exception {
    return files.exists(root);
  }

  /** The first place that lacks the state as of after `batch`, or "". Spark cleans old versions up. */
  public String missingState(long batch, int partitions) throws Exception {
    FileStatus[] operators = list(new Path(root, "state"));
    for (int i = 0; i < operators.length; i++) {
      if (!operators[i].isDirectory() || number(operators[i].getPath().getName()) < 0) continue;
      for (int p = 0; p < partitions; p++) {
        Path place = new Path(operators[i].getPath(), String.valueOf(p));
        if (!hasVersion(place, batch + 1)) return "state/" + operators[i].getPath().getName() + "/" + p;
      }
    }
    return "";
  }

  /** In the folder itself, or (a join) in each of its stores. */
  private boolean hasVersion(Path folder, long version) throws Exception {
    FileStatus[] all = list(folder);
    boolean stores = false;
    for (int i = 0; i < all.length; i++) {
      String name = all[i].getPath().getName();
      if (!all[i].isDirectory() && !name.startsWith(".") && number(name) == version) return true;
      if (all[i].isDirectory() && !name.startsWith("_") && !name.equals("SSTs") && !name.equals("logs")) {
        if (!hasVersion(all[i].getPath(), version)) return false;
        stores = true;
      }
    }
    return stores;
  }

  // Changing.

  /** Go back to the end of a batch: what is later moves below `laxity/<aside>`. Returns the number of files moved. */
  public long truncate(long batch, String aside) throws Exception {
    long moved = moveLater("offsets", batch, aside) + moveLater("commits", batch, aside);
    moved += moveLater(OURS + "/control", batch + 1, aside);
    return moved + truncateState(new Path(root, "state"), "state", batch, aside);
  }

  private long truncateState(Path folder, String relative, long batch, String aside) throws Exception {
    long moved = 0;
    FileStatus[] all = list(folder);
    for (int i = 0; i < all.length; i++) {
      String name = all[i].getPath().getName();
      if (!all[i].isDirectory() || name.equals("SSTs") || name.equals("logs") || name.equals("_stateSchema")) continue;
      String below = relative + "/" + name;
      if (name.equals("_metadata")) {
        moved += moveLater(below + "/v2", batch, aside);
      } else {
        moved += moveLater(below, batch + 1, aside);
        moved += truncateState(all[i].getPath(), below, batch, aside);
      }
    }
    return moved;
  }

  /** A file source's log of files: later entries go, unless they were compacted with earlier ones. */
  public long truncateSource(int source, long entry, String aside) throws Exception {
    String relative = "sources/" + source;
    FileStatus[] all = list(new Path(root, relative));
    for (int i = 0; i < all.length; i++) {
      String name = all[i].getPath().getName();
      if (name.endsWith(".compact") && number(name) > entry) return 0;
    }
    return moveLater(relative, entry, aside);
  }

  private long moveLater(String relative, long last, String aside) throws Exception {
    long moved = 0;
    FileStatus[] all = list(new Path(root, relative));
    for (int i = 0; i < all.length; i++) {
      String name = all[i].getPath().getName();
      if (all[i].isDirectory() || number(name) <= last) continue;
      Path to = new Path(new Path(root, OURS + "/" + aside + "/" + relative), name);
      files.mkdirs(to.getParent());
      // A hidden sum moves along with its file where the file system keeps sums itself.
      if (files.exists(all[i].getPath()) && !files.rename(all[i].getPath(), to)) {
        throw new java.io.IOException(all[i].getPath() + " could not be moved to " + to);
      }
      moved++;
    }
    return moved;
  }

  /** Undo `truncate`. */
  public void restore(String aside) throws Exception {
    Path from = new Path(root, OURS + "/" + aside);
    if (files.exists(from)) moveBack(from, root);
    files.delete(from, true);
  }

  private void moveBack(Path from, Path to) throws Exception {
    FileStatus[] all = list(from);
    for (int i = 0; i < all.length; i++) {
      Path target = new Path(to, all[i].getPath().getName());
      if (all[i].isDirectory()) {
        moveBack(all[i].getPath(), target);
      } else {
        files.delete(target, false);
        files.mkdirs(to);
        files.rename(all[i].getPath(), target);
      }
    }
  }

  /** Copy what a query starts from. Spark's clean-up may remove old versions meanwhile: those nobody needs. */
  public void copyTo(String place) throws Exception {
    Path target = new Path(place);
    copy(root, target, target.getFileSystem(conf), "");
  }

  private void copy(Path from, Path to, FileSystem target, String relative) throws Exception {
    target.mkdirs(to);
    FileStatus[] all = list(from);
    for (int i = 0; i < all.length; i++) {
      String name = all[i].getPath().getName();
      String below = relative + "/" + name;
      if (name.endsWith(".tmp") || below.startsWith("/" + OURS + "/") && !below.startsWith("/" + OURS + "/control")) continue;
      Path copied = new Path(to, name);
      if (all[i].isDirectory()) {
        copy(all[i].getPath(), copied, target, below);
      } else if (!name.startsWith(".")) { // hidden files are sums, which the target makes itself
        try {
          FileUtil.copy(files, all[i].getPath(), target, copied, false, conf);
        } catch (FileNotFoundException cleanedUp) {
          if (!below.startsWith("/state/")) throw cleanedUp;
        }
      }
    }
  }

  /** Spark never runs two queries of one id at a time: a copy that is to run beside the original needs its own. */
  public String rename() throws Exception {
    String id = UUID.randomUUID().toString();
    Path place = new Path(root, "metadata");
    files.delete(place, false);
    FSDataOutputStream out = files.create(place, true);
    out.write(("{\"id\":\"" + id + "\"}").getBytes("UTF-8"));
    out.close();
    return id;
  }

  public void writeControl(long batch, String text) throws Exception {
    FSDataOutputStream out = files.create(new Path(root, OURS + "/control/" + batch), true);
    out.write(text.getBytes("UTF-8"));
    out.close();
  }

  private FileStatus[] list(Path folder) throws Exception {
    try {
      return files.listStatus(folder);
    } catch (FileNotFoundException none) {
      return new FileStatus[0];
    }
  }

  /** The number a file's name begins with, hidden or not; -1 if it begins with none. */
  private static long number(String name) {
    int start = name.startsWith(".") ? 1 : 0, end = start;
    while (end < name.length() && Character.isDigit(name.charAt(end))) end++;
    return end == start || end - start > 18 ? -1 : Long.parseLong(name.substring(start, end));
  }
}

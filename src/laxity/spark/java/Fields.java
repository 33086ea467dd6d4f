package laxity;

import java.util.HashMap;
import java.util.Map;

/** One line of the wire format: a kind, then key=value pairs, separated by tabs (see wire.py). */
public final class Fields {
  public final String kind;
  private final Map values = new HashMap();

  public Fields(String line) {
    String[] parts = line.split("\t");
    kind = parts[0];
    for (int i = 1; i < parts.length; i++) {
      int at = parts[i].indexOf('=');
      values.put(parts[i].substring(0, at), parts[i].substring(at + 1));
    }
  }

  public String text(String key, String otherwise) throws RuntimeException {
    String value = (String) values.get(key);
    if (value == null) return otherwise;
    try {
      return java.net.URLDecoder.decode(value, "UTF-8");
    } catch (java.io.UnsupportedEncodingException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  public double number(String key, double otherwise) {
    String value = (String) values.get(key);
    return value == null ? otherwise : Double.parseDouble(value);
  }

  public boolean flag(String key) {
    return "1".equals(values.get(key));
  }

  public static String encode(String text) {
    try {
      return text == null ? "" : java.net.URLEncoder.encode(text, "UTF-8");
    } catch (java.io.UnsupportedEncodingException impossible) {
      throw new IllegalStateException(impossible);
    }
  }
}

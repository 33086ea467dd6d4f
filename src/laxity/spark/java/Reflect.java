package laxity;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Reads, sets and calls what Scala's access rules hide. Classes that moved between Spark versions are never named in
 * this code: they are reached by member name through here, so one source serves every supported version.
 */
public final class Reflect {
  private static final ConcurrentHashMap MEMBERS = new ConcurrentHashMap();

  private Reflect() {}

  public static Object get(Object target, String name) throws Exception {
    return field(target.getClass(), name).get(target);
  }

  /** A field as text: numbers that Python's bridge cannot carry. */
  public static String text(Object target, String name) throws Exception {
    return String.valueOf(get(target, name));
  }

  public static void set(Object target, String name, Object value) throws Exception {
    field(target.getClass(), name).set(target, value);
  }

  public static Object call(Object target, String name) throws Exception {
    return call(target, name, new Object[0]);
  }

  /** Calls the public method of that name and number of arguments. */
  public static Object call(Object target, String name, Object[] arguments) throws Exception {
    return method(target.getClass(), name, arguments.length).invoke(target, arguments);
  }

  public static Field field(Class type, String name) throws NoSuchFieldException {
    String key = type.getName() + "#" + name;
    Field known = (Field) MEMBERS.get(key);
    if (known != null && known.getDeclaringClass().isAssignableFrom(type)) return known;
    for (Class c = type; c != null; c = c.getSuperclass()) {
      Field[] fields = c.getDeclaredFields();
      for (int i = 0; i < fields.length; i++) {
        // Scala prefixes a private member that a subclass also has with its class: a$b$Name$$member.
        String own = fields[i].getName();
        if (own.equals(name) || own.endsWith("$$" + name)) {
          fields[i].setAccessible(true);
          MEMBERS.put(key, fields[i]);
          return fields[i];
        }
      }
    }
    throw new NoSuchFieldException(type.getName() + " has no field " + name);
  }

  private static Method method(Class type, String name, int arity) throws NoSuchMethodException {
    String key = type.getName() + "#" + name + "/" + arity;
    Method known = (Method) MEMBERS.get(key);
    if (known != null && known.getDeclaringClass().isAssignableFrom(type)) return known;
    for (Class c = type; c != null; c = c.getSuperclass()) {
      Method[] methods = c.getDeclaredMethods();
      for (int i = 0; i < methods.length; i++) {
        Method m = methods[i];
        if (m.getName().equals(name) && m.getParameterTypes().length == arity && !m.isBridge()) {
          m.setAccessible(true);
          MEMBERS.put(key, m);
          return m;
        }
      }
    }
    throw new NoSuchMethodException(type.getName() + " has no method " + name + "/" + arity);
  }
}

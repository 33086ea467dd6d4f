import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * A small one-at-a-time stream engine with real CPU cost, after the synthetic queries of Lachesis
 * (section 6.4) as its authors' code draws them: pipelines of a source that only hands over what
 * an outside log holds, filters, and an egress; one thread an operator, bounded queues between
 * them, where a full one blocks. A pipeline's cost is a power of two times the least, its
 * selectivity uniform; its operators differ from that by a tenth.
 *
 * Arguments: metrics file, pipelines, operators each, seed. Commands on standard input, one result
 * line (JSON) each:
 *   calibrate                                  -> the cost of one turn, the CPU a source tuple costs
 *   run RATE SETTLE SECONDS BLOCKING TARGETS   -> RATE tuples/s into each pipeline; measured for
 *                                                 SECONDS after SETTLE; TARGETS is a comma list
 * Costs are turns of a loop, not time, so that a thread that is kept waiting does no less work.
 */
public final class Pipelines {
    /** About five seconds of arrivals, as 10,000 are at the paper's rates. */
    static final int CAPACITY = 1_000;
    static final double LEAST_COST = 20e-6;
    static final int DOUBLINGS = 5;
    /** Of a pipeline whose filters are as strict as any. */
    static final double LEAST_PATH_SELECTIVITY = 0.01, VARIANCE = 0.1;
    static final double BLOCKING_OPERATORS = 0.1, BLOCKING_CHANCE = 0.001;
    static final long LONGEST_BLOCK = 200_000_000L;

    static volatile long sink;
    static double turnSeconds;

    record Item(long produced, long ingested) {}

    static final class Operator implements Runnable {
        final Pipeline pipeline;
        final int index;
        final int turns;
        final double selectivity;
        final boolean blocks;
        final LinkedBlockingQueue<Item> queue = new LinkedBlockingQueue<>(CAPACITY);
        final Random random;
        Operator next;
        volatile long in, out;
        /** When the oldest item that this source has not taken yet was due. */
        volatile long waitingSince = Long.MAX_VALUE;

        Operator(Pipeline pipeline, int index, int turns, double selectivity, boolean blocks, long seed) {
            this.pipeline = pipeline;
            this.index = index;
            this.turns = turns;
            this.selectivity = selectivity;
            this.blocks = blocks;
            this.random = new Random(seed);
        }

        @Override public void run() {
            try {
                if (index == 0) {
                    ingest();
                } else {
                    while (true) {
                        work(queue.take());
                    }
                }
            } catch (InterruptedException end) {
                // the phase is over
            }
        }

        private void ingest() throws InterruptedException {
            double gap = 1e9 / pipeline.phase.rate;
            double due = pipeline.phase.start + gap * random.nextDouble();
            while (!Thread.interrupted()) {
                waitingSince = (long) due;
                long wait = (long) due - System.nanoTime();
                if (wait > 0) {
                    LockSupport.parkNanos(wait);
                    continue;
                }
                in = in + 1;
                pass(new Item((long) due, System.nanoTime()));
                due += -Math.log(1 - random.nextDouble()) * gap;
            }
        }

        private void work(Item item) throws InterruptedException {
            in = in + 1;
            burn(turns);
            if (blocks && random.nextDouble() < BLOCKING_CHANCE) {
                TimeUnit.NANOSECONDS.sleep((long) (random.nextDouble() * LONGEST_BLOCK));
            }
            if (next == null) {
                pipeline.emitted(item);
                out = out + 1;
            } else if (random.nextDouble() < selectivity) {
                pass(item);
            }
        }

        private void pass(Item item) throws InterruptedException {
            next.queue.put(item);
            out = out + 1;
        }
    }

    static final class Pipeline {
        final int index;
        final Phase phase;
        final List<Operator> operators = new ArrayList<>();
        final double target;
        long[] latencies = new long[1 << 14], ends = new long[1 << 14];
        int count;

        Pipeline(int index, Phase phase, double target) {
            this.index = index;
            this.phase = phase;
            this.target = target;
        }

        /** When the oldest item that waits was produced or taken in. */
        long oldest(boolean produced) {
            long oldest = produced ? Math.min(phase.end, operators.get(0).waitingSince) : phase.end;
            for (Operator operator : operators) {
                Item head = operator.queue.peek();
                if (head != null) {
                    oldest = Math.min(oldest, produced ? head.produced : head.ingested);
                }
            }
            return oldest;
        }

        /** Only ever called by the last operator's thread. */
        void emitted(Item item) {
            long now = System.nanoTime();
            if (now < phase.measured || now >= phase.end) {
                return;
            }
            if (count == latencies.length) {
                latencies = Arrays.copyOf(latencies, 2 * count);
                ends = Arrays.copyOf(ends, 2 * count);
            }
            latencies[count] = now - item.ingested;
            ends[count++] = now - item.produced;
        }
    }

    static final class Phase {
        /** Tuples/s into each pipeline. */
        final double rate;
        final long start, measured, end;
        final List<Pipeline> pipelines = new ArrayList<>();

        Phase(double rate, double settle, double seconds) {
            this.rate = rate;
            this.start = System.nanoTime() + 200_000_000L;
            this.measured = start + (long) (settle * 1e9);
            this.end = measured + (long) (seconds * 1e9);
        }
    }

    static void burn(int turns) {
        long x = turns | 1;
        for (long i = 0; i < turns; i++) { // long: a loop that the JVM can stop in
            x ^= x << 13;
            x ^= x >>> 7;
            x ^= x << 17;
        }
        sink = x;
    }

    /** CPU time, not wall time, and the best of many: whatever else runs must not matter. */
    static void calibrate() {
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        double best = Double.MAX_VALUE;
        for (int round = 0; round < 60; round++) {
            long before = threads.getCurrentThreadCpuTime();
            for (int i = 0; i < 200; i++) {
                burn(20_000);
            }
            best = Math.min(best, (threads.getCurrentThreadCpuTime() - before) / 1e9 / 200 / 20_000);
        }
        turnSeconds = best;
    }

    static List<Pipeline> build(Phase phase, int pipelines, int length, long seed, boolean blocking, double[] targets) {
        Random random = new Random(seed);
        for (int p = 0; p < pipelines; p++) {
            Pipeline pipeline = new Pipeline(p, phase, targets[p % targets.length]);
            double least = Math.pow(LEAST_PATH_SELECTIVITY, 1.0 / (length - 2));
            double usualCost = LEAST_COST * (1 << random.nextInt(DOUBLINGS + 1));
            double usualSelectivity = least + random.nextDouble() * (1 - least);
            Operator before = null;
            for (int o = 0; o < length; o++) {
                boolean filters = o > 0 && o < length - 1;
                double cost = o == 0 ? 0 : usualCost * around(random);
                double selectivity = filters ? Math.min(1, usualSelectivity * around(random)) : 1;
                boolean blocks = random.nextDouble() < BLOCKING_OPERATORS && filters && blocking;
                Operator operator = new Operator(
                    pipeline, o, (int) (cost / turnSeconds), selectivity, blocks, seed * 1000 + p * 10 + o);
                if (before != null) {
                    before.next = operator;
                }
                pipeline.operators.add(operator);
                before = operator;
            }
            phase.pipelines.add(pipeline);
        }
        return phase.pipelines;
    }

    static double around(Random random) {
        return 1 + VARIANCE * (2 * random.nextDouble() - 1);
    }

    /** CPU seconds that one tuple into every pipeline costs, all operators together. */
    static double demand(List<Pipeline> pipelines) {
        double total = 0;
        for (Pipeline pipeline : pipelines) {
            double arriving = 1;
            for (Operator operator : pipeline.operators) {
                total += arriving * operator.turns * turnSeconds;
                arriving *= operator.selectivity;
            }
        }
        return total;
    }

    static void report(Phase phase, Path file) throws Exception {
        long now = System.nanoTime();
        StringBuilder text = new StringBuilder("{");
        for (Pipeline pipeline : phase.pipelines) {
            text.append(text.length() > 1 ? "," : "").append(String.format("\"q%02d\":{", pipeline.index));
            for (Operator operator : pipeline.operators) {
                Item head = operator.queue.peek();
                int waiting = operator.queue.size();
                long inSystem = head == null ? 0 : now - head.ingested;
                long total = head == null ? 0 : now - head.produced;
                if (operator.index == 0) { // its queue is the log outside, as a consumer's lag says
                    inSystem = total = Math.max(0, now - operator.waitingSince);
                    waiting = (int) (total / 1e9 * phase.rate);
                }
                text.append(operator.index > 0 ? "," : "").append(String.format(
                    "\"o%d\":{\"queue_size\":%d,\"records_in\":%d,\"records_out\":%d,\"head_age\":%.4f,"
                        + "\"latency\":%.4f,\"downstream\":[%s]}",
                    operator.index, waiting, operator.in, operator.out, inSystem / 1e9,
                    total / 1e9, operator.next == null ? "" : "\"o" + operator.next.index + "\""));
            }
            text.append("}");
        }
        Path fresh = file.resolveSibling(file.getFileName() + ".new");
        Files.writeString(fresh, text.append("}"));
        Files.move(fresh, file, StandardCopyOption.REPLACE_EXISTING, StandardCopyOption.ATOMIC_MOVE);
    }

    static String run(Phase phase, Path file) throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (Pipeline pipeline : phase.pipelines) {
            for (Operator operator : pipeline.operators) {
                Thread thread = new Thread(operator, String.format("q%02d-o%d", pipeline.index, operator.index));
                thread.setDaemon(true);
                threads.add(thread);
                thread.start();
            }
        }
        long taken = 0, since = 0;
        double spread = 0;
        int looks = 0;
        boolean measuring = false;
        while (System.nanoTime() < phase.end) {
            report(phase, file);
            if (!measuring && System.nanoTime() >= phase.measured) {
                measuring = true;
                since = System.nanoTime();
                taken = -ingested(phase);
            }
            if (measuring) {
                spread += spread(phase);
                looks++;
            }
            Thread.sleep(100);
        }
        taken += ingested(phase);
        long until = System.nanoTime();
        double throughput = taken / ((until - since) / 1e9), overrun = (until - phase.end) / 1e9;
        String result = summary(phase, throughput, spread / Math.max(1, looks), overrun);
        threads.forEach(Thread::interrupt);
        for (Thread thread : threads) {
            thread.join();
        }
        return result;
    }

    static long ingested(Phase phase) {
        return phase.pipelines.stream().mapToLong(p -> p.operators.get(0).in).sum();
    }

    /** The goal of QS: the standard deviation of queue sizes. */
    static double spread(Phase phase) {
        double sum = 0, squares = 0;
        int n = 0;
        for (Pipeline pipeline : phase.pipelines) {
            for (Operator operator : pipeline.operators.subList(1, pipeline.operators.size())) {
                double size = operator.queue.size();
                sum += size;
                squares += size * size;
                n++;
            }
        }
        return Math.sqrt(Math.max(0, squares / n - sum / n * (sum / n)));
    }

    static String summary(Phase phase, double throughput, double spread, double overrun) {
        long now = phase.end;
        long emitted = 0, met = 0, late = 0, urgentMet = 0, urgentAll = 0;
        double tightest = Double.MAX_VALUE;
        for (Pipeline pipeline : phase.pipelines) {
            tightest = Math.min(tightest, pipeline.target);
        }
        double latency = 0, end = 0;
        int total = phase.pipelines.stream().mapToInt(p -> p.count).sum();
        long[] latencies = new long[total], ends = new long[total];
        int at = 0;
        for (Pipeline pipeline : phase.pipelines) {
            boolean urgent = pipeline.target == tightest;
            long limit = (long) (pipeline.target * 1e9), good = 0, missed = 0;
            for (int i = 0; i < pipeline.count; i++) {
                latencies[at] = pipeline.latencies[i];
                ends[at++] = pipeline.ends[i];
                if (pipeline.ends[i] <= limit) {
                    good++;
                } else {
                    missed++;
                }
            }
            // What still waits and is past its target has missed it, though it was never emitted.
            for (Operator operator : pipeline.operators) {
                for (Item item : operator.queue) {
                    missed += now - item.produced > limit ? 1 : 0;
                }
            }
            Operator source = pipeline.operators.get(0);
            missed += (long) Math.max(0, (now - limit - source.waitingSince) / 1e9 * phase.rate);
            latency += mean(pipeline.latencies, pipeline.count, now - pipeline.oldest(false));
            end += mean(pipeline.ends, pipeline.count, now - pipeline.oldest(true));
            emitted += pipeline.count;
            met += good;
            late += missed;
            urgentMet += urgent ? good : 0;
            urgentAll += urgent ? good + missed : 0;
        }
        Arrays.sort(latencies);
        Arrays.sort(ends);
        double seconds = (phase.end - phase.measured) / 1e9;
        return String.format(
            "{\"throughput\":%.1f,\"egress\":%.1f,\"latency\":%.5f,\"latency_p99\":%.5f,\"end_to_end\":%.5f,"
                + "\"end_to_end_p99\":%.5f,\"met\":%.4f,\"urgent_met\":%.4f,\"queue_spread\":%.2f,"
                + "\"overrun\":%.2f}",
            throughput, emitted / seconds, latency / phase.pipelines.size(), quantile(latencies, 0.99),
            end / phase.pipelines.size(), quantile(ends, 0.99), met / (double) Math.max(1, met + late),
            urgentMet / (double) Math.max(1, urgentAll), spread, overrun);
    }

    /** In seconds; of a pipeline that emitted nothing, how long its oldest item waits by now. */
    static double mean(long[] values, int count, long otherwise) {
        return (count == 0 ? otherwise : Arrays.stream(values, 0, count).average().orElse(0)) / 1e9;
    }

    static double quantile(long[] sorted, double q) {
        return sorted.length == 0 ? 0 : sorted[(int) Math.min(sorted.length - 1, q * sorted.length)] / 1e9;
    }

    public static void main(String[] arguments) throws Exception {
        Path file = Path.of(arguments[0]);
        int pipelines = Integer.parseInt(arguments[1]), length = Integer.parseInt(arguments[2]);
        long seed = Long.parseLong(arguments[3]);
        calibrate();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.trim().split(" ");
            if (words[0].equals("calibrate")) {
                double[] none = {1};
                Phase phase = new Phase(1, 0, 0);
                double demand = demand(build(phase, pipelines, length, seed, false, none));
                System.out.println(String.format("{\"turn_seconds\":%.3e,\"demand\":%.6f}", turnSeconds, demand));
            } else {
                double[] targets = Arrays.stream(words[5].split(",")).mapToDouble(Double::parseDouble).toArray();
                Phase phase = new Phase(Double.parseDouble(words[1]), Double.parseDouble(words[2]),
                    Double.parseDouble(words[3]));
                build(phase, pipelines, length, seed, Boolean.parseBoolean(words[4]), targets);
                System.out.println(run(phase, file));
            }
        }
    }
}

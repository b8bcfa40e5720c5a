import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

/**
 * Curator's InterProcessMutex under the orders of ../run: a session and a thread for each contender, in one process.
 * Orders and answers are those of benches/clients/src/locks/main.rs. A release is always awaited: Curator has no other.
 */
public class Contend {
    private static final long LEAD_IN_MS = 150;
    /** In place of a time while somebody holds the lock. */
    private static final long HELD = Long.MIN_VALUE;

    private static final OperatingSystemMXBean PROCESS =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private final List<CuratorFramework> clients = new ArrayList<>();
    private String directory;

    public static void main(String[] args) throws Exception {
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        Contend contend = new Contend();
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            System.out.println(contend.obey(line.split(" ")));
            System.out.flush();
        }
        System.exit(0);
    }

    private String obey(String[] words) throws Exception {
        if (words.length == 5 && words[0].equals("open") && words[4].equals("awaited")) {
            directory = words[2];
            for (int n = Integer.parseInt(words[3]); n > 0; n--) {
                CuratorFramework client = CuratorFrameworkFactory.builder().connectString(words[1])
                    .sessionTimeoutMs(30_000).retryPolicy(new RetryOneTime(100)).build();
                client.start();
                client.blockUntilConnected();
                clients.add(client);
            }
            clients.get(0).create().orSetData().forPath(directory);
            contend(LEAD_IN_MS);
            return "ready";
        }
        if (words.length == 2 && words[0].equals("go")) {
            String found = contend(Long.parseLong(words[1]));
            clients.forEach(CuratorFramework::close);
            clients.clear();
            return found;
        }
        throw new IllegalArgumentException("not an order: " + String.join(" ", words));
    }

    /** Every client takes the lock and gives it back, over and over, until the time is up. */
    private String contend(long millis) throws Exception {
        boolean alone = clients.size() == 1;
        AtomicLong released = new AtomicLong(System.nanoTime());
        AtomicReference<Throwable> failure = new AtomicReference<>();
        int[] turns = new int[clients.size()];
        long[][] took = new long[clients.size()][1024];
        long cpu = PROCESS.getProcessCpuTime();
        long began = System.nanoTime();
        long end = began + millis * 1_000_000;
        List<Thread> threads = new ArrayList<>();
        for (int n = 0; n < turns.length; n++) {
            int at = n;
            InterProcessMutex lock = new InterProcessMutex(clients.get(n), directory);
            Thread thread = new Thread(() -> {
                try {
                    for (long now = System.nanoTime(); now < end;) {
                        long before = now;
                        lock.acquire();
                        long held = System.nanoTime();
                        long since = released.getAndSet(HELD);
                        if (since == HELD) {
                            throw new IllegalStateException("two hold the lock");
                        }
                        released.set(held);
                        lock.release();
                        now = System.nanoTime();
                        if (turns[at] == took[at].length) {
                            took[at] = Arrays.copyOf(took[at], turns[at] * 2);
                        }
                        took[at][turns[at]++] = alone ? now - before : held - since;
                    }
                } catch (Throwable error) {
                    failure.compareAndSet(null, error);
                }
            });
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        if (failure.get() != null) {
            throw new IllegalStateException(failure.get());
        }
        double seconds = (System.nanoTime() - began) / 1e9;
        cpu = PROCESS.getProcessCpuTime() - cpu;
        long[] all = new long[Arrays.stream(turns).sum()];
        int filled = 0;
        for (int n = 0; n < turns.length; n++) {
            System.arraycopy(took[n], 0, all, filled, turns[n]);
            filled += turns[n];
        }
        Arrays.sort(all);
        return String.format(Locale.ROOT,
            "{\"turns\": %s, \"seconds\": %.6f, \"p50\": %.2f, \"p99\": %.2f, \"cpu\": %.1f}",
            Arrays.toString(turns), seconds, percentile(all, 50), percentile(all, 99), cpu / 1e3);
    }

    private static double percentile(long[] sorted, int percent) {
        return sorted[Math.min(sorted.length * percent / 100, sorted.length - 1)] / 1e3;
    }
}

import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.retry.RetryForever;

/** Curator's CuratorCache under the orders of ../run; orders and answers are those of benches/clients/src/caches/main.rs. */
public class Caches {
    private static final String ROOT = "/bench-cache";
    private static final OperatingSystemMXBean PROCESS =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private CuratorFramework client;
    private CuratorFramework writer;
    private CuratorCache cache;
    private final LinkedBlockingQueue<String> changed = new LinkedBlockingQueue<>();

    public static void main(String[] args) throws Exception {
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        Caches caches = new Caches();
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            System.out.println(caches.obey(line.split(" ")));
            System.out.flush();
        }
        System.exit(0);
    }

    private String obey(String[] words) throws Exception {
        switch (words[0]) {
            case "open": return open(words[1]);
            case "change": return change(Integer.parseInt(words[1]));
            default: throw new IllegalArgumentException(String.join(" ", words));
        }
    }

    private static CuratorFramework connect(String address) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.builder().connectString(address)
            .sessionTimeoutMs(30_000).retryPolicy(new RetryForever(100)).build();
        client.start();
        client.blockUntilConnected();
        return client;
    }

    private String open(String address) throws Exception {
        client = connect(address);
        writer = connect(address);
        long used = used();
        long cpu = PROCESS.getProcessCpuTime(), began = System.nanoTime();
        cache = CuratorCache.build(client, ROOT);
        CountDownLatch initialized = new CountDownLatch(1);
        cache.listenable().addListener(CuratorCacheListener.builder().forInitialized(initialized::countDown).build());
        cache.start();
        initialized.await();
        double seconds = (System.nanoTime() - began) / 1e9;
        cpu = (PROCESS.getProcessCpuTime() - cpu) / 1000;
        cache.listenable().addListener(
            CuratorCacheListener.builder().forChanges((old, now) -> changed.add(now.getPath())).build());
        return String.format(Locale.ROOT, "{\"seconds\": %f, \"cpu\": %d, \"nodes\": %d, \"resident\": %d}",
            seconds, cpu, cache.size(), (used() - used) / 1024);
    }

    /** What the heap has after a collection. */
    private static long used() {
        System.gc();
        System.gc();
        return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
    }

    private String change(int times) throws Exception {
        String path = ROOT + "/0000/0000";
        long[] latencies = new long[times];
        long cpu = PROCESS.getProcessCpuTime();
        for (int n = 0; n < times; n++) {
            long began = System.nanoTime();
            writer.setData().forPath(path, Integer.toString(n).getBytes());
            while (!changed.take().equals(path)) {
            }
            latencies[n] = (System.nanoTime() - began) / 1000;
        }
        Arrays.sort(latencies);
        return String.format(Locale.ROOT, "{\"p50\": %d, \"p99\": %d, \"cpu\": %d}",
            latencies[times / 2], latencies[times * 99 / 100], (PROCESS.getProcessCpuTime() - cpu) / 1000);
    }
}

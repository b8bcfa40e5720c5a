import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.api.CuratorWatcher;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryNTimes;

/** A program for `zoolet conform --client`: see ../conform.py. */
final class Conform {
    private static final String SCENARIO = System.getenv("ZOOKEEPER_SCENARIO");
    private static final long SECONDS = Long.parseLong(System.getenv("ZOOKEEPER_SECONDS"));
    private static final CuratorWatcher IGNORE = event -> {};

    private Conform() {}

    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.builder()
            .connectString(System.getenv("ZOOKEEPER"))
            .sessionTimeoutMs(10_000)
            .connectionTimeoutMs(10_000)
            .authorization("digest", Checks.bytes("conform:secret"))
            .retryPolicy(new RetryNTimes(100, 100))
            .build();
        client.start();
        client.create().orSetData().creatingParentsIfNeeded().forPath("/app/watched");
        client.getData().usingWatcher(IGNORE).forPath("/app/watched");
        client.getChildren().usingWatcher(IGNORE).forPath("/app/watched");
        client.checkExists().usingWatcher(IGNORE).forPath("/app/absent");
        try (CuratorCache cache = CuratorCache.build(client, "/app/watched")) {
            cache.start();
            work(client);
        }
        client.close();
    }

    private static void work(CuratorFramework client) throws Exception {
        if (SCENARIO.equals("many-watches")) {
            for (int number = 0; number < 1300; number++) {
                client.checkExists().usingWatcher(IGNORE).forPath("/app/" + "x".repeat(900) + "-" + number);
            }
        } else if (SCENARIO.equals("large-replies") || SCENARIO.equals("empty-replies")) {
            client.getData().forPath(System.getenv("ZOOKEEPER_PATH") + "/data");
            client.getChildren().forPath(System.getenv("ZOOKEEPER_PATH") + "/children");
        } else if (SCENARIO.equals("idle")) {
            Thread.sleep(SECONDS * 1000);
        }
        InterProcessMutex lock = new InterProcessMutex(client, "/app/lock");
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS);
        while (System.nanoTime() < end) {
            lock.acquire();
            try {
                client.setData().forPath("/app", Checks.bytes("x"));
            } finally {
                lock.release();
            }
            Thread.sleep(100);
        }
    }
}

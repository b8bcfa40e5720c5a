import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.watch.PersistentWatcher;

/** Caches and what they are built on, the persistent recursive watch. */
final class Caches {
    private Caches() {}

    static void run(CuratorFramework client, CuratorFramework outside) throws Exception {
        outside.create().creatingParentsIfNeeded().forPath("/cache/a", Checks.bytes("1"));
        try (CuratorCache cache = CuratorCache.build(client, "/cache")) {
            LinkedBlockingQueue<String> told = new LinkedBlockingQueue<>();
            CountDownLatch filled = new CountDownLatch(1);
            cache.listenable().addListener(CuratorCacheListener.builder()
                .forInitialized(filled::countDown)
                .build());
            cache.listenable().addListener(CuratorCacheListener.builder()
                .forCreates(node -> told.add("created " + node.getPath()))
                .forChanges((before, after) -> told.add("changed " + after.getPath()))
                .forDeletes(node -> told.add("deleted " + node.getPath()))
                .afterInitialized()
                .build());
            Checks.check("CuratorCache: filled", () -> {
                cache.start();
                Checks.hold("in time", filled.await(10, TimeUnit.SECONDS));
                Checks.equal(cache.size(), 2);
                Checks.equal(cache.get("/cache/a").map(ChildData::getData).orElse(null), Checks.bytes("1"));
            });
            Checks.check("CuratorCache: follows creates, changes, deletes at every depth", () -> {
                outside.create().forPath("/cache/a/deep");
                expect(told, "created /cache/a/deep");
                outside.setData().forPath("/cache/a/deep", Checks.bytes("2"));
                expect(told, "changed /cache/a/deep");
                outside.delete().forPath("/cache/a/deep");
                expect(told, "deleted /cache/a/deep");
            });
            Checks.check("CuratorCache: catches up after a reconnect", () -> {
                Checks.control("refuse");
                outside.create().forPath("/cache/missed");
                outside.setData().forPath("/cache/a", Checks.bytes("3"));
                Checks.control("heal");
                Checks.eventually("the cache is right again", () -> cache.get("/cache/missed").isPresent()
                    && new String(cache.get("/cache/a").orElseThrow().getData()).equals("3"));
                outside.create().forPath("/cache/later");
                // After what the cache tells about what it has caught up on.
                String next;
                do {
                    next = told.poll(10, TimeUnit.SECONDS);
                } while (next != null && !next.equals("created /cache/later"));
                Checks.hold("it is told of what comes later", next != null);
            });
        }
        Checks.check("PersistentWatcher", () -> {
            LinkedBlockingQueue<String> told = new LinkedBlockingQueue<>();
            try (PersistentWatcher watcher = new PersistentWatcher(client, "/watched", true)) {
                CountDownLatch set = new CountDownLatch(1);
                watcher.getResetListenable().addListener(set::countDown);
                watcher.getListenable().addListener(event -> told.add(event.getType() + " " + event.getPath()));
                watcher.start();
                Checks.hold("set in time", set.await(10, TimeUnit.SECONDS));
                outside.create().forPath("/watched");
                outside.create().forPath("/watched/c");
                expect(told, "NodeCreated /watched");
                expect(told, "NodeCreated /watched/c");
            }
        });
    }

    private static void expect(LinkedBlockingQueue<String> told, String expected) throws Exception {
        Checks.equal(told.poll(10, TimeUnit.SECONDS), expected);
    }
}

import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;

/** A program for `zoolet conform --client`: see ../conform.py. */
final class Conform {
    private static final String SCENARIO = System.getenv("ZOOKEEPER_SCENARIO");
    private static final long SECONDS = Long.parseLong(System.getenv("ZOOKEEPER_SECONDS"));
    private static final Watcher IGNORE = event -> {};

    private Conform() {}

    /** A session that is lost ends with its client; there is a new one for each. */
    private static ZooKeeper connect() throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper zk = new ZooKeeper(System.getenv("ZOOKEEPER"), 10_000, event -> {
            if (event.getState() == KeeperState.SyncConnected) {
                connected.countDown();
            }
        });
        if (!connected.await(20, TimeUnit.SECONDS)) {
            throw new IllegalStateException("not connected");
        }
        zk.addAuthInfo("digest", bytes("conform:secret"));
        return zk;
    }

    private static ZooKeeper zk;

    private interface Operation {
        void run() throws Exception;
    }

    private static void retry(Operation operation) throws Exception {
        for (long limit = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);;) {
            try {
                operation.run();
                return;
            } catch (KeeperException.SessionExpiredException expired) {
                zk = connect();
            } catch (KeeperException.ConnectionLossException lost) {
                if (System.nanoTime() > limit) {
                    throw lost;
                }
                Thread.sleep(100);
            }
        }
    }

    public static void main(String[] args) throws Exception {
        zk = connect();
        for (String path : new String[] {"/app", "/app/watched", "/app/lock"}) {
            zk.create(path, null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        }
        retry(() -> zk.getData("/app/watched", IGNORE, null));
        retry(() -> zk.getChildren("/app/watched", IGNORE));
        retry(() -> zk.exists("/app/absent", IGNORE));
        retry(() -> zk.addWatch("/app/watched", IGNORE, AddWatchMode.PERSISTENT_RECURSIVE));
        if (SCENARIO.equals("many-watches")) {
            for (int number = 0; number < 1300; number++) {
                String path = "/app/" + "x".repeat(900) + "-" + number;
                retry(() -> zk.exists(path, IGNORE));
            }
        } else if (SCENARIO.equals("large-replies") || SCENARIO.equals("empty-replies")) {
            zk.getData(System.getenv("ZOOKEEPER_PATH") + "/data", false, null);
            zk.getChildren(System.getenv("ZOOKEEPER_PATH") + "/children", false);
        } else if (SCENARIO.equals("idle")) {
            Thread.sleep(SECONDS * 1000);
        }
        for (long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS); System.nanoTime() < end;) {
            retry(() -> {
                String ticket = zk.create("/app/lock/ticket-", null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL_SEQUENTIAL);
                zk.setData("/app", bytes("x"), -1);
                zk.delete(ticket, -1);
            });
            Thread.sleep(100);
        }
        zk.close();
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}

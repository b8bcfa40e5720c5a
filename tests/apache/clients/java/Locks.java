import static org.apache.zookeeper.CreateMode.EPHEMERAL_SEQUENTIAL;
import static org.apache.zookeeper.CreateMode.PERSISTENT;
import static org.apache.zookeeper.ZooDefs.Ids.OPEN_ACL_UNSAFE;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.zookeeper.ZooKeeper;

/** The lock of ZooKeeper's recipes page: each contender waits for the one before it. */
final class Locks {
    private static final int CONTENDERS = 5;
    private static final int ROUNDS = 10;

    private Locks() {}

    static void run(ZooKeeper zk) throws Exception {
        zk.create("/lock", null, OPEN_ACL_UNSAFE, PERSISTENT);
        zk.create("/total", Checks.bytes("0"), OPEN_ACL_UNSAFE, PERSISTENT);
        Checks.check("lock: five contenders, one at a time", () -> {
            AtomicInteger inside = new AtomicInteger();
            List<CompletableFuture<Void>> contenders = new ArrayList<>();
            for (int i = 0; i < CONTENDERS; i++) {
                contenders.add(CompletableFuture.runAsync(() -> contend(inside), task -> new Thread(task).start()));
            }
            for (CompletableFuture<Void> contender : contenders) {
                contender.get(30, TimeUnit.SECONDS);
            }
            Checks.equal(zk.getData("/total", false, null), Checks.bytes(String.valueOf(CONTENDERS * ROUNDS)));
        });
    }

    private static void contend(AtomicInteger inside) {
        try (Connection mine = new Connection(Checks.HOSTS, Script.TIMEOUT_MS)) {
            for (int i = 0; i < ROUNDS; i++) {
                String held = acquire(mine.zk);
                Checks.equal(inside.incrementAndGet(), 1);
                int total = Integer.parseInt(new String(mine.zk.getData("/total", false, null)));
                mine.zk.setData("/total", Checks.bytes(String.valueOf(total + 1)), -1);
                inside.decrementAndGet();
                mine.zk.delete(held, -1);
            }
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private static String acquire(ZooKeeper zk) throws Exception {
        String mine = zk.create("/lock/c-", null, OPEN_ACL_UNSAFE, EPHEMERAL_SEQUENTIAL);
        while (true) {
            List<String> contenders = zk.getChildren("/lock", false);
            Collections.sort(contenders);
            int place = contenders.indexOf(mine.substring("/lock/".length()));
            if (place == 0) {
                return mine;
            }
            CountDownLatch gone = new CountDownLatch(1);
            if (zk.exists("/lock/" + contenders.get(place - 1), event -> gone.countDown()) != null) {
                Checks.hold("the one before goes", gone.await(20, TimeUnit.SECONDS));
            }
        }
    }
}

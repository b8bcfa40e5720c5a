import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.retry.RetryForever;
import org.apache.zookeeper.CreateMode;

/** Counters, barriers, kept znodes, membership. */
final class OtherRecipes {
    private OtherRecipes() {}

    static void run(CuratorFramework client, CuratorFramework outside) {
        Checks.check("DistributedAtomicLong", () -> {
            DistributedAtomicLong mine = new DistributedAtomicLong(client, "/atomic", new RetryForever(10));
            DistributedAtomicLong theirs = new DistributedAtomicLong(outside, "/atomic", new RetryForever(10));
            CompletableFuture<Void> other = CompletableFuture.runAsync(() -> addUp(theirs));
            addUp(mine);
            other.get(20, TimeUnit.SECONDS);
            Checks.equal(mine.get().postValue(), 100L);
        });
        Checks.check("SharedCount", () -> {
            try (SharedCount mine = new SharedCount(client, "/count", 1);
                    SharedCount theirs = new SharedCount(outside, "/count", 1)) {
                mine.start();
                theirs.start();
                mine.setCount(7);
                Checks.eventually("the other sees it", () -> theirs.getCount() == 7);
            }
        });
        Checks.check("DistributedBarrier and DistributedDoubleBarrier", () -> {
            DistributedBarrier barrier = new DistributedBarrier(outside, "/barrier");
            barrier.setBarrier();
            CompletableFuture<Boolean> passed =
                CompletableFuture.supplyAsync(() -> wait(new DistributedBarrier(client, "/barrier")));
            barrier.removeBarrier();
            Checks.hold("passed", passed.get(10, TimeUnit.SECONDS));
            AtomicInteger entered = new AtomicInteger();
            CompletableFuture<Void> one = CompletableFuture.runAsync(() -> enter(client, entered));
            CompletableFuture<Void> two = CompletableFuture.runAsync(() -> enter(outside, entered));
            one.get(20, TimeUnit.SECONDS);
            two.get(20, TimeUnit.SECONDS);
            Checks.equal(entered.get(), 2);
        });
        Checks.check("PersistentNode: made again when deleted", () -> {
            try (PersistentNode node = new PersistentNode(client, CreateMode.EPHEMERAL, false, "/kept", Checks.bytes("x"))) {
                node.start();
                Checks.hold("made", node.waitForInitialCreate(10, TimeUnit.SECONDS));
                outside.delete().forPath("/kept");
                Checks.eventually("made again", () -> outside.checkExists().forPath("/kept") != null);
            }
        });
        Checks.check("PersistentTtlNode: kept while it is touched", () -> {
            PersistentTtlNode node = new PersistentTtlNode(client, "/ttl-kept", 500, Checks.bytes("x"));
            node.start();
            Checks.hold("made", node.waitForInitialCreate(10, TimeUnit.SECONDS));
            Thread.sleep(1_500);
            Checks.hold("still there", outside.checkExists().forPath("/ttl-kept") != null);
            node.close();
            Checks.eventually("gone", () -> outside.checkExists().forPath("/ttl-kept") == null);
        });
        Checks.check("GroupMember", () -> {
            try (GroupMember mine = new GroupMember(client, "/group", "mine");
                    GroupMember theirs = new GroupMember(outside, "/group", "theirs")) {
                mine.start();
                theirs.start();
                Checks.eventually("both are seen", () -> mine.getCurrentMembers().size() == 2);
                theirs.close();
                Checks.eventually("one has left", () -> mine.getCurrentMembers().size() == 1);
            }
        });
    }

    private static void addUp(DistributedAtomicLong number) {
        for (int i = 0; i < 50; i++) {
            try {
                Checks.hold("incremented", number.increment().succeeded());
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }
    }

    private static boolean wait(DistributedBarrier barrier) {
        try {
            return barrier.waitOnBarrier(10, TimeUnit.SECONDS);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private static void enter(CuratorFramework client, AtomicInteger entered) {
        DistributedDoubleBarrier barrier = new DistributedDoubleBarrier(client, "/double-barrier", 2);
        try {
            Checks.hold("entered", barrier.enter(10, TimeUnit.SECONDS));
            entered.incrementAndGet();
            Checks.hold("left", barrier.leave(10, TimeUnit.SECONDS));
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }
}

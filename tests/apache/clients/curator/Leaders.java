import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.CancelLeadershipException;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;

/** Leader election. */
final class Leaders {
    private Leaders() {}

    static void run(CuratorFramework client, CuratorFramework outside) throws Exception {
        Checks.check("LeaderLatch: one leader, the next follows", () -> {
            LeaderLatch first = new LeaderLatch(client, "/latch", "first");
            first.start();
            Checks.hold("first leads", first.await(10, TimeUnit.SECONDS));
            LeaderLatch second = new LeaderLatch(outside, "/latch", "second");
            second.start();
            Checks.eventually("both take part", () -> second.getParticipants().size() == 2);
            Checks.hold("second waits", !second.hasLeadership());
            Checks.equal(second.getLeader().getId(), "first");
            first.close();
            Checks.hold("second leads", second.await(10, TimeUnit.SECONDS));
            second.close();
        });
        Checks.check("LeaderLatch: gives up when cut off, leads again after", () -> {
            try (LeaderLatch latch = new LeaderLatch(client, "/shaken-latch", "only")) {
                latch.start();
                Checks.hold("leads", latch.await(10, TimeUnit.SECONDS));
                Checks.control("refuse");
                Checks.eventually("no longer leads", () -> !latch.hasLeadership());
                Checks.control("heal");
                Checks.eventually("leads again", latch::hasLeadership);
            }
        });
        Checks.check("LeaderSelector: leaders in turn", () -> {
            CountDownLatch led = new CountDownLatch(2);
            CountDownLatch release = new CountDownLatch(1);
            try (LeaderSelector first = selector(client, "first", led, release);
                    LeaderSelector second = selector(outside, "second", led, release)) {
                first.start();
                Checks.eventually("one leads", () -> led.getCount() == 1);
                second.start();
                Checks.equal(led.getCount(), 1L);
                release.countDown();
                Checks.hold("both have led", led.await(10, TimeUnit.SECONDS));
            }
        });
    }

    private static LeaderSelector selector(CuratorFramework client, String id, CountDownLatch led, CountDownLatch release) {
        LeaderSelector selector = new LeaderSelector(client, "/selector", new LeaderSelectorListenerAdapter() {
            @Override
            public void takeLeadership(CuratorFramework ignored) throws Exception {
                led.countDown();
                if (!release.await(10, TimeUnit.SECONDS)) {
                    throw new CancelLeadershipException("not released");
                }
            }
        });
        selector.setId(id);
        return selector;
    }
}

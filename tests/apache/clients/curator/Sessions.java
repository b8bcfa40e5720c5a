import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.Watcher.Event.EventType;

/** Reconnects and expiry. */
final class Sessions {
    private Sessions() {}

    static void run(CuratorFramework client, CuratorFramework outside) throws Exception {
        reconnect(client, outside);
        expiry(outside);
    }

    private static void reconnect(CuratorFramework client, CuratorFramework outside) throws Exception {
        long session = Clients.sessionId(client);
        List<ConnectionState> states = Clients.states(client);
        client.create().withMode(CreateMode.EPHEMERAL).forPath("/live");
        CountDownLatch told = new CountDownLatch(1);
        Watcher watcher = event -> {
            if (event.getType() == EventType.NodeDataChanged) {
                told.countDown();
            }
        };
        client.getData().usingWatcher(watcher).forPath("/live");
        InterProcessMutex lock = new InterProcessMutex(client, "/held-over-a-cut");
        lock.acquire();

        Checks.check("reconnect: suspended, reconnected, same session", () -> {
            Checks.control("refuse");
            Checks.eventually("suspended", () -> states.contains(ConnectionState.SUSPENDED));
            outside.setData().forPath("/live", Checks.bytes("changed"));
            Checks.control("heal");
            Checks.eventually("reconnected", () -> states.equals(List.of(ConnectionState.SUSPENDED, ConnectionState.RECONNECTED)));
            Checks.equal(Clients.sessionId(client), session);
        });
        Checks.check("reconnect: ephemeral still there, watch notified", () -> {
            Checks.equal(outside.checkExists().forPath("/live").getEphemeralOwner(), session);
            Checks.hold("told", told.await(10, TimeUnit.SECONDS));
        });
        Checks.check("reconnect: lock still held", () -> {
            Checks.hold("refused", !new InterProcessMutex(outside, "/held-over-a-cut").acquire(200, TimeUnit.MILLISECONDS));
            lock.release();
        });
    }

    private static void expiry(CuratorFramework outside) throws Exception {
        CuratorFramework brief = Clients.start(Clients.builder(Checks.HOSTS, 1_000));
        List<ConnectionState> states = Clients.states(brief);
        long session = Clients.sessionId(brief);
        InterProcessMutex heir = new InterProcessMutex(outside, "/expiring-lock");
        Checks.check("expiry: the ephemeral goes, the lock passes on", () -> {
            brief.create().withMode(CreateMode.EPHEMERAL).forPath("/expiring");
            new InterProcessMutex(brief, "/expiring-lock").acquire();
            Checks.control("refuse");
            Checks.hold("the lock passes on", heir.acquire(10, TimeUnit.SECONDS));
            Checks.equal(outside.checkExists().forPath("/expiring"), null);
        });
        Checks.check("expiry: lost, then reconnected with a new session", () -> {
            Checks.control("heal");
            Checks.eventually("lost and reconnected", () -> states.contains(ConnectionState.LOST)
                && states.get(states.size() - 1) == ConnectionState.RECONNECTED);
            Checks.hold("another session", Clients.sessionId(brief) != session);
        });
        heir.release();
        brief.close();
    }
}

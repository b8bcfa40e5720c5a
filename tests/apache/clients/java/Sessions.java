import static org.apache.zookeeper.CreateMode.EPHEMERAL;
import static org.apache.zookeeper.CreateMode.PERSISTENT;
import static org.apache.zookeeper.ZooDefs.Ids.OPEN_ACL_UNSAFE;

import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooKeeper;

/** Reconnects, silence, expiry and the end of a session. */
final class Sessions {
    private Sessions() {}

    static void run(Connection main, Connection outside) throws Exception {
        reconnect(main, outside.zk);
        silence(outside.zk);
        expiry(outside.zk);
        closing(outside.zk);
    }

    private static void reconnect(Connection main, ZooKeeper outside) throws Exception {
        ZooKeeper zk = main.zk;
        long session = zk.getSessionId();
        for (String path : new String[] {"/live", "/live/data", "/live/children", "/live/persistent", "/live/quiet"}) {
            zk.create(path, null, OPEN_ACL_UNSAFE, PERSISTENT);
        }
        zk.create("/live/mine", null, OPEN_ACL_UNSAFE, EPHEMERAL);
        Connection.Events data = new Connection.Events();
        Connection.Events children = new Connection.Events();
        Connection.Events created = new Connection.Events();
        Connection.Events quiet = new Connection.Events();
        Connection.Events persistent = new Connection.Events();
        zk.getData("/live/data", data, null);
        zk.getChildren("/live/children", children);
        zk.exists("/live/created", created);
        zk.exists("/live/quiet", quiet);
        zk.addWatch("/live/persistent", persistent, AddWatchMode.PERSISTENT_RECURSIVE);

        Checks.check("reconnect: same session, after a cut", () -> {
            main.events.forget();
            Checks.control("refuse");
            main.events.await(KeeperState.Disconnected);
            outside.setData("/live/data", null, -1);
            outside.create("/live/children/c", null, OPEN_ACL_UNSAFE, PERSISTENT);
            outside.create("/live/created", null, OPEN_ACL_UNSAFE, PERSISTENT);
            Checks.control("heal");
            main.events.await(KeeperState.SyncConnected);
            Checks.equal(zk.getSessionId(), session);
        });
        Checks.check("reconnect: ephemeral still there", () ->
            Checks.equal(outside.exists("/live/mine", false).getEphemeralOwner(), session));
        Checks.check("reconnect: watches report what happened while away", () -> {
            data.expect(EventType.NodeDataChanged, "/live/data");
            children.expect(EventType.NodeChildrenChanged, "/live/children");
            created.expect(EventType.NodeCreated, "/live/created");
        });
        Checks.check("reconnect: other watches are armed again", () -> {
            outside.setData("/live/quiet", null, -1);
            quiet.expect(EventType.NodeDataChanged, "/live/quiet");
            outside.create("/live/persistent/c", null, OPEN_ACL_UNSAFE, PERSISTENT);
            persistent.expect(EventType.NodeCreated, "/live/persistent/c");
        });
    }

    private static void silence(ZooKeeper outside) throws Exception {
        Checks.check("reconnect: after silence, same session and ephemeral", () -> {
            // It takes 2/3 of the timeout to notice, and up to a second to try again.
            try (Connection quiet = new Connection(Checks.HOSTS, 5_000)) {
                long session = quiet.zk.getSessionId();
                quiet.zk.create("/silence", null, OPEN_ACL_UNSAFE, EPHEMERAL);
                Checks.control("stall");
                quiet.events.await(KeeperState.Disconnected);
                Checks.control("heal");
                quiet.events.await(KeeperState.SyncConnected);
                Checks.equal(quiet.zk.getSessionId(), session);
                Checks.equal(outside.exists("/silence", false).getEphemeralOwner(), session);
            }
        });
    }

    private static void expiry(ZooKeeper outside) throws Exception {
        Connection expiring = new Connection(Checks.HOSTS, 1_000);
        Connection.Events gone = new Connection.Events();
        Checks.check("timeout negotiated within the server's bounds", () -> {
            Checks.equal(expiring.zk.getSessionTimeout(), 1_000);
            try (Connection hasty = new Connection(Checks.DIRECT, 100)) {
                Checks.equal(hasty.zk.getSessionTimeout(), 400);
            }
        });
        Checks.check("expiry: the ephemeral goes, others are notified", () -> {
            expiring.zk.create("/expiring", null, OPEN_ACL_UNSAFE, EPHEMERAL);
            outside.exists("/expiring", gone);
            Checks.control("refuse");
            gone.expect(EventType.NodeDeleted, "/expiring");
            Checks.equal(outside.exists("/expiring", false), null);
        });
        Checks.check("expiry: the client sees it", () -> {
            Checks.control("heal");
            expiring.events.await(KeeperState.Expired);
            Checks.refused(Code.SESSIONEXPIRED, () -> expiring.zk.exists("/", false));
        });
        expiring.close();
    }

    private static void closing(ZooKeeper outside) throws Exception {
        Checks.check("close: the session's ephemerals go at once", () -> {
            try (Connection brief = new Connection(Checks.HOSTS, 30_000)) {
                brief.zk.create("/closing", null, OPEN_ACL_UNSAFE, EPHEMERAL);
            }
            Checks.equal(outside.exists("/closing", false), null);
        });
        Checks.check("a session is handed over with its id and password", () -> {
            Connection first = new Connection(Checks.HOSTS, 8_000);
            first.zk.create("/handed", null, OPEN_ACL_UNSAFE, EPHEMERAL);
            Connection.Events events = new Connection.Events();
            try (ZooKeeper second = new ZooKeeper(Checks.HOSTS + Checks.ROOT, 8_000, events,
                    first.zk.getSessionId(), first.zk.getSessionPasswd())) {
                events.await(KeeperState.SyncConnected);
                Checks.equal(second.exists("/handed", false).getEphemeralOwner(), first.zk.getSessionId());
                // The first, cut off, would take the session back.
            }
            first.close();
            Checks.equal(outside.exists("/handed", false), null);
        });
    }
}

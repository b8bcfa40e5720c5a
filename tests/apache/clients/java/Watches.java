import static org.apache.zookeeper.CreateMode.PERSISTENT;
import static org.apache.zookeeper.Watcher.Event.EventType.ChildWatchRemoved;
import static org.apache.zookeeper.Watcher.Event.EventType.DataWatchRemoved;
import static org.apache.zookeeper.Watcher.Event.EventType.NodeChildrenChanged;
import static org.apache.zookeeper.Watcher.Event.EventType.NodeCreated;
import static org.apache.zookeeper.Watcher.Event.EventType.NodeDataChanged;
import static org.apache.zookeeper.Watcher.Event.EventType.NodeDeleted;
import static org.apache.zookeeper.Watcher.Event.EventType.PersistentWatchRemoved;
import static org.apache.zookeeper.ZooDefs.Ids.OPEN_ACL_UNSAFE;

import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Watcher.WatcherType;
import org.apache.zookeeper.ZooKeeper;

/** One-shot, persistent and recursive watches, and their removal. */
final class Watches {
    private final ZooKeeper zk;
    private final ZooKeeper other;

    private Watches(ZooKeeper zk, ZooKeeper other) {
        this.zk = zk;
        this.other = other;
    }

    static void run(ZooKeeper zk, ZooKeeper other) throws Exception {
        Watches watches = new Watches(zk, other);
        watches.oneShot();
        watches.persistent();
        watches.removal();
    }

    private void create(String path) throws Exception {
        other.create(path, null, OPEN_ACL_UNSAFE, PERSISTENT);
    }

    private void set(String path) throws Exception {
        other.setData(path, null, -1);
    }

    private void delete(String path) throws Exception {
        other.delete(path, -1);
    }

    /** By now every event of earlier changes is here: it comes before this answer. */
    private void settle() throws Exception {
        zk.sync("/");
        zk.exists("/", false);
        Thread.sleep(50);
    }

    private void oneShot() throws Exception {
        Connection.Events events = new Connection.Events();
        create("/w");
        Checks.check("watch: data changed, once", () -> {
            zk.getData("/w", events, null);
            set("/w");
            set("/w");
            events.expect(NodeDataChanged, "/w");
            settle();
            Checks.hold("notified once", events.isEmpty());
        });
        Checks.check("watch: exists, created, changed, deleted", () -> {
            zk.exists("/w/new", events);
            create("/w/new");
            events.expect(NodeCreated, "/w/new");
            zk.exists("/w/new", events);
            set("/w/new");
            events.expect(NodeDataChanged, "/w/new");
            zk.exists("/w/new", events);
            delete("/w/new");
            events.expect(NodeDeleted, "/w/new");
        });
        Checks.check("watch: children", () -> {
            zk.getChildren("/w", events);
            create("/w/c");
            events.expect(NodeChildrenChanged, "/w");
            zk.getChildren("/w", events, null);
            delete("/w/c");
            events.expect(NodeChildrenChanged, "/w");
        });
        Checks.check("watch: data and children of one znode, one event on its deletion", () -> {
            zk.getData("/w", events, null);
            zk.getChildren("/w", events);
            delete("/w");
            events.expect(NodeDeleted, "/w");
            settle();
            Checks.hold("notified once", events.isEmpty());
        });
        Checks.check("watch: no event for a znode that the watching session may not read", () -> {
            zk.exists("/w", events);
            other.create("/w", null, Permissions.all("ip", "10.0.0.1"), PERSISTENT);
            settle();
            Checks.hold("not notified", events.isEmpty());
        });
    }

    private void persistent() throws Exception {
        Checks.check("persistent watch: znode and its children, again and again", () -> {
            Connection.Events events = new Connection.Events();
            zk.addWatch("/pw", events, AddWatchMode.PERSISTENT);
            create("/pw");
            set("/pw");
            create("/pw/c");
            set("/pw/c");
            delete("/pw/c");
            delete("/pw");
            events.expect(NodeCreated, "/pw");
            events.expect(NodeDataChanged, "/pw");
            events.expect(NodeChildrenChanged, "/pw");
            events.expect(NodeChildrenChanged, "/pw");
            events.expect(NodeDeleted, "/pw");
            settle();
            Checks.hold("no more", events.isEmpty());
        });
        Checks.check("persistent recursive watch: all below", () -> {
            Connection.Events events = new Connection.Events();
            zk.addWatch("/rw", events, AddWatchMode.PERSISTENT_RECURSIVE);
            create("/rw");
            create("/rw/a");
            create("/rw/a/b");
            set("/rw/a/b");
            delete("/rw/a/b");
            set("/rw");
            events.expect(NodeCreated, "/rw");
            events.expect(NodeCreated, "/rw/a");
            events.expect(NodeCreated, "/rw/a/b");
            events.expect(NodeDataChanged, "/rw/a/b");
            events.expect(NodeDeleted, "/rw/a/b");
            events.expect(NodeDataChanged, "/rw");
            settle();
            Checks.hold("no more", events.isEmpty());
        });
    }

    private void removal() throws Exception {
        create("/rm");
        Checks.check("removeWatches: a data watch", () -> {
            Connection.Events events = new Connection.Events();
            zk.getData("/rm", events, null);
            zk.removeWatches("/rm", events, WatcherType.Data, false);
            events.expect(DataWatchRemoved, "/rm");
            set("/rm");
            settle();
            Checks.hold("not notified", events.isEmpty());
        });
        Checks.check("removeAllWatches: children, then any", () -> {
            Connection.Events events = new Connection.Events();
            zk.getChildren("/rm", events);
            zk.removeAllWatches("/rm", WatcherType.Children, false);
            events.expect(ChildWatchRemoved, "/rm");
            zk.addWatch("/rm", events, AddWatchMode.PERSISTENT);
            zk.removeAllWatches("/rm", WatcherType.Any, false);
            events.expect(PersistentWatchRemoved, "/rm");
            set("/rm");
            settle();
            Checks.hold("not notified", events.isEmpty());
        });
        Checks.check("removeWatches: a recursive watch", () -> {
            Connection.Events events = new Connection.Events();
            zk.addWatch("/rm", events, AddWatchMode.PERSISTENT_RECURSIVE);
            zk.removeWatches("/rm", events, WatcherType.PersistentRecursive, false);
            events.expect(PersistentWatchRemoved, "/rm");
            create("/rm/c");
            settle();
            Checks.hold("not notified", events.isEmpty());
        });
        Checks.check("removeWatches refused: there is none", () ->
            Checks.refused(Code.NOWATCHER, () -> zk.removeAllWatches("/rm", WatcherType.Any, false)));
    }
}

import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.admin.ZooKeeperAdmin;

/** A client with what its session went through. */
final class Connection implements AutoCloseable {
    final Events events = new Events();
    final ZooKeeperAdmin zk;

    /** Connects below the root of this script. */
    Connection(String hosts, int timeoutMs) throws Exception {
        this(hosts + Checks.ROOT, timeoutMs, null);
    }

    private Connection(String hosts, int timeoutMs, Void exact) throws Exception {
        zk = new ZooKeeperAdmin(hosts, timeoutMs, events);
        events.await(KeeperState.SyncConnected);
    }

    static Connection toAll(String hosts) throws Exception {
        return new Connection(hosts, 20_000, null);
    }

    @Override
    public void close() throws InterruptedException {
        zk.close();
    }

    /** A watcher that keeps its events, in order. */
    static final class Events implements Watcher {
        private final LinkedBlockingQueue<WatchedEvent> queue = new LinkedBlockingQueue<>();

        @Override
        public void process(WatchedEvent event) {
            queue.add(event);
        }

        WatchedEvent next() throws InterruptedException {
            WatchedEvent event = queue.poll(Checks.PATIENCE_MS, TimeUnit.MILLISECONDS);
            if (event == null) {
                throw new AssertionError("no event came");
            }
            return event;
        }

        /** The next event of a znode, changes of the session left out. */
        void expect(EventType type, String path) throws InterruptedException {
            WatchedEvent event = next();
            while (event.getType() == EventType.None) {
                event = next();
            }
            Checks.equal(event.getType() + " " + event.getPath(), type + " " + path);
        }

        /** Skips what comes before this state. */
        void await(KeeperState state) throws InterruptedException {
            WatchedEvent event = next();
            while (event.getType() != EventType.None || event.getState() != state) {
                event = next();
            }
        }

        void forget() {
            queue.clear();
        }

        boolean isEmpty() {
            return queue.isEmpty();
        }
    }
}

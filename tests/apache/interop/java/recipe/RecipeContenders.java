import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.recipes.lock.LockListener;
import org.apache.zookeeper.recipes.lock.WriteLock;

/** WriteLock, the recipe in ZooKeeper's own source tree. */
final class RecipeContenders implements Contenders.Session {
    private static final int SECOND_LOOK_MS = 500;
    private final ZooKeeper client;

    private RecipeContenders(ZooKeeper client) {
        this.client = client;
    }

    public static void main(String[] args) throws Exception {
        Contenders.serve(args[0], RecipeContenders::connect);
    }

    private static RecipeContenders connect(String hosts) throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper client = new ZooKeeper(hosts, Contenders.SESSION_MS, event -> {
            if (event.getState() == KeeperState.SyncConnected) {
                connected.countDown();
            }
        });
        if (!connected.await(Contenders.SESSION_MS, TimeUnit.MILLISECONDS)) {
            throw new IllegalStateException("not connected");
        }
        return new RecipeContenders(client);
    }

    @Override
    public Contenders.Held acquire(String dir, String kind) throws Exception {
        if (!kind.equals("lock")) {
            throw new IllegalArgumentException(kind);
        }
        create(dir);
        CountDownLatch acquired = new CountDownLatch(1);
        WriteLock lock = new WriteLock(client, dir, Ids.OPEN_ACL_UNSAFE, new LockListener() {
            @Override
            public void lockAcquired() {
                acquired.countDown();
            }

            @Override
            public void lockReleased() {}
        });
        lock.lock();
        // It waits forever when the znode before its own goes between its listing and its watch. Asking once more
        // makes it look again.
        while (!acquired.await(SECOND_LOOK_MS, TimeUnit.MILLISECONDS)) {
            if (lock.lock()) {
                System.err.println("a second look found the lock free in " + dir);
            }
        }
        return () -> {
            // A watch that is still set would queue up again once it fires: only a closed lock does not. It must not fire
            // in between.
            synchronized (lock) {
                lock.unlock();
                lock.close();
            }
        };
    }

    private void create(String path) throws Exception {
        try {
            client.create(path, new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        } catch (KeeperException.NodeExistsException there) {
            // as well
        }
    }

    @Override
    public byte[] get(String path) throws Exception {
        return client.getData(path, false, null);
    }

    @Override
    public void set(String path, byte[] data) throws Exception {
        client.setData(path, data, -1);
    }

    @Override
    public void close() throws Exception {
        client.close();
    }
}

import java.io.File;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.server.NIOServerCnxnFactory;
import org.apache.zookeeper.server.ZooKeeperServer;

/**
 * How long Apache ZooKeeper takes from nothing to a connected client where it is embedded in a test: server and client
 * in this JVM, by TCP, on a data directory of its own. Prints one line. Arguments: how often, and where to put the data.
 *
 *   java -cp "$(tests/apache/zookeeper fetch)" benches/apache/Start.java 300 /dev/shm
 */
public class Start {
    public static void main(String[] args) throws Exception {
        System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "error");
        System.setProperty("zookeeper.forceSync", "no");
        int times = Integer.parseInt(args[0]);
        long[] nanos = new long[times];
        for (int n = 0; n < times; n++) {
            nanos[n] = start(Files.createTempDirectory(Path.of(args[1]), "zoolet-start"));
        }
        // The JVM is cold at first; later tests in the same JVM are warm.
        long[] warm = Arrays.copyOfRange(nanos, times / 2, times);
        Arrays.sort(warm);
        System.out.printf("Apache ZooKeeper in the JVM: start to a connected client, p50 %.2f ms over %d starts"
            + " after %d to warm up; the first took %.0f ms%n",
            warm[warm.length / 2] / 1e6, warm.length, times / 2, nanos[0] / 1e6);
        System.exit(0);
    }

    private static long start(Path dir) throws Exception {
        long began = System.nanoTime();
        ZooKeeperServer server = new ZooKeeperServer(dir.toFile(), dir.toFile(), 2000);
        NIOServerCnxnFactory factory = new NIOServerCnxnFactory();
        factory.configure(new InetSocketAddress("127.0.0.1", 0), 0);
        factory.startup(server);
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper client = new ZooKeeper("127.0.0.1:" + factory.getLocalPort(), 10000, event -> {
            if (event.getState() == Watcher.Event.KeeperState.SyncConnected) {
                connected.countDown();
            }
        });
        connected.await();
        long took = System.nanoTime() - began;
        client.close();
        factory.shutdown();
        delete(dir.toFile());
        return took;
    }

    private static void delete(File file) {
        File[] inside = file.listFiles();
        if (inside != null) {
            Arrays.stream(inside).forEach(Start::delete);
        }
        file.delete();
    }
}

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Stays connected to a server that restarts without its state: see ../restarts.py. */
final class Restarts {
    private Restarts() {}

    public static void main(String[] args) throws Exception {
        int timeout = Integer.parseInt(System.getenv("ZK_TIMEOUT_MS"));
        CuratorFramework client =
            CuratorFrameworkFactory.newClient(Checks.HOSTS, timeout, timeout, new ExponentialBackoffRetry(50, 3));
        client.getConnectionStateListenable().addListener((ignored, state) -> {
            if (state == ConnectionState.LOST) {
                System.out.println("lost");
            }
        });
        client.start();
        long session = 0;
        while (true) {
            try {
                client.create().orSetData().forPath(Checks.ROOT, Checks.bytes("x"));
                client.getData().forPath(Checks.ROOT);
                long now = Clients.sessionId(client);
                if (now != session) {
                    session = now;
                    System.out.println("works " + Long.toHexString(session));
                }
            } catch (Exception error) {
                System.out.println("error " + error);
            }
            Thread.sleep(100);
        }
    }
}

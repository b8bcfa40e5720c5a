import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryForever;

/** Clients as an application would make them, with the script's root as their namespace. */
final class Clients {
    private Clients() {}

    static CuratorFrameworkFactory.Builder builder(String hosts, int sessionMs) {
        return CuratorFrameworkFactory.builder()
            .connectString(hosts)
            .namespace(Checks.ROOT.substring(1))
            .sessionTimeoutMs(sessionMs)
            .connectionTimeoutMs(sessionMs)
            .retryPolicy(new RetryForever(50));
    }

    static CuratorFramework start(CuratorFrameworkFactory.Builder builder) throws Exception {
        CuratorFramework client = builder.build();
        client.start();
        Checks.hold("connected", client.blockUntilConnected(Checks.PATIENCE_MS, TimeUnit.MILLISECONDS));
        return client;
    }

    static CuratorFramework start() throws Exception {
        return start(builder(Checks.HOSTS, 8_000));
    }

    static CuratorFramework startDirect() throws Exception {
        return start(builder(Checks.DIRECT, 20_000));
    }

    static long sessionId(CuratorFramework client) throws Exception {
        return client.getZookeeperClient().getZooKeeper().getSessionId();
    }

    /** The states that the client goes through from now on. */
    static List<ConnectionState> states(CuratorFramework client) {
        List<ConnectionState> states = new CopyOnWriteArrayList<>();
        client.getConnectionStateListenable().addListener((ignored, state) -> states.add(state));
        return states;
    }
}

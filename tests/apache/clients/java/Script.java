import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.ZooDefs.Ids;

/** The plain Java client against a server: see ../README.md. */
final class Script {
    static final int TIMEOUT_MS = 8_000;

    private Script() {}

    public static void main(String[] args) throws Exception {
        try (Connection all = Connection.toAll(Checks.DIRECT)) {
            all.zk.create(Checks.ROOT, null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        }
        try (Connection main = new Connection(Checks.HOSTS, TIMEOUT_MS);
                Connection outside = new Connection(Checks.DIRECT, 20_000)) {
            Operations.run(main.zk);
            Permissions.run(main.zk);
            Watches.run(main.zk, outside.zk);
            Multis.run(main.zk);
            Sessions.run(main, outside);
            Locks.run(main.zk);
        }
        Checks.finish();
    }
}

import static org.apache.zookeeper.CreateMode.CONTAINER;
import static org.apache.zookeeper.CreateMode.EPHEMERAL;
import static org.apache.zookeeper.CreateMode.EPHEMERAL_SEQUENTIAL;
import static org.apache.zookeeper.CreateMode.PERSISTENT;
import static org.apache.zookeeper.CreateMode.PERSISTENT_SEQUENTIAL;
import static org.apache.zookeeper.CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL;
import static org.apache.zookeeper.CreateMode.PERSISTENT_WITH_TTL;
import static org.apache.zookeeper.ZooDefs.Ids.OPEN_ACL_UNSAFE;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.AsyncCallback;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.admin.ZooKeeperAdmin;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;

/** Every operation but watches, ACLs and multi. */
final class Operations {
    private final ZooKeeperAdmin zk;

    private Operations(ZooKeeperAdmin zk) {
        this.zk = zk;
    }

    static void run(ZooKeeperAdmin zk) throws Exception {
        Operations operations = new Operations(zk);
        operations.modes();
        operations.vanishing();
        operations.data();
        operations.children();
        operations.deletion();
        operations.ofTheSession();
        operations.asynchronous();
    }

    private String create(String path, CreateMode mode) throws Exception {
        return zk.create(path, Checks.bytes("x"), OPEN_ACL_UNSAFE, mode);
    }

    private String createTtl(String path, CreateMode mode, Stat stat) throws Exception {
        return zk.create(path, Checks.bytes("x"), OPEN_ACL_UNSAFE, mode, stat, 200);
    }

    private void modes() throws Exception {
        create("/modes", PERSISTENT);
        Checks.check("create persistent", () -> {
            Checks.equal(create("/modes/p", PERSISTENT), "/modes/p");
            Checks.equal(zk.exists("/modes/p", false).getEphemeralOwner(), 0L);
        });
        Checks.check("create ephemeral", () -> {
            create("/modes/e", EPHEMERAL);
            Checks.equal(zk.exists("/modes/e", false).getEphemeralOwner(), zk.getSessionId());
        });
        Checks.check("create persistent sequential", () -> {
            Checks.equal(create("/modes/s-", PERSISTENT_SEQUENTIAL), "/modes/s-0000000002");
            Checks.equal(create("/modes/s-", PERSISTENT_SEQUENTIAL), "/modes/s-0000000003");
        });
        Checks.check("create ephemeral sequential", () -> {
            Checks.equal(create("/modes/es-", EPHEMERAL_SEQUENTIAL), "/modes/es-0000000004");
            Checks.equal(zk.exists("/modes/es-0000000004", false).getEphemeralOwner(), zk.getSessionId());
        });
        Checks.check("create container", () -> {
            Checks.equal(create("/modes/container", CONTAINER), "/modes/container");
            Checks.equal(zk.exists("/modes/container", false).getEphemeralOwner(), 0L);
        });
        Checks.check("create persistent with TTL, stat returned", () -> {
            Stat stat = new Stat();
            Checks.equal(createTtl("/modes/ttl", PERSISTENT_WITH_TTL, stat), "/modes/ttl");
            Checks.equal(stat.getDataLength(), 1);
            Checks.equal(stat.getEphemeralOwner(), 0L);
        });
        Checks.check("create persistent sequential with TTL", () ->
            Checks.equal(createTtl("/modes/ttl-", PERSISTENT_SEQUENTIAL_WITH_TTL, null), "/modes/ttl-0000000007"));
        Checks.check("create2 answers with the stat", () -> {
            Stat stat = new Stat();
            zk.create("/modes/stat", Checks.bytes("1234"), OPEN_ACL_UNSAFE, PERSISTENT, stat);
            Checks.equal(stat, zk.exists("/modes/stat", false));
        });
        Checks.check("create refused: exists, no parent, below an ephemeral", () -> {
            Checks.refused(Code.NODEEXISTS, () -> create("/modes/p", PERSISTENT));
            Checks.refused(Code.NONODE, () -> create("/modes/none/x", PERSISTENT));
            Checks.refused(Code.NOCHILDRENFOREPHEMERALS, () -> create("/modes/e/x", PERSISTENT));
        });
    }

    private void vanishing() {
        Checks.check("a TTL znode goes when its time is over", () ->
            Checks.eventually("TTL znodes are gone", () -> zk.exists("/modes/ttl", false) == null
                && zk.exists("/modes/ttl-0000000007", false) == null));
        Checks.check("a container goes with its last child", () -> {
            create("/modes/container/child", PERSISTENT);
            zk.delete("/modes/container/child", -1);
            Checks.eventually("the container is gone", () -> zk.exists("/modes/container", false) == null);
        });
    }

    private void data() {
        Checks.check("getData and setData", () -> {
            create("/data", PERSISTENT);
            Stat stat = new Stat();
            Checks.equal(zk.getData("/data", false, stat), Checks.bytes("x"));
            Checks.equal(stat.getVersion(), 0);
            Stat set = zk.setData("/data", Checks.bytes("three"), 0);
            Checks.equal(set.getVersion(), 1);
            Checks.equal(set, zk.exists("/data", false));
        });
        Checks.check("setData refused: wrong version, missing", () -> {
            Checks.refused(Code.BADVERSION, () -> zk.setData("/data", null, 7));
            Checks.refused(Code.NONODE, () -> zk.setData("/none", null, -1));
        });
        Checks.check("null data is not empty data", () -> {
            zk.setData("/data", null, -1);
            Checks.equal(zk.getData("/data", false, null), null);
            zk.setData("/data", new byte[0], -1);
            Checks.equal(zk.getData("/data", false, null), new byte[0]);
        });
        Checks.check("a megabyte, and no more", () -> {
            byte[] most = new byte[1_000_000];
            most[999_999] = 7;
            zk.setData("/data", most, -1);
            Checks.equal(zk.getData("/data", false, null), most);
        });
        Checks.check("exists reports missing znodes", () -> Checks.equal(zk.exists("/none", false), null));
        Checks.check("sync", () -> zk.sync("/data"));
        Checks.check("getConfig is empty, not null", () ->
            Checks.equal(zk.getConfig(false, new Stat()), new byte[0]));
    }

    private void children() {
        Checks.check("getChildren", () -> {
            for (String path : List.of("/tree", "/tree/a", "/tree/b", "/tree/b/deep")) {
                create(path, PERSISTENT);
            }
            Checks.equal(sorted(zk.getChildren("/tree", false)), List.of("a", "b"));
            Checks.equal(zk.getChildren("/tree/a", false), List.of());
            Checks.refused(Code.NONODE, () -> zk.getChildren("/none", false));
        });
        Checks.check("getChildren with stat", () -> {
            Stat stat = new Stat();
            Checks.equal(sorted(zk.getChildren("/tree", false, stat)), List.of("a", "b"));
            Checks.equal(List.of(stat.getNumChildren(), stat.getCversion()), List.of(2, 2));
        });
        Checks.check("getAllChildrenNumber", () -> {
            Checks.equal(zk.getAllChildrenNumber("/tree"), 3);
            Checks.refused(Code.NONODE, () -> zk.getAllChildrenNumber("/none"));
        });
    }

    private void deletion() {
        Checks.check("delete", () -> {
            create("/gone", PERSISTENT);
            zk.delete("/gone", 0);
            Checks.equal(zk.exists("/gone", false), null);
        });
        Checks.check("delete refused: missing, wrong version, children", () -> {
            Checks.refused(Code.NONODE, () -> zk.delete("/none", -1));
            Checks.refused(Code.BADVERSION, () -> zk.delete("/tree/a", 3));
            Checks.refused(Code.NOTEMPTY, () -> zk.delete("/tree", -1));
        });
    }

    private void ofTheSession() {
        Checks.check("getEphemerals", () -> {
            create("/tree/mine", EPHEMERAL);
            // The client neither adds nor takes away the chroot here.
            Checks.equal(zk.getEphemerals(Checks.ROOT + "/tree"), List.of(Checks.ROOT + "/tree/mine"));
            Checks.equal(zk.getEphemerals().size(), 3);
            Checks.equal(zk.getEphemerals("/none"), List.of());
        });
        Checks.check("whoAmI", () -> {
            List<Id> me = zk.whoAmI().stream().map(info -> new Id(info.getAuthScheme(), info.getUser())).toList();
            List<Id> expected = new ArrayList<>(Checks.IDENTITIES);
            expected.add(new Id("ip", "127.0.0.1"));
            Checks.equal(Set.copyOf(me), Set.copyOf(expected));
        });
        Checks.check("reconfig refused, connection kept", () -> {
            Checks.refused(Code.RECONFIGDISABLED, () ->
                zk.reconfigure("server.2=127.0.0.1:2:3;4", null, null, -1, new Stat()));
            zk.exists("/", false);
        });
    }

    private void asynchronous() {
        Checks.check("two thousand creates on their way at once, answered in order", () -> {
            create("/many", PERSISTENT);
            List<String> answered = Collections.synchronizedList(new ArrayList<>());
            List<String> sent = new ArrayList<>();
            CompletableFuture<Void> done = new CompletableFuture<>();
            AsyncCallback.StringCallback note = (code, path, context, name) -> answered.add(name);
            for (int i = 0; i < 2000; i++) {
                sent.add("/many/" + i);
                zk.create("/many/" + i, null, OPEN_ACL_UNSAFE, PERSISTENT, note, null);
            }
            zk.sync("/many", (code, path, context) -> done.complete(null), null);
            done.get(Checks.PATIENCE_MS, TimeUnit.MILLISECONDS);
            Checks.equal(answered, sent);
            Checks.equal(zk.exists("/many", false).getNumChildren(), 2000);
        });
    }

    private static List<String> sorted(List<String> names) {
        List<String> copy = new ArrayList<>(names);
        Collections.sort(copy);
        return copy;
    }
}

import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;
import org.apache.zookeeper.server.auth.DigestAuthenticationProvider;

/** The framework's own operations, below its recipes. */
final class Framework {
    private static final byte[] X = Checks.bytes("x");

    private Framework() {}

    static void run(CuratorFramework client, CuratorFramework outside) throws Exception {
        modes(client);
        operations(client);
        transactions(client);
        watches(client, outside);
        permissions(client);
    }

    private static void modes(CuratorFramework client) throws Exception {
        client.create().forPath("/modes");
        for (CreateMode mode : CreateMode.values()) {
            Checks.check("create " + mode, () -> {
                String path = "/modes/" + mode + (mode.isSequential() ? "-" : "");
                Stat stat = new Stat();
                String made = mode.isTTL()
                    ? client.create().withTtl(300).storingStatIn(stat).withMode(mode).forPath(path, X)
                    : client.create().storingStatIn(stat).withMode(mode).forPath(path, X);
                Checks.hold(made, made.matches(mode.isSequential() ? path + "\\d{10}" : path));
                Checks.equal(stat.getEphemeralOwner(), mode.isEphemeral() ? Clients.sessionId(client) : 0L);
            });
        }
        Checks.check("create with parents, as containers, protected", () -> {
            client.create().creatingParentsIfNeeded().forPath("/parents/a/b");
            client.create().creatingParentContainersIfNeeded().forPath("/modes/CONTAINER/c/d");
            String path = client.create().withProtection().withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath("/modes/p-");
            Checks.hold(path, path.matches("/modes/_c_[-0-9a-f]{36}-p-\\d{10}"));
        });
        Checks.check("create or set data", () -> {
            client.create().orSetData().forPath("/upsert", X);
            client.create().orSetData().forPath("/upsert", Checks.bytes("y"));
            Checks.equal(client.getData().forPath("/upsert"), Checks.bytes("y"));
        });
        Checks.check("emptied containers and old TTL znodes go", () -> {
            client.delete().forPath("/modes/CONTAINER/c/d");
            Checks.eventually("containers and TTL znodes are gone", () -> client.getChildren().forPath("/modes").stream()
                .noneMatch(name -> name.contains("CONTAINER") || name.contains("TTL")));
        });
    }

    private static void operations(CuratorFramework client) {
        Checks.check("get, set, check, delete with versions", () -> {
            client.create().forPath("/data", X);
            Stat stat = new Stat();
            Checks.equal(client.getData().storingStatIn(stat).forPath("/data"), X);
            Checks.equal(client.setData().withVersion(0).forPath("/data", X).getVersion(), 1);
            Checks.refused(Code.BADVERSION, () -> client.setData().withVersion(0).forPath("/data", X));
            Checks.equal(client.checkExists().forPath("/none"), null);
            Checks.refused(Code.BADVERSION, () -> client.delete().withVersion(9).forPath("/data"));
            client.delete().withVersion(1).forPath("/data");
            Checks.refused(Code.NONODE, () -> client.getData().forPath("/data"));
        });
        Checks.check("children, delete with children", () -> {
            Checks.equal(client.getChildren().forPath("/parents"), List.of("a"));
            Checks.refused(Code.NOTEMPTY, () -> client.delete().forPath("/parents"));
            client.delete().guaranteed().deletingChildrenIfNeeded().forPath("/parents");
            client.delete().quietly().forPath("/parents");
        });
        Checks.check("compressed data", () -> {
            byte[] zeros = new byte[100_000];
            client.create().compressed().forPath("/compressed", zeros);
            Checks.equal(client.getData().decompressed().forPath("/compressed"), zeros);
        });
        Checks.check("in background", () -> {
            CompletableFuture<Integer> code = new CompletableFuture<>();
            client.create().inBackground((ignored, event) -> code.complete(event.getResultCode())).forPath("/background");
            Checks.equal(code.get(10, TimeUnit.SECONDS), 0);
            client.sync().forPath("/background");
        });
        Checks.check("getConfig is empty, reconfig refused", () -> {
            Checks.equal(client.getConfig().forEnsemble(), new byte[0]);
            Checks.refused(Code.RECONFIGDISABLED, () -> client.reconfig().leaving("2").forEnsemble());
        });
    }

    private static void transactions(CuratorFramework client) {
        Checks.check("transaction: succeeds whole", () -> {
            List<CuratorTransactionResult> results = client.transaction().forOperations(
                client.transactionOp().create().forPath("/tx", X),
                client.transactionOp().create().withMode(CreateMode.PERSISTENT_SEQUENTIAL).forPath("/tx/s-"),
                client.transactionOp().create().withTtl(60_000).withMode(CreateMode.PERSISTENT_WITH_TTL).forPath("/tx/ttl"),
                client.transactionOp().create().withMode(CreateMode.CONTAINER).forPath("/tx/container"),
                client.transactionOp().setData().withVersion(0).forPath("/tx", X),
                client.transactionOp().check().withVersion(1).forPath("/tx"),
                client.transactionOp().delete().forPath("/tx/s-0000000000"));
            Checks.equal(results.get(1).getResultPath(), "/tx/s-0000000000");
            Checks.equal(results.get(4).getResultStat().getVersion(), 1);
            Checks.equal(client.checkExists().forPath("/tx").getNumChildren(), 2);
        });
        Checks.check("transaction: fails whole, an error for each operation", () -> {
            try {
                client.transaction().forOperations(
                    client.transactionOp().create().forPath("/tx/never"),
                    client.transactionOp().delete().forPath("/none"),
                    client.transactionOp().create().forPath("/tx/neither"));
                throw new AssertionError("not refused");
            } catch (KeeperException.NoNodeException failure) {
                Checks.equal(failure.getResults().stream().map(result ->
                    ((OpResult.ErrorResult) result).getErr()).toList(), List.of(0, -101, -2));
            }
            Checks.equal(client.checkExists().forPath("/tx/never"), null);
        });
    }

    private static void watches(CuratorFramework client, CuratorFramework outside) throws Exception {
        LinkedBlockingQueue<WatchedEvent> events = new LinkedBlockingQueue<>();
        Watcher watcher = events::add;
        outside.create().forPath("/w");
        Checks.check("watch: data, children, exists", () -> {
            client.getData().usingWatcher(watcher).forPath("/w");
            outside.setData().forPath("/w", X);
            expect(events, EventType.NodeDataChanged, "/w");
            client.getChildren().usingWatcher(watcher).forPath("/w");
            outside.create().forPath("/w/c");
            expect(events, EventType.NodeChildrenChanged, "/w");
            client.checkExists().usingWatcher(watcher).forPath("/w/d");
            outside.create().forPath("/w/d");
            expect(events, EventType.NodeCreated, "/w/d");
        });
        Checks.check("watch: persistent recursive, and its removal", () -> {
            client.watchers().add().withMode(AddWatchMode.PERSISTENT_RECURSIVE).usingWatcher(watcher).forPath("/w");
            outside.create().forPath("/w/c/deep");
            outside.setData().forPath("/w/c/deep", X);
            expect(events, EventType.NodeCreated, "/w/c/deep");
            expect(events, EventType.NodeDataChanged, "/w/c/deep");
            client.watchers().removeAll().forPath("/w");
            expect(events, EventType.PersistentWatchRemoved, "/w");
            outside.setData().forPath("/w/c/deep", X);
            client.sync().forPath("/w");
            client.checkExists().forPath("/w");
            Checks.hold("not notified", events.isEmpty());
        });
    }

    private static void expect(LinkedBlockingQueue<WatchedEvent> events, EventType type, String path) throws Exception {
        WatchedEvent event = events.poll(10, TimeUnit.SECONDS);
        Checks.equal(event == null ? "none" : event.getType() + " " + event.getPath(), type + " " + path);
    }

    private static void permissions(CuratorFramework client) {
        Checks.check("digest: allowed with authorization, denied without", () -> {
            List<ACL> bobOnly = Arrays.asList(new ACL(Perms.ALL,
                new Id("digest", DigestAuthenticationProvider.generateDigest("bob:pw"))));
            try (CuratorFramework bob = Clients.start(
                    Clients.builder(Checks.HOSTS, 8_000).authorization("digest", Checks.bytes("bob:pw")))) {
                bob.create().withACL(Ids.CREATOR_ALL_ACL).forPath("/acl-auth", X);
                Checks.creatorOnly(bob.getACL().forPath("/acl-auth"), bobOnly.get(0).getId());
                bob.create().withACL(bobOnly).forPath("/acl", X);
                Checks.equal(bob.getACL().forPath("/acl"), bobOnly);
                Checks.equal(bob.getData().forPath("/acl"), X);
                Checks.refused(Code.NOAUTH, () -> client.getData().forPath("/acl"));
                Checks.refused(Code.NOAUTH, () -> client.setACL().withACL(Ids.OPEN_ACL_UNSAFE).forPath("/acl"));
                Checks.control("cut");
                Checks.equal(bob.getData().forPath("/acl"), X);
                bob.setACL().withVersion(0).withACL(Ids.OPEN_ACL_UNSAFE).forPath("/acl");
                Checks.equal(client.getData().forPath("/acl"), X);
            }
        });
    }
}

import static org.apache.zookeeper.CreateMode.PERSISTENT;
import static org.apache.zookeeper.ZooDefs.Ids.CREATOR_ALL_ACL;
import static org.apache.zookeeper.ZooDefs.Ids.OPEN_ACL_UNSAFE;
import static org.apache.zookeeper.ZooDefs.Ids.READ_ACL_UNSAFE;

import java.util.Arrays;
import java.util.List;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;
import org.apache.zookeeper.server.auth.DigestAuthenticationProvider;

/** ACLs and authentication. */
final class Permissions {
    private Permissions() {}

    static void run(ZooKeeper zk) throws Exception {
        byte[] secret = Checks.bytes("secret");
        List<ACL> bobOnly = all("digest", DigestAuthenticationProvider.generateDigest("bob:pw"));
        zk.create("/acl", secret, OPEN_ACL_UNSAFE, PERSISTENT);

        Checks.check("getACL and setACL, right and wrong version", () -> {
            Stat stat = new Stat();
            Checks.equal(zk.getACL("/acl", stat), OPEN_ACL_UNSAFE);
            Checks.equal(stat.getAversion(), 0);
            Checks.equal(zk.setACL("/acl", bobOnly, 0).getAversion(), 1);
            Checks.refused(Code.NOAUTH, () -> zk.setACL("/acl", OPEN_ACL_UNSAFE, 1));
            zk.create("/acl-open", null, OPEN_ACL_UNSAFE, PERSISTENT);
            Checks.refused(Code.BADVERSION, () -> zk.setACL("/acl-open", OPEN_ACL_UNSAFE, 7));
            Checks.refused(Code.INVALIDACL, () -> zk.setACL("/acl-open", all("nonsense", "x"), -1));
        });
        Checks.check("digest: denied without", () -> {
            Checks.refused(Code.NOAUTH, () -> zk.getData("/acl", false, null));
            Checks.refused(Code.NOAUTH, () -> zk.setData("/acl", null, -1));
            Checks.refused(Code.NOAUTH, () -> zk.getChildren("/acl", false));
            Checks.refused(Code.NOAUTH, () -> zk.exists("/acl", false));
            Checks.refused(Code.NOAUTH, () -> zk.getACL("/acl", new Stat()));
            Checks.refused(Code.NOAUTH, () -> zk.getAllChildrenNumber("/acl"));
            Checks.refused(Code.NOAUTH, () -> zk.create("/acl/x", null, OPEN_ACL_UNSAFE, PERSISTENT));
        });
        try (Connection bob = new Connection(Checks.HOSTS, Script.TIMEOUT_MS)) {
            Checks.check("digest: allowed with addAuthInfo", () -> {
                bob.zk.addAuthInfo("digest", Checks.bytes("bob:pw"));
                Checks.equal(bob.zk.getData("/acl", false, null), secret);
                Checks.equal(bob.zk.getACL("/acl", new Stat()), bobOnly);
            });
            Checks.check("digest: returned by whoAmI", () ->
                Checks.hold("bob is listed", bob.zk.whoAmI().stream().anyMatch(info -> info.getUser().equals("bob"))));
            Checks.check("digest: allowed after a reconnect", () -> {
                Checks.control("cut");
                bob.events.await(KeeperState.Disconnected);
                bob.events.await(KeeperState.SyncConnected);
                Checks.equal(bob.zk.getData("/acl", false, null), secret);
            });
            Checks.check("auth scheme: the creator's own id", () -> {
                bob.zk.create("/acl-auth", null, CREATOR_ALL_ACL, PERSISTENT);
                Checks.creatorOnly(bob.zk.getACL("/acl-auth", new Stat()), bobOnly.get(0).getId());
                if (Checks.IDENTITIES.isEmpty()) {
                    Checks.refused(Code.INVALIDACL, () -> zk.create("/acl-no-id", null, CREATOR_ALL_ACL, PERSISTENT));
                }
            });
            Checks.check("digests are masked for those who only may read", () -> {
                bob.zk.setACL("/acl-auth", Arrays.asList(bobOnly.get(0), READ_ACL_UNSAFE.get(0)), -1);
                Checks.equal(zk.getACL("/acl-auth", new Stat()).get(0).getId(), new Id("digest", "bob:x"));
            });
        }
        Checks.check("ip scheme", () -> {
            zk.create("/acl-ip", secret, all("ip", "127.0.0.0/8"), PERSISTENT);
            zk.create("/acl-far", secret, all("ip", "10.0.0.1"), PERSISTENT);
            Checks.equal(zk.getData("/acl-ip", false, null), secret);
            Checks.refused(Code.NOAUTH, () -> zk.getData("/acl-far", false, null));
        });
        Checks.check("super user", () -> {
            try (Connection root = new Connection(Checks.HOSTS, Script.TIMEOUT_MS)) {
                root.zk.addAuthInfo("digest", Checks.bytes("super:secret"));
                Checks.equal(root.zk.getData("/acl", false, null), secret);
                Checks.equal(root.zk.getData("/acl-far", false, null), secret);
            }
        });
        Checks.check("auth with an unknown scheme fails", () -> {
            Connection other = new Connection(Checks.HOSTS, Script.TIMEOUT_MS);
            other.zk.addAuthInfo("nonsense", Checks.bytes("x"));
            other.events.await(KeeperState.AuthFailed);
            other.close();
        });
    }

    /** Everything for one id. (Not List.of: the client asks it whether it contains null, which it does not bear.) */
    static List<ACL> all(String scheme, String id) {
        return Arrays.asList(new ACL(Perms.ALL, new Id(scheme, id)));
    }
}

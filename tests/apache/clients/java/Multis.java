import static org.apache.zookeeper.CreateMode.CONTAINER;
import static org.apache.zookeeper.CreateMode.EPHEMERAL;
import static org.apache.zookeeper.CreateMode.PERSISTENT;
import static org.apache.zookeeper.CreateMode.PERSISTENT_SEQUENTIAL;
import static org.apache.zookeeper.CreateMode.PERSISTENT_WITH_TTL;
import static org.apache.zookeeper.ZooDefs.Ids.OPEN_ACL_UNSAFE;

import java.util.List;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.ZooKeeper;

/** Transactions and multi reads. */
final class Multis {
    private Multis() {}

    static void run(ZooKeeper zk) throws Exception {
        byte[] zero = Checks.bytes("0");
        zk.create("/multi", zero, OPEN_ACL_UNSAFE, PERSISTENT);
        Checks.check("multi: all kinds succeed", () -> {
            List<OpResult> results = zk.multi(List.of(
                Op.check("/multi", 0),
                Op.create("/multi/a", zero, OPEN_ACL_UNSAFE, PERSISTENT),
                Op.create("/multi/a/s-", zero, OPEN_ACL_UNSAFE, PERSISTENT_SEQUENTIAL),
                Op.create("/multi/e", zero, OPEN_ACL_UNSAFE, EPHEMERAL),
                Op.create("/multi/container", zero, OPEN_ACL_UNSAFE, CONTAINER),
                Op.create("/multi/ttl", zero, OPEN_ACL_UNSAFE, PERSISTENT_WITH_TTL, 60_000),
                Op.setData("/multi", Checks.bytes("1"), 0),
                Op.delete("/multi/a/s-0000000000", -1)));
            Checks.equal(results.size(), 8);
            // The client leaves the chroot before the paths of these results.
            Checks.equal(((OpResult.CreateResult) results.get(2)).getPath(), Checks.ROOT + "/multi/a/s-0000000000");
            OpResult.SetDataResult set = (OpResult.SetDataResult) results.get(6);
            Checks.equal(set.getStat().getVersion(), 1);
            long zxid = set.getStat().getMzxid();
            for (String path : List.of("/multi/a", "/multi/e", "/multi/container", "/multi/ttl")) {
                Checks.equal(zk.exists(path, false).getCzxid(), zxid);
            }
            Checks.equal(zk.exists("/multi/a", false).getNumChildren(), 0);
        });
        Checks.check("multi: one failure undoes all, an error for each operation", () -> {
            try {
                zk.multi(List.of(
                    Op.create("/multi/b", zero, OPEN_ACL_UNSAFE, PERSISTENT),
                    Op.check("/multi", 9),
                    Op.delete("/multi/a", -1)));
                throw new AssertionError("not refused");
            } catch (KeeperException failure) {
                Checks.equal(failure.code(), Code.BADVERSION);
                Checks.equal(failure.getResults(), List.of(
                    new OpResult.ErrorResult(Code.OK.intValue()),
                    new OpResult.ErrorResult(Code.BADVERSION.intValue()),
                    new OpResult.ErrorResult(Code.RUNTIMEINCONSISTENCY.intValue())));
            }
            Checks.equal(zk.exists("/multi/b", false), null);
        });
        Checks.check("multi: each part sees the parts before it", () ->
            zk.transaction()
                .create("/multi/chain", zero, OPEN_ACL_UNSAFE, PERSISTENT)
                .create("/multi/chain/x", zero, OPEN_ACL_UNSAFE, PERSISTENT)
                .delete("/multi/chain/x", 0)
                .setData("/multi/chain", zero, 0)
                .check("/multi/chain", 1)
                .delete("/multi/chain", 1)
                .commit());
        Checks.check("multi: nothing to do", () -> Checks.equal(zk.multi(List.of()), List.of()));
        Checks.check("multi read: each part by itself", () -> {
            List<OpResult> results = zk.multi(List.of(
                Op.getData("/multi"), Op.getChildren("/none"), Op.getChildren("/multi/a")));
            Checks.equal(((OpResult.GetDataResult) results.get(0)).getData(), Checks.bytes("1"));
            Checks.equal(results.get(1), new OpResult.ErrorResult(Code.NONODE.intValue()));
            Checks.equal(((OpResult.GetChildrenResult) results.get(2)).getChildren(), List.of());
        });
    }
}

"""zkCli, Apache ZooKeeper's shell, against a server: see ../README.md. The argument is its class path."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2]))

from harness.checks import DIRECT, HOSTS, IDENTITIES, ROOT, checking, control, equal, eventually, finish
from shell import JAVA_OPTIONS, Shell, at_once

CLASSPATH = sys.argv[1]


def shell(hosts=HOSTS, **options):
    return Shell(CLASSPATH, hosts + ROOT, **options)


def main():
    with checking("one command as arguments, exit code 0"):
        code, printed = at_once(CLASSPATH, DIRECT, "create", ROOT)
        # The event of the new session may be printed after it.
        equal((code, f"Created {ROOT}" in printed), (0, True))
    with checking("one command as arguments, exit code 1 when refused"):
        code, printed = at_once(CLASSPATH, DIRECT, "get", "/none")
        equal((code, "Node does not exist: /none" in printed), (1, True))
    zk = shell()
    outside = shell(DIRECT)
    for section in (modes, data, children, deletion, acl, miscellany):
        section(zk)
    quota()
    for section in (watches, reconnect):
        section(zk, outside)
    lock(zk, outside)
    expiry(outside)
    with checking("quit"):
        equal(zk.quit(), 0)
    outside.quit()
    finish()


def stat(lines):
    """The stat that a command printed, as a dictionary."""
    return dict(line.split(" = ", 1) for line in lines if " = " in line)


def modes(zk):
    zk.run("create /modes")
    with checking("create persistent, ephemeral, sequential, ephemeral sequential, container"):
        equal(zk.one("create /modes/p text"), "Created /modes/p")
        equal(zk.one("create -e /modes/e"), "Created /modes/e")
        equal(zk.one("create -s /modes/s-"), "Created /modes/s-0000000002")
        equal(zk.one("create -s -e /modes/se-"), "Created /modes/se-0000000003")
        equal(zk.one("create -c /modes/c"), "Created /modes/c")
        assert stat(zk.run("stat /modes/e"))["ephemeralOwner"] != "0x0"
        equal(stat(zk.run("stat /modes/c"))["ephemeralOwner"], "0x0")
    with checking("create with TTL, and sequential with TTL"):
        equal(zk.one("create -t 300 /modes/t"), "Created /modes/t")
        equal(zk.one("create -t 300 -s /modes/t-"), "Created /modes/t-0000000006")
    with checking("create refused: exists, no parent, below an ephemeral"):
        equal(zk.one("create /modes/p"), "Node already exists: /modes/p")
        equal(zk.one("create /modes/none/x"), "Node does not exist: /modes/none/x")
        equal(zk.one("create /modes/e/x"), "Ephemerals cannot have children: /modes/e/x")
    with checking("a container goes with its last child, a TTL znode with its time"):
        zk.run("create /modes/c/x")
        zk.run("delete /modes/c/x")
        eventually(lambda: not {"c", "t", "t-0000000006"} & set(names(zk.one("ls /modes"))), "they are gone")


def names(line):
    return [name for name in line.strip("[]").split(", ") if name]


def data(zk):
    with checking("get and set"):
        zk.run("create /data one")
        equal(zk.one("get /data"), "one")
        equal(zk.run("set /data two"), [])
        printed = zk.run("get -s /data")
        equal((printed[0], stat(printed)["dataVersion"]), ("two", "1"))
        equal(stat(zk.run("set -s /data three"))["dataLength"], "5")
    with checking("set with a version, right and wrong"):
        equal(zk.run("set -v 2 /data four"), [])
        equal(zk.one("set -v 2 /data five"), "version No is not valid : /data")
        equal(zk.one("get /data"), "four")
    with checking("stat"):
        equal(stat(zk.run("stat /data"))["dataVersion"], "3")
        equal(zk.one("stat /none"), "Node does not exist: /none")
    with checking("sync"):
        equal(zk.one("sync /data"), "Sync is OK")


def children(zk):
    with checking("ls, with stat, recursive"):
        for path in ("/tree", "/tree/a", "/tree/b", "/tree/b/deep"):
            zk.run(f"create {path}")
        equal(sorted(names(zk.one("ls /tree"))), ["a", "b"])
        equal(stat(zk.run("ls -s /tree"))["numChildren"], "2")
        equal(sorted(zk.run("ls -R /tree")), ["/tree", "/tree/a", "/tree/b", "/tree/b/deep"])
        equal(zk.one("ls /none"), "Node does not exist: /none")
    with checking("getAllChildrenNumber"):
        equal(zk.one("getAllChildrenNumber /tree"), "3")
    with checking("getEphemerals"):
        assert "/modes/e" in zk.run("getEphemerals")[0]


def deletion(zk):
    with checking("delete, with a version"):
        zk.run("create /gone")
        equal(zk.one("delete -v 3 /gone"), "version No is not valid : /gone")
        equal(zk.run("delete -v 0 /gone"), [])
        equal(zk.one("delete /gone"), "Node does not exist: /gone")
    with checking("delete refused: children"):
        equal(zk.one("delete /tree"), "Node not empty: /tree")
    with checking("deleteall"):
        zk.run("deleteall /tree -b 2")
        equal(zk.one("stat /tree"), "Node does not exist: /tree")


def quota():
    """Quotas are kept below the real root, so this shell has no chroot."""
    zk = Shell(CLASSPATH, DIRECT)
    with checking("setquota, listquota, delquota"):
        zk.run("create /limited 12345")
        zk.run("create /limited/x")
        zk.run("setquota -n 5 /limited")
        printed = " ".join(zk.run("listquota /limited"))
        assert "count=5" in printed and "count=2" in printed and "bytes=5" in printed, printed
        zk.run("create /limited/y 67890")
        printed = " ".join(zk.run("listquota /limited"))
        assert "count=3" in printed and "bytes=10" in printed, printed
        zk.run("delquota -n /limited")
        printed = " ".join(zk.run("listquota /limited"))
        assert "count=-1" in printed, printed
    zk.quit()


def acl(zk):
    with checking("getAcl and setAcl"):
        zk.run("create /acl secret")
        equal(zk.run("getAcl /acl"), ["'world,'anyone", ": cdrwa"])
        equal(zk.run("setAcl -v 0 /acl world:anyone:ra"), [])
        equal(zk.run("getAcl -s /acl")[:2], ["'world,'anyone", ": ra"])
        equal(zk.one("setAcl -v 0 /acl world:anyone:cdrwa"), "version No is not valid : /acl")
        equal(zk.one("set /acl x"), "Insufficient permission : /acl")
    with checking("digest: denied without, allowed with addauth"):
        zk.run("create /acl-bob secret digest:bob:ikIaKsbtGweaHnb/jKn7OHqbunM=:cdrwa")
        equal(zk.one("get /acl-bob"), "Insufficient permission : /acl-bob")
        zk.run("addauth digest bob:wrong")
        equal(zk.one("get /acl-bob"), "Insufficient permission : /acl-bob")
        zk.run("addauth digest bob:pw")
        equal(zk.one("get /acl-bob"), "secret")
    with checking("auth scheme: the creator's own ids"):
        zk.run("create /acl-auth x auth::cdrwa")
        printed = zk.run("getAcl /acl-auth")
        for scheme, own in [("digest", "bob:ikIaKsbtGweaHnb/jKn7OHqbunM="), *IDENTITIES]:
            assert f"'{scheme},'{own.replace(',', '%2C')}" in printed, printed
    with checking("setAcl of a whole tree"):
        zk.run("create /acl-auth/child")
        zk.run("setAcl -R /acl-auth world:anyone:cdrwa")
        equal(zk.run("getAcl /acl-auth/child"), ["'world,'anyone", ": cdrwa"])
    with checking("whoami"):
        printed = zk.run("whoami")
        for scheme, own in [("ip", "127.0.0.1"), ("digest", "bob"), *IDENTITIES]:
            assert f"{scheme}: {own}" in printed, printed


def miscellany(zk):
    with checking("config"):
        zk.run("config")  # empty, standalone
    with checking("reconfig refused"):
        assert "Reconfig is disabled" in zk.one("reconfig -remove 2")
    with checking("history and redo"):
        last = zk.run("history")[-1]
        assert last.endswith(" - history"), last
    with checking("close and connect"):
        zk.run("close")
        zk.run(f"connect {HOSTS}{ROOT}")
        zk.await_event("SyncConnected")
        equal(zk.one("get /data"), "four")


def watches(zk, outside):
    with checking("watch: data, children, stat"):
        zk.run("create /w")
        zk.run("get -w /w")
        outside.run("set /w 1")
        zk.await_event("SyncConnected", "NodeDataChanged", "/w")
        zk.run("ls -w /w")
        outside.run("create /w/c")
        zk.await_event("SyncConnected", "NodeChildrenChanged", "/w")
        zk.run("stat -w /w/c")
        outside.run("delete /w/c")
        zk.await_event("SyncConnected", "NodeDeleted", "/w/c")
    with checking("watch: persistent recursive and persistent"):
        zk.run("addWatch /w")
        outside.run("create /w/deep")
        outside.run("create /w/deep/er")
        zk.await_event("SyncConnected", "NodeCreated", "/w/deep")
        zk.await_event("SyncConnected", "NodeCreated", "/w/deep/er")
        zk.run("create /pw")
        zk.run("addWatch -m PERSISTENT /pw")
        outside.run("set /pw 1")
        outside.run("create /pw/c")
        zk.await_event("SyncConnected", "NodeDataChanged", "/pw")
        zk.await_event("SyncConnected", "NodeChildrenChanged", "/pw")
    with checking("removewatches"):
        zk.run("removewatches /w")
        zk.await_event("SyncConnected", "PersistentWatchRemoved", "/w")
        outside.run("create /w/unseen")
        zk.run("sync /w")
        zk.run("ls /w")
        equal(zk.events, [])


def reconnect(zk, outside):
    with checking("reconnect: session and ephemeral kept, watch armed again, auth sent again"):
        zk.run("addauth digest bob:pw")
        zk.run("create -e /live")
        owner = stat(zk.run("stat -w /live"))["ephemeralOwner"]
        control("refuse")
        zk.await_event("Disconnected")
        outside.run("set /live changed")
        control("heal")
        zk.await_event("SyncConnected")
        zk.await_event("SyncConnected", "NodeDataChanged", "/live")
        equal(stat(outside.run("stat /live"))["ephemeralOwner"], owner)
        equal(zk.one("get /acl-bob"), "secret")


def lock(zk, outside):
    with checking("lock: the second contender is notified when the first one's session ends"):
        outside.run("create /lock")
        first = shell()
        equal(first.one("create -s -e /lock/c-"), "Created /lock/c-0000000000")
        equal(outside.one("create -s -e /lock/c-"), "Created /lock/c-0000000001")
        outside.run("stat -w /lock/c-0000000000")
        first.quit()
        outside.await_event("SyncConnected", "NodeDeleted", "/lock/c-0000000000")
        equal(outside.one("ls /lock"), "[c-0000000001]")


def expiry(outside):
    # It gives up if it is not connected within this time, for which a new JVM that has to load TLS takes a second by itself.
    brief = shell(timeout_ms=3000 if JAVA_OPTIONS else 1000)
    with checking("expiry: the ephemeral goes, others are notified"):
        brief.run("create -e /expiring")
        outside.run("stat -w /expiring")
        control("refuse")
        outside.await_event("SyncConnected", "NodeDeleted", "/expiring")
        equal(outside.one("stat /expiring"), "Node does not exist: /expiring")
    with checking("expiry: the client sees it"):
        control("heal")
        brief.await_event("Expired")


if __name__ == "__main__":
    main()

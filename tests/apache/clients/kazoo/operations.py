"""Every operation of the client, and one-shot watches."""

import queue
import time

from kazoo.client import KazooClient
from kazoo.exceptions import (AuthFailedError, BadArgumentsError, BadVersionError, InvalidACLError, NoAuthError,
                              NoChildrenForEphemeralsError, NodeExistsError, NoNodeError, NotEmptyError,
                              ReconfigDisabledError, RolledBackError, RuntimeInconsistency)
from kazoo.protocol.states import EventType
from kazoo.security import ACL, Id, OPEN_ACL_UNSAFE, make_acl, make_digest_acl

from connection import client, closing_client, security
from harness.checks import IDENTITIES, LIMIT, PLAIN, checking, control, equal, refused


def run(zk):
    for section in (modes, data, children, deletion, acl, watches, multi, refusals, four_letter_words):
        section(zk)


def modes(zk):
    zk.create("/modes")
    with checking("create persistent"):
        equal(zk.create("/modes/p", b"x"), "/modes/p")
        equal(zk.exists("/modes/p").ephemeralOwner, 0)
    with checking("create ephemeral"):
        zk.create("/modes/e", ephemeral=True)
        equal(zk.exists("/modes/e").ephemeralOwner, zk.client_id[0])
    with checking("create persistent sequential"):
        equal(zk.create("/modes/s-", sequence=True), "/modes/s-0000000002")
        equal(zk.create("/modes/s-", sequence=True), "/modes/s-0000000003")
    with checking("create ephemeral sequential"):
        path = zk.create("/modes/es-", ephemeral=True, sequence=True)
        equal(path, "/modes/es-0000000004")
        equal(zk.exists(path).ephemeralOwner, zk.client_id[0])
    with checking("create2 answers with the stat"):
        path, stat = zk.create("/modes/with-stat", b"1234", include_data=True)
        equal((path, stat.dataLength, stat.version), ("/modes/with-stat", 4, 0))
        equal(zk.exists(path).czxid, stat.czxid)
    with checking("create with parents"):
        zk.create("/modes/a/b/c", makepath=True)
        assert zk.exists("/modes/a/b/c")
    with checking("create refused: exists, no parent, below an ephemeral"):
        with refused(NodeExistsError):
            zk.create("/modes/p")
        with refused(NoNodeError):
            zk.create("/modes/none/x")
        with refused(NoChildrenForEphemeralsError):
            zk.create("/modes/e/x")


def data(zk):
    with checking("get and set"):
        zk.create("/data", b"one")
        value, stat = zk.get("/data")
        equal((value, stat.version, stat.dataLength), (b"one", 0, 3))
        stat = zk.set("/data", b"three", version=0)
        equal((stat.version, stat.dataLength), (1, 5))
        equal(zk.get("/data")[0], b"three")
    with checking("set refused: wrong version, missing node"):
        with refused(BadVersionError):
            zk.set("/data", b"no", version=7)
        with refused(NoNodeError):
            zk.set("/none", b"no")
        equal(zk.get("/data")[0], b"three")
    with checking("empty data and data of every byte"):
        everything = bytes(range(256)) * 1000
        zk.set("/data", b"")
        equal(zk.get("/data")[0], b"")
        zk.set("/data", everything)
        equal(zk.get("/data")[0], everything)
    with checking("exists reports missing nodes"):
        equal(zk.exists("/none"), None)
    with checking("the stat's zxids and times"):
        before = zk.get("/data")[1]
        zk.create("/data/child")
        after = zk.set("/data", b"")
        assert after.mzxid > after.pzxid > before.mzxid > before.czxid
        equal((after.czxid, after.cversion, after.numChildren), (before.czxid, 1, 1))
        assert abs(after.mtime / 1000 - time.time()) < 60
    with checking("names beyond ASCII"):
        zk.create("/data/жук ☃", b"u")
        equal(zk.get("/data/жук ☃")[0], b"u")
    with checking("sync"):
        equal(zk.sync("/data"), "/data")


def children(zk):
    with checking("children"):
        zk.ensure_path("/tree/b/deep")
        zk.create("/tree/a")
        equal(sorted(zk.get_children("/tree")), ["a", "b"])
        equal(zk.get_children("/tree/a"), [])
    with checking("children with stat"):
        names, stat = zk.get_children("/tree", include_data=True)
        equal((sorted(names), stat.numChildren, stat.cversion), (["a", "b"], 2, 2))
    with checking("children of a missing node"):
        with refused(NoNodeError):
            zk.get_children("/none")
    with checking("a thousand children"):
        zk.create("/many")
        for pending in [zk.create_async(f"/many/{i:04}") for i in range(1000)]:
            pending.get(timeout=LIMIT)
        equal(sorted(zk.get_children("/many")), [f"{i:04}" for i in range(1000)])


def deletion(zk):
    with checking("delete"):
        zk.create("/gone", b"")
        zk.delete("/gone", version=0)
        equal(zk.exists("/gone"), None)
    with checking("delete refused: missing, wrong version, children"):
        zk.ensure_path("/stays/child")
        with refused(NoNodeError):
            zk.delete("/none")
        with refused(BadVersionError):
            zk.delete("/stays/child", version=3)
        with refused(NotEmptyError):
            zk.delete("/stays")
    with checking("delete recursively"):
        zk.delete("/stays", recursive=True)
        equal(zk.exists("/stays"), None)


def acl(zk):
    owner = make_digest_acl("bob", "pw", all=True)
    with checking("get ACL"):
        zk.create("/acl")
        acls, stat = zk.get_acls("/acl")
        equal((acls, stat.aversion), (OPEN_ACL_UNSAFE, 0))
    with checking("set ACL, right and wrong version"):
        equal(zk.set_acls("/acl", [make_acl("world", "anyone", read=True, admin=True)], version=0).aversion, 1)
        equal([entry.perms for entry in zk.get_acls("/acl")[0]], [1 | 16])
        with refused(BadVersionError):
            zk.set_acls("/acl", OPEN_ACL_UNSAFE, version=0)
        with refused(InvalidACLError):
            zk.set_acls("/acl", [ACL(31, Id("nonsense", "x"))])
    with checking("digest: denied without"):
        zk.create("/acl-digest", b"secret", acl=[owner])
        for attempt in (lambda: zk.get("/acl-digest"), lambda: zk.set("/acl-digest", b""),
                        lambda: zk.get_children("/acl-digest"), lambda: zk.create("/acl-digest/x"),
                        lambda: zk.set_acls("/acl-digest", OPEN_ACL_UNSAFE), lambda: zk.get_acls("/acl-digest")):
            with refused(NoAuthError):
                attempt()
    with checking("digest: allowed with add_auth"):
        with closing_client(client()) as bob:
            bob.add_auth("digest", "bob:pw")
            equal(bob.get("/acl-digest")[0], b"secret")
            equal(bob.get_acls("/acl-digest")[0], [owner])
            bob.create("/acl-digest/x")
    with checking("digest: denied with a wrong password"):
        with closing_client(client(auth_data=[("digest", "bob:wrong")])) as other:
            with refused(NoAuthError):
                other.get("/acl-digest")
    with checking("digest: allowed after a reconnect"):
        with closing_client(client(auth_data=[("digest", "bob:pw")])) as bob:
            equal(bob.get("/acl-digest")[0], b"secret")
            control("cut")
            equal(bob.retry(bob.get, "/acl-digest")[0], b"secret")
    with checking("auth scheme: the creator's own id"):
        with closing_client(client(auth_data=[("digest", "eve:pw")])) as eve:
            eve.create("/acl-auth", acl=[make_acl("auth", "", all=True)])
            own = [make_acl(*identity, all=True) for identity in IDENTITIES]
            equal(sorted(eve.get_acls("/acl-auth")[0], key=str), sorted([make_digest_acl("eve", "pw", all=True), *own], key=str))
    with checking("ip scheme"):
        zk.create("/acl-ip", b"near", acl=[make_acl("ip", "127.0.0.1", all=True)])
        zk.create("/acl-far", b"far", acl=[make_acl("ip", "10.0.0.0/8", all=True)])
        equal(zk.get("/acl-ip")[0], b"near")
        with refused(NoAuthError):
            zk.get("/acl-far")
    with checking("super user"):
        with closing_client(client(auth_data=[("digest", "super:secret")])) as root:
            equal(root.get("/acl-digest")[0], b"secret")
            equal(root.get("/acl-far")[0], b"far")
    with checking("auth with an unknown scheme fails"):
        with closing_client(client()) as other:
            with refused(AuthFailedError):
                other.add_auth("nonsense", "x:y")


def watches(zk):
    def told(register, change, expected):
        events = queue.Queue()
        register(events.put)
        change()
        event = events.get(timeout=LIMIT)
        equal((event.type, event.path), expected)
        return events

    zk.create("/w")
    with checking("watch: data changed, once"):
        events = told(lambda watch: zk.get("/w", watch=watch), lambda: zk.set("/w", b"1"),
                      (EventType.CHANGED, "/w"))
        zk.set("/w", b"2")
        zk.sync("/w")
        assert events.empty()
    with checking("watch: child created"):
        told(lambda watch: zk.get_children("/w", watch=watch), lambda: zk.create("/w/c"), (EventType.CHILD, "/w"))
    with checking("watch: child deleted"):
        told(lambda watch: zk.get_children("/w", watch=watch), lambda: zk.delete("/w/c"), (EventType.CHILD, "/w"))
    with checking("watch: exists, created"):
        told(lambda watch: zk.exists("/w/new", watch=watch), lambda: zk.create("/w/new"),
             (EventType.CREATED, "/w/new"))
    with checking("watch: exists, deleted"):
        told(lambda watch: zk.exists("/w/new", watch=watch), lambda: zk.delete("/w/new"),
             (EventType.DELETED, "/w/new"))
    with checking("watch: another session's change"):
        with closing_client(client()) as other:
            told(lambda watch: zk.get("/w", watch=watch), lambda: other.delete("/w"), (EventType.DELETED, "/w"))


def multi(zk):
    zk.create("/multi", b"0")
    with checking("multi: all kinds succeed"):
        t = zk.transaction()
        t.check("/multi", 0)
        t.create("/multi/a", b"a")
        t.create("/multi/s-", sequence=True)
        t.create("/multi/e", ephemeral=True)
        t.set_data("/multi", b"1", version=0)
        t.delete("/multi/a")
        results = t.commit()
        equal(results[:4], [True, "/multi/a", "/multi/s-0000000001", "/multi/e"])
        equal((results[4].version, results[5]), (1, True))
        equal(sorted(zk.get_children("/multi")), ["e", "s-0000000001"])
    with checking("multi: one failure undoes all, an error for each operation"):
        t = zk.transaction()
        t.create("/multi/b")
        t.check("/multi", 9)
        t.create("/multi/c")
        equal([type(result) for result in t.commit()], [RolledBackError, BadVersionError, RuntimeInconsistency])
        equal(zk.exists("/multi/b"), None)
    with checking("multi: nothing to do"):
        equal(zk.transaction().commit(), [])


def refusals(zk):
    with checking("reconfig refused"):
        with refused(ReconfigDisabledError):
            zk.reconfig(joining="server.2=127.0.0.1:2:3;4", leaving=None, new_members=None)
        assert zk.connected and zk.exists("/")
    with checking("bad path refused, connection kept"):
        with refused(BadArgumentsError):
            zk.create("/control\x01")
        assert zk.connected and zk.exists("/")


def four_letter_words(_):
    """On the port without TLS: over TLS, kazoo takes the port's number for the name of the host here."""
    zk = KazooClient(PLAIN, timeout=20, **security(tls=False))
    zk.start(timeout=LIMIT)
    with closing_client(zk), checking("four-letter words"):
        equal(zk.command(b"ruok"), "imok")
        assert "Mode: standalone" in zk.command(b"srvr")
        assert zk.server_version() >= (3, 9)

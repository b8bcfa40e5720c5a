"""Who a client with a certificate is: the text of its subject, ACLs, super users, and servers that insist on an identity."""

import digest
import sasl
import wire
from checks import Group
from handshakes import both, client
from harness import certificates

SUPER = "CN=bob,O=zoolet"


def identities(folder, port):
    return both(folder, port) | sasl.users(folder) | sasl.PROVIDER | {"X509AuthenticationProvider.superUser": SUPER}


x509 = Group("x509", settings=identities)
insisting = Group("identities insisted on", settings=lambda folder, port: identities(folder, port) | {
    "enforce.auth.enabled": "true", "enforce.auth.schemes": " sasl , x509 "})

for name, (_, dn) in certificates.SUBJECTS.items():
    for port in "port", "plain":
        @x509.check(f"{name} on the {'TLS port' if port == 'port' else 'port for both'}", f"{dn} / [('x509', {dn!r})]")
        def subject(server, name=name, port=port):
            with wire.secure(getattr(server, port), client(name)) as session:
                [(_, shown)] = [identity for identity in session.who() if identity[0] == "x509"]
                path = f"/{name}-{port}"
                session.create(path, [(wire.ALL, "auth", "")])
                return f"{shown} / {session.acl(path)}"


@x509.check("ACLs: ids that can be set, also without TLS", "garbage -114, CN=q 0, cn=q, o=z 0, CN=a,CN= 0, 1.2.3=#0401ff 0,  0")
def acl_ids(server):
    with wire.plain(server.plain) as session:
        ids = "garbage", "CN=q", "cn=q, o=z", "CN=a,CN=", "1.2.3=#0401ff", ""
        return ", ".join(f"{id} {session.create(f'/x509-acl-{number}', [(wire.ALL, 'x509', id)])}" for number, id in enumerate(ids))


@x509.check("ACLs: whom they let in", "alice 0, dn-1 -102, bob the super user 0, nobody -102, by another spelling -102")
def acl_effect(server):
    with wire.plain(server.plain) as session:
        session.create("/x509-alice", [(wire.ALL, "x509", "CN=alice,O=zoolet")])
        session.create("/x509-spelling", [(wire.ALL, "x509", "cn=alice, o=zoolet")])
        nobody = session.get("/x509-alice")
    found = []
    for name in "alice", "dn-1", "bob":
        with wire.secure(server.port, client(name)) as session:
            found.append(session.get("/x509-alice"))
            if name == "alice":
                spelling = session.get("/x509-spelling")
    return f"alice {found[0]}, dn-1 {found[1]}, bob the super user {found[2]}, nobody {nobody}, by another spelling {spelling}"


@x509.check("the super user's identities", f"[('ip', '127.0.0.1'), ('super', ''), ('x509', {SUPER!r})]")
def super_ids(server):
    with wire.secure(server.port, client("bob")) as session:
        return session.who()


@x509.check("addauth x509 with a certificate", "0, [('ip', '127.0.0.1'), ('x509', 'CN=alice,O=zoolet')]")
def addauth(server):
    with wire.secure(server.port, client("alice")) as session:
        return f"{session.auth('x509', b'whatever')}, {session.who()}"


@x509.check("addauth x509 without a certificate, and without TLS", "-115 closed, -115 closed")
def addauth_without(server):
    found = []
    for way in wire.secure(server.port, client()), wire.plain(server.plain):
        with way as session:
            found.append(f"{session.auth('x509')} {wire.rest(session.connection)}")
    return ", ".join(found)


@x509.check("a session of TLS that is taken up without it", "same True, [('ip', '127.0.0.1')], -102")
def taken_up(server):
    with wire.secure(server.port, client("alice")) as session:
        session.create("/x509-taken", [(wire.ALL, "auth", "")])
        with wire.tcp(server.plain) as connection:
            again = wire.Session(connection, session.id, session.password)
            return f"same {again.id == session.id}, {again.who()}, {again.get('/x509-taken')}"


@x509.check("four identities at once, and what auth stands for",
            "digest ip sasl x509 / [('digest', 'eve:tPVS62yQF/M0lNvU6mzotOuRJxo='), ('sasl', 'bob'), ('x509', 'CN=alice,O=zoolet')]")
def all_at_once(server):
    with wire.secure(server.port, client("alice")) as session:
        sasl.as_user(session, "bob").auth("digest", b"eve:pw")
        session.create("/x509-all", [(wire.ALL, "auth", "")])
        return f"{' '.join(scheme for scheme, _ in session.who())} / {session.acl('/x509-all')}"


REFUSED = "err -124, 16 bytes, xid 1, zxid 0, closed"


@insisting.check("with a certificate", "ok")
def with_certificate(server):
    with wire.secure(server.port, client("alice")) as session:
        return sasl.refusal(session)


@insisting.check("TLS without a certificate", REFUSED)
def without_certificate(server):
    with wire.secure(server.port, client()) as session:
        return sasl.refusal(session)


@insisting.check("without TLS", REFUSED)
def without_tls(server):
    with wire.plain(server.plain) as session:
        return sasl.refusal(session)


@insisting.check("without TLS, after addauth digest", f"0, {REFUSED}")
def with_digest(server):
    with wire.plain(server.plain) as session:
        return f"{session.auth('digest', b'eve:pw')}, {sasl.refusal(session)}"


@insisting.check("without TLS, with SASL", "ok")
def with_sasl(server):
    with wire.plain(server.plain) as session:
        return sasl.refusal(sasl.as_user(session, "bob"), xid=9)


@insisting.check("a wrong password", "err -124, token -1, 20 bytes, closed")
def wrong(server):
    with wire.plain(server.plain) as session:
        return sasl.shown(session.sasl(digest.Answer(sasl.challenged(session), "bob", "wrong").token()), session)


GROUPS = [x509, insisting]

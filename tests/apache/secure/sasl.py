"""What a server makes of SASL tokens: the exchange as clients have it, each variation of its third step, failures and their aftermath."""

import struct

import digest
import wire
from checks import Group

PROVIDER = {"authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}
JAAS = """Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required
  user_super="adminsecret"
  user_bob="bobsecret"
  user_quote="a\\"b"
  user_al="pä"
  user_jp="日本"
  user_böb="pw"
  user_root="rootsecret";
};
"""
USERS = {"bob": "bobsecret", "al": "pä", "jp": "日本", "böb": "pw", "quote": 'a"b', "root": "rootsecret", "super": "adminsecret"}
FAILED = "err -115, token -1, 20 bytes, closed"


def users(folder):
    jaas = folder / "jaas.conf"
    jaas.write_text(JAAS)
    return {"java.security.auth.login.config": jaas}


usual = Group("sasl", settings=lambda folder, _: users(folder) | PROVIDER | {"superUser": "root"})
usual.tls = False
insisting = Group("sasl insisted on", settings=lambda folder, _: users(folder) | PROVIDER | {"sessionRequireClientSASLAuth": "true"})
insisting.tls = False
lenient = Group("sasl failures allowed", settings=lambda folder, _: users(folder) | PROVIDER | {"allowSaslFailedClients": "true"})
lenient.tls = False
unknown = Group("sasl without users", settings=lambda folder, _: PROVIDER)
unknown.tls = False


def shown(reply, session):
    """A reply to a token: what it says, and whether the connection goes on."""
    _, zxid, error = struct.unpack(">iqi", reply[:16])
    [length] = struct.unpack(">i", reply[16:20])
    ending = "open"
    if error:
        ending = wire.rest(session.connection)
    else:
        session.call(wire.PING, xid=-2)
    zxid = f", zxid {zxid}" if zxid else ""
    return f"err {error}, token {length}, {len(reply)} bytes{zxid}, {ending}"


def challenged(session, first=b""):
    reply = session.sasl(first)
    return digest.nonce(reply[20:])


def exchange(server, user="bob", edit=lambda answer: answer.token(), **how):
    """The whole exchange; `edit` makes the token. Returns `ok` if the proof and the identity are right."""
    with wire.plain(server.plain) as session:
        answer = digest.Answer(challenged(session), user, how.pop("password", USERS[user]), **how)
        reply = session.sasl(edit(answer))
        proof = reply[20:].decode(errors="replace")
        if not proof:
            return shown(reply, session)
        if proof != answer.proof:
            return f"{proof}, expected {answer.proof}"
        who = session.who()
        return "ok" if ("sasl", user) in who else f"proved, but is {who}"


def row(name, expected, edit=lambda answer: answer.token(), **how):
    usual.row(name, expected, lambda server: exchange(server, edit=edit, **how))


def directives(name, expected, **changes):
    row(name, expected, lambda answer: answer.token(**changes))


JAVA = ["charset", "username", "realm", "nonce", "nc", "cnonce", "digest-uri", "maxbuf", "response", "qop", "authzid"]
KAZOO = ["qop", "realm", "username", "nonce", "cnonce", "nc", "digest-uri", "response"]
RUST = ["username", "realm", "nonce", "cnonce", "nc", "qop", "digest-uri", "response", "charset"]


def in_order(names, **changes):
    def edit(answer):
        written = answer.directives | changes
        return ",".join(f"{name}={written[name]}" for name in names).encode()
    return edit


row("the response of Java", "ok", in_order(JAVA), authzid="bob")
row("the response of kazoo", "ok", in_order(KAZOO))
row("the response of zookeeper-client", "ok", in_order(RUST, charset='"utf-8"'))
for left_out in "qop", "nc", "maxbuf", "charset":
    directives(f"no {left_out}", "ok", **{left_out: None})
for left_out in "username", "realm", "nonce", "cnonce", "digest-uri", "response":
    directives(f"no {left_out}", FAILED, **{left_out.replace("-", "_"): None})
row("an empty realm", FAILED, realm="")
row("another realm", FAILED, realm="elsewhere")
for count in "00000000", "00000002":
    row(f"nc={count}", FAILED, nc=count)
for protection in "auth-int", "auth-conf":
    row(f"qop={protection}", FAILED, qop=protection)
directives("a quoted qop", "ok", qop='"auth"')
for uri in "zookeeper/localhost", "ldap/zk-sasl-md5", "zookeeper/zk-sasl-md5/zk-sasl-md5":
    row(f"digest-uri {uri}", FAILED, uri=uri)
row("digest-uri ZooKeeper/zk-sasl-md5", "ok", uri="ZooKeeper/zk-sasl-md5")
directives("charset=iso-8859-1", FAILED, charset="iso-8859-1")
for size in "0", "10", "99999999":
    directives(f"maxbuf={size}", "ok", maxbuf=size)
directives("algorithm, cipher and an unknown directive", "ok", algorithm="md5-sess", cipher="rc4", whatever="x")
row("username twice", FAILED, lambda answer: answer.token() + b',username="bob"')
row("nonce twice", FAILED, lambda answer: answer.token() + f",nonce={answer.directives['nonce']}".encode())
directives("a quoted nc", "ok", nc='"00000001"')
row("a quoted response", "ok", lambda answer: answer.token(response=f'"{answer.directives["response"]}"'))
directives("an unquoted username", "ok", username="bob")
directives("a quoted pair in the username", "ok", username='"b\\ob"')
row("a response in capital letters", FAILED, lambda answer: answer.token(response=answer.directives["response"].upper()))
row("names of directives in capital letters", "ok", lambda answer: b",".join(
    part.split(b"=", 1)[0].upper() + b"=" + part.split(b"=", 1)[1] for part in answer.token().split(b",")))
row("blanks around commas and equal signs", "ok", lambda answer: answer.token().replace(b",", b" , ").replace(b"=", b" = ", 1))
row("commas before and after", "ok", lambda answer: b",," + answer.token() + b",,")
row("a NUL at the end", FAILED, lambda answer: answer.token() + b"\0")
row("garbage", FAILED, lambda _: b"garbage")
row("an empty second token", FAILED, lambda _: b"")
row("a token of 5,000 bytes", FAILED, lambda answer: answer.token(padding='"' + "x" * 4700 + '"'))
row("another name to act as", "ok", authzid="somebody")
row("an empty name to act as", "ok", authzid="")
row("a nonce that was not offered", FAILED, lambda answer: digest.Answer("A" * 40, "bob", "bobsecret").token())
row("a wrong password", FAILED, password="wrong")
row("an escaped quotation mark in the password", "ok", user="quote")
row("a password in ISO 8859-1", "ok", user="al")
row("the same hashed as UTF-8", FAILED, user="al", encode=str.encode)
row("a password that needs UTF-8", "ok", user="jp")
row("a user's name in UTF-8 that is hashed as ISO 8859-1", "ok", user="böb")
row("the same without charset", "ok", lambda answer: answer.token(charset=None), user="böb")
row("a user's name in ISO 8859-1 without charset", FAILED,
    lambda answer: answer.token(charset=None).decode().encode("latin-1"), user="böb")


@usual.check("the challenge", 'realm="zk-sasl-md5",nonce="",charset=utf-8,algorithm=md5-sess, 40 characters, header 1 0 0')
def challenge(server):
    with wire.plain(server.plain) as session:
        reply = session.sasl(b"")
        nonce = digest.nonce(reply[20:])
        head = " ".join(map(str, struct.unpack(">iqi", reply[:16])))
        return f"{reply[20:].decode().replace(nonce, '')}, {len(nonce)} characters, header {head}"


@usual.check("a first token that is not empty", "err 0, token 101, 121 bytes, open")
def first_token(server):
    with wire.plain(server.plain) as session:
        return shown(session.sasl(b"garbage"), session)


@usual.check("a token after the end", FAILED)
def after_the_end(server):
    with wire.plain(server.plain) as session:
        session.sasl(digest.Answer(challenged(session), "bob", "bobsecret").token())
        return shown(session.sasl(b""), session)


@usual.check("requests between the tokens", "get / 0, then [('ip', '127.0.0.1'), ('sasl', 'bob')]")
def between(server):
    with wire.plain(server.plain) as session:
        nonce = challenged(session)
        got = session.get("/")
        session.sasl(digest.Answer(nonce, "bob", "bobsecret").token())
        return f"get / {got}, then {session.who()}"


@usual.check("xids are echoed", "-4 0 7")
def xids(server):
    found = []
    for xid in -4, 0, 7:
        with wire.plain(server.plain) as session:
            found.append(struct.unpack(">i", session.sasl(b"", xid)[:4])[0])
    return " ".join(map(str, found))


@usual.check("a null token", "closed")
def null_token(server):
    with wire.plain(server.plain) as session:
        session.send(struct.pack(">iii", 1, wire.SASL, -1))
        return wire.rest(session.connection)


@usual.check("a token before the handshake", "closed")
def before_the_handshake(server):
    with wire.tcp(server.plain) as connection:
        connection.sendall(struct.pack(">iiii", 12, 1, wire.SASL, 0))
        return wire.rest(connection)


@usual.check("addauth with the scheme sasl", "err -115, closed")
def by_addauth(server):
    with wire.plain(server.plain) as session:
        return f"err {session.auth('sasl', b'bob:bobsecret')}, {wire.rest(session.connection)}"


@usual.check("after a failure the session can be taken up, without the identity", "same True, [('ip', '127.0.0.1')]")
def session_survives(server):
    with wire.plain(server.plain) as session:
        session.sasl(digest.Answer(challenged(session), "bob", "wrong").token())
    with wire.tcp(server.plain) as connection:
        again = wire.Session(connection, session.id, session.password)
        return f"same {again.id == session.id}, {again.who()}"


def as_user(session, user):
    session.sasl(digest.Answer(challenged(session), user, USERS[user]).token())
    return session


@usual.check("ACLs: ids that can be set", "bob 0, '' 0, 'a b' 0, a@b@c -114, a/b@C 0")
def acl_ids(server):
    with wire.plain(server.plain) as session:
        ids = "bob", "", "a b", "a@b@c", "a/b@C"
        return ", ".join(f"{id if id.strip() == id and id and ' ' not in id else repr(id)} "
                         f"{session.create(f'/sasl-acl-{number}', [(wire.ALL, 'sasl', id)])}" for number, id in enumerate(ids))


@usual.check("ACLs: whom they let in", "bob 0, nobody -102, super 0, root 0, digest -102")
def acl_effect(server):
    with wire.plain(server.plain) as nobody:
        nobody.create("/sasl-bob", [(wire.ALL, "sasl", "bob")])
        found = [f"nobody {nobody.get('/sasl-bob')}"]
    with wire.plain(server.plain) as session:
        found.insert(0, f"bob {as_user(session, 'bob').get('/sasl-bob')}")
    for user in "super", "root":
        with wire.plain(server.plain) as session:
            found.append(f"{user} {as_user(session, user).get('/sasl-bob')}")
    with wire.plain(server.plain) as session:
        session.auth("digest", b"bob:bobsecret")
        found.append(f"digest {session.get('/sasl-bob')}")
    return ", ".join(found)


@usual.check("superUser has every right, super that of sasl", "root 0, super -102")
def super_user(server):
    with wire.plain(server.plain) as session:
        session.auth("digest", b"eve:pw")
        session.create("/sasl-eve", [(wire.ALL, "auth", "")])
    found = []
    for user in "root", "super":
        with wire.plain(server.plain) as session:
            found.append(f"{user} {as_user(session, user).get('/sasl-eve')}")
    return ", ".join(found)


@usual.check("who a superUser is, and what auth stands for", "[('ip', '127.0.0.1'), ('sasl', 'root'), ('super', '')] [('sasl', 'root')]")
def super_ids(server):
    with wire.plain(server.plain) as session:
        as_user(session, "root").create("/sasl-root", [(wire.ALL, "auth", "")])
        return f"{session.who()} {session.acl('/sasl-root')}"


@usual.check("auth stands for all identities", "[('digest', 'eve:tPVS62yQF/M0lNvU6mzotOuRJxo='), ('sasl', 'bob')]")
def all_ids(server):
    with wire.plain(server.plain) as session:
        as_user(session, "bob").auth("digest", b"eve:pw")
        session.create("/sasl-both", [(wire.ALL, "auth", "")])
        return session.acl("/sasl-both")


@insisting.check("a wrong password", "err -124, token -1, 20 bytes, closed")
def wrong_and_insisted(server):
    return exchange(server, password="wrong")


@insisting.check("the right one", "ok")
def right_and_insisted(server):
    return exchange(server)


@insisting.check("a request before the exchange", "err -124, 16 bytes, xid 1, zxid 0, closed")
def request_too_early(server):
    return refused(server, wire.GET_DATA, wire.text("/") + b"\0", 1)


@insisting.check("a ping before the exchange", "err -124, 16 bytes, xid -2, zxid 0, closed")
def ping_too_early(server):
    return refused(server, wire.PING, b"", -2)


@insisting.check("a closeSession before the exchange", "err -124, 16 bytes, xid 1, zxid 0, closed")
def close_too_early(server):
    return refused(server, wire.CLOSE, b"", 1)


def refused(server, op, body, xid):
    with wire.plain(server.plain) as session:
        return refusal(session, op, body, xid)


def refusal(session, op=wire.GET_DATA, body=wire.text("/") + b"\0", xid=1):
    reply = session.request(op, body, xid)
    xid, zxid, error = struct.unpack(">iqi", reply[:16])
    if not error:
        return "ok"
    return f"err {error}, {len(reply)} bytes, xid {xid}, zxid {zxid}, {wire.rest(session.connection)}"


@lenient.check("a wrong password, and then the right one", "err 0, token -1, 20 bytes, open; err 0, token -1, 20 bytes, open; [('ip', '127.0.0.1')]")
def wrong_and_allowed(server):
    with wire.plain(server.plain) as session:
        first = shown(session.sasl(digest.Answer(challenged(session), "bob", "wrong").token()), session)
        return f"{first}; {shown(session.sasl(b''), session)}; {session.who()}"


@unknown.check("any token", "err 0, token -1, 20 bytes, open; err 0, token -1, 20 bytes, open; [('ip', '127.0.0.1')]")
def without_users(server):
    with wire.plain(server.plain) as session:
        first = shown(session.sasl(b""), session)
        return f"{first}; {shown(session.sasl(b'garbage'), session)}; {session.who()}"


GROUPS = [usual, insisting, lenient, unknown]

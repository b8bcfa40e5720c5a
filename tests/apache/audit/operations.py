"""Everything that an audit log has lines of, as requests to one server; by raw frames, as no client sends all of them."""

import socket
import struct
import time

CREATE, DELETE, EXISTS, GET, SET_DATA, SET_ACL, MULTI, CREATE2 = 1, 2, 3, 4, 5, 7, 14, 15
RECONFIG, CREATE_CONTAINER, DELETE_CONTAINER, CREATE_TTL, AUTH, CLOSE, CHECK = 16, 19, 20, 21, 100, -11, 13
ALL = 31
OPEN = [(ALL, "world", "anyone")]
# Of `ali:open-sesame`.
DIGEST = "ali:Kz6jdc4U6rKfTLJWdDJTT8YZz2c="


def text(value):
    data = value.encode() if isinstance(value, str) else value
    return struct.pack(">i", len(data)) + data


def acl(entries):
    return struct.pack(">i", len(entries)) + b"".join(
        struct.pack(">i", perms) + text(scheme) + text(name) for perms, scheme, name in entries)


def create(path, flags=0, entries=OPEN, data=b"secret-data", ttl=None):
    end = b"" if ttl is None else struct.pack(">q", ttl)
    return text(path) + text(data) + acl(entries) + struct.pack(">i", flags) + end


def versioned(path, version=-1):
    return text(path) + struct.pack(">i", version)


def set_data(path, version=-1):
    return text(path) + text(b"secret-data") + struct.pack(">i", version)


def set_acl(path, entries, version=-1):
    return text(path) + acl(entries) + struct.pack(">i", version)


def multi(*parts):
    body = b"".join(struct.pack(">i?i", kind, False, -1) + part for kind, part in parts)
    return body + struct.pack(">i?i", -1, True, -1)


class Session:
    def __init__(self, port, timeout=30_000):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.xid = 0
        self.send(struct.pack(">iqiq", 0, 0, timeout, 0) + text(bytes(16)))
        self.receive()

    def send(self, frame):
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self):
        def exactly(count):
            data = b""
            while len(data) < count:
                part = self.socket.recv(count - len(data))
                if not part:
                    raise EOFError
                data += part
            return data
        return exactly(struct.unpack(">i", exactly(4))[0])

    def ask(self, op, body=b"", xid=None):
        """The error code; None if the connection is closed instead."""
        self.xid += 1
        self.send(struct.pack(">ii", self.xid if xid is None else xid, op) + body)
        try:
            return struct.unpack(">iqi", self.receive()[:16])[2]
        except (EOFError, ConnectionError):
            return None


def creates(session):
    for name, flags in [("plain", 0), ("eph", 1), ("seq", 2), ("eph-seq", 3)]:
        yield session.ask(CREATE, create(f"/a/{name}", flags))
        yield session.ask(CREATE2, create(f"/a/{name}2", flags))
    yield session.ask(CREATE_CONTAINER, create("/a/cont", 4))
    yield session.ask(CREATE_TTL, create("/a/ttl", 5, ttl=100_000))
    yield session.ask(CREATE_TTL, create("/a/ttl-seq", 6, ttl=100_000))
    yield session.ask(CREATE_TTL, create("/a/ttl", 5, ttl=100_000))
    yield session.ask(CREATE, create("/a/private", 0, [(ALL, "digest", DIGEST), (1, "world", "anyone")]))
    for path, flags, entries in [("/a/plain", 0, OPEN), ("/no/parent", 1, OPEN), ("no-slash", 0, OPEN), ("/a/flags", 99, OPEN),
                                 ("/a/acl", 0, [(ALL, "nobody", "x")]), ("/a/no-acl", 0, []), ("/a/auth", 0, [(ALL, "auth", "")]),
                                 ("/a/eph/child", 2, OPEN), ("", 0, OPEN)]:
        yield session.ask(CREATE, create(path, flags, entries))
    yield session.ask(CREATE, create("/a/odd=x y", 0))
    yield session.ask(CREATE, b"\0\0")


def changes(session):
    yield session.ask(SET_DATA, set_data("/a/plain"))
    yield session.ask(SET_DATA, set_data("/a/plain", 77))
    yield session.ask(SET_DATA, set_data("/a/none"))
    yield session.ask(SET_DATA, b"\0\0")
    yield session.ask(SET_ACL, set_acl("/a/plain", [(ALL, "world", "anyone"), (1, "digest", DIGEST), (0, "ip", "10.0.0.0/8")]))
    yield session.ask(SET_ACL, set_acl("/a/plain", OPEN, 77))
    yield session.ask(SET_ACL, set_acl("/a/none", OPEN))
    yield session.ask(SET_ACL, set_acl("/a/plain", [(ALL, "nobody", "x")]))
    yield session.ask(SET_ACL, set_acl("/a/plain", []))
    yield session.ask(DELETE, versioned("/a/none"))
    yield session.ask(DELETE, versioned("/a"))
    yield session.ask(DELETE, versioned("/a/plain", 77))
    yield session.ask(DELETE, versioned("/a/plain"))
    yield session.ask(DELETE_CONTAINER, text("/a/cont"))
    yield session.ask(DELETE_CONTAINER, text("/a/plain2"))


def multis(session):
    yield session.ask(MULTI, multi((CREATE, create("/m", 0)), (CREATE, create("/m/seq", 2)), (CREATE, create("/m/eph", 1)),
                                   (CREATE2, create("/m/two", 0)), (CREATE_CONTAINER, create("/m/cont", 4)),
                                   (CREATE_TTL, create("/m/ttl", 5, ttl=100_000)), (SET_DATA, set_data("/m")),
                                   (CHECK, versioned("/m", 1)), (DELETE, versioned("/m/two"))))
    yield session.ask(MULTI, multi((CREATE, create("/m/x")), (CREATE, create("/m/x"))))
    yield session.ask(MULTI, multi((CHECK, versioned("/m", 99))))
    yield session.ask(MULTI, multi((CHECK, versioned("/m", -1))))
    yield session.ask(MULTI, multi())
    yield session.ask(MULTI, b"\0\0")


def others(session):
    yield session.ask(RECONFIG, text("server.1=a:1:2") + text("") + text("") + struct.pack(">q", -1))
    yield session.ask(RECONFIG, b"\0\0")
    yield session.ask(GET, text("/a") + b"\1")
    yield session.ask(EXISTS, text("/none") + b"\0")
    yield session.ask(AUTH, struct.pack(">i", 0) + text("digest") + text("ali:open-sesame"), xid=-4)
    yield session.ask(SET_DATA, set_data("/a/private"))
    yield session.ask(AUTH, struct.pack(">i", 0) + text("digest") + text("super:secret"), xid=-4)
    yield session.ask(CREATE, create("/a/by-two", 1, [(ALL, "auth", "")]))
    yield session.ask(SET_ACL, set_acl("/a/by-two", [(ALL, "auth", "")]))


def run(port):
    """Does all of it. Returns the error codes, which must be those of the other server."""
    session = Session(port)
    codes = [session.ask(CREATE, create("/a"))]
    for part in creates, changes, multis, others:
        codes.extend(part(session))
    stranger = Session(port)
    codes.append(stranger.ask(SET_DATA, set_data("/a/private")))
    codes.append(stranger.ask(DELETE, versioned("/a/by-two")))
    codes.append(stranger.ask(AUTH, struct.pack(">i", 0) + text("digest") + text("eve:x"), xid=-4))
    codes.append(stranger.ask(CREATE, create("/a/by-eve", 1)))
    codes.append(stranger.ask(CLOSE))
    codes.append(session.ask(CLOSE))
    # A session that expires with its ephemerals.
    lost = Session(port, timeout=1)
    codes.append(lost.ask(CREATE, create("/a/lost", 1)))
    lost.socket.close()
    watcher = Session(port)
    while watcher.ask(EXISTS, text("/a/lost") + b"\0") == 0:
        time.sleep(0.05)
    codes.append(watcher.ask(CLOSE))
    return codes

"""Connections to a server, by hand: plain or TLS sockets, ZooKeeper's frames, and what came of them as text."""

import contextlib
import socket
import ssl
import struct

LIMIT = 15  # seconds; a real server gives up a handshake after 10
CREATE, GET_DATA, SET_DATA, GET_ACL, PING, AUTH, SASL, WHO_AM_I, CLOSE = 1, 4, 5, 6, 11, 100, 102, 107, -11
ALL = 31
ANYONE = [(ALL, "world", "anyone")]


class Closed(Exception):
    """The peer ended the connection, with this many bytes of an unfinished frame."""


def tcp(port):
    connection = socket.create_connection(("127.0.0.1", port), timeout=LIMIT)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def context(certificates, name=None, lowest=None, highest=None, ciphers=None):
    """A TLS client that trusts the authority, and has the certificate with this name."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.load_verify_locations(certificates / "ca.crt")
    if name:
        made.load_cert_chain(certificates / f"{name}.pem")
    if highest is ssl.TLSVersion.TLSv1_1:
        made.set_ciphers("DEFAULT:@SECLEVEL=0")
    if ciphers:
        made.set_ciphers(ciphers)
    made.minimum_version = lowest or ssl.TLSVersion.MINIMUM_SUPPORTED
    made.maximum_version = highest or ssl.TLSVersion.MAXIMUM_SUPPORTED
    return made


def tls(port, client):
    return client.wrap_socket(tcp(port), server_hostname="127.0.0.1", suppress_ragged_eofs=False)


def reason(error):
    """The alert that a peer sent, or how it ended the connection without one."""
    if isinstance(error, ssl.SSLEOFError | ConnectionError | Closed):
        return "closed"
    if isinstance(error, TimeoutError):
        return f"nothing within {LIMIT} s"
    text = getattr(error, "reason", None) or str(error)
    for prefix in "TLSV1_ALERT_", "SSLV3_ALERT_", "TLSV13_ALERT_":
        if text.startswith(prefix):
            return "alert " + text.removeprefix(prefix).lower()
    return "closed" if text == "UNEXPECTED_EOF_WHILE_READING" else text


def rest(connection):
    """What comes until the peer ends the connection, and how it ends."""
    got = b""
    try:
        while part := connection.recv(65536):
            got += part
    except ConnectionError:
        pass
    except OSError as error:
        return f"{got.hex()} {reason(error)}".strip()
    return f"{got.hex()} closed".strip()


class Session:
    """A session on a connection that is there already. `id` and `password` resume another one."""

    def __init__(self, connection, id=0, password=bytes(16), timeout=10_000):
        self.connection = connection
        self.xid = 0
        self.send(struct.pack(">iqiq", 0, 0, timeout, id) + buffer(password) + b"\0")
        reply = self.receive()
        _, self.timeout, self.id = struct.unpack(">iiq", reply[:16])
        self.password = reply[20:36]

    def send(self, body):
        self.connection.sendall(struct.pack(">i", len(body)) + body)

    def receive(self):
        [length] = struct.unpack(">i", self._exactly(4))
        return self._exactly(length)

    def _exactly(self, length):
        got = b""
        while len(got) < length:
            part = self.connection.recv(length - len(got))
            if not part:
                raise Closed(len(got))
            got += part
        return got

    def request(self, op, body=b"", xid=None):
        """Sends a request; returns the frame that answers it."""
        if xid is None:
            self.xid += 1
            xid = self.xid
        self.send(struct.pack(">ii", xid, op) + body)
        return self.receive()

    def call(self, op, body=b"", xid=None):
        """The error code and the record after the header."""
        reply = self.request(op, body, xid)
        return struct.unpack(">iqi", reply[:16])[2], reply[16:]

    def sasl(self, token, xid=None):
        return self.request(SASL, buffer(token), xid)

    def auth(self, scheme, credential=b""):
        return self.call(AUTH, struct.pack(">i", 0) + text(scheme) + buffer(credential), xid=-4)[0]

    def who(self):
        """Scheme and user of each identity, sorted."""
        error, body = self.call(WHO_AM_I)
        if error:
            raise AssertionError(f"whoAmI is refused with {error}")
        return sorted(pairs(body))

    def create(self, path, acl=ANYONE, data=b""):
        return self.call(CREATE, text(path) + buffer(data) + acl_bytes(acl) + struct.pack(">i", 0))[0]

    def get(self, path):
        return self.call(GET_DATA, text(path) + b"\0")[0]

    def acl(self, path):
        """The entries of an ACL, sorted, as scheme and id."""
        error, body = self.call(GET_ACL, text(path))
        if error:
            return error
        found, offset = [], 4
        for _ in range(struct.unpack(">i", body[:4])[0]):
            offset += 4
            scheme, offset = string(body, offset)
            user, offset = string(body, offset)
            found.append((scheme, user))
        return sorted(found)


def buffer(content):
    return struct.pack(">i", -1) if content is None else struct.pack(">i", len(content)) + content


def text(content):
    return buffer(content.encode())


def acl_bytes(entries):
    return struct.pack(">i", len(entries)) + b"".join(
        struct.pack(">i", permissions) + text(scheme) + text(user) for permissions, scheme, user in entries)


def string(body, offset):
    [length] = struct.unpack(">i", body[offset:offset + 4])
    end = offset + 4 + max(length, 0)
    return body[offset + 4:end].decode(), end


def pairs(body):
    found, offset = [], 4
    for _ in range(struct.unpack(">i", body[:4])[0]):
        first, offset = string(body, offset)
        second, offset = string(body, offset)
        found.append((first, second))
    return found


@contextlib.contextmanager
def plain(port):
    with tcp(port) as connection:
        yield Session(connection)


@contextlib.contextmanager
def secure(port, client):
    with tls(port, client) as connection:
        yield Session(connection)

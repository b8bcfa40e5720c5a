"""TLS from outside: versions, cipher suites, certificates of clients, ports for both, and what is not TLS at all."""

import ssl
import time

import wire
from checks import Group
from harness import certificates

CERTIFICATES = certificates.folder()
TLS12, TLS13, TLS11 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_1
REFUSED = "certificate_unknown"


def settings(**more):
    return lambda _, port: certificates.settings(CERTIFICATES, port, **more)


def both(folder, port):
    return settings(clientAuth="want")(folder, port) | {"client.portUnification": "true"}


need = Group("need", settings=settings(key_store="server-rsa.p12", clientAuth="NEED", enabledProtocols="TLSv1.2,TLSv1.3"))
want = Group("want", settings=both)
none = Group("none", settings=lambda folder, port: settings(key_store="server.jks", clientAuth="none")(folder, port) | {
    "ssl.trustStore.location": CERTIFICATES / "trust.jks", "ssl.trustStore.passwordPath": CERTIFICATES / "password"})


def client(name=None, **limits):
    return wire.context(CERTIFICATES, name, **limits)


def meet(port, context):
    """Whether a session could be opened: then its version of TLS and its suite; else what the peer said, and when."""
    try:
        connection = wire.tls(port, context)
    except OSError as error:
        return f"{wire.reason(error)} in the handshake"
    with connection:
        try:
            # In TLS 1.3 a client has finished before the server looks at its certificate; what is sent now would be answered by a reset.
            connection.settimeout(1)
            if connection.recv(1) == b"":
                return "closed on the first read"
        except TimeoutError:
            pass
        except OSError as error:
            return f"{wire.reason(error)} on the first read"
        connection.settimeout(wire.LIMIT)
        try:
            ids = [scheme for scheme, _ in wire.Session(connection).who()]
        except (OSError, wire.Closed) as error:
            return f"{wire.reason(error)} on the first read"
        return f"{connection.version()} {connection.cipher()[0]} {' '.join(ids)}"


def row(group, name, expected, context, port="port", **more):
    group.row(name, expected, lambda server: meet(getattr(server, port), context()), **more)


row(need, "TLS 1.3", "TLSv1.3 TLS_AES_256_GCM_SHA384 ip x509", lambda: client("alice"))
row(need, "TLS 1.2", "TLSv1.2 ECDHE-RSA-AES128-GCM-SHA256 ip x509", lambda: client("alice", highest=TLS12))
row(need, "TLS 1.1", "alert protocol_version in the handshake", lambda: client("alice", lowest=TLS11, highest=TLS11),
    ours="alert handshake_failure in the handshake", deviation="CBC, DHE and RSA key exchange")
for name, suites, expected in (
        ("ChaCha20", "ECDHE-RSA-CHACHA20-POLY1305", "alert handshake_failure in the handshake"),
        ("finite-field Diffie-Hellman", "DHE-RSA-AES256-GCM-SHA384", "alert handshake_failure in the handshake"),
        ("RSA key exchange", "AES256-GCM-SHA384", "alert handshake_failure in the handshake"),
        ("CBC with SHA-256", "ECDHE-RSA-AES128-SHA256", "TLSv1.2 ECDHE-RSA-AES128-SHA256 ip x509"),
        ("CBC with SHA-1", "ECDHE-RSA-AES256-SHA", "TLSv1.2 ECDHE-RSA-AES256-SHA ip x509")):
    cbc = {"ours": "alert handshake_failure in the handshake", "deviation": "CBC, DHE and RSA key exchange"} if "CBC" in name else {}
    row(need, f"TLS 1.2 with {name} alone", expected, lambda suites=suites: client("alice", highest=TLS12, ciphers=suites), **cbc)
for version, when in (TLS13, "on the first read"), (TLS12, "in the handshake"):
    row(need, f"no certificate, {version.name}", f"alert bad_certificate {when}", lambda version=version: client(highest=version),
        ours=f"alert certificate_required {when}", deviation="no certificate where one is needed")
    for name, what in (("stranger", "another authority"), ("expired", "expired"), ("early", "not yet valid"), ("serveronly", "for servers only")):
        row(need, f"a certificate that is {'of ' if name == 'stranger' else ''}{what}, {version.name}", f"alert {REFUSED} {when}",
            lambda name=name, version=version: client(name, highest=version))

for port, name in ("port", "the TLS port"), ("plain", "the port for both"):
    row(want, f"TLS 1.3 on {name}", "TLSv1.3 TLS_AES_256_GCM_SHA384 ip x509", lambda: client("alice"), port)
    row(want, f"TLS 1.2 on {name}", "alert protocol_version in the handshake", lambda: client("alice", highest=TLS12), port)
    row(want, f"no certificate on {name}", "TLSv1.3 TLS_AES_256_GCM_SHA384 ip", lambda: client(), port)
    row(want, f"another authority on {name}", f"alert {REFUSED} on the first read", lambda: client("stranger"), port)
row(none, "a certificate that nobody asks for", "TLSv1.3 TLS_AES_256_GCM_SHA384 ip", lambda: client("alice"))
row(none, "one of another authority", "TLSv1.3 TLS_AES_256_GCM_SHA384 ip", lambda: client("stranger"))
row(none, "none", "TLSv1.3 TLS_AES_256_GCM_SHA384 ip", lambda: client())


def timed(port, *parts):
    """What raw bytes are answered with, and after how many seconds if that is not at once."""
    started = time.monotonic()
    with wire.tcp(port) as connection:
        for part in parts:
            connection.sendall(part)
            time.sleep(0.05)
        answer = wire.rest(connection)
    taken = time.monotonic() - started
    return answer if taken < 3 else f"{answer} after 10 s" if 9 < taken < 14 else f"{answer} after {taken:.0f} s"


def raw(group, port, name, expected, *parts, **more):
    group.row(name, expected, lambda server: timed(getattr(server, port), *parts), **more)


def hello():
    """The first bytes of a TLS client."""
    given, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    half = client().wrap_bio(given, sent, server_hostname="127.0.0.1")
    try:
        half.do_handshake()
    except ssl.SSLWantReadError:
        return sent.read()


CONNECT = bytes.fromhex("0000002d" "00000000" "0000000000000000" "00002710" "0000000000000000" "00000010") + bytes(17)
raw(want, "plain", "ruok in one piece", "696d6f6b closed", b"ruok")
raw(want, "plain", "ruok in two pieces", "696d6f6b closed", b"r", b"uok")
raw(want, "plain", "a record of an alert", "15030300020100 closed", bytes.fromhex("15030100020100"),
    ours="closed after 10 s", deviation="an alert instead of a handshake")
raw(want, "plain", "a handshake record with garbage", "1503030002020a closed", bytes.fromhex("1603010005") + b"hello",
    ours="closed", deviation="an alert instead of a handshake")
raw(want, "plain", "the first byte of TLS, and not the rest", "closed", bytes.fromhex("16616263") + b"defg")
raw(want, "plain", "a hello of SSL 2", "closed", bytes.fromhex("802e010301") + bytes(40))
raw(want, "plain", "half a hello", "closed after 10 s", hello()[:100])
raw(want, "port", "ruok on the TLS port", "closed after 10 s", b"ruok")
raw(want, "port", "silence on the TLS port", "closed after 10 s")
raw(want, "port", "half a hello on the TLS port", "closed after 10 s", hello()[:100])
raw(want, "port", "a plain handshake of ZooKeeper on the TLS port", "closed", CONNECT)
raw(want, "port", "HTTP on the TLS port", "closed", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")


@want.check("a plain session on the port for both", "[('ip', '127.0.0.1')]")
def plain_session(server):
    with wire.plain(server.plain) as session:
        return session.who()


def drip(port):
    """A handshake whose bytes are sent one by one."""
    given, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    half = client("alice").wrap_bio(given, sent, server_hostname="127.0.0.1")
    with wire.tcp(port) as connection:
        while True:
            try:
                half.do_handshake()
                break
            except ssl.SSLWantReadError:
                for byte in sent.read():
                    connection.sendall(bytes([byte]))
                given.write(connection.recv(65536))
        for byte in sent.read():
            connection.sendall(bytes([byte]))
        return half.version()


for port, name in ("plain", "the port for both"), ("port", "the TLS port"):
    want.row(f"a handshake byte by byte on {name}", "TLSv1.3", lambda server, port=port: drip(getattr(server, port)))


class Counting:
    """A client that counts the records that it is sent; what it reads and writes is in frames."""

    def __init__(self, port):
        self.given, self.sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.half = client("alice").wrap_bio(self.given, self.sent, server_hostname="127.0.0.1")
        self.connection = wire.tcp(port)
        self.raw, self.records = b"", 0
        self._until_done(self.half.do_handshake)

    def _until_done(self, step):
        while True:
            try:
                done = step()
                self.connection.sendall(self.sent.read())
                return done
            except ssl.SSLWantReadError:
                self.connection.sendall(self.sent.read())
                part = self.connection.recv(65536)
                self.given.write(part)
                self.raw += part
                while len(self.raw) >= 5 and len(self.raw) >= (size := 5 + int.from_bytes(self.raw[3:5])):
                    self.raw, self.records = self.raw[size:], self.records + 1

    def sendall(self, content):
        self._until_done(lambda: self.half.write(content))

    def recv(self, length):
        return self._until_done(lambda: self.half.read(length))


@want.check("each frame of an answer has a record of its own", "8 frames in 8 records")
def records(server):
    connection = Counting(server.port)
    session = wire.Session(connection)
    session.create("/records")
    before = connection.records
    watched = wire.text("/records") + b"\1"
    written = wire.text("/records") + wire.buffer(b"x") + b"\xff" * 4
    requests = [(wire.GET_DATA, watched), (wire.SET_DATA, written)] + 5 * [(wire.GET_DATA, watched)]
    sent = [(7 + number).to_bytes(4) + op.to_bytes(4) + body for number, (op, body) in enumerate(requests)]
    connection.sendall(b"".join(len(request).to_bytes(4) + request for request in sent))
    for _ in range(8):  # one is the notification
        session.receive()
    return f"8 frames in {connection.records - before} records"


@want.check("a four-letter word over TLS", "imok and an orderly end")
def word(server):
    with wire.tls(server.port, client()) as connection:
        connection.sendall(b"ruok")
        answer = connection.recv(100)
        return f"{answer.decode()} and {'an orderly end' if connection.recv(100) == b'' else 'more'}"


@want.check("no protocol is negotiated", "None")
def alpn(server):
    context = client()
    context.set_alpn_protocols(["h2", "zookeeper"])
    with wire.tls(server.port, context) as connection:
        return connection.selected_alpn_protocol()


def replaced(folder, port):
    """Files of this server alone, to be overwritten."""
    for name in "server.pem", "trust.pem":
        (folder / name).write_bytes((CERTIFICATES / name).read_bytes())
    return certificates.settings(folder, port, clientAuth="none") | {"client.certReload": "true"}


reload = Group("reload", settings=replaced)


@reload.check("a key store that is overwritten is used for new connections, and old ones stay", "another True, still open 0")
def reloaded(server):
    context = client()
    context.check_hostname = False
    with wire.secure(server.port, context) as old:
        shown = old.connection.getpeercert(True)
        (server.log.parent / "server.pem").write_bytes((CERTIFICATES / "elsewhere.pem").read_bytes())
        deadline = time.monotonic() + 5
        other = False
        while not other and time.monotonic() < deadline:
            with wire.tls(server.port, context) as connection:
                other = connection.getpeercert(True) != shown
            time.sleep(0.05)
        return f"another {other}, still open {old.get('/')}"


GROUPS = [need, want, none, reload]

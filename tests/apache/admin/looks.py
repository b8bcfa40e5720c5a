"""What is seen of an admin server: a name and a line of text for each look. Two servers have to show the same."""

import base64
import gzip
import hashlib
import struct
import time

import web
import shapes
import wire

COMMANDS = {
    "configuration": ["conf", "config"], "connection_stat_reset": ["crst"], "connections": ["cons"], "dirs": [], "dump": [],
    "environment": ["env", "envi"], "get_trace_mask": ["gtmk"], "hash": [], "initial_configuration": ["icfg"], "is_read_only": ["isro"],
    "last_snapshot": ["lsnp"], "leader": ["lead"], "monitor": ["mntr"], "observer_connection_stat_reset": ["orst"], "observers": ["obsr"],
    "ruok": [], "server_stats": ["srvr"], "set_trace_mask": ["stmk"], "stat_reset": ["srst"], "stats": ["stat"], "system_properties": ["sysp"],
    "voting_view": [], "watches": ["wchc"], "watches_by_path": ["wchp"], "watch_summary": ["wchs"], "zabstate": [],
}
# Whose answers are the same to the byte.
STABLE = ["connection_stat_reset", "get_trace_mask", "is_read_only", "leader", "observer_connection_stat_reset", "observers", "ruok",
          "set_trace_mask?traceMask=16", "set_trace_mask", "set_trace_mask?traceMask=abc", "stat_reset", "voting_view", "watch_summary",
          "zabstate", "nope", "RUOK", "ruok/", "ruok/x", "/ruok", "ruo%6b", "ruok?x=1&y", "set_trace_mask?traceMask=1&traceMask=2", "rest"]
SUPER = "Authorization: digest super:secret"


def digest(credential):
    user = credential.split(":")[0]
    return f"{user}:{base64.b64encode(hashlib.sha1(credential.encode()).digest()).decode()}"


class Looks:
    def __init__(self, server, port):
        self.server, self.port = server, port
        self.seen = {}

    def note(self, name, value):
        self.seen[name] = str(value)

    def get(self, path, **more):
        return web.request(self.port, f"/commands/{path}", **more)

    def all(self):
        with wire.plain(self.server.plain) as session:
            self.state(session)
            self.commands()
            self.transport()
            self.authorization(session)
            self.snapshots()
        return self.seen

    def state(self, session):
        """A znode, an ephemeral one, and a watch."""
        session.create("/a", data=b"some data")
        session.call(wire.CREATE, wire.text("/e") + wire.buffer(b"x") + wire.acl_bytes(wire.ANYONE) + struct.pack(">i", 1))
        session.call(wire.GET_DATA, wire.text("/a") + b"\1")

    def commands(self):
        for command, aliases in COMMANDS.items():
            answer = self.get(command)
            body = shapes.parsed(answer.body)
            shown = self.properties(body) if command in ("system_properties", "environment") else shapes.shape(body)
            if command == "environment":
                self.note("environment: the keys", shapes.names(body))
            if command == "monitor":
                self.monitor(body)
                shown = "listed by itself"
            self.note(command, f"{answer.status} {answer.headers.get('content-type')} {shown}")
            for alias in aliases:
                self.note(f"{command} as {alias}", shapes.names(shapes.parsed(self.get(alias).body)) == shapes.names(body)
                          and dict(shapes.parsed(self.get(alias).body)).get("command"))
        for path in STABLE:
            answer = self.get(path)
            self.note(f"GET {path}", f"{answer.status} {answer.body.decode()}")
        listed = web.request(self.port, "/commands")
        self.note("the list", f"{listed.status} {listed.headers.get('content-type')} {listed.body.decode()}")
        for path in "dump", "watches_by_path", "watches":
            [(_, entries)] = [pair for pair in shapes.parsed(self.get(path).body)
                              if pair[0] in ("session_id_to_ephemeral_paths", "path_to_session_ids", "session_id_to_watched_paths")]
            self.note(f"values of {path}", [entry if isinstance(entry, list) and entry and isinstance(entry[0], str) else key
                                            for key, entry in entries])
        values = dict(shapes.parsed(self.get("configuration").body))
        self.note("values of configuration", [values[key] for key in ("tick_time", "max_client_cnxns", "min_session_timeout",
                                                                     "max_session_timeout", "server_id")])
        given = dict(shapes.parsed(self.get("initial_configuration").body))["initial_configuration"]
        self.note("initial_configuration has the lines of the file", "tickTime=200\n" in given)
        self.note("node_count", dict(shapes.parsed(self.get("server_stats").body))["node_count"])

    def properties(self, body):
        kinds = {shapes.shape(value) for key, value in body if key not in ("command", "error")}
        return f"{'sorted' if sorted(shapes.names(body)[:-2]) == shapes.names(body)[:-2] else 'unsorted'} {kinds} {shapes.names(body)[-2:]}"

    def monitor(self, body):
        names = shapes.names(body)
        self.note("monitor: the first and the last keys", f"{names[:2]} {names[-2:]}")
        for key, value in body[2:-2]:
            self.note(f"monitor: {key}", shapes.shape(value))

    def transport(self):
        for method, path in (("HEAD", "/commands/ruok"), ("HEAD", "/commands"), ("OPTIONS", "/commands/ruok"), ("PUT", "/commands/ruok"),
                             ("DELETE", "/commands/ruok"), ("TRACE", "/commands/ruok"), ("POST", "/commands"), ("POST", "/commands/nope"),
                             ("GET", "/commands/")):
            answer = web.request(self.port, path, method)
            # An empty body may have its length in a header or not.
            self.note(f"{method} {path}", f"{answer.status} {answer.headers.get('content-type')} allow {answer.headers.get('allow')} "
                                          f"length {len(answer.body)} {answer.headers.get('content-length', '0')}")
        for path in "/foo", "/commandsx":
            self.note(f"GET {path}", web.request(self.port, path).status)
        self.note("GET /", web.request(self.port, "/").status)
        self.note("POST on a command that is read", web.request(self.port, "/commands/ruok", "POST").status)
        self.note("no Host", web.parse(web.send(self.port, b"GET /commands/ruok HTTP/1.1\r\nConnection: close\r\n\r\n")).status)
        self.note("HTTP/1.0", web.parse(web.send(self.port, b"GET /commands/ruok HTTP/1.0\r\n\r\n")).status)
        compressed = self.get("ruok", headers=["Accept-Encoding: gzip"])
        self.note("Accept-Encoding", compressed.headers.get("content-encoding"))
        two = web.send(self.port, b"GET /commands/ruok HTTP/1.1\r\nHost: localhost\r\n\r\n"
                                   b"GET /commands/ruok HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        self.note("two requests on one connection", two.count(b"HTTP/1.1 200"))

    def refused(self, answer):
        return f"{answer.status} {answer.headers.get('content-type')} {answer.body.decode()}"

    def in_turn(self, **more):
        """The rate is one in 0.3 s: the setting is in milliseconds for restores, and in microseconds for snapshots."""
        for _ in range(100):
            answer = self.get("snapshot?streaming=false", **more)
            if answer.status != 429:
                return answer
            time.sleep(0.05)

    def authorization(self, session):
        for value in (None, "", "digest", "digest a:b c", "sasl bob", "world anyone", "super", "nonsense x", "Digest a:b", "Basic YTpi", "x509"):
            headers = [] if value is None else [f"Authorization: {value}"]
            for command, method in ("snapshot", "GET"), ("restore", "POST"):
                self.note(f"{command}, authorization {value!r}", self.refused(self.get(command, method=method, headers=headers)))
        self.note("GET restore without authorization", self.refused(self.get("restore")))
        for value in "digest any:one", "ip", "ip x", "  digest u:p":
            self.note(f"snapshot, authorization {value!r}", self.refused(self.in_turn(headers=[f"Authorization: {value}"])))
        session.auth("digest", b"super:secret")
        session.call(7, wire.text("/") + wire.acl_bytes([(wire.ALL, "digest", digest("u:p"))]) + struct.pack(">i", -1))
        for value in "digest u:p", "digest u:wrong", "ip", "digest super:secret":
            self.note(f"snapshot with a root for u alone, {value!r}", self.refused(self.in_turn(headers=[f"Authorization: {value}"])))
            self.note(f"restore with a root for u alone, {value!r}", self.get(
                "restore", method="POST", headers=[f"Authorization: {value}"], body=b"x").status if value == "ip" else "not tried")
        session.call(7, wire.text("/") + wire.acl_bytes(wire.ANYONE) + struct.pack(">i", -1))

    def snapshots(self):
        first = self.in_turn(headers=[SUPER])
        second = self.get("snapshot", headers=[SUPER])
        self.note("a snapshot at once after another", self.refused(second))
        self.note("headers of a snapshot that is not streamed", self.snapshot_headers(first))
        self.note("streaming=yes is no", self.in_turn_raw("snapshot?streaming=yes").headers.get("content-type"))
        for path in "snapshot", "snapshot?streaming=TRUE", "snap":
            answer = self.in_turn_raw(path)
            self.note(path, f"{answer.status} {answer.headers.get('content-type')} {self.snapshot_headers(answer)} "
                            f"{'right' if str(len(answer.body)) == answer.headers.get('snapshot_size') else 'wrong'} size, "
                            f"begins with {answer.body[:4]}")
        answer = self.get("restore", method="POST", headers=[SUPER], body=b"garbage")
        self.note("restore of garbage", self.refused(answer))
        self.note("a restore at once after another", self.refused(self.get("restore", method="POST", headers=[SUPER], body=b"garbage")))

    def in_turn_raw(self, path):
        for _ in range(100):
            answer = self.get(path, headers=[SUPER])
            if answer.status != 429:
                return answer
            time.sleep(0.05)

    def snapshot_headers(self, answer):
        zxid, size = answer.headers.get("last_zxid", ""), answer.headers.get("snapshot_size", "")
        return f"last_zxid {'hex' if zxid.startswith('0x') else zxid!r}, snapshot_size {'number' if size.isdigit() else size!r}"


def snapshot(port):
    """The bytes of a snapshot of a server, or why there is none."""
    for _ in range(100):
        answer = web.request(port, "/commands/snapshot", headers=[SUPER])
        if answer.status == 200:
            return gzip.decompress(answer.body) if answer.body[:2] == b"\x1f\x8b" else answer.body
        time.sleep(0.05)
    return f"{answer.status} {answer.body[:80]}"


def restore(port, content):
    answer = web.request(port, "/commands/restore", "POST", headers=[SUPER], body=content)
    shown = shapes.shape(shapes.parsed(answer.body)) if "json" in answer.headers.get("content-type", "") else answer.body[:80]
    return f"{answer.status} {shown}"

"""HTTP by hand: what a server answers, as it stands on the wire."""

import dataclasses
import json
import socket
import ssl

LIMIT = 20


@dataclasses.dataclass
class Answer:
    status: int
    headers: dict
    body: bytes

    def json(self):
        return json.loads(self.body, object_pairs_hook=list)


def send(port, raw, context=None):
    """The bytes of the answer to raw bytes; the connection has to be closed by the server."""
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as connection:
        if context:
            connection = context.wrap_socket(connection, server_hostname="127.0.0.1")
        with connection:
            connection.sendall(raw)
            got = b""
            try:
                while part := connection.recv(65536):
                    got += part
            except (ConnectionError, ssl.SSLEOFError):
                pass
            return got


def request(port, path, method="GET", headers=(), body=b"", context=None):
    lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Connection: close", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return parse(send(port, "\r\n".join([*lines, "", ""]).encode() + body, context))


def parse(raw):
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines)}
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = dechunk(body)
    return Answer(int(first.split(" ")[1]) if first.startswith("HTTP/") else 0, headers, body)


def dechunk(body):
    got = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size.split(b";")[0], 16)
        if not length:
            break
        got += body[:length]
        body = body[length + 2:]
    return got

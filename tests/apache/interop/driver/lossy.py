"""A proxy that knows frames: it loses the reply to one request."""

import socket
import struct
import threading

CREATE, DELETE, SET_DATA, MULTI, CREATE2 = 1, 2, 5, 14, 15
WRITES = {CREATE, DELETE, SET_DATA, MULTI, CREATE2}


class Lossy:
    """Between a program and a server. After `lose`, the next write below a path is executed, and the connection is closed
    instead of its reply."""

    def __init__(self, port):
        self._target, self._path, self._xid, self.lost = port, None, None, 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(self, path):
        self._path = path.encode()

    def _accept(self):
        while True:
            inner, _ = self._listener.accept()
            outer = socket.create_connection(("127.0.0.1", self._target))
            for side in (inner, outer):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._forward, args=(inner, outer, self._request), daemon=True).start()
            threading.Thread(target=self._forward, args=(outer, inner, self._reply), daemon=True).start()

    def _forward(self, source, target, passes):
        first = True
        try:
            while frame := read_frame(source):
                if not first and not passes(frame):
                    break
                first = False  # the handshake has no header
                target.sendall(struct.pack(">i", len(frame)) + frame)
        except OSError:
            pass
        for side in (source, target):
            try:
                side.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def _request(self, frame):
        xid, code = struct.unpack_from(">ii", frame)
        if self._path is not None and code in WRITES and self._path in frame:
            self._path, self._xid = None, xid
        return True

    def _reply(self, frame):
        if self._xid is None or struct.unpack_from(">i", frame)[0] != self._xid:
            return True
        self._xid = None
        self.lost += 1
        return False


def read_frame(source):
    head = read(source, 4)
    return head and read(source, struct.unpack(">i", head)[0])


def read(source, length):
    data = b""
    while len(data) < length:
        more = source.recv(length - len(data))
        if not more:
            return b""
        data += more
    return data

"""A directory, who comes and goes there, and what becomes of it."""

import contextlib
import socket
import time

from .programs import PATIENCE, Unexpected

# After a contender has set its watch it has nothing left to decide, but it may have set one and be granted at once.
AFTERTHOUGHT = 0.03
POLL = 0.005


class Stage:
    """A server with the contenders' programs."""

    def __init__(self, port, programs):
        self._port = port
        self._programs = programs
        self._observer = programs["zoolet"].contender("observer")
        self._scenes = 0
        self._observer.ask("created", "create", "/interop")

    def has(self, kind):
        return kind.program in self._programs

    @contextlib.contextmanager
    def scene(self):
        self._scenes += 1
        base = f"/interop/{self._scenes}"
        self._observer.ask("created", "create", base)
        scene = Scene(self, base)
        try:
            yield scene
        finally:
            scene.clear()
        if left := scene.remains():
            raise Unexpected(f"left behind: {' '.join(left)}")

    def contender(self, kind, number):
        return self._programs[kind.program].contender(number)

    def create(self, path, data=""):
        self._observer.ask("created", "create", path, data)

    def get(self, path):
        return self._observer.ask("got", "get", path)

    def ephemerals(self, base):
        return self._observer.ask("found", "ephemerals", base).split()

    def watches(self, base):
        """Pairs of path and session: who watches what below `base`, by the server's own account."""
        with socket.create_connection(("127.0.0.1", self._port), timeout=5) as connection:
            connection.sendall(b"wchp")
            answer = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
        watches, path = set(), ""
        for line in answer.splitlines():
            if line.startswith("/"):
                path = line
            elif path.startswith(base + "/"):
                watches.add((path, line.strip()))
        return watches


class Arrival:
    """One who came. `state` is `held`, `waits` or `failed`."""

    def __init__(self, contender):
        self.contender = contender
        self.state = "unknown"
        self.error = ""

    def comes(self, patience):
        """Whether it has been granted what it waits for within this time."""
        if self.state == "waits" and (got := self.contender.answer(patience)) is not None:
            self._take(got)
        return self.state == "held"

    def _take(self, got):
        self.state = "held" if got[0] == "acquired" else "failed"
        self.error = got[1]


class Scene:
    def __init__(self, stage, base):
        self._stage = stage
        self._base = base
        self.dir = f"{base}/lock"
        self.arrivals = []

    def arrive(self, kind):
        """Lets a contender come and waits until it holds, has failed or has set its watch."""
        stage = self._stage
        number = sum(1 for other in self.arrivals if other.contender.name.startswith(f"{kind.program}."))
        arrival = Arrival(stage.contender(kind, number))
        self.arrivals.append(arrival)
        before = stage.watches(self._base)
        arrival.contender.tell("acquire", self.dir, kind.word)
        deadline = time.monotonic() + PATIENCE
        while arrival.state == "unknown":
            if got := arrival.contender.answer(POLL):
                arrival._take(got)
            elif stage.watches(self._base) - before:
                arrival.state = "waits"
                arrival.comes(AFTERTHOUGHT)
            elif time.monotonic() > deadline:
                raise Unexpected(f"{arrival.contender.name}: neither held nor waiting after {PATIENCE} s")
        return arrival

    def leave(self, arrival):
        """Has it give up what it holds."""
        if arrival.state != "held":
            raise Unexpected(f"{arrival.contender.name}: {arrival.state} {arrival.error}, so it cannot release")
        arrival.contender.ask("released", "release")
        arrival.state = "gone"

    def remains(self):
        """The ephemerals that are still there after a while that none should need."""
        deadline = time.monotonic() + 5
        while (left := self._stage.ephemerals(self._base)) and time.monotonic() < deadline:
            time.sleep(POLL)
        return left

    def clear(self):
        """Ends the sessions of those who have not left by themselves."""
        for arrival in self.arrivals:
            if arrival.state != "gone":
                arrival.contender.close()

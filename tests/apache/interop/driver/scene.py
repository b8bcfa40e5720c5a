"""A lock directory, and the contenders that arrive there and leave."""

import contextlib
import re
import socket
import time

from .programs import LIMIT, Unexpected

# A client that has set a watch has decided to wait, except those that set it first and look afterwards.
AFTERTHOUGHT = 0.05
POLL = 0.005
# Curator's semaphore forgets a watch on the leases at the server. The next one takes its place, so that the count does not show
# it; then a znode that has existed for so long counts as waiting.
SETTLED = 1
GRANT_LIMIT = 15


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

    def watches(self):
        """All that are set, by the server's own account: the pairs of path and session of those on data, and how many
        there are on children, which it only counts."""
        on_data = self._watches_on_data()
        while True:
            count = re.search(r"zk_watch_count\t(\d+)", self._word("mntr"))
            before, on_data = on_data, self._watches_on_data()
            if on_data == before:  # so the count is of the same moment
                return on_data, int(count[1]) - len(on_data)

    def _watches_on_data(self):
        watches, path = set(), ""
        for line in self._word("wchp").splitlines():
            if line.startswith("/"):
                path = line
            elif line:
                watches.add((path, line.strip()))
        return watches

    def _word(self, word):
        with socket.create_connection(("127.0.0.1", self._port), timeout=5) as connection:
            connection.sendall(word.encode())
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode()


class Arrival:
    """A contender that arrived. `state` is `held`, `waits` or `failed`."""

    def __init__(self, contender):
        self.contender = contender
        self.state = "unknown"
        self.error = ""

    def comes(self, limit):
        """Whether it has been granted what it waits for within this time."""
        if self.state == "waits" and (got := self.contender.answer(limit)) is not None:
            self.take(got)
        return self.state == "held"

    def take(self, got):
        self.state = "held" if got[0] == "acquired" else "failed"
        self.error = got[1]


class Scene:
    def __init__(self, stage, base):
        self._stage = stage
        self._base = base
        self.dir = f"{base}/lock"
        self.arrivals = []

    def arrive(self, kind, to_hold=False):
        """Lets a contender come and waits until it holds, has failed or has set its watch. Of one that is `to_hold` a watch
        says nothing: it waits only if it does not hold for long."""
        stage = self._stage
        number = sum(1 for other in self.arrivals if other.contender.program == kind.program)
        arrival = Arrival(stage.contender(kind, number))
        self.arrivals.append(arrival)
        watches = stage.watches()
        znodes = len(stage.ephemerals(self._base))
        arrival.contender.tell("acquire", self.dir, kind.word)
        if got := arrival.contender.answer(GRANT_LIMIT if to_hold else POLL):
            arrival.take(got)
            return arrival
        came, there_since = time.monotonic(), None
        while not self._is_watched(*watches):
            if got := arrival.contender.answer(POLL):
                arrival.take(got)
                return arrival
            now = time.monotonic()
            if there_since is None and now > came + SETTLED / 2 and len(stage.ephemerals(self._base)) > znodes:
                there_since = now
            if there_since is not None and now > there_since + SETTLED:
                break
            if now > came + LIMIT:
                raise Unexpected(f"{arrival.contender.name}: neither held nor waiting after {LIMIT} s")
        arrival.state = "waits"
        arrival.comes(AFTERTHOUGHT)
        return arrival

    def _is_watched(self, on_data, on_children):
        """Whether there are watches here that there were not."""
        on_data_now, on_children_now = self._stage.watches()
        more = any(path.startswith(f"{self._base}/") for path, _ in on_data_now - on_data)
        return more or on_children_now > on_children

    def leave(self, arrival):
        """Has it give up what it holds."""
        if arrival.state != "held":
            raise Unexpected(f"{arrival.contender.name}: {arrival.state} {arrival.error}, so it cannot release")
        arrival.contender.ask("released", "release")
        arrival.state = "gone"

    def close(self, arrival):
        """Ends its session, and so its waiting."""
        arrival.contender.close()
        arrival.state = "gone"

    def remains(self):
        """The ephemerals that are still there after a while that none should need."""
        deadline = time.monotonic() + 5
        while (left := self._stage.ephemerals(self._base)) and time.monotonic() < deadline:
            time.sleep(POLL)
        return left

    def clear(self):
        """Ends the sessions that are still open."""
        for arrival in self.arrivals:
            if arrival.state != "gone":
                self.close(arrival)

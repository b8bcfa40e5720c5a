#!/usr/bin/env python3
"""Clients stay connected to `zoolet serve` while it is killed and started again ten times on the same port.

  tests/apache/run restarts                         all clients
  tests/apache/run restarts --only kazoo,go         some of them
  tests/apache/run restarts --zoolet PATH           with this binary instead of building it
  tests/apache/run restarts --rounds N              so many restarts

The server keeps nothing, so each client has to learn that its session is lost. Each runs the program `restarts` of its folder, which
writes and reads in a loop and prints `lost` when its session is reported lost, `works SESSION` at the first write and read of each
session, and `error WHY`. A check holds if a client prints `lost` and then `works` with another session within the session's timeout
and a second after the server answers again. Every other time the server stays down for a while.

A client whose toolchain is missing is skipped, by name. Exit code 1 if a check failed. Logs are in target/clients/logs/restarts/.
"""

import argparse
import functools
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "interop"))

from driver import programs  # noqa: E402
from harness import children, clients, servers, toolchain  # noqa: E402

TIMEOUT = 4.0
LIMIT = TIMEOUT + 1
START_LIMIT = 15
DOWN = [0, 1.5]


def kazoo():
    return [clients.kazoo()[0], toolchain.SCRIPTS / "kazoo" / "restarts.py"]


def curator():
    return [*clients.curator()[:-1], "Restarts"]


def zoolet():
    [contender, _] = programs.rust("contender", "zoolet")
    return [contender.parent / "restarts"]


CLIENTS = {
    "zoolet": zoolet,
    "kazoo": kazoo,
    "curator": curator,
    "c": lambda: [*clients.c(), "restarts"],
    "go": lambda: [*clients.go(), "restarts"],
}


class Client:
    """A program that stays connected, and what it has printed."""

    def __init__(self, name, command, port, folder):
        self.name = name
        self._lines = []
        self._more = threading.Condition()
        env = os.environ | {"ZK_HOSTS": f"127.0.0.1:{port}", "ZK_ROOT": f"/{name}", "ZK_DIRECT": "", "ZK_CONTROL": "",
                            "ZK_TIMEOUT_MS": str(int(TIMEOUT * 1000))}
        self._process = children.start(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env)
        self._reader = threading.Thread(target=self._read, args=(folder / f"{name}.log",))
        self._reader.start()

    def _read(self, log):
        started = time.monotonic()
        with open(log, "w", buffering=1) as record:
            for raw in self._process.stdout:
                line = raw.decode(errors="replace").rstrip("\n")
                record.write(f"{time.monotonic() - started:7.2f} {line}\n")
                with self._more:
                    self._lines.append(line)
                    self._more.notify_all()

    def mark(self):
        """Where the lines to come begin."""
        with self._more:
            return len(self._lines)

    def await_session(self, start, needed, deadline):
        """Waits for `works` after the line `needed`, if any; returns what is missing, or None."""
        with self._more:
            while True:
                lines = self._lines[start:]
                after = lines[lines.index(needed) + 1:] if needed in lines else []
                if any(line.startswith("works ") for line in (after if needed else lines)):
                    return None
                left = deadline - time.monotonic()
                if left <= 0:
                    return "nothing works" if needed is None or needed in lines else "it is not told that its session is lost"
                self._more.wait(left)

    def end(self):
        children.end(self._process)
        self._reader.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(CLIENTS), metavar=",".join(CLIENTS))
    parser.add_argument("--zoolet", metavar="PATH", help="the binary to test")
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what runs is ended, too

    command = servers.zoolet(args.zoolet)
    commands, skipped, failures = toolchain.prepare({name: CLIENTS[name] for name in args.only.split(",")})
    passed = run(command, commands, args.rounds, failures)
    for text in failures:
        print(f"not ok {text}")
    print(f"\n{passed} passed, {len(failures)} failed, {skipped} skipped")
    return 1 if failures else 0


def run(command, commands, rounds, failures):
    folder = toolchain.TARGET / "logs" / "restarts"
    folder.mkdir(parents=True, exist_ok=True)
    port = servers.lasting_port()
    start_server = functools.partial(servers.Server, "zoolet", command, folder / "server", port)
    server = start_server()
    stayed = [Client(name, command, port, folder) for name, command in commands.items()]
    passed = 0
    try:
        passed += judge(stayed, dict.fromkeys(stayed, 0), None, time.monotonic() + START_LIMIT, "connects", failures)
        for number in range(1, rounds + 1):
            marks = {client: client.mark() for client in stayed}
            server.kill()
            time.sleep(DOWN[number % len(DOWN)])
            server = start_server()
            answers = time.monotonic()
            passed += judge(stayed, marks, "lost", answers + LIMIT, f"restart {number}", failures)
    finally:
        for client in stayed:
            client.end()
        if wrong := server.stop():
            failures.append(f"server: {wrong}")
    return passed


def judge(stayed, marks, needed, deadline, what, failures):
    """Waits for each client; returns how many were in time."""
    passed = 0
    for client in stayed:
        if missing := client.await_session(marks[client], needed, deadline):
            failures.append(f"{client.name}: {what}: {missing}")
        else:
            passed += 1
    print(f"{what}: {passed} of {len(stayed)}", flush=True)
    return passed


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Looks at the admin server of Apache ZooKeeper 3.9.5 and at ours, which have to show the same.

  tests/apache/run admin                     both
  tests/apache/run admin --server apache     that one beside another of its kind: nothing may differ
  tests/apache/run admin --zoolet PATH       with this binary instead of building one

Every command with the keys of its answer, their order and types, the status of what is refused, and snapshots, each of which
the other server has to restore. What may differ stands in differences.py, by its row of docs/deviations.md.
Exit code 1 if something else does. Logs are in target/clients/logs/admin-SERVER/.
"""

import argparse
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1] / "secure"))

from harness import toolchain  # noqa: E402
from harness.servers import Server, free_port, servers  # noqa: E402

import differences  # noqa: E402
import looks  # noqa: E402
import secured  # noqa: E402
import wire  # noqa: E402

DEVIATIONS = toolchain.REPOSITORY / "docs" / "deviations.md"


class Setup:
    """The settings of one server, for which its admin server has a port of its own."""
    tls = False

    def __init__(self, **more):
        self.port = free_port()
        self.more = more

    def settings(self, folder, _):
        return {"admin.enableServer": "true", "admin.serverAddress": "127.0.0.1", "admin.serverPort": self.port, "dataDir": folder / "data"} | {
            key.replace("_", "."): value for key, value in self.more.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", choices=["apache", "zoolet"])
    parser.add_argument("--zoolet", metavar="PATH", help="the binary to test")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        known = servers(args.zoolet)
        names = {None: ["apache", "zoolet"], "apache": ["apache", "apache"], "zoolet": ["zoolet", "zoolet"]}[args.server]
        commands = {name: known[name]() for name in set(names)}
    except toolchain.Missing as tool:
        print(f"skipped: {tool} is missing")
        return 0
    failures = [f"docs/deviations.md has no row {title!r}" for title in differences.missing_rows(DEVIATIONS)]
    seen = [{}, {}]
    quick = {"admin_rateLimiterIntervalInMS": "1000"}
    for more, look in [({}, everything), (quick, None), *secured.SETUPS]:
        running = []
        try:
            for place, name in enumerate(names):
                setup = Setup(**more)
                folder = toolchain.TARGET / "logs" / f"admin-{name}-{place}"
                running.append((Server(name, commands[name], folder, mode=setup), setup))
        except RuntimeError as error:
            failures.append(str(error))
            failures += [wrong for server, _ in running if (wrong := server.stop())]
            continue
        for place, (server, setup) in enumerate(running):
            seen[place] |= look(server, setup.port) if look else {}
        if look is None:
            failures += crossed(running)
        failures += [f"[{server.name}] {wrong}" for server, _ in running if (wrong := server.stop())]
        for server, _ in running:
            server.forget()
    for place, name in enumerate(names):
        lines = (f"{look}: {shown}\n" for look, shown in seen[place].items())
        (toolchain.TARGET / "logs" / f"admin-{name}-{place}" / "looks").write_text("".join(lines))
    failures += differences.between(*seen, ours=names[1] == "zoolet" and names[0] != "zoolet")
    for failure in failures:
        print(f"not ok {failure}")
    print(f"\n{len(seen[0])} looks at {names[0]} and {names[1]}, {len(failures)} failed")
    return 1 if failures else 0


def everything(server, port):
    return looks.Looks(server, port).all()


def crossed(running):
    """Each snapshot is restored by the other server; what is wrong with that."""
    taken = []
    for server, setup in running:
        with wire.plain(server.plain) as session:
            session.create(f"/taken-from-{len(taken)}", data=b"kept")
        taken.append(looks.snapshot(setup.port))
    wrong = [f"[{server.name}] no snapshot: {got}" for (server, _), got in zip(running, taken) if isinstance(got, str)]
    if wrong:
        return wrong
    for place, (server, setup) in enumerate(running):
        other = 1 - place
        done = looks.restore(setup.port, taken[other])
        with wire.plain(server.plain) as session:
            found = [session.get(f"/taken-from-{number}") for number in (other, place)]
        if (done, found) != ("200 {last_zxid i, command s, error n}", [0, -101]):
            wrong.append(f"[{server.name}] a snapshot of the other server: {done}, its znode {found[0]}, the one from before {found[1]}")
    return wrong


if __name__ == "__main__":
    sys.exit(main())

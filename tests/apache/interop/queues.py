#!/usr/bin/env python3
"""Has our counters, values and queues share znodes with those of Curator and kazoo, and loses a reply of each.

  tests/apache/interop/queues.py                    on our server and on Apache ZooKeeper
  tests/apache/interop/queues.py --server apache    on one of them
  tests/apache/interop/queues.py --zoolet PATH      with this binary instead of building it

A client or server whose toolchain is missing is skipped, by name. Exit code 1 if one of our checks failed. What a foreign client
does after a lost reply is printed, and is a note.
"""

import argparse
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from driver import programs  # noqa: E402
from driver.lossy import Lossy  # noqa: E402
from harness import children, clients, toolchain  # noqa: E402
from harness.servers import SERVERS, Server, servers  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent


def zoolet(profile=()):
    [cargo] = toolchain.need("cargo")
    build = toolchain.TARGET / "interop-rust"
    toolchain.quietly([cargo, "build", *profile, "--bin", "queues", "--manifest-path", HERE / "rust" / "Cargo.toml",
                       "--target-dir", build])
    return [build / ("release" if profile else "debug") / "queues"]


def curator():
    java, javac = toolchain.need("java", "javac")
    jars = toolchain.jars("curator-jars", toolchain.SCRIPTS / "curator" / "pom.xml")
    source = HERE / "java" / "queues" / "Queues.java"
    folder = toolchain.once("interop-queues", [source, jars],
                            lambda folder: toolchain.quietly([javac, "-proc:none", "-d", folder, "-cp", jars, source]))
    return [java, "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
            "-cp", os.pathsep.join([str(folder), jars]), "Queues"]


def kazoo():
    return [clients.kazoo()[0], HERE / "kazoo" / "queues.py"]


PROGRAMS = {"zoolet": zoolet, "curator": curator, "kazoo": kazoo}


class Worker:
    """A program with one session, which obeys one line at a time."""

    def __init__(self, command, port, log):
        with open(log, "wb") as errors:
            self._process = children.start([*command, f"127.0.0.1:{port}"], stdin=subprocess.PIPE,
                                           stdout=subprocess.PIPE, stderr=errors)

    def tell(self, *words):
        self._process.stdin.write(f"{' '.join(map(str, words))}\n".encode())
        self._process.stdin.flush()

    def answer(self):
        verb, _, rest = self._process.stdout.readline().decode().rstrip("\n").partition(" ")
        if verb != "ok":
            raise programs.Unexpected(f"{verb} {rest}")
        return rest

    def ask(self, *words):
        self.tell(*words)
        return self.answer()

    def end(self):
        children.end(self._process)


class Report:
    def __init__(self, server):
        self.server, self.passed, self.failures = server, 0, []

    def check(self, what, got, expected):
        if got == expected:
            self.passed += 1
        else:
            self.failures.append(f"[{self.server}] {what}: {got} instead of {expected}")

    def note(self, text):
        print(f"[{self.server}] {text}", flush=True)


def shared_counters(report, ours, theirs, layouts):
    """Each counts in the znode of the other, whoever creates it."""
    for name, theirs, layout in [(name, worker, layout) for name, worker in theirs.items() for layout in layouts[name]]:
        for first, second in ((ours, theirs), (theirs, ours)):
            path = f"/count-{name}-{layout}-{'ours' if first is ours else 'theirs'}"
            what = f"{name} {layout}, {'ours' if first is ours else 'theirs'} first"
            got = [first.ask("add", layout, path, 5), second.ask("add", layout, path, -7), first.ask("get", layout, path),
                   second.ask("add", layout, path, 300), first.ask("add", layout, path, 1)]
            report.check(what, got, ["5", "-2", "-2", "298", "299"])


def shared_values(report, ours, curator):
    ours.ask("replace", "/value", "a")
    report.check("a value of ours, read by Curator", curator.ask("value", "/value"), "a")
    curator.ask("replace", "/value", "b")
    report.check("a value of Curator, read by ours", ours.ask("value", "/value"), "b")


def drained_queues(report, ours, theirs, layouts):
    for name, worker, layout in [(name, worker, layout) for name, worker in theirs.items() for layout in layouts[name]]:
        source, target = f"/queue-{name}-{layout}", f"/ours-{name}-{layout}"
        puts = {"distributed": ["one,two", "three"]}.get(layout, ["one", "two", "three"])
        for data in puts:
            worker.ask("put", layout, source, data)
        report.check(f"{name} {layout}: drained", ours.ask("drain", layout, source, target), "3 0")
        got = [ours.ask("take", "zoolet", target) for _ in range(4)]
        report.check(f"{name} {layout}: taken", got, ["one", "two", "three", "-"])
        report.check(f"{name} {layout}: drained again", ours.ask("drain", layout, source, target), "0 0")


def lost_replies(report, proxy, workers):
    """A reply to each kind of write is lost. Ours counts once, and no item is lost; what others do is a note."""
    for name, worker in workers.items():
        layout = "text" if name == "kazoo" else "i64"
        path = f"/lost-{name}"
        worker.ask("add", layout, path, 1)
        proxy.lose(path)
        worker.ask("add", layout, path, 1)
        counted = worker.ask("get", layout, path)
        if name == "zoolet":
            report.check("1 + 1 with a lost reply", counted, "2")
        else:
            report.note(f"{name}: 1 + 1 with a lost reply is {counted}")
        if name != "kazoo":
            path = f"/lost-cas-{name}"
            worker.ask("add", layout, path, 1)
            proxy.lose(path)
            done, left = worker.ask("cas", layout, path, 1, 2), worker.ask("get", layout, path)
            if name == "zoolet":
                report.check("compare and set with a lost reply", (done, left), ("true", "2"))
            else:
                report.note(f"{name}: compareAndSet(1, 2) with a lost reply says {done}, and the counter is {left}")
        queue = {"zoolet": "zoolet", "curator": "simple", "kazoo": "kazoo"}[name]
        path = f"/lost-queue-{name}"
        for data in ("a", "b"):
            worker.ask("put", queue, path, data)
        proxy.lose(path)
        taken = [worker.ask("take", queue, path), worker.ask("take", queue, path)]
        if name == "zoolet":
            report.check("a take with a lost reply", taken, ["a", "b"])
        else:
            report.note(f"{name}: a and b were put; with a lost reply the takes return {taken}")
    report.check("replies were lost", proxy.lost, 2 * len(workers) + sum(name != "kazoo" for name in workers))


def run(server_name, server_command, commands):
    folder = toolchain.TARGET / "logs" / f"{server_name}-queues"
    report = Report(server_name)
    server = Server(server_name, server_command, folder)
    proxy = Lossy(server.port)
    workers = {}
    try:
        for name, command in commands.items():
            workers[name] = Worker(command, proxy.port, folder / f"{name}.log")
        ours, theirs = workers["zoolet"], {name: worker for name, worker in workers.items() if name != "zoolet"}
        shared_counters(report, ours, theirs, {"curator": ["i64", "i32", "shared"], "kazoo": ["text", "i32"]})
        if "curator" in theirs:
            shared_values(report, ours, theirs["curator"])
        drained_queues(report, ours, theirs, {"curator": ["simple", "distributed"], "kazoo": ["kazoo"]})
        lost_replies(report, proxy, workers)
    except programs.Unexpected as error:
        report.failures.append(f"[{server_name}] {error}; logs are in {folder}")
    finally:
        for worker in workers.values():
            worker.end()
        if wrong := server.stop():
            report.failures.append(f"[{server_name}] server: {wrong}")
    return report


def prepared(builders):
    commands, skipped = {}, 0
    for name, build in builders.items():
        try:
            commands[name] = build()
        except toolchain.Missing as tool:
            skipped += 1
            print(f"{name}: skipped: {tool} is missing", flush=True)
    return commands, skipped


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", choices=SERVERS, help="the only server")
    parser.add_argument("--zoolet", metavar="PATH", help="the binary to test")
    args = parser.parse_args()
    prepare_server = servers(args.zoolet)
    running, missing = prepared({name: prepare_server[name] for name in ([args.server] if args.server else SERVERS)})
    commands, skipped = prepared(PROGRAMS)
    reports = [run(name, server, commands) for name, server in running.items()] if "zoolet" in commands else []
    failures = [failure for report in reports for failure in report.failures]
    for failure in failures:
        print(f"not ok {failure}")
    print(f"{sum(report.passed for report in reports)} passed, {len(failures)} failed, {missing + skipped} skipped")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""The measured processes: contenders by client library, servers, and their CPU time."""

import json
import os
import pathlib
import statistics
import subprocess
from dataclasses import dataclass

from harness import children, clients, servers, toolchain

HERE = pathlib.Path(__file__).resolve().parent


def rust(kind):
    """Our client or the crate zookeeper-client: both in `benches/clients/src/locks`."""
    def command():
        [cargo] = toolchain.need("cargo")
        manifest, build = HERE.parent / "clients" / "Cargo.toml", toolchain.TARGET / "bench-rust"
        toolchain.quietly([cargo, "build", "--release", "--locked", "--bin", "locks", "--manifest-path", manifest,
                           "--target-dir", build])
        return [build / "release" / "locks", kind]
    return command


def curator():
    java, javac = toolchain.need("java", "javac")
    jars = toolchain.jars("curator-jars", toolchain.SCRIPTS / "curator" / "pom.xml")
    source = HERE / "curator" / "Contend.java"
    folder = toolchain.once("bench-curator", [source, jars],
                            lambda folder: toolchain.quietly([javac, "-d", folder, "-cp", jars, source]))
    return [java, "-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
            "-cp", os.pathsep.join([str(folder), jars]), "Contend"]


def kazoo():
    [python, _] = clients.kazoo()
    return [python, HERE / "kazoo" / "contend.py"]


def apache():
    servers.apache()  # downloads it

    def command(folder, port, _more):
        return [toolchain.HERE / "zookeeper", "start", "--port", str(port), "--dir", folder,
                "-D", "zookeeper.forceSync=no", "--jvm=-Xmx2g"]
    return command


def zoolet(binary):
    binary = servers.binary(binary, profile="dist")
    return lambda _folder, port, _more: [binary, "serve", "--bind", f"127.0.0.1:{port}"]


@dataclass
class Figures:
    """The figures of one interval, or their medians over several."""

    rate: float  # turns or hand-offs per second
    p50: float  # microseconds
    p99: float
    client_cpu: float  # microseconds per turn
    server_cpu: float
    fewest: int  # the lowest number of turns of a contender
    most: int

    @classmethod
    def median(cls, spans):
        return cls(*(statistics.median(getattr(span, field) for span in spans) for field in cls.__annotations__))


class Contenders:
    """A process with contenders of one client library for a lock."""

    def __init__(self, command, log):
        self.log = log
        with open(log, "wb") as errors:
            self.process = children.start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)

    def ask(self, order):
        self.process.stdin.write(f"{order}\n".encode())
        self.process.stdin.flush()
        if answer := self.process.stdout.readline():
            return answer.decode()
        raise RuntimeError(f"contenders have ended in the middle; {self.log} says:\n{self.log.read_text()[-2000:]}")

    def span(self, server, directory, contenders, release, millis):
        """Contends for this time after a warm-up. Opening and closing sessions is not measured."""
        self.ask(f"open 127.0.0.1:{server.port} {directory} {contenders} {release}")
        before = cpu_times(server.pid)
        found = json.loads(self.ask(f"go {millis}"))
        server_cpu = cpu_since(before, cpu_times(server.pid))
        turns = found["turns"]
        total = sum(turns)
        return Figures(total / found["seconds"], found["p50"], found["p99"], found["cpu"] / total, server_cpu / total,
                       min(turns), max(turns))


def cpu_times(pid):
    """The CPU time of each thread of a server so far, in microseconds, from the scheduler's statistics."""
    times = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/schedstat") as account:
                times[task] = int(account.read().split()[0]) / 1e3
        except FileNotFoundError:  # a thread that ended after the folder was read
            pass
    return times


def cpu_since(before, now):
    return sum(time - before.get(thread, 0) for thread, time in now.items())

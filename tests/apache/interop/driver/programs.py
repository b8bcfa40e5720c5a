"""The contenders' programs: how each is built, and how it is talked to."""

import collections
import os
import pathlib
import queue
import shutil
import subprocess
import threading

from harness import children, clients, toolchain
from harness.toolchain import Missing, need, once, quietly

HERE = pathlib.Path(__file__).resolve().parents[1]
LIMIT = 20


def curator():
    jars = toolchain.jars("curator-jars", toolchain.SCRIPTS / "curator" / "pom.xml")
    return compiled_java("curator", jars, "CuratorContenders")


def recipe():
    jars = toolchain.jars("apache-jars", toolchain.SCRIPTS / "java" / "pom.xml")
    return compiled_java("recipe", os.pathsep.join([str(recipe_jar()), jars]), "RecipeContenders")


def recipe_jar():
    """Maven's registry does not have the recipes; Debian does, in a package that need not be installed."""
    package = "libzookeeper-java"
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise Missing(package)

    def fetch(folder):
        download = ["apt-get", "download", "-q", package]
        try:
            quietly(download, cwd=folder)
        except toolchain.Broken:  # package lists that are old, or not there yet
            if os.geteuid() != 0:
                raise Missing(package) from None
            quietly(["apt-get", "update", "-q"])
            quietly(download, cwd=folder)
        [archive] = folder.glob("*.deb")
        quietly(["dpkg-deb", "-x", archive, folder])
    return once("recipe-jar", [package], fetch) / "usr" / "share" / "java" / "zookeeper-recipes-lock.jar"


def compiled_java(name, jars, main):
    java, javac = need("java", "javac")
    sources = [HERE / "java" / "Contenders.java", HERE / "java" / name / f"{main}.java"]
    folder = once(f"interop-{name}", [*sources, jars],
                  lambda folder: quietly([javac, "-proc:none", "-d", folder, "-cp", jars, *sources]))
    return [java, "-Xmx128m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
            "-cp", os.pathsep.join([str(folder), jars]), main]


def kazoo():
    return [clients.kazoo()[0], HERE / "kazoo" / "contender.py"]


def go():
    [go] = need("go")
    inputs = [HERE / "go" / name for name in ("main.go", "go.mod", "go.sum")]
    folder = once("interop-go", inputs, lambda folder: quietly(
        [go, "build", "-mod=readonly", "-o", folder / "contender", "."], cwd=HERE / "go"))
    return [folder / "contender"]


def curator_services():
    jars = toolchain.jars("curator-jars", toolchain.SCRIPTS / "curator" / "pom.xml")
    return compiled_java("services", jars, "CuratorServices")


def finagle_server_sets():
    jars = toolchain.jars("finagle-jars", toolchain.SCRIPTS / "finagle" / "pom.xml")
    return compiled_java("finagle", jars, "FinagleServerSets")


def kazoo_parties():
    return [clients.kazoo()[0], HERE / "kazoo" / "party.py"]


def rust(program, *args):
    [cargo] = need("cargo")
    build = toolchain.TARGET / "interop-rust"
    # Not --locked: what is pinned stays so, but our own crates may need something that the lock file does not have yet.
    quietly([cargo, "build", "--manifest-path", HERE / "rust" / "Cargo.toml", "--target-dir", build])
    return [build / "debug" / program, *args]


PROGRAMS = {
    "curator": curator,
    "recipe": recipe,
    "kazoo": kazoo,
    "go": go,
    "zookeeper-client": lambda: rust("contender", "zookeeper-client"),
    "zoolet": lambda: rust("contender", "zoolet"),
}

# Those of services.py.
SERVICES = {
    "curator-services": curator_services,
    "finagle-server-sets": finagle_server_sets,
    "kazoo-parties": kazoo_parties,
    "our-services": lambda: rust("services"),
}


class Program:
    """A running program, whose contenders are identified by their names."""

    def __init__(self, name, command, hosts, log):
        with open(log, "wb") as stderr:
            self._process = children.start([*command, hosts], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                           stderr=stderr)
        self.name = name
        self._answers = {}
        self._closed = collections.Counter()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            verb, who, *rest = line.decode(errors="replace").rstrip("\n").split(" ", 2)
            self.answers(who).put((verb, rest[0] if rest else ""))

    def contender(self, number):
        """The contender of this number. One that was closed has a successor of another name, as it may still have
        something to say."""
        return Contender(self, number, f"{self.name}.{number}.{self._closed[number]}")

    def retire(self, number):
        self._closed[number] += 1

    def send(self, line):
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()

    def answers(self, who):
        # Atomic, as that of a defaultdict is not: the reader and the driver may both ask for it first.
        return self._answers.setdefault(who, queue.Queue())

    def end(self):
        children.end(self._process)
        self._reader.join()


class Contender:
    """A session of a program, by its name."""

    def __init__(self, program, number, name):
        self.name = name
        self.program = program.name
        self._program = program
        self._number = number

    def tell(self, verb, *args):
        self._program.send(" ".join([verb, self.name, *map(str, args)]))

    def answer(self, limit):
        """The next answer as (verb, rest), or None if there is none in time."""
        try:
            return self._program.answers(self.name).get(timeout=limit)
        except queue.Empty:
            return None

    def ask(self, expected, verb, *args):
        """Tells something and returns the rest of the answer that is expected."""
        self.tell(verb, *args)
        return self.expect(expected)

    def expect(self, expected, limit=LIMIT):
        got = self.answer(limit)
        if got is None:
            raise Unexpected(f"{self.name}: no `{expected}` in {limit} s")
        if got[0] != expected:
            raise Unexpected(f"{self.name}: `{' '.join(got)}` instead of `{expected}`")
        return got[1]

    def close(self):
        """Ends the session, whatever it is waiting for."""
        self._program.retire(self._number)
        self.tell("close")
        while (got := self.answer(LIMIT)) is not None and got[0] != "closed":
            pass  # what was said before
        if got is None:
            raise Unexpected(f"{self.name}: not closed in {LIMIT} s")


class Unexpected(Exception):
    """A contender that did not do what it should."""

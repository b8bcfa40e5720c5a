"""The servers that the scripts are run against: a fresh one, with an empty data directory, for each script."""

import contextlib
import functools
import pathlib
import random
import select
import shutil
import socket
import subprocess
import threading

from . import children, toolchain
from .modes import PLAIN

# Short ticks, so that sessions expire soon after their time and the scripts need not wait long for it.
SETTINGS = {
    "tickTime": "200",
    "minSessionTimeout": "400",
    "maxSessionTimeout": "60000",
    "maxClientCnxns": "0",
    "extendedTypesEnabled": "true",
    "4lw.commands.whitelist": "*",
    # super:secret
    "DigestAuthenticationProvider.superDigest": "super:lK75jTNcA+U9vtVEw5vB51mj/w4=",
}
# Apache ZooKeeper reads these as JVM properties only.
JVM_SETTINGS = {"znode.container.checkIntervalMs": "300"}
START_LIMIT = 30
STOP_LIMIT = 10


class Server:
    """A running server; `command` is called with the folder and the port to be used, a free one unless it is given.

    `port` is the one for clients that speak in this mode, `plain` is for those that do not use TLS in any case.
    """

    def __init__(self, name, command, folder, port=None, mode=PLAIN):
        self.name = name
        self.plain = port or free_port()
        self.port = free_port() if mode.tls else self.plain
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.log = folder / "server.log"
        with open(self.log, "wb") as log:
            given = mode.settings(folder, self.port)
            self._process = children.start(command(folder, self.plain, given), stdout=subprocess.PIPE, stderr=log)
        self._wait_until_it_answers()

    @property
    def pid(self):
        return self._process.pid

    def _wait_until_it_answers(self):
        """Both servers print one line when they do; whatever else they print is passed over."""
        ready = select.select([self._process.stdout], [], [], START_LIMIT)[0]
        if not ready or not self._process.stdout.readline():
            children.end(self._process)
            raise RuntimeError(f"{self.name} did not start; its log:\n{self.log.read_text()[-2000:]}")
        threading.Thread(target=self._process.stdout.read, daemon=True).start()

    def kill(self):
        """Ends the server without a shutdown."""
        children.end(self._process)

    def stop(self):
        """Ends the server; returns what was wrong with it, if anything."""
        died = self._process.poll()
        if died is not None:
            wrong = f"ended by itself with code {died}, see {self.log}"
        else:
            self._process.terminate()
            try:
                self._process.wait(STOP_LIMIT)
                wrong = None
            except subprocess.TimeoutExpired:
                wrong = f"did not stop within {STOP_LIMIT} s of SIGTERM"
        children.end(self._process)
        return wrong

    def forget(self):
        """Deletes what a stopped server has on disk, of which a log alone is 64 MB."""
        shutil.rmtree(self.log.parent / "data", ignore_errors=True)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def lasting_port():
    """A free port below those that the system gives to outgoing connections: it stays free while the server is down."""
    while True:
        port = random.randrange(12_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def write_config(path, settings):
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path


def apache():
    """Fetches Apache ZooKeeper; returns the function that makes its command line."""
    toolchain.need("java")
    script = toolchain.HERE / "zookeeper"
    toolchain.quietly([script, "fetch"])

    def command(folder, port, more):
        config = write_config(folder / "given.cfg", SETTINGS | more)
        properties = [f"-D{key}={value}" for key, value in (JVM_SETTINGS | only_jvm(more)).items()]
        return [script, "start", "--port", str(port), "--dir", folder, "--config", config,
                "--jvm=-Xmx512m", "--jvm=-XX:TieredStopAtLevel=1", *properties]
    return command


def only_jvm(settings):
    """Those that Apache ZooKeeper does not take from zoo.cfg."""
    return {key: value for key, value in settings.items() if key.startswith("java.")}


def binary(given=None, profile="release"):
    """Our binary, which is built with this profile of Cargo unless one is given."""
    if given is None:
        toolchain.need("cargo")
        toolchain.quietly(["cargo", "build", "--profile", profile, "--locked", "--package", "zoolet-cli", "--features", "full"],
                          cwd=toolchain.REPOSITORY)
        given = toolchain.TARGET.parent / profile / "zoolet"
    return pathlib.Path(given).resolve()


def zoolet(given=None, durable=False, settings=None):
    """The function that makes the command line of our binary. The state of the server is in memory or, if it is to be durable, in
    its folder. `settings` are others than the usual ones."""
    path = binary(given)

    def command(folder, port, more):
        own = {"dataDir": folder / "data"} if durable else {}
        config = write_config(folder / "given.cfg", SETTINGS | JVM_SETTINGS | own | (settings or {}) | more)
        return [path, "serve", "--bind", f"127.0.0.1:{port}", "--config", config]
    return command


def servers(given=None):
    """The functions that prepare each server. The release binary is built unless one is given."""
    return {
        "zoolet": functools.partial(zoolet, given),
        "durable": functools.partial(zoolet, given, durable=True),
        "apache": apache,
    }


SERVERS = list(servers())

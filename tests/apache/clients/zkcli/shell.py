"""zkCli as a program that is typed at and read from."""

import os
import queue
import re
import subprocess
import threading
import time

from harness.checks import LIMIT

MARK = "printwatches is on"
# Taken from where Java would announce that it uses it, amid what zkCli prints.
JAVA_OPTIONS = os.environ.pop("JDK_JAVA_OPTIONS", "").split()


class Shell:
    """One zkCli process; `run` types a line and returns the lines it prints."""

    def __init__(self, classpath, hosts, timeout_ms=8000):
        self._process = subprocess.Popen(main_class(classpath, hosts, timeout_ms) + ["-waitforconnection"],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=subprocess.STDOUT, text=True, bufsize=1)
        self._lines = queue.Queue()
        self.events = []
        threading.Thread(target=self._read, daemon=True).start()
        self.run("history")  # takes the greeting along

    def _read(self):
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def run(self, command):
        """What the command printed, one string a line; events go to `events` instead.

        `printwatches` is typed after it: it prints one known line, without a connection too, and so ends the answer.
        """
        self._process.stdin.write(f"{command}\nprintwatches\n")
        printed = []
        while (line := self._next()) != MARK:
            if line and line != "WATCHER::" and not self._take_event(line):
                printed.append(line)
        return printed

    def one(self, command):
        """What a command printed that prints one line."""
        printed = self.run(command)
        assert len(printed) == 1, f"{command} printed {printed}"
        return printed[0]

    def await_event(self, state, kind="None", path="null"):
        """Waits for this event, and drops it and those before it."""
        wanted = (state, kind, path)
        deadline = time.monotonic() + LIMIT
        while wanted not in self.events:
            assert time.monotonic() < deadline, f"no event {wanted}, only {self.events}"
            try:
                self._take_event(self._next(limit=0.1))
            except queue.Empty:
                pass
        del self.events[:self.events.index(wanted) + 1]

    def _next(self, limit=LIMIT):
        line = self._lines.get(timeout=limit)
        assert line is not None, "zkCli has ended"
        return line

    def _take_event(self, line):
        found = re.match(r"WatchedEvent state:(\w+) type:(\w+) path:(\S+)", line)
        if found:
            self.events.append(found.groups())
        return bool(found)

    def quit(self):
        self._process.stdin.write("quit\n")
        self._process.stdin.close()
        return self._process.wait(LIMIT)


def main_class(classpath, hosts, timeout_ms):
    return ["java", *JAVA_OPTIONS, "-Xmx64m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-cp", classpath, "org.apache.zookeeper.ZooKeeperMain",
            "-server", hosts, "-timeout", str(timeout_ms)]


def at_once(classpath, hosts, *command):
    """Runs zkCli with one command as its arguments; returns its exit code and what it printed."""
    done = subprocess.run([*main_class(classpath, hosts, 8000), *command], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT)
    return done.returncode, done.stdout.splitlines()

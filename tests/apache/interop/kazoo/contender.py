"""kazoo's locks, by the protocol of ../README.md: contenders by name, each with a session and a thread of its own."""

import logging
import queue
import sys
import threading
import time

from kazoo.client import KazooClient

SESSION = 10.0
say_lock = threading.Lock()


def say(*words):
    with say_lock:
        print(*words, flush=True)


class Contender:
    def __init__(self, name, hosts):
        self.name = name
        self.hosts = hosts
        self.zk = None
        self.lock = None
        self.commands = queue.Queue()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while command := self.commands.get():
            try:
                if self.zk is None:
                    self.zk = KazooClient(self.hosts, timeout=SESSION)
                    self.zk.start()
                verb, *rest = self.obey(*command)
                say(verb, self.name, *rest)
            except Exception as error:
                logging.exception("%s", self.name)
                say("error", self.name, type(error).__name__, str(error).replace("\n", " "))

    def obey(self, verb, *args):
        if verb == "acquire":
            self.lock = self.acquired(*args)
            return ["acquired"]
        if verb == "release":
            self.lock.release()
            return ["released"]
        if verb == "contend":
            path, kind, counter, millis = args
            end = time.monotonic() + int(millis) / 1000
            times = 0
            while time.monotonic() < end:
                lock = self.acquired(path, kind)
                self.work(kind, counter)
                lock.release()
                times += 1
            return ["contended", times]
        raise ValueError(verb)

    def acquired(self, path, kind):
        lock = {
            "lock": self.zk.Lock,
            "lock:dash": lambda path: self.zk.Lock(path, extra_lock_patterns=("-",)),
            "read": self.zk.ReadLock,
            "write": self.zk.WriteLock,
        }[kind](path)
        lock.acquire()
        return lock

    def work(self, kind, counter):
        """What is done under the lock. Who writes counts in two steps and without a look at versions: whoever does the
        same meanwhile takes one away. Who reads sees to it that nobody counts meanwhile."""
        count = self.zk.get(counter)[0]
        if not kind.startswith("read"):
            self.zk.set(counter, str(int(count) + 1).encode())
        elif self.zk.get(counter)[0] != count:
            raise RuntimeError("another client writes while this one reads")

    def close(self):
        self.commands.put(None)
        if self.zk is not None:
            self.zk.stop()
            self.zk.close()


def main():
    logging.basicConfig()
    contenders = {}
    for line in sys.stdin:
        verb, name, *args = line.split()
        if verb == "close":
            if name in contenders:
                contenders.pop(name).close()
            say("closed", name)
            continue
        if name not in contenders:
            contenders[name] = Contender(name, sys.argv[1])
        contenders[name].commands.put((verb, *args))


if __name__ == "__main__":
    main()

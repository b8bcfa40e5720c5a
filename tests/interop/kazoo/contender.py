"""kazoo's locks, by the protocol of ../README.md: contenders by name, each with a session and a thread of its own."""

import logging
import queue
import sys
import threading

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
                say(self.obey(*command), self.name)
            except Exception as error:
                logging.exception("%s", self.name)
                say("error", self.name, type(error).__name__, str(error).replace("\n", " "))

    def obey(self, verb, *args):
        if verb == "acquire":
            self.lock = self.acquired(*args)
            return "acquired"
        if verb == "release":
            self.lock.release()
            return "released"
        if verb == "contend":
            path, kind, counter, times = args
            for _ in range(int(times)):
                lock = self.acquired(path, kind)
                self.add_one(counter)
                lock.release()
            return "contended"
        raise ValueError(verb)

    def acquired(self, path, kind):
        lock = {
            "lock": self.zk.Lock,
            "lock:dash": lambda path: self.zk.Lock(path, extra_lock_patterns=("-",)),
            "read": self.zk.ReadLock,
            "read:dash": lambda path: self.zk.ReadLock(path, extra_lock_patterns=("-",)),
            "write": self.zk.WriteLock,
        }[kind](path)
        lock.acquire()
        return lock

    def add_one(self, counter):
        """In two steps and without a look at versions: whoever does the same meanwhile takes one away."""
        count = int(self.zk.get(counter)[0])
        self.zk.set(counter, str(count + 1).encode())

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

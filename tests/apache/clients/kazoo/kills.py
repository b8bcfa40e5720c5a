"""Reads and writes while the server is killed and started again: see tests/process/kills/mod.rs, which judges by what passes on the wire.

Runs until its standard input ends. Prints what a client library should not do here: lose its session.
"""

import collections
import os
import random
import sys
import threading
import time

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import ConnectionLoss, KazooException, SessionExpiredError
from kazoo.retry import KazooRetry

SESSIONS = 2
IN_FLIGHT = 12
KEPT = 15


def listener(state):
    if state == KazooState.LOST:
        print("a session is lost", flush=True)


class Load:
    def __init__(self, number):
        self.random = random.Random(f"{os.environ['ZK_SEED']} {number}")
        self.name = f"kazoo-{number}"
        self.counter = 0
        self.own = collections.deque()  # sequential and ephemeral znodes, oldest first
        retry = KazooRetry(max_tries=-1, delay=0.02, max_delay=0.1)
        self.zk = KazooClient(os.environ["ZK_HOSTS"], timeout=float(os.environ["ZK_TIMEOUT_MS"]) / 1000,
                              connection_retry=retry)
        self.zk.add_listener(listener)
        self.zk.start(timeout=60)

    def run(self):
        waiting = collections.deque()
        while True:
            waiting.append(self.request())
            if len(waiting) == IN_FLIGHT:
                self.settle(*waiting.popleft())

    def settle(self, made_here, result):
        try:
            got = result.get(timeout=60)
            if made_here:
                self.own.append(got)
        except (ConnectionLoss, SessionExpiredError):
            time.sleep(0.01)  # until it is connected again
        except KazooException:
            pass  # refused: the znode is there already, or not

    def request(self):
        """Sends a request; returns whether it makes a znode that this client is to remove, and the result."""
        zk, chance = self.zk, self.random.randrange(100)
        self.counter += 1
        data = f"{self.name}-{self.counter}".encode()
        parent = f"/k{self.random.randrange(4)}"
        path = f"{parent}/{self.random.randrange(6)}"
        if len(self.own) > KEPT:
            return False, zk.delete_async(self.own.popleft())
        if chance < 5:
            return False, zk.create_async(parent, data)
        if chance < 20:
            return False, zk.create_async(path, data)
        if chance < 35:
            return False, zk.set_async(path, data, version=self.random.choice([-1, -1, 0, 1]))
        if chance < 42:
            return False, zk.delete_async(path, version=self.random.choice([-1, -1, 0]))
        if chance < 52:
            return True, zk.create_async(f"{parent}/s-", data, sequence=True, ephemeral=chance < 47)
        if chance < 60:
            return False, self.transaction(path, data)
        if chance < 75:
            return False, zk.get_async(path, watch=self.watch())
        if chance < 85:
            return False, zk.get_children_async(parent, watch=self.watch(), include_data=chance < 80)
        if chance < 95:
            return False, zk.exists_async(path, watch=self.watch())
        return False, zk.sync_async(parent)

    def transaction(self, path, data):
        transaction = self.zk.transaction()
        transaction.create(path, data)
        transaction.set_data(path, data + b" again")
        if self.random.random() < 0.3:
            transaction.check(path, 7)  # fails
        if self.random.random() < 0.5:
            transaction.delete(path)
        return transaction.commit_async()

    def watch(self):
        return (lambda event: None) if self.random.random() < 0.2 else None


def main():
    loads = [Load(number) for number in range(SESSIONS)]
    for load in loads:
        threading.Thread(target=load.run, daemon=True).start()
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()

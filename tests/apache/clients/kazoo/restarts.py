"""Stays connected to a server that restarts without its state: see ../restarts.py."""

import os
import threading
import time

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import NodeExistsError

TIMEOUT = float(os.environ["ZK_TIMEOUT_MS"]) / 1000
PATH = os.environ["ZK_ROOT"]

printing = threading.Lock()


def say(text):
    with printing:
        print(text, flush=True)


def listener(state):
    if state == KazooState.LOST:
        say("lost")


def main():
    zk = KazooClient(os.environ["ZK_HOSTS"], timeout=TIMEOUT)
    zk.add_listener(listener)
    zk.start(timeout=10)
    session = None
    while True:
        try:
            try:
                zk.create_async(PATH).get(timeout=1)
            except NodeExistsError:
                pass
            zk.set_async(PATH, b"x").get(timeout=1)
            assert zk.get_async(PATH).get(timeout=1)[0] == b"x"
            if zk.client_id[0] != session:
                session = zk.client_id[0]
                say(f"works {session:x}")
        except Exception as error:
            say(f"error {type(error).__name__}")
        time.sleep(0.1)


if __name__ == "__main__":
    main()

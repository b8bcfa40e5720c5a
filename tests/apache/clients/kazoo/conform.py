"""A program for `zoolet conform --client`: see ../conform.py."""

import os
import time

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError
from kazoo.handlers.threading import KazooTimeoutError

SCENARIO = os.environ["ZOOKEEPER_SCENARIO"]
SECONDS = float(os.environ["ZOOKEEPER_SECONDS"])
PATH = os.environ["ZOOKEEPER_PATH"]


def ignore(event):
    pass


def main():
    zk = KazooClient(os.environ["ZOOKEEPER"], timeout=10)
    zk.start(timeout=20)
    zk.add_auth("digest", "conform:secret")
    for path in "/app", "/app/watched":
        try:
            zk.create(path)
        except NodeExistsError:
            pass
    zk.retry(zk.get, "/app/watched", watch=ignore)
    zk.retry(zk.get_children, "/app/watched", watch=ignore)
    zk.retry(zk.exists, "/app/absent", watch=ignore)
    if SCENARIO == "many-watches":
        for number in range(1300):
            zk.retry(zk.exists, f"/app/{'x' * 900}-{number}", watch=ignore)
    elif SCENARIO in ("large-replies", "empty-replies"):
        zk.get(f"{PATH}/data")
        zk.get_children(f"{PATH}/children")
    elif SCENARIO == "idle":
        time.sleep(SECONDS)
    with zk.Lock("/app/lock"):
        pass
    end = time.monotonic() + SECONDS
    limit = end + 30
    done = False
    while not done or time.monotonic() < end:
        try:
            zk.set_async("/app", b"x").get(timeout=5)
            zk.get_async("/app").get(timeout=5)
            done = True
        except (KazooException, KazooTimeoutError):
            done = False
            if time.monotonic() > limit:
                raise
        time.sleep(0.1)
    zk.stop()


if __name__ == "__main__":
    main()

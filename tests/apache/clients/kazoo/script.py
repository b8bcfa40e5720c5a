"""kazoo against a server: see ../README.md."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2]))

from kazoo.client import KazooClient

import operations
import recipes
import sessions
from connection import client, security
from harness.checks import DIRECT, LIMIT, ROOT, checking, finish


def main():
    outside = KazooClient(DIRECT, timeout=20, **security())
    outside.start(timeout=LIMIT)
    outside.ensure_path(ROOT)
    outside.chroot = ROOT
    with checking("connect"):
        zk = client()
        assert zk.client_id[0] != 0 and len(zk.client_id[1]) == 16
    operations.run(zk)
    recipes.run(zk)
    sessions.run(zk, outside)
    zk.stop()
    outside.stop()
    finish()


if __name__ == "__main__":
    main()

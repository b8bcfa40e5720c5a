"""Connecting, as the parts of this script do it."""

import contextlib

from kazoo.client import KazooClient
from kazoo.retry import KazooRetry

from harness.checks import HOSTS, LIMIT, ROOT


def client(hosts=HOSTS, timeout=6.0, **options):
    quick = {"max_tries": -1, "delay": 0.05, "max_delay": 0.2}
    zk = KazooClient(hosts + ROOT, timeout=timeout, connection_retry=KazooRetry(**quick),
                     command_retry=KazooRetry(**quick), **options)
    zk.start(timeout=LIMIT)
    return zk


@contextlib.contextmanager
def closing_client(zk):
    try:
        yield zk
    finally:
        zk.stop()
        zk.close()

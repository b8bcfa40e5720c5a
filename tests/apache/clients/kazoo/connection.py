"""Connecting, as the parts of this script do it."""

import contextlib
import os

from kazoo.client import KazooClient
from kazoo.retry import KazooRetry

from harness.checks import HOSTS, LIMIT, ROOT


def security(tls=True):
    """How to connect in the mode of this run, or as far as it goes without TLS."""
    options = {}
    if tls and (ca := os.environ.get("ZK_CA")):
        options |= {"use_ssl": True, "ca": ca, "check_hostname": True}
    if tls and (certificate := os.environ.get("ZK_CERTIFICATE")):
        options |= {"certfile": certificate, "keyfile": os.environ["ZK_KEY"]}
    if user := os.environ.get("ZK_USER"):
        options["sasl_options"] = {"mechanism": "DIGEST-MD5", "username": user, "password": os.environ["ZK_SECRET"]}
    return options


def client(hosts=HOSTS, timeout=6.0, **options):
    quick = {"max_tries": -1, "delay": 0.05, "max_delay": 0.2}
    zk = KazooClient(hosts + ROOT, timeout=timeout, connection_retry=KazooRetry(**quick),
                     command_retry=KazooRetry(**quick), **security(), **options)
    zk.start(timeout=LIMIT)
    return zk


@contextlib.contextmanager
def closing_client(zk):
    try:
        yield zk
    finally:
        zk.stop()
        zk.close()

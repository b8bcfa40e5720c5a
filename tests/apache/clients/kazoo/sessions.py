"""Reconnects, silence, expiry and the end of a session."""

import queue
import threading

from kazoo.client import KazooClient, KazooState
from kazoo.protocol.states import EventType

from connection import client, security
from harness.checks import DIRECT, LIMIT, ROOT, checking, control, equal, eventually


def run(zk, outside):
    reconnect(zk, outside)
    silence(outside)
    expiry(outside)
    closing(outside)


def reconnect(zk, outside):
    states = []
    zk.add_listener(states.append)
    session = zk.client_id
    told = queue.Queue()
    names = []
    zk.create("/live", b"0")
    zk.create("/live/mine", ephemeral=True)
    zk.get("/live", watch=told.put)
    zk.DataWatch("/live")(lambda value, stat: names.append(value))
    with checking("reconnect: state goes suspended, connected"):
        control("cut")
        eventually(lambda: states == [KazooState.SUSPENDED, KazooState.CONNECTED], f"states are {states}")
    with checking("reconnect: same session"):
        equal(zk.client_id, session)
    with checking("reconnect: ephemeral still there"):
        equal(outside.exists("/live/mine").ephemeralOwner, session[0])
        zk.set("/live/mine", b"still mine")
    with checking("reconnect: one-shot watch is notified"):  # kazoo does not set it again, it tells the watcher
        equal(told.get(timeout=LIMIT).type, EventType.NONE)
    with checking("reconnect: a change while away reaches the data watch"):
        control("refuse")
        outside.set("/live", b"changed while away")
        control("heal")
        eventually(lambda: names[-1:] == [b"changed while away"], f"values seen: {names}")
    with checking("reconnect: the data watch goes on"):
        outside.set("/live", b"after")
        eventually(lambda: names[-1:] == [b"after"], f"values seen: {names}")


def silence(outside):
    """No byte comes through, yet the connection is not closed: the client has to notice by itself."""
    zk = client(timeout=2.4)
    states = []
    zk.add_listener(states.append)
    session = zk.client_id
    zk.create("/silence", ephemeral=True)
    with checking("reconnect: after silence, same session and ephemeral"):
        control("stall")
        eventually(lambda: states == [KazooState.SUSPENDED], f"states are {states}")
        control("heal")
        eventually(lambda: states[-1] == KazooState.CONNECTED, f"states are {states}")
        equal(zk.client_id, session)
        equal(outside.exists("/silence").ephemeralOwner, session[0])
    zk.stop()


def expiry(outside):
    zk = client(timeout=1.0)
    states = []
    zk.add_listener(states.append)
    session = zk.client_id
    zk.create("/expiring", ephemeral=True)
    deleted = threading.Event()
    outside.exists("/expiring", watch=lambda event: deleted.set() if event.type == EventType.DELETED else None)
    with checking("expiry: the ephemeral goes, others are notified"):
        control("refuse")
        assert deleted.wait(LIMIT)
        equal(outside.exists("/expiring"), None)
    with checking("expiry: the client sees its session lost"):
        control("heal")
        eventually(lambda: KazooState.LOST in states, f"states are {states}")
    with checking("expiry: a new session follows"):
        eventually(lambda: states[-1:] == [KazooState.CONNECTED], f"states are {states}")
        assert zk.client_id[0] != session[0]
    zk.stop()
    with checking("expiry: the old session cannot be taken up again"):
        revenant = KazooClient(DIRECT + ROOT, client_id=session, timeout=5, **security())
        revenant.start(timeout=LIMIT)
        assert revenant.client_id[0] != session[0]
        revenant.stop()


def closing(outside):
    with checking("close: the session's ephemerals go at once"):
        zk = client(timeout=30)
        zk.create("/closing", ephemeral=True)
        zk.stop()
        equal(outside.exists("/closing"), None)

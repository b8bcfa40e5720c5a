"""For the scripts that are in Python: checks, waiting, and the proxy's control port."""

import contextlib
import os
import socket
import sys
import time
import traceback

HOSTS = os.environ["ZK_HOSTS"]      # through the proxy
DIRECT = os.environ["ZK_DIRECT"]    # past it
CONTROL = os.environ["ZK_CONTROL"]
ROOT = os.environ["ZK_ROOT"]        # not created yet
PLAIN = os.environ["ZK_PLAIN"]      # without TLS, past it
# Scheme and id of what every session is, beside its address.
IDENTITIES = [tuple(line.split(" ", 1)) for line in os.environ.get("ZK_IDENTITIES", "").splitlines()]
LIMIT = 10

_failed = 0


@contextlib.contextmanager
def checking(what):
    """One check: whatever is raised in the block makes it fail, and the script goes on."""
    global _failed
    try:
        yield
        print(f"ok {what}", flush=True)
    except Exception as error:
        _failed += 1
        reason = str(error).replace("\n", " ") or "no reason given"
        print(f"not ok {what}: {type(error).__name__}: {reason}", flush=True)
        traceback.print_exc()


@contextlib.contextmanager
def refused(expected):
    """The block has to raise this error."""
    try:
        yield
    except expected:
        return
    raise AssertionError(f"no {expected.__name__}")


def equal(got, expected):
    assert got == expected, f"got {got!r}, expected {expected!r}"


def eventually(condition, what, limit=LIMIT):
    """Waits until the condition holds; returns what it gave."""
    deadline = time.monotonic() + limit
    while not (value := condition()):
        assert time.monotonic() < deadline, f"still not met after {limit} s: {what}"
        time.sleep(0.02)
    return value


def control(command):
    """Has the proxy obey a command; returns the rest of its answer."""
    host, port = CONTROL.split(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(f"{command}\n".encode())
        answer = connection.makefile().readline().split()
    assert answer and answer[0] == "ok", f"the proxy answered {answer} to {command}"
    return answer[1:]


def finish():
    sys.exit(1 if _failed else 0)

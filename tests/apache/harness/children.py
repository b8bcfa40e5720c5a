"""The processes that a run starts: none outlives it, whichever way it ends."""

import atexit
import os
import signal
import subprocess

_running = set()


def start(command, stdin=subprocess.DEVNULL, **options):
    """Starts a program as the head of a process group of its own."""
    child = subprocess.Popen(list(map(str, command)), stdin=stdin, start_new_session=True, **options)
    _running.add(child)
    return child


def end(child):
    """Kills what is left of a child's group, and reaps the child."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()
    _running.discard(child)


@atexit.register
def _end_all():
    for child in list(_running):
        end(child)

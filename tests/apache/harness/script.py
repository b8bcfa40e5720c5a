"""Runs one client's script against one server and reads what it prints."""

import os
import pathlib
import subprocess
import threading
import time

from . import children
from .modes import PLAIN
from .proxy import Proxy
from .report import Outcome
from .servers import Server

LIMIT = 120


def run(client, command, server_name, server_command, folder: pathlib.Path, mode=PLAIN):
    """A fresh server, a proxy before it, the script; its output goes to `folder`."""
    started = time.monotonic()
    outcome = Outcome()
    try:
        server = Server(server_name, server_command, folder, mode=mode.of(client))
    except RuntimeError as error:
        outcome.failures.append(f"server: {error}")
        return outcome
    proxy = Proxy(server.port).start()
    try:
        log = folder / "script.log"
        code = execute(command, environment(client, server, proxy) | mode.environment(folder), log, outcome)
        judge(code, log, outcome)
    finally:
        proxy.stop()
        if wrong := server.stop():
            outcome.failures.append(f"server: {wrong}")
    if not outcome.failures:
        server.forget()
    outcome.seconds = time.monotonic() - started
    return outcome


def environment(client, server, proxy):
    return os.environ | {
        "ZK_HOSTS": f"127.0.0.1:{proxy.port}",
        "ZK_DIRECT": f"127.0.0.1:{server.port}",
        "ZK_PLAIN": f"127.0.0.1:{server.plain}",
        "ZK_CONTROL": f"127.0.0.1:{proxy.control_port}",
        "ZK_ROOT": f"/{client}",
        "ZK_SERVER": server.name,
    }


def execute(command, env, log, outcome):
    """Runs the script to its end, or to the end of its time; returns its exit code."""
    process = children.start(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env)
    reader = threading.Thread(target=read, args=(process.stdout, log, outcome))
    reader.start()
    try:
        return process.wait(LIMIT)
    except subprocess.TimeoutExpired:
        outcome.failures.append(f"still running after {LIMIT} s, see {log}")
        return None
    finally:
        children.end(process)
        reader.join()


def read(output, log, outcome):
    """Takes note of the checks, and of when each line came."""
    started = time.monotonic()
    with open(log, "w", buffering=1) as record:
        for raw in output:
            line = raw.decode(errors="replace").rstrip("\n")
            record.write(f"{time.monotonic() - started:7.2f} {line}\n")
            if line.startswith("ok "):
                outcome.passed += 1
                outcome.checks.append(line.removeprefix("ok "))
            elif line.startswith("not ok "):
                outcome.failures.append(line.removeprefix("not ok "))


def judge(code, log, outcome):
    if code and not outcome.failures:
        outcome.failures.append(f"ended with code {code}, see {log}")
    elif code == 0 and outcome.failures:
        outcome.failures.append("ended with code 0 in spite of failed checks")
    elif code == 0 and not outcome.passed:
        outcome.failures.append(f"checked nothing, see {log}")

"""Runs one client's script against one server and reads what it prints."""

import os
import pathlib
import signal
import subprocess
import time

from .proxy import Proxy
from .report import Outcome
from .servers import Server

LIMIT = 120


def run(client, command, server_name, server_command, folder: pathlib.Path):
    """A fresh server, a proxy before it, the script; its output goes to `folder`."""
    started = time.monotonic()
    outcome = Outcome()
    try:
        server = Server(server_name, server_command, folder)
    except RuntimeError as error:
        outcome.failures.append(f"server: {error}")
        return outcome
    proxy = Proxy(server.port).start()
    try:
        log = folder / "script.log"
        code = execute(command, environment(client, server, proxy), log, outcome)
        read(log, code, outcome)
    finally:
        proxy.stop()
        if wrong := server.stop():
            outcome.failures.append(f"server: {wrong}")
    outcome.seconds = time.monotonic() - started
    return outcome


def environment(client, server, proxy):
    return os.environ | {
        "ZK_HOSTS": f"127.0.0.1:{proxy.port}",
        "ZK_DIRECT": f"127.0.0.1:{server.port}",
        "ZK_CONTROL": f"127.0.0.1:{proxy.control_port}",
        "ZK_ROOT": f"/{client}",
        "ZK_SERVER": server.name,
    }


def execute(command, env, log, outcome):
    with open(log, "wb") as output:
        process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, env=env, start_new_session=True)
        try:
            return process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            outcome.failures.append(f"still running after {LIMIT} s, see {log}")
            return None
        finally:
            end_group(process)


def end_group(process):
    """Nothing that the script started outlives it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def read(log, code, outcome):
    for line in log.read_text(errors="replace").splitlines():
        if line.startswith("ok "):
            outcome.passed += 1
        elif line.startswith("not ok "):
            outcome.failures.append(line.removeprefix("not ok "))
    if code and not outcome.failures:
        outcome.failures.append(f"ended with code {code}, see {log}")
    elif code == 0 and outcome.failures:
        outcome.failures.append("ended with code 0 in spite of failed checks")
    elif code == 0 and not outcome.passed:
        outcome.failures.append(f"checked nothing, see {log}")

#!/usr/bin/env python3
"""Captures the scripts of all ZooKeeper clients on `zoolet serve`, and replays each capture on another one, without a difference.

  tests/apache/run capture                          all clients
  tests/apache/run capture --only kazoo,go          some of them

The scripts run whole: their proxy is before the capture, so what it cuts and holds back is captured as well. A client whose
toolchain is missing is skipped, by name. Exit code 1 if a check failed or a replay differs. Captures are in target/clients/logs/capture-CLIENT/.
"""

import argparse
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from harness import children, clients, report, script, servers, toolchain  # noqa: E402
from harness.proxy import Proxy  # noqa: E402

# What the scripts give with auth requests. Captures have no credentials.
CREDENTIALS = ["digest:bob:pw", "digest:bob:wrong", "digest:eve:pw", "digest:super:secret"]
REPLAY_LIMIT = 300


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(clients.CLIENTS), metavar=",".join(clients.CLIENTS))
    parser.add_argument("--zoolet", required=True, metavar="PATH", help="the binary to test")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what runs is ended, too
    outcomes = {}
    for name in args.only.split(","):
        try:
            outcome = run(name, clients.CLIENTS[name](), pathlib.Path(args.zoolet).resolve())
        except toolchain.Missing as tool:
            outcome = report.Outcome(skipped=f"{tool} is missing")
        except toolchain.Broken as error:
            outcome = report.Outcome(failures=[f"{name} could not be built: {error}"])
        outcomes[name] = {"capture": outcome}
        print("\n".join([f"{name}: {outcome}"] + [f"    not ok {text}" for text in outcome.failures]), flush=True)
    failed, last_line = report.totals(outcomes)
    print(f"\n{last_line}")
    return 1 if failed else 0


def run(name, command, zoolet):
    """The script on a captured server, then the replay on a fresh one, which counts as one more check."""
    folder = toolchain.TARGET / "logs" / f"capture-{name}"
    started, outcome = time.monotonic(), report.Outcome()
    server = servers.Server("zoolet", servers.zoolet(zoolet), folder)
    file = folder / "capture"
    capture = children.start([zoolet, "capture", "--listen", "127.0.0.1:0", "--server", f"127.0.0.1:{server.port}", file],
                             stdout=subprocess.PIPE)
    # Clients see the capture, and nothing of the server.
    server.port = server.plain = int(capture.stdout.readline().rsplit(b":", 1)[1])
    proxy = Proxy(server.port).start()
    try:
        log = folder / "script.log"
        code = script.execute(command, script.environment(name, server, proxy), log, outcome)
        script.judge(code, log, outcome)
        capture.send_signal(signal.SIGINT)
        if code := capture.wait(servers.STOP_LIMIT):
            outcome.failures.append(f"the capture ended with code {code}")
    finally:
        proxy.stop()
        children.end(capture)
        server.stop()
    replay(zoolet, file, folder, outcome)
    outcome.seconds = time.monotonic() - started
    return outcome


def replay(zoolet, file, folder, outcome):
    # The replay deletes containers itself, where the captured server did.
    command = servers.zoolet(zoolet, settings={"znode.container.checkIntervalMs": "36000000"})
    server = servers.Server("zoolet", command, folder / "replay")
    auth = [argument for credentials in CREDENTIALS for argument in ("--auth", credentials)]
    try:
        done = subprocess.run([zoolet, "replay", file, "--server", f"127.0.0.1:{server.port}", "--diff", *auth],
                              capture_output=True, text=True, timeout=REPLAY_LIMIT)
        (folder / "replay.log").write_text(done.stdout + done.stderr)
        if done.returncode:
            outcome.failures.append(f"replay: {(done.stdout + done.stderr).splitlines()[-1]}, see {folder / 'replay.log'}")
        else:
            outcome.passed += 1
    except subprocess.TimeoutExpired:
        outcome.failures.append(f"the replay takes longer than {REPLAY_LIMIT} s")
    finally:
        server.stop()


if __name__ == "__main__":
    sys.exit(main())

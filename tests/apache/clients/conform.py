#!/usr/bin/env python3
"""Has `zoolet conform --client` judge the clients of other languages, and our own.

  tests/apache/run client-conformance                         all clients
  tests/apache/run client-conformance --only kazoo,go         some of them
  tests/apache/run client-conformance --zoolet PATH           with this binary instead of building it

Each folder has a program `conform` that does the same with its client: it connects to the list in ZOOKEEPER, gives credentials,
creates znodes, sets watches of every kind that the client has, takes a lock or what a lock consists of, and then writes in a loop for
ZOOKEEPER_SECONDS, trying again whatever fails, with a new session if the old one has expired. In the scenario `many-watches` it sets
1300 watches with paths of 900 bytes, in `large-replies` and `empty-replies` it reads what is below ZOOKEEPER_PATH, and in `idle` it
does nothing for a while first.

What each client does wrong is known, see docs/clients.md. Exit code 1 if one makes a mistake that it is not known for, if a scenario
was not exercised, or if a program failed where its client is not known to make a mistake. A client whose toolchain is missing is
skipped, by name. The reports are in target/clients/logs/conform/.
"""

import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from harness import clients, servers, toolchain  # noqa: E402
from harness.toolchain import SCRIPTS, quietly  # noqa: E402

# More would disturb each other: it is judged whether pings come in time.
JOBS = 3

# What each client is known for, on any server.
KNOWN = {
    "kazoo": {"watches-not-restored"},
    "c": {"oversized"},
    "go": {"xid-backwards"},
    "node": {"oversized", "auth-not-restored"},
    "rust": {"handshake-first", "watches-not-restored", "oversized"},
}


def zoolet_client():
    quietly(["cargo", "build", "--locked", "--package", "zoolet-client", "--example", "conform_client"],
            cwd=toolchain.REPOSITORY)
    return [toolchain.TARGET.parent / "debug" / "examples" / "conform_client"]


CLIENTS = {
    "zoolet": zoolet_client,
    "java": lambda: [*clients.java()[:-1], "Conform"],
    "curator": lambda: [*clients.curator()[:-1], "Conform"],
    "kazoo": lambda: [clients.kazoo()[0], SCRIPTS / "kazoo" / "conform.py"],
    "c": lambda: [*clients.c(), "conform"],
    "go": lambda: [*clients.go(), "conform"],
    "node": lambda: [*clients.node()[:-1], SCRIPTS / "node" / "conform.js"],
    "rust": lambda: [*clients.rust(), "conform"],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(CLIENTS), metavar=",".join(CLIENTS))
    parser.add_argument("--zoolet", metavar="PATH", help="the binary that judges")
    args = parser.parse_args()
    if unknown := set(args.only.split(",")) - set(CLIENTS):
        parser.error(f"{', '.join(sorted(unknown))}: not one of {', '.join(CLIENTS)}")

    binary = servers.binary(args.zoolet)
    folder = toolchain.TARGET / "logs" / "conform"
    folder.mkdir(parents=True, exist_ok=True)
    commands, skipped, failures = toolchain.prepare({name: CLIENTS[name] for name in args.only.split(",")})
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        runs = {name: pool.submit(judge, binary, command, folder / f"{name}.json") for name, command in commands.items()}
        for name, run in runs.items():
            verdicts = run.result()
            print(row(name, verdicts), flush=True)
            failures += unexpected(name, verdicts)
    for text in failures:
        print(f"not ok {text}")
    print(f"\n{len(commands)} judged, {len(failures)} unexpected, {skipped} skipped")
    return 1 if failures else 0


def judge(binary, command, log):
    """The verdict of each scenario."""
    done = subprocess.run([str(binary), "conform", "--client", "--json", "--", *map(str, command)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    log.write_text(done.stdout + done.stderr)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"exit code {done.returncode}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def row(name, verdicts):
    """A line of the table: how many scenarios passed, and the mistakes with the scenarios that show them."""
    passed = sum(verdict["outcome"] == "passed" for verdict in verdicts)
    mistakes = {}
    for verdict in verdicts:
        for mistake in verdict["mistakes"]:
            mistakes.setdefault(mistake["rule"], []).append(verdict["scenario"])
    shown = "; ".join(f"{rule} ({', '.join(scenarios)})" for rule, scenarios in mistakes.items()) or "no mistake"
    return f"| {name} | {passed} of {len(verdicts)} | {shown} |"


def unexpected(name, verdicts):
    """What the client is not known for."""
    known = KNOWN.get(name, set())
    for verdict in verdicts:
        where = f"{name}: {verdict['scenario']}"
        rules = {mistake["rule"] for mistake in verdict["mistakes"]}
        yield from (f"{where}: {rule}" for rule in sorted(rules - known))
        if "not_exercised" in verdict:
            yield f"{where} was not exercised: {verdict['not_exercised']}"
        if "failure" in verdict and not rules & known:
            yield f"{where}: {verdict['failure']}: {' / '.join(verdict['stderr'])}"


if __name__ == "__main__":
    sys.exit(main())

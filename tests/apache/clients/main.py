#!/usr/bin/env python3
"""Runs the scripts of all ZooKeeper clients against our release binary, in memory and durable, and against Apache ZooKeeper.

  tests/apache/run clients                          all clients on all servers
  tests/apache/run clients --server apache          on one server
  tests/apache/run clients --only kazoo,go          some of the clients
  tests/apache/run clients --over tls,sasl          over TLS, and with SASL; `all` for all ways, which stand in harness/modes.py
  tests/apache/run clients --zoolet PATH            with this binary instead of building it

Installs what it needs into target/clients/. A client or server whose toolchain is missing is skipped, by name.
Exit code 1 if a check failed. Logs are in target/clients/logs/.
"""

import argparse
import dataclasses
import functools
import pathlib
import signal
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from harness import report, script, toolchain  # noqa: E402
from harness.clients import CLIENTS, SECURE  # noqa: E402
from harness.modes import MODES, PLAIN  # noqa: E402
from harness.servers import SERVERS, servers  # noqa: E402

say_lock = threading.Lock()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=names(SERVERS), default=SERVERS, metavar=",".join(SERVERS))
    parser.add_argument("--only", type=names(CLIENTS), default=list(CLIENTS), metavar=",".join(CLIENTS))
    parser.add_argument("--zoolet", metavar="PATH", help="the binary to test")
    parser.add_argument("--over", type=lambda text: list(MODES) if text == "all" else names(MODES)(text), default=[PLAIN.name],
                        metavar=",".join(MODES))
    args = parser.parse_args()

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what runs is ended, too
    prepare_server = servers(args.zoolet)
    running = {name: prepare(name, prepare_server[name]) for name in args.server}
    modes = [MODES[name] for name in args.over]
    clients = {(name, mode): ready(name, mode) for mode in modes for name in args.only}
    outcomes = {client: {} for client in args.only}
    # The servers' runs are side by side, each in an order of its own; most of a script's time is waiting.
    threads = [threading.Thread(target=run_all, args=(name, server, clients, outcomes), daemon=True)
               for name, server in running.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for client, row in outcomes.items():
        if wrong := differing(row):
            print(f"not ok {client}: {wrong}")
            next(iter(row.values())).failures.append(wrong)
    failed, last_line = report.totals(outcomes)
    print(f"\n{report.table(outcomes, [column(name, mode) for mode in modes for name in running])}\n")
    print(last_line)
    return 1 if failed else 0


def column(server_name, mode):
    return server_name if mode is PLAIN else f"{server_name} {mode.name}"


def differing(row):
    """What one run of a script checked and another did not, if they all succeeded: each has to check the same everywhere."""
    done = {name: set(cell.checks) for name, cell in row.items() if not cell.skipped and not cell.failures}
    everything = set().union(*done.values())
    return "; ".join(f"{name} does not check {', '.join(sorted(everything - checks))}" for name, checks in done.items()
                     if checks != everything)



def names(known):
    """An argument that is a comma-separated choice of `known`."""
    def parse(text):
        chosen = text.split(",")
        if unknown := set(chosen) - set(known):
            raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: not one of {', '.join(known)}")
        return chosen
    return parse


def ready(name, mode):
    if reason := mode.cannot(name):
        return report.Outcome(skipped=reason)
    return prepare(name, (CLIENTS if mode is PLAIN else SECURE)[name])


@functools.cache
def prepare(name, build):
    """A command (or the function that makes one), or the outcome in its place."""
    say(f"preparing {name}")
    try:
        return build()
    except toolchain.Missing as tool:
        return report.Outcome(skipped=f"{tool} is missing")
    except toolchain.Broken as error:
        say(f"not ok {name}: {error}")
        return report.Outcome(failures=[f"{name} could not be built"])


def run_all(server_name, server, clients, outcomes):
    for (name, mode), client in clients.items():
        refusal = next((part for part in (client, server) if isinstance(part, report.Outcome)), None)
        where = column(server_name, mode)
        if refusal is None:
            folder = toolchain.TARGET / "logs" / f"{where.replace(' ', '-')}-{name}"
            outcome = script.run(name, client, server_name, server, folder, mode)
        else:
            outcome = dataclasses.replace(refusal)
        outcomes[name][where] = outcome
        say("\n".join([f"[{where}] {name}: {outcome}"] + [f"    not ok {text}" for text in outcome.failures]))


def say(text):
    with say_lock:
        print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())

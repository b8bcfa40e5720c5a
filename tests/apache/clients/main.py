#!/usr/bin/env python3
"""Runs the scripts of all ZooKeeper clients against our release binary, in memory and durable, and against Apache ZooKeeper.

  tests/apache/run clients                          all clients on all servers
  tests/apache/run clients --server apache          on one server
  tests/apache/run clients --only kazoo,go          some of the clients
  tests/apache/run clients --zoolet PATH            with this binary instead of building it

Installs what it needs into target/clients/. A client or server whose toolchain is missing is skipped, by name.
Exit code 1 if a check failed. Logs are in target/clients/logs/.
"""

import argparse
import pathlib
import signal
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from harness import report, script, toolchain  # noqa: E402
from harness.clients import CLIENTS  # noqa: E402
from harness.servers import SERVERS, servers  # noqa: E402

say_lock = threading.Lock()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=names(SERVERS), default=SERVERS, metavar=",".join(SERVERS))
    parser.add_argument("--only", type=names(CLIENTS), default=list(CLIENTS), metavar=",".join(CLIENTS))
    parser.add_argument("--zoolet", metavar="PATH", help="the binary to test")
    args = parser.parse_args()

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what runs is ended, too
    prepare_server = servers(args.zoolet)
    running = {name: prepare(name, prepare_server[name]) for name in args.server}
    clients = {name: prepare(name, CLIENTS[name]) for name in args.only}
    outcomes = {client: {} for client in clients}
    # The servers' runs are side by side, each in an order of its own; most of a script's time is waiting.
    threads = [threading.Thread(target=run_all, args=(name, server, clients, outcomes), daemon=True)
               for name, server in running.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    failed, last_line = report.totals(outcomes)
    print(f"\n{report.table(outcomes, list(running))}\n")
    print(last_line)
    return 1 if failed else 0


def names(known):
    """An argument that is a comma-separated choice of `known`."""
    def parse(text):
        chosen = text.split(",")
        if unknown := set(chosen) - set(known):
            raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: not one of {', '.join(known)}")
        return chosen
    return parse


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
    for name, client in clients.items():
        refusal = next((part for part in (client, server) if isinstance(part, report.Outcome)), None)
        if refusal is None:
            folder = toolchain.TARGET / "logs" / f"{server_name}-{name}"
            outcome = script.run(name, client, server_name, server, folder)
        else:
            outcome = refusal
        outcomes[name][server_name] = outcome
        say("\n".join([f"[{server_name}] {name}: {outcome}"] + [f"    not ok {text}" for text in outcome.failures]))


def say(text):
    with say_lock:
        print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())

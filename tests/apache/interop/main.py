#!/usr/bin/env python3
"""Has our locks and those of other clients contend with each other, on our release binary and on Apache ZooKeeper.

  tests/apache/run interop                          on both servers
  tests/apache/run interop --server apache          on one server
  tests/apache/run interop --zoolet PATH            with this binary instead of building it

Installs what it needs into target/clients/, as tests/apache/run clients does. A client or server whose toolchain is missing is
skipped, by name. Prints which locks exclude each other in Markdown. Exit code 1 if a check failed. Logs are in target/clients/logs/.
"""

import argparse
import functools
import pathlib
import signal
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from driver import checks, matrix, services  # noqa: E402
from driver.kinds import TABLES  # noqa: E402
from driver.programs import PROGRAMS, SERVICES, Program, Unexpected  # noqa: E402
from driver.scene import Stage  # noqa: E402
from harness import toolchain  # noqa: E402
from harness.servers import SERVERS, Server, servers  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", choices=SERVERS, help="the only server")
    parser.add_argument("--zoolet", metavar="PATH", help="the binary to test")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what runs is ended, too

    skipped, failures = [], []
    prepare_server = servers(args.zoolet)
    running = prepare({name: prepare_server[name] for name in ([args.server] if args.server else SERVERS)},
                      skipped, failures)
    programs = prepare(PROGRAMS, skipped, failures)
    serving = prepare(SERVICES, skipped, failures)
    reports = {}
    if "zoolet" in programs:
        threads = [threading.Thread(target=run, args=(name, server, programs, serving, reports, failures), daemon=True)
                   for name, server in running.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    passed = sum(report.passed for report in reports.values())
    for table in TABLES if reports else []:
        print(f"\n### {table.title}\n\n{matrix.markdown(table, reports)}")
    for server, report in reports.items():
        failures += [f"[{server}] {text}" for text in report.failures]
        for text in report.notes:
            print(f"\n[{server}] {text}", end="")
    print()
    for text in failures:
        print(f"not ok {text}")
    print(f"\n{passed} passed, {len(failures)} failed, {len(skipped)} skipped")
    return 1 if failures else 0


def prepare(builders, skipped, failures):
    """The commands of what could be built."""
    commands = {}
    for name, build in builders.items():
        try:
            commands[name] = build()
        except toolchain.Missing as tool:
            skipped.append(name)
            print(f"{name}: skipped: {tool} is missing", flush=True)
        except toolchain.Broken as error:
            failures.append(f"{name} could not be built: {error}")
    return commands


def without_syncs(command, folder, port, more):
    return [*command(folder, port, more), "-Dzookeeper.forceSync=no"]


def run(server_name, server_command, commands, serving, reports, failures):
    """Everything on one server."""
    started = time.monotonic()
    folder = toolchain.TARGET / "logs" / f"{server_name}-interop"
    if server_name == "apache":  # not the disk is tried here
        server_command = functools.partial(without_syncs, server_command)
    try:
        server = Server(server_name, server_command, folder)
    except RuntimeError as error:
        failures.append(f"server: {error}")
        return
    hosts = f"127.0.0.1:{server.port}"
    programs = {name: Program(name, command, hosts, folder / f"{name}.log") for name, command in commands.items()}
    try:
        report = reports[server_name] = checks.run(Stage(server.port, programs), server_name)
        services.run(report, server.port, serving, folder)
        print(f"[{server_name}] done in {time.monotonic() - started:.0f} s", flush=True)
    except Unexpected as error:
        failures.append(f"[{server_name}] {error}; logs are in {folder}")
    finally:
        for program in programs.values():
            program.end()
        if wrong := server.stop():
            failures.append(f"[{server_name}] server: {wrong}")


if __name__ == "__main__":
    sys.exit(main())

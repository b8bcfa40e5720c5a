#!/usr/bin/env python3
"""Looks at a server's TLS, certificates and SASL from outside: the same checks on Apache ZooKeeper 3.9.5 and on ours.

  tests/apache/run secure                     all checks on both
  tests/apache/run secure --server apache     on one
  tests/apache/run secure --only sasl,unified some groups of checks
  tests/apache/run secure --zoolet PATH       with this binary instead of building it

Each check expects what Apache ZooKeeper does. Ours may differ only by a row of docs/deviations.md that the check names.
Exit code 1 if a check failed. Logs are in target/clients/logs/secure-SERVER-GROUP/.
"""

import argparse
import pathlib
import signal
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from harness import certificates, toolchain  # noqa: E402
from harness.servers import Server, servers  # noqa: E402

import names  # noqa: E402
import sasl  # noqa: E402
import handshakes  # noqa: E402

GROUPS = [*sasl.GROUPS, *handshakes.GROUPS, *names.GROUPS]
DEVIATIONS = toolchain.REPOSITORY / "docs" / "deviations.md"
say_lock = threading.Lock()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", choices=["apache", "zoolet"])
    parser.add_argument("--only", help=",".join(group.name for group in GROUPS))
    parser.add_argument("--zoolet", metavar="PATH", help="the binary to test")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    groups = [group for group in GROUPS if not args.only or group.name in args.only.split(",")]
    if not groups:
        parser.error(f"--only {args.only}: no such group")

    try:
        certificates.folder()
        wanted = [args.server] if args.server else ["apache", "zoolet"]
        known = servers(args.zoolet)
        commands = {name: known[name]() for name in wanted}
    except toolchain.Missing as tool:
        print(f"skipped: {tool} is missing")
        return 0
    failures = [f"docs/deviations.md has no row {title!r}" for title in missing_rows()]
    counts = {}
    threads = [threading.Thread(target=run_all, args=(name, command, groups, counts, failures), daemon=True)
               for name, command in commands.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for failure in failures:
        print(f"not ok {failure}")
    print(f"\n{', '.join(f'{counts[name]} checks on {name}' for name in wanted)}; {len(failures)} failed")
    return 1 if failures else 0


def missing_rows():
    """The deviations that a check names and the page does not."""
    rows = [line.split("|")[1].strip() for line in DEVIATIONS.read_text().splitlines() if line.startswith("| ")]
    named = {check.deviation for group in GROUPS for check in group.checks if check.deviation}
    return sorted(title for title in named if not any(row.startswith(title) for row in rows))


def run_all(name, command, groups, counts, failures):
    counts[name] = 0
    for group in groups:
        folder = toolchain.TARGET / "logs" / f"secure-{name}-{group.name.replace(' ', '-')}"
        try:
            server = Server(name, command, folder, mode=group)
        except RuntimeError as error:
            failures.append(f"[{name}] {group.name}: {error}")
            continue
        lines = group.run(server, name == "zoolet")
        if wrong := server.stop():
            lines.append((False, wrong))
        server.forget()
        wrong = [f"[{name}] {group.name}: {line}" for good, line in lines if not good]
        counts[name] += len(lines)
        failures.extend(wrong)
        say("\n".join([f"[{name}] {group.name}: {len(lines) - len(wrong)} as expected, {len(wrong)} not"] + [f"    {line}" for line in wrong]))


def say(text):
    with say_lock:
        print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())

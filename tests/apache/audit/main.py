#!/usr/bin/env python3
"""The audit log of `zoolet serve --audit` beside that of Apache ZooKeeper with `audit.enable=true`, after the same requests.

  tests/apache/run audit                  on both servers
  tests/apache/run audit --zoolet PATH    with this binary instead of building it

The lines must be equal, but for what the rows "audit" of docs/deviations.md name. Exit code 1 if they are not. The logs are in
target/clients/logs/audit/.
"""

import argparse
import difflib
import getpass
import os
import pathlib
import re
import sys

os.environ.setdefault("USER", getpass.getuser())
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import operations  # noqa: E402
from harness import servers, toolchain  # noqa: E402

LINE = re.compile(r"(INFO|ERROR) (?:org\.apache\.zookeeper\.audit\.Slf4jAuditLogger -|audit:) (.*)")
LOGGED = "org.slf4j.simpleLogger.log.org.apache.zookeeper.audit.Slf4jAuditLogger=info"


def lines(log):
    """What a log has of the audit, in the form in which the two are equal."""
    sessions, found = [], []
    for match in LINE.finditer(log):
        fields = dict(field.split("=", 1) for field in match[2].split("\t"))
        if session := fields.get("session"):
            sessions += [] if session in sessions else [session]
            fields["session"] = f"#{sessions.index(session)}"
        # The order of the users is that of a hash set.
        fields["user"] = ",".join(sorted(fields["user"].split(",")))
        # The hash of a password.
        fields["acl"] = re.sub(r"(digest:[^:]*):[^:]*:", r"\1:x:", fields.get("acl", ""))
        found.append((match[1], fields))
    return found


def text(line):
    level, fields = line
    return f"{level} " + " ".join(f"{name}={value}" for name, value in fields.items() if value)


def comparable(apache, ours):
    """Without what only one of them has for a reason: see docs/deviations.md."""
    # A mode that does not exist: Apache fails to write the line.
    ours = [line for line in ours if line[1].get("znode") != "/a/flags"]
    kept = []
    for found in apache, ours:
        # The mode of a sequential znode or one with a TTL in a multi, and that of a request that does not decode.
        for level, fields in found:
            kind = fields.get("znode_type", "")
            if fields["operation"] == "create" and ("znode" not in fields or fields["znode"] in ("/m/seq0000000000", "/m/ttl")):
                fields.pop("znode_type", kind)
        # The order of the ephemerals of a session is that of a hash set.
        kept.append(sorted_runs([text(line) for line in found]))
    return kept


def sorted_runs(found):
    done = []
    for line in found:
        at = len(done)
        while "ephemeralZNodeDeletion" in line and at > 0 and "ephemeralZNodeDeletion" in done[at - 1] > line \
                and done[at - 1].split()[1] == line.split()[1]:
            at -= 1
        done.insert(at, line)
    return done


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zoolet", type=pathlib.Path)
    args = parser.parse_args()
    zoolet, apache = servers.zoolet(args.zoolet, settings={"audit.enable": "true"}), servers.apache()
    commands = {
        "apache": lambda folder, port, more: [*apache(folder, port, more), "-Dzookeeper.audit.enable=true", f"-D{LOGGED}"],
        "zoolet": zoolet,
    }
    codes, logs = {}, {}
    for name, command in commands.items():
        server = servers.Server(name, command, toolchain.TARGET / "logs" / "audit" / name)
        try:
            codes[name] = operations.run(server.port)
        finally:
            wrong = server.stop()
        if wrong:
            sys.exit(f"{name} {wrong}")
        logs[name] = lines(server.log.read_text())
    failures = [] if codes["apache"] == codes["zoolet"] else [f"error codes differ:\n{codes}"]
    theirs, ours = comparable(logs["apache"], logs["zoolet"])
    failures += difflib.unified_diff(theirs, ours, "apache", "zoolet", lineterm="", n=1)
    print("\n".join(failures) or f"{len(ours)} audit lines are equal, of {len(codes['zoolet'])} requests")
    sys.exit(1 if failures or len(ours) < 50 else 0)


if __name__ == "__main__":
    try:
        main()
    except toolchain.Missing as tool:
        print(f"skipped: {tool} is missing")

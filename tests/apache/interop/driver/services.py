"""Service discovery and groups: what others register is found by us, and the other way round, in the same bytes.

The programs obey lines, and answer each by one, or by `error NAME WHY`:

  register NAME BASE MODE SHAPE   `registered NAME`, when the instance NAME of the service `web` is there; SHAPE is known to both
  query NAME BASE                 `found NAME ID=URI=ENABLED=HAS_PAYLOAD..`, sorted; without a rule the URI is empty, as Curator has it
  provide NAME BASE               `chosen NAME ID`
  join NAME DIR [KIND]            `joined NAME`
  members NAME DIR [KIND]         `found NAME ID..`, sorted
  leave NAME                      `left NAME`

Those of ServerSets are in server_sets.py. Ours also knows `data`, `children`, `czxid`, `create` and `delete`, for the driver's own use.
"""

import socket
import time

from harness.proxy import Proxy

from . import server_sets
from .programs import LIMIT, SERVICES, Program, Unexpected

MODES = {"compatible": ("bare", "text", "full"), "enabled": ("bare", "text", "full", "disabled")}
CUT_TIMES = 5


def run(report, port, commands, folder):
    """All checks whose programs could be built, each program at a proxy of its own."""
    proxies, programs = {}, {}
    try:
        for name in SERVICES:
            if name in commands:
                proxies[name] = Proxy(port).start()
                hosts = f"127.0.0.1:{proxies[name].port}"
                programs[name] = Program(name, commands[name], hosts, folder / f"{name}.log")
        if "our-services" in programs:
            checks(report, Parties(programs, proxies))
    finally:
        for program in programs.values():
            program.end()
        for proxy in proxies.values():
            proxy.stop()


def checks(report, parties):
    if parties.has("curator-services"):
        for mode, shapes in MODES.items():
            for shape in shapes:
                report.check(f"discovery: the bytes of Curator, {mode}, {shape}", same_bytes, parties, mode, shape)
        for one, other in (("our-services", "curator-services"), ("curator-services", "our-services")):
            report.check(f"discovery: {other} finds what {one} registers", found, parties, one, other)
        report.check("discovery: Curator's instance that cannot be decoded harms nobody", undecodable, parties)
        report.check("discovery: a cut connection does not make ours flap", no_flap, parties, "our-services")
        if not no_flap(parties, "curator-services"):
            report.notes.append("discovery: Curator's registration did not flap, which was known")
        report.check("groups: GroupMember", members, parties, "curator-services", "named")
    if parties.has("finagle-server-sets"):
        server_sets.checks(report, parties)
    if parties.has("kazoo-parties"):
        report.check("groups: Party", members, parties, "kazoo-parties", "party")
        report.check("groups: ShallowParty", members, parties, "kazoo-parties", "shallow")


class Parties:
    """The programs, with a new directory for each check."""

    def __init__(self, programs, proxies):
        self._programs = programs
        self._proxies = proxies
        self._count = 0

    def has(self, name):
        return name in self._programs

    def base(self):
        self._count += 1
        return f"/interop-services/{self._count}"

    def ask(self, program, expected, verb, name, *args):
        """One line; returns the rest of the answer that is expected."""
        program = self._programs[program]
        program.send(" ".join([verb, name, *args]))
        got = program.answers(name).get(timeout=LIMIT)
        if got[0] != expected:
            raise Unexpected(f"{program.name}: `{' '.join(got)}` instead of `{expected}`")
        return got[1]

    def ours(self, expected, verb, *args):
        return self.ask("our-services", expected, verb, "driver", *args)

    def until(self, wanted, *question):
        """Asks until the answer is this, as others see changes a little later; returns the last answer."""
        deadline = time.monotonic() + LIMIT
        while (got := self.ask(*question)) != wanted and time.monotonic() < deadline:
            time.sleep(0.05)
        return got

    def cut(self, program):
        with socket.create_connection(("127.0.0.1", self._proxies[program].control_port), timeout=5) as control:
            control.sendall(b"cut\n")
            if not control.recv(100).startswith(b"ok"):
                raise Unexpected("the connection was not cut")


def same_bytes(parties, mode, shape):
    data = []
    for program in ("curator-services", "our-services"):
        base = parties.base()
        parties.ask(program, "registered", "register", "x", base, mode, shape)
        data.append(parties.ours("data", "data", f"{base}/web/x"))
        parties.ask(program, "left", "leave", "x")
        if parties.ours("czxid", "czxid", f"{base}/web/x") != "0":
            return f"{program}: the znode is still there"
    if data[0] != data[1]:
        return f"{data[1]} instead of {data[0]}"


def found(parties, one, other):
    base = parties.base()
    for name, mode, shape in (("a", "enabled", "full"), ("b", "enabled", "disabled"), ("c", "compatible", "text")):
        parties.ask(one, "registered", "register", name, base, mode, shape)
    wanted = "a=https://10.0.0.1:443/=true=true b==false=false c==true=true"
    for program in (one, other):
        got = parties.until(wanted, program, "found", "query", "driver", base)
        if got != wanted:
            return f"{program}: {got} instead of {wanted}"
    if (chosen := parties.ask(other, "chosen", "provide", "driver", base)) not in ("a", "c"):
        return f"chosen: {chosen}"
    for name in "ac":
        parties.ask(one, "left", "leave", name)
    if (chosen := parties.until("none", other, "chosen", "provide", "driver", base)) != "none":
        return f"chosen: {chosen}, of which all that are enabled have left"
    parties.ask(one, "left", "leave", "b")


def undecodable(parties):
    base = parties.base()
    parties.ask("curator-services", "registered", "register", "a", base, "compatible", "text")
    unknown = '{"name":"web","id":"b","address":"h","port":1,"payload":{"@class":"not.Here"},"registrationTimeUTC":1}'
    for name, data in (("b", unknown), ("broken", "{"), ("empty", "")):
        parties.ours("created", "create", f"{base}/web/{name}", data)
    wanted = "a==true=true b==true=true"
    if (got := parties.ask("our-services", "found", "query", "driver", base)) != wanted:
        return f"{got} instead of {wanted}"
    for name in ("b", "broken", "empty"):
        parties.ours("deleted", "delete", f"{base}/web/{name}")
    parties.ask("curator-services", "left", "leave", "a")


def no_flap(parties, program):
    base = parties.base()
    parties.ask(program, "registered", "register", "x", base, "compatible", "full")
    path = f"{base}/web/x"
    before = parties.ours("czxid", "czxid", path)
    seen = set()
    for _ in range(CUT_TIMES):
        parties.cut(program)
        parties.ask(program, "found", "query", "driver", base)  # on the next connection
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            seen.add(parties.ours("czxid", "czxid", path))
            time.sleep(0.02)
    parties.ask(program, "left", "leave", "x")
    if seen != {before}:
        return f"the znode had the czxids {sorted(seen)} after {before}"


def members(parties, other, kind):
    directory = parties.base()
    kinds = [] if kind == "named" else [kind]
    parties.ask("our-services", "joined", "join", "ours", directory, kind)
    parties.ask(other, "joined", "join", "theirs", directory, *kinds)
    for program, name, more in ((other, "theirs", kinds), ("our-services", "driver", [kind])):
        got = parties.until("ours theirs", program, "found", "members", name, directory, *more)
        if got != "ours theirs":
            return f"{program}: {got}"
    parties.ask("our-services", "left", "leave", "ours")
    if (got := parties.until("theirs", other, "found", "members", "theirs", directory, *kinds)) != "theirs":
        return f"{other}: {got}, after ours has left"
    parties.ask(other, "left", "leave", "theirs")
    if (got := parties.until("", "our-services", "found", "members", "driver", directory, kind)) != "":
        return f"ours: {got}, after all have left"

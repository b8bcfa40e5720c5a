"""ServerSets: what finagle joins is found by us, and what we register by finagle and by the resolver of its clients.

Besides `register` and `leave` of services.py, with mode `serverset`, the programs obey

  servers NAME BASE   `found NAME HOST:PORT[,NAME=HOST:PORT..],STATUS,SHARD..`, sorted; without a shard it is `-`
  resolve NAME BASE   `found NAME HOST:PORT..`, sorted; finagle only
"""

FINAGLE, OURS = "finagle-server-sets", "our-services"
# What each shape is to a reader.
SHAPES = {"plain": "10.0.0.1:80,ALIVE,-", "shard": "10.0.0.2:80,admin=10.0.0.2:81,ALIVE,3"}


def checks(report, parties):
    for shape in SHAPES:
        report.check(f"server sets: the bytes of finagle, {shape}", same_bytes, parties, shape)
    for one, other in ((OURS, FINAGLE), (FINAGLE, OURS)):
        report.check(f"server sets: {other} finds what {one} registers, also after a cut", found, parties, one, other)
    report.check("server sets: members of finagle and of ours beside each other", mixed, parties)


def register(parties, program, base, shape):
    parties.ask(program, "registered", "register", shape, base, "serverset", shape)


def servers(parties, program, wanted, base):
    """What is wrong with the members that the program finds."""
    if (got := parties.until(wanted, program, "found", "servers", "driver", base)) != wanted:
        return f"{program}: {got} instead of {wanted}"


def same_bytes(parties, shape):
    data = []
    for program in (FINAGLE, OURS):
        base = parties.base()
        register(parties, program, base, shape)
        member = parties.ours("children", "children", f"{base}/web")
        data.append(parties.ours("data", "data", f"{base}/web/{member}"))
        parties.ask(program, "left", "leave", shape)
        if left := parties.ours("children", "children", f"{base}/web"):
            return f"{program}: {left} is still there"
    if data[0] != data[1]:
        return f"{data[1]} instead of {data[0]}"


def found(parties, one, other):
    base = parties.base()
    for shape in SHAPES:
        register(parties, one, base, shape)
    both = " ".join(SHAPES.values())
    for program in (one, other):
        parties.cut(program)
        if wrong := servers(parties, program, both, base):
            return wrong
    if (got := parties.ask(FINAGLE, "found", "resolve", "driver", base)) != "10.0.0.1:80 10.0.0.2:80":
        return f"resolved: {got}"
    parties.ask(one, "left", "leave", "plain")
    if wrong := servers(parties, other, SHAPES["shard"], base):
        return wrong
    parties.ask(one, "left", "leave", "shard")


def mixed(parties):
    base = parties.base()
    register(parties, FINAGLE, base, "plain")
    register(parties, OURS, base, "shard")
    both = " ".join(SHAPES.values())
    for program in (FINAGLE, OURS):
        if wrong := servers(parties, program, both, base):
            return wrong
    if (got := parties.ask(FINAGLE, "found", "resolve", "driver", base)) != "10.0.0.1:80 10.0.0.2:80":
        return f"resolved: {got}"
    parties.ask(FINAGLE, "left", "leave", "plain")
    parties.ask(OURS, "left", "leave", "shard")

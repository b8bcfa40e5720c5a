"""What is checked on one server, and what came of it."""

import dataclasses

from . import contention, turns
from .kinds import COMPANIES, PERMITS, READERS_AND_WRITERS, REVOCABLE, TABLES
from .programs import Unexpected
from .scene import GRANT_LIMIT


@dataclasses.dataclass
class Report:
    """`cells[title][holder, newcomer]` is what was seen; failures, which are also printed at once, and notes are texts."""
    server: str
    passed: int = 0
    failures: list = dataclasses.field(default_factory=list)
    notes: list = dataclasses.field(default_factory=list)
    cells: dict = dataclasses.field(default_factory=dict)

    def check(self, what, block, *args):
        """One check: the block returns what is wrong, if anything."""
        try:
            wrong = block(*args)
        except Unexpected as error:
            wrong = str(error)
        if wrong:
            self.fail(f"{what}: {wrong}")
        else:
            self.passed += 1

    def fail(self, text):
        self.failures.append(text)
        print(f"[{self.server}] not ok {text}", flush=True)


def run(stage, server):
    report = Report(server)
    for table in TABLES:
        pairs(stage, table, report)
    for title, company in COMPANIES:
        kinds = [kind for kind in company if stage.has(kind)]
        who = f"{title}: {', '.join(kind.label for kind in kinds)}"
        if not any(kind.reader for kind in kinds):
            report.check(f"{who} in the order in which they came", turns.in_order, stage, kinds)
            for queue in turns.around(kinds):
                report.check(f"{title}: {', '.join(kind.label for kind in queue)}, whose second gives up",
                             turns.one_gives_up, stage, queue)
        report.check(f"{who} at once", contention.contend, stage, who, kinds, report.notes)
    for clients in READERS_AND_WRITERS:
        if all(stage.has(kind) for client in clients for kind in client):
            for queue in turns.mixed(clients):
                report.check(f"{', '.join(kind.label for kind in queue)} in turn", turns.reader_writer_reader, stage, queue)
    if all(stage.has(kind) for kind in PERMITS):
        for queue in turns.mixed([(kind, kind) for kind in PERMITS]):
            who = ", ".join(kind.label for kind in queue)
            report.check(f"two permits, asked for by {who}", turns.third_permit, stage, queue)
    if all(stage.has(kind) for kind in REVOCABLE):
        for holder, other in (REVOCABLE, REVOCABLE[::-1]):
            report.check(f"{holder.label} hears that {other.label} asks for the lock", turns.asked_to_give_up, stage,
                         (holder, other))
    return report


def pairs(stage, table, report):
    """Every kind that holds with every kind that comes meanwhile."""
    cells = report.cells[table.title] = {}
    kinds = [kind for kind in table.kinds if stage.has(kind)]
    for holder in kinds:
        for newcomer in kinds:
            expected = table.expected[holder, newcomer]
            seen = cells[holder, newcomer] = outcome(stage, holder, newcomer, expected in ("shared", "BOTH"))
            what = f"{table.title}: {newcomer.label} comes while {holder.label} holds"
            if seen == expected:
                report.passed += 1
            elif expected == "?":
                pass
            elif holder.ours or newcomer.ours:
                report.fail(f"{what}: {seen}, not {expected}")
            else:
                report.notes.append(f"{what}: {seen}, and was known as {expected}")


def outcome(stage, holder, newcomer, together):
    try:
        with stage.scene() as scene:
            first, second = scene.arrive(holder, to_hold=True), scene.arrive(newcomer, to_hold=together)
            if first.state != "held":
                return f"the first {first.state}: {first.error}"
            if second.state == "failed":
                return "ERR"
            if second.state == "held":
                return "shared" if holder.reader and newcomer.reader else "BOTH"
            scene.leave(first)
            if not second.comes(GRANT_LIMIT):
                return f"STUCK {second.error}".rstrip()
            scene.leave(second)
        return "ok"
    except Unexpected as error:
        return str(error)

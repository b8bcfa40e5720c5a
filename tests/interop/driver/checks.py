"""The checks, and what came of them on one server."""

import dataclasses
import threading
import time

from .programs import Unexpected

GRANT_LIMIT = 15
CONTENDERS_OF_A_KIND = 2
ACQUISITIONS = 250
CONTENTION_LIMIT = 30


@dataclasses.dataclass
class Report:
    """`cells[title][holder, newcomer]` is what was seen; a failure is a text."""
    passed: int = 0
    failures: list = dataclasses.field(default_factory=list)
    notes: list = dataclasses.field(default_factory=list)
    skipped: list = dataclasses.field(default_factory=list)
    cells: dict = dataclasses.field(default_factory=dict)
    rates: list = dataclasses.field(default_factory=list)

    def check(self, what, block):
        try:
            wrong = block()
        except Unexpected as error:
            wrong = str(error)
        if wrong:
            self.failures.append(f"{what}: {wrong}")
        else:
            self.passed += 1


def pairs(stage, table, report):
    """Every kind that holds with every kind that comes meanwhile."""
    cells = report.cells[table.title] = {}
    kinds = [kind for kind in table.kinds if stage.has(kind)]
    for holder in kinds:
        for newcomer in kinds:
            seen = outcome(stage, holder, newcomer)
            expected = table.expected[holder, newcomer]
            cells[holder, newcomer] = seen
            what = f"{table.title}: {newcomer.label} comes while {holder.label} holds"
            if seen == expected:
                report.passed += 1
            elif holder.ours or newcomer.ours:
                report.failures.append(f"{what}: {seen}, not {expected}")
            else:
                report.notes.append(f"{what}: {seen}, and was known as {expected}")


def outcome(stage, holder, newcomer):
    try:
        with stage.scene() as scene:
            first, second = scene.arrive(holder), scene.arrive(newcomer)
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


def contention(stage, company, report):
    """All of them at once. Each holder adds one to a counter in two steps: any overlap loses some."""
    kinds = [kind for kind in company if stage.has(kind)]
    what = " and ".join(kind.label for kind in kinds) + " contend"
    if len(kinds) < 2:
        return
    with stage.scene() as scene:
        counter = f"{scene.dir}-counter"
        stage.create(scene.dir)
        stage.create(counter, "0")
        contenders = [stage.contender(kind, number) for kind in kinds for number in range(CONTENDERS_OF_A_KIND)]
        words = [kind.word for kind in kinds for _ in range(CONTENDERS_OF_A_KIND)]
        started = time.monotonic()
        for contender, word in zip(contenders, words):
            contender.tell("contend", scene.dir, word, counter, ACQUISITIONS)
        wrong = []
        for contender in contenders:
            try:
                contender.expect("contended", max(0, started + CONTENTION_LIMIT - time.monotonic()))
            except Unexpected as error:
                wrong.append(str(error))
                contender.close()
        seconds = time.monotonic() - started
        total = ACQUISITIONS * len(contenders)
        counted = int(stage.get(counter))
        if counted != total and not wrong:
            wrong.append(f"counted {counted}, not {total}: two held at a time")
        report.rates.append(f"{what}: {counted} acquisitions in {seconds:.1f} s")
        report.check(what, lambda: "; ".join(wrong))


def run(stage, tables, companies):
    report = Report()
    for table in tables:
        pairs(stage, table, report)
    for company in companies:
        contention(stage, company, report)
    return report

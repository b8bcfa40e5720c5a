"""Reports medians, ratios and goals."""

import statistics
from dataclasses import dataclass

from measure import Figures

CONTENDERS = 8
# The order of clients in the tables.
ORDER = ["zoolet", "zookeeper-client", "zookeeper-client-shared", "curator", "kazoo"]


@dataclass(frozen=True)
class Workload:
    name: str
    contenders: int
    release: str
    about: str


WORKLOADS = [
    Workload("alone", 1, "awaited", "acquire and release, nobody else there, release awaited"),
    Workload("alone-dropped", 1, "dropped", "the same, released by dropping the guard"),
    Workload("hand-off", CONTENDERS, "awaited", f"{CONTENDERS} contenders, release awaited"),
    Workload("hand-off-dropped", CONTENDERS, "dropped", "the same, released by dropping the guard"),
]


@dataclass(frozen=True)
class Goal:
    """A goal: the ratio of our lock's rate to that of another client on the same server, or to ours on another server."""

    workload: str
    times: float
    than: str
    server: str | None = None


GOALS = [
    *(Goal(workload, 1.4, "zookeeper-client") for workload in ("alone", "alone-dropped")),
    Goal("alone", 1.4, "zookeeper-client-shared"),
    Goal("alone", 1.4, "curator"),
    *(Goal(workload, 1.0, than) for workload in ("hand-off", "hand-off-dropped")
      for than in ("zookeeper-client", "zookeeper-client-shared")),
    Goal("hand-off", 1.0, "curator"),
    *(Goal(workload, 5.0, "kazoo") for workload in ("alone", "hand-off")),
    *(Goal(workload.name, 3.0, "zoolet", server="apache") for workload in WORKLOADS),
]


def print_report(spans, rounds, millis):
    """Prints tables of `spans`, which are lists of figures by (workload, client, server); returns the number of missed goals."""
    print(f"medians of {rounds} rounds of {millis} ms; CPU in us for each acquisition; "
          "`turns` are those of the contender with fewest and with most\n")
    print(f"{'workload':<17} {'server':<7} {'client':<24} {'per s':>8} {'spread':>15} {'p50 us':>8} {'p99 us':>8} "
          f"{'client CPU':>11} {'server CPU':>11} {'turns':>13}")
    shared = {workload.name: workload.contenders > 1 for workload in WORKLOADS}
    for (workload, client, server), all_of_it in sorted(spans.items(), key=place):
        f = Figures.median(all_of_it)
        rates = [span.rate for span in all_of_it]
        spread = f"{min(rates):.0f}-{max(rates):.0f}"
        turns = f"{f.fewest:.0f}-{f.most:.0f}" if shared[workload] else ""
        print(f"{workload:<17} {server:<7} {client:<24} {f.rate:>8.0f} {spread:>15} {f.p50:>8.1f} {f.p99:>8.1f} "
              f"{f.client_cpu:>11.1f} {f.server_cpu:>11.1f} {turns:>13}")
    print("\nThe ratio of our lock's rate to (median of the ratios of each round):\n")
    return sum(judge(goal, spans) for goal in GOALS)


def place(item):
    """Sorts by workload, then by server, ours first, then by client."""
    (workload, client, server), _ = item
    return [each.name for each in WORKLOADS].index(workload), server != "zoolet", ORDER.index(client)


def judge(goal, spans):
    """Prints the result of a goal on each server; returns how often it is missed."""
    missed = 0
    for server in ["zoolet"] if goal.server else ["zoolet", "apache"]:
        ours = spans.get((goal.workload, "zoolet", server))
        theirs = spans.get((goal.workload, goal.than, goal.server or server))
        if not ours or not theirs:
            continue
        ratio = statistics.median(our.rate / their.rate for our, their in zip(ours, theirs))
        met = ratio >= goal.times
        missed += not met
        than = f"its own on {goal.server}" if goal.server else f"{goal.than}'s"
        print(f"{goal.workload:<17} on {server:<7} {ratio:>7.2f} x {than:<27} (>= {goal.times}) "
              f"{'met' if met else 'MISSED'}")
    return missed

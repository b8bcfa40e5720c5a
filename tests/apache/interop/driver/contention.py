"""All of a company at once, judged by the server's tree."""

import collections
import time

from .programs import Unexpected

CONTENDERS_OF_A_KIND = 2
SECONDS = 3
STALL = 20  # no one of them takes so long, however busy the machine


def contend(stage, who, kinds, notes):
    """Each writer adds one to a counter in two steps, so that any overlap loses some; a reader checks that none does
    while it holds."""
    numbers = collections.Counter()
    acquisitions, writes, wrong = 0, 0, []
    with stage.scene() as scene:
        counter = f"{scene.dir}-counter"
        stage.create(scene.dir)
        stage.create(counter, "0")
        contenders = []
        for kind in [kind for kind in kinds for _ in range(CONTENDERS_OF_A_KIND)]:
            contenders.append((kind, stage.contender(kind, numbers[kind.program])))
            numbers[kind.program] += 1
            contenders[-1][1].tell("contend", scene.dir, kind.word, counter, SECONDS * 1000)
        deadline = time.monotonic() + SECONDS + STALL
        for kind, contender in contenders:
            try:
                times = int(contender.expect("contended", max(0, deadline - time.monotonic())))
            except Unexpected as error:
                wrong.append(str(error) if wrong else f"{error}; {picture(stage, scene, counter)}")
                contender.close()
                continue
            acquisitions += times
            writes += 0 if kind.reader else times
        counted = int(stage.get(counter))
        if counted != writes and not wrong:
            wrong.append(f"counted {counted} of {writes} writes: two held at a time")
    notes.append(f"{who}: {acquisitions} acquisitions by {len(contenders)} contenders in {SECONDS} s")
    return "; ".join(wrong)


def picture(stage, scene, counter):
    """The queue, and which of its znodes are watched."""
    queue = sorted(stage.ephemerals(scene.dir), key=lambda path: path[-10:])
    watched = {path for path, _ in stage.watches()[0]}
    names = [path.rpartition("/")[2] + (" (watched)" if path in watched else "") for path in queue]
    return f"counted {stage.get(counter)}, in line [{', '.join(names)}]"

"""Who gets it next when several wait."""

import itertools

from .scene import AFTERTHOUGHT, GRANT_LIMIT


def mixed(clients):
    """All ways to man a queue of three, whose second is of another kind, with clients of which not all are the same."""
    for first, second, third in itertools.product(clients, repeat=3):
        if not first == second == third:
            yield first[0], second[1], third[0]


def in_order(stage, kinds):
    """All of them in one queue."""
    with stage.scene() as scene:
        queue = [scene.arrive(kind, to_hold=place == 0) for place, kind in enumerate(kinds)]
        for place, arrival in enumerate(queue):
            if not arrival.comes(GRANT_LIMIT):
                return f"number {place + 1}, {kinds[place].label}, did not get it: {arrival.state} {arrival.error}"
            if any(later.comes(0) for later in queue[place + 1:]):
                return f"a later one than number {place + 1} has it"
            scene.leave(arrival)


def reader_writer_reader(stage, kinds):
    """A reader that comes behind a waiting writer waits for it."""
    with stage.scene() as scene:
        reader, writer, late = [scene.arrive(kind, to_hold=place == 0) for place, kind in enumerate(kinds)]
        if (reader.state, writer.state, late.state) != ("held", "waits", "waits"):
            return f"they came: {reader.state}, {writer.state}, {late.state}"
        scene.leave(reader)
        if not writer.comes(GRANT_LIMIT):
            return "the writer did not get it"
        if late.comes(AFTERTHOUGHT):
            return "the late reader has it together with the writer"
        scene.leave(writer)
        if not late.comes(GRANT_LIMIT):
            return "the late reader did not get it"
        scene.leave(late)


def third_permit(stage, kinds):
    """Two hold, the third waits for whoever leaves first, here the second."""
    with stage.scene() as scene:
        first, second, third = [scene.arrive(kind, to_hold=place < 2) for place, kind in enumerate(kinds)]
        if (first.state, second.state, third.state) != ("held", "held", "waits"):
            return f"they came: {first.state}, {second.state}, {third.state}"
        scene.leave(second)
        if not third.comes(GRANT_LIMIT):
            return "the third did not get it"
        scene.leave(first)
        scene.leave(third)

"""Which contender is next when several wait."""

import itertools

from .scene import AFTERTHOUGHT, GRANT_LIMIT


def mixed(clients):
    """All ways to man a queue of three, whose second is of another kind, with clients of which not all are the same."""
    for first, second, third in itertools.product(clients, repeat=3):
        if not first == second == third:
            yield first[0], second[1], third[0]


def around(kinds):
    """Every two neighbours in a company, each once between two of the other."""
    for one, other in zip(kinds, kinds[1:] + kinds[:1] * (len(kinds) > 2)):
        yield one, other, one
        yield other, one, other


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


def one_gives_up(stage, kinds):
    """A contender after one that gives up keeps waiting, for the holder."""
    with stage.scene() as scene:
        holder, fickle, last = [scene.arrive(kind, to_hold=place == 0) for place, kind in enumerate(kinds)]
        if (holder.state, fickle.state, last.state) != ("held", "waits", "waits"):
            return f"they came: {holder.state}, {fickle.state}, {last.state}"
        scene.close(fickle)
        if last.comes(AFTERTHOUGHT):
            return "the last has it together with the holder"
        scene.leave(holder)
        if not last.comes(GRANT_LIMIT):
            return "the last did not get it"
        scene.leave(last)


def reader_writer_reader(stage, kinds):
    """A reader that arrives after a waiting writer waits for it."""
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
    """Two hold, the third waits for the first to leave, here the second."""
    with stage.scene() as scene:
        first, second, third = [scene.arrive(kind, to_hold=place < 2) for place, kind in enumerate(kinds)]
        if (first.state, second.state, third.state) != ("held", "held", "waits"):
            return f"they came: {first.state}, {second.state}, {third.state}"
        scene.leave(second)
        if not third.comes(GRANT_LIMIT):
            return "the third did not get it"
        scene.leave(first)
        scene.leave(third)


def asked_to_give_up(stage, kinds):
    """A waiter revokes the lock, and the holder is notified."""
    with stage.scene() as scene:
        holder, other = scene.arrive(kinds[0], to_hold=True), stage.contender(kinds[1], 1)
        holder.contender.tell("hear")
        other.ask("revoked", "revoke", scene.dir)
        holder.contender.expect("heard")
        scene.leave(holder)

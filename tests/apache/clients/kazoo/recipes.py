"""kazoo's recipes, its locks first."""

import threading

from kazoo.exceptions import LockTimeout
from kazoo.recipe.cache import TreeCache

from connection import client, closing_client
from harness.checks import LIMIT, checking, equal, eventually, refused


def run(zk):
    lock(zk)
    recipes(zk)


def lock(zk):
    with checking("lock: five contenders, one at a time"):
        clients = [client() for _ in range(5)]
        zk.create("/total", b"0")
        inside = []

        def contend(mine):
            for _ in range(4):
                with mine.Lock("/lock", str(mine.client_id[0])):
                    inside.append(mine)
                    assert len(inside) == 1, "two holders"
                    total = int(mine.get("/total")[0])
                    mine.set("/total", str(total + 1).encode())
                    inside.remove(mine)
        threads = [threading.Thread(target=contend, args=(mine,)) for mine in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        equal(zk.get("/total")[0], b"20")
    with checking("lock: waits no longer than asked, contenders are listed"):
        held = clients[0].Lock("/lock", "holder")
        held.acquire()
        with refused(LockTimeout):
            clients[1].Lock("/lock", "waiter").acquire(timeout=0.3)
        equal(held.contenders(), ["holder"])
        held.release()
    with checking("lock: passes on when its holder's session ends"):
        clients[0].Lock("/lock", "holder").acquire()
        clients[0].stop()
        assert clients[1].Lock("/lock", "heir").acquire(timeout=LIMIT)
    with checking("read and write locks"):
        readers = [each.ReadLock("/rw") for each in clients[1:3]]
        assert all(reader.acquire(timeout=LIMIT) for reader in readers)
        writer = clients[3].WriteLock("/rw")
        with refused(LockTimeout):
            writer.acquire(timeout=0.3)
        for reader in readers:
            reader.release()
        assert writer.acquire(timeout=LIMIT)
    with checking("semaphore"):
        first, second, third = (each.Semaphore("/semaphore", max_leases=2) for each in clients[1:4])
        assert first.acquire() and second.acquire()
        assert not third.acquire(blocking=False)
        first.release()
        assert third.acquire(timeout=LIMIT)
    with checking("election"):
        won = threading.Event()
        threading.Thread(target=clients[1].Election("/election", "me").run, args=(won.set,), daemon=True).start()
        assert won.wait(LIMIT)
    for each in clients:
        each.stop()
        each.close()


def recipes(zk):
    with checking("recipe: counter"):
        counter = zk.Counter("/counter")
        counter += 5
        counter -= 2
        equal(counter.value, 3)
    with checking("recipe: queue"):
        items = zk.LockingQueue("/queue")
        items.put(b"second", priority=200)
        items.put(b"first", priority=1)
        equal(items.get(timeout=LIMIT), b"first")
        assert items.consume()
        equal(items.get(timeout=LIMIT), b"second")
    with checking("recipe: party"):
        party = zk.Party("/party", "me")
        party.join()
        equal(list(party), ["me"])
        party.leave()
        equal(len(party), 0)
    with checking("recipe: double barrier"):
        with closing_client(client()) as other:
            entered = threading.Thread(target=zk.DoubleBarrier("/barrier", 2).enter)
            entered.start()
            other.DoubleBarrier("/barrier", 2).enter()
            entered.join(LIMIT)
            assert not entered.is_alive()
    with checking("recipe: tree cache"):
        zk.ensure_path("/cached/a")
        cache = TreeCache(zk, "/cached")
        cache.start()
        eventually(lambda: cache.get_data("/cached/a"), "the cache is filled")
        zk.set("/cached/a", b"seen")
        eventually(lambda: cache.get_data("/cached/a").data == b"seen", "the cache follows")
        cache.close()

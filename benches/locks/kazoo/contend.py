"""kazoo's Lock, controlled by ../run: a session and a thread for each contender, in one process.

Orders and answers are those of benches/clients/src/locks/main.rs. A release is always awaited: kazoo has no other.
"""

import json
import sys
import threading
import time

from kazoo.client import KazooClient

LEAD_IN = 0.15


def main():
    clients, directory = [], None
    for line in sys.stdin:
        match line.split():
            case ["open", address, directory, contenders, "awaited"]:
                clients = [KazooClient(address, timeout=30) for _ in range(int(contenders))]
                for client in clients:
                    client.start()
                clients[0].ensure_path(directory)
                contend(clients, directory, LEAD_IN)
                answer = "ready"
            case ["go", millis]:
                answer = json.dumps(contend(clients, directory, int(millis) / 1000))
                for client in clients:
                    client.stop()
                    client.close()
            case _:
                sys.exit(f"not an order: {line}")
        print(answer, flush=True)


def contend(clients, directory, seconds):
    """Every client acquires and releases the lock repeatedly until the deadline."""
    took, alone = [], len(clients) == 1
    # When the last holder called release; None while the lock is held.
    released = [time.perf_counter_ns()]
    began, cpu = time.perf_counter_ns(), time.process_time_ns()
    end = began + seconds * 1e9
    turns = [0] * len(clients)
    failures = []

    def work(at, client):
        lock = client.Lock(directory, "bench")
        now = time.perf_counter_ns()
        while now < end:
            before = now
            lock.acquire()
            held = time.perf_counter_ns()
            since, released[0] = released[0], None
            if since is None:
                failures.append("two hold the lock")
                return
            if not alone:
                took.append(held - since)
            released[0] = held
            lock.release()
            turns[at] += 1
            now = time.perf_counter_ns()
            if alone:
                took.append(now - before)

    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        sys.exit(failures[0])
    elapsed, cpu = time.perf_counter_ns() - began, time.process_time_ns() - cpu
    took.sort()
    p50, p99 = (took[min(len(took) * percent // 100, len(took) - 1)] / 1e3 for percent in (50, 99))
    return {"turns": turns, "seconds": elapsed / 1e9, "p50": p50, "p99": p99, "cpu": cpu / 1e3}


main()

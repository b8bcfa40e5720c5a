"""kazoo's TreeCache under the orders of ../run; orders and answers are those of benches/clients/src/caches/main.rs."""

import json
import queue
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.recipe.cache import TreeCache, TreeEvent

ROOT = "/bench-cache"


def main():
    state = {}
    for line in sys.stdin:
        match line.split():
            case ["open", address]:
                answer = opened(state, address)
            case ["change", times]:
                answer = change(state, int(times))
            case _:
                sys.exit(f"not an order: {line}")
        print(json.dumps(answer), flush=True)


def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


def opened(state, address):
    client, state["writer"] = (KazooClient(address, timeout=30) for _ in range(2))
    client.start()
    state["writer"].start()
    rss, cpu, began = resident(), time.process_time(), time.monotonic()
    initialized, state["changed"] = threading.Event(), queue.Queue()
    counts = {"nodes": 0}

    def listen(event):
        if event.event_type == TreeEvent.INITIALIZED:
            initialized.set()
        elif event.event_type == TreeEvent.NODE_ADDED:
            counts["nodes"] += 1
        elif event.event_type == TreeEvent.NODE_UPDATED:
            state["changed"].put(event.event_data.path)

    state["cache"] = cache = TreeCache(client, ROOT)
    cache.listen(listen)
    cache.start()
    initialized.wait()
    return {"seconds": time.monotonic() - began, "cpu": int((time.process_time() - cpu) * 1e6), "nodes": counts["nodes"],
            "resident": resident() - rss}


def change(state, times):
    path = f"{ROOT}/0000/0000"
    latencies, cpu = [], time.process_time()
    for n in range(times):
        began = time.monotonic()
        state["writer"].set(path, str(n).encode())
        while state["changed"].get() != path:
            pass
        latencies.append(int((time.monotonic() - began) * 1e6))
    latencies.sort()
    return {"p50": latencies[times // 2], "p99": latencies[times * 99 // 100],
            "cpu": int((time.process_time() - cpu) * 1e6)}


if __name__ == "__main__":
    main()

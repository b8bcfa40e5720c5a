"""kazoo's counters and queues under the orders of ../queues.py and benches/queues/run."""

import sys
import time

from kazoo.client import KazooClient
from kazoo.retry import KazooRetry


def main():
    retry = KazooRetry(max_tries=-1, delay=0.02, max_delay=0.2)
    client = KazooClient(sys.argv[1], timeout=30, command_retry=retry, connection_retry=retry)
    client.start()
    for line in sys.stdin:
        try:
            print("ok", obey(client, line.split()), flush=True)
        except Exception as error:
            print("error", type(error).__name__, str(error).replace("\n", " "), flush=True)


def counter(client, layout, path):
    return client.Counter(path, default=0, support_curator=layout == "i32")


def obey(client, words):
    match words:
        case ["add", layout, path, delta]:
            found = counter(client, layout, path)
            found += int(delta)
            return found.post_value
        case ["get", layout, path]:
            return counter(client, layout, path).value
        case ["put", "kazoo", path, data]:
            client.Queue(path).put(data.encode())
            return ""
        case ["take", "kazoo", path]:
            data = client.Queue(path).get()
            return "-" if data is None else data.decode()
        case ["count", layout, path, times]:
            found = counter(client, layout, path)
            return timed(lambda n: found.__add__(1), int(times))
        case ["fill", "kazoo", path, times]:
            queue = client.Queue(path)
            return timed(lambda n: queue.put(str(n).encode()), int(times))
        case ["empty", "kazoo", path, times]:
            queue = client.Queue(path)
            return timed(lambda n: queue.get(), int(times))
    raise ValueError(" ".join(words))


def timed(step, times):
    began = time.monotonic()
    for n in range(times):
        step(n)
    return time.monotonic() - began


if __name__ == "__main__":
    main()

"""kazoo's Party and ShallowParty, by lines as in ../driver/services.py."""

import logging
import sys

from kazoo.client import KazooClient


def main():
    logging.basicConfig()
    zk = KazooClient(sys.argv[1], timeout=10.0)
    zk.start()
    parties = {}
    for line in sys.stdin:
        verb, name, *args = line.split()
        try:
            print(*obey(zk, parties, verb, name, *args), flush=True)
        except Exception as error:
            logging.exception("%s", name)
            print("error", name, type(error).__name__, str(error).replace("\n", " "), flush=True)


def party(zk, path, kind, name):
    return {"party": zk.Party, "shallow": zk.ShallowParty}[kind](path, name)


def obey(zk, parties, verb, name, *args):
    if verb == "join":
        parties[name] = party(zk, *args, name)
        parties[name].join()
        return "joined", name
    if verb == "members":
        return "found", name, *sorted(party(zk, *args, name))
    if verb == "leave":
        parties.pop(name).leave()
        return "left", name
    raise ValueError(verb)


if __name__ == "__main__":
    main()

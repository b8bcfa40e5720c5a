"""The kinds of contenders, and what is known of each pair."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Kind:
    """A way to contend; `word` names it to the program. Readers hold a lock together."""
    label: str
    program: str
    word: str = "lock"
    reader: bool = False

    @property
    def ours(self):
        return self.program == "zoolet"


@dataclasses.dataclass(frozen=True)
class Table:
    """`expected[holder, newcomer]` is `ok`, `BOTH`, `ERR`, `shared`, or `?` where nothing is promised."""
    title: str
    kinds: tuple
    expected: dict


CURATOR = Kind("Curator", "curator")
RECIPE = Kind("Java recipe", "recipe")
KAZOO = Kind("kazoo", "kazoo")
KAZOO_DASH = Kind('kazoo `("-",)`', "kazoo", "lock:dash")
GO = Kind("Go", "go")
FOREIGN_RUST = Kind("zookeeper-client", "zookeeper-client")
ZOOLET = Kind("**Zoolet**", "zoolet")
ZOOLET_CHILDREN = Kind("**Zoolet** `ChildrenWatch`", "zoolet", "lock:children")
ZOOLET_DUAL = Kind("**Zoolet** `DualKazoo`", "zoolet", "lock:dual")

CURATOR_READ = Kind("Curator, reader", "curator", "read", reader=True)
CURATOR_WRITE = Kind("Curator, writer", "curator", "write")
ZOOLET_READ = Kind("**Zoolet**, reader", "zoolet", "read:curator", reader=True)
ZOOLET_WRITE = Kind("**Zoolet**, writer", "zoolet", "write:curator")

KAZOO_READ = Kind("kazoo, reader", "kazoo", "read", reader=True)
KAZOO_WRITE = Kind("kazoo, writer", "kazoo", "write")
ZOOLET_KAZOO_READ = Kind("**Zoolet**, reader", "zoolet", "read:kazoo", reader=True)
ZOOLET_KAZOO_WRITE = Kind("**Zoolet**, writer", "zoolet", "write:kazoo")

CURATOR_ONE = Kind("Curator", "curator", "semaphore:1")
ZOOLET_ONE = Kind("**Zoolet**", "zoolet", "semaphore:1")
CURATOR_TWO = Kind("Curator", "curator", "semaphore:2")
ZOOLET_TWO = Kind("**Zoolet**", "zoolet", "semaphore:2")

CURATOR_LATCH = Kind("Curator", "curator", "election")
ZOOLET_ELECTION = Kind("**Zoolet**", "zoolet", "election")
ZOOLET_RUN = Kind("**Zoolet** `run`", "zoolet", "election:run")


def table(title, kinds, text):
    """A table whose expectation is written as one, holders in rows in the order of `kinds`."""
    rows = [line.split("|")[1].split() for line in text.strip().splitlines()]
    assert all(len(row) == len(kinds) for row in rows) and len(rows) == len(kinds), title
    expected = {(holder, newcomer): cell for holder, row in zip(kinds, rows) for newcomer, cell in zip(kinds, row)}
    return Table(title, tuple(kinds), expected)


TABLES = [
    table("Locks", [CURATOR, RECIPE, KAZOO, KAZOO_DASH, GO, FOREIGN_RUST, ZOOLET, ZOOLET_CHILDREN, ZOOLET_DUAL], """
    Curator          | ok    ok    BOTH  ok    ok    ok    ok    ok    ok
    Java recipe      | BOTH  ok    BOTH  ok    ERR   BOTH  ok    ok    ok
    kazoo            | BOTH  BOTH  ok    ok    ok    BOTH  ok    ok    ok
    kazoo dash       | BOTH  BOTH  ok    ok    ok    BOTH  ok    ok    ok
    Go               | ok    ok    BOTH  ok    ok    ok    ok    ok    ok
    zookeeper-client | ok    ok    BOTH  ok    ok    ok    ok    ok    ok
    Zoolet           | ok    ok    BOTH  ok    ok    ok    ok    ok    ok
    ChildrenWatch    | ok    ok    BOTH  ok    ok    ok    ok    ok    ok
    DualKazoo        | ok    ok    ok    ok    ok    ok    ok    ok    ok
    """),
    table("Readers and writers, Curator's markers", [CURATOR_READ, CURATOR_WRITE, CURATOR, ZOOLET_READ, ZOOLET_WRITE,
                                                     ZOOLET], """
    Curator, reader  | shared  ok      ?       shared  ok      ?
    Curator, writer  | ok      ok      ?       ok      ok      ?
    Curator          | ?       ?       ok      ?       ?       ok
    Zoolet, reader   | shared  ok      ?       shared  ok      ?
    Zoolet, writer   | ok      ok      ?       ok      ok      ?
    Zoolet           | ?       ?       ok      ?       ?       ok
    """),
    table("Readers and writers, kazoo's markers", [KAZOO_READ, KAZOO_WRITE, KAZOO, ZOOLET_KAZOO_READ,
                                                   ZOOLET_KAZOO_WRITE], """
    kazoo, reader    | shared  ok      BOTH    shared  ok
    kazoo, writer    | ok      ok      ok      ok      ok
    kazoo            | ok      ok      ok      ok      ok
    Zoolet, reader   | shared  ok      BOTH    shared  ok
    Zoolet, writer   | ok      ok      ok      ok      ok
    """),
    table("Semaphore of one", [CURATOR_ONE, ZOOLET_ONE], """
    Curator          | ok    ok
    Zoolet           | ok    ok
    """),
    table("Election", [CURATOR_LATCH, ZOOLET_ELECTION, ZOOLET_RUN], """
    Curator          | ok    ok    ok
    Zoolet           | ok    ok    ok
    run              | ok    ok    ok
    """),
]

# Each of these may contend in one directory: every pair of them excludes or shares as it should, both ways.
COMPANIES = [
    ("Locks", (ZOOLET, ZOOLET_CHILDREN, ZOOLET_DUAL, CURATOR, GO, FOREIGN_RUST)),
    ("Locks", (ZOOLET, RECIPE)),
    ("Locks", (ZOOLET, KAZOO_DASH, GO)),
    ("Locks", (ZOOLET_DUAL, KAZOO, KAZOO_DASH)),
    ("Curator's markers", (ZOOLET_READ, ZOOLET_WRITE, CURATOR_READ, CURATOR_WRITE)),
    ("kazoo's markers", (ZOOLET_KAZOO_READ, ZOOLET_KAZOO_WRITE, KAZOO_READ, KAZOO_WRITE)),
    ("Semaphore of one", (ZOOLET_ONE, CURATOR_ONE)),
    ("Election", (ZOOLET_ELECTION, ZOOLET_RUN, CURATOR_LATCH)),
]

# Which client may revoke the lock of the other.
REVOCABLE = (Kind("Curator", "curator", "lock:revocable"), ZOOLET)

# By client: its reader and its writer, which queue together with those of the other; permits of a semaphore of two.
READERS_AND_WRITERS = [
    ((CURATOR_READ, CURATOR_WRITE), (ZOOLET_READ, ZOOLET_WRITE)),
    ((KAZOO_READ, KAZOO_WRITE), (ZOOLET_KAZOO_READ, ZOOLET_KAZOO_WRITE)),
]
PERMITS = (CURATOR_TWO, ZOOLET_TWO)

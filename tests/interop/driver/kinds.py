"""Who contends: the kinds of contenders, and what is known of each pair."""

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
    """`expected[holder, newcomer]` is `ok`, `BOTH`, `ERR` or `shared`."""
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


def table(title, kinds, text):
    """A table whose expectation is written as one, holders in rows in the order of `kinds`."""
    rows = [line.split("|")[1].split() for line in text.strip().splitlines()]
    assert all(len(row) == len(kinds) for row in rows) and len(rows) == len(kinds), title
    expected = {(holder, newcomer): cell for holder, row in zip(kinds, rows) for newcomer, cell in zip(kinds, row)}
    return Table(title, tuple(kinds), expected)


LOCKS = table(
    "Locks", [CURATOR, RECIPE, KAZOO, KAZOO_DASH, GO, FOREIGN_RUST, ZOOLET], """
    Curator          | ok    ok    BOTH  ok    ok    ok    ok
    Java recipe      | BOTH  ok    BOTH  ok    ERR   BOTH  ok
    kazoo            | BOTH  BOTH  ok    ok    ok    BOTH  ok
    kazoo dash       | BOTH  BOTH  ok    ok    ok    BOTH  ok
    Go               | ok    ok    BOTH  ok    ok    ok    ok
    zookeeper-client | ok    ok    BOTH  ok    ok    ok    ok
    Zoolet           | ok    ok    BOTH  ok    ok    ok    ok
    """)

TABLES = [LOCKS]

# Each of these may contend in one directory: every pair of them is `ok` above, both ways.
COMPANIES = [
    (ZOOLET, CURATOR, GO, FOREIGN_RUST),
    (ZOOLET, RECIPE),
    (ZOOLET, KAZOO_DASH, GO),
]

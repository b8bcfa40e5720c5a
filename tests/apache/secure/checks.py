"""Checks: each looks at one server and says in a line what it saw.

What it must see is what Apache ZooKeeper 3.9.5 does. Ours may do something else only by a row of docs/deviations.md.
"""

import concurrent.futures
import dataclasses
import traceback


@dataclasses.dataclass
class Check:
    name: str
    look: object
    expected: str
    ours: str | None = None
    deviation: str | None = None


class Group:
    """The checks of one set of settings."""

    def __init__(self, name, **settings):
        self.name = name
        self.given = settings
        self.checks = []

    def settings(self, folder, port):
        return self.given["settings"](folder, port)

    tls = True

    def row(self, name, expected, look, ours=None, deviation=None):
        """`ours` is what our server shows instead, by the row of docs/deviations.md that begins with `deviation`."""
        self.checks.append(Check(name, look, expected, ours, deviation))

    def check(self, name, expected, **more):
        """The same for a function below."""
        def add(look):
            self.row(name, expected, look, **more)
            return look
        return add

    def run(self, server, ours):
        """What each check saw, all at once: much of it is waiting."""
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            seen = list(pool.map(lambda check: observe(check, server), self.checks))
        return [judge(check, got, ours) for check, got in zip(self.checks, seen)]


def observe(check, server):
    try:
        return str(check.look(server))
    except Exception as error:  # is what was seen
        return f"{type(error).__name__}: {error} ({traceback.extract_tb(error.__traceback__)[-1].line})"


def judge(check, got, ours):
    """The line of this check."""
    if ours and check.ours is not None:
        if got == check.ours:
            return True, f"{check.name} (as docs/deviations.md has it)"
        return False, f"{check.name}: {got!r}, expected {check.ours!r} by the deviation"
    return (True, check.name) if got == check.expected else (False, f"{check.name}: {got!r}, expected {check.expected!r}")

"""What came of one script on one server, and the table of all of them."""

import dataclasses


@dataclasses.dataclass
class Outcome:
    """`skipped` is the reason why nothing was run; `checks` and `failures` are the texts after `ok` and `not ok`."""
    passed: int = 0
    checks: list = dataclasses.field(default_factory=list)
    failures: list = dataclasses.field(default_factory=list)
    skipped: str = ""
    seconds: float = 0.0

    def __str__(self):
        if self.skipped:
            return f"skipped: {self.skipped}"
        failed = f", {len(self.failures)} FAILED" if self.failures else ""
        return f"{self.passed} passed{failed} ({self.seconds:.0f} s)"


def table(outcomes, servers):
    """`outcomes[client][server]` as text, and below it why something was skipped."""
    rows = [["", *servers]]
    rows += [[client, *("skipped" if row[server].skipped else str(row[server]) for server in servers)] for client, row in outcomes.items()]
    reasons = sorted({f"{client} skipped: {cell.skipped}" for client, row in outcomes.items() for cell in row.values() if cell.skipped})
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows] + reasons)


def totals(outcomes):
    """The last line, in the form that test runners' readers know."""
    cells = [cell for row in outcomes.values() for cell in row.values()]
    passed = sum(cell.passed for cell in cells)
    failed = sum(len(cell.failures) for cell in cells)
    skipped = sum(1 for cell in cells if cell.skipped)
    return failed, f"{passed} passed, {failed} failed, {skipped} skipped"

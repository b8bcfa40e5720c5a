"""Where our admin server may differ from that of Apache ZooKeeper, each by the row of docs/deviations.md that begins like that."""

# The name of a look, or its beginning with a star, and the row.
ALLOWED = {
}


def missing_rows(page):
    rows = [line.split("|")[1].strip() for line in page.read_text().splitlines() if line.startswith("| ")]
    return sorted(title for title in set(ALLOWED.values()) if not any(row.startswith(title) for row in rows))


def between(first, second, ours):
    """What differs, and may not."""
    wrong = []
    for name in [*first, *(name for name in second if name not in first)]:
        left, right = first.get(name, "nothing"), second.get(name, "nothing")
        if left != right and not (ours and allowed(name)):
            wrong.append(f"{name}: {left!r}, the other one {right!r}")
    return wrong


def allowed(name):
    return name in ALLOWED or any(pattern.endswith("*") and name.startswith(pattern[:-1]) for pattern in ALLOWED)

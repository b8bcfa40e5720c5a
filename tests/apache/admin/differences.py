"""Where our admin server may differ from that of Apache ZooKeeper, each by the row of docs/deviations.md that begins like that."""

import re

# The name of a look, what ours shows, and the row.
ALLOWED = [
    (r"hash", r"200 application/json {digests \[{zxid i, digest i, digest_version i}\], command s, error n}", "admin: `hash`"),
    (r"restore of garbage", r"(?s)500 .*this is not a snapshot.*", "admin: why a snapshot or a restore is refused"),
    (r"a (snapshot|restore) at once after another", r"(?s)429 .*one in .* is allowed.*", "admin: why a snapshot or a restore is refused"),
    (r"GET /", r"200", "admin: `/`"),
    (r"monitor: (avg|min|max|cnt|sum|p\d+)_.*", r"nothing", "admin: `monitor`"),
    (r"certificates needed: none", r"alert certificate_required", "no certificate where one is needed"),
    (r"HTTPS alone: plain HTTP", r"15030300020232", "admin: plain HTTP at a port for HTTPS"),
    (r"monitor: zoolet_.*", r"[id]", "admin: `monitor`"),
]


def missing_rows(page):
    rows = [line.split("|")[1].strip() for line in page.read_text().splitlines() if line.startswith("| ")]
    return sorted(title for title in {row for _, _, row in ALLOWED} if title not in rows)


def between(first, second, ours):
    """What differs, and may not."""
    wrong = []
    for name in [*first, *(name for name in second if name not in first)]:
        left, right = first.get(name, "nothing"), second.get(name, "nothing")
        if left != right and not (ours and allowed(name, right)):
            wrong.append(f"{name}: {left!r}, the other one {right!r}")
    return wrong


def allowed(name, shown):
    return any(re.fullmatch(look, name) and re.fullmatch(other, shown) for look, other, _ in ALLOWED)

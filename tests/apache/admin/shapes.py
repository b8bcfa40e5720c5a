"""What an answer in JSON is made of, without what differs from one server to the next."""

import json

# Objects whose keys are data.
MAPS = {"expiry_time_to_session_ids", "session_id_to_ephemeral_paths", "session_id_to_watched_paths", "path_to_session_ids"}
# Apache ZooKeeper writes its fields in the order in which Java lists the methods of a class.
UNORDERED = {"server_stats"}


class Object(list):
    """Keys and values in order."""


def parsed(body):
    return json.loads(body, object_pairs_hook=Object)


def shape(value, name=""):
    match value:
        case Object() if name in MAPS:
            # Apache ZooKeeper keeps entries with nothing in them, at times.
            return "{*: " + "|".join(sorted({shape(inner) for _, inner in value if inner})) + "}"
        case Object():
            fields = [f"{key} {shape(inner, key)}" for key, inner in value]
            return "{" + ", ".join(sorted(fields) if name in UNORDERED else fields) + "}"
        case list():
            return "[" + "|".join(sorted({shape(inner) for inner in value})) + "]"
        case bool():
            return "b"
        case int():
            return "i"
        case float():
            return "d"
        case str():
            return "s"
        case None:
            return "n"


def names(value):
    return [key for key, _ in value]

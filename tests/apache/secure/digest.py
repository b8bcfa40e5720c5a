"""DIGEST-MD5 as ZooKeeper's clients use it: the response to a challenge, and the answer that has to follow."""

import hashlib
import re

REALM, URI = "zk-sasl-md5", "zookeeper/zk-sasl-md5"


def md5(*parts):
    return hashlib.md5(b":".join(parts)).digest()


def hashed(text):
    """ISO 8859-1 if all characters fit, whatever the charset on the wire is."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


def nonce(challenge):
    return re.search(rb'nonce="([^"]*)"', challenge)[1].decode()


class Answer:
    """The directives of a response. Each may be changed before it is written."""

    def __init__(self, offered, user, password, *, realm=REALM, uri=URI, nc="00000001", qop="auth", cnonce="4000685436286582", authzid=None,
                 encode=hashed):
        secret = md5(encode(user), encode(realm), encode(password))
        a1 = md5(secret, offered.encode(), cnonce.encode(), *([] if authzid is None else [authzid.encode()]))

        def response(prefix):
            a2 = md5(prefix, uri.encode()).hex().encode()
            return md5(a1.hex().encode(), offered.encode(), nc.encode(), cnonce.encode(), qop.encode(), a2).hex()
        self.proof = f"rspauth={response(b'')}"
        self.directives = {
            "charset": "utf-8", "username": f'"{user}"', "realm": f'"{realm}"', "nonce": f'"{offered}"', "nc": nc, "cnonce": f'"{cnonce}"',
            "digest-uri": f'"{uri}"', "maxbuf": "65536", "response": response(b"AUTHENTICATE"), "qop": qop}
        if authzid is not None:
            self.directives["authzid"] = f'"{authzid}"'

    def token(self, **changes):
        """None leaves a directive out; `digest_uri` is digest-uri."""
        written = dict(self.directives)
        for name, value in changes.items():
            name = name.replace("_", "-")
            if value is None:
                del written[name]
            else:
                written[name] = value
        return ",".join(f"{name}={value}" for name, value in written.items()).encode()

"""The admin server over TLS."""

import ssl

import web
import wire
from harness import certificates

CERTIFICATES = certificates.folder()
STORES = {"ssl_quorum_keyStore_location": CERTIFICATES / "server.pem", "ssl_quorum_trustStore_location": CERTIFICATES / "trust.pem"}


def shown(port, context=None, path="/commands/ruok", headers=()):
    try:
        answer = web.request(port, path, context=context, headers=headers)
    except (OSError, IndexError) as error:
        return wire.reason(error)
    return f"{answer.status}, strict transport {answer.headers.get('strict-transport-security')}"


def alice(port):
    return shown(port, wire.context(CERTIFICATES, "alice"))


def forced(_, port):
    version12 = wire.context(CERTIFICATES, highest=ssl.TLSVersion.TLSv1_2)
    plain = web.send(port, b"GET /commands/ruok HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").hex()
    return {
        "HTTPS alone: TLS 1.3": shown(port, wire.context(CERTIFICATES)),
        "HTTPS alone: TLS 1.2": shown(port, version12),
        "HTTPS alone: plain HTTP": plain,
        "HTTPS alone: authorization x509 without a certificate": shown(port, wire.context(CERTIFICATES), "/commands/snapshot?streaming=false",
                                                                       ["Authorization: x509"]),
    }


def unified(_, port):
    return {"one port for both: HTTPS": shown(port, wire.context(CERTIFICATES)), "one port for both: HTTP": shown(port)}


def needed(_, port):
    return {
        "certificates needed: with one": alice(port),
        "certificates needed: none": shown(port, wire.context(CERTIFICATES)),
        "certificates needed: of another authority": shown(port, wire.context(CERTIFICATES, "stranger")),
        "certificates needed: plain HTTP": shown(port),
        "certificates needed: authorization x509": shown(port, wire.context(CERTIFICATES, "alice"), "/commands/snapshot?streaming=false",
                                                         ["Authorization: x509"]),
    }


SETUPS = [
    (STORES | {"admin_forceHttps": "true"}, forced),
    (STORES | {"admin_portUnification": "true"}, unified),
    (STORES | {"admin_portUnification": "true", "admin_needClientAuth": "true", "authProvider_1":
               "org.apache.zookeeper.server.auth.X509AuthenticationProvider", "ssl_keyStore_location": CERTIFICATES / "server.pem",
               "ssl_trustStore_location": CERTIFICATES / "trust.pem"}, needed),
]

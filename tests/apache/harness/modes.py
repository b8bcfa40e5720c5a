"""How clients and servers speak to each other: in the clear or over TLS, with or without a certificate, with or without SASL.

A server in a mode refuses whoever does not speak like that: the sessions of `certificate` need a certificate, those of `sasl` are
closed before their first request unless they have proved who they are.
"""

import dataclasses

from . import certificates

USER, SECRET = "bob", "bobsecret"
JAAS = f"""Server {{
  org.apache.zookeeper.server.auth.DigestLoginModule required
  user_super="adminsecret"
  user_{USER}="{SECRET}";
}};
Client {{
  org.apache.zookeeper.server.auth.DigestLoginModule required
  username="{USER}"
  password="{SECRET}";
}};
"""
# What cannot be had, and why.
CANNOT = {
    "node": [(lambda mode: mode.tls, "node-zookeeper-client has no TLS"), (lambda mode: mode.sasl, "node-zookeeper-client has no SASL")],
    "go": [(lambda mode: mode.sasl, "go-zookeeper has no SASL")],
    "c": [(lambda mode: mode.tls and mode.sasl, "the C library has no function for both"),
          (lambda mode: mode.tls and not mode.certificate, "the C library does not connect without a certificate")],
}
# zookeeper-client sets its watches after a reconnect before it has proved who it is, which a server that insists on it does not bear.
PREMATURE = ["rust"]


@dataclasses.dataclass(frozen=True)
class Mode:
    name: str
    tls: bool = False
    certificate: bool = False
    sasl: bool = False
    insisting: bool = True

    def of(self, client):
        """The same, as it is possible with this client."""
        return dataclasses.replace(self, insisting=client not in PREMATURE)

    def settings(self, folder, port):
        """What this adds to the zoo.cfg of a server whose files are in `folder`; `port` is for TLS."""
        settings = {}
        if self.tls:
            settings |= certificates.settings(certificates.folder(), port, clientAuth="need" if self.certificate else "none")
        if self.sasl:
            jaas = folder / "jaas.conf"
            jaas.write_text(JAAS)
            (folder / "secret").write_text(SECRET + "\n")
            settings |= {"java.security.auth.login.config": jaas, "sessionRequireClientSASLAuth": str(self.insisting).lower(),
                         "authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}
        return settings

    def environment(self, folder):
        """What a script finds: where the certificates are, whose name to give, and who its sessions are beside their address."""
        found = {}
        if self.tls:
            found["ZK_CA"] = str(certificates.folder() / "ca.crt")
        ids = [("x509", "CN=alice,O=zoolet")] * self.certificate + [("sasl", USER)] * self.sasl
        found["ZK_IDENTITIES"] = "\n".join(map(" ".join, ids))
        if self.certificate:
            found |= {"ZK_CERTIFICATE": str(certificates.folder() / "alice.crt"), "ZK_KEY": str(certificates.folder() / "alice.key")}
        if self.sasl:
            found |= {"ZK_USER": USER, "ZK_SECRET": SECRET, "ZK_SECRET_FILE": str(folder / "secret")}
        if java := self.java(folder):
            found["JDK_JAVA_OPTIONS"] = " ".join(f"-D{key}={value}" for key, value in java.items())
        return found

    def java(self, folder):
        """The properties of Java clients, which know no other way."""
        properties = {}
        if self.tls:
            properties |= {"zookeeper.client.secure": "true",
                           "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
                           "zookeeper.ssl.trustStore.location": certificates.folder() / "trust.jks",
                           "zookeeper.ssl.trustStore.passwordPath": certificates.folder() / "password"}
        if self.certificate:
            properties |= {"zookeeper.ssl.keyStore.location": certificates.folder() / "alice.p12",
                           "zookeeper.ssl.keyStore.passwordPath": certificates.folder() / "password"}
        if self.sasl:
            # In FIPS mode, which is the default, a client closes the connection rather than use MD5.
            properties |= {"java.security.auth.login.config": folder / "jaas.conf", "zookeeper.fips-mode": "false"}
        return properties

    def cannot(self, client):
        """Why a client cannot speak like this, if so."""
        return next((reason for holds, reason in CANNOT.get(client, []) if holds(self)), None)


PLAIN = Mode("plain")
MODES = {mode.name: mode for mode in (
    PLAIN,
    Mode("tls", tls=True),
    Mode("certificate", tls=True, certificate=True),
    Mode("sasl", sasl=True),
    Mode("tls+sasl", tls=True, sasl=True),
    Mode("certificate+sasl", tls=True, certificate=True, sasl=True),
)}

"""Certificates for tests, made with openssl and keytool: see FILES for what is in the folder.

All keys and stores that have a password have the same one, which is also in the file `password`.
"""

import pathlib

from . import toolchain

PASSWORD = "changeit"
FILES = """
ca.crt, other-ca.crt      the authorities; `trust.pem`, `trust.p12` and `trust.jks` hold the first
server.*                  ECDSA, for localhost, 127.0.0.1 and ::1; `server-rsa.*` with an RSA key; `elsewhere.*` for another name
alice.*, bob.*            clients
expired.*, early.*, serveronly.*, revoked.*   clients that must be refused; `ca.crl` names the last one
stranger.*                a client of the other authority
dn-1.* to dn-5.*          clients with unusual subjects
NAME.crt, .key, .pem      certificate, PKCS#8 key, and both in one file
NAME.p12, .jks            the same as stores, for the servers and alice
"""

# The subjects whose text form is easily got wrong, with what Java's RFC 2253 form makes of them.
SUBJECTS = {
    "dn-1": ("/C=US/ST=CA/L=SF/O=Acme, Inc/OU=Eng/CN=alice/emailAddress=alice@acme.example",
             r"1.2.840.113549.1.9.1=#1612616c6963654061636d652e6578616d706c65,CN=alice,OU=Eng,O=Acme\, Inc,L=SF,ST=CA,C=US"),
    "dn-2": ("/DC=example/DC=acme/O=Ac\\+me \"q\" <x>;\\=#\\\\z/OU= lead trail /OU=#hash/OU=a  b/CN=Böb/UID=b1",
             r"UID=b1,CN=Böb,OU=a  b,OU=\#hash,OU=\ lead trail\ ,O=Ac\+me \"q\" \<x\>\;\=\#\\z,DC=acme,DC=example"),
    "dn-3": ("/CN=o/serialNumber=77/SN=Sur/GN=Giv/title=t/street=1 Main/emailAddress=a@b.c/dnQualifier=dq/pseudonym=ps"
             "/generationQualifier=III/postalCode=99",
             "2.5.4.17=#0c023939,2.5.4.44=#0c03494949,2.5.4.65=#0c027073,2.5.4.46=#13026471,1.2.840.113549.1.9.1=#16056140622e63,"
             "STREET=1 Main,2.5.4.12=#0c0174,2.5.4.42=#0c03476976,2.5.4.4=#0c03537572,2.5.4.5=#13023737,CN=o"),
    "dn-4": ("/O=Acme/CN=a+OU=b", "CN=a+OU=b,O=Acme"),
    "dn-5": ("/", ""),
}

SERVER = "subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1\nextendedKeyUsage=serverAuth"
CLIENT = "extendedKeyUsage=clientAuth"
CONFIG = """
[req]
string_mask=utf8only
distinguished_name=name
[name]
[ca]
default_ca=own
[own]
database=%(folder)s/index
serial=%(folder)s/serial
new_certs_dir=%(folder)s
certificate=%(folder)s/ca.crt
private_key=%(folder)s/ca.key
default_md=sha256
default_days=3650
default_crl_days=3650
policy=any
unique_subject=no
[any]
commonName=supplied
[client]
extendedKeyUsage=clientAuth
"""


def folder():
    """The folder with the certificates, which are made if need be."""
    return toolchain.once("certificates", [pathlib.Path(__file__)], make)


def settings(folder, port, key_store="server.pem", **more):
    """What a zoo.cfg needs for a TLS port with these certificates; `more` are settings of `ssl.`, as `clientAuth="none"`."""
    kinds = {"secureClientPort": port, "secureClientPortAddress": "127.0.0.1",
             "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
             "ssl.keyStore.location": folder / key_store, "ssl.trustStore.location": folder / "trust.pem"}
    if not key_store.endswith(".pem"):
        kinds["ssl.keyStore.passwordPath"] = folder / "password"
    return kinds | {f"ssl.{key}": value for key, value in more.items()}


def make(target):
    openssl, keytool = toolchain.need("openssl", "keytool")
    Maker(target, openssl, keytool).all()


class Maker:
    def __init__(self, target, openssl, keytool):
        self.target, self.openssl, self.keytool = target, openssl, keytool
        self.config = target / "openssl.cnf"
        self.config.write_text(CONFIG % {"folder": target})
        (target / "index").touch()
        (target / "serial").write_text("1000\n")
        (target / "password").write_text(PASSWORD)

    def all(self):
        self.authority("ca", "/CN=zoolet test CA")
        self.authority("other-ca", "/CN=another CA")
        self.signed("server", "/CN=localhost", SERVER)
        self.signed("server-rsa", "/CN=localhost", SERVER, "rsa:2048")
        self.signed("elsewhere", "/CN=elsewhere.example", "subjectAltName=DNS:elsewhere.example\nextendedKeyUsage=serverAuth")
        self.signed("alice", "/O=zoolet/CN=alice", CLIENT)
        self.signed("bob", "/O=zoolet/CN=bob", CLIENT)
        self.signed("serveronly", "/CN=serveronly", "extendedKeyUsage=serverAuth")
        self.signed("stranger", "/O=zoolet/CN=alice", CLIENT, authority="other-ca")
        for name, (subject, _) in SUBJECTS.items():
            # Without a subject there has to be another name, by which nobody is known.
            self.signed(name, subject, CLIENT if subject != "/" else f"{CLIENT}\nsubjectAltName=critical,DNS:nameless")
        self.dated("expired", "20200101000000Z", "20200201000000Z")
        self.dated("early", "20450101000000Z", "20460101000000Z")
        self.dated("revoked", "20200101000000Z", "20460101000000Z")
        self.run("ca", "-config", self.config, "-revoke", self.path("revoked.crt"))
        self.run("ca", "-config", self.config, "-gencrl", "-out", self.path("ca.crl"))
        self.path("trust.pem").write_bytes(self.path("ca.crt").read_bytes())
        for kind, ending in ("PKCS12", "p12"), ("JKS", "jks"):
            self.tool("-importcert", "-noprompt", "-alias", "ca", "-file", self.path("ca.crt"), "-storetype", kind,
                      "-keystore", self.path(f"trust.{ending}"), "-storepass", PASSWORD)
        for name in "server", "server-rsa", "alice":
            self.stores(name)

    def path(self, name):
        return self.target / name

    def run(self, *arguments):
        toolchain.quietly([self.openssl, *arguments])

    def tool(self, *arguments):
        toolchain.quietly([self.keytool, *arguments])

    def authority(self, name, subject):
        self.run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", self.path(f"{name}.key"),
                 "-out", self.path(f"{name}.crt"), "-days", "3650", "-subj", subject, "-config", self.config, "-sha256",
                 "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign",
                 "-addext", "subjectKeyIdentifier=hash")

    def request(self, name, subject, key="ec"):
        curve = ["-pkeyopt", "ec_paramgen_curve:prime256v1"] if key == "ec" else []
        self.run("req", "-new", "-utf8", "-newkey", key, *curve, "-nodes", "-keyout", self.path(f"{name}.key"),
                 "-out", self.path(f"{name}.csr"), "-subj", subject, "-config", self.config)

    def signed(self, name, subject, extensions, key="ec", authority="ca"):
        self.request(name, subject, key)
        self.path(f"{name}.ext").write_text(extensions + "\n")
        self.run("x509", "-req", "-in", self.path(f"{name}.csr"), "-CA", self.path(f"{authority}.crt"), "-CAkey", self.path(f"{authority}.key"),
                 "-CAcreateserial", "-days", "3650", "-sha256", "-extfile", self.path(f"{name}.ext"), "-out", self.path(f"{name}.crt"))
        self.together(name)

    def dated(self, name, first, last):
        """Only `openssl ca` knows dates."""
        self.request(name, f"/CN={name}")
        self.run("ca", "-batch", "-notext", "-config", self.config, "-extensions", "client", "-in", self.path(f"{name}.csr"),
                 "-startdate", first, "-enddate", last, "-out", self.path(f"{name}.crt"))
        self.together(name)

    def together(self, name):
        self.path(f"{name}.pem").write_bytes(self.path(f"{name}.key").read_bytes() + self.path(f"{name}.crt").read_bytes())

    def stores(self, name):
        p12, jks = self.path(f"{name}.p12"), self.path(f"{name}.jks")
        self.run("pkcs12", "-export", "-in", self.path(f"{name}.crt"), "-inkey", self.path(f"{name}.key"), "-name", name,
                 "-out", p12, "-passout", f"pass:{PASSWORD}")
        self.tool("-importkeystore", "-srckeystore", p12, "-srcstoretype", "PKCS12", "-srcstorepass", PASSWORD,
                  "-destkeystore", jks, "-deststoretype", "JKS", "-deststorepass", PASSWORD, "-destkeypass", PASSWORD)


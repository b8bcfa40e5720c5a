"""The clients: how each is built, and the command that runs its script."""

import functools
import hashlib
import os
import pathlib
import shutil

from . import toolchain
from .toolchain import SCRIPTS, Missing, need, once, quietly


C_SOURCES = "zookeeper@7.3.0"
C_SOURCES_SHA512 = "734294525a93344f72b6564e81a7a319e94dee5c5a39c10a4c42e606d872d63cfb34f9daf1418209febda32ae79e59c37728b72d2844b0d2fc2bacd6ff8f780a"


def kazoo():
    need("python3")
    requirements = SCRIPTS / "kazoo" / "requirements.txt"

    def install(folder):
        quietly(["python3", "-m", "venv", folder / "venv"])
        quietly([folder / "venv" / "bin" / "pip", "install", "--disable-pip-version-check", "--require-hashes",
                 "-r", requirements])
    folder = once("kazoo", [requirements], install)
    return [folder / "venv" / "bin" / "python", SCRIPTS / "kazoo" / "script.py"]


def java():
    return compiled_java("java", toolchain.jars("apache-jars", SCRIPTS / "java" / "pom.xml"), "Script")


def zkcli():
    return ["python3", SCRIPTS / "zkcli" / "script.py", toolchain.jars("apache-jars", SCRIPTS / "java" / "pom.xml")]


def curator():
    return compiled_java("curator", toolchain.jars("curator-jars", SCRIPTS / "curator" / "pom.xml"), "Script")


def compiled_java(name, jars, main):
    """The command for the class `main` among the sources in the folder `name` and those that all Java scripts share."""
    java, javac = need("java", "javac")
    sources = sorted((SCRIPTS / name).glob("*.java")) + sorted((SCRIPTS / "java" / "shared").glob("*.java"))
    folder = once(name, [*sources, jars],
                  lambda folder: quietly([javac, "-proc:none", "-d", folder, "-cp", jars, *sources]))
    return [java, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
            "-cp", os.pathsep.join([str(folder), jars]), main]


def c():
    [gcc] = need("gcc")
    header = pathlib.Path("/usr/include/zookeeper/zookeeper.h")
    if not header.exists():
        install("libzookeeper-mt-dev")
    sources = sorted((SCRIPTS / "c").glob("*.[ch]"))
    units = [source for source in sources if source.suffix == ".c"]
    folder = once("c", [*sources, header], lambda folder: quietly(
        [gcc, "-std=c11", "-D_GNU_SOURCE", "-DTHREADED", "-O1", "-Wall", "-Wextra", "-I", header.parent,
         "-o", folder / "script", *units, "-lzookeeper_mt", "-lpthread"]))
    return [folder / "script"]


def secure_c():
    """Debian's library is built without OpenSSL and SASL. The sources of the same release are in an npm package, which wraps them."""
    gcc, make, npm = need("gcc", "make", "npm")
    for package, header in ("libssl-dev", "/usr/include/openssl/ssl.h"), ("libsasl2-dev", "/usr/include/sasl/sasl.h"):
        if not pathlib.Path(header).exists():
            install(package)
    if not list(pathlib.Path("/usr/lib").glob("*/sasl2/libdigestmd5.so")):
        install("libsasl2-modules")

    def build(folder):
        archive = quietly([npm, "pack", "--silent", C_SOURCES], cwd=folder).strip()
        found = hashlib.sha512((folder / archive).read_bytes()).hexdigest()
        if found != C_SOURCES_SHA512:
            raise toolchain.Broken(f"{archive} is not what it was: SHA-512 {found}")
        quietly(["tar", "xzf", archive, "package/deps"], cwd=folder)
        quietly(["tar", "xzf", folder / "package" / "deps" / "zookeeper-client-c.tar.gz"], cwd=folder)
        source = folder / "zookeeper-client-c"
        quietly([source / "configure", "--without-cppunit", "--disable-shared"], cwd=source)
        quietly([make, "libzookeeper_mt.la", "CFLAGS=-O1 -w"], cwd=source)
    library = once("library-of-c", [C_SOURCES, C_SOURCES_SHA512], build) / "zookeeper-client-c"
    sources = sorted((SCRIPTS / "c").glob("*.[ch]"))
    folder = once("secure-c", [*sources, str(library)], lambda folder: quietly(
        [gcc, "-std=c11", "-D_GNU_SOURCE", "-DTHREADED", "-DSECURE", "-DHAVE_OPENSSL_H", "-DHAVE_CYRUS_SASL_H", "-O1", "-Wall", "-Wextra",
         "-I", library / "include", "-I", library / "generated", "-o", folder / "script",
         *(source for source in sources if source.suffix == ".c"), library / ".libs" / "libzookeeper_mt.a", "-lssl", "-lcrypto",
         "-lsasl2", "-lpthread", "-lm"]))
    return [folder / "script"]


def install(package):
    """With Debian's package manager; elsewhere the package has to be there already."""
    if not shutil.which("apt-get") or os.geteuid() != 0:
        raise Missing(package)
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", package]
    try:
        quietly(install)
    except toolchain.Broken:  # package lists that are old, or not there yet
        quietly(["apt-get", "update", "-q"])
        quietly(install)


def go():
    [go] = need("go")
    inputs = sorted((SCRIPTS / "go").glob("*.go")) + [SCRIPTS / "go" / "go.mod", SCRIPTS / "go" / "go.sum"]
    folder = once("go", inputs, lambda folder: quietly(
        [go, "build", "-mod=readonly", "-o", folder / "script", "."], cwd=SCRIPTS / "go"))
    return [folder / "script"]


def node():
    node, npm = need("node", "npm")
    manifests = [SCRIPTS / "node" / "package.json", SCRIPTS / "node" / "package-lock.json"]

    def install(folder):
        for manifest in manifests:
            shutil.copy(manifest, folder)
        quietly([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder)
    folder = once("node", manifests, install)
    return ["env", f"NODE_PATH={folder / 'node_modules'}", node, SCRIPTS / "node" / "script.js"]


def rust(*features):
    [cargo] = need("cargo")
    build = toolchain.TARGET / "-".join(["rust", *features])
    quietly([cargo, "build", "--locked", "--manifest-path", SCRIPTS / "rust" / "Cargo.toml",
             "--target-dir", build, "--features", ",".join(features)])
    return [build / "debug" / "script"]


CLIENTS = {
    "kazoo": kazoo,
    "java": java,
    "zkcli": zkcli,
    "curator": curator,
    "c": c,
    "go": go,
    "node": node,
    "rust": rust,
}
# In their place where TLS or SASL is wanted.
SECURE = CLIENTS | {
    "c": secure_c,
    "rust": functools.partial(rust, "secure"),
}

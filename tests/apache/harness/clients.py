"""The clients: how each is built, and the command that runs its script."""

import os
import pathlib
import shutil

from . import toolchain
from .toolchain import SCRIPTS, Missing, need, once, quietly


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
        install_c_client()
    sources = sorted((SCRIPTS / "c").glob("*.[ch]"))
    units = [source for source in sources if source.suffix == ".c"]
    folder = once("c", [*sources, header], lambda folder: quietly(
        [gcc, "-std=c11", "-D_GNU_SOURCE", "-DTHREADED", "-O1", "-Wall", "-Wextra", "-I", header.parent,
         "-o", folder / "script", *units, "-lzookeeper_mt", "-lpthread"]))
    return [folder / "script"]


def install_c_client():
    """Debian has the C client as a package; elsewhere it has to be there already."""
    package = "libzookeeper-mt-dev"
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


def rust():
    [cargo] = need("cargo")
    build = toolchain.TARGET / "rust"
    quietly([cargo, "build", "--locked", "--manifest-path", SCRIPTS / "rust" / "Cargo.toml",
             "--target-dir", build])
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

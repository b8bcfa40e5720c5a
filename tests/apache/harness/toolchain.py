"""Where things are, which tools there are, and how something is built once."""

import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parents[1]
SCRIPTS = HERE / "clients"
REPOSITORY = HERE.parents[1]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or REPOSITORY / "target").resolve() / "clients"


class Missing(Exception):
    """A toolchain that is not on this machine: what needs it is skipped, by its name."""


class Broken(Exception):
    """A build or an installation that failed."""


def need(*tools):
    """The paths of programs that have to be there; a JDK that JAVA_HOME names comes before the search path."""
    return [find(tool) for tool in tools]


def find(tool):
    home = os.environ.get("JAVA_HOME")
    found = home and shutil.which(tool, path=os.path.join(home, "bin")) or shutil.which(tool)
    if not found:
        raise Missing(tool)
    return found


def quietly(command, **options):
    """Runs a command at low priority; its output is shown only if it fails. Returns its standard output."""
    done = subprocess.run(["nice", *map(str, command)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, **options)
    if done.returncode != 0:
        raise Broken(f"`{' '.join(map(str, command))}` ended with code {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def once(name, inputs, build):
    """Calls `build` with a folder of its own unless that was done before with the same inputs; returns the folder.

    `inputs` are files and plain strings; a change of any of them makes a new folder and drops the old one. Several
    processes may ask for the same folder: one builds, the others wait.
    """
    digest = hashlib.sha256()
    for item in inputs:
        digest.update(item.read_bytes() if isinstance(item, pathlib.Path) else str(item).encode())
        digest.update(b"\0")
    TARGET.mkdir(parents=True, exist_ok=True)
    folder = TARGET / f"{name}-{digest.hexdigest()[:12]}"
    with open(TARGET / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / "done"
        if not done.exists():
            for old in TARGET.glob(f"{name}-{'?' * 12}"):
                shutil.rmtree(old)
            folder.mkdir()
            build(folder)
            done.touch()
    return folder


def jars(name, pom, *options):
    """The class path of what a pom names, with these options for Maven."""
    def fetch(folder):
        [mvn] = need("mvn")
        command = [mvn, "-q", "-B", "-f", pom, *options, "dependency:copy-dependencies", "-DincludeScope=runtime",
                   f"-DoutputDirectory={folder}"]
        try:
            quietly(command)
        except Broken:  # a download that broke off is worth a second try, and what came is kept
            quietly(command)
    folder = once(name, [pom, *options], fetch)
    return os.pathsep.join(sorted(map(str, folder.glob("*.jar"))))


def prepare(builders):
    """The command of each client that could be prepared, how many were skipped, which is said, and what could not be built."""
    commands, skipped, failures = {}, 0, []
    for name, build in builders.items():
        try:
            commands[name] = build()
        except Missing as tool:
            skipped += 1
            print(f"{name}: skipped: {tool} is missing", flush=True)
        except Broken as error:
            failures.append(f"{name} could not be built: {error}")
    return commands, skipped, failures

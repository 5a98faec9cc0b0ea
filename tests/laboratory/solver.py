"""Lets dnf5 solve the installation of packages from a stack's repository and a release's, then
again without each of the stack's packages, and with a requirement added to each.

usage: solver.py release TABLE... --to FOLDER --known JSON
       solver.py solve STACK RELEASE --install PACKAGE [--also PACKAGE...] [--each PACKAGE...]

`release` writes the repository metadata of a release from package tables and additional facts:
`{"package": {"dists": [NAME], "requires": [NAME], "provides": [NAME]}}`, where dists and requires
are names of Python distributions. `solve` prints JSON.

The metadata's format is that of createrepo_c's own output; see the README of
rpm-software-management/createrepo_c, and libsolv's ext/repo_rpmmd.c, which reads it.
"""

import argparse
import concurrent.futures
import gzip
import hashlib
import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from compression import zstd
from xml.sax.saxutils import quoteattr

COMMON = "http://linux.duke.edu/metadata/common"
RPM = "http://linux.duke.edu/metadata/rpm"
REPO = "http://linux.duke.edu/metadata/repo"
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
NOTHING = "libnothing.so.1()(64bit)"


def generator():
    """Returns rpm's own generator of python3dist(), which knows how versions are written."""
    spec = importlib.util.spec_from_file_location("pythondistdeps", "/usr/lib/rpm/pythondistdeps.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def normalized(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def write_repodata(folder, packages):
    """Writes the metadata of a repository from its packages' elements."""
    repodata = folder / "repodata"
    repodata.mkdir(parents=True)
    primary = f'<metadata xmlns="{COMMON}" xmlns:rpm="{RPM}" packages="{len(packages)}">\n{"".join(packages)}</metadata>\n'.encode()
    (repodata / "primary.xml").write_bytes(primary)
    digest = hashlib.sha256(primary).hexdigest()
    (repodata / "repomd.xml").write_text(
        f'<repomd xmlns="{REPO}"><revision>1</revision><data type="primary">'
        f'<checksum type="sha256">{digest}</checksum><open-checksum type="sha256">{digest}</open-checksum>'
        f'<location href="repodata/primary.xml"/><timestamp>1</timestamp><size>{len(primary)}</size>'
        f"<open-size>{len(primary)}</open-size></data></repomd>\n"
    )


def entry(text):
    """Writes `name` or `name = version` as an element of Provides."""
    name, _, evr = text.partition(" = ")
    if not evr:
        return f"<rpm:entry name={quoteattr(name)}/>"
    epoch, _, version = evr.rpartition(":")
    version, _, release = version.partition("-")
    rel = f" rel={quoteattr(release)}" if release else ""
    return f'<rpm:entry name={quoteattr(name)} flags="EQ" epoch={quoteattr(epoch or "0")} ver={quoteattr(version)}{rel}/>'


def package(name, evr, provides, requires=()):
    """Writes a package's element."""
    epoch, _, version = evr.rpartition(":")
    provides = [f"{name} = {evr}-1", f"{name}(x86-64) = {evr}-1", *provides]
    return (
        f'<package type="rpm"><name>{name}</name><arch>x86_64</arch>'
        f'<version epoch={quoteattr(epoch or "0")} ver={quoteattr(version)} rel="1"/>'
        f'<checksum type="sha256" pkgid="YES">{hashlib.sha256(name.encode()).hexdigest()}</checksum>'
        f'<summary/><description/><packager/><url/><time file="1" build="1"/>'
        f'<size package="1" installed="1" archive="1"/><location href={quoteattr(name + ".rpm")}/>'
        f'<format><rpm:license/><rpm:provides>{"".join(map(entry, provides))}</rpm:provides>'
        f'<rpm:requires>{"".join(map(entry, requires))}</rpm:requires></format></package>\n'
    )


def projects(package, known):
    """Returns the distributions of a package: `x[extra]` in python3-x+extra."""
    found = known.get("dists", [])
    if package.startswith("python3-"):
        project, *extras = package.removeprefix("python3-").split("+")
        found = [*found, normalized(project) + "".join(f"[{extra}]" for extra in extras)]
    return found


def release(tables, known, folder):
    """Writes a release's repository from tables of names, versions and packages."""
    known = json.loads(pathlib.Path(known).read_text())
    rpm_version = generator().RpmVersion
    versions, provided = {}, {}
    for line in "".join(pathlib.Path(table).read_text() for table in tables).splitlines():
        if not line or line.startswith("#"):
            continue
        name, evr, *by = line.split("\t")
        if by:
            provided.setdefault(by[0], []).append(f"{name} = {evr}" if evr else name)
        else:
            versions.setdefault(name, evr)
    packages = []
    for name, evr in versions.items():
        provides = provided.get(name, []) + known.get(name, {}).get("provides", [])
        if dists := projects(name, known.get(name, {})):
            version = evr.rpartition(":")[2].replace("~", "").replace("^", "+")
            try:
                version = f" = {rpm_version(version)}" if version else ""
            except Exception:  # not a Python version: rpm would use it as is
                version = f" = {version}"
            provides += [f"python{python}dist({project}){version}" for project in dists for python in ("3", PYTHON)]
        # Treat an unknown version as old.
        requires = [f"python{PYTHON}dist({dist})" for dist in known.get(name, {}).get("requires", [])]
        packages.append(package(name, evr or "0", provides, requires))
    write_repodata(folder, packages)
    return {"packages": len(packages), "sizes": (folder / "repodata/primary.xml").stat().st_size}


def dnf(repositories, install, cache, *options):
    """Lets dnf5 solve; returns the packages that it would install and remove, and its output."""
    command = ["dnf5", f"--installroot={cache}/root", "--releasever=43", "--use-host-config"]
    command += ["--setopt=reposdir=/nonexistent", f"--setopt=cachedir={cache}/cache", "--setopt=gpgcheck=0"]
    command += ["--setopt=install_weak_deps=0", "--setopt=optional_metadata_types=", *options]
    for at, repository in enumerate(repositories):
        command.append(f"--repofrompath=r{at},file://{repository}")
    command += ["--assumeno", "install", *install]
    done = subprocess.run(command, capture_output=True, text=True, env={"PATH": "/usr/bin:/usr/sbin", "LANG": "C.UTF-8"})
    transaction, section = {}, ""
    for line in done.stdout.splitlines():
        if re.match(r"[A-Z].*:$", line):
            section = line.rstrip(":")
        found = re.match(r" (\S+) +(x86_64|noarch) +(\S+) +(\S+) ", line)
        if found and section:
            transaction.setdefault(section, {})[found[1]] = found[3]
    return transaction, done.stdout + done.stderr


def elements(repository):
    """Returns the packages of a repository: their elements by name."""
    (primary,) = pathlib.Path(repository, "repodata").glob("*primary.xml*")
    opened = {".xml": open, ".gz": gzip.open, ".zst": zstd.open}[primary.suffix](primary, "rb")
    ET.register_namespace("", COMMON)
    ET.register_namespace("rpm", RPM)
    found = {}
    for _, element in ET.iterparse(opened):
        if element.tag == f"{{{COMMON}}}package":
            found[element.find(f"{{{COMMON}}}name").text] = ET.tostring(element, encoding="unicode")
            element.clear()
    return found


def with_missing_library(element):
    """Adds a library that no package provides to a package's requirements."""
    package = ET.fromstring(element)
    relations = package.find(f"{{{COMMON}}}format")
    requires = relations.find(f"{{{RPM}}}requires")
    if requires is None:
        requires = ET.SubElement(relations, f"{{{RPM}}}requires")
    ET.SubElement(requires, f"{{{RPM}}}entry", name=NOTHING)
    return ET.tostring(package, encoding="unicode")


def solve(stack, release, install, also, each):
    """Solves in full, with additional packages, and then with only the solution's packages: all of
    them, without each of the stack's, and with one more requirement for each of the stack's."""
    cache = tempfile.mkdtemp()
    repositories = [stack, release]
    transaction, output = dnf(repositories, [install], cache)
    result = {"transaction": transaction, "output": output}
    if also:
        result["also"], result["also-output"] = dnf(repositories, [install, *also], cache)
    result["each"] = {}
    for name in each:
        found, words = dnf(repositories, [name], cache)
        result["each"][name] = {"transaction": found, "output": words}
    taken = {name for section in transaction.values() for name in section}
    own = elements(stack)
    packages = {name: text for name, text in (elements(release) | own).items() if name in taken}
    missing = sorted(taken - set(packages))
    if missing:
        sys.exit(f"error: dnf5 installs packages that no repository has: {missing}")

    def over(packages):
        with tempfile.TemporaryDirectory() as folder:
            write_repodata(pathlib.Path(folder, "r"), list(packages.values()))
            found, words = dnf([f"{folder}/r"], [install], folder)
            return {"solved": bool(found), "output": words}

    def without(name):
        return name, over({other: text for other, text in packages.items() if other != name})

    def requiring(name):
        return name, over(packages | {name: with_missing_library(packages[name])})

    # The packages of the solution alone must suffice, so that failures below are caused by one
    # package.
    result["alone"] = over(packages)
    wanted = sorted(taken & set(own))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        result["without"] = dict(pool.map(without, wanted))
        result["requiring"] = dict(pool.map(requiring, wanted))
    shutil.rmtree(cache)
    return result


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("release")
    command.add_argument("tables", nargs="+")
    command.add_argument("--to", type=pathlib.Path, required=True)
    command.add_argument("--known", required=True)
    command = commands.add_parser("solve")
    command.add_argument("stack")
    command.add_argument("release")
    command.add_argument("--install", required=True)
    command.add_argument("--also", nargs="*", default=[])
    command.add_argument("--each", nargs="*", default=[])
    args = parser.parse_args()
    if args.command == "release":
        result = release(args.tables, args.known, args.to)
    else:
        result = solve(args.stack, args.release, args.install, args.also, args.each)
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()

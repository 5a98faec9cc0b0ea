#!/usr/bin/python3 -B
"""Updates tools/advisories/ from a clone of https://github.com/rustsec/advisory-db.

Usage: tools/advisories.py CLONE

Keeps the advisories for crates in Cargo.lock or fuzz/Cargo.lock, with the fields that decide
whether a version is affected, but without upstream's texts. tests/advisories.rs reads them.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = ROOT / "tools/advisories"
FIELDS = ("id", "package", "date", "informational", "withdrawn", "aliases", "cvss")


def crates():
    for lock in (ROOT / "Cargo.lock", ROOT / "fuzz/Cargo.lock"):
        yield from (package["name"] for package in tomllib.loads(lock.read_text())["package"])


def literal(value):
    if isinstance(value, list):
        return "[" + ", ".join(literal(item) for item in value) + "]"
    return "'" + str(value) + "'"


def facts(path):
    """Returns an advisory in RustSec's format, without its texts."""
    found = re.match(r"```toml\n(.*?)```", path.read_text(), re.DOTALL)
    if not found:
        sys.exit(f"error: {path} has no TOML block")
    document = tomllib.loads(found[1])
    advisory, versions = document["advisory"], document["versions"]
    lines = ["```toml", "[advisory]"]
    lines += [f"{field} = {literal(advisory[field])}" for field in FIELDS if field in advisory]
    lines += ["", "[versions]"]
    lines += [f"{field} = {literal(versions[field])}" for field in ("patched", "unaffected") if field in versions]
    lines += ["```", "", f"# {advisory['id']}", "", f"See https://rustsec.org/advisories/{advisory['id']}", ""]
    return "\n".join(lines)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    clone = pathlib.Path(sys.argv[1])
    if not (clone / "crates").is_dir():
        sys.exit(f"error: {clone} is not a clone of advisory-db: it does not have a folder `crates`")
    day = subprocess.run(["git", "-C", clone, "log", "-1", "--format=%cs"], check=True, capture_output=True, text=True)
    shutil.rmtree(TARGET, ignore_errors=True)
    count = 0
    for crate in sorted(set(crates())):
        for path in sorted((clone / "crates" / crate).glob("RUSTSEC-*.md")):
            target = TARGET / "crates" / crate / path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(facts(path))
            count += 1
    # A crate that is added to a lock file later is not covered: the test requires an update.
    covered = {"as-of": day.stdout.strip(), "crates": sorted(set(crates()))}
    lines = [f"as-of = {literal(covered['as-of'])}", "crates = ["]
    lines += [f"    {literal(crate)}," for crate in covered["crates"]] + ["]", ""]
    (TARGET / "covered.toml").write_text("\n".join(lines))
    print(f"{count} advisories as of {day.stdout.strip()}")


main()

"""Compares a locked closure with the laboratory.

    table  LOCK GENERATED PROVIDES          prints a package table of the laboratory's packages, without
                                            the members that are locked as private or as RPMs
    refuse TABLE CLOSURE.json               removes packages that the closure does not take from the
                                            system from the table; exits with 1 if it removed any
    prove  LOCK GENERATED OURS CLOSURE.json fails unless the members that are locked as private or as
                                            RPMs have the locked files; prints where members come from

LOCK and GENERATED are the lock and the folder of a pin set for one chroot, OURS is the lock that the
laboratory resolved, PROVIDES has lines `python3.14dist(NAME) = VERSION`.
"""

import json
import pathlib
import re
import sys
import tomllib

# Fedora's packages whose name differs from the distribution, as in
# crates/rocmrpm-core/src/packages/dists.rs.
PACKAGES = {
    "py-cpuinfo": "python3-cpuinfo",
    "pyjwt": "python3-jwt",
    "python-dateutil": "python3-dateutil",
    "python-dotenv": "python3-dotenv",
    "python-json-logger": "python3-json-logger",
    "pyzmq": "python3-zmq",
    "supervisor": "supervisor",
}


# Debian's uvicorn works with these, but fastapi's extra `standard` does not.
TOO_OLD = {"httptools"}


def package(name):
    return PACKAGES.get(name, f"python3-{name}")


def locked(path):
    """Returns versions and digests of the members from an index, by name."""
    members, name = {}, None
    for line in pathlib.Path(path).read_text().splitlines():
        if pinned := re.match(r"([a-z0-9-]+)==(\S+)", line):
            name = pinned[1]
            members[name] = (pinned[2], [])
        elif digest := re.match(r"    --hash=(\S+)", line):
            members[name][1].append(digest[1])
    return members


def installed(generated):
    """Returns the members that the stack installs: the private ones, and those with an RPM."""
    generated = pathlib.Path(generated)
    closure = tomllib.loads((generated / "closure.toml").read_text())
    private = set(closure.get("private", ()))
    # The package of the private members is named after the component.
    rpms = {file.parent.name for file in generated.glob("*/component.toml")}
    return private, rpms


def table(lock, generated, provides):
    names = set(locked(lock))
    private, rpms = installed(generated)
    rows = {}
    for line in pathlib.Path(provides).read_text().splitlines():
        if found := re.match(r"python3\.\d+dist\(([a-z0-9-]+)\) = (\S+)", line):
            rows[found[1]] = found[2]
    for name, version in sorted(rows.items()):
        if name not in (private | rpms) & names and name not in TOO_OLD:
            print(f"{package(name)}\t{version}")


def refuse(path, closure):
    closure = json.loads(pathlib.Path(closure).read_text())
    # The laboratory's components use Debian's packages of the same name.
    refused = {
        package(one["name"]) for one in closure["members"] if one["place"] != "system" and not one["made_by"]
    }
    lines = pathlib.Path(path).read_text().splitlines()
    kept = [line for line in lines if line.split("\t")[0] not in refused]
    pathlib.Path(path).write_text("".join(f"{line}\n" for line in kept))
    sys.exit(1 if len(kept) < len(lines) else 0)


def prove(lock, generated, ours, closure):
    wanted, found = locked(lock), locked(ours)
    private, rpms = installed(generated)
    rpms &= set(wanted)
    closure = json.loads(pathlib.Path(closure).read_text())
    places = {one["name"]: one["place"] for one in closure["members"]}
    versions = {one["name"]: (one["offer"] or {}).get("version") for one in closure["members"]}
    wrong = [
        f"{name}: {wanted[name][0]} is locked, the laboratory has {found.get(name, ('nothing',))[0]}, {places.get(name)}"
        for name in sorted(private | rpms)
        if places.get(name) != "dropped" and (found.get(name) != wanted[name] or places[name] not in ("private", "rpm"))
    ]
    moved = sorted(name for name in rpms if places.get(name) == "private")
    dropped = sorted(name for name in private | rpms if places.get(name) == "dropped")
    system = sorted(name for name in set(wanted) - private - rpms if places.get(name) == "system")
    added = sorted(name for name in places if name not in private | rpms and places[name] in ("private", "rpm"))
    print(f"locked files: {len(private | rpms) - len(dropped)} of {len(private | rpms)} members, {len(private)} private")
    for what, names in [
        ("an RPM in the stack, private here", moved),
        ("omitted here", dropped),
        ("from the release, here from the index", [f"{name} {found[name][0]}" for name in added if name in found]),
    ]:
        if names:
            print(f"{what}: {', '.join(names)}")
    print("from the release, here Debian's:", ", ".join(f"{name} {wanted[name][0]} -> {versions[name]}" for name in system))
    if wrong:
        sys.exit("error: these members differ from the lock\n" + "\n".join(wrong))


if __name__ == "__main__":
    {"table": table, "refuse": refuse, "prove": prove}[sys.argv[1]](*sys.argv[2:])

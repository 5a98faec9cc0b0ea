"""Writes records of the laboratory's runs, and the table of all records.

usage: evidence.py record WORKSPACE CHROOT COMPONENT COMMAND STAGE SECONDS [INPUT=FILE]...
       evidence.py table [--check]

`record` writes docs/stack/evidence/COMPONENT.PINS.CHROOT.toml after a run in WORKSPACE: what was
built from which inputs, where, when, how long it took, and the last stage that it reached. STAGE
is that stage, or `failed` to derive it from the build's log. The time is wall time: that in the
build's times.json, or SECONDS if the build failed. `table` writes docs/stack/evidence.md from all
records; `table --check` compares. Run it in the repository's root.
"""

import datetime
import hashlib
import json
import os
import pathlib
import sys
import tomllib

STAGES = ["prepared", "configured", "compiled", "inspected", "installed"]
FIELDS = {
    "component": str, "pins": str, "version": str, "chroot": str, "rocm": str, "gpu-targets": list,
    "command": str, "machine": str, "date": str, "seconds": int, "stage": str, "result": str,
    "inputs": dict, "outputs": dict,
}
FOLDER = pathlib.Path("docs/stack/evidence")
TABLE = pathlib.Path("docs/stack/evidence.md")
HEAD = """\
# What has been compiled

This page is generated from the records in `docs/stack/evidence/` by
`tests/laboratory/evidence.py table`. A run in the laboratory writes a record; see the
[laboratory](../contributing/laboratory.md). A stage that no run has reached with the pinned version
has no mark. A failed run shows the stages before the failure.

| component | pin set | version | ROCm | {stages} | time | date | command |
|---|---|---|---|{rule}|---|---|---|
"""


def digest(path):
    return "sha256:" + hashlib.file_digest(open(path, "rb"), "sha256").hexdigest()


def machine():
    """Describes this machine by what limits a build: cores, memory, and distribution."""
    memory = int(pathlib.Path("/proc/meminfo").read_text().split()[1]) / 1024 / 1024
    names = dict(line.split("=", 1) for line in pathlib.Path("/etc/os-release").read_text().splitlines() if "=" in line)
    return f"{os.cpu_count()} cores, {memory:.0f} GiB of memory, {names['PRETTY_NAME'].strip(chr(34))}"


def reached(log):
    """Returns the last stage in the log of a failed build, or nothing."""
    text = log.read_text(errors="replace") if log.exists() else ""
    if "-- Build files have been written to" in text:
        return "configured"
    return "prepared" if "Executing(%build)" in text else ""


def text_of(value):
    """Formats a value of a record as TOML."""
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(text_of, value)) + "]"
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def write(record):
    lines = [f"{key} = {text_of(value)}" for key, value in record.items() if not isinstance(value, dict)]
    for key, value in record.items():
        if isinstance(value, dict):
            lines += ["", f"[{key}]"] + [f"{text_of(name)} = {text_of(of)}" for name, of in sorted(value.items())]
    FOLDER.mkdir(parents=True, exist_ok=True)
    name = f"{record['component']}.{record['pins']}.{record['chroot']}.toml"
    (FOLDER / name).write_text("\n".join(lines) + "\n")


def record(workspace, chroot, component, command, stage, seconds, *inputs):
    workspace = pathlib.Path(workspace)
    settings = tomllib.loads((workspace / "mock-configs" / f"{chroot}.toml").read_text())
    provider = tomllib.loads((workspace / "mock-configs/rocm" / f"{settings['rocm-provider']}.toml").read_text())
    stack = tomllib.loads((workspace / "rocmrpm.toml").read_text())["stack"]
    pins = stack["default-pins"]
    work = workspace / "build" / chroot / "work" / component
    results = workspace / "build" / chroot / "results" / component
    # The spec, its patches, and its sources.
    files = {path.name: path for path in (work / "sources").glob("*") if path.is_file()}
    files |= dict(entry.split("=", 1) for entry in inputs)
    date, times = datetime.date.today().isoformat(), results / "times.json"
    if stage != "failed" and times.exists():
        # The build may be of an earlier run.
        times = json.loads(times.read_text())
        date, seconds = times["finished"][:10], sum(times["seconds"].values())
    write({
        "component": component, "pins": pins,
        "version": tomllib.loads((workspace / "pins" / f"{pins}.toml").read_text())[component]["version"],
        "chroot": chroot, "rocm": provider["version"], "gpu-targets": stack["gpu-targets"],
        "command": command, "machine": machine(), "date": date,
        "seconds": int(seconds), "stage": reached(work / "logs/build.log") if stage == "failed" else stage,
        "result": "failed" if stage == "failed" else "ok",
        "inputs": {name: digest(path) for name, path in files.items()},
        "outputs": {} if stage == "failed" else {path.name: digest(path) for path in results.glob("*.x86_64.rpm")},
    })


def read(path):
    """Reads a record, and checks its fields."""
    values = tomllib.loads(path.read_text())
    if set(values) != set(FIELDS) or any(not isinstance(values[key], kind) for key, kind in FIELDS.items()):
        sys.exit(f"error: {path}: expected the fields {', '.join(FIELDS)}\nhelp: write it with tests/laboratory/evidence.py")
    if values["stage"] not in ["", *STAGES] or values["result"] not in ["ok", "failed"]:
        sys.exit(f"error: {path}: unknown stage `{values['stage']}` or result `{values['result']}`")
    return values


def time_of(seconds):
    return f"{seconds // 60} min {seconds % 60} s" if seconds >= 60 else f"{seconds} s"


def table():
    """Returns the page: a line for each record with a pinned version, and for each pin without one."""
    records = [read(path) for path in sorted(FOLDER.glob("*.toml"))]
    components = sorted(path.parent.name for path in pathlib.Path("specs-templates").glob("*/component.toml"))
    lines = []
    for pins in sorted(path for path in pathlib.Path("pins").glob("*.toml") if "." not in path.stem):
        pinned = tomllib.loads(pins.read_text())
        for component in (name for name in components if name in pinned):
            version = pinned[component]["version"]
            found = [r for r in records if (r["component"], r["pins"], r["version"]) == (component, pins.stem, version)]
            for r in found or [None]:
                count = STAGES.index(r["stage"]) + 1 if r and r["stage"] else 0
                cells = ["yes"] * count + (["failed"] if r and r["result"] == "failed" and count < len(STAGES) else [])
                cells += [""] * (len(STAGES) - len(cells))
                about = [r["rocm"], *cells, time_of(r["seconds"]), r["date"], f"`{r['command']}`"] if r else ["", *cells, "", "", ""]
                lines.append("| " + " | ".join([component, pins.stem, version, *about]) + " |")
    return HEAD.format(stages=" | ".join(STAGES), rule="|".join(["---"] * len(STAGES))) + "\n".join(lines) + "\n"


def main():
    match sys.argv[1:]:
        case ["table"]:
            TABLE.write_text(table())
        case ["table", "--check"]:
            if not TABLE.exists() or TABLE.read_text() != table():
                sys.exit(f"error: {TABLE} is out of date\nhelp: python3 tests/laboratory/evidence.py table")
        case ["record", workspace, chroot, component, command, stage, seconds, *inputs]:
            record(workspace, chroot, component, command, stage, seconds, *inputs)
            TABLE.write_text(table())
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()

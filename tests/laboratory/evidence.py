"""Writes records of the laboratory's runs, and the page that shows them.

usage: evidence.py record WORKSPACE CHROOT COMPONENT COMMAND STAGE STATUS SECONDS [INPUT=FILE]...
       evidence.py table [--check]

`record` writes docs/stack/evidence/COMPONENT.PINS.CHROOT.toml after a build in WORKSPACE: what was
built from which inputs, where, when, how long it took, and the last stage that it reached. STAGE
is that stage, or `failed` to derive it from the build's log. STATUS is the exit status of the run.
Sources, packages, and times are those in the build's build.json and times.json; the time is wall
time. If the build failed, it is SECONDS. `table` writes docs/stack/evidence.md from all
records; `table --check` compares. Run it in the repository's root.

Other scripts describe their run with `described` and pass the record to `write`. FIELDS defines
what a record contains; the page shows it.
"""

import datetime
import hashlib
import json
import os
import pathlib
import re
import sys
import tomllib

# Stages of a build, in their order.
STAGES = ["prepared", "configured", "compiled", "inspected", "installed"]
# The stage of a run that compiled kernels of a component, without building its package.
KERNELS = "kernels"
RESULTS = ["ok", "incomplete", "failed"]
# What became of a kernel.
KINDS = ["compiled", "too large", "failed", "not launched"]
ALWAYS, BUILDS, OF_KERNELS = "always", "builds", "kernels"
# Each field of a record: its type, the runs that have it, and its meaning.
FIELDS = {
    "component": (str, ALWAYS, "the component"),
    "pins": (str, ALWAYS, "the pin set"),
    "version": (str, ALWAYS, "the component's version in the pin set"),
    "chroot": (str, BUILDS, "the chroot"),
    "rocm": (str, BUILDS, "the version of the chroot's ROCm provider"),
    "triton": (str, OF_KERNELS, "the version of the compiler"),
    "gpu-targets": (list, ALWAYS, "the GPU targets"),
    "command": (str, ALWAYS, "the command of the run"),
    "machine": (str, ALWAYS, "the processor, and what else limits a build: cores, memory, distribution"),
    "date": (str, ALWAYS, "the day on which the run ended, as YYYY-MM-DD"),
    "seconds": (int, ALWAYS, "the wall time of a build; the compiler's time, summed over all kernels"),
    "stage": (str, ALWAYS, f"the last stage of a build that succeeded: {', '.join(STAGES)}, or empty; `{KERNELS}`"),
    "result": (str, ALWAYS, f"{', '.join(RESULTS)}; `incomplete` if a run was stopped and can be resumed"),
    "not-launched": (list, OF_KERNELS, "the kernels that nothing launched"),
    "inputs": (dict, ALWAYS, "each input's digest: `sha256:` of a file or a list of files, or `git:` and a commit"),
    "outputs": (dict, ALWAYS, "each output's digest"),
    "kernels": (dict, OF_KERNELS, f"the number of kernels by result ({', '.join(KINDS)}), of code objects, and of"
                " the code objects of which they are a sample"),
    "failed": (dict, OF_KERNELS, "the first error of each kernel that is not usable"),
}
FOLDER = pathlib.Path("docs/stack/evidence")
TABLE = pathlib.Path("docs/stack/evidence.md")
PAGE = """\
# What has been compiled

This page is generated from the records in `docs/stack/evidence/` by
`tests/laboratory/evidence.py table`. A run in the laboratory writes a record; see the
[laboratory](../contributing/laboratory.md). The tables show the records of pinned versions.

## Components

A stage that no run has reached with the pinned version has no mark. A failed run shows the stages
before the failure.

| component | pin set | version | ROCm | {stages} | time | date | command |
|---|---|---|---|{rule}|---|---|---|
{builds}
## Triton kernels

`make lab-kernels` compiles the kernels of each component for gfx1151 by the released Triton,
without a GPU. `rocm-inspect` found a kernel for gfx1151 in each code object. That a kernel compiles
does not show that it is correct or fast.

| component | pin set | version | Triton | kernels | compiled | need more LDS | failed | not launched | code objects | time | date | result |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
{kernels}
- A kernel counts as compiled if one of its variants compiles and needs at most 64 KiB of LDS.
- Kernels that are not launched by any test here include those that the package never launches on
  gfx1151. The records list them, and the first error of those that fail.
- The time is that of the compiler, on a machine that was busy with other work.
- AOTriton's kernels are a sample: the number of code objects is that of the sample, with equal parts
  of each kernel.

## Records

The file `COMPONENT.PINS.RUN.toml` has the last record of a run. RUN is the chroot of a build, or
`kernels`.

| field | in records of | meaning |
|---|---|---|
{fields}"""


def digest(path):
    """Returns the digest of a file in a record's form."""
    with open(path, "rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()


def machine():
    """Describes this machine by what limits a build."""
    found = re.search(r"(?m)^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text())
    processor = found[1] if found else os.uname().machine
    memory = int(pathlib.Path("/proc/meminfo").read_text().split()[1]) / 1024 / 1024
    names = dict(line.split("=", 1) for line in pathlib.Path("/etc/os-release").read_text().splitlines() if "=" in line)
    system = names["PRETTY_NAME"].strip('"')
    return f"{processor}, {os.cpu_count()} cores, {memory:.0f} GiB of memory, {system}"


def described(component, pins, **fields):
    """Returns a record of a run that ends now on this machine; `pins` is the file of the pin set."""
    pin = tomllib.loads(pins.read_text())[component]
    today = {"machine": machine(), "date": datetime.date.today().isoformat()}
    return {"component": component, "pins": pins.stem, "version": pin["version"], **today, **fields}


def write(record):
    """Checks a record, writes its file and the page, and returns the file."""
    run = record.get("chroot", KERNELS)
    path = FOLDER / f"{record['component']}.{record['pins']}.{run}.toml"
    check(path, record)
    FOLDER.mkdir(parents=True, exist_ok=True)
    path.write_text(as_toml(record))
    TABLE.write_text(table())
    return path


def as_toml(record):
    """Formats a record in the order of FIELDS; JSON's texts, numbers, and lists are TOML's, too."""
    lines, tables = [], []
    for field in (field for field in FIELDS if field in record):
        value = record[field]
        if isinstance(value, dict):
            pairs = [f"{json.dumps(name)} = {json.dumps(of)}" for name, of in sorted(value.items())]
            tables += ["", f"[{field}]", *pairs]
        else:
            lines.append(f"{field} = {json.dumps(value)}")
    return "\n".join(lines + tables) + "\n"


def check(path, record):
    """Ends the program if a record does not have the fields of its kind of run."""
    runs = [ALWAYS, OF_KERNELS if record.get("stage") == KERNELS else BUILDS]
    wanted = {field: kind for field, (kind, of, _) in FIELDS.items() if of in runs}
    problem = None
    if set(record) != set(wanted):
        problem = f"expected the fields {', '.join(wanted)}"
    elif wrong := [field for field, kind in wanted.items() if not isinstance(record[field], kind)]:
        problem = f"the type of `{wrong[0]}` is wrong"
    elif record["stage"] not in ["", *STAGES, KERNELS] or record["result"] not in RESULTS:
        problem = f"unknown stage `{record['stage']}` or result `{record['result']}`"
    elif record["result"] == "ok" and not record["outputs"]:
        problem = "a run that succeeded has outputs"
    else:
        for name, value in {**record["inputs"], **record["outputs"]}.items():
            if not re.fullmatch("sha256:[0-9a-f]{64}|git:[0-9a-f]{40}", value):
                problem = f"the digest of `{name}` is neither `sha256:` nor `git:`"
    if problem:
        sys.exit(f"error: {path}: {problem}\nhelp: write it with tests/laboratory/evidence.py")


def reached(log):
    """Returns the last stage in the log of a failed build, or nothing."""
    text = log.read_text(errors="replace") if log.exists() else ""
    if "-- Build files have been written to" in text:
        return "configured"
    return "prepared" if "Executing(%build)" in text else ""


def record(workspace, chroot, component, command, stage, status, seconds, *inputs):
    """Writes the record of a build."""
    workspace = pathlib.Path(workspace)
    settings = tomllib.loads((workspace / "mock-configs" / f"{chroot}.toml").read_text())
    provider = tomllib.loads((workspace / "mock-configs/rocm" / f"{settings['rocm-provider']}.toml").read_text())
    stack = tomllib.loads((workspace / "rocmrpm.toml").read_text())["stack"]
    work = workspace / "build" / chroot / "work" / component
    results = workspace / "build" / chroot / "results" / component
    files, outputs, run = {}, {}, {"seconds": int(seconds)}
    # A script that is stopped by a signal may have the status of the command before.
    ok = status == "0" and stage != "failed"
    if stage == "failed":
        stage = reached(work / "logs/build.log")
        files = {path.name: digest(path) for path in (work / "sources").glob("*") if path.is_file()}
    else:
        build, times = (json.loads((results / name).read_text()) for name in ("build.json", "times.json"))
        # The build may be of an earlier run.
        run = {"date": times["finished"][:10], "seconds": int(sum(times["seconds"].values()))}
        made = {file["file"]: f"sha256:{file['sha256']}" for file in build["outputs"]}
        outputs = {name: of for name, of in made.items() if name.endswith(".rpm") and not name.endswith(".src.rpm")}
        files = {file["file"]: f"sha256:{file['sha256']}" for file in build["sources"]}
        files |= {name: of for name, of in made.items() if name.endswith(".spec")}
    files |= {name: digest(path) for name, path in (entry.split("=", 1) for entry in inputs)}
    write(described(component, workspace / "pins" / f"{stack['default-pins']}.toml", **{
        "chroot": chroot, "rocm": provider["version"], "gpu-targets": stack["gpu-targets"], "command": command,
        "stage": stage, "result": "ok" if ok else "failed", "inputs": files, "outputs": outputs, **run,
    }))


def read(path):
    """Reads a record, and checks it."""
    values = tomllib.loads(path.read_text())
    check(path, values)
    return values


def time_of(seconds):
    return f"{seconds // 60} min {seconds % 60} s" if seconds >= 60 else f"{seconds} s"


def row(cells):
    return "| " + " | ".join(map(str, cells)) + " |\n"


def build_row(component, pins, version, found):
    """Returns a line of the table of components; `found` is a record, or nothing."""
    if found is None:
        return row([component, pins, version, "", *[""] * len(STAGES), "", "", ""])
    count = STAGES.index(found["stage"]) + 1 if found["stage"] else 0
    cells = ["yes"] * count + (["failed"] if found["result"] == "failed" and count < len(STAGES) else [])
    cells += [""] * (len(STAGES) - len(cells))
    about = [time_of(found["seconds"]), found["date"], f"`{found['command']}`"]
    return row([component, pins, version, found["rocm"], *cells, *about])


def kernels_row(found):
    """Returns a line of the table of kernels."""
    kernels, objects, total = found["kernels"], *(found["kernels"][key] for key in ("code objects", "sampled from"))
    counts = [kernels[kind] for kind in KINDS]
    return row([
        found["component"], found["pins"], found["version"], found["triton"], sum(counts), *counts,
        f"{objects} of {total}" if total > objects else objects,
        time_of(found["seconds"]), found["date"], found["result"],
    ])


def table():
    """Returns the page: the records of pinned versions, and a line for each pin without a build."""
    records = [read(path) for path in sorted(FOLDER.glob("*.toml"))]
    components = sorted(path.parent.name for path in pathlib.Path("specs-templates").glob("*/component.toml"))
    builds, kernels = "", ""
    for pins in sorted(path for path in pathlib.Path("pins").glob("*.toml") if "." not in path.stem):
        pinned = tomllib.loads(pins.read_text())
        for component in (name for name in components if name in pinned):
            version = pinned[component]["version"]
            found = [r for r in records if (r["component"], r["pins"], r["version"]) == (component, pins.stem, version)]
            of_builds = [r for r in found if r["stage"] != KERNELS]
            builds += "".join(build_row(component, pins.stem, version, r) for r in of_builds or [None])
            kernels += "".join(kernels_row(r) for r in found if r["stage"] == KERNELS)
    runs = {ALWAYS: "all runs", BUILDS: "builds", OF_KERNELS: "kernels"}
    fields = "".join(row([f"`{field}`", runs[of], meaning]) for field, (_, of, meaning) in FIELDS.items())
    rule = "|".join(["---"] * len(STAGES))
    return PAGE.format(stages=" | ".join(STAGES), rule=rule, builds=builds, kernels=kernels, fields=fields)


def main():
    match sys.argv[1:]:
        case ["table"]:
            TABLE.write_text(table())
        case ["table", "--check"]:
            if not TABLE.exists() or TABLE.read_text() != table():
                sys.exit(f"error: {TABLE} is out of date\nhelp: python3 tests/laboratory/evidence.py table")
        case ["record", workspace, chroot, component, command, stage, status, seconds, *inputs]:
            record(workspace, chroot, component, command, stage, status, seconds, *inputs)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()

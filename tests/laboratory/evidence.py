"""Writes records of the laboratory's runs, and the tables that show them.

usage: evidence.py record WORKSPACE CHROOT COMPONENT COMMAND STAGE STATUS SECONDS [DEVICE] [INPUT=FILE|INPUT=git:COMMIT]...
       evidence.py wheels VERSION TARGET COMMAND SECONDS RESULTS SUITE [FILE]...
       evidence.py table [--check]

`record` writes docs/stack/evidence/COMPONENT.PINS.CHROOT.toml after a build in WORKSPACE: what was
built from which inputs, where, when, how long it took, and the last stage that it reached. STAGE
is that stage, or `failed` to derive it from the build's log. STATUS is the exit status of the run.
Sources, packages, GPU code, and times are those in the build's results; the time is wall time. If the
build failed, it is SECONDS. DEVICE is that of the stage `ran`. If the workspace has another version
than pins/PINS.toml, the record has both, and the pages show it apart. `table` writes
docs/stack/evidence.md and the marked parts of docs/stack/README.md from all records;
`table --check` compares. Run it in the repository's root.

`wheels` writes docs/stack/evidence/rocm.wheels.toml after a run that made ROCm's Python packages of
VERSION for TARGET from RPMs, and installed them. RESULTS is the JSON of its tests (sdk-tests.py), SUITE
the commit of the upstream tests. Each FILE is an RPM or a package.

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
import textwrap
import tomllib

# Stages of a build, in their order, and what succeeded in each.
STAGES = {
    "prepared": "`%prep`",
    "configured": "CMake, if the component uses it",
    "compiled": "`rpmbuild`, with `%check`, except if only the headers and names of PyTorch are there",
    "inspected": "`rocmrpm inspect --deep`",
    "installed": "`dnf5 install` into an empty root, and the start of a program",
    "ran": "a computation on a device",
}
# What a run of a make target builds, if not the component as users get it.
BUILT = {
    "lab-llama": "ROCm flavor",
    "lab-llama-vulkan": "Vulkan flavor",
    "lab-torch-extensions": "with only the headers and names of PyTorch",
    "lab-triton": "with LLVM 22.1.8 of Debian",
    "lab-vllm": "without kernels, with Debian's PyTorch",
    "lab-vllm-kernels": "with only the headers and names of PyTorch",
}
# Devices that are not GPUs start with the name of Mesa's Vulkan driver for CPUs.
NO_GPU = "llvmpipe"
# The stage of a run that compiled kernels of a component, without building its package.
KERNELS = "kernels"
# The stage of a run that made ROCm's Python packages from RPMs, installed, and tested them.
WHEELS = "wheels"
RESULTS = ["ok", "incomplete", "failed"]
# What became of a kernel.
KINDS = ["compiled", "too large", "failed", "not launched"]
ALWAYS, PINNED, BUILDS, SOME_BUILDS = "all runs", "builds, kernels", "builds", "some builds"
OF_KERNELS, OF_WHEELS = "kernels", "Python packages"
# The fields of each kind of run.
RUNS = {KERNELS: [ALWAYS, PINNED, OF_KERNELS], WHEELS: [ALWAYS, OF_WHEELS]}
OF_BUILD = [ALWAYS, PINNED, BUILDS, SOME_BUILDS]
# Each field of a record: its type, the runs that have it, and its meaning.
FIELDS = {
    "component": (str, ALWAYS, "the component"),
    "pins": (str, PINNED, "the pin set"),
    "version": (str, ALWAYS, "the version of the component's sources, or of the RPMs"),
    "instead-of": (str, SOME_BUILDS, "the version in the pin set, if it is another one"),
    "chroot": (str, BUILDS, "the chroot"),
    "rocm": (str, BUILDS, "the version of the chroot's ROCm provider"),
    "triton": (str, OF_KERNELS, "the version of the compiler"),
    "gpu-targets": (list, ALWAYS, "the GPU targets"),
    "command": (str, ALWAYS, "the command of the run"),
    "machine": (str, ALWAYS, "the processor, and what else limits a build: cores, memory, distribution"),
    "date": (str, ALWAYS, "the day on which the run ended, as YYYY-MM-DD"),
    "seconds": (int, ALWAYS, "the wall time of a build, the last one if it was resumed with ccache, or of making packages; the compiler's time, summed over all kernels"),
    "stage": (str, ALWAYS, f"the last stage of a build that succeeded: {', '.join(STAGES)}, or empty; `{KERNELS}`; `{WHEELS}`"),
    "device": (str, SOME_BUILDS, "the device that computed, if the stage is `ran`"),
    "result": (str, ALWAYS, f"{', '.join(RESULTS)}; `incomplete` if a run was stopped and can be resumed"),
    "passed": (int, OF_WHEELS, "the number of upstream tests that passed, where a test of several parts counts once"),
    "not-passed": (list, OF_WHEELS, "upstream's tests, or parts of them, that did not pass"),
    "not-launched": (list, OF_KERNELS, "the kernels that nothing launched"),
    "inputs": (dict, ALWAYS, "each input's digest: `sha256:` of a file or a list of files, or `git:` and a commit"),
    "outputs": (dict, ALWAYS, "each output's digest"),
    "gpu-code": (dict, SOME_BUILDS, "the number of kernels and code objects in the inspected packages"),
    "kernels": (dict, OF_KERNELS, f"the number of kernels by result ({', '.join(KINDS)}), of code objects, and of"
                " the code objects of which they are a sample"),
    "failed": (dict, OF_KERNELS, "the first error of each kernel that is not usable"),
}
WHEELS_HEADS = ["release", "GPU target", "packages", "upstream's tests", "time", "date", "command"]
FOLDER = pathlib.Path("docs/stack/evidence")
TABLE = pathlib.Path("docs/stack/evidence.md")
FRONT = pathlib.Path("docs/stack/README.md")
OTHERS = "Built from a folder with another version of the sources than the pinned one"
OLDER = "Records of versions that are no longer pinned"
# Around the part of FRONT that is generated.
START, END = "<!-- records: `python3 tests/laboratory/evidence.py table` -->", "<!-- end of records -->"
PAGE = """\
# What has been compiled

This page is generated from the records in `docs/stack/evidence/` by
`tests/laboratory/evidence.py table`. A run in the laboratory writes a record; see the
[laboratory](../contributing/laboratory.md). The tables show the records of pinned versions, except for
builds that name another one.{older}

## Builds

[What was proved](README.md#what-was-proved) shows the stages that each build reached.

{builds}
{others}| stage | what succeeded |
|---|---|
{stages}
## Triton kernels

`make lab-kernels` compiles the kernels of each component for gfx1151 by the released Triton,
without a GPU. `rocm-inspect` found a kernel for gfx1151 in each code object. That a kernel compiles
does not show that it is correct or fast.

{kernels}
- A kernel counts as compiled if one of its variants compiles and needs at most 64 KiB of LDS.
- Kernels that are not launched by any test here include those that the package never launches on
  gfx1151. The records list them, and the first error of those that fail.
- The time is that of the compiler, on a machine that was busy with other work.
- AOTriton's kernels are a sample: the number of code objects is that of the sample, with equal parts
  of each kernel.

## ROCm as Python packages

`make lab-sdk` makes [ROCm's Python packages](../guides/rocm-from-pip.md) from RPMs, installs them with
pip and uv in a system without ROCm, runs TheRock's tests of such packages, and compiles a program for
the target. The [laboratory](../contributing/laboratory.md#rocm-as-python-packages) explains the tests that
do not pass.

{wheels}
## Records

The file `COMPONENT.PINS.RUN.toml` has the last record of a run. RUN is the chroot of a build, or
`kernels`. `rocm.wheels.toml` is that of ROCm's Python packages.

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
    version = tomllib.loads(pins.read_text())[component]["version"]
    pinned = tomllib.loads((pathlib.Path("pins") / pins.name).read_text())[component]["version"]
    other = {"instead-of": pinned} if version != pinned else {}
    return {"component": component, "pins": pins.stem, "version": version, **other, **ran_here(), **fields}


def ran_here():
    """Returns the fields of a run that ends now on this machine."""
    return {"machine": machine(), "date": datetime.date.today().isoformat()}


def write(record):
    """Checks a record, writes its file and the tables, and returns the file."""
    run = [record["component"], record.get("pins"), record.get("chroot", record["stage"]), "toml"]
    path = FOLDER / ".".join(filter(None, run))
    check(path, record)
    FOLDER.mkdir(parents=True, exist_ok=True)
    path.write_text(as_toml(record))
    write_pages()
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
    runs = RUNS.get(record.get("stage"), OF_BUILD)
    known = {field: kind for field, (kind, of, _) in FIELDS.items() if of in runs}
    wanted = [field for field in known if FIELDS[field][1] != SOME_BUILDS]
    problem = None
    if not set(wanted) <= set(record) <= set(known):
        problem = f"expected the fields {', '.join(wanted)}"
    elif wrong := [field for field in record if not isinstance(record[field], known[field])]:
        problem = f"the type of `{wrong[0]}` is wrong"
    elif record["stage"] not in ["", *STAGES, *RUNS] or record["result"] not in RESULTS:
        problem = f"unknown stage `{record['stage']}` or result `{record['result']}`"
    elif (record["stage"] == "ran") != bool(record.get("device")):
        problem = "a record has the stage `ran` if it has a device"
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


def gpu_code(inspection):
    """Counts the kernels and code objects in the report of an inspection; nothing if there are none."""
    subjects = json.loads(inspection.read_text())["subjects"] if inspection.exists() else []
    codes = [code for subject in subjects if not subject["debug"] for code in subject["device"]]
    if not codes or any(code["kernels"] is None for code in codes):
        return {}
    return {"gpu-code": {"kernels": sum(c["kernels"] for c in codes), "code objects": sum(c["count"] for c in codes)}}


def record(workspace, chroot, component, command, stage, status, seconds, *inputs):
    """Writes the record of a build."""
    device, inputs = (inputs[0], inputs[1:]) if stage == "ran" else ("", inputs)
    workspace = pathlib.Path(workspace)
    settings = tomllib.loads((workspace / "mock-configs" / f"{chroot}.toml").read_text())
    provider = tomllib.loads((workspace / "mock-configs/rocm" / f"{settings['rocm-provider']}.toml").read_text())
    stack = tomllib.loads((workspace / "rocmrpm.toml").read_text())["stack"]
    without_hip = "_without_hip" in settings.get("macros", {})
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
        run |= gpu_code(results / "inspection.json") | ({"device": device} if device else {})
        made = {file["file"]: f"sha256:{file['sha256']}" for file in build["outputs"]}
        outputs = {name: of for name, of in made.items() if name.endswith(".rpm") and not name.endswith(".src.rpm")}
        files = {file["file"]: f"sha256:{file['sha256']}" for file in build["sources"]}
        files |= {name: of for name, of in made.items() if name.endswith(".spec")}
    for name, of in (entry.split("=", 1) for entry in inputs if entry):
        files[name] = of if of.startswith("git:") else digest(of)
    write(described(component, workspace / "pins" / f"{stack['default-pins']}.toml", **{
        "chroot": chroot, "rocm": "" if without_hip else provider["version"],
        "gpu-targets": [] if without_hip else stack["gpu-targets"], "command": command,
        "stage": stage, "result": "ok" if ok else "failed", "inputs": files, "outputs": outputs, **run,
    }))


def wheels(version, target, command, seconds, results, suite, *files):
    """Writes the record of ROCm's Python packages."""
    results = json.loads(pathlib.Path(results).read_text())
    digests = {pathlib.Path(path).name: digest(path) for path in files}
    rpms = {name: of for name, of in digests.items() if name.endswith(".rpm")}
    write({
        "component": "rocm", "version": version, "gpu-targets": [target], "command": command, **ran_here(),
        "seconds": int(seconds), "stage": WHEELS, "result": "ok", **results,
        "inputs": {**rpms, "ROCm/TheRock": f"git:{suite}"},
        "outputs": {name: of for name, of in digests.items() if name not in rpms},
    })


def read(path):
    """Reads a record, and checks it."""
    values = tomllib.loads(path.read_text())
    check(path, values)
    return values


def time_of(seconds):
    return f"{seconds // 60} min {seconds % 60} s" if seconds >= 60 else f"{seconds} s"


def row(cells):
    return "| " + " | ".join(map(str, cells)) + " |\n"


def table(heads, rows):
    """Returns a table, or nothing without rows."""
    return row(heads) + "|" + "---|" * len(heads) + "\n" + "".join(map(row, rows)) if rows else ""


def filled(text):
    """Breaks the lines of a paragraph or a list's entry."""
    indent = "  " if text.startswith("- ") else ""
    return textwrap.fill(text, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) + "\n"


def name_of(build):
    """Returns the name of what a run built."""
    words = build["command"].split()
    built = BUILT.get(words[1]) if words[0] == "make" else None
    other = f" instead of {build['instead-of']}" if "instead-of" in build else ""
    return f"{build['component']} {build['version']}{other}" + (f", {built}" if built else "")


def stages_of(build):
    """Returns a build's mark for each stage."""
    count = list(STAGES).index(build["stage"]) + 1 if build["stage"] else 0
    marks = ["yes"] * count + (["failed"] if build["result"] == "failed" and count < len(STAGES) else [])
    if build["stage"] == "ran":
        marks[-1] = "on " + build["device"].split(" (")[0]
    return marks + [""] * (len(STAGES) - len(marks))


def progress(build):
    """Describes the last stage of a build."""
    stage = build["stage"] or "nothing"
    if build["result"] == "failed":
        return stage + ", then failed"
    return f"{stage} on {build['device']}" if stage == "ran" else stage


def build_row(build):
    """Returns the facts of a build."""
    code = build.get("gpu-code")
    counts = f"{code['kernels']} kernels in {code['code objects']} code objects" if code else ""
    about = [time_of(build["seconds"]), build["date"], f"`{build['command']}`"]
    return [name_of(build), build["pins"], build["rocm"], progress(build), counts, *about]


def kernels_row(found):
    """Returns a line of the table of kernels."""
    kernels, objects, total = found["kernels"], *(found["kernels"][key] for key in ("code objects", "sampled from"))
    counts = [kernels[kind] for kind in KINDS]
    return [
        found["component"], found["pins"], found["version"], found["triton"], sum(counts), *counts,
        f"{objects} of {total}" if total > objects else objects,
        time_of(found["seconds"]), found["date"], found["result"],
    ]


def wheels_row(found):
    """Returns a line of the table of ROCm's Python packages."""
    targets, failed = ", ".join(found["gpu-targets"]), len(found["not-passed"])
    parts = f"{failed} {'part' if failed == 1 else 'parts'} of others did not" if failed else ""
    return [
        f"{found['component']} {found['version']}", targets, len(found["outputs"]),
        f"{found['passed']} passed" + (f"; {parts}" if parts else ""),
        time_of(found["seconds"]), found["date"], f"`{found['command']}`",
    ]


def compiled_kernels(found):
    """Describes how many of a component's kernels compile."""
    kernels = found["kernels"]
    sample = " (a sample of their code objects)" if kernels["sampled from"] > kernels["code objects"] else ""
    total = sum(kernels[kind] for kind in KINDS)
    return f"{kernels['compiled']} of {total} of {found['component']} {found['version']}{sample}"


def front(builds, others, kernels, without):
    """Returns the part of the first page: the stages of each build, and what has no record."""
    text = table(["component", "pin set", "ROCm", *STAGES], [
        [name_of(build), build["pins"], build["rocm"], *stages_of(build)] for build in builds
    ])
    text += "\n" if text else ""
    if all(build.get("device", NO_GPU).startswith(NO_GPU) for build in builds):
        text += "No package has run on a GPU. "
    text += "Without a record of a build:\n\n"
    for names in dict.fromkeys(without.values()):
        sets = " and ".join(f"`{name}`" for name in without if without[name] == names)
        text += filled(f"- {sets}: {', '.join(names) or 'none'}")
    if others:
        text += "\n" + filled(f"{OTHERS}: {'; '.join(f'{name_of(build)}: {progress(build)}' for build in others)}.")
    if kernels:
        triton = ", ".join(sorted({found["triton"] for found in kernels}))
        text += "\n" + filled(f"The released Triton {triton} compiles these Triton kernels for gfx1151: "
                              + "; ".join(map(compiled_kernels, kernels)) + ".")
    return text


def pages():
    """Returns the text of each page with records."""
    records = {path.name: read(path) for path in sorted(FOLDER.glob("*.toml"))}
    files = pathlib.Path("specs-templates").glob("*/component.toml")
    components = {path.parent.name: tomllib.loads(path.read_text()) for path in files}
    stack = tomllib.loads(pathlib.Path("rocmrpm.toml").read_text())["stack"]
    targets = stack["gpu-targets"]
    pinned, without = {}, {}
    for pins in (path for path in sorted(pathlib.Path("pins").glob("*.toml")) if "." not in path.stem):
        pinned |= {(name, pins.stem): pin["version"] for name, pin in tomllib.loads(pins.read_text()).items()}
    packages = [r for r in records.values() if r["stage"] == WHEELS]
    others = [r for r in records.values() if "instead-of" in r]
    records = {name: r for name, r in records.items() if r["stage"] != WHEELS and r not in others}
    current = {name: r for name, r in records.items() if pinned.get((r["component"], r["pins"])) == r["version"]}
    builds = [r for r in current.values() if r["stage"] != KERNELS]
    kernels = [r for r in current.values() if r["stage"] == KERNELS]
    built = {(build["component"], build["pins"]) for build in builds}
    for name, pins in sorted(pinned):
        if name in components and set(components[name].get("gpu-targets", targets)) & set(targets):
            without.setdefault(pins, [])
            without[pins] += [name] if (name, pins) not in built else []
    # The default set first.
    order = sorted(without, key=lambda pins: (pins != stack["default-pins"], pins))
    without = {pins: tuple(without[pins]) for pins in order}
    older = [f"`{name}` ({r['version']})" for name, r in records.items() if name not in current]
    heads = ["component", "pin set", "ROCm", "reached", "GPU code", "time", "date", "command"]
    kernel_heads = ["component", "pin set", "version", "Triton", "kernels", "compiled", "need more LDS", "failed",
                    "not launched", "code objects", "time", "date", "result"]
    fields = "".join(row([f"`{field}`", of, meaning]) for field, (_, of, meaning) in FIELDS.items())
    start, _, end = marked(FRONT)
    return {
        FRONT: start + front(builds, others, kernels, without) + end,
        TABLE: PAGE.format(
            builds=table(heads, [build_row(build) for build in builds]) or "There is no record of a build.\n",
            others=f"{filled(OTHERS + ':')}\n{table(heads, [build_row(r) for r in others])}\n" if others else "",
            wheels=table(WHEELS_HEADS, [wheels_row(r) for r in packages]) or "There is no record of a run.\n",
            kernels=table(kernel_heads, [kernels_row(r) for r in kernels]),
            stages="".join(row([stage, done]) for stage, done in STAGES.items()),
            older="\n\n" + filled(f"{OLDER}: {', '.join(older)}.").rstrip() if older else "",
            fields=fields,
        ),
    }


def marked(path):
    """Divides a page into the text before the generated part, this part, and the text after it."""
    text = path.read_text()
    start, found, rest = text.partition(f"{START}\n")
    part, also, end = rest.partition(f"{END}\n")
    if not found or not also:
        sys.exit(f"error: {path}: the generated part is not marked\nhelp: write lines `{START}` and `{END}`")
    return start + found, part, also + end


def write_pages():
    for path, text in pages().items():
        path.write_text(text)


def main():
    match sys.argv[1:]:
        case ["table"]:
            write_pages()
        case ["table", "--check"]:
            for path, text in pages().items():
                if not path.exists() or path.read_text() != text:
                    sys.exit(f"error: {path} is out of date\nhelp: python3 tests/laboratory/evidence.py table")
        case ["wheels", version, target, command, seconds, results, suite, *files]:
            wheels(version, target, command, seconds, results, suite, *files)
        case ["record", workspace, chroot, component, command, stage, status, seconds, *inputs]:
            record(workspace, chroot, component, command, stage, status, seconds, *inputs)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()

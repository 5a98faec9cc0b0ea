"""Prints the table of a component's compiled kernels, inspects them, and writes the record."""

import argparse
import collections
import datetime
import hashlib
import importlib.metadata
import json
import pathlib
import subprocess
import sys
import tomllib

import inventory
import results

TARGET = "gfx1151"
KINDS = ["compiled", "too large", "failed", "not launched"]
COLUMNS = "{:<58} {:>8} {:>7} {:>6} {:>7} {:>7}  {}"


def state(rows):
    """Returns what is known of a kernel: the best result of its variants, and why others failed."""
    usable = [row for row in rows if "error" not in row and row["lds"] <= results.LDS_BYTES]
    large = [row for row in rows if "error" not in row and row["lds"] > results.LDS_BYTES]
    failed = [row for row in rows if "error" in row]
    notes = []
    if large:
        notes.append(f"{len(large)} of {len(rows)} need {max(row['lds'] for row in large)} bytes of LDS")
    if failed:
        notes.append(f"{len(failed)} of {len(rows)} failed: {failed[0]['error']}")
    kind = "compiled" if usable else "too large" if large else "failed"
    return kind, usable or large, "; ".join(notes)


def table(kernels, missing):
    """Prints one line per kernel, and returns how many there are of each state."""
    counts = collections.Counter()
    print(COLUMNS.format("kernel", "variants", "seconds", "VGPRs", "spilled", "LDS", "state"))
    for name, rows in sorted(kernels.items()):
        kind, shown, note = state(rows)
        counts[kind] += 1
        most = {key: max((row[key] or 0 for row in shown), default="") for key in ("vgprs", "spilled", "lds")}
        seconds = f"{sum(row['seconds'] for row in rows) / len(rows):.1f}"
        text = kind + (f" ({note})" if note else "")
        print(COLUMNS.format(name[-58:], len(rows), seconds, *most.values(), text))
    for name in missing:
        print(COLUMNS.format(name[-58:], 0, "", "", "", "", "not launched"))
    counts["not launched"] = len(missing)
    return {key: count for key, count in counts.items() if count}


def by_kernel(rows, known):
    """Groups results by kernel; kernels made from text have the name of the function they copy."""
    full = collections.defaultdict(list)
    for name in known:
        full[name.rsplit(".", 1)[1]].append(name)
    kernels = collections.defaultdict(list)
    for row in rows:
        name = row["kernel"]
        same = full.get(name.rsplit(".", 1)[-1], [])
        if known and name not in known and len(same) == 1:
            name = same[0]
        if not known or name in known:
            kernels[name].append(row)
    return kernels


def inspect(program, files):
    """Runs `rocm-inspect` on all code objects; its exit status is 1 if any is not as expected."""
    command = [program, "--gpu-target", TARGET, "--deep", "--json", *files]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"error: rocm-inspect failed\n{done.stderr}")
    report = json.loads(done.stdout)
    good = sum(
        any(code["target"] == TARGET and code["kernels"] for code in subject["device"])
        for subject in report["subjects"]
    )
    return done.returncode == 0, good


def wheel_digest(name):
    """Returns the digest of the list of an installed wheel's files, which has theirs."""
    text = importlib.metadata.distribution(name).read_text("RECORD")
    # Compiled Python files are not part of the wheel.
    lines = sorted(line for line in text.splitlines() if ".pyc," not in line)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("component")
    parser.add_argument("--pins", type=pathlib.Path, required=True)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--package", help="the folder of the package's modules")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--inspect", required=True, help="the program rocm-inspect")
    parser.add_argument("--of", type=int, help="number of kernels of which a sample compiled")
    parser.add_argument("--records", type=pathlib.Path, required=True, help="folder of the records")
    options = parser.parse_args()
    pin = tomllib.loads(options.pins.read_text())[options.component]
    rows = results.Results(options.out / "results.jsonl").rows
    known = set()
    if options.package:
        modules = inventory.kernels(options.source, options.package)
        known = {f"{module}.{name}" for module, names in modules.items() for name in names}
    kernels = by_kernel(rows, known)
    counts = table(kernels, sorted(known - set(kernels)))
    rows = [row for of_kernel in kernels.values() for row in of_kernel]
    files = sorted({row["file"] for row in rows if "file" in row})
    passed, good = inspect(options.inspect, [options.out / file for file in files])
    print(f"{options.component} {pin['version']}: " + ", ".join(f"{n} {k}" for k, n in counts.items()))
    print(f"rocm-inspect: {good} of {len(files)} code objects have a kernel for {TARGET}")
    digests = hashlib.sha256("".join(row.get("sha256", "") for row in rows).encode()).hexdigest()
    triton = importlib.metadata.version("triton")
    result = "ok" if passed and good == len(files) and rows else "failed"
    # A component with tests has a mark of each finished run of them.
    if options.package and not list(options.out.glob("finished-*")):
        result = "incomplete"
    record = {
        "component": options.component,
        "pins": options.pins.stem,
        "version": pin["version"],
        "triton": triton,
        "gpu-targets": [TARGET],
        "command": f"make lab-kernels KERNELS={options.component}",
        "machine": results.machine(),
        "date": datetime.date.today().isoformat(),
        "seconds": round(sum(row["seconds"] for row in rows)),
        "stage": "kernels compiled",
        "result": result,
        "not-launched": sorted(known - set(kernels)),
        "kernels": {
            **{kind: counts.get(kind, 0) for kind in KINDS},
            "code objects": len(files),
            "sampled from": options.of or len(files),
        },
        "failed": {
            name: state(of_kernel)[2]
            for name, of_kernel in sorted(kernels.items())
            if state(of_kernel)[0] != "compiled"
        },
        "inputs": {
            "source": pin.get("sha256") or pin["commit"],
            "prepared modules": results.tree_digest(options.source, ".py"),
            f"triton {triton} wheel": wheel_digest("triton"),
        },
        "outputs": {"code objects": digests},
    }
    options.records.mkdir(parents=True, exist_ok=True)
    path = options.records / f"{options.component}.{options.pins.stem}.toml"
    path.write_text(as_toml(record))
    options.records.with_suffix(".md").write_text(page(options.records))
    print(f"wrote {path}")
    return result != "ok"


def as_toml(record):
    """Formats a record; JSON's texts, numbers, and lists are TOML's, too."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in record.items() if not isinstance(value, dict)]
    for key, values in record.items():
        if isinstance(values, dict):
            lines += ["", f"[{key}]"]
            lines += [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in values.items()]
    return "\n".join(lines) + "\n"


HEAD = """\
# Which Triton kernels compile

This page is generated from the records in `docs/stack/kernels/`, which `make lab-kernels` writes:
the kernels of each component, compiled for gfx1151 by the released Triton without a GPU. `rocm-inspect`
found a kernel for gfx1151 in each code object. That a kernel compiles does not show that it is
correct or fast.

| component | pin set | version | Triton | kernels | compiled | need more LDS | failed | not launched | code objects | seconds | date | result |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
"""
NOTES = """
- A kernel counts as compiled if one of its variants compiles and needs at most 64 KiB of LDS.
- Kernels that are not launched by any test here include those that the package never launches on
  gfx1151. The records list them, and the first error of those that fail.
- The seconds are those of the compiler, on a machine that was busy with other work.
- `incomplete`: the run was stopped before the tests had launched all kernels that they can.
- AOTriton's kernels are a sample: the number of code objects is that of the sample, with equal parts
  of each kernel.
"""


def page(folder):
    """Returns the page that shows all records."""
    lines = []
    for path in sorted(folder.glob("*.toml")):
        record = tomllib.loads(path.read_text())
        kernels = record["kernels"]
        objects = kernels["code objects"]
        cells = [record[key] for key in ("component", "pins", "version", "triton")]
        cells += [sum(kernels[kind] for kind in KINDS), *(kernels[kind] for kind in KINDS)]
        total = kernels["sampled from"]
        cells += [f"{objects} of {total}" if total > objects else objects]
        cells += [record["seconds"], record["date"], record["result"]]
        lines.append("| " + " | ".join(map(str, cells)) + " |\n")
    return HEAD + "".join(lines) + NOTES


if __name__ == "__main__":
    sys.exit(main())

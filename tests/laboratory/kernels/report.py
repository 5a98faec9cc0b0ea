"""Prints the table of a component's compiled kernels, inspects them, and writes the record."""

import argparse
import collections
import hashlib
import importlib.metadata
import json
import pathlib
import subprocess
import sys
import tomllib

import inventory
import results

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import evidence

TARGET = "gfx1151"
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


def sha256(text):
    """Returns the digest of a text in a record's form."""
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def wheel_digest(name):
    """Returns the digest of the list of an installed wheel's files, which has theirs."""
    text = importlib.metadata.distribution(name).read_text("RECORD")
    # Compiled Python files are not part of the wheel.
    lines = sorted(line for line in text.splitlines() if ".pyc," not in line)
    return sha256("\n".join(lines))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("component")
    parser.add_argument("--pins", type=pathlib.Path, required=True)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--package", help="the folder of the package's modules")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--inspect", required=True, help="the program rocm-inspect")
    parser.add_argument("--of", type=int, help="number of kernels of which a sample compiled")
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
    triton = importlib.metadata.version("triton")
    result = "ok" if passed and good == len(files) and rows else "failed"
    # A component with tests has a mark of each finished run of them.
    if options.package and not list(options.out.glob("finished-*")):
        result = "incomplete"
    source = f"sha256:{pin['sha256']}" if "sha256" in pin else f"git:{pin['commit']}"
    path = evidence.write(evidence.described(options.component, options.pins, **{
        "triton": triton,
        "gpu-targets": [TARGET],
        "command": f"make lab-kernels KERNELS={options.component}",
        "seconds": round(sum(row["seconds"] for row in rows)),
        "stage": evidence.KERNELS,
        "result": result,
        "not-launched": sorted(known - set(kernels)),
        "kernels": {
            **{kind: counts.get(kind, 0) for kind in evidence.KINDS},
            "code objects": len(files),
            "sampled from": options.of or len(files),
        },
        "failed": {
            name: state(of_kernel)[2]
            for name, of_kernel in kernels.items()
            if state(of_kernel)[0] != "compiled"
        },
        "inputs": {
            "source": source,
            "prepared modules": f"sha256:{results.tree_digest(options.source, '.py')}",
            f"triton {triton} wheel": wheel_digest("triton"),
        },
        "outputs": {"code objects": sha256("".join(row.get("sha256", "") for row in rows))},
    }))
    print(f"wrote {path}")
    return result != "ok"


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Adds the projects of add-survey.toml to a new workspace, lints them, and prints a table of outcomes.

Usage: add_survey.py PROGRAM FOLDER [NAME...]

PROGRAM is rocmrpm, and FOLDER is created for the workspace. Only adds the projects with a NAME, if any
is given. Exits with 1 if a project could not be added or has errors other than a missing license.
"""

import json
import pathlib
import subprocess
import sys
import tomllib


def projects(chosen):
    """Returns the kind, the name, and the options of each project."""
    path = pathlib.Path(__file__).with_name("add-survey.toml")
    for group in tomllib.loads(path.read_text())["project"]:
        options = ["--wheel"] if group.get("wheel") else []
        for name in group["names"]:
            if not chosen or name in chosen:
                yield group["kind"], name, options


def main(program, folder, *chosen):
    program, folder = str(pathlib.Path(program).resolve()), pathlib.Path(folder)
    folder.mkdir(parents=True)

    def run(*args):
        return subprocess.run([program, "-C", folder, *args], capture_output=True, text=True, check=False)

    subprocess.run(["git", "init", "--quiet", folder], check=True)
    run("init").check_returncode()
    failed = 0
    print("| kind | project | version | architecture | license | lint | notes |")
    print("|---|---|---|---|---|---|---|")
    for kind, name, options in projects(chosen):
        before = set(folder.glob("specs-templates/*"))
        added = run("add", name, *options)
        new = set(folder.glob("specs-templates/*")) - before
        if added.returncode or not new:
            failed += 1
            error = next((line for line in added.stderr.splitlines() if line.startswith("error")), "?")
            print(f"| {kind} | {name} | - | - | - | - | {error} |")
            continue
        component = new.pop()
        lines = next(component.glob("*.spec.tera")).read_text().splitlines()
        license = next(line for line in lines if line.startswith("License:")).split(None, 1)[1]
        arch = "noarch" if any("noarch" in line for line in lines) else "x86_64"
        linted = run("lint", component.name, "--chroot", "host", "--json")
        findings = [f for f in json.loads(linted.stdout)["findings"] if f["severity"] != "info"]
        rules = sorted({finding["id"] for finding in findings})
        failed += any(f["severity"] == "error" and f["id"] != "placeholder-left" for f in findings)
        notes = [line.split(": ", 2)[-1] for line in added.stderr.splitlines() if line.startswith("warning:")]
        pins = (folder / "pins/stable.toml").read_text()
        version = pins.split(f"[{component.name}]\n", 1)[1].split('version = "', 1)[1].split('"', 1)[0]
        shown = license if len(license) < 40 else license[:37] + "..."
        row = [kind, name, version, arch, shown, " ".join(rules) or "clean", "; ".join(notes)]
        print("| " + " | ".join(row) + " |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

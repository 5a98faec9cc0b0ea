#!/usr/bin/env python3
"""Adds the projects of add-survey.toml to a new workspace, lints them, and prints a table of outcomes.

With --build, also builds them with mock in the laboratory and installs them with dnf5 there, unedited
except for the license decisions in add-survey.toml. With --write, writes the outcomes as a page.
Exits with 1 if a project could not be added, built, or installed, or has errors other than a missing
license.
"""

import argparse
import datetime
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tomllib

import add_survey_lab
import add_survey_sources

HERE = pathlib.Path(__file__).parent
PLACEHOLDER = "TODO: an SPDX expression"


class Project:
    """A project of the list, and what happened to it; an outcome is a text, or None if it was not tried."""

    def __init__(self, name, kind, source):
        self.name, _, self.pinned = name.partition("==")
        self.kind, self.source = kind, source
        self.component = self.template = None
        self.version = self.added = self.linted = self.built = self.installed = self.seconds = None
        self.decided, self.warnings, self.failures = [], [], []

    def fail(self, step, reason):
        self.failures.append((step, reason))
        return "no"


def listed(chosen, count, seed):
    """Returns the projects with these names, or so many at random: at least one of each kind."""
    groups = tomllib.loads((HERE / "add-survey.toml").read_text())["project"]
    kinds = [[Project(name, g["kind"], g.get("from", "sdist")) for name in g["names"]] for g in groups]
    everything = [project for kind in kinds for project in kind]
    long = {name for group in groups for name in group.get("long", ())}
    if chosen:
        return [project for project in everything if project.name in chosen]
    if not count:
        return everything
    pick = random.Random(seed)
    kinds = [[project.name for project in kind if project.name not in long] for kind in kinds]
    picked = {pick.choice(kind) for kind in kinds}
    rest = [name for kind in kinds for name in kind if name not in picked]
    picked |= set(pick.sample(rest, max(0, count - len(picked))))
    return [project for project in everything if project.name in picked]


class Survey:
    def __init__(self, program, folder):
        self.program, self.folder, self.workspace = program, folder, folder / "workspace"
        self.debian = None

    def rocmrpm(self, *args):
        """Runs rocmrpm with a cache that the laboratory sees, and with releases that do not change."""
        variables = {"ROCMRPM_CACHE": self.folder / "cache", "ROCMRPM_TRUST": self.workspace}
        return subprocess.run(
            [self.program, "-C", self.workspace, *args],
            capture_output=True, text=True, check=False,
            env=add_survey_lab.environment(variables | {"SOURCE_DATE_EPOCH": add_survey_lab.DATE}),
        )  # fmt: skip

    def start(self):
        """Makes a new workspace that keeps the results of an earlier run."""
        for path in self.workspace.glob("*"):
            if path.name != "build":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.workspace.mkdir(parents=True, exist_ok=True)
        self.rocmrpm("init", "--chroot", "fedora-43").check_returncode()

    def options(self, project):
        """Returns the options of `rocmrpm add` for the source of a project."""
        if project.source == "wheel":
            return ["--wheel"]
        if project.source == "sdist":
            return []
        if project.source == "crate":
            archive, version = add_survey_sources.crate(project.name, self.folder)
        else:
            self.debian = self.debian or add_survey_sources.Debian(self.folder)
            archive, version = self.debian.archive(project.name)
        return ["--url", f"file://{archive}", "--version", version]

    def add(self, project):
        before = set(self.workspace.glob("specs-templates/*"))
        wanted = f"{project.name}=={project.pinned}" if project.pinned else project.name
        added = self.rocmrpm("add", wanted, *self.options(project))
        new = set(self.workspace.glob("specs-templates/*")) - before
        if added.returncode or len(new) != 1:
            lines = [line for line in added.stderr.splitlines() if line.startswith("error")]
            project.added = project.fail("add", (lines or ["it crashed"])[0].removeprefix("error: "))
            return
        folder = new.pop()
        project.component, project.added = folder.name, "yes"
        project.template = next(folder.glob("*.spec.tera"))
        lines = [line for line in added.stderr.splitlines() if line.startswith("warning:")]
        project.warnings = [line.split(": ", 2)[-1] for line in lines]
        pins = (self.workspace / "pins/stable.toml").read_text()
        project.version = tomllib.loads(pins)[project.component]["version"]

    def decide(self, project):
        """Makes the decision of add-survey.toml, if `add` left it to the packager."""
        decisions = tomllib.loads((HERE / "add-survey.toml").read_text()).get("decision", {})
        text = project.template.read_text() if project.template else ""
        if PLACEHOLDER in text and project.name in decisions:
            decision = decisions[project.name]
            project.template.write_text(text.replace(PLACEHOLDER, decision["license"]))
            project.decided.append(f"`License: {decision['license']}`, because {decision['reason']}")

    def lint(self, project):
        if not project.component:
            return
        linted = self.rocmrpm("lint", project.component, "--json")
        findings = [f for f in json.loads(linted.stdout)["findings"] if f["severity"] != "info"]
        project.linted = " ".join(sorted({finding["id"] for finding in findings})) or "clean"
        for finding in findings:
            if finding["severity"] == "error":
                project.fail("lint", f"{finding['id']}: {finding['found']}")

    def tag(self, project, name):
        lines = project.template.read_text().splitlines() if project.template else []
        values = [line.split(":", 1)[1].strip() for line in lines if line.startswith(f"{name}:")]
        return values[0] if values else "-"


def table(rows):
    head, *rows = rows
    escaped = [[str(cell).replace("|", "\\|") for cell in row] for row in [head, ["---"] * len(head), *rows]]
    return "".join("| " + " | ".join(row) + " |\n" for row in escaped)


def drafts(survey, projects):
    """Returns what `add` wrote for each project."""
    rows = [["kind", "project", "version", "architecture", "license", "lint", "notes"]]
    for project in projects:
        license, arch = survey.tag(project, "License"), survey.tag(project, "BuildArch")
        license = license if len(license) < 40 else license[:37] + "..."
        notes = [f"{step}: {reason}" for step, reason in project.failures] + project.warnings
        arch = "x86_64" if project.template and arch == "-" else arch
        cells = [project.version, arch, license, project.linted]
        rows.append([project.kind, project.name, *(cell or "-" for cell in cells), "; ".join(notes)])
    return table(rows)


def outcomes(projects):
    rows = [["project", "version", "kind", "add", "lint", "build", "install", "seconds"]]
    for project in projects:
        steps = [project.version, project.kind, project.added, project.linted, project.built, project.installed]
        rows.append([project.name, *(step or "-" for step in steps), project.seconds or "-"])
    return table(rows)


def page(projects, seed):
    """Returns the outcomes as a page of the book."""
    names = [name for g in tomllib.loads((HERE / "add-survey.toml").read_text())["project"] for name in g["names"]]
    whole = sum(project.installed is not None and not project.failures for project in projects)
    text = (
        "# Projects that `rocmrpm add` packaged\n\n"
        "`make add-survey-lab` wrote this page. It chose projects at random from the "
        f"{len(names)} of\n`tools/add-survey.toml`, at least one of each kind (seed {seed}). `rocmrpm add` wrote a component of each,\n"
        "which nothing edited except for the licenses below the table. mock built it in\n"
        "[the laboratory](../contributing/laboratory.md#the-laboratory), which has Debian's packages under the names of Fedora 43's,\n"
        "and dnf5 installed it into an empty root. The seconds are those of mock.\n\n"
        f"On {datetime.date.today()}, {whole} of {len(projects)} were built and installed.\n\n{outcomes(projects)}"
    )
    decided = [f"- {project.name}: {text}\n" for project in projects for text in project.decided]
    if decided:
        text += "\n## What a person decided\n\n" + "".join(decided)
    failures = [(project, step, reason) for project in projects for step, reason in project.failures]
    if failures:
        text += "\n## What failed\n\n"
        text += "".join(f"- {project.name}, {step}: {reason}\n" for project, step, reason in failures)
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path, help="rocmrpm")
    parser.add_argument("folder", type=pathlib.Path, help="the folder for the workspace and its cache")
    parser.add_argument("names", nargs="*", help="the projects [default: all]")
    parser.add_argument("--choose", type=int, metavar="N", help="choose N projects at random")
    parser.add_argument("--seed", type=int, default=int(f"{datetime.date.today():%Y%m%d}"), help="[default: the date]")
    parser.add_argument("--build", action="store_true", help="build and install them in the laboratory")
    parser.add_argument("--write", type=pathlib.Path, metavar="PAGE", help="write the outcomes as a page")
    args = parser.parse_args()
    survey = Survey(args.program.resolve(), args.folder.resolve())
    projects = listed(args.names, args.choose, args.seed)
    add_survey_lab.take_back(survey.folder)
    survey.start()
    for project in projects:
        survey.add(project)
        survey.decide(project)
        survey.lint(project)
        print(f"{project.name}: added {project.added}, lint {project.linted or '-'}", file=sys.stderr, flush=True)
    print(drafts(survey, projects))
    if args.build:
        add_survey_lab.build_and_install(survey, projects)
        print(outcomes(projects))
        for project in projects:
            print("".join(f"{project.name}, {step}: {reason}\n" for step, reason in project.failures), end="")
    if args.write:
        args.write.write_text(page(projects, args.seed))
    is_license = re.compile("placeholder-left: .*SPDX")
    wrong = [reason for project in projects for _, reason in project.failures]
    return 1 if any(args.build or not is_license.match(reason) for reason in wrong) else 0


if __name__ == "__main__":
    sys.exit(main())

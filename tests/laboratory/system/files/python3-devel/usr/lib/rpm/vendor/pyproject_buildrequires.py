"""Prints a Python project's build and run-time requirements as RPM requirements.

usage: pyproject_buildrequires.py [--no-runtime | --static | --wheel] [--extras NAMES]

First prints the build requirements in pyproject.toml; once those are installed, also the
requirements of the build backend and of the project's metadata, which --static reads from
pyproject.toml, and --wheel from a wheel that it builds. If something is missing,
stops after printing it; rpmbuild then installs it and runs this again. Source: PEP 517,
PEP 518; the README of Fedora's pyproject-rpm-macros.
"""

import argparse
import contextlib
import importlib
import importlib.metadata
import os
import pathlib
import re
import sys
import tempfile
import tomllib
import zipfile

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LEGACY = {"requires": ["setuptools"], "build-backend": "setuptools.build_meta:__legacy__"}


def rpm_requirement(requirement):
    """Converts a requirement to RPM's syntax, with all version conditions combined."""
    names = [requirement.name, *(f"{requirement.name}[{e}]" for e in sorted(requirement.extras))]
    for name in names:
        bare, bracket, rest = name.partition("[")
        name = f"python3dist({canonicalize_name(bare)}{bracket}{rest})"
        conditions = []
        for specifier in requirement.specifier:
            version = specifier.version.removesuffix(".*")
            if specifier.operator in (">=", ">", "<=", "<"):
                conditions.append(f"{name} {specifier.operator} {version}")
            elif specifier.operator == "==" and version == specifier.version:
                conditions.append(f"{name} = {version}")
            elif specifier.operator in ("~=", "=="):
                parts = [int(part) for part in version.split(".")]
                parts = parts[:-1] if specifier.operator == "~=" else parts
                parts[-1] += 1
                conditions += [f"{name} >= {version}", f"{name} < {'.'.join(map(str, parts))}~~"]
            elif specifier.operator == "!=":
                conditions.append(f"({name} < {version} or {name} > {version})")
        # rpm's generator of python3dist(...) drops zeros at the end of versions: 2.11 for 2.11.0.
        conditions = [re.sub(r"(\d)(\.0)+(?=$|~~$|\)| or )", r"\1", c) for c in conditions]
        if len(conditions) > 1:
            yield f"({' with '.join(sorted(conditions))})"
        else:
            yield conditions[0] if conditions else name


def need(texts, extras=("",)):
    """Prints requirements; returns whether all of them are installed."""
    met = True
    for requirement in map(Requirement, texts):
        if requirement.marker and not any(requirement.marker.evaluate({"extra": e}) for e in extras):
            continue
        if requirement.url:
            sys.exit(f"error: RPM cannot express a requirement with a URL: {requirement}")
        for line in rpm_requirement(requirement):
            print(line, flush=True)
        try:
            version = importlib.metadata.version(requirement.name)
            met &= requirement.specifier.contains(version, prereleases=True)
        except importlib.metadata.PackageNotFoundError:
            met = False
    return met


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--no-runtime", action="store_true")
    parser.add_argument("--static", action="store_true")
    parser.add_argument("--wheel", action="store_true")
    parser.add_argument("--extras", default="")
    options = parser.parse_args()
    project = pathlib.Path("pyproject.toml")
    if not project.exists() and not os.path.exists("setup.py"):
        sys.exit(f"error: neither pyproject.toml nor setup.py in {os.getcwd()}")
    table = tomllib.loads(project.read_text()) if project.exists() else {}
    system = LEGACY | table.get("build-system", {})
    if not need(system["requires"]):
        return
    sys.path[:0] = system.get("backend-path", [])
    module, _, attribute = system["build-backend"].partition(":")
    # Keep the backend's output separate.
    with contextlib.redirect_stdout(sys.stderr):
        backend = importlib.import_module(module)
        for name in filter(None, attribute.split(".")):
            backend = getattr(backend, name)
        asked = getattr(backend, "get_requires_for_build_wheel", lambda: [])()
    if not need(asked) or options.no_runtime:
        return
    extras = ["", *filter(None, options.extras.split(","))]
    if options.static:
        declared = table["project"]
        need(declared.get("dependencies", []))
        need(text for extra in extras[1:] for text in declared.get("optional-dependencies", {})[extra])
        return
    # The hook is optional.
    prepare = getattr(backend, "prepare_metadata_for_build_wheel", None)
    if prepare is None and not options.wheel:
        sys.exit(f"error: {module} does not give metadata without building the wheel; use -p, -w, or -R")
    with tempfile.TemporaryDirectory() as folder:
        with contextlib.redirect_stdout(sys.stderr):
            name = backend.build_wheel(folder) if options.wheel else prepare(folder)
        place = pathlib.Path(folder, name)
        if options.wheel:
            place = next(path for path in zipfile.Path(place).iterdir() if path.name.endswith(".dist-info"))
        metadata = importlib.metadata.PathDistribution(place)
        need(metadata.requires or [], extras)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT
"""The program torch-tests: runs suites of PyTorch's own tests, except for those that are known to fail on
this GPU. By default, it runs the suites that AMD recommends for an installation."""

import argparse
import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import tomllib
import xml.etree.ElementTree as xml

from . import __version__
from .cli import FAIL, NOT_RUN, PASS, earlier, ended, environment, run_group, write

SCHEMA = "torch-tests/1"
FOLDER = "/usr/share/python3-torch-rocm-tests"
# ROCm's documentation, "Testing the PyTorch installation".
SUITES = ["nn", "torch", "cuda", "ops", "unary_ufuncs", "binary_ufuncs", "autograd"]
SKIPS = pathlib.Path(__file__).with_name("torch_skips.toml")
KEYS = {"suite", "reason", "tests", "versions", "targets"}
# Hours that a suite may take: test_ops has tens of thousands of tests.
LIMIT = 6 * 3600
# Prints the version of PyTorch, whether it is for ROCm, the GPU target, and the Python modules that are missing.
ABOUT = """
import importlib.util, json
if not (missing := [name for name in ("torch", "pytest", "expecttest") if not importlib.util.find_spec(name)]):
    import torch
    gpu = torch.cuda.get_device_properties(0) if torch.cuda.is_available() else None
    target = getattr(gpu, "gcnArchName", "").split(":")[0]
    print("\\n" + json.dumps([torch.__version__, bool(torch.version.hip), target, []]))
else:
    print("\\n" + json.dumps(["", False, "", missing]))
"""


class Unusable(Exception):
    """The tests cannot run, or a file is wrong."""


def skips(path, version, target):
    """Returns the patterns of tests to skip, with the reason, by suite."""
    try:
        tables = tomllib.loads(pathlib.Path(path).read_text())["skip"]
        for number, table in enumerate(tables, 1):
            if set(table) - KEYS or not {"suite", "reason", "tests"} <= set(table):
                raise ValueError(f"table {number} of `skip` needs suite, reason, and tests, and may have versions and targets")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Unusable(f"{path}: {error}") from None
    short = ".".join(re.findall(r"\d+", version)[:2])
    found = {}
    for table in tables:
        is_version = short in table.get("versions", [short])
        is_target = any(fnmatch.fnmatchcase(target, pattern) for pattern in table.get("targets", ["*"]))
        if is_version and is_target:
            found.setdefault(table["suite"], {}).update(dict.fromkeys(table["tests"], table["reason"]))
    return found


def about():
    """Returns the version of PyTorch, whether it is for ROCm, and the GPU target."""
    # Not in the folder of the tests, and not in that of PyTorch's sources, whose torch/ is not built.
    asked = subprocess.run([sys.executable, "-c", ABOUT], cwd="/", capture_output=True, text=True, check=False)
    if asked.returncode:
        lines = asked.stderr.strip().splitlines() or ["it crashed"]
        raise Unusable(f"torch cannot be imported: {lines[-1]}")
    version, rocm, target, missing = json.loads(asked.stdout.splitlines()[-1])
    if missing:
        raise Unusable(f"these Python modules are not installed: {', '.join(missing)}")
    return version, rocm, target


def run(suite, folder, rocm, known, results, limit):
    """Runs a suite, and writes its JUnit file into the folder `results`."""
    start = time.monotonic()
    done = {"suite": suite, "outcome": FAIL, "detail": "", "passed": 0, "failed": [], "skipped": 0}
    file = pathlib.Path(folder) / f"test_{suite}.py"
    if not file.is_file():
        return done | {"outcome": NOT_RUN, "detail": f"{file} does not exist", "seconds": 0}
    junit = results / f"{suite}.xml"
    variables = environment() | {
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTORCH_TEST_WITH_ROCM": "1" if rocm else "0",
        "TORCH_TESTS_SKIPS": json.dumps(known),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "stack_smoke.torch_skips"]
    command += ["-o", "junit_duration_report=call", f"--junitxml={junit}", str(file)]
    with open(results / f"{suite}.log", "wb") as log:
        _, code = run_group(command, limit, cwd=folder, stdout=log, env=variables)
    if code is None:
        done["detail"] = f"it took more than {limit} seconds"
    # pytest ends with 0, or with 1 if tests failed. Otherwise it did not run to the end.
    elif code not in (0, 1) or not junit.is_file():
        lines = (results / f"{suite}.log").read_text(errors="replace").splitlines()
        lines = [line.strip() for line in lines if line.strip()]
        last = next((line for line in reversed(lines) if line.startswith("ERROR ")), (lines or [""])[-1])
        done["detail"] = f"pytest ended with {ended(code)}: {last}"[:2000]
    else:
        for case in xml.parse(junit).iter("testcase"):
            name = f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name')}"
            kinds = {child.tag for child in case}
            if kinds & {"failure", "error"}:
                done["failed"].append(name)
            elif "skipped" in kinds:
                done["skipped"] += 1
            else:
                done["passed"] += 1
        if not done["passed"] and not done["failed"]:
            done["outcome"], done["detail"] = NOT_RUN, "every test was skipped"
        elif not done["failed"]:
            done["outcome"] = PASS
    return done | {"seconds": round(time.monotonic() - start, 3)}


def differences(now, before):
    """Yields what failed now and not in an earlier run."""
    last = {result["suite"]: result for result in before["suites"]}
    for result in now:
        old = last.get(result["suite"], {"detail": "", "failed": []})
        if result["detail"] and not old["detail"]:
            yield f"{result['suite']} ran to its end before"
        for name in sorted(set(result["failed"]) - set(old["failed"])):
            yield f"{result['suite']}: {name} did not fail before"


def merged(results):
    """Returns the JUnit files of all suites as one."""
    suites = xml.Element("testsuites", name="torch-tests")
    for file in sorted(results.glob("*.xml")):
        suites.extend(xml.parse(file).iter("testsuite"))
    return xml.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def arguments():
    parser = argparse.ArgumentParser(prog="torch-tests", description=__doc__)
    parser.add_argument("suites", metavar="SUITE", nargs="*", default=SUITES, help=f"nn runs test_nn.py [default: {' '.join(SUITES)}]")
    parser.add_argument("--version", action="version", version=f"torch-tests {__version__}")
    parser.add_argument("--folder", default=FOLDER, help="the folder with PyTorch's tests [default: %(default)s]")
    parser.add_argument("--skips", metavar="FILE", default=SKIPS, help="another list of tests to skip")
    parser.add_argument("--list-skips", action="store_true", help="list the tests that are skipped here, with the reason")
    parser.add_argument("--logs", metavar="FOLDER", help="keep the output of each suite")
    parser.add_argument("--json", metavar="FILE", help="write the results as JSON")
    parser.add_argument("--junit", metavar="FILE", help="write the results as JUnit's XML")
    parser.add_argument("--compare", metavar="FILE", help="compare with the JSON of an earlier run: only what failed since then counts")
    parser.add_argument("--limit", metavar="SECONDS", type=int, default=LIMIT, help="what a suite may take [default: %(default)s]")
    return parser


def work(args, parser):
    before = earlier(parser, args.compare, SCHEMA) if args.compare else None
    if not args.list_skips and not pathlib.Path(args.folder).is_dir():
        raise Unusable(f"{args.folder} does not exist; install python3-torch-rocm-tests, or name the folder with --folder")
    version, rocm, target = about()
    known = skips(args.skips, version, target)
    if args.list_skips:
        for suite, tests in known.items():
            for name, reason in tests.items():
                print(f"{suite}: {name}: {reason}")
        return 0
    talk = sys.stderr if "-" in (args.json, args.junit) else sys.stdout
    print(f"torch {version}, {target or 'no GPU'}", file=talk, flush=True)
    done = []
    with tempfile.TemporaryDirectory(prefix="torch-tests-") as temporary:
        results = pathlib.Path(args.logs or temporary)
        results.mkdir(parents=True, exist_ok=True)
        for suite in args.suites:
            result = run(suite, os.path.abspath(args.folder), rocm, known.get(suite, {}), results.absolute(), args.limit)
            done.append(result)
            word = {PASS: "pass", FAIL: "FAIL", NOT_RUN: "not run"}[result["outcome"]]
            numbers = f"{result['passed']} passed, {len(result['failed'])} failed, {result['skipped']} skipped"
            print(f"{word:8} {suite:14} {result['detail'] or numbers}", file=talk, flush=True)
            for name in result["failed"]:
                print(f"{'':8} {'':14} {name}", file=talk, flush=True)
        if args.junit:
            write(args.junit, merged(results))
    new = list(differences(done, before)) if before else []
    for text in new:
        print(f"{'worse':8} {text}", file=talk)
    if args.json:
        about_run = {"schema": SCHEMA, "torch": version, "target": target, "suites": done}
        write(args.json, json.dumps(about_run, indent=1) + "\n")
    return int(bool(new) if before else any(result["outcome"] == FAIL for result in done))


def main():
    parser = arguments()
    try:
        return work(parser.parse_args(), parser)
    except Unusable as error:
        parser.error(str(error))

# SPDX-License-Identifier: MIT
"""The program stack-smoke: runs the checks, prints and writes the results."""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as xml

from . import __version__
from .checks import CHECKS, LIMIT, LIMITS, NotRun

SCHEMA = "stack-smoke/1"
# A value that is worse than this part of the last one is reported.
WORSE = 0.1
PASS, FAIL, NOT_RUN = "pass", "fail", "not-run"
# The line with a check's result, among what its libraries print.
MARK = "stack-smoke result: "


def run_here(name):
    """Runs a check in this process, and prints its result."""
    result = {"outcome": PASS, "detail": "", "values": {}}
    try:
        measured = CHECKS[name].run() or {}
        keys = ("number", "unit", "better")
        result["values"] = {key: dict(zip(keys, value)) for key, value in measured.items()}
    except NotRun as reason:
        result.update(outcome=NOT_RUN, detail=str(reason))
    except Exception as error:  # Anything that a library raises is a failure of the check.
        text = " ".join(str(error).split())
        result.update(outcome=FAIL, detail=f"{type(error).__name__}: {text}"[:2000])
    print(f"\n{MARK}{json.dumps(result)}", flush=True)


def environment():
    """Returns the environment in which Python finds this package."""
    path = [str(pathlib.Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path))}


def run_group(command, limit, **options):
    """Runs a command for so many seconds at most, and returns its output and exit code; the code is None if
    it took longer."""
    # A group, so that what takes too long ends with all that it started.
    running = subprocess.Popen(command, stderr=subprocess.STDOUT, start_new_session=True, **options)
    try:
        return running.communicate(timeout=limit)[0], running.returncode
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
        return None, None
    except BaseException:
        os.killpg(running.pid, signal.SIGKILL)
        raise


def ended(code):
    """Returns how a process ended, as text."""
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def run(check):
    """Runs a check in a process of its own."""
    start = time.monotonic()
    limit = LIMITS.get(check.id, LIMIT)
    command = [sys.executable, "-m", "stack_smoke", "--run", check.id]
    options = {"text": True, "errors": "replace", "stdout": subprocess.PIPE, "env": environment()}
    output, code = run_group(command, limit, **options)
    if code is None:
        result = {"outcome": FAIL, "detail": f"it took more than {limit} seconds", "values": {}}
    else:
        result = read(output, code)
    result["computed"] = list(check.computed) if result["outcome"] == PASS else []
    about = {"id": check.id, "what": check.what, "seconds": round(time.monotonic() - start, 3)}
    return about | result


def read(output, code):
    """Returns the result in the last line of a check's output. A check without one has crashed."""
    lines = output.splitlines()
    if code == 0 and lines and lines[-1].startswith(MARK + "{"):
        return json.loads(lines[-1].removeprefix(MARK))
    last = next((line for line in reversed(lines) if line.strip() and not line.startswith(MARK)), "")
    detail = f"the process ended with {ended(code)}" + (f": {last.strip()}" if last else "")
    return {"outcome": FAIL, "detail": detail[:2000], "values": {}}


def differences(now, before):
    """Yields what is worse than in an earlier run, and whether that is an error."""
    earlier = {result["id"]: result for result in before["checks"]}
    for result in now:
        old = earlier.get(result["id"])
        if old is None:
            continue
        if old["outcome"] == PASS and result["outcome"] != PASS:
            yield f"{result['id']} passed before", True
        for name, value in result["values"].items():
            last = old["values"].get(name)
            if last is None or last["unit"] != value["unit"] or last["number"] <= 0:
                continue
            change = value["number"] / last["number"] - 1
            if (change if value["better"] == "less" else -change) > WORSE:
                unit = value["unit"]
                yield f"{result['id']}, {name}: {value['number']:.4g} {unit}, before {last['number']:.4g} {unit}", False


def junit(results):
    """Returns the results in the XML that CI systems read."""
    number = lambda outcome: str(sum(result["outcome"] == outcome for result in results))
    about = {"tests": str(len(results)), "failures": number(FAIL), "skipped": number(NOT_RUN)}
    suite = xml.Element("testsuite", name="stack-smoke", **about)
    for result in results:
        case = xml.SubElement(suite, "testcase", name=result["id"], time=str(result["seconds"]))
        if result["outcome"] != PASS:
            kind = "failure" if result["outcome"] == FAIL else "skipped"
            plain = "".join(c if c.isprintable() else " " for c in result["detail"])
            xml.SubElement(case, kind, message=plain)
    xml.indent(suite)
    return xml.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def write(path, text):
    """Writes a file in one step; `-` is the standard output."""
    if path == "-":
        sys.stdout.write(text)
        return
    path = pathlib.Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def arguments():
    parser = argparse.ArgumentParser(prog="stack-smoke", description=__doc__)
    parser.add_argument("--version", action="version", version=f"stack-smoke {__version__}")
    parser.add_argument("--list", action="store_true", help="list the checks")
    parser.add_argument("--bench", action="store_true", help="also measure speeds")
    parser.add_argument("--only", metavar="ID", action="append", choices=CHECKS, help="run only this check")
    parser.add_argument("--json", metavar="FILE", help="write the results as JSON")
    parser.add_argument("--junit", metavar="FILE", help="write the results as JUnit's XML")
    parser.add_argument("--compare", metavar="FILE", help="compare with the JSON of an earlier run")
    parser.add_argument("--run", metavar="ID", choices=CHECKS, help=argparse.SUPPRESS)
    return parser


def earlier(parser, path, schema=SCHEMA):
    try:
        before = json.loads(pathlib.Path(path).read_text())
        if before["schema"] != schema:
            raise ValueError(f"its schema is {before['schema']}, not {schema}")
        return before
    except (OSError, ValueError, KeyError, TypeError) as error:
        parser.error(f"cannot compare with {path}: {error}")


def main():
    parser = arguments()
    args = parser.parse_args()
    if args.run:
        run_here(args.run)
        return 0
    if args.list:
        for check in CHECKS.values():
            print(f"{check.id:18} {check.what}" + (" (--bench)" if check.bench else ""))
        return 0
    before = earlier(parser, args.compare) if args.compare else None
    chosen = [CHECKS[name] for name in args.only or CHECKS if args.only or args.bench or not CHECKS[name].bench]
    talk = sys.stderr if "-" in (args.json, args.junit) else sys.stdout
    results = []
    for check in chosen:
        result = run(check)
        results.append(result)
        word = {PASS: "pass", FAIL: "FAIL", NOT_RUN: "not run"}[result["outcome"]]
        detail = f": {result['detail']}" if result["detail"] else ""
        print(f"{word:8} {check.id:18} {check.what}{detail}", file=talk, flush=True)
        for name, value in result["values"].items():
            print(f"{'':8} {'':18} {name}: {value['number']:.4g} {value['unit']}", file=talk, flush=True)
    worse = list(differences(results, before)) if before else []
    for text, _ in worse:
        print(f"{'worse':8} {text}", file=talk)
    number = lambda outcome: sum(result["outcome"] == outcome for result in results)
    print(f"{number(PASS)} passed, {number(FAIL)} failed, {number(NOT_RUN)} not run", file=talk)
    if args.json:
        write(args.json, json.dumps({"schema": SCHEMA, "checks": results}, indent=1) + "\n")
    if args.junit:
        write(args.junit, junit(results))
    return int(number(FAIL) > 0 or any(error for _, error in worse))

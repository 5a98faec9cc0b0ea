#!/usr/bin/python3 -B
"""Runs `rocmrpm lint --spec` on every spec of a folder, and prints how often each rule found something.

Usage: tools/lint_survey.py [--chroot NAME] [--every N] [--findings FILE] ROCMRPM FOLDER

The specs are your own checkout, such as one of Fedora's dist-git. rpm runs the code in their %(...),
so lint asks for trust in the folder: `rocmrpm trust FOLDER`, or ROCMRPM_TRUST=FOLDER.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

ORDER = ("error", "warning", "info")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chroot", help="the chroot whose packages satisfy requirements")
    parser.add_argument("--every", type=int, default=1, help="check only every Nth spec")
    parser.add_argument("--findings", type=pathlib.Path, help="write each finding to this file")
    parser.add_argument("program", help="the rocmrpm program")
    parser.add_argument("folder", type=pathlib.Path, help="the folder of specs")
    args = parser.parse_args()
    specs = sorted(args.folder.rglob("*.spec"))[:: args.every]
    if not specs:
        sys.exit(f"error: there is no spec in {args.folder}")
    chroot = ["--chroot", args.chroot] if args.chroot else []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda spec: lint(args.program, chroot, spec), specs))
    unread = [(spec, reason) for spec, (reason, _) in zip(specs, results) if reason]
    findings = [finding for _, found in results for finding in found]
    if args.findings:
        args.findings.write_text("".join(line(finding) for finding in findings))
    print(table(findings))
    print(f"\n{len(specs) - len(unread)} of {len(specs)} specs read")
    for spec, reason in unread:
        print(f"{spec.relative_to(args.folder)}: {reason}")


def lint(program, chroot, spec):
    """Returns why a spec could not be read, or its findings."""
    command = [program, "lint", "--json", *chroot, "--spec", spec]
    done = subprocess.run(command, capture_output=True, text=True)
    # 1 means that there are errors.
    if done.returncode in (0, 1) and done.stdout:
        return None, json.loads(done.stdout)["findings"]
    if "not trusted" in done.stderr:
        sys.exit(done.stderr)
    causes = [row.strip() for row in done.stderr.splitlines() if "caused by: " in row]
    return (causes or done.stderr.splitlines() or [f"exit code {done.returncode}"])[-1], []


def line(finding):
    columns = ("severity", "id", "file", "line", "found", "expected")
    return "\t".join(str(finding[column]).replace("\t", " ") for column in columns) + "\n"


def table(findings):
    """Returns a table of rules: how many findings in how many specs."""
    counts, files = collections.Counter(), collections.defaultdict(set)
    for finding in findings:
        rule = (ORDER.index(finding["severity"]), finding["id"])
        counts[rule] += 1
        files[rule].add(finding["file"])
    rows = ["| severity | rule | findings | specs |", "|---|---|---|---|"]
    for (severity, rule), count in sorted(counts.items()):
        rows.append(f"| {ORDER[severity]} | {rule} | {count} | {len(files[severity, rule])} |")
    return "\n".join(rows)


main()

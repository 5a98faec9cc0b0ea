"""Reads the output of `rocm-sdk test`, and prints as JSON how many tests passed, and which did not.

usage: sdk-tests.py LOG PAGE

Every test that did not pass must be in the table of PAGE under the heading "ROCm as Python packages",
with the reason, and every test there must be one of them. A part of a test counts as a test.
"""

import json
import pathlib
import re
import sys

HEADING = "## ROCm as Python packages\n"


def failed_tests(log):
    """Returns the tests, or parts of them, that failed: `core_test.testConsoleScripts: amdflang`."""
    names = set()
    for name, part in re.findall(r"(?m)^(?:FAIL|ERROR): \w+ \(rocm_sdk\.tests\.([\w.]+)\)(.*)$", log):
        module, _, test = name.split(".")
        # unittest prints a part as `[message] (key='value')`. A path is that of a library.
        file = re.search(r"/([^/']+)'\)", part)
        text = file[1] if file else re.sub(r"^Check console-script ", "", part.strip(" []"))
        names.add(f"{module}.{test}" + (f": {text}" if text else ""))
    # A module that cannot be imported has no class.
    names.update(re.findall(r"(?m)^ERROR: (\w+) \(unittest\.loader\._FailedTest", log))
    return sorted(names)


def main():
    log, page = (pathlib.Path(path).read_text() for path in sys.argv[1:3])
    count = re.search(r"(?m)^Ran (\d+) tests? in ", log)
    if not count:
        sys.exit(f"error: {sys.argv[1]}: no tests ran\n{log[-2000:]}")
    failed = failed_tests(log)
    section = page.partition(HEADING)[2].partition("\n## ")[0]
    explained = re.findall(r"(?m)^\| `([^`]+)` \|", section)
    for name in sorted(set(failed) ^ set(explained)):
        what = "did not pass, and has no reason" if name in failed else "passed, but has a reason for failing"
        print(f"error: {name} {what} in {sys.argv[2]}", file=sys.stderr)
    if set(failed) != set(explained):
        sys.exit(f"help: read {sys.argv[1]}")
    whole = {name.partition(":")[0] for name in failed}
    print(json.dumps({"passed": int(count[1]) - len(whole), "not-passed": failed}))


if __name__ == "__main__":
    main()

"""A plugin of pytest: tests of a package compile its kernels, and their assertions do not count.

Without a GPU no kernel runs, so that most tests fail on wrong numbers. What counts is which
kernels they launch, and whether those compile.
"""

import collections
import math
import os
import pathlib
import re
import resource
import signal

import pytest

import gpu

MEMORY_BYTES = int(os.environ.get("KERNELS_MEMORY", 8 << 30))
SECONDS = int(os.environ.get("KERNELS_SECONDS", 120))
CASES = int(os.environ.get("KERNELS_CASES", 4))
LIMIT = int(os.environ.get("KERNELS_LIMIT", 3))
LABEL = os.environ["KERNELS_LABEL"]

# The folder of this file and of its calls.
OWN = pathlib.Path(__file__).parent
OUT = pathlib.Path(os.environ["KERNELS_OUT"])
OUT.mkdir(parents=True, exist_ok=True)
COMPILER = gpu.Compiler(OUT, LIMIT, run=LABEL)
gpu.install(COMPILER)


def pytest_configure(config):
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))


def size(item):
    """Returns the product of the numbers among a test's parameters: large ones take long."""
    _, _, parameters = item.nodeid.partition("[")
    return math.prod(int(number) for number in re.findall(r"(?<![\w.])\d+(?![\w.])", parameters) if int(number))


def pytest_collection_modifyitems(config, items):
    """Keeps a few cases of each test, spread evenly over the smaller half."""
    tests = collections.defaultdict(list)
    for item in items:
        tests[item.nodeid.split("[")[0]].append(item)
    for test, cases in tests.items():
        # All cases of the files beside this one.
        if cases[0].path.parent == OWN:
            continue
        if len(cases) > CASES:
            median = sorted(map(size, cases))[len(cases) // 2]
            tests[test] = [case for case in cases if size(case) <= median]
    items[:] = [
        cases[(2 * number + 1) * len(cases) // (2 * count)]
        for cases in tests.values()
        for count in [len(cases) if cases[0].path.parent == OWN else min(CASES, len(cases))]
        for number in range(count)
    ]


def on_alarm(_signal, _frame):
    raise TimeoutError(f"the test took more than {SECONDS} seconds")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    COMPILER.place = item.nodeid
    signal.signal(signal.SIGALRM, on_alarm)
    signal.alarm(SECONDS)
    try:
        return (yield)
    finally:
        signal.alarm(0)

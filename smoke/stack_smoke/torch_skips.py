# SPDX-License-Identifier: MIT
"""A plugin of pytest that skips the tests in the variable TORCH_TESTS_SKIPS: {pattern: reason}."""

import fnmatch
import json
import os

import pytest


def pytest_collection_modifyitems(items):
    skips = json.loads(os.environ["TORCH_TESTS_SKIPS"])
    for item in items:
        for pattern, reason in skips.items():
            if fnmatch.fnmatchcase(item.name, pattern):
                item.add_marker(pytest.mark.skip(reason=f"known: {reason}"))

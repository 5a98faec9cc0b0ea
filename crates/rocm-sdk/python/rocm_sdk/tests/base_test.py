"""Tests the selector: its command, its version check, and the names of libraries."""

import subprocess
import sys
import unittest

import rocm_sdk
from rocm_sdk import _dist_info, _release


class BaseTest(unittest.TestCase):
    def run_tool(self, *arguments):
        command = [sys.executable, "-m", "rocm_sdk", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def test_prints_its_version_and_targets(self):
        self.assertEqual(self.run_tool("version"), rocm_sdk.__version__)
        self.assertIn("gfx", self.run_tool("targets"))

    def test_compares_versions(self):
        rocm_sdk.initialize_process(check_version="*", fail_on_version_mismatch=True)
        with self.assertRaises(RuntimeError):
            rocm_sdk.initialize_process(check_version="0.*", fail_on_version_mismatch=True)
        with self.assertWarns(UserWarning):
            rocm_sdk.initialize_process(check_version="0.*")

    def test_rejects_unknown_libraries(self):
        with self.assertRaises(ModuleNotFoundError):
            rocm_sdk.find_libraries("no-such-library")

    def test_skips_libraries_that_the_release_does_without(self):
        self.assertEqual(rocm_sdk.find_libraries(*_release.OPTIONAL), [])

    def test_the_chosen_target_is_in_the_release(self):
        chosen = _dist_info.determine_target_family()
        self.assertIn(chosen, _dist_info.AVAILABLE_TARGET_FAMILIES)

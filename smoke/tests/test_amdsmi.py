# SPDX-License-Identifier: MIT
"""Tests the checks of torch and amdsmi in one process, with stand-ins that gcc compiles."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).parent.parent


class Copies(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_finds_two_copies_of_amdsmis_library(self):
        """The modules are stand-ins: each loads a copy of the library."""
        for name in ("torch", "amdsmi"):
            (self.folder / name / "lib").mkdir(parents=True)
            library = self.folder / name / "lib/libamd_smi.so"
            source = "int amdsmi_init(unsigned long flags) { return 0; }"
            subprocess.run(
                ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=source, text=True, check=True
            )
            init = self.folder / name / "__init__.py"
            init.write_text(f"import ctypes\nctypes.CDLL({str(library)!r})\n")
        environment = os.environ | {"PYTHONPATH": f"{SOURCE}:{self.folder}"}

        def outcomes():
            command = [sys.executable, "-B", "-m", "stack_smoke", "--json", "-"]
            command += ["--only", "torch-amdsmi", "--only", "amdsmi-torch"]
            done = subprocess.run(command, capture_output=True, text=True, env=environment)
            return [(one["outcome"], one["detail"]) for one in json.loads(done.stdout)["checks"]]

        for outcome, detail in outcomes():
            self.assertEqual(outcome, "fail")
            self.assertIn("two copies of libamd_smi", detail)
        # torch uses that of amdsmi.
        text = (self.folder / "amdsmi/__init__.py").read_text()
        (self.folder / "torch/__init__.py").write_text(text)
        self.assertEqual(outcomes(), [("pass", "")] * 2)

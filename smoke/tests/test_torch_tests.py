# SPDX-License-Identifier: MIT
"""Tests torch-tests with pytest and small suites. Only the module torch is a stand-in."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import tomllib
import unittest
import xml.etree.ElementTree as xml

from stack_smoke import torch_tests

SOURCE = pathlib.Path(__file__).parent.parent
TORCH = """
__version__ = "2.11.0"
class version:
    hip = "7.14"
class cuda:
    is_available = lambda: True
    get_device_properties = lambda number: type("Properties", (), {"gcnArchName": "gfx1151:xnack-"})
"""
SUITES = {
    "nn": """
        import unittest
        class TestNN(unittest.TestCase):
            def test_works(self): pass
            def test_Embedding_discontiguous_cuda(self): raise ValueError("a known failure")
            @unittest.skip("no")
            def test_skipped(self): pass
    """,
    "torch": """
        import os
        def test_print(): raise ValueError("a known failure")
        def test_print_more(): assert os.environ["PYTORCH_TEST_WITH_ROCM"] == "1"
        def test_fails(): assert not os.path.exists(os.environ["FAILS"])
    """,
    "cuda": "import os\nos.kill(os.getpid(), 11)\n",
    "ops": "import time\ndef test_hangs(): time.sleep(60)\n",
}


class Tests(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.path = pathlib.Path(self.dir.name)
        (self.path / "modules").mkdir()
        (self.path / "modules/torch.py").write_text(TORCH)
        (self.path / "modules/expecttest.py").write_text("")
        (self.path / "test").mkdir()
        for name, text in SUITES.items():
            (self.path / f"test/test_{name}.py").write_text(textwrap.dedent(text))
        (self.path / "fails").write_text("")

    def run_tests(self, *args, code=0):
        path = os.pathsep.join([str(SOURCE), str(self.path / "modules")])
        environment = os.environ | {"PYTHONPATH": path, "FAILS": str(self.path / "fails")}
        command = [sys.executable, "-B", "-c", "import sys, stack_smoke.torch_tests as t; sys.exit(t.main())", *args]
        options = {"capture_output": True, "text": True, "env": environment, "cwd": self.path, "check": False}
        ran = subprocess.run(command, **options)
        self.assertEqual(ran.returncode, code, ran.stdout + ran.stderr)
        return ran

    def test_runs_suites_without_what_is_known_to_fail(self):
        arguments = ["--folder", "test", "--json", "a.json", "--junit", "a.xml", "--limit", "5"]
        ran = self.run_tests(*arguments, "nn", "torch", "cuda", "ops", "absent", code=1)
        self.assertIn("torch 2.11.0, gfx1151", ran.stdout)
        suites = {suite["suite"]: suite for suite in json.loads((self.path / "a.json").read_text())["suites"]}
        nn, torch = suites["nn"], suites["torch"]
        self.assertEqual((nn["outcome"], nn["passed"], nn["failed"], nn["skipped"]), ("pass", 1, [], 2))
        self.assertEqual((torch["outcome"], torch["failed"], torch["skipped"]), ("fail", ["test_torch.test_fails"], 1))
        self.assertIn("SIGSEGV", suites["cuda"]["detail"])
        self.assertIn("more than 5 seconds", suites["ops"]["detail"])
        self.assertEqual(suites["absent"]["outcome"], "not-run")
        cases = {case.get("name"): case for case in xml.parse(self.path / "a.xml").iter("testcase")}
        self.assertIn("known: rounds differently", cases["test_Embedding_discontiguous_cuda"][0].get("message"))

    def test_only_new_failures_count_with_an_earlier_run(self):
        self.run_tests("--folder", "test", "--json", "a.json", "torch", code=1)
        ran = self.run_tests("--folder", "test", "--json", "b.json", "--compare", "a.json", "torch")
        self.assertNotIn("worse", ran.stdout)
        (self.path / "fails").unlink()
        self.run_tests("--folder", "test", "--json", "c.json", "torch")
        (self.path / "fails").write_text("")
        ran = self.run_tests("--folder", "test", "--compare", "c.json", "torch", code=1)
        self.assertIn("worse    torch: test_torch.test_fails did not fail before", ran.stdout)

    def test_mistakes_are_reported(self):
        self.assertIn("install python3-torch-rocm-tests", self.run_tests("--folder", "nowhere", code=2).stderr)
        (self.path / "skips.toml").write_text('[[skip]]\nsuite = "nn"\ntests = ["a"]\n')
        wrong = self.run_tests("--folder", "test", "--skips", "skips.toml", "nn", code=2)
        self.assertIn("table 1 of `skip` needs suite, reason", wrong.stderr)
        (self.path / "old.json").write_text('{"schema": "stack-smoke/1"}')
        wrong = self.run_tests("--folder", "test", "--compare", "old.json", "nn", code=2)
        self.assertIn("its schema is stack-smoke/1", wrong.stderr)
        (self.path / "modules/expecttest.py").unlink()
        wrong = self.run_tests("--folder", "test", "nn", code=2)
        self.assertIn("not installed: expecttest", wrong.stderr)

    def test_skips_by_version_and_target(self):
        of = lambda version, target: torch_tests.skips(torch_tests.SKIPS, version, target)
        self.assertIn("test_Embedding_discontiguous_cuda", of("2.11.0a0", "gfx1151")["nn"])
        self.assertNotIn("test_Embedding_discontiguous_cuda", of("2.11.0", "gfx1100")["nn"])
        self.assertNotIn("test_Embedding_discontiguous_cuda", of("2.13.0+rocm7.14", "gfx1151")["nn"])
        self.assertIn("test_autocast_torch_bf16", of("2.14.0", "gfx950")["cuda"])

    def test_list_is_sorted_by_suite_and_has_no_test_twice(self):
        tables = tomllib.loads(torch_tests.SKIPS.read_text())["skip"]
        suites = [table["suite"] for table in tables]
        self.assertEqual(suites, sorted(suites))
        self.assertLessEqual(set(suites), set(torch_tests.SUITES))
        for version in ["2.11", "2.12", "2.13", "2.14"]:
            for target in ["gfx1151", "gfx942", "gfx950"]:
                of = [t for t in tables if version in t.get("versions", [version]) and target in t.get("targets", [target])]
                names = [name for table in of for name in table["tests"]]
                self.assertEqual(len(names), len(set(names)), (version, target))

# SPDX-License-Identifier: MIT
"""Tests the program with its own checks for the CPU, and with checks that fail, crash, and hang."""

import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

from stack_smoke import checks, cli, random_llama

SOURCE = pathlib.Path(__file__).parent.parent

# Checks that end in every way, instead of the real ones.
OTHERS = """
import os, sys, time
from stack_smoke import checks, cli
checks.CHECKS.clear()
checks.LIMIT = cli.LIMIT = 3
@checks.check("works")
def works(): print("stack-smoke result: not one"); return {"speed": (%s, "x/s", "more")}
@checks.check("fails")
def fails(): raise ValueError("two\\nlines \\x1b[1m")
@checks.check("crashes")
def crashes(): os.abort()
@checks.check("ends")
def ends(): os._exit(0)
@checks.check("hangs")
def hangs(): time.sleep(60)
@checks.check("cannot")
def cannot(): checks.module("no_such_module")
sys.exit(cli.main())
"""


def run(*args, **options):
    command = [sys.executable, "-B", *args]
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, **options)


class Program(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def others(self, speed, *args):
        """Runs the other checks, whose processes also have them."""
        package = self.folder / "others" / "stack_smoke"
        if not package.exists():
            package.parent.mkdir()
            for name in ("__init__", "checks", "cli", "random_gguf", "random_llama"):
                package.mkdir(exist_ok=True)
                (package / f"{name}.py").write_text((SOURCE / f"stack_smoke/{name}.py").read_text())
        (package / "__main__.py").write_text(OTHERS % speed)
        environment = os.environ | {"PYTHONPATH": str(package.parent)}
        command = [sys.executable, "-B", "-m", "stack_smoke", *args]
        # Python searches the working folder first.
        return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=self.folder)

    def test_reports_each_kind_of_end(self):
        before, after = self.folder / "before.json", self.folder / "after.json"
        done = self.others(100, "--json", str(before), "--junit", str(self.folder / "x.xml"))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        results = {one["id"]: one for one in json.loads(before.read_text())["checks"]}
        outcomes = {name: one["outcome"] for name, one in results.items()}
        failed = dict.fromkeys(("fails", "crashes", "ends", "hangs"), "fail")
        self.assertEqual(outcomes, {"works": "pass", **failed, "cannot": "not-run"})
        self.assertEqual(results["works"]["values"]["speed"]["number"], 100)
        self.assertIn("SIGABRT", results["crashes"]["detail"])
        self.assertIn("more than 3 seconds", results["hangs"]["detail"])
        self.assertIn("no_such_module is not installed", results["cannot"]["detail"])
        self.assertIn("1 passed, 4 failed, 1 not run", done.stdout)
        suite = xml.parse(self.folder / "x.xml").getroot()
        self.assertEqual((suite.get("tests"), suite.get("failures"), suite.get("skipped")), ("6", "4", "1"))
        # Compared with the earlier run.
        done = self.others(80, "--only", "works", "--json", str(after), "--compare", str(before))
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("worse    works, speed: 80 x/s, before 100 x/s", done.stdout)
        earlier = json.loads(before.read_text())
        next(one for one in earlier["checks"] if one["id"] == "cannot")["outcome"] = "pass"
        before.write_text(json.dumps(earlier))
        done = self.others(99, "--only", "cannot", "--compare", str(before))
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("worse    cannot passed before", done.stdout)

    def test_refuses_what_it_cannot_compare(self):
        other = self.folder / "other.json"
        for text in ("", "[]", '{"schema": "other/1"}'):
            other.write_text(text)
            done = run("-m", "stack_smoke", "--compare", str(other))
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"cannot compare with {other}", done.stderr)
        self.assertEqual(run("-m", "stack_smoke", "--only", "nothing").returncode, 2)

    def test_keeps_the_output_clean_for_json(self):
        done = run("-m", "stack_smoke", "--only", "torch-gpu", "--json", "-")
        self.assertEqual(json.loads(done.stdout)["schema"], cli.SCHEMA)
        self.assertIn("torch-gpu", done.stderr)

    def test_leaves_an_old_file_if_it_cannot_write(self):
        path = self.folder / "none" / "x.json"
        done = run("-m", "stack_smoke", "--only", "torch-gpu", "--json", str(path))
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_checks_of_the_cpu_pass(self):
        for name in ("cpu-matmul", "cpu-lapack", "cpu-convolution"):
            done = run("-m", "stack_smoke", "--only", name, "--json", "-")
            result = json.loads(done.stdout)["checks"][0]
            self.assertIn(result["outcome"], ("pass", "not-run"), result)

    def test_wrong_results_fail(self):
        try:
            import torch
        except ImportError:
            self.skipTest("torch is not installed")
        good = torch.ones(3)
        checks.close(good, good, 0)
        for bad in (good * 1.1, good / 0):
            with self.assertRaises(AssertionError):
                checks.close(bad, good, 1e-3)

    def test_writes_a_model(self):
        folder = self.folder / "model"
        random_llama.write(folder)
        data = (folder / "model.safetensors").read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8 : 8 + length])
        ends = [one["data_offsets"][1] for name, one in header.items() if name != "__metadata__"]
        self.assertEqual(max(ends), len(data) - 8 - length)
        config = json.loads((folder / "config.json").read_text())
        tokens = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
        self.assertEqual(config["vocab_size"], len(tokens))


if __name__ == "__main__":
    unittest.main()

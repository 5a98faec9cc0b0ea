"""Tests of the parts that need neither Triton nor PyTorch: python3 -m unittest, in this folder."""

import pathlib
import tempfile
import tomllib
import unittest

import aotriton
import inventory
import report
import results

MODULE = '''
import triton
from triton import jit

@triton.jit
def part(x):
    return x + 1

@jit
def stores(x_ptr):
    part(x_ptr)

@triton.jit(repr=None)
def launched_and_called(x_ptr):
    pass

@triton.jit
def unused_part(x):
    return x

@triton.jit
def caller(x_ptr):
    launched_and_called(x_ptr)

def run(x, fast):
    (stores if fast else launched_and_called)[(1,)](x)
'''


class Inventory(unittest.TestCase):
    def test_finds_launched_functions_and_those_that_nothing_calls(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "package").mkdir()
            (root / "package/ops.py").write_text(MODULE)
            # CUTLASS's decorator has the same name.
            (root / "package/other.py").write_text("@cute.jit\ndef kernel(x):\n    pass\n")
            found = inventory.kernels(root, "package")
        self.assertEqual(found, {"package.ops": ["stores", "launched_and_called", "caller"]})


class Sample(unittest.TestCase):
    def test_has_the_same_number_of_each_kernel(self):
        rules = [{"kernel": kernel, "n": n} for kernel, count in (("a", 100), ("b", 2), ("c", 9)) for n in range(count)]
        chosen = aotriton.sample(rules, 12)
        numbers = {kernel: [rule["n"] for rule in chosen if rule["kernel"] == kernel] for kernel in "abc"}
        self.assertEqual(numbers, {"a": [10, 30, 50, 70, 90], "b": [0, 1], "c": [0, 2, 4, 6, 8]})


class Metadata(unittest.TestCase):
    def test_reads_numbers_of_all_sizes(self):
        for encoded, number in ((b"\x7f", 127), (b"\xcc\xff", 255), (b"\xcd\x01\x00", 256)):
            code = b"\x7fELF..." + b"\xab.vgpr_count" + encoded + b"\xa5after"
            self.assertEqual(results.metadata_number(code, ".vgpr_count"), number)

    def test_missing_number_is_none(self):
        self.assertIsNone(results.metadata_number(b"\x7fELF", ".vgpr_count"))


class Errors(unittest.TestCase):
    def test_shows_the_compiler_message_before_the_exception(self):
        messages = "note: here\nloc(1): error: failed to legalize operation 'x'\n"
        self.assertEqual(
            results.first_line("RuntimeError", "PassManager::run failed", messages),
            "RuntimeError: error: failed to legalize operation 'x'",
        )

    def test_shows_a_failed_assertion(self):
        messages = "python: a.cpp:659: f(): Assertion `x > 1 && \"small\"' failed.\nerror: in a pass pipeline\n"
        self.assertEqual(
            results.first_line("RuntimeError", "PassManager::run failed", messages),
            "RuntimeError: Assertion `x > 1 && \"small\"' failed.",
        )

    def test_shows_the_reason_after_the_place_in_the_source(self):
        text = "at 3:4:\n    x = f()\n        ^\nno function f"
        self.assertEqual(results.first_line("E", text, ""), "E: no function f")


class Report(unittest.TestCase):
    def row(self, **values):
        return {"kernel": "p.k", "seconds": 1.0, "lds": 0, "vgprs": 8, "spilled": 0, **values}

    def test_kernel_is_usable_if_one_variant_is(self):
        rows = [self.row(lds=70000), self.row(), self.row(error="E: x")]
        kind, shown, note = report.state(rows)
        self.assertEqual((kind, len(shown)), ("compiled", 1))
        self.assertEqual(note, "1 of 3 need 70000 bytes of LDS; 1 of 3 failed: E: x")

    def test_kernel_that_exceeds_the_lds_is_not_usable(self):
        self.assertEqual(report.state([self.row(lds=65537)])[0], "too large")

    def test_record_has_the_order_of_the_fields_and_is_valid_toml(self):
        record = {"failed": {"p.k": "e\\"}, "gpu-targets": ["b"], "seconds": 1, "component": "x \"y\""}
        text = report.evidence.as_toml(record)
        self.assertEqual(tomllib.loads(text), record)
        self.assertTrue(text.startswith("component = "), text)

    def test_specialized_kernels_count_as_the_function_they_copy(self):
        rows = [self.row(kernel="made_dflt._reduce"), self.row(kernel="tests.helper")]
        grouped = report.by_kernel(rows, {"p.reduce._reduce"})
        self.assertEqual({name: len(rows) for name, rows in grouped.items()}, {"p.reduce._reduce": 1})


if __name__ == "__main__":
    unittest.main()

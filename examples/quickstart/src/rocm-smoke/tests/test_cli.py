# SPDX-License-Identifier: MIT
"""Tests the command with a replacement for the compiled library."""

import contextlib
import io
import json
import unittest
from pathlib import Path
from unittest import mock

from rocm_smoke import cli, library, reference
from rocm_smoke.library import Device, HipError, LoadError

STRIX = Device(0, "AMD Radeon 8060S", "gfx1151", 64 << 30)


class CpuLibrary:
    """Computes on the CPU what the kernels compute."""

    found = [STRIX]
    seconds = 0.001

    def devices(self):
        return self.found

    def add(self, device, a, b, repeats):
        return reference.add(a, b), self.seconds

    def multiply(self, device, a, b, size, repeats):
        return reference.multiply(a, b, size), self.seconds


class NoGpu(CpuLibrary):
    found = []


class WrongProduct(CpuLibrary):
    def multiply(self, device, a, b, size, repeats):
        product, seconds = super().multiply(device, a, b, size, repeats)
        product[size + 2] += 1
        return product, seconds


class Failing(CpuLibrary):
    def add(self, device, a, b, repeats):
        raise HipError("vector-add on device 0", 2, "hipErrorOutOfMemory", "out of memory")


class Missing:
    def __init__(self):
        raise LoadError("cannot load x: libamdhip64.so.7: no such file")


def run(stand_in, *arguments, targets=("gfx1151",)):
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(cli, "Library", stand_in),
        mock.patch.object(cli, "GPU_TARGETS", list(targets)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            code = cli.main(["--size", "8", *arguments])
        except SystemExit as exit_:
            code = exit_.code
    return code, out.getvalue(), err.getvalue()


class Command(unittest.TestCase):
    def test_reports_good_results(self):
        code, out, err = run(CpuLibrary)
        self.assertEqual((code, err), (0, ""))
        self.assertIn("device 0: AMD Radeon 8060S, gfx1151, 64.0 GiB\n", out)
        self.assertIn("  vector-add: ok, 0.0 GB/s\n", out)
        self.assertIn("  matrix-multiply: ok, 0.0 GFLOP/s\n", out)

    def test_omits_rate_without_measurement(self):
        unmeasured = type("Unmeasured", (CpuLibrary,), {"seconds": 0.0})
        code, out, _ = run(unmeasured)
        self.assertEqual(code, 0)
        self.assertNotIn("/s", out)

    def test_reports_wrong_element(self):
        code, out, _ = run(WrongProduct)
        self.assertEqual(code, 1)
        self.assertIn("  matrix-multiply: WRONG: row 1, column 2: expected", out)

    def test_reports_missing_gpu_with_help(self):
        for path_exists, accessible, help in [
            (False, False, "/dev/kfd does not exist"),
            (True, False, "groups render and video"),
            (True, True, "rocminfo"),
        ]:
            with (
                mock.patch("os.path.exists", return_value=path_exists),
                mock.patch("os.access", return_value=accessible),
            ):
                code, out, err = run(NoGpu)
            self.assertEqual((code, out), (3, ""))
            self.assertIn("error: no GPU found\n", err)
            self.assertIn(help, err)

    def test_reports_hip_and_load_errors(self):
        code, _, err = run(Failing)
        self.assertEqual(code, 4)
        self.assertIn("error: device 0: vector-add on device 0: out of memory", err)
        code, _, err = run(Missing)
        self.assertEqual(code, 4)
        self.assertIn("libamdhip64.so.7", err)

    def test_reports_gpu_without_code(self):
        code, _, err = run(CpuLibrary, targets=["gfx1100", "gfx1201"])
        self.assertEqual(code, 4)
        self.assertIn("no code for gfx1151, only for gfx1100, gfx1201", err)

    def test_prints_json(self):
        code, out, err = run(NoGpu, "--json")
        report = json.loads(out)
        self.assertEqual((code, err), (3, ""))
        self.assertEqual(report["schema"], "rocm-smoke/1")
        self.assertEqual((report["exit_code"], report["devices"]), (3, []))
        code, out, _ = run(CpuLibrary, "--json", "--device", "0")
        self.assertEqual(code, 0)
        self.assertEqual(json.loads(out)["devices"][0]["arch"], "gfx1151")

    def test_lists_targets_without_gpu(self):
        code, out, _ = run(Missing, "--list-targets", targets=["gfx1100", "gfx1151"])
        self.assertEqual((code, out), (0, "gfx1100\ngfx1151\n"))

    def test_rejects_wrong_arguments(self):
        for arguments in (["--size", "0"], ["--size", "4097"], ["--device", "-1"], ["--nope"]):
            self.assertEqual(run(CpuLibrary, *arguments)[0], 2, arguments)
        code, _, err = run(CpuLibrary, "--device", "1")
        self.assertEqual(code, 2)
        self.assertIn("no device 1: found 1 device, numbered from 0", err)

    def test_help_and_readme_list_the_same_exit_codes(self):
        code, out, _ = run(CpuLibrary, "--help")
        self.assertEqual(code, 0)
        readme = (Path(__file__).parent.parent / "README.md").read_text()
        codes = cli.EPILOG.splitlines()[1:]
        self.assertEqual(len(codes), 5)
        for line in codes:
            self.assertIn(line, out)
            self.assertIn(line.strip().replace("  ", " | ", 1), readme)


class Loading(unittest.TestCase):
    def test_missing_library_is_load_error(self):
        with self.assertRaisesRegex(LoadError, "no-such-library.so"):
            library.Library(Path("/no-such-library.so"))


if __name__ == "__main__":
    unittest.main()

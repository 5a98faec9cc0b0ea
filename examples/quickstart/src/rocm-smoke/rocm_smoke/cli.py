# SPDX-License-Identifier: MIT
"""The command rocm-smoke: parse arguments, run the kernels, and print the report."""

import argparse
import json
import os
import sys

from rocm_smoke import GPU_TARGETS, __version__, reference
from rocm_smoke.library import Device, HipError, Library, LoadError
from rocm_smoke.targets import runs

OK, WRONG, USAGE, NO_GPU, HIP = 0, 1, 2, 3, 4
MAX_SIZE = 4096
REPEATS = 10

EPILOG = """\
exit codes:
  0  every kernel ran and its result was correct
  1  a kernel computed a wrong result
  2  usage error
  3  no GPU
  4  a HIP error, no code for this GPU, or a library that cannot be loaded
"""


def parser() -> argparse.ArgumentParser:
    """The argument parser."""
    p = argparse.ArgumentParser(
        prog="rocm-smoke",
        description="Run a vector-add and a matrix-multiply kernel on every AMD GPU"
        " and check the results against the CPU.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("--device", type=int, metavar="N", help="test only this GPU, numbered from 0")
    p.add_argument(
        "--size",
        type=int,
        default=1024,
        metavar="N",
        help=f"rows of the matrices, 1 to {MAX_SIZE}; the vectors have N times N elements"
        " (default: %(default)s)",
    )
    p.add_argument("--json", action="store_true", help="print the report as JSON")
    p.add_argument(
        "--list-targets", action="store_true", help="print the compiled GPU targets and exit"
    )
    p.add_argument("--version", action="version", version=f"rocm-smoke {__version__}")
    return p


def no_gpu_help() -> list[str]:
    """Help lines for when HIP finds no GPU."""
    if not os.path.exists("/dev/kfd"):
        return [
            "/dev/kfd does not exist; check that there is an AMD GPU and that the amdgpu"
            " driver is loaded"
        ]
    if not os.access("/dev/kfd", os.R_OK | os.W_OK):
        return [
            "/dev/kfd is not accessible; join the groups render and video"
            " (sudo usermod -aG render,video $USER), then log in again"
        ]
    return ["/dev/kfd is accessible; check the output of rocminfo and dmesg"]


def test(library: Library, device: Device, size: int) -> dict:
    """Run both kernels on a device; return its part of the report."""
    report = {
        "index": device.index,
        "name": device.name,
        "arch": device.arch,
        "memory_bytes": device.memory,
        "tests": [],
    }
    if not any(runs(target, device.arch) for target in GPU_TARGETS):
        report["error"] = (
            f"this build has no code for {device.arch}, only for {', '.join(GPU_TARGETS)}"
        )
        return report
    count = size * size
    a, b = reference.inputs(count, 1), reference.inputs(count, 2)
    try:
        found, seconds = library.add(device.index, a, b, REPEATS)
        wrong = reference.wrong_element(found, reference.add(a, b))
        # Two vectors are read and one is written.
        rate = {"gigabytes_per_second": 3 * 4 * count / seconds / 1e9} if seconds > 0 else {}
        report["tests"].append({"name": "vector-add", "wrong": wrong, **rate})
        found, seconds = library.multiply(device.index, a, b, size, REPEATS)
        wrong = reference.wrong_product(found, a, b, size, 3)
        rate = {"gigaflops": 2 * size**3 / seconds / 1e9} if seconds > 0 else {}
        report["tests"].append({"name": "matrix-multiply", "wrong": wrong, **rate})
    except HipError as error:
        report["error"] = str(error)
    return report


def examine(device: int | None, size: int) -> tuple[int, dict]:
    """Test the requested devices; return the exit code and the report."""
    report = {
        "schema": "rocm-smoke/1",
        "version": __version__,
        "gpu_targets": GPU_TARGETS,
        "size": size,
        "devices": [],
    }
    try:
        library = Library()
        devices = library.devices()
    except (LoadError, HipError) as error:
        return HIP, {**report, "error": str(error)}
    if not devices:
        return NO_GPU, {**report, "error": "no GPU found", "help": no_gpu_help()}
    if device is not None:
        if device >= len(devices):
            count = len(devices)
            found = f"found {count} device{'s' if count != 1 else ''}, numbered from 0"
            return USAGE, {**report, "error": f"no device {device}: {found}"}
        devices = [devices[device]]
    report["devices"] = [test(library, d, size) for d in devices]
    if any("error" in d for d in report["devices"]):
        return HIP, report
    if any(t["wrong"] for d in report["devices"] for t in d["tests"]):
        return WRONG, report
    return OK, report


def text(report: dict) -> str:
    """The report for standard output."""
    lines = []
    for device in report["devices"]:
        memory = device["memory_bytes"] / 2**30
        lines.append(
            f"device {device['index']}: {device['name']}, {device['arch']}, {memory:.1f} GiB"
        )
        for t in device["tests"]:
            rate = ""
            if "gigabytes_per_second" in t:
                rate = f", {t['gigabytes_per_second']:.1f} GB/s"
            elif "gigaflops" in t:
                rate = f", {t['gigaflops']:.1f} GFLOP/s"
            lines.append(f"  {t['name']}: " + (f"WRONG: {t['wrong']}" if t["wrong"] else f"ok{rate}"))
    return "".join(line + "\n" for line in lines)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    p = parser()
    options = p.parse_args(arguments)
    if not 1 <= options.size <= MAX_SIZE:
        p.error(f"argument --size: expected 1 to {MAX_SIZE}, found {options.size}")
    if options.device is not None and options.device < 0:
        p.error(f"argument --device: expected 0 or more, found {options.device}")
    if options.list_targets:
        sys.stdout.write("".join(target + "\n" for target in GPU_TARGETS))
        return OK
    code, report = examine(options.device, options.size)
    if options.json:
        json.dump({**report, "exit_code": code}, sys.stdout, indent=2)
        sys.stdout.write("\n")
        return code
    sys.stdout.write(text(report))
    for device in report["devices"]:
        if "error" in device:
            print(f"error: device {device['index']}: {device['error']}", file=sys.stderr)
    if "error" in report:
        print(f"error: {report['error']}", file=sys.stderr)
        for help in report.get("help", []):
            print(f"help: {help}", file=sys.stderr)
    return code

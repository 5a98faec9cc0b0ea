# SPDX-License-Identifier: MIT
"""Loads the compiled library with ctypes."""

import ctypes
import os
from array import array
from dataclasses import dataclass
from pathlib import Path

PATH = Path(__file__).with_name("librocm_smoke.so")

# hipErrorNoDevice: hipGetDeviceCount returns it if there is no GPU.
NO_DEVICE = 100


# AMD's packages install ROCm below it; the dynamic linker does not search there.
AMD_ROOT = Path("/opt/rocm")


class LoadError(Exception):
    """The library or one of its dependencies could not be loaded."""


class HipError(Exception):
    """A HIP call failed."""

    def __init__(self, what: str, code: int, name: str, message: str):
        super().__init__(f"{what}: {message} ({name}, {code})")
        self.code = code


@dataclass(frozen=True)
class Device:
    """A GPU as HIP describes it; `memory` in bytes."""

    index: int
    name: str
    arch: str
    memory: int


class _Device(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char * 256),
        ("arch", ctypes.c_char * 256),
        ("memory", ctypes.c_ulonglong),
    ]


def _load(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        reason = error
    # A loaded library satisfies every dependency on its SONAME.
    given = os.environ.get("ROCM_PATH")
    roots = [Path(given)] if given else [*sorted(AMD_ROOT.glob("core*")), AMD_ROOT]
    for root in roots:
        for hip in sorted(root.glob("lib/libamdhip64.so.?")):
            try:
                ctypes.CDLL(str(hip))
                return ctypes.CDLL(str(path))
            except OSError:
                continue
    raise LoadError(f"cannot load {path}: {reason}")


class Library:
    """The kernels, and HIP's information about the devices."""

    def __init__(self, path: Path = PATH):
        self._library = _load(path)
        for name in ("rocm_smoke_error_name", "rocm_smoke_error_message"):
            function = getattr(self._library, name)
            function.argtypes = [ctypes.c_int]
            function.restype = ctypes.c_char_p
        buffer = ctypes.POINTER(ctypes.c_float)
        seconds = ctypes.POINTER(ctypes.c_double)
        self._library.rocm_smoke_device_count.argtypes = [ctypes.POINTER(ctypes.c_int)]
        self._library.rocm_smoke_device_info.argtypes = [ctypes.c_int, ctypes.POINTER(_Device)]
        self._library.rocm_smoke_add.argtypes = [
            *[ctypes.c_int, buffer, buffer, buffer, ctypes.c_size_t, ctypes.c_int, seconds]
        ]
        self._library.rocm_smoke_multiply.argtypes = [
            *[ctypes.c_int, buffer, buffer, buffer, ctypes.c_int, ctypes.c_int, seconds]
        ]

    def _check(self, what: str, code: int) -> None:
        if code != 0:
            name = (self._library.rocm_smoke_error_name(code) or b"unknown").decode()
            message = (self._library.rocm_smoke_error_message(code) or b"unknown error").decode()
            raise HipError(what, code, name, message)

    def devices(self) -> list[Device]:
        """All GPUs that HIP finds."""
        count = ctypes.c_int(0)
        code = self._library.rocm_smoke_device_count(ctypes.byref(count))
        if code == NO_DEVICE:
            return []
        self._check("cannot count the devices", code)
        return [self._device(index) for index in range(count.value)]

    def _device(self, index: int) -> Device:
        info = _Device()
        code = self._library.rocm_smoke_device_info(index, ctypes.byref(info))
        self._check(f"cannot query device {index}", code)
        name, arch = (t.decode(errors="replace") for t in (info.name, info.arch))
        return Device(index, name, arch, info.memory)

    def add(self, device: int, a: array, b: array, repeats: int) -> tuple[array, float]:
        """a + b computed on the GPU, and the mean duration of a kernel in seconds."""
        function = self._library.rocm_smoke_add
        return self._run("vector-add", function, device, a, b, len(a), repeats)

    def multiply(
        self, device: int, a: array, b: array, size: int, repeats: int
    ) -> tuple[array, float]:
        """The product of two square matrices computed on the GPU, and the mean duration."""
        function = self._library.rocm_smoke_multiply
        return self._run("matrix-multiply", function, device, a, b, size, repeats)

    def _run(self, what, function, device, a, b, extent, repeats):
        result = array("f", bytes(4 * len(a)))
        buffer = ctypes.c_float * len(a)
        seconds = ctypes.c_double(0.0)
        buffers = (buffer.from_buffer(x) for x in (a, b, result))
        code = function(device, *buffers, extent, repeats, ctypes.byref(seconds))
        self._check(f"{what} on device {device}", code)
        return result, seconds.value

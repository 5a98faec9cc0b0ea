"""Runs the profilers of ROCm.

Programs that they instrument load the profilers' libraries too, by names only.
"""

import functools
import importlib.util
import os
import sys
from pathlib import Path

from ._programs import PROGRAMS


def _prepend(name, folders):
    old = [part for part in os.environ.get(name, "").split(os.pathsep) if part]
    new = [str(folder) for folder in folders if folder.is_dir() and str(folder) not in old]
    if new:
        os.environ[name] = os.pathsep.join([*new, *old])


def _run(path):
    root = Path(importlib.util.find_spec("_rocm_profiler").origin).parent
    libraries = [root / "lib"]
    core = importlib.util.find_spec("_rocm_sdk_core")
    if core is not None:
        libraries.append(Path(core.origin).parent / "lib" / "rocm_sysdeps" / "lib")
    _prepend("LD_LIBRARY_PATH", libraries)
    _prepend("PYTHONPATH", [root / "libexec" / "rocprofiler-compute"])
    program = str(root / path)
    os.execv(program, [program, *sys.argv[1:]])


def __getattr__(name):
    try:
        return functools.partial(_run, PROGRAMS[name])
    except KeyError:
        raise AttributeError(name) from None

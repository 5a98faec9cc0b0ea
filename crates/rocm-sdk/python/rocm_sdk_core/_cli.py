"""Runs the programs of ROCm from the folder with the development files if that is installed."""

import functools
import importlib.util
import os
import sys
from pathlib import Path

from ._programs import PROGRAMS


def _root(expand):
    if importlib.util.find_spec("rocm_sdk_devel") is not None:
        expanded = importlib.util.find_spec("_rocm_sdk_devel")
        if expanded is not None and expanded.origin:
            return Path(expanded.origin).parent
        if expand:
            from rocm_sdk import _devel

            return _devel.get_devel_root()
    elif expand:
        from importlib import metadata

        print(
            f"{Path(sys.argv[0]).name}: warning: headers and libraries to link with are missing; "
            f"run `pip install 'rocm[devel]=={metadata.version('rocm-sdk-core')}'`",
            file=sys.stderr,
        )
    return Path(importlib.util.find_spec("_rocm_sdk_core").origin).parent


def _run(path, expand):
    program = str(_root(expand) / path)
    os.execv(program, [program, *sys.argv[1:]])


def __getattr__(name):
    try:
        return functools.partial(_run, *PROGRAMS[name])
    except KeyError:
        raise AttributeError(name) from None

"""Finds and loads the libraries of the ROCm packages in this Python environment."""

import ctypes
import importlib
import os
import re
import warnings
from pathlib import Path

from . import _dist_info, _release
from ._dist_info import __version__

__all__ = ["__version__", "find_libraries", "initialize_process", "preload_libraries"]

_ALL_CDLLS = {}


def _package_path(package):
    entry = _dist_info.ALL_PACKAGES[package]
    target = _dist_info.determine_target_family() if entry.is_target_specific else None
    try:
        module = importlib.import_module(entry.get_py_package_name(target))
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"the ROCm package `{entry.get_dist_package_name(target)}` is not installed; "
            f"run `pip install 'rocm[{package}]=={__version__}'`"
        ) from None
    return Path(module.__file__).parent


def find_libraries(*shortnames):
    """Returns the paths of libraries by their short names, such as `amdhip64`.

    Skips libraries that this release of ROCm does without. Raises ModuleNotFoundError if another name
    is unknown or its package is not installed.
    """
    paths = []
    for name in shortnames:
        if name in _release.OPTIONAL:
            continue
        if name not in _release.LIBRARIES:
            raise ModuleNotFoundError(f"this release of ROCm has no library `{name}`")
        package, path = _release.LIBRARIES[name]
        paths.append(_package_path(package) / path)
    return paths


def _load(soname, mode, loading):
    """Loads a library after those that it needs, so that it finds them whatever its search path."""
    package, path, needed = _release.SONAMES[soname]
    if soname in loading:
        return None
    loading.add(soname)
    for other in needed:
        _load(other, mode, loading)
    return ctypes.CDLL(str(_package_path(package) / path), mode=mode)


def preload_libraries(*shortnames, rtld_global=True):
    """Loads libraries by their short names, with everything that they need from ROCm."""
    mode = ctypes.RTLD_GLOBAL if rtld_global else ctypes.RTLD_LOCAL
    for name in shortnames:
        for path in find_libraries(name) if name not in _ALL_CDLLS else []:
            _ALL_CDLLS[name] = _load(path.name, mode, set())


def initialize_process(
    *,
    preload_shortnames=None,
    rtld_global=True,
    env_override=True,
    check_version=None,
    fail_on_version_mismatch=False,
    **kwargs,
):
    """Prepares a process for extension modules that need ROCm: loads libraries, and compares the
    version.

    `env_override` also loads the libraries that ROCM_SDK_PRELOAD_LIBRARIES lists, separated by commas
    or semicolons. `check_version` is a pattern or a text in which `*` is any text; a mismatch is a
    warning, or a RuntimeError with `fail_on_version_mismatch`.
    """
    preload_libraries(*(preload_shortnames or []), rtld_global=rtld_global)
    listed = os.environ.get("ROCM_SDK_PRELOAD_LIBRARIES", "") if env_override else ""
    names = [name.strip() for name in re.split("[,;]", listed) if name.strip()]
    try:
        preload_libraries(*names, rtld_global=rtld_global)
    except (ImportError, OSError) as error:
        raise RuntimeError(f"cannot load ROCM_SDK_PRELOAD_LIBRARIES={listed}: {error}") from error
    if not check_version:
        return
    if not isinstance(check_version, re.Pattern):
        check_version = re.compile(re.escape(check_version).replace("\\*", ".*") + "$")
    if not check_version.match(__version__):
        message = (
            f"The program was compiled against a ROCm version matching '{check_version.pattern}', "
            f"but this environment has {__version__}."
        )
        if fail_on_version_mismatch:
            raise RuntimeError(message)
        warnings.warn(message)

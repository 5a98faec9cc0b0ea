"""The packages of this ROCm release, and which of them are for this machine.

The interface is that of TheRock's module of this name, which frameworks use.
"""

import importlib.util
import os
from pathlib import Path

from . import _release

__version__ = _release.VERSION
REQUIRES_PYTHON = _release.REQUIRES_PYTHON
PY_PACKAGE_SUFFIX_NONCE = ""
DEFAULT_TARGET_FAMILY = _release.TARGETS[0]
AVAILABLE_TARGET_FAMILIES = list(_release.TARGETS)
TOPOLOGY = Path("/sys/class/kfd/kfd/topology/nodes")


class PackageEntry:
    """A package of the release, whose name may depend on the GPU target."""

    def __init__(self, logical_name, dist_package_template, pure_py_package_name, required=False):
        self.logical_name = logical_name
        self.dist_package_template = dist_package_template
        self.pure_py_package_name = pure_py_package_name
        self.required = required

    @property
    def is_target_specific(self):
        return "{target_family}" in self.dist_package_template

    def get_dist_package_name(self, target_family=None):
        if not self.is_target_specific:
            return self.dist_package_template
        if target_family is None:
            raise ValueError(f"the package `{self.logical_name}` needs a GPU target")
        return self.dist_package_template.format(target_family=target_family.split(":")[0])

    def get_dist_package_require(self, target_family=None):
        return f"{self.get_dist_package_name(target_family)}=={__version__}"

    def get_py_package_name(self, target_family=None):
        return "_" + self.get_dist_package_name(target_family).replace("-", "_")

    def get_py_package(self, target_family=None):
        return importlib.util.find_spec(self.get_py_package_name(target_family))

    def has_py_package(self, target_family=None):
        return self.get_py_package(target_family) is not None

    def __repr__(self):
        return self.dist_package_template


class LibraryEntry:
    """A library that programs load by a short name."""

    def __init__(self, shortname, package, path):
        self.shortname = shortname
        self.package = package
        self.posix_relpath, _, self.so_pattern = path.rpartition("/")
        self.optional = False

    def __repr__(self):
        return f"{self.shortname}({self.posix_relpath}/{self.so_pattern})"


_LIBRARIES = "rocm-sdk-libraries" if _release.SPLIT else "rocm-sdk-libraries-{target_family}"

ALL_PACKAGES = {
    entry.logical_name: entry
    for entry in [
        PackageEntry("meta", "rocm", "rocm_sdk", required=True),
        PackageEntry("core", "rocm-sdk-core", "rocm_sdk_core", required=True),
        PackageEntry("libraries", _LIBRARIES, "rocm_sdk_libraries"),
        PackageEntry("device", "rocm-sdk-device-{target_family}", "rocm_sdk_device"),
        PackageEntry("devel", "rocm-sdk-devel", "rocm_sdk_devel"),
        PackageEntry("profiler", "rocm-profiler", "rocm_profiler"),
    ]
}
ALL_LIBRARIES = {
    name: LibraryEntry(name, ALL_PACKAGES[package], path)
    for name, (package, path) in _release.LIBRARIES.items()
}


def machine_gpus():
    """Returns the targets of all GPUs that the driver lists, such as `["gfx1151"]`.

    The driver writes major * 10000 + minor * 100 + stepping; CPUs have 0.
    """
    found = set()
    try:
        nodes = sorted(TOPOLOGY.iterdir())
    except OSError:
        return []
    for node in nodes:
        try:
            lines = (node / "properties").read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, value = line.partition(" ")
            if name == "gfx_target_version" and int(value):
                number = int(value)
                major, minor, stepping = number // 10000, number // 100 % 100, number % 100
                found.add(f"gfx{major}{minor:x}{stepping:x}")
    return sorted(found)


def machine_targets():
    """Returns the targets or families of this release that have code for this machine's GPUs."""
    gpus = set(machine_gpus())
    return [name for name in AVAILABLE_TARGET_FAMILIES if gpus & set(_release.GPUS[name])]


def determine_target_families():
    """Returns the targets or families to use: ROCM_SDK_TARGET_FAMILY, else those of all GPUs of this
    machine, else the default of the release."""
    chosen = os.environ.get("ROCM_SDK_TARGET_FAMILY")
    if not chosen:
        return machine_targets() or [DEFAULT_TARGET_FAMILY]
    if chosen in AVAILABLE_TARGET_FAMILIES:
        return [chosen]
    for name in AVAILABLE_TARGET_FAMILIES:
        if chosen in _release.GPUS[name]:
            return [name]
    available = ", ".join(AVAILABLE_TARGET_FAMILIES)
    raise ValueError(
        f"ROCM_SDK_TARGET_FAMILY={chosen} is not in this release of ROCm, which has {available}"
    )


def determine_target_family():
    return determine_target_families()[0]


def requirements():
    """Returns the requirements of the package `rocm` without extras."""
    return [ALL_PACKAGES["core"].get_dist_package_require()]


def extras():
    """Returns the requirements of each extra of the package `rocm`, for this machine."""
    chosen = determine_target_families()

    def names(package, targets):
        entry = ALL_PACKAGES[package]
        if not entry.is_target_specific:
            return [entry.get_dist_package_require()]
        return [entry.get_dist_package_require(target) for target in targets]

    # The libraries of a release without separate device packages contain the device code.
    device = "device" if _release.SPLIT else "libraries"
    found = {}
    for package in _release.PACKAGES:
        if package != "core":
            # One process can use the libraries of one family only.
            found[package] = names(package, chosen[:1])
    if "libraries" in _release.PACKAGES:
        found["device"] = names(device, chosen)
        found["device-all"] = names(device, AVAILABLE_TARGET_FAMILIES)
        for target in AVAILABLE_TARGET_FAMILIES:
            for name in {target, *_release.GPUS[target]}:
                found[f"device-{name}"] = names(device, [target])
    return found

"""Tests that every library of the installed packages loads in a process of its own."""

import subprocess
import sys
import unittest

import rocm_sdk
from rocm_sdk import _dist_info, _release


class CoreTest(unittest.TestCase):
    def test_libraries_load_by_short_name(self):
        target = _dist_info.determine_target_family()
        for name, entry in _dist_info.ALL_LIBRARIES.items():
            if not entry.package.has_py_package(target):
                continue
            with self.subTest(name):
                script = "import rocm_sdk, sys; rocm_sdk.preload_libraries(sys.argv[1])"
                subprocess.run([sys.executable, "-c", script, name], check=True)

    def test_libraries_load_by_path(self):
        target = _dist_info.determine_target_family()
        for soname, (package, path, _) in _release.SONAMES.items():
            # Plugins and sanitizers in other folders load only into the programs that they are for.
            if path != f"lib/{soname}":
                continue
            if not _dist_info.ALL_PACKAGES[package].has_py_package(target):
                continue
            with self.subTest(soname):
                script = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
                library = str(rocm_sdk._package_path(package) / path)
                subprocess.run([sys.executable, "-c", script, library], check=True)

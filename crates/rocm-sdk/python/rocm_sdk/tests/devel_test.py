"""Tests the unpacked development files."""

import unittest

from rocm_sdk import _devel, _release


class DevelTest(unittest.TestCase):
    def test_has_the_files_of_all_packages(self):
        root = _devel.get_devel_root()
        for soname, (package, path, _) in _release.SONAMES.items():
            if package == "core":
                with self.subTest(soname):
                    self.assertTrue((root / path).is_file())
                    self.assertFalse((root / path).is_symlink())

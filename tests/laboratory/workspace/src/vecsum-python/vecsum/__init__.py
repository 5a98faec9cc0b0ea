"""Sums vectors on AMD GPUs."""

from vecsum._native import Error, add, devices, library_version

__all__ = ["Error", "add", "devices", "library_version"]

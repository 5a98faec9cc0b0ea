# SPDX-License-Identifier: MIT
"""Checks and measures the stack on this machine."""

__version__ = "1.0.0"

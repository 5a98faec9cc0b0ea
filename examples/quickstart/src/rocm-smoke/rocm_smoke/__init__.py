# SPDX-License-Identifier: MIT
"""Run two HIP kernels on an AMD GPU and check the results against the CPU."""

try:
    from rocm_smoke._build import GPU_TARGETS, VERSION as __version__
except ImportError:  # the source tree before a build
    GPU_TARGETS = []
    __version__ = "unbuilt"

__all__ = ["GPU_TARGETS", "__version__"]

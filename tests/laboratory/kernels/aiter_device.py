"""A plugin of pytest: presents gfx1151 to aiter as a GPU that aiter supports.

`arch_info.get_device()` of aiter has no entry for gfx1151, so that most functions fail before they
launch a kernel. With the entry of KERNELS_AITER_DEVICE they choose that GPU's configuration, and
Triton still compiles for gfx1151: this shows which kernels would compile if aiter chose them.
"""

import os
import sys
import types

import gpu

# The GPU whose 8-bit floats the tests use: OCP's, like those of PyTorch's other GPUs.
LIKE = "gfx950"
DEVICE = os.environ["KERNELS_AITER_DEVICE"]

# aiter's own modules look for rocminfo, hipcc, and a GPU.
CORE = types.ModuleType("aiter.jit.core")
CORE.compile_ops = lambda *_, **__: lambda function: function
CORE.AITER_CSRC_DIR = CORE.AITER_ROOT_DIR = "."
CHIP_INFO = types.ModuleType("aiter.jit.utils.chip_info")
CHIP_INFO.get_gfx = lambda: LIKE
CHIP_INFO.get_cu_num = lambda: 2 * gpu.PAIRS
sys.modules[CORE.__name__] = CORE
sys.modules[CHIP_INFO.__name__] = CHIP_INFO

import aiter  # noqa: E402
from aiter.ops.triton.utils._triton import arch_info  # noqa: E402

arch_info._ARCH_TO_DEVICE[gpu.ARCH] = DEVICE
arch_info.is_fp4_avail = arch_info.is_fp8_avail = lambda: True

from aiter.utility import dtypes  # noqa: E402

aiter.dtypes = dtypes
aiter.pertoken_quant = __import__("aiter.ops.quant", fromlist=["pertoken_quant"]).pertoken_quant

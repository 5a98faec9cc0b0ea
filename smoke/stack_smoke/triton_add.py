# SPDX-License-Identifier: MIT
"""A kernel in Triton, which must be in a file because Triton reads its source."""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(a, b, out, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < size
    tl.store(out + at, tl.load(a + at, mask=mask) + tl.load(b + at, mask=mask), mask=mask)


def add(a, b):
    """Returns the sum of two tensors."""
    out = torch.empty_like(a)
    kernel[(triton.cdiv(a.numel(), 1024),)](a, b, out, a.numel(), BLOCK=1024)
    return out

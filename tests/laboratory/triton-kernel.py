"""Compiles a Triton kernel for a GPU target without a GPU, and writes its code object.

usage: triton-kernel.py TARGET FILE
"""

import pathlib
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def dot(x, y, z, BLOCK: tl.constexpr):
    row = tl.arange(0, BLOCK)[:, None] * BLOCK
    column = tl.arange(0, BLOCK)[None, :]
    tl.store(z + row + column, tl.dot(tl.load(x + row + column), tl.load(y + row + column)))


def main():
    target, file = sys.argv[1:]
    types = {"x": "*fp16", "y": "*fp16", "z": "*fp32", "BLOCK": "constexpr"}
    compiled = triton.compile(ASTSource(dot, types, {"BLOCK": 32}), target=GPUTarget("hip", target, 32))
    if "v_wmma_f32_16x16x16_f16" not in compiled.asm["amdgcn"]:
        sys.exit("error: the kernel has no WMMA instruction")
    pathlib.Path(file).write_bytes(compiled.asm["hsaco"])
    print(f"triton {triton.__version__} compiled a kernel for {target} with WMMA instructions")


if __name__ == "__main__":
    main()

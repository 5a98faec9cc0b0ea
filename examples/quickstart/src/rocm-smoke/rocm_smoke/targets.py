# SPDX-License-Identifier: MIT
"""Which GPUs run code for which targets."""

# LLVM, AMDGPUUsage, table "AMDGPU Generic Processors".
GENERIC = {
    "gfx9-generic": ["gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"],
    "gfx9-4-generic": ["gfx940", "gfx941", "gfx942", "gfx950"],
    "gfx10-1-generic": ["gfx1010", "gfx1011", "gfx1012", "gfx1013"],
    "gfx10-3-generic": [f"gfx103{n}" for n in range(7)],
    "gfx11-generic": [f"gfx110{n}" for n in range(4)] + [f"gfx115{n}" for n in range(4)],
    "gfx12-generic": ["gfx1200", "gfx1201"],
}


def runs(target: str, arch: str) -> bool:
    """Whether a GPU with the name `arch` runs code for `target`.

    `arch` lists every feature of the GPU (gfx90a:sramecc+:xnack-); a target lists
    those that it requires.
    """
    processor, *wanted = target.split(":")
    device, *present = arch.split(":")
    if processor != device and device not in GENERIC.get(processor, []):
        return False
    return all(feature in present for feature in wanted)

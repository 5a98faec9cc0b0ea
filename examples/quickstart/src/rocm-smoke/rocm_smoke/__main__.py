# SPDX-License-Identifier: MIT
"""python3 -m rocm_smoke: the same as the command rocm-smoke."""

import sys

from rocm_smoke.cli import main

if __name__ == "__main__":
    sys.exit(main())

"""Reports what vecsum finds on this machine."""

import ctypes
import importlib.metadata
import sys

import vecsum

NO_DEVICE = 100


def main() -> int:
    library = ctypes.CDLL("libvecsum.so.1")
    library.vecsum_version.restype = ctypes.c_char_p
    print("library", library.vecsum_version().decode(), vecsum.library_version())
    print("vecsum", importlib.metadata.version("vecsum"))
    print("vecsum-report", importlib.metadata.version("vecsum-report"))
    try:
        print("GPUs", vecsum.devices())
    except vecsum.Error as error:
        code, message = error.args
        print(f"HIP error {code}: {message}")
        return 3 if code == NO_DEVICE else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The build backend of the `rocm` package: chooses the requirements on this machine.

It needs no other distribution, so `pip install` works from a folder of files without an index.
Source: PEP 517 (hooks), PEP 427 (wheels), "Recording installed projects".
"""

import base64
import hashlib
import os
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = os.path.join(HERE, "src")
sys.path.insert(0, SOURCES)

from rocm_sdk import _dist_info  # noqa: E402

TAG = "py3-none-any"
DIST_INFO = f"rocm-{_dist_info.__version__}.dist-info"


def _metadata():
    lines = [
        "Metadata-Version: 2.1",
        "Name: rocm",
        f"Version: {_dist_info.__version__}",
        "Summary: Selects the packages of ROCm for this machine, and finds them at run time",
        f"Requires-Python: {_dist_info.REQUIRES_PYTHON}",
    ]
    lines += [f"Requires-Dist: {name}" for name in _dist_info.requirements()]
    for extra, names in sorted(_dist_info.extras().items()):
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {name}; extra == "{extra}"' for name in names]
    return "\n".join(lines) + "\n"


def _dist_info_files():
    wheel = f"Wheel-Version: 1.0\nGenerator: rocm backend\nRoot-Is-Purelib: true\nTag: {TAG}\n"
    entry_points = "[console_scripts]\nrocm-sdk = rocm_sdk.__main__:main\n"
    return {"METADATA": _metadata(), "WHEEL": wheel, "entry_points.txt": entry_points}


def get_requires_for_build_wheel(config_settings=None):
    return []


def get_requires_for_build_sdist(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    folder = os.path.join(metadata_directory, DIST_INFO)
    os.makedirs(folder, exist_ok=True)
    for name, text in _dist_info_files().items():
        with open(os.path.join(folder, name), "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    return DIST_INFO


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    members = {}
    for folder, folders, files in os.walk(SOURCES):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                members[os.path.relpath(path, SOURCES).replace(os.sep, "/")] = file.read()
    for name, text in _dist_info_files().items():
        members[f"{DIST_INFO}/{name}"] = text.encode()
    record = ""
    for name, content in members.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(content)}\n"
    members[f"{DIST_INFO}/RECORD"] = f"{record}{DIST_INFO}/RECORD,,\n".encode()
    wheel = f"rocm-{_dist_info.__version__}-{TAG}.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, wheel), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content)
    return wheel


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("`rocmrpm sdk` makes the sdist of rocm")

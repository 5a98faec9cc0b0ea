"""Unpacks the development files next to the other packages of ROCm.

A wheel cannot contain links, so `rocm-sdk-devel` contains a tar archive of a whole ROCm in which the
files of other packages are links. Unpacked, these are hard links: a program that looks for its own
folder finds the folder with everything. Every unpacked path goes into the RECORD of `rocm-sdk-devel`,
and into that of the device package that has the file, so uninstalling removes it.
"""

import contextlib
import csv
import fcntl
import importlib.metadata
import json
import os
import shutil
import tarfile
from pathlib import Path

from . import _dist_info

_FOLDER = _dist_info.ALL_PACKAGES["devel"].get_py_package_name()


def get_devel_root():
    """Returns the folder of ROCm with all development files, which it unpacks if necessary."""
    try:
        import rocm_sdk_devel
    except ModuleNotFoundError:
        version = _dist_info.__version__
        raise ModuleNotFoundError(
            "the ROCm package `rocm-sdk-devel` is not installed; "
            f"run `pip install 'rocm[devel]=={version}'`"
        ) from None
    package = Path(rocm_sdk_devel.__file__).parent
    site = package.parent
    archive = package / "_devel.tar"
    with _locked(package / "__init__.py"):
        # The archive is removed last: as long as it exists, the unpacked files are incomplete.
        if archive.exists():
            _unpack(archive, site)
            archive.unlink()
        _link_device_files(site)
    return site / _FOLDER


@contextlib.contextmanager
def _locked(path):
    with open(path, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _unpack(archive, site):
    shutil.rmtree(site / _FOLDER, ignore_errors=True)
    record = _record("rocm-sdk-devel", site)
    with tarfile.open(archive, "r:") as tar:
        names = []
        for member in tar:
            path = site / member.name
            if path.parts[len(site.parts)] != _FOLDER or ".." in path.parts:
                raise OSError(f"{archive}: {member.name} is outside of {_FOLDER}")
            names.append(member.name)
        _add(record, names)
        for member in tar:
            path = site / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            if not member.issym():
                with tar.extractfile(member) as source, open(path, "wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
                path.chmod(0o755 if member.mode & 0o111 else 0o644)
            else:
                _link(path.parent / member.linkname, path, member.linkname)


def _link(target, path, text):
    """Makes `path` another name of a file, or a link to a folder."""
    if not target.exists():
        # The package with the file, such as `rocm-sdk-libraries`, is not installed.
        path.symlink_to(text)
        return
    if target.is_dir():
        path.symlink_to(text)
        return
    try:
        os.link(os.path.realpath(target), path)
    except OSError:
        # Site-packages may span file systems, or one without hard links.
        shutil.copy2(target, path)


def _link_device_files(site):
    """Adds the files of installed device packages."""
    for dist in importlib.metadata.distributions(path=[str(site)]):
        if not (dist.metadata["Name"] or "").startswith("rocm-sdk-device-"):
            continue
        for file in dist.files or []:
            if file.parent.name != ".devel_links" or file.suffix != ".json":
                continue
            links = json.loads(Path(file.locate()).read_text())["links"]
            # Uninstalling either package removes them, even if this run is interrupted.
            names = [f"{_FOLDER}/{link['relpath']}" for link in links]
            for name in [dist.metadata["Name"], "rocm-sdk-devel"]:
                _add(_record(name, site), names)
            for link in links:
                path = site / _FOLDER / link["relpath"]
                target = path.parent / link["target"]
                path.parent.mkdir(parents=True, exist_ok=True)
                if not (path.exists() and path.samefile(target)):
                    path.unlink(missing_ok=True)
                    _link(target, path, link["target"])


def _record(name, site):
    for dist in importlib.metadata.distributions(name=name, path=[str(site)]):
        for file in dist.files or []:
            if file.name == "RECORD" and file.parent.name.endswith(".dist-info"):
                return Path(file.locate())
    raise OSError(f"`{name}` has no RECORD: install it with pip or uv in a virtual environment")


def _add(record, names):
    """Adds paths to a RECORD that does not list them yet."""
    with open(record, encoding="utf-8", newline="") as file:
        text = file.read()
    known = {row[0] for row in csv.reader(text.splitlines()) if row}
    new = [name for name in names if name not in known]
    if new:
        temporary = record.with_name("RECORD.new")
        with open(temporary, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            csv.writer(file, lineterminator="\n").writerows([name, "", ""] for name in new)
        temporary.replace(record)

"""Gives Debian's Python, in a tree, the folders of Fedora's.

usage: python_layout.py TREE dist-packages|standard-library

Debian's packages hold modules in /usr/lib/python3/dist-packages, and its Python looks in
no site-packages. Before any module is installed, `dist-packages` makes that folder a link
to Fedora's. Once Python is there, `standard-library` changes two files of it:

- sysconfig: the scheme that pip and setuptools install with is posix_prefix, whose folder
  for compiled modules is in /usr/lib64. (Fedora's takes /usr/local outside of rpmbuild.)
- sitecustomize, which every start of Python imports: the two folders are searched, also by
  virtual environments that see the system's packages. The module site itself cannot be
  changed: it is frozen into the program.
"""

import pathlib
import sys

VERSION = "3.14"
SITECUSTOMIZE = '''
import site
import sys

if "/usr" in site.PREFIXES:
    _folders = [f"/usr/{lib}/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
                for base in ("local/", "") for lib in (base + "lib64", base + "lib")]
    site.getsitepackages = lambda prefixes=None, _debian=site.getsitepackages: (
        list(_folders) if prefixes is None else _debian(prefixes))
    for _folder in _folders:
        site.addsitedir(_folder)
'''


def replace(path, old, new):
    """Replaces the one place where a text stands."""
    text = path.read_text()
    if text.count(old) != 1:
        sys.exit(f"error: {path}: expected once, found {text.count(old)} times: {old}")
    path.write_text(text.replace(old, new))


def main():
    tree, part = pathlib.Path(sys.argv[1]), sys.argv[2]
    lib = tree / "usr/lib"
    site = lib / f"python{VERSION}/site-packages"
    if part == "dist-packages":
        (lib / "python3").mkdir()
        site.mkdir(parents=True)
        (tree / f"usr/lib64/python{VERSION}/site-packages").mkdir(parents=True)
        (lib / "python3/dist-packages").symlink_to(f"../python{VERSION}/site-packages")
        return
    sysconfig = lib / f"python{VERSION}/sysconfig/__init__.py"
    head, tail = sysconfig.read_text().split("'posix_home': {", 1)
    old = "'platlib': '{platbase}/{platlibdir}/"
    if head.count(old) != 1:
        sys.exit(f"error: {sysconfig}: the scheme posix_prefix is not as expected")
    sysconfig.write_text(head.replace(old, "'platlib': '{platbase}/lib64/") + "'posix_home': {" + tail)
    replace(sysconfig, "'DEB_PYTHON_INSTALL_LAYOUT', 'posix_local'", "'DEB_PYTHON_INSTALL_LAYOUT', 'posix_prefix'")
    replace(sysconfig, "prefix_scheme = 'posix_local'", "prefix_scheme = 'posix_prefix'")
    customize = lib / f"python{VERSION}/sitecustomize.py"
    customize.unlink(missing_ok=True)
    customize.write_text(SITECUSTOMIZE)
    # Fedora has no mark against pip; and what was compiled is not what stands there now.
    (lib / f"python{VERSION}/EXTERNALLY-MANAGED").unlink(missing_ok=True)
    for compiled in (lib / f"python{VERSION}").glob("sysconfig/__pycache__/__init__.*.pyc"):
        compiled.unlink()


if __name__ == "__main__":
    main()

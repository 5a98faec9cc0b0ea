"""Changes Debian's Python in a tree to use Fedora's folders.

usage: python_layout.py TREE dist-packages|standard-library

Debian's packages have modules in /usr/lib/python3/dist-packages, and its Python does not
search site-packages. Run `dist-packages` before any module is installed: it makes that
folder a link to Fedora's. Once Python is installed, `standard-library` changes two files:

- sysconfig: pip and setuptools install with the scheme posix_prefix, whose folder for
  compiled modules is in /usr/lib64. (Fedora's Python uses /usr/local outside rpmbuild.)
- sitecustomize, which Python imports at every start: it adds both folders to the search
  path, also in virtual environments with the system's packages. The module site itself
  cannot be changed because it is frozen into the program.
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
    """Replaces a text that must occur exactly once."""
    text = path.read_text()
    if text.count(old) != 1:
        sys.exit(f"error: {path}: expected {old!r} once, found it {text.count(old)} times")
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
    # Fedora does not block pip; and the compiled sysconfig is out of date.
    (lib / f"python{VERSION}/EXTERNALLY-MANAGED").unlink(missing_ok=True)
    for compiled in (lib / f"python{VERSION}").glob("sysconfig/__pycache__/__init__.*.pyc"):
        compiled.unlink()


if __name__ == "__main__":
    main()

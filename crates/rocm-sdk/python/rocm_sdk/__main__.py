"""The command `rocm-sdk`."""

import argparse
import importlib.util
import pkgutil
import sys
import unittest

from . import _dist_info, _release


def _path(arguments):
    from . import _devel

    root = _devel.get_devel_root()
    print(root / arguments.below if arguments.below else root)


def _init(arguments):
    from . import _devel

    root = _devel.get_devel_root()
    if not arguments.quiet:
        print(f"Devel contents expanded to '{root}'")


def _version(arguments):
    print(_dist_info.__version__)


def _targets(arguments):
    gpus = {gpu for name in _dist_info.AVAILABLE_TARGET_FAMILIES for gpu in _release.GPUS[name]}
    print(";".join(sorted(gpus)))


def _installed(part):
    """Returns whether the package that the tests of this part need is installed."""
    if part == "devel":
        # Its files are not expanded before they are asked for.
        return importlib.util.find_spec("rocm_sdk_devel") is not None
    entry = _dist_info.ALL_PACKAGES.get(part)
    target = _dist_info.determine_target_family()
    return entry is None or entry.required or entry.has_py_package(target)


def _test(arguments):
    from . import tests

    suite = unittest.TestSuite()
    for module in sorted(module.name for module in pkgutil.iter_modules(tests.__path__)):
        part, separator, _ = module.rpartition("_test")
        if not separator:
            continue
        if _installed(part):
            suite.addTests(unittest.defaultTestLoader.loadTestsFromName(f"{tests.__name__}.{module}"))
        else:
            print(f"NOTE: skipped the tests of {part}, which is not installed")
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=3).run(suite)
    return 0 if result.wasSuccessful() else 1


def main(argv=None):
    parser = argparse.ArgumentParser(prog="rocm-sdk", description="ROCm in this Python environment")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    path = commands.add_parser("path", help="print a folder of the development files")
    which = path.add_mutually_exclusive_group(required=True)
    for option, below, what in [
        ("--root", "", "the folder of ROCm"),
        ("--cmake", "lib/cmake", "the folder for CMAKE_PREFIX_PATH"),
        ("--bin", "bin", "the folder of programs"),
    ]:
        which.add_argument(option, dest="below", action="store_const", const=below, help=what)
    path.set_defaults(run=_path)

    commands.add_parser("version", help="print the version of ROCm").set_defaults(run=_version)
    targets = commands.add_parser("targets", help="print the GPU targets with code in this release")
    targets.set_defaults(run=_targets)
    init = commands.add_parser("init", help="unpack the development files")
    init.add_argument("--quiet", action="store_true", help="print nothing")
    init.set_defaults(run=_init)
    commands.add_parser("test", help="test the installation").set_defaults(run=_test)

    arguments = parser.parse_args(argv)
    try:
        return arguments.run(arguments)
    except (ImportError, OSError, ValueError) as error:
        print(f"rocm-sdk: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())

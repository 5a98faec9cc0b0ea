"""Greets with what it was given."""

from .version import VERSION

import idna
import iniconfig
import packaging


def main():
    """Tells which versions of its requirements it runs with."""
    from importlib.metadata import version

    try:
        import colorama
    except ImportError:
        colorama = None
    print("greeter", VERSION, "in colour" if colorama else "in black and white")
    for module in (idna, iniconfig, packaging):
        print(module.__name__, version(module.__name__), module.__file__)

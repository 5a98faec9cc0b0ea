"""Greets, and prints the versions of its requirements."""

from .version import VERSION

import idna
import iniconfig
import packaging


def main():
    """Prints the versions of the requirements that it runs with."""
    from importlib.metadata import version

    try:
        import colorama
    except ImportError:
        colorama = None
    print("greeter", VERSION, "in color" if colorama else "in black and white")
    for module in (idna, iniconfig, packaging):
        print(module.__name__, version(module.__name__), module.__file__)

"""Runs as `python -m greeter`."""

from . import main

main()

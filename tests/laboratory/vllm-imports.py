"""Imports every module behind vLLM's model registry, its command line and its OpenAI server, and
prints how many could be imported.

A failure is an error unless the file in the argument lists it: a module and the reason that
was reviewed, separated by a tab.
"""

import importlib
import pkgutil
import sys
import traceback
import warnings


def below(package):
    """Returns a package's name and those of all modules in it."""
    folder = importlib.import_module(package)
    found = pkgutil.walk_packages(folder.__path__, f"{package}.", onerror=lambda name: None)
    return {package, *(module.name for module in found)}


def registry():
    from vllm.model_executor.models.registry import ModelRegistry

    return {model.module_name for model in ModelRegistry.models.values()}


def failure(module):
    """Returns why a module cannot be imported; None if it can."""
    try:
        importlib.import_module(module)
    except BaseException as error:  # SystemExit, too: a module must not end its importer.
        if isinstance(error, KeyboardInterrupt):
            raise
        frames = traceback.extract_tb(error.__traceback__)
        place = next((f"{one.filename}:{one.lineno}" for one in reversed(frames) if "importlib" not in one.filename), "")
        message = str(error).strip().splitlines() or [""]
        return f"{place}: {type(error).__name__}: {message[0]}"
    return None


def main():
    warnings.simplefilter("ignore")
    with open(sys.argv[1]) as file:
        lines = [line.rstrip("\n").split("\t") for line in file if line.strip() and not line.startswith("#")]
    reviewed = dict(lines)
    groups = {
        "the model registry": registry,
        "the command line": lambda: below("vllm.entrypoints.cli"),
        "the OpenAI server": lambda: below("vllm.entrypoints.openai"),
    }
    errors, unneeded = 0, set(reviewed)
    for group, modules in groups.items():
        modules = sorted(modules())
        if not modules:
            print(f"error: {group} has no modules")
            errors += 1
        failures = {module: why for module in modules if (why := failure(module)) is not None}
        for module, why in failures.items():
            unneeded.discard(module)
            if module in reviewed:
                print(f"reviewed: {module}: {why}\n    {reviewed[module]}")
            else:
                print(f"error: {module}: {why}")
                errors += 1
        print(f"{group}: imported {len(modules) - len(failures)} of {len(modules)} modules", flush=True)
    for module in sorted(unneeded):
        print(f"warning: {module} can be imported: remove it from the reviewed failures")
    sys.exit(1 if errors else 0)


main()

"""Finds the Triton kernels in a package's sources, without importing them."""

import ast
import collections

def is_jit(decorator):
    """Whether a decorator is `triton.jit`, `jit`, `gluon.jit`, or a call of one of them."""
    if isinstance(decorator, ast.Call):
        decorator = decorator.func
    name = decorator.attr if isinstance(decorator, ast.Attribute) else getattr(decorator, "id", None)
    return name == "jit"


def names_in(node):
    for child in ast.walk(node):
        if isinstance(child, ast.Name):
            yield child.id
        elif isinstance(child, ast.Attribute):
            yield child.attr


def returns_value(function):
    return any(isinstance(node, ast.Return) and node.value for node in ast.walk(function))


def launched_in(tree):
    """Yields the names in `name[grid](...)`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
            yield from names_in(node.func.value)


def kernels(root, package):
    """Returns module -> names of the kernels of `package`, a folder of modules below `root`.

    A kernel is a jitted function that the package launches by name, or that no other jitted
    function calls and that returns no value. The rest are parts of kernels.
    """
    jitted = collections.defaultdict(list)
    launched, called = set(), set()
    for path in sorted((root / package).rglob("*.py")):
        text = path.read_text()
        if "import triton" not in text and "from triton" not in text:
            continue
        tree = ast.parse(text)
        launched.update(launched_in(tree))
        module = ".".join(path.relative_to(root).with_suffix("").parts)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and any(map(is_jit, node.decorator_list)):
                jitted[module].append((node.name, returns_value(node)))
                called.update(name for part in node.body for name in names_in(part))
    return {
        module: [
            name
            for name, returns in names
            if name in launched or not (returns or name in called)
        ]
        for module, names in sorted(jitted.items())
    }

"""Answers which modules a distribution's files have, and which names these define. Reads JSON from
stdin, writes JSON to stdout; parses the files and never executes them."""

import ast
import json
import os
import sys
import zipfile
import zlib

# What `ast.parse` and the zip reader raise for invalid files.
UNREADABLE = (
    SyntaxError, ValueError, LookupError, RecursionError, MemoryError, OSError, EOFError,
    NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error,
)
# Names that every module has without defining them.
IMPLICIT = {
    "__builtins__", "__cached__", "__dict__", "__doc__", "__file__", "__loader__", "__name__",
    "__package__", "__path__", "__spec__",
}
# Suffixes of names that the `_LazyModule` of transformers 5 resolves to other names:
# `XImageProcessor` to `XImageProcessorFast`, and tokenizers to their converters (its
# utils/import_utils.py).
ALIASED = ("Fast", "Tokenizer")


def last_name(node):
    """The last part of a dotted name; None for any other expression."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def is_modules_item(node):
    """Whether it is `sys.modules[...]`."""
    return isinstance(node, ast.Subscript) and last_name(node.value) == "modules"


def is_namespace(node):
    """Whether it is `globals()` or the like."""
    return isinstance(node, ast.Call) and last_name(node.func) in ("globals", "vars", "locals")


class Files:
    """The files of a wheel or of a source tree."""

    def __init__(self, path, limit):
        self.limit = limit
        self.archive = None
        self.roots = [""]
        if os.path.isdir(path):
            self.folder = path
            # The folders of packages in source distributions.
            self.roots = ["", "src/", "lib/", "python/"]
            self.names = {
                os.path.relpath(os.path.join(folder, name), path)
                for folder, _, names in os.walk(path)
                for name in names
            }
        else:
            self.archive = zipfile.ZipFile(path)
            self.names = {name for name in self.archive.namelist() if not name.endswith("/")}
            # Files that an installer puts next to the others (binary distribution format,
            # "The .data directory").
            data = {name.split("/", 2)[0] for name in self.names if ".data/" in name}
            self.roots += [f"{one}/{lib}/" for one in data for lib in ("purelib", "platlib")]
        self.folders = set()
        # Compiled modules by path, up to the first dot of the file name.
        self.compiled = set()
        for name in self.names:
            at = name.rfind("/")
            if name.endswith(".so"):
                self.compiled.add(name[: at + 1] + name[at + 1 :].split(".", 1)[0])
            while at > 0 and name[:at] not in self.folders:
                self.folders.add(name[:at])
                at = name.rfind("/", 0, at)

    def find(self, module):
        """The kind of a module, and its file if it is written in Python."""
        namespace = (None, None)
        for root in self.roots:
            path = root + module.replace(".", "/")
            if f"{path}/__init__.py" in self.names:
                return "package", f"{path}/__init__.py"
            if f"{path}/__init__" in self.compiled or path in self.compiled:
                return "compiled", None
            if f"{path}.py" in self.names:
                return "module", f"{path}.py"
            if path in self.folders:
                namespace = ("namespace", None)
        return namespace

    def read(self, name):
        if self.archive is None:
            path = os.path.join(self.folder, name)
            # Symbolic links may lead anywhere.
            if not os.path.realpath(path).startswith(os.path.realpath(self.folder) + "/"):
                raise ValueError("it is a link that leads out of the source")
            opened = open(path, "rb")
        else:
            opened = self.archive.open(name)
        with opened:
            source = opened.read(self.limit + 1)
        if len(source) > self.limit:
            raise ValueError(f"it has more than {self.limit} bytes")
        return source


class Module:
    """What a module binds at its top level, as far as the text shows."""

    def __init__(self, tree, package):
        self.tree = tree
        # The package that relative imports start from.
        self.package = package
        self.names = set()
        # Names that are bound for type checkers only.
        self.typing = set()
        self.stars = []
        self.all = None
        # Whether `__all__` has entries besides its literals.
        self.all_open = False
        # Whether it provides names that it does not bind, and whether all of these are known.
        self.lazy = self.closed = False
        self.block(tree.body, self.names)
        self.lazy = self.lazy or "__getattr__" in self.names

    def block(self, body, into):
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                into.add(node.name)
            elif isinstance(node, ast.Import):
                into.update(alias.asname or alias.name.split(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if alias.name == "*":
                        self.stars.append((self.absolute(node), into is self.typing))
                    else:
                        into.add(alias.asname or alias.name)
            elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                self.assignment(node, into)
            elif isinstance(node, ast.Expr):
                self.call(node.value)
            elif isinstance(node, ast.Delete):
                into.difference_update(last_name(target) for target in node.targets if body is self.tree.body)
            elif isinstance(node, ast.If):
                walrus = (one for one in ast.walk(node.test) if isinstance(one, ast.NamedExpr))
                into.update(one.target.id for one in walrus)
                negated = isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not)
                test = node.test.operand if negated else node.test
                typing = self.typing if last_name(test) == "TYPE_CHECKING" else into
                self.block(node.body, into if negated else typing)
                self.block(node.orelse, typing if negated else into)
            else:
                self.compound(node, into)

    def compound(self, node, into):
        if isinstance(node, (ast.For, ast.AsyncFor)):
            self.bind(node.target, into)
        for item in getattr(node, "items", ()):
            self.bind(item.optional_vars, into)
        for part in ("body", "orelse", "finalbody"):
            part = getattr(node, part, None)
            if isinstance(part, list):
                self.block(part, into)
        for part in [*getattr(node, "handlers", ()), *getattr(node, "cases", ())]:
            self.block(part.body, into)
        if hasattr(ast, "TypeAlias") and isinstance(node, ast.TypeAlias):
            self.bind(node.name, into)

    def bind(self, target, into):
        if isinstance(target, ast.Name):
            into.add(target.id)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for one in target.elts:
                self.bind(one, into)
        elif isinstance(target, ast.Starred):
            self.bind(target.value, into)

    def assignment(self, node, into):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if is_modules_item(target) and last_name(target.slice) == "__name__":
                self.lazy = True
                # All its names are in its import structure, or imported for type checkers.
                self.closed = isinstance(node.value, ast.Call) and last_name(node.value.func) == "_LazyModule"
            elif last_name(target) == "__all__":
                self.add_to_all(node.value)
            elif node.value is not None:
                self.bind(target, into)

    def call(self, node):
        """`__all__.extend(...)` and the like."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if last_name(node.func.value) == "__all__":
                for arg in node.args:
                    self.add_to_all(arg)

    def add_to_all(self, value):
        self.names.add("__all__")
        self.all = self.all or set()
        parts = [value]
        while parts:
            part = parts.pop()
            if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add):
                parts += [part.left, part.right]
            elif isinstance(part, (ast.List, ast.Tuple, ast.Set)):
                parts += part.elts
            elif isinstance(part, ast.Constant) and isinstance(part.value, str):
                self.all.add(part.value)
            elif part is not None:
                self.all_open = True

    def absolute(self, node):
        if node.level == 0:
            return node.module
        parts = self.package.split(".")
        parts = parts[: len(parts) - (node.level - 1)]
        return ".".join(parts + ([node.module] if node.module else []))

    def mentions(self, name):
        """Whether a string of it is this name, as in a table of lazy imports."""
        return any(isinstance(node, ast.Constant) and node.value == name for node in ast.walk(self.tree))

    def makes(self, name):
        """Whether code may define a name that no statement at the top level binds."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Global) and name in node.names:
                return True
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and is_namespace(node.value):
                return True
            if isinstance(node, ast.Call):
                function = node.func
                if last_name(function) == "exec" or (node.args and is_modules_item(node.args[0])):
                    return True
                if isinstance(function, ast.Attribute) and is_namespace(function.value):
                    return True
        return False


class Distribution:
    def __init__(self, files):
        self.files = files
        self.modules = {}

    def module(self, name):
        """A module that is written in Python, or why it cannot be read."""
        if name not in self.modules:
            kind, path = self.files.find(name)
            try:
                package = name if kind == "package" else name.rpartition(".")[0]
                self.modules[name] = Module(ast.parse(self.files.read(path)), package)
            except UNREADABLE as error:
                self.modules[name] = f"{path}: {error or type(error).__name__}"
        return self.modules[name]

    def exports(self, name, seen):
        """What `from NAME import *` binds, and why that may not be all."""
        kind, _ = self.files.find(name)
        if name in seen:
            return set(), None
        if kind not in ("package", "module"):
            return set(), "compiled" if kind == "compiled" else "dynamic"
        module = self.module(name)
        if isinstance(module, str):
            return set(), "unread"
        if module.all is not None and not module.all_open:
            return module.all, None
        names, doubt = self.bound(name, module, seen)
        public = {one for one in names if not one.startswith("_")}
        return public | (module.all or set()), "dynamic" if module.all_open else doubt

    def bound(self, name, module, seen):
        """What a module binds, star imports followed, and why that may not be all."""
        names, doubt = set(module.names), None
        if module.lazy:
            names |= module.typing
        for star, typing in module.stars:
            if typing and not module.lazy:
                continue
            more, why = self.exports(star, seen | {name})
            names |= more
            doubt = doubt or why
        return names, doubt

    def has(self, name, wanted):
        """Whether a module has a name."""
        module = self.module(name)
        kind, _ = self.files.find(f"{name}.{wanted}")
        if kind is not None or wanted in IMPLICIT:
            return "defined"
        names, doubt = self.bound(name, module, set())
        if wanted in names or wanted in (module.all or ()):
            return "defined"
        if module.lazy and (module.mentions(wanted) or self.scans(name, module, wanted)):
            return "defined"
        if doubt is not None:
            return doubt
        closed = module.closed and not wanted.endswith(ALIASED)
        if module.lazy and not closed or module.makes(wanted):
            return "dynamic"
        return "missing"

    def scans(self, name, module, wanted):
        """Whether a module beside it has a name, if it finds its names in all of them."""
        calls = (node for node in ast.walk(module.tree) if isinstance(node, ast.Call))
        if not any(last_name(call.func) == "define_import_structure" for call in calls):
            return False
        _, path = self.files.find(name)
        folder = path.rpartition("/")[0] + "/"
        beside = (file for file in self.files.names if file.startswith(folder) and file.endswith(".py"))
        modules = (file[len(folder) : -3] for file in beside)
        return any(
            wanted in self.exports(f"{name}.{one}", set())[0]
            for one in modules
            if "/" not in one and one != "__init__"
        )

    def makes_modules(self, module):
        """Whether code at or above a module's place may make modules that no file has."""
        while module:
            module = module.rpartition(".")[0]
            kind, _ = self.files.find(module) if module else (None, None)
            if kind not in ("package", "module"):
                continue
            found = self.module(module)
            if isinstance(found, str):
                return True
            for node in ast.walk(found.tree):
                if isinstance(node, ast.Assign):
                    items = filter(is_modules_item, node.targets)
                    if any(last_name(item.slice) != "__name__" for item in items):
                        return True
                if last_name(node) in ("meta_path", "__path__"):
                    return True
        return False

    def answer(self, name, wanted):
        kind, _ = self.files.find(name)
        above = name
        while kind is None and "." in above:
            above = above.rpartition(".")[0]
            if self.files.find(above)[0] == "compiled":
                kind = "compiled"
        if kind is None:
            return {"module": "dynamic" if self.makes_modules(name) else "no-module"}
        if kind == "compiled":
            return {"module": kind}
        if kind == "namespace":
            parts = ((one, self.files.find(f"{name}.{one}")[0]) for one in wanted)
            return {"module": "defined", "names": {one: "defined" if found else "missing" for one, found in parts}}
        module = self.module(name)
        if isinstance(module, str):
            return {"module": "unread", "reason": module}
        return {"module": "defined", "names": {one: self.has(name, one) for one in wanted}}


def main():
    question = json.load(sys.stdin)
    try:
        distribution = Distribution(Files(question["path"], question["limit"]))
    except UNREADABLE as error:
        json.dump({"unread": str(error) or type(error).__name__}, sys.stdout)
        return
    modules = {name: distribution.answer(name, wanted) for name, wanted in question["modules"].items()}
    json.dump({"modules": modules}, sys.stdout)


main()

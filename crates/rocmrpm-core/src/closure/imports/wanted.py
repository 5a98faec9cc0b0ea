"""Lists what Python files import by absolute names, and how. Reads JSON from stdin, writes JSON
to stdout; parses the files and never executes them."""

import ast
import json
import sys

CATCHING = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}


def last_name(node):
    """The last part of a dotted name; None for any other expression."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def is_typing(test):
    return last_name(test) == "TYPE_CHECKING"


def is_not(test):
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)


def is_main(test):
    return isinstance(test, ast.Compare) and last_name(test.left) == "__name__"


def catches(kind):
    """Whether `except kind` catches an import that fails."""
    if kind is None:
        return True
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(last_name(one) in CATCHING for one in kinds)


def is_guarded(node):
    """Whether a `try` does without what cannot be imported."""
    for handler in node.handlers:
        if catches(handler.type):
            return not isinstance(handler.body[-1], ast.Raise)
    return False


def suppresses(node):
    calls = (item.context_expr for item in node.items)
    return any(
        isinstance(call, ast.Call)
        and last_name(call.func) == "suppress"
        and any(catches(kind) for kind in call.args)
        for call in calls
    )


# How an import is reached; of nested ones, the highest value counts.
PLAIN, CONDITIONAL, LAZY, OPTIONAL, TYPING = range(5)


def imports(body):
    """Yields (line, module, name or None, how) of each import; without recursion, since files may
    be nested as deeply as the parser allows."""
    open_ = [(body, PLAIN)]
    while open_:
        nodes, how = open_.pop()
        for node in nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield alias.lineno, alias.name, None, how
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names if node.level == 0 else ():
                    yield alias.lineno, node.module, alias.name, how
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                open_.append((node.body, max(how, LAZY)))
            elif isinstance(node, ast.If):
                body_how = else_how = max(how, CONDITIONAL)
                if is_typing(node.test):
                    body_how, else_how = TYPING, how
                elif is_not(node.test) and is_typing(node.test.operand):
                    body_how, else_how = how, TYPING
                elif is_main(node.test):
                    body_how, else_how = max(how, LAZY), how
                open_ += [(node.body, body_how), (node.orelse, else_how)]
            elif isinstance(node, (ast.Try, getattr(ast, "TryStar", ast.Try))):
                guarded = max(how, OPTIONAL) if is_guarded(node) else how
                open_ += [(node.body, guarded), (node.orelse, how), (node.finalbody, how)]
                # Imports in a handler replace the missing ones.
                open_ += [(handler.body, max(how, OPTIONAL)) for handler in node.handlers]
            elif isinstance(node, (ast.With, ast.AsyncWith)):
                open_.append((node.body, max(how, OPTIONAL) if suppresses(node) else how))
            elif isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
                open_ += [(node.body, max(how, CONDITIONAL)), (node.orelse, how)]
            elif isinstance(node, ast.ClassDef):
                open_.append((node.body, how))
            elif isinstance(node, ast.Match):
                open_ += [(case.body, max(how, CONDITIONAL)) for case in node.cases]


def main():
    question = json.load(sys.stdin)
    found, unread = [], []
    for file in question["files"]:
        try:
            if file["text"] is None:
                with open(file["path"], "rb") as opened:
                    source = opened.read(question["limit"] + 1)
                if len(source) > question["limit"]:
                    raise ValueError(f"it has more than {question['limit']} bytes")
            else:
                source = file["text"]
            tree = ast.parse(source)
            found += [(file["name"], *one) for one in imports(tree.body)]
        except (SyntaxError, ValueError, LookupError, RecursionError, MemoryError, OSError) as error:
            unread.append((file["name"], str(error) or type(error).__name__))
    found.sort(key=lambda one: (one[0], one[1], one[2], one[3] or ""))
    json.dump({"imports": found, "unread": unread}, sys.stdout)


main()

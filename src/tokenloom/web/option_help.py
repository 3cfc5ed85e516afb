"""What the source says of a dataclass: its first sentence, and the docstring under every field."""

import ast
import inspect
import textwrap
from functools import cache
from itertools import pairwise


@cache
def field_help(part: type) -> dict[str, str]:
    """The docstring of every field, those of its parents included."""
    found: dict[str, str] = {}
    for kind in reversed(part.__mro__):
        if kind.__module__ != "builtins":
            found |= _own_help(kind)
    return found


def _own_help(part: type) -> dict[str, str]:
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(part))).body
    except (OSError, TypeError, SyntaxError, ValueError):  # a class without a source, as one typed into a prompt
        return {}
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    found = {}
    for item, after in pairwise(body):
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and isinstance(after, ast.Expr):
            text = after.value.value if isinstance(after.value, ast.Constant) else None
            if isinstance(text, str):
                found[item.target.id] = " ".join(text.split())
    return found


def first_sentence(part: type) -> str:
    """The first sentence of a class's docstring."""
    return " ".join((inspect.getdoc(part) or "").partition("\n\n")[0].split())

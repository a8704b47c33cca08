"""What the scorers of reasoning-gym need: a safe `eval`, and entries with their tuples.

*A safe `eval`.* Several scorers pass the model's answer to `eval`, or to SymPy's parser, which does
the same after some rewriting: any Python in an answer would run. A module that defines `eval` uses
that function in place of Python's, so defining one keeps the package and its scores as they are.
The replacement gets the code that is about to run, and accepts only literals, operators, variables
that the caller supplies, and calls of elementary functions.

*Tuples.* JSON has no tuples, and the package compares tuples with lists in a few places. Where it
matters for the score, `revived` restores the tuples; `generate` rejects entries whose own answer
scores differently after it was JSON.
"""

import ast
import sys
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NoReturn

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_NODES = (
    ast.Expression,
    ast.Constant,
    ast.List,
    ast.Tuple,
    ast.BinOp,
    ast.UnaryOp,
    ast.operator,
    ast.unaryop,
    ast.expr_context,
    ast.Name,
    ast.Call,
)
_CONSTANTS = {"pi", "E", "I", "oo"}
_FUNCTIONS = {
    *("Symbol", "Integer", "Float", "Rational", "Add", "Mul", "Pow"),
    *("sin", "cos", "tan", "cot", "sec", "csc", "asin", "acos", "atan", "acot", "atan2"),
    *("sinh", "cosh", "tanh", "coth", "asinh", "acosh", "atanh"),
    *("exp", "log", "ln", "sqrt", "cbrt", "root", "Abs", "abs", "sign", "Max", "max", "Min", "min"),
    *("factorial", "binomial", "gamma", "erf", "erfi", "Si", "Ci", "Ei", "floor", "ceiling"),
}


class RefusedCodeError(ValueError):
    """The code is more than an expression of numbers and formulas."""


def evaluate(
    source: object,
    global_names: Mapping[str, Any] | None = None,
    local_names: Mapping[str, Any] | None = None,
) -> Any:
    """What Python's `eval` would give. Raises RefusedCodeError, and SyntaxError as `eval` does."""
    if not isinstance(source, str):
        raise RefusedCodeError("only text can be evaluated")
    tree = ast.parse(source.strip(), mode="eval")
    supplied, wider = local_names or _NOTHING, global_names or _NOTHING
    values: dict[str, Any] = {"__builtins__": {}}
    for name in _checked_names(tree):
        if name in supplied:
            values[name] = supplied[name]
        elif name in _FUNCTIONS | _CONSTANTS and name in wider:
            values[name] = wider[name]
        else:
            raise RefusedCodeError(f"the name {name} is unknown")
    return eval(compile(tree, "<answer>", "eval"), values)  # noqa: S307 - the tree was checked


def refuse(*_: object) -> NoReturn:
    """Replaces `exec`."""
    raise RefusedCodeError("statements are not allowed")


def disarm(package: str) -> None:
    """Give every imported module of a package the safe `eval` and `exec`."""
    for name, module in list(sys.modules.items()):
        if name == package or name.startswith(f"{package}."):
            vars(module).update(eval=evaluate, exec=refuse)


def _checked_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, _NODES):
            raise RefusedCodeError(f"{type(node).__name__} is not allowed")
        if isinstance(node, ast.Call):
            called = node.func.id if isinstance(node.func, ast.Name) else type(node.func).__name__
            if called not in _FUNCTIONS or node.keywords:
                raise RefusedCodeError(f"a call of {called} is not allowed")
        elif isinstance(node, ast.Name):
            yield node.id


_TUPLES = {"arc_agi": ("input", "output"), "rearc": ("input", "output")}


def revived(dataset: str, entry: dict[str, Any]) -> dict[str, Any]:
    """An entry that was JSON, with the types that the scorer of its dataset expects."""
    metadata = entry["metadata"]
    restored = {
        name: _as_tuples(metadata[name]) for name in _TUPLES.get(dataset, ()) if name in metadata
    }
    return {**entry, "metadata": {**metadata, **restored}}


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value

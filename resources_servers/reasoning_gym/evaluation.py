"""A safe `eval` in the place of Python's own, for scorers that evaluate what a model wrote.

Several scorers of reasoning-gym pass the model's answer to `eval`, or to SymPy's parser, which does
the same after some rewriting: any Python in an answer would run. A module that has an `eval` of its
own uses that one, so giving it one leaves the package as it is and keeps its scores. The
replacement sees the very code that is about to run and knows only literals, operators, variables
that the caller supplies, and calls of elementary functions.
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
    """What was to be evaluated is more than an expression of numbers and formulas."""


def evaluate(
    source: object,
    global_names: Mapping[str, Any] | None = None,
    local_names: Mapping[str, Any] | None = None,
) -> Any:
    """What Python's `eval` would give. Raises RefusedCodeError, and SyntaxError as `eval` does."""
    if not isinstance(source, str):
        raise RefusedCodeError("only text is evaluated")
    tree = ast.parse(source.strip(), mode="eval")
    supplied, wider = local_names or _NOTHING, global_names or _NOTHING
    values: dict[str, Any] = {"__builtins__": {}}
    for name in _checked_names(tree):
        if name in supplied:
            values[name] = supplied[name]
        elif name in _FUNCTIONS | _CONSTANTS and name in wider:
            values[name] = wider[name]
        else:
            raise RefusedCodeError(f"{name} is not known")
    return eval(compile(tree, "<answer>", "eval"), values)  # noqa: S307 - this is what was checked


def refuse(*_: object) -> NoReturn:
    """In the place of `exec`."""
    raise RefusedCodeError("statements are not run")


def disarm(package: str) -> None:
    """Give every module of a package, as far as it is imported, the safe ones."""
    for name, module in list(sys.modules.items()):
        if name == package or name.startswith(f"{package}."):
            vars(module).update(eval=evaluate, exec=refuse)


def _checked_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, _NODES):
            raise RefusedCodeError(f"{type(node).__name__} is not evaluated")
        if isinstance(node, ast.Call):
            called = node.func.id if isinstance(node.func, ast.Name) else type(node.func).__name__
            if called not in _FUNCTIONS or node.keywords:
                raise RefusedCodeError(f"{called} is not called")
        elif isinstance(node, ast.Name):
            yield node.id

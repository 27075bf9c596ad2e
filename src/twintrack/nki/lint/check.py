"""Run the rules over a file or over one function. Sources are parsed, never run."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from twintrack.errors import UserError, nearest
from twintrack.nki.lint.branches import broken_branches
from twintrack.nki.lint.expressions import Broken, broken_expressions
from twintrack.nki.lint.kernels import broken_classes, broken_signature, broken_state, broken_uses
from twintrack.nki.lint.loops import broken_loops
from twintrack.nki.lint.module import Function, Module, read_module
from twintrack.nki.lint.records import RULES, Finding

__all__ = ["NEWEST", "check_function", "check_source"]

NEWEST = "2.32"
"""SDK version whose rules hold where the caller names none."""


def check_source(
    source: str, filename: str, *, kernels: Iterable[str] = (), sdk: str = NEWEST
) -> tuple[Finding, ...]:
    """Find the Python that the NKI compiler refuses, in the kernels of a file and the functions they call there.

    Kernels are functions that ``nki.jit`` decorates, or that the file hands to ``nki.jit`` or ``nki.simulate``.
    Kernels of the older dialect (``neuronxcc.nki``) have another compiler and are left alone. What the documentation
    does not rule out is not reported.

    Args:
        source: text of the file.
        filename: how findings call it.
        kernels: names of further functions to take for kernels.
        sdk: SDK version, such as ``2.30``; rules that later versions brought are left out.

    Returns:
        Findings in the order of the file.

    Raises:
        UserError: the file is no Python, a named kernel is not in it, or ``sdk`` is no version.
    """
    module = _parsed(source, filename)
    roots = [*module.kernels(), *(_named(module, name, filename) for name in kernels)]
    return _findings(module, roots, filename, source, sdk)


def check_function(function: Callable[..., object], *, sdk: str = NEWEST) -> tuple[Finding, ...]:
    """Find what the NKI compiler refuses in one kernel and the functions it calls in its file.

    Args:
        function: the kernel, plain or decorated (by what sets ``__wrapped__``).
        sdk: as for ``check_source``.

    Raises:
        UserError: the function has no source, as one typed at a prompt, or its file is no Python.
    """
    plain = inspect.unwrap(function)
    code = getattr(plain, "__code__", None)
    filename = code.co_filename if code else ""
    source = "".join(linecache.getlines(filename)) if filename else ""
    if not source:
        raise UserError(
            "a function whose source can be read",
            found=filename or f"an object of type {type(plain).__name__}",
            where=getattr(plain, "__qualname__", repr(plain)),
            remedy="write the kernel in a file",
        )
    module = _parsed(source, filename)
    roots = [
        f
        for f in module.functions
        if f.node.name == plain.__name__ and f.first_line == plain.__code__.co_firstlineno
    ]
    if not roots:
        raise UserError(
            f"the function '{plain.__name__}' at line {plain.__code__.co_firstlineno}",
            found="another text",
            where=filename,
            remedy="load the file anew; it has changed since",
        )
    return _findings(module, roots, Path(filename).name, source, sdk)


def _parsed(source: str, filename: str) -> Module:
    try:
        return read_module(source, filename)
    except SyntaxError as error:
        raise UserError(
            "Python", found=str(error.msg), where=f"{filename}:{error.lineno}", remedy="mend the syntax"
        ) from None


def _named(module: Module, name: str, filename: str) -> Function:
    function = module.function(name, None)
    if function is None:
        known = [each.node.name for each in module.functions if each.scope is None and not each.owner]
        raise UserError(
            f"a function '{name}'",
            found="none of that name",
            where=filename,
            remedy=nearest(name, known) or "name a function at the top of the file",
        )
    return function


def _findings(
    module: Module, roots: list[Function], filename: str, source: str, sdk: str
) -> tuple[Finding, ...]:
    version = _version(sdk)
    lines = source.splitlines()
    found = {
        Finding(RULES[rule], filename, node.lineno, _column(node, lines), function, what)
        for function, (rule, node, what) in _broken(module, roots)
        if version >= _version(RULES[rule].since)
        if isinstance(node, ast.stmt | ast.expr | ast.arg)
    }
    return tuple(sorted(found, key=lambda each: (each.line, each.column, each.rule.name, each.found)))


def _broken(module: Module, roots: list[Function]) -> Iterator[tuple[str, Broken]]:
    functions = module.reached(roots)
    for kernel in roots:
        yield from ((kernel.name, broken) for broken in broken_signature(module, kernel))
    for function in functions:
        for rules in (broken_expressions, broken_branches, broken_uses, broken_state, broken_loops):
            yield from ((function.name, broken) for broken in rules(module, function))
    names = ", ".join(dict.fromkeys(kernel.name for kernel in roots))
    yield from ((names, broken) for broken in broken_classes(module, functions, roots))


def _column(node: ast.stmt | ast.expr | ast.arg, lines: list[str]) -> int:
    """Column from 1 in characters; Python counts bytes of UTF-8."""
    line = lines[node.lineno - 1] if node.lineno <= len(lines) else ""
    return len(line.encode("utf-8")[: node.col_offset].decode("utf-8", "ignore")) + 1


def _version(sdk: str) -> tuple[int, ...]:
    parts = sdk.split(".")
    if not all(part.isdecimal() for part in parts):
        raise UserError("an SDK version such as 2.32", found=repr(sdk), where="sdk", remedy="name one")
    return tuple(int(part) for part in parts)

"""Rules on kernels as such: signature, decorator, the functions and classes they use, state outside of them."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator

from twintrack.nki.lint.expressions import Broken
from twintrack.nki.lint.module import Function, Module, body_nodes

__all__ = ["broken_classes", "broken_signature", "broken_state", "broken_uses"]

_CHANGING = frozenset(
    {"append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse"}  # of lists
    | {"update", "setdefault", "popitem", "add", "discard"}  # of dictionaries and sets
)
_OUTSIDE = ("os.environ", "os.getenv", "random.", "time.", "datetime.", "numpy.random.", "secrets.", "uuid.")
_LISTS = ("typing.List", "collections.abc.MutableSequence", "typing.MutableSequence")


def broken_signature(module: Module, kernel: Function) -> Iterator[Broken]:
    """What a kernel's parameters and decorators break."""
    arguments = kernel.node.args
    if arguments.kwonlyargs and arguments.vararg is None:
        names = ", ".join(each.arg for each in arguments.kwonlyargs)
        yield "keyword-only-separator", arguments.kwonlyargs[0], f"'*' before {names}"
    for default in [*arguments.defaults, *arguments.kw_defaults]:
        if isinstance(default, ast.List | ast.ListComp):
            yield "list-argument", default, f"the default {ast.unparse(default)}"
    for parameter in kernel.parameters():
        kind = parameter.annotation
        base = kind.value if isinstance(kind, ast.Subscript) else kind
        if base is not None and (
            (isinstance(base, ast.Name) and base.id == "list") or module.means(base, *_LISTS)
        ):
            yield "list-argument", parameter, f"'{parameter.arg}: {ast.unparse(kind or base)}'"
    for decorator in kernel.decorators:
        if isinstance(decorator, ast.Call):
            yield from _platform_target(decorator)


def _platform_target(call: ast.Call) -> Iterator[Broken]:
    for keyword in call.keywords:
        if keyword.arg == "platform_target":
            yield "platform-target", keyword.value, f"platform_target={ast.unparse(keyword.value)}"


def broken_uses(module: Module, function: Function) -> Iterator[Broken]:
    """Calls of decorated functions, and names of the older dialect, in a function's body."""
    inner: set[int] = set()
    for node in body_nodes(function.node):
        if isinstance(node, ast.Call):
            called = node.func.value if isinstance(node.func, ast.Subscript) else node.func
            other = module.function(called.id, function) if isinstance(called, ast.Name) else None
            if other is not None and other.decorators:
                yield "decorated-subkernel", node, f"a call of '{other.name}', which nki.jit decorates"
        if isinstance(node, ast.Attribute | ast.Name) and id(node) not in inner:
            inner.update(id(part) for part in ast.walk(node) if part is not node)
            meanings = module.meanings(node)
            if meanings and all(f"{name}.".startswith("neuronxcc.nki.") for name in meanings):
                yield "legacy-namespace", node, f"'{ast.unparse(node)}', which is {min(meanings)}"


def broken_state(module: Module, function: Function) -> Iterator[Broken]:
    """What a function's body reads or changes outside of its arguments."""
    rebound = _rebound(module)
    inner: set[int] = set()
    for node in body_nodes(function.node):
        if isinstance(node, ast.Global):
            changed = [name for name in node.names if name in _stored(function)]
            if changed:
                yield "external-state", node, f"an assignment to the global '{changed[0]}'"
        elif isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
            name = _root(node)
            if _is_outside(module, function, name):
                yield "external-state", node, f"a change of '{name}', which is no argument"
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _CHANGING
        ):
            value = node.func.value
            if isinstance(value, ast.Name) and _is_container(module, function, value.id):
                yield "external-state", node, f"'{ast.unparse(node.func)}', which changes a global"
        elif isinstance(node, ast.Name) and node.id in rebound and _is_read_outside(module, function, node):
            yield "external-state", node, f"the global '{node.id}', which the file assigns anew elsewhere"
        if isinstance(node, ast.Attribute | ast.Name) and id(node) not in inner:
            inner.update(id(part) for part in ast.walk(node) if part is not node)
            meanings = module.meanings(node)
            if meanings and all(f"{name}.".startswith(_OUTSIDE) or name in _OUTSIDE for name in meanings):
                yield "external-state", node, f"'{ast.unparse(node)}'"


def _stored(function: Function) -> set[str]:
    nodes = body_nodes(function.node)
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _rebound(module: Module) -> frozenset[str]:
    """Globals that some function of the file assigns."""
    names: set[str] = set()
    for function in module.functions:
        for node in body_nodes(function.node):
            if isinstance(node, ast.Global):
                names.update(set(node.names) & _stored(function))
    return frozenset(names)


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_outside(module: Module, function: Function, name: str) -> bool:
    """Whether a name means a variable at the top of the file."""
    scope: Function | None = function
    while scope is not None:
        if name in scope.bound:
            return False
        scope = scope.scope
    return name in module.variables


def _is_read_outside(module: Module, function: Function, node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load) and _is_outside(module, function, node.id)


def _is_container(module: Module, function: Function, name: str) -> bool:
    kinds = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
    return _is_outside(module, function, name) and all(
        isinstance(value, kinds)
        or (
            isinstance(value, ast.Call)
            and isinstance(value.func, ast.Name)
            and value.func.id in ("list", "dict", "set")
        )
        for value in module.variables[name]
    )


def broken_classes(
    module: Module, functions: Iterable[Function], roots: Iterable[Function]
) -> Iterator[Broken]:
    """Classes of the file that kernels make or take, and that derive from something else than NKIObject."""
    made = {
        node.func.id
        for function in functions
        for node in body_nodes(function.node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    taken = {
        parameter.annotation.id
        for kernel in roots
        for parameter in kernel.parameters()
        if isinstance(parameter.annotation, ast.Name)
    }
    for name in sorted((made | taken) & module.classes.keys()):
        node = module.classes[name]
        wrong = _wrong_base(module, node, frozenset())
        if wrong and (name in made or not wrong.startswith("typing.")):
            found = (
                f"class {name} with no base" if wrong == "object" else f"class {name} with the base {wrong}"
            )
            yield "class-base", node, found


def _wrong_base(module: Module, node: ast.ClassDef, seen: frozenset[str]) -> str:
    """A base that is surely another than NKIObject or an enumeration; empty where there is none or none is known."""
    if not node.bases:
        return "object"
    if len(node.bases) > 1:
        others = [ast.unparse(base) for base in node.bases if not _is_nki_object(module, base)]
        return others[0] if len(others) < len(node.bases) else ""
    base = node.bases[0]
    if _is_nki_object(module, base):
        return ""
    if isinstance(base, ast.Name) and base.id in module.classes and base.id not in seen:
        return _wrong_base(module, module.classes[base.id], seen | {base.id})
    meanings = module.meanings(base)
    if meanings:
        return min(meanings) if all(name.startswith(("typing.", "abc.")) for name in meanings) else ""
    if isinstance(base, ast.Name) and isinstance(kind := getattr(builtins, base.id, None), type):
        return "" if issubclass(kind, BaseException) else base.id
    return ""


def _is_nki_object(module: Module, base: ast.expr) -> bool:
    meanings = module.meanings(base)
    return bool(meanings) and all(name.endswith(".NKIObject") for name in meanings)

"""Names of ``nki`` that a file uses and an SDK version does not document.

Looked at are attributes of modules that the file imports (``nl.exp`` after ``import nki.language as nl``), names that
it imports from them, and members of documented enumerations (``nisa.engine.vector``). Names are those of
``nki.documented``: what no stub of the vendor's documentation has counts as not documented, though it may exist.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from twintrack.errors import UserError, nearest
from twintrack.nki.documented import DocumentedName, DocumentedNames, load
from twintrack.nki.lint.records import Finding, Rule

__all__ = ["UNDOCUMENTED", "undocumented_names"]

UNDOCUMENTED = Rule(
    "undocumented-name",
    "2.26",
    "names that this SDK version documents",
    "use one that it has",
    "nki/api",
    "the stubs of the modules",
)
_ROOTS = ("nki", "neuronxcc.nki")
_OLD = "2.26"
"""The version whose ``neuronxcc.nki`` is documented; later ones describe ``nki`` only."""


def undocumented_names(source: str, filename: str, *, sdk: str) -> tuple[Finding, ...]:
    """Find names that this version does not document.

    Files of the older dialect (``neuronxcc.nki``) are looked at for 2.26 only.

    Args:
        source: text of the file.
        filename: how findings call it.
        sdk: SDK version, such as ``2.30``.

    Returns:
        One finding per name, where it first stands, in the order of the file.

    Raises:
        UserError: the file is no Python, or the version is none whose names are known.
    """
    known = load()
    if sdk not in known.versions:
        raise UserError(
            f"an SDK version among {', '.join(known.versions)}",
            found=repr(sdk),
            where="sdk",
            remedy="name one of them",
        )
    try:
        tree = ast.parse(source, filename)
    except SyntaxError as error:
        raise UserError(
            "Python", found=str(error.msg), where=f"{filename}:{error.lineno}", remedy="mend the syntax"
        ) from None
    uses = sorted(_Uses(known, sdk).of(tree), key=lambda use: (use[1].lineno, use[1].col_offset))
    first: dict[str, tuple[str, ast.expr | ast.stmt]] = {}
    for function, node, what in uses:
        first.setdefault(what, (function, node))
    return tuple(
        Finding(UNDOCUMENTED, filename, node.lineno, node.col_offset + 1, function, what)
        for what, (function, node) in first.items()
    )


class _Uses:
    """Walks a file once, with what its imports bound.

    Args:
        known: documented names.
        sdk: version asked for.
    """

    def __init__(self, known: DocumentedNames, sdk: str) -> None:
        self._known = known
        self._sdk = sdk
        self._bound: dict[str, str] = {}
        """Module or name that a variable of the file stands for."""

    def of(self, tree: ast.Module) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
        """Function, place and text of every name that is not documented."""
        nodes = list(_inside(tree, "the file"))
        for function, node in nodes:
            if isinstance(node, ast.Import):
                self._import(node)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                for what in self._import_from(node):
                    yield function, node, what
        inner = {id(node.value) for _, node in nodes if isinstance(node, ast.Attribute)}
        for function, node in nodes:
            if isinstance(node, ast.Attribute) and id(node) not in inner:
                what = self._judge(self._path(node))
                if what:
                    yield function, node, what

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name.startswith(_ROOTS):
                root = alias.name.split(".")[0]
                self._bound[alias.asname or root] = alias.name if alias.asname else root

    def _import_from(self, node: ast.ImportFrom) -> Iterator[str]:
        module = node.module or ""
        if module != "neuronxcc" and not self._is_module(module):
            return
        for alias in node.names:
            path = f"{module}.{alias.name}"
            self._bound[alias.asname or alias.name] = path
            what = self._judge(path)
            if what:
                yield what

    def _is_module(self, path: str) -> bool:
        return path in self._known.modules or path in _ROOTS

    def _path(self, node: ast.expr) -> str:
        """Dotted path that an attribute means, empty where it is none of ours."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self._bound:
            return ""
        return ".".join([self._bound[node.id], *reversed(parts)])

    def _judge(self, path: str) -> str:
        """What to report of a path; empty where all is well."""
        parts = path.split(".")
        for cut in range(len(parts) - 1, 0, -1):
            module = ".".join(parts[:cut])
            if module not in self._known.modules:
                continue
            if self._is_module(f"{module}.{parts[cut]}"):
                return ""
            if module.startswith("neuronxcc") and self._sdk != _OLD:
                return ""
            return self._name(module, parts[cut:])
        return ""

    def _name(self, module: str, parts: list[str]) -> str:
        names = self._known.modules[module]
        entry = names.get(parts[0])
        if entry is None or entry.form_in(self._sdk) is None:
            return self._told(f"{module}.{parts[0]}", entry, [one for one in names if self._has(names[one])])
        form = entry.form_in(self._sdk)
        if form is None or form.kind != "enum" or len(parts) < 2 or parts[1] in ("name", "value"):
            return ""
        member = entry.members.get(parts[1])
        if member is not None and member.form_in(self._sdk) is not None:
            return ""
        return self._told(f"{module}.{parts[0]}.{parts[1]}", member, list(entry.members))

    def _has(self, entry: DocumentedName) -> bool:
        return entry.form_in(self._sdk) is not None

    def _told(self, path: str, entry: DocumentedName | None, others: list[str]) -> str:
        if entry is not None:
            first, last = entry.versions[0], entry.versions[-1]
            span = first if first == last else f"{first} to {last}"
            return f"{path}, which is documented in {span} and not in {self._sdk}"
        hint = nearest(path.rpartition(".")[2], others)
        return f"{path}, which no version documents" + (f" ({hint})" if hint else "")


def _inside(node: ast.AST, function: str) -> Iterator[tuple[str, ast.AST]]:
    """All nodes with the name of the innermost function around each."""
    for child in ast.iter_child_nodes(node):
        named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        yield function, child
        yield from _inside(child, child.name if named else function)  # type: ignore[attr-defined]

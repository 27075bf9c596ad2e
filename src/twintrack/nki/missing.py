"""Names that ``nki.language`` and ``nki.isa`` do not have: those of the dialect until 2.26 say where they are."""

from __future__ import annotations

import importlib
from collections.abc import Iterable

from twintrack.errors import nearest

__all__ = ["missing"]


def missing(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """The error of a name that a module does not have.

    Args:
        module: ``language`` or ``isa``.
        name: which was asked for.
        known: names that it has.
    """
    text = f"nki.{module} has no '{name}'"
    if not name.startswith("_"):
        older = importlib.import_module(f"twintrack.nki.legacy.{module}")
        if name in getattr(older, "__all__", ()):
            text += (
                f"; it is of the dialect until 2.26: import neuronxcc.nki.{module} (see docs/nki-legacy.md), "
                "or write the kernel with today's functions"
            )
        else:
            hint = nearest(name, known)
            text += f"; {hint}" if hint else ""
    return AttributeError(text, name=name)

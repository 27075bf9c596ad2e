"""Containers that a kernel takes and returns: tuples, lists, dictionaries, dataclasses and ``NKIObject`` records."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

from twintrack.nki.tensor import NKIObject, NkiTensor

__all__ = ["mapped"]


def mapped(value: Any, leaf: Callable[[Any, str], Any], name: str) -> Any:
    """The same nesting with every other value replaced by ``leaf(value, name)``.

    A container in which nothing changed is returned itself, so that what holds no arrays keeps its identity.

    Args:
        value: anything.
        leaf: told the value and how messages name it, such as ``weights[2]`` or ``config.scale``.
        name: of the value.
    """
    if isinstance(value, tuple | list):
        made = [mapped(one, leaf, f"{name}[{at}]") for at, one in enumerate(value)]
        if all(new is old for new, old in zip(made, value, strict=True)):
            return value
        if isinstance(value, list):
            return made
        return type(value)(*made) if hasattr(value, "_fields") else tuple(made)
    if isinstance(value, dict):
        items = {key: mapped(one, leaf, f"{name}[{key!r}]") for key, one in value.items()}
        return value if all(items[key] is value[key] for key in value) else items
    if _is_record(value):
        made = leaf(value, name)  # a record may be a leaf itself, as ``Shape`` is
        return made if made is not value else _record(value, leaf, name)
    return leaf(value, name)


def _is_record(value: Any) -> bool:
    if isinstance(value, type | NkiTensor):
        return False
    return dataclasses.is_dataclass(value) or (isinstance(value, NKIObject) and hasattr(value, "__dict__"))


def _record(value: Any, leaf: Callable[[Any, str], Any], name: str) -> Any:
    known = dataclasses.fields(value) if dataclasses.is_dataclass(value) else ()
    names = [one.name for one in known] or list(vars(value))
    old = {key: getattr(value, key) for key in names if hasattr(value, key)}
    new = {key: mapped(one, leaf, f"{name}.{key}") for key, one in old.items()}
    changed = {key: one for key, one in new.items() if one is not old[key]}
    if not changed:
        return value
    made = copy.copy(value)
    for key, one in changed.items():
        object.__setattr__(made, key, one)  # the copy of a frozen record is ours until it is handed out
    return made

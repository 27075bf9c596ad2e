"""Tensors held against the keys and shapes that the other side needs; whatever differs is a failure, never a warning.

Loaders pass over keys that they do not know: an adapter whose keys have another prefix or one level more or less
loads without an error and changes nothing. So every difference is looked for, and told with the key that was meant.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from twintrack.errors import ModelError

__all__ = ["FLOAT32", "KeyProblem", "check_keys", "key_problems"]

Shape = tuple[int, ...]

FLOAT32 = frozenset({torch.float32})


@dataclass(frozen=True, slots=True)
class KeyProblem:
    """One tensor that is not as the other side needs it."""

    key: str
    required: str
    found: str
    nearest: str
    """The expected key that it was most likely meant to be; may be empty."""


def key_problems(
    tensors: Mapping[str, Tensor],
    expected: Mapping[str, Shape],
    *,
    dtypes: frozenset[torch.dtype] = FLOAT32,
) -> Iterator[KeyProblem]:
    """Everything that is wrong: unknown keys first, then missing ones, then sizes of zero, shapes and types.

    Args:
        tensors: by key; tensors on the meta device do.
        expected: as ``expected_keys`` gives it.
        dtypes: types that are allowed.
    """
    missing = [key for key in expected if key not in tensors]
    for key in sorted(tensors.keys() - expected.keys()):
        meant = _nearest(key, missing or expected)
        yield KeyProblem(key, f"the key {meant}" if meant else "no such key", _difference(key, meant), meant)
    for key in missing:
        meant = _nearest(key, tensors.keys() - expected.keys())
        yield KeyProblem(
            key, f"the key {key}", f"none; the nearest is {meant}" if meant else "none", meant or key
        )
    for key, shape in expected.items():
        if key in tensors and (found := _wrong(tensors[key], shape, dtypes)):
            types = " or ".join(sorted(str(dtype).removeprefix("torch.") for dtype in dtypes))
            yield KeyProblem(key, f"{key} of shape {list(shape)}, {types}", found, key)


def check_keys(
    tensors: Mapping[str, Tensor],
    expected: Mapping[str, Shape],
    *,
    where: str,
    dtypes: frozenset[torch.dtype] = FLOAT32,
) -> None:
    """Refuse at the first of ``key_problems``, saying how many tensors are wrong.

    Raises:
        ModelError: a wrong prefix, an extra or missing level, a missing or unknown key, a wrong type or shape, a
            tensor without elements; names the key and the nearest expected one.
    """
    first = next(key_problems(tensors, expected, dtypes=dtypes), None)
    if first is None:
        return
    wrong = tensors.keys() ^ expected.keys()
    wrong |= {key for key in tensors.keys() & expected.keys() if _wrong(tensors[key], expected[key], dtypes)}
    raise ModelError(
        first.required,
        found=f"{first.found} ({len(wrong)} keys are wrong)" if len(wrong) > 1 else first.found,
        where=where,
        remedy="convert again from the checkpoint; nothing that is wrong would be noticed when it is loaded",
    )


def _wrong(tensor: Tensor, shape: Shape, dtypes: frozenset[torch.dtype]) -> str:
    """What is wrong with a tensor itself; empty if nothing is."""
    if tensor.numel() == 0:
        return f"a tensor without elements, of shape {list(tensor.shape)}"
    if tuple(tensor.shape) != tuple(shape):
        return f"shape {list(tensor.shape)}"
    if tensor.dtype not in dtypes:
        return str(tensor.dtype).removeprefix("torch.")
    return ""


def _nearest(key: str, candidates: Iterable[str]) -> str:
    """The candidate that shares the most levels, then the one spelled most alike; empty where none shares two."""
    levels = Counter(key.split("."))
    shared: dict[str, int] = {}
    for candidate in candidates:
        other = Counter(candidate.split("."))
        common = (levels & other).total()
        shared[candidate] = 3 * common - other.total()
    if not shared:
        return ""
    most = max(shared.values())
    best = sorted(candidate for candidate, score in shared.items() if score == most)
    chosen = max(best, key=lambda candidate: difflib.SequenceMatcher(None, key, candidate).ratio())
    return chosen if (levels & Counter(chosen.split("."))).total() >= 2 else ""


def _difference(key: str, meant: str) -> str:
    """A key and how its levels differ from those that were meant."""
    if not meant:
        return f"the unknown key {key}"
    own, other = key.split("."), meant.split(".")
    parts = []
    for tag, i, j, k, m in difflib.SequenceMatcher(None, own, other, autojunk=False).get_opcodes():
        extra, lacking = ".".join(own[i:j]), ".".join(other[k:m])
        if tag == "delete":
            parts.append(f"with the {_kind(i)} '{extra}' too many")
        elif tag == "insert":
            parts.append(f"without the {_kind(k)} '{lacking}'")
        elif tag == "replace":
            parts.append(f"with the {_kind(i)} '{extra}' instead of '{lacking}'")
    return f"{key}, {', '.join(parts)}"


def _kind(index: int) -> str:
    return "prefix" if index == 0 else "level"

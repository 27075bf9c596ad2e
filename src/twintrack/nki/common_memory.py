"""Memory that the arguments of several ranks have in common.

On the device each rank has its own copy of its arguments. Where arrays of two ranks overlap, all of them are copied
before the run, and writing to one is refused after it, as the caller's array cannot hold what each rank wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from twintrack.errors import KernelError
from twintrack.nki.arrays import Argument
from twintrack.nki.containers import mapped
from twintrack.nki.tensor import NkiTensor

__all__ = ["arguments_in", "refuse_writes", "separate", "tensors_in"]


def _leaves(value: Any) -> Iterator[Any]:
    found: list[Any] = []

    def leaf(one: Any, name: str) -> Any:
        del name
        found.append(one)
        return one

    mapped(value, leaf, "")
    return iter(found)


def arguments_in(value: Any) -> list[Argument]:
    """The array arguments in a nesting of containers."""
    return [one for one in _leaves(value) if isinstance(one, Argument)]


def tensors_in(value: Any) -> list[NkiTensor]:
    """The tensors in a nesting of containers."""
    return [one for one in _leaves(value) if isinstance(one, NkiTensor)]


def separate(ranks: Sequence[Sequence[Argument]]) -> list[Argument]:
    """Give arguments whose memory overlaps that of another rank's a copy of their own; these arguments."""
    spans = []
    for rank, arguments in enumerate(ranks):
        for one in arguments:
            if one.values is not None:
                start = one.values.__array_interface__["data"][0]
                spans.append((start, start + one.values.nbytes, rank, one))
    spans.sort(key=lambda span: span[:3])
    common: dict[int, Argument] = {}
    open_spans: list[tuple[int, int, int, Argument]] = []
    for span in spans:
        open_spans = [other for other in open_spans if other[1] > span[0]]
        for other in open_spans:
            if other[2] != span[2]:
                common[id(other[3])], common[id(span[3])] = other[3], span[3]
        open_spans.append(span)
    for one in common.values():
        assert one.values is not None  # noqa: S101 - only those with values have a span
        one.values = one.values.copy()
    return list(common.values())


def refuse_writes(common: Sequence[Argument]) -> None:
    """After the run: none of these was written.

    Raises:
        KernelError: naming the argument that was.
    """
    for one in common:
        if one.storage is not None and one.storage.modified:
            raise KernelError(
                "an array of its own for each rank that writes to its argument",
                found=f"{one.name}, which shares memory with another rank's argument,",
                where="run_ranks",
                remedy="pass copies",
            )

"""Index expressions of the dialect until 2.26: ``nl.arange``, ``nl.mgrid``, and the predicates made of them.

An expression is affine over the axes of a broadcast shape, so that ``tensor[expression, expression]`` is an access
pattern: one offset, and one stride per axis. A comparison of two expressions is a predicate: the ``mask`` of an
instruction, or the condition of ``nisa.affine_select``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NoReturn, cast

import numpy as np

from twintrack.nki.isa.issue import author_error
from twintrack.nki.language.traced_index import is_traced
from twintrack.nki.tensor_index import DynamicSlice

__all__ = ["Affine", "Comparison", "Grid", "Predicate", "arange", "ds", "mgrid"]


def _whole(value: Any) -> int | None:
    """The integer that this is, also one that is watched; ``None`` where it is none."""
    if isinstance(value, bool):
        return None
    if is_traced(value):
        return cast("int", value)  # comparisons of it are watched
    try:
        return int(value.__index__())
    except AttributeError:
        return None


class Affine:
    """``const + sum(coefs[d] * i[d])``, where ``i[d]`` counts to ``shape[d]``; an axis of size 1 broadcasts.

    Args:
        shape: sizes of the axes.
        coefs: one per axis; 0 where the expression does not depend on it.
        const: value where all ``i`` are 0.
    """

    __slots__ = ("coefs", "const", "shape")
    __array_ufunc__ = None  # NumPy integers leave arithmetic to this class

    def __init__(self, shape: tuple[int, ...], coefs: tuple[int, ...], const: int) -> None:
        self.shape = shape
        self.coefs = coefs
        self.const = const

    def __repr__(self) -> str:
        terms = [f"{step}*i{axis}" for axis, step in enumerate(self.coefs) if step]
        return f"[{' + '.join([*terms, str(self.const)])} for {list(self.shape)}]"

    @property
    def ndim(self) -> int:
        """Axes."""
        return len(self.shape)

    def aligned(self, rank: int) -> tuple[int, ...]:
        """Coefficients of the last ``rank`` axes, as NumPy aligns shapes."""
        missing = rank - len(self.coefs)
        return (0,) * missing + self.coefs if missing >= 0 else self.coefs[-missing:]

    def __getitem__(self, key: Any) -> Affine:
        """Axes of size 1 put in by ``None``; ``:`` keeps an axis.

        Raises:
            KernelError: for any other index.
        """
        keys = key if isinstance(key, tuple) else (key,)
        if Ellipsis in keys:
            at = keys.index(Ellipsis)
            kept = len(self.shape) - sum(1 for one in keys if one is not None and one is not Ellipsis)
            keys = (*keys[:at], *(slice(None),) * max(kept, 0), *keys[at + 1 :])
        axes = iter(zip(self.shape, self.coefs, strict=True))
        found: list[tuple[int, int]] = []
        for one in keys:
            axis = (1, 0) if one is None else next(axes, None)
            if axis is None or not (one is None or one == slice(None)):
                raise author_error("None and : as indices of an index expression", f"{key}", "add axes only")
            found.append(axis)
        found.extend(axes)
        return Affine(tuple(size for size, _ in found), tuple(step for _, step in found), self.const)

    # arithmetic

    def __add__(self, other: Any) -> Affine:
        if isinstance(other, Affine):
            rank = max(len(self.shape), len(other.shape))
            coefs = zip(self.aligned(rank), other.aligned(rank), strict=True)
            shape = _broadcast(self.shape, other.shape)
            return Affine(shape, tuple(a + b for a, b in coefs), self.const + other.const)
        number = _whole(other)
        return NotImplemented if number is None else Affine(self.shape, self.coefs, self.const + number)

    __radd__ = __add__

    def __neg__(self) -> Affine:
        return Affine(self.shape, tuple([-step for step in self.coefs]), -self.const)

    def __sub__(self, other: Any) -> Affine:
        if isinstance(other, Affine):
            return self + -other
        number = _whole(other)
        return NotImplemented if number is None else self + -number

    def __rsub__(self, other: Any) -> Affine:
        return (-self).__add__(other)

    def __mul__(self, other: Any) -> Affine:
        number = _whole(other)
        if number is None:
            if isinstance(other, Affine):
                self._not_affine("a product of two index expressions")
            return NotImplemented
        return Affine(self.shape, tuple(step * number for step in self.coefs), self.const * number)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> NoReturn:
        self._not_affine(f"// {other!r}")

    def __mod__(self, other: Any) -> NoReturn:
        self._not_affine(f"% {other!r}")

    def _not_affine(self, what: str) -> NoReturn:
        raise author_error(
            "an affine index expression (sums, and products with integers)",
            f"{what} of {self!r}",
            "split the axis into two with nl.mgrid, and index with a sum",
        )

    # predicates

    def __lt__(self, other: Any) -> Predicate:
        return _compare("less", self, other)

    def __le__(self, other: Any) -> Predicate:
        return _compare("less_equal", self, other)

    def __gt__(self, other: Any) -> Predicate:
        return _compare("greater", self, other)

    def __ge__(self, other: Any) -> Predicate:
        return _compare("greater_equal", self, other)

    def __eq__(self, other: object) -> Predicate:  # type: ignore[override]
        return _compare("equal", self, other)

    def __ne__(self, other: object) -> Predicate:  # type: ignore[override]
        return _compare("not_equal", self, other)

    __hash__ = None  # type: ignore[assignment]


def _broadcast(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return tuple(np.broadcast_shapes(first, second))
    except ValueError:
        raise author_error(
            "index expressions whose shapes broadcast",
            f"{list(first)} and {list(second)}",
            "put each on an axis of its own with None, such as [:, None] and [None, :]",
        ) from None


class Comparison:
    """``expression <op> 0``.

    Args:
        op: name of the comparison.
        expression: affine.
    """

    __slots__ = ("expression", "op")

    def __init__(self, op: str, expression: Affine) -> None:
        self.op = op
        self.expression = expression

    def bounds(self) -> tuple[Affine, ...]:
        """Expressions that are all ``>= 0`` where this holds.

        Raises:
            KernelError: for ``!=``, which names no range.
        """
        value = self.expression
        if self.op == "not_equal":
            raise author_error("a mask of <, <=, >, >= or ==", "!=", "mask each side by itself")
        return {
            "less": (-value - 1,),
            "less_equal": (-value,),
            "greater": (value - 1,),
            "greater_equal": (value,),
            "equal": (value, -value),
        }[self.op]


class Predicate:
    """Comparisons that hold together. As documented, ``&`` joins them; ``and`` cannot, and keeps its right side.

    Args:
        comparisons: all must hold.
        never: whether a plain ``False`` was joined.
    """

    __slots__ = ("comparisons", "never")

    def __init__(self, comparisons: tuple[Comparison, ...], *, never: bool = False) -> None:
        self.comparisons = comparisons
        self.never = never

    def __and__(self, other: Any) -> Predicate:
        if isinstance(other, Predicate):
            return Predicate(self.comparisons + other.comparisons, never=self.never or other.never)
        if isinstance(other, bool | np.bool_):
            return Predicate(self.comparisons, never=self.never or not other)
        return NotImplemented

    __rand__ = __and__


def _compare(op: str, left: Affine, right: object) -> Predicate:
    difference = left - right
    if not isinstance(difference, Affine):
        raise author_error(
            "an index expression or an integer to compare with", type(right).__name__, "compare with one"
        )
    return Predicate((Comparison(op, difference),))


def arange(*args: Any) -> Affine:
    """``nl.arange([start,] stop[, step])``: consecutive integers as an index expression.

    Raises:
        KernelError: if there are none, or an argument is no integer.
    """
    numbers = [_whole(one) for one in args]
    if not 1 <= len(args) <= 3 or None in numbers:
        raise author_error("one to three integers for nl.arange", f"{args}", "pass (start, stop, step)")
    span = range(*[one for one in numbers if one is not None])
    if not span:
        raise author_error("at least one index from nl.arange", f"{span}", "start below the end")
    start = numbers[0] if len(numbers) > 1 else 0
    return Affine((len(span),), (span.step,), span.start if start is None else start)


def ds(start: Any, size: Any) -> DynamicSlice:
    """``nl.ds(start, size)``: ``size`` elements from ``start``, as an index."""
    return DynamicSlice(start, size)


_NAMES = "pxyzw"


class Grid:
    """``nl.mgrid[a:b, c:d, ...]``: one expression per slice, each on its own axis.

    They are unpacked, indexed, or named ``p``, ``x``, ``y``, ``z``, ``w``.
    """

    __slots__ = ("axes",)

    def __init__(self, axes: tuple[Affine, ...]) -> None:
        self.axes = axes

    def __iter__(self) -> Iterator[Affine]:
        return iter(self.axes)

    def __len__(self) -> int:
        return len(self.axes)

    def __getitem__(self, at: int) -> Affine:
        return self.axes[at]

    def __getattr__(self, name: str) -> Affine:
        at = _NAMES.find(name)
        if len(name) != 1 or not 0 <= at < len(self.axes):
            raise AttributeError(f"an nl.mgrid of {len(self.axes)} axes has no '{name}'")
        return self.axes[at]


class _MGrid:
    """What ``nl.mgrid`` is: indexed with slices."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Grid:
        keys = key if isinstance(key, tuple) else (key,)
        axes: list[Affine] = []
        for at, one in enumerate(keys):
            if not isinstance(one, slice) or one.stop is None:
                raise author_error("slices with an end in nl.mgrid", f"{one}", "write nl.mgrid[0:128, 0:512]")
            steps = (one.start or 0, one.stop, 1 if one.step is None else one.step)
            axes.append(arange(*steps)[(*itertools.repeat(None, at), slice(None))])
        rank = len(keys)
        return Grid(tuple(one[(..., *itertools.repeat(None, rank - one.ndim))] for one in axes))


mgrid = _MGrid()

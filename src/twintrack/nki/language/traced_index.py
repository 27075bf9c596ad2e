"""The index of a loop of which not all iterations run: an integer that tells what is done with it.

Sums, differences and products with integers keep the index affine, ``coef * iteration + const``. A comparison has one
outcome, and whether later iterations would have another is computed. What reads the number itself in the kernel
author's code (``range(i)``, ``table[i]``, ``i % 2``, ``f"{i}"``) could do anything with it, so that nothing is known of
later iterations. NKI's own functions may read it: places, sizes and trip counts are linear in it, or clipped at one
end, so that what the first and the last iterations have in common the others have too.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any, NoReturn

__all__ = ["TracedIndex", "Watch", "is_traced"]

_OURS = ("twintrack.nki", "twintrack.neuroncore")
_ORDERED: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Watch:
    """What a loop's body did with its index.

    Args:
        loop: number of the loop on its core.
        last: the last iteration.
    """

    __slots__ = ("iteration", "last", "loop", "over", "reason")

    def __init__(self, loop: int, last: int) -> None:
        self.loop = loop
        self.last = last
        self.iteration = 0
        """That runs."""
        self.over = False
        """Whether indices are plain numbers from now on."""
        self.reason = ""
        """Why nothing is known of later iterations; empty where it is."""

    def refuse(self, reason: str) -> None:
        """Nothing is known of later iterations; the first reason stands."""
        if not self.over and not self.reason:
            self.reason = reason

    def compared(self, sign: str, coef: int, const: int, other: Any, outcome: bool) -> bool:
        """An outcome of ``coef * iteration + const <sign> other``; refused where a later iteration has another."""
        first = self.iteration
        if self.over or first == 0 or not coef:
            return outcome  # the first iteration may differ from all others
        if sign in _ORDERED:  # monotone: the ends agree only if all do
            later = _ORDERED[sign](coef * self.last + const, other)
            if later is not outcome:
                self.refuse(f"a comparison of the index ({sign} {other!r}) comes out otherwise later")
            return outcome
        if not self._alike_later(coef, const, other):
            self.refuse(f"a comparison of the index ({sign} {other!r}) comes out otherwise in some iteration")
        return outcome

    def _alike_later(self, coef: int, const: int, other: Any) -> bool:
        """Whether ``coef * iteration + const`` equals a number in none of the iterations from this one on."""
        if isinstance(other, float):
            if not other.is_integer():
                return True
            other = int(other)
        met, rest = divmod(other - const, coef)
        return bool(rest) or not self.iteration <= met <= self.last


class TracedIndex:
    """``coef * iteration + const`` of a watched loop; counts as an ``int`` wherever one is asked for.

    Args:
        watch: of the loop.
        coef: per iteration.
        const: in iteration 0.
        value: now.
    """

    __slots__ = ("coef", "const", "value", "watch")
    __array_ufunc__ = None  # NumPy's integers leave arithmetic to this class

    def __init__(self, watch: Watch, coef: int, const: int, value: int) -> None:
        self.watch = watch
        self.coef = coef
        self.const = const
        self.value = value

    @property  # type: ignore[misc]
    def __class__(self) -> type[int]:  # type: ignore[override]
        return int

    @property
    def loop(self) -> int:
        """Number of its loop on the running core."""
        return self.watch.loop

    @property
    def first(self) -> bool:
        """Whether it is of the loop's first iteration."""
        return self.const == self.value

    def _made(self, coef: int, const: int, value: int) -> Any:
        return TracedIndex(self.watch, coef, const, value) if coef else value

    def _read(self, how: str) -> int:
        """The number, for the caller's caller; noted unless that is NKI's own code."""
        module = str(sys._getframe(2).f_globals.get("__name__", ""))
        if not module.startswith(_OURS):
            self.watch.refuse(f"the kernel reads the number of the index ({how})")
        return self.value

    # affine

    def __add__(self, other: Any) -> Any:
        if type(other) is TracedIndex:
            if other.watch is not self.watch:
                return self + other.value if other.watch.over else self.value + other
            return self._made(self.coef + other.coef, self.const + other.const, self.value + other.value)
        number = _integer(other)
        if number is None:
            return self._numbers(operator.add, other)
        return self._made(self.coef, self.const + number, self.value + number)

    __radd__ = __add__

    def __neg__(self) -> Any:
        return self._made(-self.coef, -self.const, -self.value)

    def __pos__(self) -> Any:
        return self

    def __sub__(self, other: Any) -> Any:
        if type(other) is TracedIndex or _integer(other) is not None:
            return self + -other
        return self._numbers(operator.sub, other)

    def __rsub__(self, other: Any) -> Any:
        if _integer(other) is not None:
            return -self + other
        return self._numbers(operator.sub, other, swapped=True)

    def __mul__(self, other: Any) -> Any:
        number = _integer(other)
        if number is None:
            return self._numbers(operator.mul, other)
        return self._made(self.coef * number, self.const * number, self.value * number)

    __rmul__ = __mul__

    def _numbers(self, function: Callable[..., Any], other: Any, *, swapped: bool = False) -> Any:
        """Arithmetic that does not stay affine, with numbers only: other objects have their own."""
        if type(other) is TracedIndex:
            other = other.value
        elif not isinstance(other, int | float | complex):
            return NotImplemented
        self.watch.refuse(f"the index is used in arithmetic that is not affine ({function.__name__})")
        return function(other, self.value) if swapped else function(self.value, other)

    # comparisons

    def _compare(self, sign: str, function: Callable[[Any, Any], bool], other: Any) -> Any:
        if type(other) is TracedIndex:
            if other.watch is not self.watch:
                other = other.value
            else:
                difference = self - other
                if type(difference) is not TracedIndex:
                    return function(difference, 0)
                return difference._compare(sign, function, 0)
        if not isinstance(other, int | float):
            return NotImplemented
        return self.watch.compared(sign, self.coef, self.const, other, bool(function(self.value, other)))

    def __lt__(self, other: Any) -> Any:
        return self._compare("<", operator.lt, other)

    def __le__(self, other: Any) -> Any:
        return self._compare("<=", operator.le, other)

    def __gt__(self, other: Any) -> Any:
        return self._compare(">", operator.gt, other)

    def __ge__(self, other: Any) -> Any:
        return self._compare(">=", operator.ge, other)

    def __eq__(self, other: object) -> Any:
        return self._compare("==", operator.eq, other)

    def __ne__(self, other: object) -> Any:
        return self._compare("!=", operator.ne, other)

    def __bool__(self) -> bool:
        return bool(self._compare("!=", operator.ne, 0))

    # the number itself

    def __index__(self) -> int:
        return self._read("as an integer")

    def __int__(self) -> int:
        return self._read("int()")

    def __float__(self) -> float:
        return float(self._read("float()"))

    def __complex__(self) -> complex:
        return complex(self._read("complex()"))

    def __hash__(self) -> int:
        return hash(self._read("as a key"))

    def __str__(self) -> str:
        return str(self._read("as text"))

    def __repr__(self) -> str:
        return repr(self._read("as text"))

    def __format__(self, spec: str) -> str:
        return format(self._read("as text"), spec)

    def __getattr__(self, name: str) -> Any:
        """Whatever else an ``int`` has."""
        return getattr(self.value if not hasattr(int, name) else self._read(f".{name}"), name)

    def __reduce__(self) -> NoReturn:
        raise TypeError("the index of a running loop cannot be copied")


def is_traced(value: Any) -> Any:
    """Whether this is the index of a loop of which not all iterations run."""
    return type(value) is TracedIndex


def _integer(value: Any) -> int | None:
    """The integer that this is; ``None`` for everything else, other watched indices among it."""
    if type(value) is TracedIndex:
        return None
    if isinstance(value, int):  # a bool too, as in Python's arithmetic
        return int(value)
    if type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0 and hasattr(value, "__index__"):
        try:
            return operator.index(value)
        except TypeError:
            return None
    return None


def _delegate(name: str) -> Callable[..., Any]:
    """An operator of which the result is the number's, and no longer affine."""
    function = getattr(int, name)

    def operate(self: TracedIndex, *others: Any) -> Any:
        plain = [one.value if type(one) is TracedIndex else one for one in others]
        found = function(self.value, *plain)
        if found is not NotImplemented:
            self.watch.refuse(f"the index is used in arithmetic that is not affine ({name.strip('_')})")
            return found
        if all(isinstance(one, float) for one in plain):
            self.watch.refuse(f"the index is used in arithmetic that is not affine ({name.strip('_')})")
            return getattr(float(self.value), name)(*plain)
        return NotImplemented

    operate.__name__ = name
    return operate


for _name in (
    "abs", "invert", "ceil", "floor", "trunc", "round",
    *(side + one for one in ("floordiv", "truediv", "mod", "divmod", "pow", "lshift", "rshift", "and", "or", "xor")
      for side in ("", "r")),
):  # fmt: skip
    setattr(TracedIndex, f"__{_name}__", _delegate(f"__{_name}__"))

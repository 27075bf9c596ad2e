"""What Python and NumPy offer for arrays and a tensor of NKI is not: operators, iteration, conversion to an array.

Until 2.26 tensors had operators (``twintrack.nki.legacy``); since then functions of ``nki.language`` take their place.
Each is refused at the author's line, naming the function to call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NoReturn

from twintrack.errors import KernelError
from twintrack.nki.showing import Shown
from twintrack.nki.tensor_errors import tensor_error

__all__ = ["NoArray"]

_UFUNCS: Mapping[str, str] = MappingProxyType(
    {
        "absolute": "abs",
        "true_divide": "divide",
        "remainder": "mod",
        "conjugate": "copy",
        "fabs": "abs",
        "rint": "round",
        "bitwise_not": "invert",
        "float_power": "power",
        "floor_divide": "divide floor",
    }
)
"""NumPy's functions that have another name in ``nki.language``, or are several there."""
_REDUCTIONS: Mapping[str, str] = MappingProxyType(
    {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all"}
)
"""Functions of ``nki.language`` for NumPy's reductions."""


def _operator(sign: str, name: str, instruction: str) -> Callable[..., Any]:
    def refused(tensor: NoArray, other: object = None) -> NoReturn:
        del other
        raise _no_operator(tensor, sign, name, instruction)

    return refused


def _no_operator(tensor: NoArray, sign: str, name: str, instruction: str) -> KernelError:
    used = f"nl.{name}" + (f" or nisa.{instruction}" if instruction else "")
    return tensor_error(
        tensor,
        f"{used} on tensors",
        f"the operator {sign}",
        f"call {used}; operators on tiles are of the dialect until 2.26: import neuronxcc.nki",
    )


class NoArray(Shown):
    """A tensor is no array of NumPy and no sequence, and has no operators."""

    __slots__ = ()

    __add__ = __radd__ = _operator("+", "add", "tensor_tensor")
    __sub__ = __rsub__ = _operator("-", "subtract", "tensor_tensor")
    __mul__ = __rmul__ = _operator("*", "multiply", "tensor_scalar")
    __truediv__ = __rtruediv__ = _operator("/", "divide", "tensor_tensor")
    __floordiv__ = __rfloordiv__ = _operator("//", "divide and nl.floor", "")
    __mod__ = __rmod__ = _operator("%", "mod", "tensor_tensor")
    __pow__ = __rpow__ = _operator("**", "power", "tensor_tensor")
    __matmul__ = __rmatmul__ = _operator("@", "matmul", "nc_matmul")
    __and__ = __rand__ = _operator("&", "bitwise_and", "tensor_tensor")
    __or__ = __ror__ = _operator("|", "bitwise_or", "tensor_tensor")
    __xor__ = __rxor__ = _operator("^", "bitwise_xor", "tensor_tensor")
    __lshift__ = __rlshift__ = _operator("<<", "left_shift", "tensor_tensor")
    __rshift__ = __rrshift__ = _operator(">>", "right_shift", "tensor_tensor")
    __lt__ = _operator("<", "less", "tensor_tensor")
    __le__ = _operator("<=", "less_equal", "tensor_tensor")
    __gt__ = _operator(">", "greater", "tensor_tensor")
    __ge__ = _operator(">=", "greater_equal", "tensor_tensor")
    __neg__ = _operator("-", "negative", "")
    __pos__ = _operator("+", "copy", "tensor_copy")
    __abs__ = _operator("abs()", "abs", "")
    __invert__ = _operator("~", "invert", "")

    def __iter__(self) -> NoReturn:
        raise tensor_error(
            self,
            "an index or a slice for each part of a tensor",
            "a loop over it (or *, zip, list of it)",
            f"write `for i in nl.affine_range({self.shape[0]}):` and take tensor[i]",
        )

    def __array__(self, dtype: object = None, copy: object = None) -> NoReturn:
        """NumPy asks for an array.

        Raises:
            KernelError: always.
        """
        del dtype, copy
        raise tensor_error(
            self,
            "an array of NumPy, whose values are known when the kernel is traced,",
            "a tensor",
            "compute with nki.language or nki.isa; look at values with print(tensor) or nl.device_print",
        )

    def __float__(self) -> NoReturn:
        raise self._no_number("float")

    def __int__(self) -> NoReturn:
        raise self._no_number("int")

    def _no_number(self, kind: str) -> KernelError:
        return tensor_error(
            self,
            f"a number known when the kernel is traced for {kind}()",
            "a tensor",
            "load it into a register (nisa.register_load) for a loop or an address, or compute on tensors",
        )

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """NumPy computes with it.

        Raises:
            KernelError: always, naming the function of ``nki.language`` of that name.
        """
        del inputs, kwargs
        from twintrack.nki import language

        names = _UFUNCS.get(ufunc.__name__, ufunc.__name__).split()
        if method == "reduce":
            names = [_REDUCTIONS.get(ufunc.__name__, ufunc.__name__)]
        known = all(hasattr(language, name) for name in names)
        raise tensor_error(
            self,
            "functions of nki.language or nki.isa on tensors",
            f"numpy.{ufunc.__name__}",
            f"call {' and '.join(f'nl.{name}' for name in names)}"
            if known
            else "compose it of functions of nki.language",
        )

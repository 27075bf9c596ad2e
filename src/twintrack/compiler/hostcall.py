"""Operators outside the IR's rules, run by PyTorch on the host where a job allows it; they are counted, never hidden.

A host call names a functional ATen overload and carries its arguments as JSON. It computes tensors from tensors and
does nothing else: overloads that change an operand, draw random numbers, give uninitialized or differently strided
memory, read files, belong to PyTorch's inside, or whose result's shape depends on data are refused, so a program read
from disk cannot call them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from twintrack.compiler.ir import Operator, TensorType
from twintrack.compiler.operators import TORCH_DTYPE

__all__ = ["HOST_NAME", "encode_arguments", "find_overload", "host_kernel", "host_result_types"]

HOST_NAME = "host"
_OVERLOAD = re.compile(r"aten\.([A-Za-z_0-9]+)\.([A-Za-z_0-9]+)")
_DTYPES = {str(dtype): dtype for dtype in TORCH_DTYPE.values()}
_NAMES = {dtype: name for name, dtype in TORCH_DTYPE.items()}
_MACHINE = re.compile(
    r"(new_)?empty|resize|set$|as_strided|pin_memory|is_pinned|quantize|mkldnn|cudnn|miopen|sparse"
)
"""Beginnings of names of what depends on how tensors lie in memory, or on one kind of device or library."""
_REFUSED_TAGS = frozenset(
    {
        torch.Tag.nondeterministic_seeded,
        torch.Tag.data_dependent_output,
        torch.Tag.dynamic_output_shape,
        torch.Tag.maybe_aliasing_or_mutating,
        torch.Tag.inplace_view,
    }
)
_TENSORS = ("Tensor", "List[Tensor]", "Optional[Tensor]", "List[Optional[Tensor]]")


def find_overload(name: str) -> Any | None:
    """The ATen overload of this name, such as ``aten.cumsum.default``; none where a host call may not name it."""
    match = _OVERLOAD.fullmatch(name)
    if match is None or _MACHINE.match(match[1]):
        return None
    packet = getattr(torch.ops.aten, match[1], None)
    overload = getattr(packet, match[2], None)
    if not isinstance(overload, torch._ops.OpOverload) or overload._schema.is_mutable:
        return None
    if match[1].startswith("_") and torch.Tag.core not in overload.tags:  # internal: checks little
        return None
    schema = overload._schema
    takes = any(str(argument.type) in _TENSORS for argument in schema.arguments)
    gives = schema.returns and all(str(result.type) in _TENSORS[:2] for result in schema.returns)
    return overload if takes and gives and not _REFUSED_TAGS & set(overload.tags) else None


def encode_arguments(
    arguments: Sequence[Any], keywords: dict[str, Any], operand: Callable[[Tensor], int]
) -> str:
    """Arguments as JSON; a tensor becomes ``{"operand": n}`` with the number that ``operand`` gives it.

    Raises:
        TypeError: if an argument has no such form.
    """

    def encode(value: Any) -> Any:
        if isinstance(value, Tensor):
            return {"operand": operand(value)}
        if isinstance(value, torch.dtype):
            if str(value) not in _DTYPES:
                raise TypeError(f"element type {value}")
            return {"dtype": str(value)}
        if isinstance(value, list | tuple):
            return [encode(item) for item in value]
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, torch.device | torch.layout | torch.memory_format):
            return None
        raise TypeError(f"argument of type {type(value).__name__}")

    named = {key: encode(value) for key, value in keywords.items()}
    return json.dumps([encode(list(arguments)), {k: v for k, v in named.items() if v is not None}])


def _decode(value: Any, operands: Sequence[Any]) -> Any:
    if isinstance(value, dict):
        if set(value) == {"dtype"} and value["dtype"] in tuple(_DTYPES):
            return _DTYPES[value["dtype"]]
        number = value.get("operand")
        if len(value) != 1 or type(number) is not int or not 0 <= number < len(operands):
            raise ValueError(f"an operand's number below {len(operands)} or a type expected, got {value}")
        return operands[number]
    if isinstance(value, list):
        return [_decode(item, operands) for item in value]
    return value


def _parse(op: Operator) -> tuple[Any, list[Any], dict[str, Any]]:
    """Overload and undecoded arguments.

    Raises:
        ValueError: if the overload may not be named, or the arguments are no JSON of the form of ``encode_arguments``.
    """
    name = str(op.attributes["aten"])
    overload = find_overload(name)
    if overload is None:
        raise ValueError(f"a functional ATen operator by its name expected, got '{name}'")
    try:
        parsed = json.loads(str(op.attributes["arguments"]))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"arguments as JSON expected: {error}") from error
    if not (
        isinstance(parsed, list)
        and len(parsed) == 2
        and isinstance(parsed[0], list)
        and isinstance(parsed[1], dict)
    ):
        raise ValueError("a list of arguments and a dict of named ones expected")
    return overload, parsed[0], parsed[1]


def _call(overload: Any, arguments: list[Any], keywords: dict[str, Any], operands: Sequence[Any]) -> Any:
    named = {key: _decode(value, operands) for key, value in keywords.items()}
    return overload(*_decode(arguments, operands), **named)


def _as_tuple(result: Any) -> tuple[Tensor, ...]:
    return (result,) if isinstance(result, Tensor) else tuple(result)


def host_result_types(op: Operator, operands: Sequence[TensorType]) -> list[TensorType]:
    """Types of the results, as PyTorch finds them without computing anything.

    Raises:
        ValueError: if the operator is not one that a host call may name, or the arguments do not fit it.
    """
    overload, arguments, keywords = _parse(op)
    with FakeTensorMode(), torch.no_grad():
        tensors = [torch.empty(t.shape, dtype=TORCH_DTYPE[t.dtype]) for t in operands]
        try:
            results = _as_tuple(_call(overload, arguments, keywords, tensors))
        except Exception as error:  # PyTorch has many kinds for arguments that do not fit
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ValueError(f"arguments that fit {overload} expected: {reason}") from error
        if any(r.dtype not in _NAMES or r.layout != torch.strided for r in results):
            raise ValueError(f"results of types that the IR has expected from {overload}")
        return [TensorType(_NAMES[r.dtype], tuple(r.shape)) for r in results]


def host_kernel(op: Operator) -> Callable[[Sequence[Tensor]], tuple[Tensor, ...]]:
    """A function from the operands to the results, as PyTorch computes them in their own types.

    Raises:
        ValueError: if the operator is not one that a host call may name.
    """
    overload, arguments, keywords = _parse(op)

    def run(operands: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return _as_tuple(_call(overload, arguments, keywords, [x.contiguous() for x in operands]))

    return run

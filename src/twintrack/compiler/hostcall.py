"""Operators outside the IR's rules, run by PyTorch on the host where a job allows it; they are counted, never hidden.

A host call names a functional ATen overload and carries its arguments as JSON. Only names of the ``aten`` namespace
without side effects are accepted, so a program read from disk cannot call anything else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from twintrack.compiler.ir import Operator

__all__ = ["HOST_NAME", "encode_arguments", "host_call_is_legal", "host_kernel"]

HOST_NAME = "host"
_OVERLOAD = re.compile(r"aten\.([a-z_0-9]+)\.([A-Za-z_0-9]+)")
_DTYPES = {str(d): d for d in (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.bool)}


def _overload(name: str) -> Any | None:
    match = _OVERLOAD.fullmatch(name)
    if match is None:
        return None
    packet = getattr(torch.ops.aten, match[1], None)
    overload = getattr(packet, match[2], None)
    if overload is None or overload._schema.is_mutable:
        return None
    return overload


def encode_arguments(arguments: Sequence[Any], keywords: dict[str, Any], operand: Callable[[Tensor], int]) -> str:
    """Arguments as JSON; a tensor becomes ``{"operand": n}`` with the number that ``operand`` gives it.

    Raises:
        TypeError: if an argument has no such form.
    """

    def encode(value: Any) -> Any:
        if isinstance(value, Tensor):
            return {"operand": operand(value)}
        if isinstance(value, torch.dtype):
            return {"dtype": str(value)}
        if isinstance(value, list | tuple):
            return [encode(item) for item in value]
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, torch.device | torch.layout):
            return None
        raise TypeError(f"argument of type {type(value).__name__}")

    return json.dumps([encode(list(arguments)), {k: encode(v) for k, v in keywords.items() if v is not None}])


def host_call_is_legal(op: Operator) -> bool:
    """Whether the operator names a functional ATen overload and its arguments are well formed."""
    try:
        arguments, keywords = json.loads(str(op.attributes["arguments"]))
        _decode(arguments, list(range(len(op.inputs))))
        _decode(keywords, list(range(len(op.inputs))))
    except (ValueError, TypeError, KeyError, IndexError):
        return False
    return isinstance(keywords, dict) and _overload(str(op.attributes["aten"])) is not None


def _decode(value: Any, operands: Sequence[Any]) -> Any:
    if isinstance(value, dict):
        if set(value) == {"operand"}:
            return operands[value["operand"]]
        if set(value) == {"dtype"}:
            return _DTYPES[value["dtype"]]
        return {key: _decode(item, operands) for key, item in value.items()}
    if isinstance(value, list):
        return [_decode(item, operands) for item in value]
    return value


def host_kernel(op: Operator) -> Callable[[Sequence[Tensor]], tuple[Tensor, ...]]:
    """A function from the operands to the results, as PyTorch computes them in their own types."""
    overload = _overload(str(op.attributes["aten"]))
    if overload is None:
        raise ValueError(f"no functional ATen operator '{op.attributes['aten']}'")
    arguments, keywords = json.loads(str(op.attributes["arguments"]))

    def run(operands: Sequence[Tensor]) -> tuple[Tensor, ...]:
        result = overload(*_decode(arguments, operands), **_decode(keywords, operands))
        return (result,) if isinstance(result, Tensor) else tuple(result)

    return run

"""Equal layers once: a layer that repeats is captured as a pair of functions, forward and backward, and called.

Two layers are equal when their class, their attributes (the layer's own index aside), the types of all their tensors
and arguments, and what needs a gradient are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from torch import nn

from twintrack.compiler.ir import Function, Operator, TensorType
from twintrack.torch.builder import extract

__all__ = ["Region", "Watched", "layer_signature", "split_joint"]

_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, Enum)
_OF_ONE_LAYER = frozenset({"layer_idx", "layer_index", "layer_id", "target_name"})
"""Attributes, or keys in them, that say which layer it is and not what it does; the last is PEFT's."""
_LISTED_ELSEWHERE = frozenset({"_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"})


@dataclass(frozen=True, slots=True)
class Region:
    """A captured layer.

    ``forward`` takes the layer's tensors and gives its outputs and then the values that ``backward`` needs.
    ``backward`` takes those values, the layer's tensors listed in ``reused``, and the gradients of the outputs; it
    gives the gradients of the tensors listed in ``wanted``.
    """

    forward: Function
    backward: Function | None
    outputs: tuple[Any, ...]
    """Flat outputs: none where a tensor stands, else the plain value that every call gives."""
    output_spec: Any
    needs_gradient: tuple[bool, ...]
    """Per tensor among the outputs."""
    reused: tuple[int, ...]
    wanted: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Watched:
    """What stands in for a layer's forward while capture runs."""

    call: Callable[..., Any]
    own: Callable[..., Any] | None
    """The forward that the layer itself held, not its class; none for most."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As the layer's forward."""
        return self.call(*args, **kwargs)


def layer_signature(layer: nn.Module) -> str:
    """Class and attributes of a layer and of all modules inside it, hooks included.

    Attributes made of numbers, texts and containers count by what they hold, all others (functions, a configuration)
    by their identity: layers that share one object are alike in it, and where in doubt two layers are not equal.
    """
    parts = []
    for name, module in layer.named_modules(remove_duplicate=False):
        held = {
            key: list(value.values()) if key.endswith("_hooks") and isinstance(value, dict) else value
            for key, value in vars(module).items()
            if key not in _LISTED_ELSEWHERE and not (isinstance(value, Watched) and value.own is None)
        }
        parts.append(f"{name}:{type(module).__module__}.{type(module).__qualname__}{_describe(held)}")
    return "\n".join(parts)


def _describe(value: Any) -> str:
    if isinstance(value, Watched):
        return _describe(value.own)
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, dict):
        items = (f"{_describe(k)}: {_describe(v)}" for k, v in value.items() if k not in _OF_ONE_LAYER)
        return f"{{{', '.join(sorted(items))}}}"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(_describe, value)))}}}"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}[{', '.join(map(_describe, value))}]"
    return f"{type(value).__qualname__} {id(value)}"


def split_joint(
    name: str,
    types: Sequence[TensorType],
    inputs: Sequence[int],
    body: Sequence[Operator],
    forward_end: int,
    outputs: Sequence[int],
    tangents: Sequence[int],
    gradients: Sequence[int],
) -> tuple[Function, Function, tuple[int, ...]]:
    """Cut a joint forward and backward into two functions.

    Args:
        name: of the layer.
        types: of all values.
        inputs: values that are the layer's tensors.
        body: operators, the first ``forward_end`` of which were recorded before the backward began.
        forward_end: where the backward begins.
        outputs: values of the layer's outputs.
        tangents: values of the gradients coming in.
        gradients: values of the gradients going out.

    Returns:
        Forward, backward, and the positions in ``inputs`` that the backward takes again.
    """
    defined = {value for op in body[forward_end:] for value in op.outputs} | set(tangents)
    needed = _outside(body[forward_end:], gradients, defined)
    reused = tuple(i for i, value in enumerate(inputs) if value in needed)
    given = set(inputs)
    saved = [value for value in needed if value not in given]
    forward = extract(f"{name}.forward", types, inputs, [*outputs, *saved], body[:forward_end])
    backward_inputs = [*saved, *(inputs[i] for i in reused), *tangents]
    backward = extract(f"{name}.backward", types, backward_inputs, gradients, body[forward_end:])
    return forward, backward, reused


def _outside(body: Sequence[Operator], outputs: Sequence[int], defined: set[int]) -> list[int]:
    """Values that live operators of ``body`` read but do not define, in a stable order."""
    live, found = set(outputs), dict.fromkeys(v for v in outputs if v not in defined)
    for op in reversed(body):
        if live & set(op.outputs):
            live |= set(op.inputs)
            found |= dict.fromkeys(v for v in op.inputs if v not in defined)
    return list(found)

"""Calls of regions: while capture runs, a layer that repeats is captured on its first use and called from then on."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils import _pytree as pytree

from twintrack.compiler.ir import Function
from twintrack.compiler.operators import TORCH_DTYPE
from twintrack.torch.builder import Builder, type_of
from twintrack.torch.lines import Lines
from twintrack.torch.regions import Region, Watched, layer_signature, split_joint

__all__ = ["Recorder", "Regions"]


class Recorder(Protocol):
    """Who writes operators down."""

    lines: Lines

    @property
    def builder(self) -> Builder:
        """The function being written."""
        ...

    def building(self, builder: Builder) -> contextlib.AbstractContextManager[None]:
        """Write to ``builder`` inside the block."""
        ...

    def paused(self) -> contextlib.AbstractContextManager[None]:
        """Write nothing inside the block."""
        ...


class Regions:
    """The layers captured so far."""

    def __init__(self, recorder: Recorder) -> None:
        self.functions: dict[str, Function] = {}
        """Forward and backward of every region, by name."""
        self._recorder = recorder
        self._regions: dict[str, Region] = {}
        self._numbers = itertools.count()

    @contextlib.contextmanager
    def watching(self, layers: Sequence[nn.Module]) -> Iterator[None]:
        """Inside the block, calling one of the layers calls a region; afterwards the layers are as they were."""
        unique = list({id(layer): layer for layer in layers}.values())
        own = [vars(layer).get("forward") for layer in unique]
        try:
            for layer, forward in zip(unique, own, strict=True):
                layer.forward = self._replacement(layer, forward)
            yield
        finally:
            for layer, forward in zip(unique, own, strict=True):
                _put_back(layer, forward)

    def _replacement(self, layer: nn.Module, own: Callable[..., Any] | None) -> Watched:
        def forward(*args: Any, **kwargs: Any) -> Any:
            _put_back(layer, own)  # while the region is captured, the layer is itself
            try:
                return self._call_layer(layer, args, kwargs)
            finally:
                layer.forward = watched

        watched = Watched(forward, own)
        return watched

    def _call_layer(self, layer: nn.Module, args: Any, kwargs: Any) -> Any:
        line = self._recorder.lines.current()
        state = {**dict(layer.named_parameters()), **dict(layer.named_buffers())}
        flat, spec = pytree.tree_flatten((args, kwargs, state))
        tensors = [leaf for leaf in flat if isinstance(leaf, Tensor)]
        graded = [t.requires_grad and torch.is_grad_enabled() for t in tensors]
        kinds = [f"{type_of(t, line)}{'*' if g else ''}" for t, g in zip(tensors, graded, strict=True)]
        plain = [None if isinstance(leaf, Tensor) else leaf for leaf in flat]
        key = f"{layer_signature(layer)}\n{spec}\n{plain}\n{kinds}"
        if key not in self._regions:
            name = f"{type(layer).__name__}.{next(self._numbers)}"
            self._regions[key] = self._capture(name, layer, flat, spec, graded, line)
        region = self._regions[key]
        made = iter(_RegionCall.apply(self._recorder, region, line, *tensors))  # type: ignore[no-untyped-call]
        self._recorder.lines.note(line)
        outs = [next(made) if plain is None else plain[0] for plain in region.outputs]
        return pytree.tree_unflatten(outs, region.output_spec)

    def _capture(
        self, name: str, layer: nn.Module, flat: list[Any], spec: Any, graded: list[bool], line: str
    ) -> Region:
        builder, flags = Builder(name), iter(graded)
        fresh = [self._fresh(x, gradient=next(flags)) if isinstance(x, Tensor) else x for x in flat]
        inputs = [x for x in fresh if isinstance(x, Tensor)]
        for tensor in inputs:
            builder.input(tensor, line)
        args, kwargs, state = pytree.tree_unflatten(fresh, spec)
        with self._recorder.building(builder):
            result = functional_call(
                _Forward(layer), {f"layer.{k}": v for k, v in state.items()}, args, kwargs
            )
            flat_result, output_spec = pytree.tree_flatten(result)
            outputs = tuple(None if isinstance(x, Tensor) else (x,) for x in flat_result)
            outs = [x for x in flat_result if isinstance(x, Tensor)]
            values = [builder.value(t, line) for t in outs]
            needs = tuple(t.requires_grad for t in outs)
            end = len(builder.body)
            if not any(needs):
                function = builder.finish(values)
                return self._store(Region(function, None, outputs, output_spec, needs, (), ()))
            sources = [t for t in outs if t.requires_grad]
            tangents = [self._fresh(t) for t in sources]
            tangent_values = [builder.input(t, line) for t in tangents]
            wanted = tuple(i for i, tensor in enumerate(inputs) if tensor.requires_grad)
            found = torch.autograd.grad(sources, [inputs[i] for i in wanted], tangents, allow_unused=True)
        forward, backward, reused = split_joint(
            name,
            builder.types,
            builder.inputs[: len(inputs)],
            builder.body,
            end,
            values,
            tangent_values,
            [builder.value(grad, line) for grad in found if grad is not None],
        )
        wanted = tuple(i for i, grad in zip(wanted, found, strict=True) if grad is not None)
        return self._store(Region(forward, backward, outputs, output_spec, needs, reused, wanted))

    def _store(self, region: Region) -> Region:
        for function in (region.forward, region.backward):
            if function is not None:
                self.functions[function.name] = function
        return region

    def _fresh(self, like: Tensor, *, gradient: bool = False) -> Tensor:
        """A tensor without data, of the same type and layout, that no operator made."""
        with self._recorder.paused():
            made = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype)
            return made.requires_grad_(gradient)


class _Forward(nn.Module):
    """A layer's own forward, without the hooks around it: they run where the region is called."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.layer.forward(*args, **kwargs)


def _put_back(layer: nn.Module, forward: Callable[..., Any] | None) -> None:
    """Give a layer its forward again: one of its own, or its class's."""
    if forward is not None:
        layer.forward = forward
    else:
        vars(layer).pop("forward", None)


def _write_call(
    recorder: Recorder, function: Function, operands: Sequence[int], count: int, line: str
) -> tuple[list[int], list[Tensor]]:
    """Write a call; returns its values, and tensors without data that stand for the first ``count`` of them."""
    kinds = [function.types[v] for v in function.outputs]
    values = recorder.builder.emit_many("call", operands, kinds, line, function=function.name)
    tensors = []
    for value, kind in zip(values[:count], kinds[:count], strict=True):
        with recorder.paused():
            tensor = torch.empty(kind.shape, dtype=TORCH_DTYPE[kind.dtype])
        recorder.builder.bind(tensor, value)
        tensors.append(tensor)
    return values, tensors


class _RegionCall(torch.autograd.Function):
    """A call of a region, seen by autograd as one operator."""

    @staticmethod
    def forward(
        ctx: Any, recorder: Recorder, region: Region, line: str, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        operands = [recorder.builder.value(t, line) for t in tensors]
        count = len(region.needs_gradient)
        values, outs = _write_call(recorder, region.forward, operands, count, line)
        ctx.recorder, ctx.region, ctx.line, ctx.count = recorder, region, line, len(tensors)
        ctx.saved = [*values[count:], *(operands[i] for i in region.reused)]
        ctx.mark_non_differentiable(
            *(t for t, need in zip(outs, region.needs_gradient, strict=True) if not need)
        )
        return tuple(outs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        region, recorder, line = ctx.region, ctx.recorder, f"{ctx.line} (gradient)"
        tangents = [g for g, need in zip(grads, region.needs_gradient, strict=True) if need]
        operands = [*ctx.saved, *(recorder.builder.value(g, line) for g in tangents)]
        _, outs = _write_call(recorder, region.backward, operands, len(region.wanted), line)
        result: list[Tensor | None] = [None] * ctx.count
        for position, grad in zip(region.wanted, outs, strict=True):
            result[position] = grad
        return (None, None, None, *result)

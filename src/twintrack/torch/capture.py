"""Capture: runs a function of tensors once on tensors without data and writes down what it does, as a program.

A dispatch mode below autograd sees every ATen operator of forward, backward and optimizer. Operators with a converter
become IR; others are taken apart by PyTorch's core ATen decompositions; what is left is an error that names the
operator and the model line, or, where the job allows it, a counted call on the host.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch._decomp import core_aten_decompositions
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from twintrack.compiler.hostcall import HOST_NAME, encode_arguments
from twintrack.compiler.ir import Function, Program
from twintrack.compiler.verify import verify
from twintrack.errors import UnsupportedOperator
from twintrack.torch.builder import Builder, type_of
from twintrack.torch.convert import CONVERTERS, Emitter
from twintrack.torch.lines import Lines
from twintrack.torch.regions import Region, layer_signature, split_joint
from twintrack.torch.trees import flatten, rebuild, template

__all__ = ["capture"]


def capture(
    name: str,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    *,
    layers: Sequence[nn.Module] = (),
    allow_host: bool = False,
) -> Program:
    """Capture ``function(*arguments)``.

    Args:
        name: of the program.
        function: pure, from nested dicts and lists of tensors to the same.
        arguments: example arguments; only types and shapes matter, no data are read.
        layers: modules that ``function`` calls; equal ones are captured once.
        allow_host: operators without a rule become host calls.

    Returns:
        A verified program.

    Raises:
        UnsupportedOperator: naming operator and model line.
        CompileError: if a tensor from outside takes part, or has a type that the IR lacks.
    """
    fake = FakeTensorMode()
    leaves = flatten(list(arguments))
    fakes = [fake.from_tensor(tensor.detach()) for _, tensor in leaves]
    mode = _Capture(fake, allow_host)
    builder = Builder("main")
    for tensor in fakes:
        builder.input(tensor, "argument")
    with fake, mode, mode.building(builder), _as_regions(layers, mode):
        result = function(*rebuild(template(list(arguments)), fakes))
    outputs = [builder.value(tensor, "result") for _, tensor in flatten(result)]
    functions = {**mode.functions, "main": builder.finish(outputs)}
    program = Program(name, "main", functions, tuple(path for path, _ in leaves), template(result))
    verify(program)
    return program


class _Capture(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Watches operators and writes them to the builder on top of the stack."""

    def __init__(self, fake: FakeTensorMode, allow_host: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.functions: dict[str, Function] = {}
        self.regions: dict[str, Region] = {}
        self.fake = fake
        self._allow_host = allow_host
        self._lines = Lines()
        self._decompositions = core_aten_decompositions()
        self._stack: list[Builder] = []
        self._paused = False

    @property
    def builder(self) -> Builder:
        """The function being written."""
        return self._stack[-1]

    def line(self) -> str:
        """Model line of the current operator."""
        return self._lines.current()

    @contextlib.contextmanager
    def building(self, builder: Builder) -> Iterator[None]:
        """Write to ``builder`` inside the block."""
        self._stack.append(builder)
        try:
            yield
        finally:
            self._stack.pop()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Write nothing inside the block."""
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    def fresh(self, like: Tensor, *, gradient: bool = False) -> Tensor:
        """A tensor without data, of the same type and layout, that no operator made."""
        with self.paused():
            made = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype)
            return made.requires_grad_(gradient)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if self._paused or func.namespace == "prim":
            return func(*args, **kwargs)
        line = self._lines.current()
        if func in CONVERTERS:
            out = func(*args, **kwargs)
            try:
                values = CONVERTERS[func](Emitter(self.builder, line, args, kwargs, out))
            except NotImplementedError as error:
                return self._without_rule(func, args, kwargs, line, f" with {error}", out)
            self._bind(out, values)
            return out
        if func._schema.is_mutable:
            return self._in_place(func, args, kwargs, line)
        if func in self._decompositions:
            with self:
                return self._decompositions[func](*args, **kwargs)
        if func._can_decompose():
            with self:
                return func.decompose(*args, **kwargs)
        if func is torch.ops.aten._local_scalar_dense.default:
            raise UnsupportedOperator(
                "a graph that does not depend on data",
                found="a tensor read as a number",
                where=line,
                remedy="keep the value in a tensor",
            )
        return self._without_rule(func, args, kwargs, line, "", func(*args, **kwargs))

    def _bind(self, out: Any, values: Any) -> None:
        if isinstance(values, list):
            for tensor, value in zip(out, values, strict=True):
                self.builder.bind(tensor, value)
        else:
            self.builder.bind(out, values)

    def _in_place(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], line: str) -> Any:
        """An in-place operator on a tensor that nobody else sees is its functional twin and a new binding."""
        target = args[0]
        name = func._schema.name.removeprefix("aten::").removesuffix("_")
        if name == "copy":
            new = args[1].to(target.dtype).expand(target.shape)
        elif name == "zero":
            new = torch.zeros_like(target)
        elif name == "fill":
            new = torch.full_like(target, args[1])
        else:
            twin = getattr(getattr(torch.ops.aten, name, None), func._overloadname, None)
            if twin is None:
                return self._without_rule(func, args, kwargs, line, "", None)
            with self:
                new = twin(*args, **kwargs)
        if self.builder.aliases(target):
            return self._without_rule(func, args, kwargs, line, " on memory shared with another tensor", None)
        self.builder.bind(target, self.builder.value(new, line))
        return target

    def _without_rule(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], line: str, detail: str, out: Any
    ) -> Any:
        if not self._allow_host or out is None:
            raise UnsupportedOperator(
                "operators that the software Trainium2 has rules for",
                found=f"{func}{detail}",
                where=line,
                remedy="change the model line, or set allow_host = true for this track to run it on the host, counted",
            )
        outs = [out] if isinstance(out, Tensor) else list(out)
        operands: list[int] = []

        def operand(tensor: Tensor) -> int:
            operands.append(self.builder.value(tensor, line))
            return len(operands) - 1

        encoded = encode_arguments(args, kwargs, operand)
        values = self.builder.emit_many(
            HOST_NAME, operands, [type_of(t, line) for t in outs], line, aten=str(func), arguments=encoded
        )
        self._bind(outs, values)
        return out

    def region(self, layer: nn.Module, args: Any, kwargs: Any) -> Any:
        """Call a layer as a region, captured on its first use."""
        state = {**dict(layer.named_parameters()), **dict(layer.named_buffers())}
        flat, spec = pytree.tree_flatten((args, kwargs, state))
        tensors = [leaf for leaf in flat if isinstance(leaf, Tensor)]
        graded = [t.requires_grad and torch.is_grad_enabled() for t in tensors]
        kinds = [f"{type_of(t, self.line())}{'*' if g else ''}" for t, g in zip(tensors, graded, strict=True)]
        plain = [None if isinstance(leaf, Tensor) else leaf for leaf in flat]
        key = f"{layer_signature(layer)}\n{spec}\n{plain}\n{kinds}"
        if key not in self.regions:
            name = f"{type(layer).__name__}.{len(self.regions)}"
            self.regions[key] = self._capture_region(name, layer, flat, spec, graded)
        region = self.regions[key]
        outs = _RegionCall.apply(self, region, self.line(), *tensors)  # type: ignore[no-untyped-call]
        return pytree.tree_unflatten(list(outs), region.output_spec)

    def _capture_region(
        self, name: str, layer: nn.Module, flat: list[Any], spec: Any, graded: list[bool]
    ) -> Region:
        builder, flags = Builder(name), iter(graded)
        fresh = [self.fresh(x, gradient=next(flags)) if isinstance(x, Tensor) else x for x in flat]
        inputs = [x for x in fresh if isinstance(x, Tensor)]
        line = self.line()
        for tensor in inputs:
            builder.input(tensor, line)
        args, kwargs, state = pytree.tree_unflatten(fresh, spec)
        with self.building(builder):
            outs, output_spec = pytree.tree_flatten(functional_call(layer, state, args, kwargs))
            values = [builder.value(t, line) for t in outs]
            needs = tuple(t.requires_grad for t in outs)
            end = len(builder.body)
            wanted = tuple(i for i, tensor in enumerate(inputs) if tensor.requires_grad)
            if not any(needs):
                return self._store(
                    Region(builder.finish(values), None, len(outs), output_spec, needs, (), ())
                )
            tangents = [self.fresh(t) for t, need in zip(outs, needs, strict=True) if need]
            tangent_values = [builder.input(t, line) for t in tangents]
            sources = [t for t, need in zip(outs, needs, strict=True) if need]
            found = torch.autograd.grad(sources, [inputs[i] for i in wanted], tangents, allow_unused=True)
        wanted = tuple(i for i, grad in zip(wanted, found, strict=True) if grad is not None)
        gradients = [builder.value(grad, line) for grad in found if grad is not None]
        forward, backward, reused = split_joint(
            name,
            builder.types,
            builder.inputs[: len(inputs)],
            builder.body,
            end,
            values,
            tangent_values,
            gradients,
        )
        return self._store(Region(forward, backward, len(outs), output_spec, needs, reused, wanted))

    def _store(self, region: Region) -> Region:
        for function in (region.forward, region.backward):
            if function is not None:
                self.functions[function.name] = function
        return region

    def call(self, function: Function, operands: Sequence[int], line: str) -> tuple[list[int], list[Tensor]]:
        """Write a call; returns its values, and tensors without data that stand for them."""
        kinds = [function.types[v] for v in function.outputs]
        values = self.builder.emit_many("call", operands, kinds, line, function=function.name)
        dtypes = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "i64": torch.int64}
        tensors = []
        for value, kind in zip(values, kinds, strict=True):
            if kind.dtype in dtypes:
                with self.paused():
                    tensor = torch.empty(kind.shape, dtype=dtypes[kind.dtype])
                self.builder.bind(tensor, value)
                tensors.append(tensor)
        return values, tensors


class _RegionCall(torch.autograd.Function):
    """A call of a region, seen by autograd as one operator."""

    @staticmethod
    def forward(ctx: Any, mode: _Capture, region: Region, line: str, *tensors: Tensor) -> tuple[Tensor, ...]:
        operands = [mode.builder.value(t, line) for t in tensors]
        values, outs = mode.call(region.forward, operands, line)
        ctx.mode, ctx.region, ctx.line, ctx.count = mode, region, line, len(tensors)
        ctx.saved = [*values[region.num_outputs :], *(operands[i] for i in region.reused)]
        result = tuple(outs[: region.num_outputs])
        ctx.mark_non_differentiable(
            *(t for t, need in zip(result, region.needs_gradient, strict=True) if not need)
        )
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        region, mode, line = ctx.region, ctx.mode, f"{ctx.line} (gradient)"
        tangents = [g for g, need in zip(grads, region.needs_gradient, strict=True) if need]
        operands = [*ctx.saved, *(mode.builder.value(g, line) for g in tangents)]
        _, outs = mode.call(region.backward, operands, line)
        result: list[Tensor | None] = [None] * ctx.count
        for position, grad in zip(region.wanted, outs, strict=True):
            result[position] = grad
        return (None, None, None, *result)


@contextlib.contextmanager
def _as_regions(layers: Sequence[nn.Module], mode: _Capture) -> Iterator[None]:
    """Inside the block, calling one of the layers calls a region."""

    def patched(layer: nn.Module) -> Callable[..., Any]:
        def forward(*args: Any, **kwargs: Any) -> Any:
            del layer.forward  # while the region is captured, the layer is itself
            try:
                return mode.region(layer, args, kwargs)
            finally:
                layer.forward = forward

        return forward

    for layer in layers:
        layer.forward = patched(layer)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward

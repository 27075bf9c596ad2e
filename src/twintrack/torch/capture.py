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
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from twintrack.compiler.hostcall import HOST_NAME, encode_arguments, find_overload
from twintrack.compiler.ir import Program, TensorType
from twintrack.compiler.verify import verify
from twintrack.errors import UnsupportedOperator
from twintrack.torch.builder import Builder, type_of
from twintrack.torch.calls import Regions
from twintrack.torch.convert import CONVERTERS
from twintrack.torch.emitter import Emitter
from twintrack.torch.lines import Lines
from twintrack.torch.trees import flatten, rebuild, template

__all__ = ["capture"]

aten = torch.ops.aten
_DATA_DEPENDENT = (fake_tensor.DataDependentOutputException, fake_tensor.DynamicOutputShapeException)
_UNKNOWN_SHAPE = (fake_tensor.UnsupportedFakeTensorException, fake_tensor.UnsupportedOperatorException)


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
    mode = _Capture(allow_host)
    regions = Regions(mode)
    builder = Builder("main")
    for tensor in fakes:
        builder.input(tensor, "argument")
    with fake, mode, mode.building(builder), regions.watching(layers):
        result = function(*rebuild(template(list(arguments)), fakes))
    outputs = [builder.value(tensor, "result") for _, tensor in flatten(result)]
    functions = {**regions.functions, "main": builder.finish(outputs)}
    program = Program(name, "main", functions, tuple(path for path, _ in leaves), template(result))
    verify(program)
    return program


class _Capture(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Watches operators and writes them to the builder on top of the stack."""

    def __init__(self, allow_host: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.lines = Lines()
        self._allow_host = allow_host
        self._decompositions = core_aten_decompositions()
        self._stack: list[Builder] = []
        self._paused = False

    @property
    def builder(self) -> Builder:
        """The function being written."""
        return self._stack[-1]

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

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if self._paused or func.namespace == "prim":
            return func(*args, **kwargs)
        line = self.lines.current()
        if func is aten.lift_fresh.default and not isinstance(args[0], FakeTensor) and args[0].numel() == 1:
            return self._number(func, args[0], line)
        for tensor in pytree.tree_leaves((args, kwargs)):
            if isinstance(tensor, Tensor):
                self.builder.value(tensor, line)  # refuses what entered from outside
        if func in CONVERTERS:
            return self._convert(func, args, kwargs, line)
        if func._schema.is_mutable:
            return self._in_place(func, args, kwargs, line)
        if func in self._decompositions:
            with self:
                return self._decompositions[func](*args, **kwargs)
        if func._can_decompose():
            with self:
                return func.decompose(*args, **kwargs)
        if func is aten._local_scalar_dense.default:
            raise _depends_on_data("a tensor read as a number", line)
        return self._on_host(func, args, kwargs, line, "", _observe(func, args, kwargs, line))

    def _convert(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], line: str) -> Any:
        out = _observe(func, args, kwargs, line)
        try:
            values = CONVERTERS[func](Emitter(self.builder, line, args, kwargs, out))
        except NotImplementedError as error:
            return self._on_host(func, args, kwargs, line, f" with {error}", out)
        self._bind(out, values)
        return out

    def _number(self, func: Any, tensor: Tensor, line: str) -> Any:
        """A number that the model wrote as a tensor, such as ``torch.tensor(0.5)``."""
        kind = type_of(tensor, line)
        with _disable_current_modes():
            number = tensor.item()
        value = self.builder.emit("constant", [], kind, line, value=number, shape=kind.shape)
        out = func(tensor)
        self.builder.bind(out, value)
        return out

    def _bind(self, out: Any, values: Any) -> None:
        if isinstance(values, list):
            for tensor, value in zip(out, values, strict=True):
                self.builder.bind(tensor, value)
        else:
            self.builder.bind(out, values)

    def _in_place(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], line: str) -> Any:
        """An in-place operator on a tensor that nobody else sees is its functional twin and a new binding."""
        written = [
            a.name for a in func._schema.arguments if a.alias_info is not None and a.alias_info.is_write
        ]
        name = func._schema.name.removeprefix("aten::")
        if written != [func._schema.arguments[0].name] or not name.endswith("_"):
            raise _unsupported(f"{func} that writes to its operand", line)
        target = args[0]
        if self.builder.is_input(target):
            raise _unsupported(f"{func} on an argument, which would change the caller's tensor", line)
        if self.builder.aliases(target):
            raise _unsupported(f"{func} on memory shared with another tensor", line)
        with self:
            new = _functional(func, name.removesuffix("_"), args, kwargs, line)
            new = new if new.dtype == target.dtype else new.to(target.dtype)
        if new.shape != target.shape:
            raise _unsupported(f"{func} with a result of another shape", line)
        self.builder.bind(target, self.builder.value(new, line))
        return target

    def _on_host(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], line: str, detail: str, out: Any
    ) -> Any:
        """Write an operator without a rule as a host call, where that is allowed and possible."""
        if not self._allow_host:
            raise _unsupported(f"{func}{detail}", line)
        operands: list[int] = []

        def operand(tensor: Tensor) -> int:
            operands.append(self.builder.value(tensor, line))
            return len(operands) - 1

        if find_overload(str(func)) is None:
            raise _unsupported(f"{func}{detail}, which does more than compute tensors from tensors", line)
        try:
            encoded = encode_arguments(args, kwargs, operand)
        except TypeError as error:
            raise _unsupported(f"{func} with an {error}", line) from error
        outs = [out] if isinstance(out, Tensor) else list(out)
        kinds: list[TensorType] = [type_of(tensor, line) for tensor in outs]
        values = self.builder.emit_many(HOST_NAME, operands, kinds, line, aten=str(func), arguments=encoded)
        self._bind(outs, values)
        return out


def _functional(func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], line: str) -> Tensor:
    """What an in-place operator computes, as a new tensor."""
    target = args[0]
    result: Tensor
    if name == "copy":
        result = args[1].to(target.dtype).expand(target.shape)
    elif name in ("zero", "fill"):
        fill: Any = args[1] if name == "fill" else 0
        by_tensor = isinstance(fill, Tensor)
        result = fill.to(target.dtype).expand(target.shape) if by_tensor else torch.full_like(target, fill)
    else:
        twin = getattr(getattr(aten, name, None), func._overloadname, None)
        if twin is None:
            raise _unsupported(f"{func}", line)
        result = twin(*args, **kwargs)
    return result


def _observe(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], line: str) -> Any:
    """What the operator gives: tensors of the right type without data."""
    try:
        return func(*args, **kwargs)
    except _DATA_DEPENDENT as error:
        raise _depends_on_data(f"{func}, whose result's shape or value depends on data", line) from error
    except _UNKNOWN_SHAPE as error:
        raise _unsupported(f"{func}", line) from error


def _unsupported(found: str, line: str) -> UnsupportedOperator:
    return UnsupportedOperator(
        "operators that the software Trainium2 has rules for",
        found=found,
        where=line,
        remedy="change the model line, or set allow_host = true for this track to run it on the host, counted",
    )


def _depends_on_data(found: str, line: str) -> UnsupportedOperator:
    return UnsupportedOperator(
        "a graph that does not depend on data",
        found=found,
        where=line,
        remedy="keep the value in a tensor",
    )

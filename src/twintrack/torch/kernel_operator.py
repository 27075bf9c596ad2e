"""An NKI kernel as a PyTorch operator: called with tensors, differentiated, seen whole by ``torch.compile``.

``kernel_operator`` registers with ``torch.library``: an implementation that runs the kernel on software NeuronCores,
one for tensors without data that runs it on shapes alone, and the author's backward function. What it registers lives
as long as the returned ``KernelOperator``, or until its ``remove()``; that is the only state here that outlives a call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.library import Library, register_autograd, register_fake

from twintrack.errors import KernelError
from twintrack.neuroncore.memory.dtypes import DType
from twintrack.nki.arrays import Shape
from twintrack.nki.containers import mapped
from twintrack.nki.kernel import Simulated, simulate

__all__ = ["Backward", "KernelOperator", "kernel_operator"]

Backward = Callable[[tuple[Any, ...], tuple[Tensor, ...], tuple[Tensor, ...]], Any]
"""``backward(inputs, outputs, gradients)``: the gradient of every argument in order, ``None`` where it has none; a
tensor alone where there is one argument."""


class KernelOperator:
    """A kernel that is registered with PyTorch; call it with tensors, as its schema says.

    Made by ``kernel_operator``. In a ``with`` statement it is taken away again at the end.

    Args:
        overload: the operator, ``torch.ops.<namespace>.<name>.default``.
        library: holds what was registered.
    """

    def __init__(self, overload: Any, library: Library) -> None:
        self.overload = overload
        self._library = library

    @property
    def name(self) -> str:
        """``namespace::name``."""
        return str(self.overload._schema.name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel on tensors on the cpu.

        Raises:
            KernelError: at the kernel author's line; also if it writes to an argument.
        """
        return self.overload(*args, **kwargs)

    def remove(self) -> None:
        """Take the operator away from PyTorch; nothing happens the second time."""
        self._library._destroy()  # type: ignore[no-untyped-call]

    def __enter__(self) -> KernelOperator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


def kernel_operator(
    name: str,
    kernel: Any,
    *,
    schema: str,
    backward: Backward | None = None,
    shapes: Callable[..., Any] | None = None,
) -> KernelOperator:
    """Register a kernel as a PyTorch operator.

    Args:
        name: ``namespace::name``, not taken yet.
        kernel: decorated with ``nki.jit``, on a grid if it needs one; or ``nki.simulate(kernel).with_options(...)``.
        schema: arguments and results in PyTorch's notation, such as ``(Tensor x, float eps=1e-6) -> Tensor``. Arguments
            are passed to the kernel by position, all of them. Tensors have no aliases: a kernel that writes to an
            argument is refused.
        backward: a pure function of tensors, see ``Backward``; it may call other kernel operators. Without one the
            results have no gradient, and a backward pass through them is PyTorch's error.
        shapes: the same arguments as tensors without data, to empty results of the right shapes and types. By default
            the kernel is run without values, which takes time in proportion to its instructions and works as long as
            its control flow depends on no value.

    Returns:
        The operator.

    Raises:
        KernelError: if the name or the schema is none, or the name is taken.
    """
    simulated = simulate(kernel)
    namespace, short, arguments = _checked(name, schema)
    library = Library(namespace, "FRAGMENT")  # type: ignore[no-untyped-call]
    try:
        library.define(short + schema, tags=(torch.Tag.pt2_compliant_tag,))  # type: ignore[no-untyped-call]
        run = _filling(arguments, functools.partial(_run, name, simulated))
        library.impl(short, run, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
        empty = shapes or functools.partial(_run_without_values, simulated)
        register_fake(name, _filling(arguments, empty), lib=library)
        if backward is not None:
            gradients = functools.partial(_backward, name, backward)
            register_autograd(name, gradients, setup_context=_save, lib=library)
        overload = getattr(getattr(torch.ops, namespace), short).default
    except BaseException:
        library._destroy()  # type: ignore[no-untyped-call]
        raise
    return KernelOperator(overload, library)


def _checked(name: str, schema: str) -> tuple[str, str, Sequence[Any]]:
    """Namespace, name and arguments."""
    namespace, _, short = name.partition("::")
    if not (namespace.isidentifier() and short.isidentifier()):
        raise KernelError(
            "an operator's name, namespace::name",
            found=repr(name),
            where="kernel_operator",
            remedy="choose one such as 'mylib::softmax'",
        )
    try:
        parsed = torch._C.parse_schema(name + schema)
    except RuntimeError as error:
        raise KernelError(
            "a schema in PyTorch's notation",
            found=f"{schema!r}: {str(error).splitlines()[0]}",
            where=name,
            remedy="write one such as '(Tensor x, float eps=1e-6) -> Tensor'",
        ) from None
    if any(one.kwarg_only for one in parsed.arguments):
        raise KernelError(
            "arguments that may be given by position",
            found=f"those after * in {schema}",
            where=name,
            remedy="leave the * out",
        )
    if parsed.is_mutable:
        raise KernelError(
            "a schema without written arguments",
            found=schema,
            where=name,
            remedy="let the kernel return a new tensor in nl.shared_hbm",
        )
    if _is_taken(name):
        raise KernelError(
            "a name that no operator has",
            found=f"{name}, which is registered",
            where="kernel_operator",
            remedy="remove() the earlier one, or choose another name",
        )
    return namespace, short, parsed.arguments


def _is_taken(name: str) -> bool:
    return any(one.partition(".")[0] == name for one in torch._C._dispatch_get_all_op_names())


def _filling(arguments: Sequence[Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with every argument of the schema: PyTorch leaves out those at the end that have their defaults."""

    def filled(*args: Any) -> Any:
        return function(*args, *[one.default_value for one in arguments[len(args) :]])

    return filled


def _run(name: str, simulated: Simulated, *args: Any) -> Any:
    """The operator on tensors with data."""
    run = Simulated(simulated.kernel, simulated.options)
    result = run(*args)
    written = () if run.last is None else run.last.written
    if written:
        raise KernelError(
            "a kernel that writes only what it returns",
            found=f"writes to {', '.join(written)}",
            where=name,
            remedy="let it return a new tensor in nl.shared_hbm",
        )
    return _as_results(result)


def _run_without_values(simulated: Simulated, *args: Any) -> Any:
    """The operator on tensors without data: empty ones of the shapes that the kernel returns."""

    def shape_of(value: Any, name: str) -> Any:
        del name
        return (
            Shape(tuple(int(size) for size in value.shape), value.dtype)
            if isinstance(value, Tensor)
            else value
        )

    def empty(value: Any, name: str) -> Any:
        del name
        return torch.empty(value.dims, dtype=_torch_type(value.dtype)) if isinstance(value, Shape) else value

    given = [mapped(value, shape_of, "") for value in args]
    return _as_results(mapped(simulated.with_options(values=False)(*given), empty, ""))


def _as_results(result: Any) -> Any:
    return tuple(result) if isinstance(result, list) else result


def _torch_type(dtype: Any) -> torch.dtype:
    """What a returned tensor of an NKI type has in torch."""
    found = getattr(torch, str(dtype), None)
    if isinstance(found, torch.dtype):
        return found
    assert isinstance(dtype, DType)  # noqa: S101 - shapes that a kernel returns have one
    if dtype.stored.type.__module__ != "numpy":
        raise KernelError(
            "results of a type that torch has",
            found=dtype.name,
            where="result",
            remedy="copy it to another type",
        )
    return torch.from_numpy(np.empty(0, dtype.stored)).dtype


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """Keep tensors so that PyTorch can watch over them, and everything else as it is."""
    outputs = (output,) if isinstance(output, Tensor) else tuple(output)
    held = [one if isinstance(one, Tensor) else None for one in (*inputs, *outputs)]
    ctx.save_for_backward(*held)
    ctx.others = [None if isinstance(one, Tensor) else one for one in inputs]


def _backward(name: str, function: Backward, ctx: Any, *gradients: Tensor) -> Any:
    saved: Sequence[Tensor | None] = ctx.saved_tensors
    count = len(ctx.others)
    inputs = tuple(
        other if tensor is None else tensor for tensor, other in zip(saved[:count], ctx.others, strict=True)
    )
    outputs = tuple(one for one in saved[count:] if one is not None)
    found = function(inputs, outputs, gradients)
    found = (found,) if found is None or isinstance(found, Tensor) else tuple(found)
    if len(found) != count:
        raise KernelError(
            f"{count} gradients from backward, one per argument",
            found=f"{len(found)}",
            where=name,
            remedy="return None for an argument that has no gradient",
        )
    return found

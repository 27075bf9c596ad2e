"""What a program asks of a machine: operators, FLOPs, bytes, and two figures in seconds that are not predictions.

*Program bound*: the larger of all FLOPs over the peak and the bytes of the program's own inputs and outputs over the
HBM bandwidth. No implementation can be faster under its conditions; so of an input count only the bytes that some
operator reads, and of the outputs only those that some operator makes. *Unfused estimate*: that maximum per operator,
added up: every operator reads its operands from HBM and writes its result there. A real compiler fuses, so it may be
faster; engines wait, so it may be slower. The bound is never above the estimate.

FLOPs of matmuls count against the tensor engine's peak of their operand type, all others against its bfloat16 peak,
which is the most favourable assumption and so keeps the bound a bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from twintrack.compiler.hostcall import HOST_NAME
from twintrack.compiler.ir import Function, Operator, Program, TensorType
from twintrack.compiler.operators import OPERATORS

__all__ = ["Limits", "Work", "bound_seconds", "boundary_bytes", "measure_work", "unfused_seconds"]

_VIEWS = frozenset(name for name, spec in OPERATORS.items() if spec.kind == "view")


@dataclass(frozen=True, slots=True)
class Limits:
    """Peaks of one logical core."""

    flops_per_second: Mapping[str, float]
    """Dense tensor-engine peak by element type, such as ``{"bf16": 1.57e14, "f32": 4e13}``."""
    hbm_bytes_per_second: float
    conditions: str
    """What the peaks hold for, such as ``per logical NeuronCore (LNC 2) of Trainium2``."""

    def peak(self, dtype: str) -> float:
        """FLOP/s of matmuls with operands of this type."""
        return self.flops_per_second["bf16" if dtype == "f16" else dtype]


@dataclass(frozen=True, slots=True)
class Work:
    """Work of one execution; ``+`` adds."""

    flops: Counter[str] = field(default_factory=Counter)
    """FLOPs by operator name."""
    peak_flops: Counter[str] = field(default_factory=Counter)
    """FLOPs by the element type whose peak they count against."""
    matmul_flops: int = 0
    operator_bytes: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    """Executions by operator name."""
    host: Counter[str] = field(default_factory=Counter)
    """Operators on the host, with their model line."""
    host_flops: int = 0
    """FLOPs of host calls: 1 per element of their results, for want of a rule."""
    unfused: tuple[tuple[str, int, int, int], ...] = ()
    """Per distinct cost: peak type, FLOPs, bytes, how often."""
    bytes: Counter[str] = field(default_factory=Counter)
    """Bytes read and written by operator name; their sum is ``operator_bytes``."""

    @property
    def total_flops(self) -> int:
        """FLOPs of all operators, host included."""
        return sum(self.flops.values())

    @property
    def operators(self) -> int:
        """Executed operators, views included."""
        return sum(self.counts.values())

    def __add__(self, other: Work) -> Work:
        merged: Counter[tuple[str, int, int]] = Counter()
        for dtype, flops, nbytes, times in (*self.unfused, *other.unfused):
            merged[dtype, flops, nbytes] += times
        return Work(
            self.flops + other.flops,
            self.peak_flops + other.peak_flops,
            self.matmul_flops + other.matmul_flops,
            self.operator_bytes + other.operator_bytes,
            self.counts + other.counts,
            self.host + other.host,
            self.host_flops + other.host_flops,
            tuple((*key, times) for key, times in merged.items()),
            self.bytes + other.bytes,
        )


def measure_work(program: Program) -> Work:
    """Work of one execution of the program."""
    done: dict[str, Work] = {}

    def of(name: str) -> Work:
        if name not in done:
            done[name] = _function_work(program.functions[name], of)
        return done[name]

    return of(program.entry)


def _function_work(function: Function, callee: Callable[[str], Work]) -> Work:
    read = _bytes_read(function)
    total = Work()
    for op in function.body:
        if op.name == "call":
            total += callee(str(op.attributes["function"]))
        else:
            total += _operator_work(op, function.types, read)
    return total


def _bytes_read(function: Function) -> list[int]:
    """Bytes that reading each value moves: a broadcast value costs its source."""
    read = [t.nbytes for t in function.types]
    for op in function.body:
        if op.name in _VIEWS:
            read[op.outputs[0]] = min(read[op.outputs[0]], read[op.inputs[0]])
    return read


def _operand_bytes(op: Operator, types: Sequence[TensorType], read: Sequence[int]) -> list[int]:
    """Bytes that the operator reads of each operand."""
    found = [read[v] for v in op.inputs]
    if op.name in OPERATORS and OPERATORS[op.name].reads_part:
        found[0] = min(found[0], types[op.outputs[0]].nbytes)
    return found


def _operator_work(op: Operator, types: Sequence[TensorType], read: Sequence[int]) -> Work:
    operands, results = [types[v] for v in op.inputs], [types[v] for v in op.outputs]
    counts = Counter({op.name: 1})
    if op.name in _VIEWS:
        return Work(counts=counts)
    nbytes = sum(_operand_bytes(op, types, read)) + sum(t.nbytes for t in results)
    if op.name == HOST_NAME:
        flops = sum(t.numel for t in results)
        place = Counter({f"{op.attributes['aten']} ({op.line})": 1})
        return Work(
            Counter({op.name: flops}),
            Counter(),
            0,
            nbytes,
            counts,
            place,
            flops,
            (("bf16", 0, nbytes, 1),),
            Counter({op.name: nbytes}),
        )
    spec = OPERATORS[op.name]
    flops = spec.flops(operands, results[0])
    dtype = "f32" if spec.kind == "matmul" and any(t.dtype == "f32" for t in operands) else "bf16"
    by_name = Counter({op.name: flops}) if flops else Counter()
    return Work(
        by_name,
        Counter({dtype: flops}) if flops else Counter(),
        flops if spec.kind == "matmul" else 0,
        nbytes,
        counts,
        unfused=((dtype, flops, nbytes, 1),),
        bytes=Counter({op.name: nbytes}),
    )


def boundary_bytes(program: Program) -> int:
    """Bytes of the program's own inputs and outputs that have to move.

    Of an input: what operators read of it, each byte once. Of the outputs: what operators make; an input that is
    given back, or a view of one, moves nothing.
    """
    return sum(_Reads(program).of(program.entry)) + _bytes_made(program)


class _Reads:
    """Bytes of each input of a function that its operators read, none counted twice."""

    def __init__(self, program: Program) -> None:
        self._functions = program.functions
        self._known: dict[str, tuple[int, ...]] = {}

    def of(self, name: str) -> tuple[int, ...]:
        """Bytes by input."""
        if name not in self._known:
            self._known[name] = self._count(self._functions[name])
        return self._known[name]

    def _count(self, function: Function) -> tuple[int, ...]:
        read, needed = _bytes_read(function), [0] * len(function.types)
        for op in reversed(function.body):
            if op.name in _VIEWS:
                parts: Sequence[int] = (needed[op.outputs[0]],)
            elif op.name == "call":
                parts = self.of(str(op.attributes["function"]))
            else:
                parts = _operand_bytes(op, function.types, read)
            for value, nbytes in zip(op.inputs, parts, strict=True):
                needed[value] = min(needed[value] + nbytes, function.types[value].nbytes)
        return tuple(needed[value] for value in function.inputs)


_Place = tuple[tuple[int, ...], int]
"""A value in one execution: the calls that lead there, and its number."""


def _bytes_made(program: Program) -> int:
    """Bytes of the entry's outputs that operators make, each value once."""
    makers = {
        name: {value: (index, op) for index, op in enumerate(function.body) for value in op.outputs}
        for name, function in program.functions.items()
    }

    def source(function: Function, value: int, path: tuple[int, ...]) -> tuple[_Place, TensorType] | int:
        """Where the value is made, or the number of the function's input that it is or views."""
        while value in makers[function.name]:
            index, op = makers[function.name][value]
            if op.name in _VIEWS:
                value = op.inputs[0]
                continue
            if op.name != "call":
                return (path, value), function.types[value]
            callee = program.functions[str(op.attributes["function"])]
            found = source(callee, callee.outputs[op.outputs.index(value)], (*path, index))
            if not isinstance(found, int):
                return found
            value = op.inputs[found]
        return function.inputs.index(value)

    made: Counter[_Place] = Counter()
    whole: dict[_Place, int] = {}
    for output in program.main.outputs:
        found = source(program.main, output, ())
        if not isinstance(found, int):
            place, kind = found
            whole[place] = kind.nbytes
            made[place] += program.main.types[output].nbytes
    return sum(min(nbytes, whole[place]) for place, nbytes in made.items())


def bound_seconds(program: Program, work: Work, limits: Limits) -> float:
    """Program bound in seconds: a limit, never a prediction."""
    compute = sum(flops / limits.peak(dtype) for dtype, flops in work.peak_flops.items())
    return max(compute, boundary_bytes(program) / limits.hbm_bytes_per_second)


def unfused_seconds(work: Work, limits: Limits) -> float:
    """Unfused estimate in seconds; never a prediction."""
    return sum(
        times * max(flops / limits.peak(dtype), nbytes / limits.hbm_bytes_per_second)
        for dtype, flops, nbytes, times in work.unfused
    )

"""What instructions compute that draw random numbers, seed generators and keep their states.

A generator belongs to an engine of a core and lives as long as the core's run; ``random_state`` says which it is. One
that nobody seeded is that of seed 0, so that a kernel gives the same numbers in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from twintrack.neuroncore.emulator.access import write_raw
from twintrack.neuroncore.emulator.ops.parts import static
from twintrack.neuroncore.emulator.random_state import (
    GeneratorState,
    draw,
    generator_kind,
    low_bits,
    read_words,
    seeded,
    uniform,
    write_words,
)
from twintrack.neuroncore.isa.instruction import Engine, Instruction
from twintrack.neuroncore.isa.legality.common import broken
from twintrack.neuroncore.memory.view import View

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.core import Core

__all__ = ["HANDLERS", "random_words"]

Array = npt.NDArray[Any]
_WORD = np.dtype(np.uint32)


def _key(engine: Engine) -> str:
    return f"random {engine}"


def _generator(core: Core, engine: Engine) -> GeneratorState:
    found: GeneratorState | None = core.state.get(_key(engine))
    if found is None:
        name: Literal["vector", "gpsimd"] = "vector" if engine is Engine.VECTOR else "gpsimd"
        found = seeded(generator_kind(name, core.generation.number), 0)
    return found


def random_words(core: Core, engine: Engine, dst: View) -> npt.NDArray[np.uint32]:
    """The engine's next 32 bits for every element, in each lane from the state of that lane.

    Args:
        core: whose engine.
        engine: Vector or GpSimd.
        dst: whose partitions are the lanes.

    Returns:
        shape ``(partitions, elements per partition)``.
    """
    state, words = draw(_generator(core, engine), dst.start_partition, dst.shape[0], dst.free_size)
    core.state[_key(engine)] = state
    return words


def _rng(core: Core, ins: Instruction) -> None:
    """``dst`` = the least significant of 32 random bits."""
    (dst,) = ins.outs
    assert dst is not None  # noqa: S101 - the operands of an issued instruction
    dst = static(core, ins, dst)
    write_raw(core, ins, dst, low_bits(random_words(core, ins.engine, dst), dst.dtype.stored))


def _rand2(core: Core, ins: Instruction) -> None:
    """``dst = min + u * (max - min)`` with ``u`` a multiple of 2**-24 in [0, 1), rounded to float32 and to ``dst``."""
    (dst,), (low, high) = ins.outs, ins.ins
    assert dst is not None  # noqa: S101
    dst = static(core, ins, dst)
    least, most = _limit(core, ins, "min", low), _limit(core, ins, "max", high)
    with np.errstate(invalid="ignore"):
        wrong = ~(least < most)
    wrong = np.broadcast_to(wrong, (dst.shape[0], 1))
    if wrong.any():
        lane = int(np.argmax(wrong))
        pair = [float(one.reshape(-1)[min(lane, one.size - 1)]) for one in (least, most)]
        raise broken(
            ins,
            "min below max",
            f"{pair[0]} and {pair[1]} at partition {lane}",
            "give the smaller number as min",
            low if low is not None else high,
        )
    # in float64, so that the difference of two float32 neither overflows nor rounds beyond the limits
    parts = uniform(random_words(core, ins.engine, dst)).astype(np.float64)
    with np.errstate(invalid="ignore"):
        core.write(ins, dst, (least + parts * (most - least)).astype(np.float32))


def _limit(core: Core, ins: Instruction, name: str, view: View | None) -> npt.NDArray[np.float64]:
    """One end of the range as float64: one number, or a column with one for each partition."""
    if view is None:
        return np.array([[ins.attributes[name]]], np.float32).astype(np.float64)
    return core.read32(ins, view).reshape(-1, 1).astype(np.float64)


def _set_rng_seed(core: Core, ins: Instruction) -> None:
    """All lanes of the Vector Engine start from the bits of one seed."""
    (seeds,) = ins.ins
    assert seeds is not None  # noqa: S101
    bits = int(np.ascontiguousarray(core.read(ins, seeds)).view(_WORD)[0, 0])
    kind = generator_kind("vector", core.generation.number)
    core.state[_key(ins.engine)] = seeded(kind, bits)


def _rand_set_state(core: Core, ins: Instruction) -> None:
    """The states of the lanes of ``src_seeds`` are its words."""
    (seeds,) = ins.ins
    assert seeds is not None  # noqa: S101
    seeds = static(core, ins, seeds)
    words = core.read(ins, seeds)
    state = _generator(core, ins.engine)
    core.state[_key(ins.engine)] = write_words(state, seeds.start_partition, words)


def _rand_get_state(core: Core, ins: Instruction) -> None:
    """``dst`` = the states of its lanes."""
    (dst,) = ins.outs
    assert dst is not None  # noqa: S101
    dst = static(core, ins, dst)
    state = _generator(core, ins.engine)
    write_raw(core, ins, dst, read_words(state, dst.start_partition, dst.shape[0]))


HANDLERS: Mapping[str, Callable[[Core, Instruction], None]] = MappingProxyType(
    {
        "rng": _rng,
        "rand2": _rand2,
        "set_rng_seed": _set_rng_seed,
        "rand_set_state": _rand_set_state,
        "rand_get_state": _rand_get_state,
    }
)
"""By opcode."""

"""Rules of instructions that draw random numbers, seed generators and keep their states.

Sources: docstrings of ``nki.isa.rng``, ``rand2``, ``set_rng_seed``, ``rand_set_state`` and ``rand_get_state`` (AWS
Neuron 2.32).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from twintrack.neuroncore.isa.instruction import Engine, Instruction
from twintrack.neuroncore.isa.legality.common import (
    SBUF,
    SBUF_PSUM,
    broken,
    free_size_is,
    operands_of,
    type_in,
)
from twintrack.neuroncore.isa.legality.tiles import (
    at_least,
    dimensions,
    float32_number,
    one_per_partition,
    tile,
)
from twintrack.neuroncore.memory.generation import Generation

__all__ = ["RULES"]

_INTEGERS = frozenset({"int8", "int16", "int32", "uint8", "uint16", "uint32"})
_UNIFORM = _INTEGERS | {"float8_e4m3", "float8_e5m2", "float16", "bfloat16", "float32", "tfloat32"}
_WORDS = frozenset({"int32", "uint32", "float32", "tfloat32"})
_XORWOW_WORDS = {Engine.GPSIMD: 6, Engine.VECTOR: 24}


def _rng(ins: Instruction, generation: Generation) -> None:
    (dst,) = operands_of(ins)
    _engine(ins)
    if ins.engine is Engine.GPSIMD:
        at_least(ins, generation, 3, "use engine=nisa.engine.vector")
    tile(ins, dst, SBUF_PSUM, "SBUF or PSUM")
    type_in(ins, dst, _INTEGERS, "an integer of 8, 16 or 32 bits")


def _rand2(ins: Instruction, generation: Generation) -> None:
    at_least(ins, generation, 4, "draw bits with nisa.rng and scale them")
    (dst,), (low, high) = ins.outs, ins.ins
    assert dst is not None  # noqa: S101 - it is required
    tile(ins, dst, SBUF_PSUM, "SBUF or PSUM")
    type_in(ins, dst, _UNIFORM, "an integer of 8, 16 or 32 bits, or float but float8_e4m3fn,")
    for attribute, view in (("min", low), ("max", high)):
        if view is None:
            float32_number(ins, attribute)
        else:
            tile(ins, view, SBUF_PSUM, "SBUF or PSUM")
            type_in(ins, view, frozenset({"float32"}), "float32")
            one_per_partition(ins, view, dst)
    least, most = ins.attributes["min"], ins.attributes["max"]
    if least is not None and most is not None and not least < most:
        raise broken(ins, "min below max", f"{least} and {most}", "give the smaller number as min")


def _set_rng_seed(ins: Instruction, generation: Generation) -> None:
    del generation
    (seeds,) = operands_of(ins)
    tile(ins, seeds, SBUF_PSUM, "SBUF or PSUM")
    type_in(ins, seeds, _WORDS, "32 bits")
    if seeds.shape != (1, 1):
        raise broken(ins, "src_seeds of shape [1, 1]", f"{list(seeds.shape)}", "pass one seed", seeds)


def _rand_set_state(ins: Instruction, generation: Generation) -> None:
    (seeds,) = operands_of(ins)
    _states(ins, generation)
    tile(ins, seeds, SBUF, "SBUF")
    type_in(ins, seeds, frozenset({"uint32"}), "uint32")
    dimensions(ins, seeds, 2, 2)
    free_size_is(ins, seeds, _XORWOW_WORDS[ins.engine])


def _rand_get_state(ins: Instruction, generation: Generation) -> None:
    (dst,) = operands_of(ins)
    _states(ins, generation)
    tile(ins, dst, SBUF_PSUM if generation.number >= 4 else SBUF, "SBUF")
    type_in(ins, dst, frozenset({"uint32"}), "uint32")
    dimensions(ins, dst, 2, 2)
    free_size_is(ins, dst, _XORWOW_WORDS[ins.engine])


def _engine(ins: Instruction) -> None:
    if ins.engine not in (Engine.VECTOR, Engine.GPSIMD):
        raise broken(ins, "Vector or GpSimd Engine", ins.engine, "choose one of them")


def _states(ins: Instruction, generation: Generation) -> None:
    """Where states can be stored and loaded: GpSimd from NeuronCore-v3, the Vector Engine from NeuronCore-v4."""
    _engine(ins)
    at_least(ins, generation, 3, "seed the Vector Engine with nisa.set_rng_seed")
    if ins.engine is Engine.VECTOR and generation.number < 4:
        raise broken(
            ins,
            "NeuronCore-v4 or newer for states of the Vector Engine",
            generation.chip,
            "use engine=nisa.engine.gpsimd, or seed with nisa.set_rng_seed",
        )


RULES: Mapping[str, Callable[[Instruction, Generation], None]] = MappingProxyType(
    {
        "rng": _rng,
        "rand2": _rand2,
        "set_rng_seed": _set_rng_seed,
        "rand_set_state": _rand_set_state,
        "rand_get_state": _rand_get_state,
    }
)
"""By opcode."""

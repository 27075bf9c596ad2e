"""``nki.isa``: instructions that draw random numbers, seed generators and keep their states."""

from __future__ import annotations

from twintrack.neuroncore.isa.instruction import Engine
from twintrack.nki.isa.constants import engine as _engine
from twintrack.nki.isa.issue import NkiInstruction, author_error, choose, issue, number_or_tensor
from twintrack.nki.tensor import NkiTensor

__all__ = ["rand2", "rand_get_state", "rand_set_state", "rng", "set_rng_seed"]


def rng(dst: NkiTensor, engine: _engine = _engine.vector, name: str | None = None) -> NkiInstruction:
    """Random bits: of the next 32 of an engine's generator, the least significant that fit an element.

    Args:
        dst: SBUF, or PSUM on the Vector Engine; an integer type of 8, 16 or 32 bits.
        engine: vector, or gpsimd from NeuronCore-v3; each has a generator of its own.
        name: for messages and profiles.

    Raises:
        KernelError: for other types, regions or engines.
    """
    return issue("rng", choose(engine, Engine.VECTOR), (dst,), (), {}, name)


def rand2(
    dst: NkiTensor,
    min: float | NkiTensor,
    max: float | NkiTensor,
    name: str | None = None,
) -> NkiInstruction:
    """Numbers uniform between two limits from the Vector Engine's generator. NeuronCore-v4 and newer.

    Args:
        dst: SBUF or PSUM; any type of 8, 16 or 32 bits but float8_e4m3fn and bool.
        min: a float32 number, or one for each partition.
        max: likewise, above ``min``.
        name: for messages and profiles.

    Raises:
        KernelError: before NeuronCore-v4, for other types, or where ``min`` is not below ``max``.
    """
    low, low_tensor = number_or_tensor(min)
    high, high_tensor = number_or_tensor(max)
    if (low is None and low_tensor is None) or (high is None and high_tensor is None):
        raise author_error("min and max", "None", "pass numbers or tensors")
    attributes = {"min": low, "max": high}
    return issue("rand2", Engine.VECTOR, (dst,), (low_tensor, high_tensor), attributes, name)


def set_rng_seed(src_seeds: NkiTensor, name: str | None = None) -> NkiInstruction:
    """Seed the Vector Engine's generator: the same seed gives the same numbers.

    Args:
        src_seeds: SBUF or PSUM, ``(1, 1)``, 32 bits.
        name: for messages and profiles.

    Raises:
        KernelError: for another shape or type.
    """
    return issue("set_rng_seed", Engine.VECTOR, (), (src_seeds,), {}, name)


def rand_set_state(
    src_seeds: NkiTensor, engine: _engine = _engine.gpsimd, name: str | None = None
) -> NkiInstruction:
    """Set the generator states of the lanes of ``src_seeds``. NeuronCore-v3 and newer.

    Args:
        src_seeds: SBUF, uint32: 6 words for each partition on GpSimd, 24 on the Vector Engine.
        engine: gpsimd, or vector from NeuronCore-v4.
        name: for messages and profiles.

    Raises:
        KernelError: for other types, shapes or engines.
    """
    return issue("rand_set_state", choose(engine, Engine.GPSIMD), (), (src_seeds,), {}, name)


def rand_get_state(
    dst: NkiTensor, engine: _engine = _engine.gpsimd, name: str | None = None
) -> NkiInstruction:
    """Store the generator states of the lanes of ``dst``. NeuronCore-v3 and newer.

    Args:
        dst: uint32 in SBUF (or PSUM from the Vector Engine of NeuronCore-v4): 6 words for each partition on GpSimd, 24
            on the Vector Engine.
        engine: gpsimd, or vector from NeuronCore-v4.
        name: for messages and profiles.

    Raises:
        KernelError: for other types, shapes or engines.
    """
    return issue("rand_get_state", choose(engine, Engine.GPSIMD), (dst,), (), {}, name)

"""Every documented limit of the random instructions, by generation and engine."""

from __future__ import annotations

import pytest
from single_core import blank, core_of, message

from twintrack.errors import KernelError
from twintrack.nki import isa as nisa

VECTOR, GPSIMD = nisa.engine.vector, nisa.engine.gpsimd


def made(core, shape, dtype="uint32", region="sbuf"):
    tensor = blank(shape, dtype, region)
    core.wrote(tensor)
    return tensor


def refused(wanted, call, *args, **kwargs):
    """The call breaks a rule, whose message has these words, at this file's line."""
    said = message(lambda: call(*args, **kwargs))
    assert wanted in said, said
    assert f"nki.isa.{call.__name__}" in said
    assert __file__ in said


def test_rng_runs_on_gpsimd_from_gen3_on():
    for chip in ("trn1", "trn2", "trn3"):
        with core_of(chip, values=False) as core:
            for engine in (VECTOR, nisa.engine.unknown):
                nisa.rng(made(core, (4, 8)), engine)
                nisa.rng(made(core, (4, 8), region="psum"), engine)
            if chip != "trn1":
                nisa.rng(made(core, (4, 8)), GPSIMD)
                refused("SBUF, as GpSimd", nisa.rng, made(core, (4, 8), region="psum"), GPSIMD)
            else:
                refused("NeuronCore-v3 or newer", nisa.rng, made(core, (4, 8)), GPSIMD)
            refused("Vector or GpSimd Engine", nisa.rng, made(core, (4, 8)), nisa.engine.scalar)


def test_rng_writes_integers():
    with core_of("trn2", values=False) as core:
        for dtype in ("int8", "int16", "int32", "uint8", "uint16", "uint32"):
            nisa.rng(made(core, (4, 8), dtype))
        for dtype in ("float32", "bfloat16", "bool", "float8_e4m3fn_x4"):
            refused("dst of type an integer", nisa.rng, made(core, (4, 8), dtype))
        refused("SBUF or PSUM", nisa.rng, made(core, (4, 8), region="shared_hbm"))


def test_rand2_is_there_on_gen4_only():
    for chip in ("trn1", "trn2"):
        with core_of(chip, values=False) as core:
            refused("NeuronCore-v4 or newer", nisa.rand2, made(core, (4, 8), "float32"), 0.0, 1.0)
    with core_of("trn3", values=False) as core:
        for region in ("sbuf", "psum"):
            nisa.rand2(made(core, (4, 8), "float32", region), 0.0, 1.0)


def test_rand2_writes_the_documented_types():
    with core_of("trn3", values=False) as core:
        for dtype in (
            *("float8_e4m3", "float8_e5m2", "float16", "bfloat16", "float32", "tfloat32"),
            *("int8", "int16", "int32", "uint8", "uint16", "uint32"),
        ):
            nisa.rand2(made(core, (4, 8), dtype), 0.0, 1.0)
        for dtype in ("bool", "float8_e4m3fn", "float8_e5m2_x4"):
            refused("dst of type", nisa.rand2, made(core, (4, 8), dtype), 0.0, 1.0)


def test_limits_of_rand2_are_float32_numbers_or_one_for_each_partition_with_min_below_max():
    with core_of("trn3", values=False) as core:
        dst = made(core, (4, 8), "float32")
        column = made(core, (4, 1), "float32")
        nisa.rand2(dst, column, column)
        nisa.rand2(dst, -1, column)
        for low, high in ((1.0, 1.0), (2, 1), (float("nan"), 1.0)):
            refused("min below max", nisa.rand2, dst, low, high)
        refused("a float32 max", nisa.rand2, dst, 0.0, 1e39)
        refused("min of type float32", nisa.rand2, dst, made(core, (4, 1), "int32"), 1.0)
        refused("one element for each partition", nisa.rand2, dst, 0.0, made(core, (4, 2), "float32"))
        refused("one element for each partition", nisa.rand2, dst, 0.0, made(core, (1, 1), "float32"))
        with pytest.raises(KernelError, match="min and max"):
            nisa.rand2(dst, None, 1.0)


def test_a_seed_is_one_element_of_32_bits_on_chip():
    for chip in ("trn1", "trn2", "trn3"):
        with core_of(chip, values=False) as core:
            for dtype in ("uint32", "int32", "float32"):
                for region in ("sbuf", "psum"):
                    nisa.set_rng_seed(made(core, (1, 1), dtype, region))
            refused("src_seeds of shape [1, 1]", nisa.set_rng_seed, made(core, (2, 1)))
            refused("src_seeds of shape [1, 1]", nisa.set_rng_seed, made(core, (1, 2)))
            refused("src_seeds of type 32 bits", nisa.set_rng_seed, made(core, (1, 1), "uint16"))
            refused("SBUF or PSUM", nisa.set_rng_seed, made(core, (1, 1), region="shared_hbm"))


@pytest.mark.parametrize("call", [nisa.rand_set_state, nisa.rand_get_state])
def test_states_are_there_from_gen3_on_gpsimd_and_from_gen4_on_the_vector_engine(call):
    with core_of("trn1", values=False) as core:
        refused("NeuronCore-v3 or newer", call, made(core, (4, 6)))
        refused("NeuronCore-v3 or newer", call, made(core, (4, 24)), VECTOR)
    with core_of("trn2", values=False) as core:
        call(made(core, (4, 6)))
        refused("NeuronCore-v4 or newer for states of the Vector", call, made(core, (4, 24)), VECTOR)
    with core_of("trn3", values=False) as core:
        call(made(core, (4, 6)), nisa.engine.unknown)
        call(made(core, (128, 24)), VECTOR)
        refused("Vector or GpSimd Engine", call, made(core, (4, 6)), nisa.engine.tensor)


@pytest.mark.parametrize("call", [nisa.rand_set_state, nisa.rand_get_state])
def test_states_are_two_dimensional_uint32_of_6_or_24_words(call):
    with core_of("trn3", values=False) as core:
        for dtype in ("int32", "float32"):
            refused("of type uint32", call, made(core, (4, 6), dtype))
        refused("2 dimensions", call, made(core, (4, 2, 3)))
        refused("6 elements per partition", call, made(core, (4, 24)))
        refused("24 elements per partition", call, made(core, (4, 6)), VECTOR)


def test_states_lie_in_sbuf_and_are_stored_to_psum_by_the_vector_engine_of_gen4_only():
    with core_of("trn3", values=False) as core:
        nisa.rand_get_state(made(core, (4, 24), region="psum"), VECTOR)
        refused("as GpSimd cannot reach PSUM", nisa.rand_get_state, made(core, (4, 6), region="psum"))
        refused("src_seeds in SBUF", nisa.rand_set_state, made(core, (4, 24), region="psum"), VECTOR)
    with core_of("trn2", values=False) as core:
        refused("dst in SBUF", nisa.rand_get_state, made(core, (4, 6), region="psum"))

"""Every limit of tensor_tensor, tensor_scalar and scalar_tensor_tensor is refused by name, and only where it holds."""

from __future__ import annotations

import numpy as np
import pytest
from single_core import blank, core_of, message, tile

from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.nki import isa as nisa

HBM = MemoryRegion.private_hbm


def f(core, shape=(4, 8), dtype="float32", region="sbuf", layout="plain"):
    """A written tile of ones."""
    return tile(core, np.ones(shape), dtype, region, layout)


def tt(dst=None, a=None, b=None, op="add", **options):
    return lambda c: nisa.tensor_tensor(
        dst(c) if dst else f(c), a(c) if a else f(c), b(c) if b else f(c), op, **options
    )


def ts(*args, dst=None, data=None, **options):
    return lambda c: nisa.tensor_scalar(
        dst(c) if dst else f(c),
        data(c) if data else f(c),
        *[one(c) if callable(one) else one for one in args],
        **{key: one(c) if callable(one) else one for key, one in options.items()},
    )


def stt(op0="add", operand0=1.0, op1="add", dst=None, data=None, other=None):
    return lambda c: nisa.scalar_tensor_tensor(
        dst(c) if dst else f(c),
        data(c) if data else f(c),
        op0,
        operand0(c) if callable(operand0) else operand0,
        op1,
        other(c) if other else f(c),
    )


def of(*args, **options):
    return lambda core: f(core, *args, **options)


REFUSED = {
    "hbm operand": ("trn2", tt(a=of(region=HBM)), "data1 in SBUF or PSUM"),
    "hbm destination": ("trn2", tt(dst=of(region=HBM)), "dst in SBUF or PSUM"),
    "partitions": ("trn2", tt(b=of((3, 8))), "as many partitions in data2 as in dst (4)"),
    "free size": ("trn2", tt(a=of((4, 7))), "as many elements per partition in data1 as in dst (8)"),
    "start partition": ("trn2", tt(a=lambda c: f(c, (40, 8))[5:9]), "a start partition of 0, 32, 64 or 96"),
    "start for 33 to 64": (
        "trn2",
        tt(*[of((40, 8))] * 2, lambda c: f(c, (80, 8))[32:72]),
        "a start partition of 0 or 64 for 40 partitions",
    ),
    "unary operator": ("trn2", tt(op="abs"), "a binary operator as op"),
    "activation as operator": ("trn2", tt(op="gelu"), "an ALU operator as op"),
    "average": ("trn2", tt(op="average"), "an ALU operator as op"),
    "scalar engine": ("trn2", tt(engine=nisa.engine.scalar), "Vector or GpSimd Engine"),
    "power on vector": ("trn2", tt(op="power", engine=nisa.engine.vector), "GpSimd Engine for nl.power"),
    "power in psum": ("trn2", tt(a=of(region="psum"), op="power"), "GpSimd cannot reach PSUM"),
    "gpsimd in psum": (
        "trn2",
        tt(dst=of(region="psum"), engine=nisa.engine.gpsimd),
        "GpSimd cannot reach PSUM",
    ),
    "two in psum": (
        "trn2",
        tt(a=of(region="psum"), b=of(region="psum")),
        "at most one of data1 and data2 in PSUM",
    ),
    "float bits": ("trn2", tt(op="bitwise_or"), "an integer type in dst for the bitvec operator bitwise_or"),
    "float bits in": (
        "trn2",
        tt(dst=of(dtype="int32"), a=of(dtype="int32"), op="bitwise_or"),
        "an integer type in data2",
    ),
    "bits on gpsimd": (
        "trn2",
        tt(*[of(dtype="int32")] * 3, op="bitwise_or", engine=nisa.engine.gpsimd),
        "Vector Engine for the bitvec operator bitwise_or",
    ),
    "packed": ("trn3", tt(a=lambda c: blank((4, 8), "float8_e5m2_x4")), "numbers in data1"),
    "abs_max before v4": ("trn2", tt(op="abs_max"), "NeuronCore-v4 or newer for nl.abs_max"),
    "abs_min before v4": ("trn1", tt(op="abs_min"), "NeuronCore-v4 or newer for nl.abs_min"),
    "no tensor": ("trn2", lambda c: nisa.tensor_tensor(f(c), None, f(c), "add"), "a tensor for data1"),
    "long in psum": (
        "trn2",
        tt(*[of((1, 4097), "bfloat16", "psum")] * 2, of((1, 4097), "bfloat16")),
        "at most 4096 elements per partition in PSUM",
    ),
    "long in sbuf": (
        "trn2",
        tt(*[of((1, 65537), "int8")] * 3),
        "at most 65536 elements per partition in SBUF",
    ),
    # tensor_scalar
    "shape": ("trn2", ts("add", 1.0, data=of((4, 7))), "as many elements per partition in data as in dst"),
    "hbm data": ("trn2", ts("add", 1.0, data=of(region=HBM)), "data in SBUF or PSUM"),
    "packed data": (
        "trn3",
        ts("add", 1.0, data=lambda c: blank((4, 8), "float4_e2m1fn_x4")),
        "numbers in data",
    ),
    "matrix operand": ("trn2", ts("add", of((4, 2))), "one element for each partition of data in operand0"),
    "short operand": ("trn2", ts("add", of((3, 1))), "one element for each partition of data in operand0"),
    "narrow operand": ("trn2", ts("add", of((4, 1), "bfloat16")), "operand0 of type float32"),
    "narrow operand1": (
        "trn2",
        ts("add", 1.0, op1="add", operand1=of((4, 1), "int32")),
        "operand1 of type float32",
    ),
    "missing operand": ("trn2", ts("add", None), "operand0 for the operator nl.add"),
    "missing operand1": ("trn2", ts("add", 1.0, op1="add"), "operand1 for the operator nl.add"),
    "operand of unary": ("trn2", ts("abs", 2.0), "operand0=None or 0 for the unary operator nl.abs"),
    "tensor of unary": (
        "trn2",
        ts("square", of((4, 1))),
        "operand0=None or 0 for the unary operator nl.square",
    ),
    "operand without op1": ("trn2", ts("add", 1.0, operand1=1.0), "operand1=None without op1"),
    "mixed": (
        "trn2",
        ts("add", 1, op1="bitwise_and", operand1=1),
        "op0 and op1 both bitvec or both arithmetic",
    ),
    "float data of bits": ("trn2", ts("bitwise_and", 1, dst=of(dtype="int32")), "an integer type in data"),
    "float dst of bits": ("trn2", ts("bitwise_and", 1, data=of(dtype="int32")), "an integer type in dst"),
    "broken number": (
        "trn2",
        ts("left_shift", 1.5, dst=of(dtype="int8"), data=of(dtype="int8")),
        "an integer operand0",
    ),
    "float vector of bits": (
        "trn2",
        ts("left_shift", of((4, 1)), dst=of(dtype="int8"), data=of(dtype="int8")),
        "an integer type in operand0",
    ),
    "bits on scalar": (
        "trn3",
        ts("left_shift", 1, dst=of(dtype="int8"), data=of(dtype="int8"), engine=nisa.engine.scalar),
        "Vector Engine for bitvec operators",
    ),
    "gpsimd": ("trn2", ts("add", 1.0, engine=nisa.engine.gpsimd), "nl.rsqrt on GpSimd Engine"),
    "rsqrt on vector": ("trn2", ts("rsqrt", None, engine=nisa.engine.vector), "GpSimd Engine for nl.rsqrt"),
    "rsqrt from psum": ("trn2", ts("rsqrt", None, data=of(region="psum")), "GpSimd cannot reach PSUM"),
    "tensor engine": ("trn2", ts("add", 1.0, engine=nisa.engine.tensor), "Vector, Scalar or GpSimd Engine"),
    "scalar on v2": ("trn1", ts("add", 1.0, engine=nisa.engine.scalar), "Vector or GpSimd Engine on trn1"),
    "scalar pair": (
        "trn2",
        ts("add", 1.0, op1="multiply", operand1=2.0, engine=nisa.engine.scalar),
        "multiply, add, or multiply then add on the Scalar Engine of trn2",
    ),
    "scalar operator": (
        "trn2",
        ts("subtract", 1.0, engine=nisa.engine.scalar),
        "multiply, add, or multiply then add",
    ),
    "bypass": ("trn2", ts("bypass", None), "an ALU operator as op0"),
    "abs_max in op1": ("trn2", ts("add", 1.0, op1="abs_max", operand1=1.0), "NeuronCore-v4 or newer"),
    # scalar_tensor_tensor
    "bits in op0": ("trn2", stt("bitwise_and", 1), "an arithmetic operator as op0"),
    "bits in op1": ("trn2", stt(op1="left_shift"), "an arithmetic operator as op1"),
    "unary op1": ("trn2", stt(op1="abs"), "a binary operator as op1"),
    "both in psum": (
        "trn2",
        stt(data=of(region="psum"), other=of(region="psum")),
        "at most one of data and operand1 in PSUM",
    ),
    "other free size": (
        "trn2",
        stt(other=of((4, 7))),
        "as many elements per partition in operand1 as in data",
    ),
    "other partitions": ("trn2", stt(dst=of((3, 8))), "as many partitions in dst as in data"),
    "wide scalar": ("trn2", stt(operand0=of((4, 2))), "one element for each partition of data in operand0"),
    "no scalar": ("trn2", stt(operand0=None), "operand0 for the operator nl.add"),
    "hbm tile": ("trn2", stt(other=of(region=HBM)), "operand1 in SBUF or PSUM"),
}
ALLOWED = {
    "one input in psum": ("trn1", tt(dst=of(region="psum"), a=of(region="psum"))),
    "abs_max on v4": ("trn3", tt(op="abs_max")),
    "gpsimd float": ("trn2", tt(engine=nisa.engine.gpsimd)),
    "64 partitions from 64": ("trn2", tt(*[lambda c: f(c, (128, 8))[64:128]] * 3)),
    "scalar multiply add": (
        "trn2",
        ts("multiply", 2.0, op1="add", operand1=1.0, engine=nisa.engine.scalar),
    ),
    "scalar multiply": ("trn2", ts("multiply", of((4, 1)), engine=nisa.engine.scalar)),
    "scalar add": ("trn2", ts("add", 2.0, engine=nisa.engine.scalar)),
    "anything on scalar of v4": (
        "trn3",
        ts("subtract", 2.0, op1="maximum", operand1=0.0, engine=nisa.engine.scalar),
    ),
    "power on vector": ("trn2", ts("add", 1.0, op1="power", operand1=-0.5)),
    "rsqrt on gpsimd": ("trn2", ts("rsqrt", 0.0, engine=nisa.engine.gpsimd)),
    "operand in psum": ("trn2", ts("add", of((4, 1), region="psum"), data=of(region="psum"))),
    "whole float for bits": ("trn2", ts("left_shift", 1.0, dst=of(dtype="int8"), data=of(dtype="int8"))),
    "unary op0 of scalar_tensor_tensor": ("trn2", stt("abs", None)),
    "one tile in psum": ("trn2", stt(data=of(region="psum"), operand0=of((4, 1), region="psum"))),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_it_is_refused(case):
    chip, issue, phrase = REFUSED[case]
    with core_of(chip) as core:
        text = message(lambda: issue(core))
    assert phrase in text
    assert __file__ in text


@pytest.mark.parametrize("case", sorted(ALLOWED))
def test_it_is_allowed(case):
    chip, issue = ALLOWED[case]
    with core_of(chip) as core:
        issue(core)


@pytest.mark.parametrize("case", ["free size", "two in psum", "narrow operand", "scalar pair"])
def test_it_is_refused_without_values_too(case):
    chip, issue, phrase = REFUSED[case]
    with core_of(chip, values=False) as core:
        assert phrase in message(lambda: issue(core))

"""Every limit of activation functions, exponential, reciprocal and dropout is refused by name, per generation."""

from __future__ import annotations

import numpy as np
import pytest
from single_core import blank, core_of, message, tile

from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.nki import isa as nisa

HBM = MemoryRegion.private_hbm
CMD = nisa.reduce_cmd


def of(shape=(4, 8), dtype="float32", region="sbuf"):
    """A written tile of ones, made on a core."""
    return lambda core: tile(core, np.ones(shape), dtype, region)


VECTOR = of((4, 1))


def act(op="exp", function="activation", **options):
    given = {"dst": of(), "op": op, "data": of()} | options

    def issue(core):
        made = {key: one(core) if callable(one) else one for key, one in given.items()}
        getattr(nisa, function)(**made)

    return issue


def both(**options):
    """The same arguments for activation and activation_reduce."""
    return act(**options), act(function="activation_reduce", reduce_op="add", reduce_res=VECTOR, **options)


def act2(**options):
    return act(
        **{"function": "activate2", "imm0": 1.0, "imm1": 0.0, "op0": "multiply", "op1": "add"} | options
    )


def exponential(**options):
    given = {"function": "exponential", "op": None, "data": None, "src": of()} | options
    issue = {"dst": of()} | given

    def run(core):
        made = {key: one(core) if callable(one) else one for key, one in issue.items()}
        for key in ("function", "op", "data"):
            made.pop(key)
        nisa.exponential(**made)

    return run


def plain(function, **options):
    given = {"dst": of(), "data": of()} | options
    return lambda core: getattr(nisa, function)(
        **{key: one(core) if callable(one) else one for key, one in given.items()}
    )


REFUSED = {
    "operator": ("trn2", both(op="add"), "an activation function as op"),
    "partitions": ("trn2", both(dst=of((3, 8))), "as many partitions in data as in dst"),
    "free size": ("trn2", both(dst=of((4, 7))), "as many elements per partition in data as in dst"),
    "hbm": ("trn2", both(data=of(region=HBM)), "data in SBUF or PSUM"),
    "packed": ("trn3", both(data=lambda c: blank((4, 8), "float8_e5m2_x4")), "numbers in data"),
    "scale type": ("trn2", both(scale=of((4, 1), "bfloat16")), "scale of type float32"),
    "scale shape": ("trn2", both(scale=of((4, 2))), "one element for each partition of data in scale"),
    "scale absent": ("trn2", both(scale=None), "a number or a tile (P, 1) as scale"),
    "bias shape": ("trn2", both(bias=of((3, 1))), "one element for each partition of data in bias"),
    "bias tfloat32": ("trn2", both(bias=of((4, 1), "tfloat32")), "bias of type other than tfloat32"),
    "bias in hbm": ("trn2", both(bias=of((4, 1), region=HBM)), "bias in SBUF or PSUM"),
    "number as bias on v2": ("trn1", both(bias=1.0), "bias as a tile (P, 1) on trn1"),
    "bias of reciprocal on v2": (
        "trn1",
        both(op="reciprocal", bias=VECTOR),
        "no bias for nl.reciprocal on trn1",
    ),
    "reduced shape": (
        "trn2",
        [act(reduce_op="add", reduce_res=of((4, 2)), reduce_cmd=CMD.reset_reduce)],
        "one element for each partition of data in reduce_res",
    ),
    "reduced region": (
        "trn2",
        [act(reduce_op="add", reduce_res=of((4, 1), region=HBM), reduce_cmd=CMD.reset_reduce)],
        "reduce_res in SBUF or PSUM",
    ),
    "reduce operator": ("trn2", [act(reduce_op="maximum", reduce_cmd=CMD.reset_reduce)], "reduce_op=nl.add"),
    "reduce operator of activation_reduce": (
        "trn1",
        [act(function="activation_reduce", reduce_op="maximum", reduce_res=VECTOR)],
        "reduce_op=nl.add",
    ),
    "no reduce operator": ("trn2", [act(reduce_cmd=CMD.reduce)], "reduce_op=nl.add"),
    "load_reduce": (
        "trn2",
        [act(reduce_op="add", reduce_cmd=CMD.load_reduce)],
        "reduce_cmd among idle, reset, reduce, reset_reduce",
    ),
    "activate2 before v4": ("trn2", [act2()], "NeuronCore-v4 or newer"),
    "activate2 before v3": ("trn1", [act2()], "NeuronCore-v4 or newer"),
    "pair": ("trn3", [act2(op0="add", op1="multiply")], "op0 and op1 among multiply then add"),
    "op1 without op0": ("trn3", [act2(op0="bypass", op1="add")], "op0 and op1 among multiply then add"),
    "reverse0": (
        "trn3",
        [act2(op0="bypass", op1="bypass", reverse0=True)],
        "an operator as op0 with reverse0",
    ),
    "reverse1": ("trn3", [act2(op1="bypass", reverse1=True)], "an operator as op1 with reverse1"),
    "imm0": ("trn3", [act2(imm0=None)], "imm0 for nl.multiply"),
    "imm1": ("trn3", [act2(imm1=None)], "imm1 for nl.add"),
    "imm shape": ("trn3", [act2(imm1=of((4, 2)))], "one element for each partition of data in imm1"),
    "imm types": ("trn3", [act2(imm0=VECTOR, imm1=of((4, 1), "bfloat16"))], "imm1 of the type of imm0"),
    "relu_param": (
        "trn3",
        [act2(relu_param=of((3, 1)))],
        "one element for each partition of data in relu_param",
    ),
    "activate2 function": ("trn3", [act2(op="maximum")], "an activation function as op"),
    "activate2 partitions": ("trn3", [act2(dst=of((3, 8)))], "as many partitions in data as in dst"),
    "activate2 free size": ("trn3", [act2(dst=of((4, 9)))], "as many elements per partition"),
    "activate2 reduces": (
        "trn3",
        [act2(reduce_op="multiply", reduce_cmd=CMD.reduce)],
        "reduce_op among nl.add, nl.maximum, nl.minimum, nl.abs_max, nl.abs_min",
    ),
    "activate2 command": (
        "trn3",
        [act2(reduce_op="add", reduce_cmd=CMD.load_reduce)],
        "reduce_cmd among idle, reset",
    ),
    "exponential before v4": ("trn2", [exponential()], "NeuronCore-v4 or newer"),
    "exponential partitions": ("trn3", [exponential(dst=of((3, 8)))], "as many partitions in src as in dst"),
    "exponential free size": ("trn3", [exponential(dst=of((4, 7)))], "as many elements per partition in src"),
    "exponential 5 dimensions": (
        "trn3",
        [exponential(dst=of((4, 1, 1, 2, 4)), src=of((4, 1, 1, 2, 4)))],
        "1 to 4 dimensions in dst",
    ),
    "exponential of tfloat32": ("trn3", [exponential(src=of(dtype="tfloat32"))], "a type among bfloat16"),
    "exponential to uint32": ("trn3", [exponential(dst=of(dtype="uint32"))], "a type among bfloat16"),
    "exponential sum as integer": (
        "trn3",
        [exponential(reduce_res=of((4, 1), "int32"), reduce_cmd=CMD.reset_reduce)],
        "a type among bfloat16",
    ),
    "max_value type": ("trn3", [exponential(max_value=of((4, 1), "bfloat16"))], "max_value of type float32"),
    "max_value shape": ("trn3", [exponential(max_value=of((4, 8)))], "one element for each partition of src"),
    "reset": (
        "trn3",
        [exponential(reduce_cmd=CMD.reset)],
        "reduce_cmd among idle, reset_reduce, reduce, load_reduce",
    ),
    "reduce_init": (
        "trn3",
        [exponential(reduce_cmd=CMD.reduce, reduce_init=1.0), exponential(reduce_init=VECTOR)],
        "reduce_init=0.0 without load_reduce",
    ),
    "reduce_init type": (
        "trn3",
        [exponential(reduce_cmd=CMD.load_reduce, reduce_init=of((4, 1), "bfloat16"))],
        "reduce_init of type float32",
    ),
    "idle result": ("trn3", [exponential(reduce_res=VECTOR)], "a reduce_cmd other than idle with reduce_res"),
    "exponential sum shape": (
        "trn3",
        [exponential(reduce_res=of((4, 2)), reduce_cmd=CMD.reset_reduce)],
        "one element for each partition of src in reduce_res",
    ),
    "reciprocal partitions": (
        "trn2",
        [plain("reciprocal", dst=of((3, 8)))],
        "as many partitions in data as in dst",
    ),
    "reciprocal free size": ("trn2", [plain("reciprocal", dst=of((4, 9)))], "as many elements per partition"),
    "reciprocal in hbm": ("trn2", [plain("reciprocal", dst=of(region=HBM))], "dst in SBUF or PSUM"),
    "dropout type": (
        "trn2",
        [plain("dropout", dst=of(dtype="bfloat16"), prob=0.5)],
        "dst of the type of data",
    ),
    "dropout free size": (
        "trn2",
        [plain("dropout", dst=of((4, 7)), prob=0.5)],
        "as many elements per partition",
    ),
    "dropout probability shape": (
        "trn2",
        [plain("dropout", prob=of((4, 8)))],
        "one element for each partition of data in prob",
    ),
    "dropout probability of integers": (
        "trn2",
        [plain("dropout", dst=of(dtype="int16"), data=of(dtype="int16"), prob=of((4, 1), "bfloat16"))],
        "prob of type float32 for integer data",
    ),
    "dropout probability as integer": (
        "trn2",
        [plain("dropout", prob=of((4, 1), "int32"))],
        "prob of type float",
    ),
    "dropout without probability": (
        "trn2",
        [plain("dropout", prob=None)],
        "a number or a tile (P, 1) as prob",
    ),
}
ALLOWED = {
    "vector bias on v2": ("trn1", both(bias=of((4, 1), "bfloat16"))),
    "integer bias": ("trn2", both(bias=of((4, 1), "int8"))),
    "number as bias on v3": ("trn2", both(bias=1.0, scale=VECTOR)),
    "reciprocal on v2": ("trn1", both(op="reciprocal")),
    "bias of reciprocal on v3": ("trn2", both(op="reciprocal", bias=VECTOR)),
    "psum": ("trn2", both(data=of(region="psum"), dst=of(region="psum"), scale=of((4, 1), region="psum"))),
    "activate2": (
        "trn3",
        [act2(imm0=VECTOR, imm1=0.5), act2(op0="bypass", op1="bypass", imm0=None, imm1=None)],
    ),
    "exponential": ("trn3", [exponential(src=of(dtype="uint32"), dst=of(dtype="tfloat32"))]),
    "dropout of floats": ("trn2", [plain("dropout", prob=of((4, 1), "float8_e5m2"))]),
    "dropout of integers": (
        "trn2",
        [plain("dropout", dst=of(dtype="int16"), data=of(dtype="int16"), prob=VECTOR)],
    ),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_it_is_refused(case):
    chip, cases, phrase = REFUSED[case]
    for issue in cases:
        with core_of(chip) as core:
            assert phrase in message(lambda issue=issue, core=core: issue(core))


@pytest.mark.parametrize("case", sorted(ALLOWED))
def test_it_is_allowed(case):
    chip, cases = ALLOWED[case]
    for issue in cases:
        with core_of(chip) as core:
            issue(core)

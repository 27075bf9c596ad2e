"""Every limit of reductions, scans and batch-norm statistics is refused by name, and only where it holds."""

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
WHOLE = of((4, 2, 3))
GIVEN = {
    "tensor_reduce": {"dst": VECTOR, "op": "add", "data": of(), "axis": 1},
    "tensor_partition_reduce": {"dst": of((1, 8)), "op": "add", "data": of()},
    "tensor_scalar_reduce": {"dst": of(), "data": of(), "op0": "add", "operand0": 1.0, "reduce_op": "add"},
    "tensor_scalar_cumulative": {"dst": of(), "src": of(), "op0": "add", "op1": "add", "imm0": 1.0},
    "tensor_tensor_scan": {
        "dst": of(),
        "data0": of(),
        "data1": of(),
        "initial": 0.0,
        "op0": "multiply",
        "op1": "add",
    },
    "bn_stats": {"dst": of((4, 6)), "data": of()},
    "bn_aggr": {"dst": of((4, 2)), "data": of((4, 6))},
}


def call(core, function, options):
    given = GIVEN[function] | options
    getattr(nisa, function)(**{key: one(core) if callable(one) else one for key, one in given.items()})


PACKED = lambda core: blank((4, 8), "float8_e5m2_x4")  # noqa: E731 - an operand like those of `of`
REDUCE, PARTITION, SCALAR = "tensor_reduce", "tensor_partition_reduce", "tensor_scalar_reduce"
CUMULATIVE, SCAN = "tensor_scalar_cumulative", "tensor_tensor_scan"
ACROSS = "one element for each partition of"
REFUSED = {
    "reduction over partitions": ("trn2", REDUCE, {"axis": 0}, "free axes only"),
    "over everything": ("trn2", REDUCE, {"axis": (0, 1)}, "free axes only"),
    "not the last": ("trn2", REDUCE, {"data": WHOLE, "axis": 1}, "the last axes of 3 dimensions"),
    "a gap": (
        "trn2",
        REDUCE,
        {"data": of((4, 2, 3, 2)), "axis": (1, 3)},
        "the last axes of 4 dimensions",
    ),
    "twice": ("trn2", REDUCE, {"axis": (1, 1)}, "the last axes of 2 dimensions"),
    "no axis": ("trn2", REDUCE, {"axis": ()}, "the last axes of 2 dimensions"),
    "axis out of range": ("trn2", REDUCE, {"axis": 2}, "the last axes of 2 dimensions"),
    "axis by name": ("trn2", REDUCE, {"axis": "X"}, "an int or a list of ints as axis"),
    "no reduction": ("trn2", REDUCE, {"op": "power"}, "an operator that reduces"),
    "comparison": ("trn2", REDUCE, {"op": "less"}, "an operator that reduces"),
    "abs_max": ("trn3", REDUCE, {"op": "abs_max"}, "an operator that reduces"),
    "unary": ("trn2", REDUCE, {"op": "abs"}, "an operator that reduces"),
    "average": ("trn2", REDUCE, {"op": "average"}, "an ALU operator as op"),
    "reduced size": ("trn2", REDUCE, {"dst": of((4, 8))}, "1 elements per partition in dst"),
    "kept size": ("trn2", REDUCE, {"data": WHOLE, "axis": 2}, "2 elements per partition in dst"),
    "reduced partitions": ("trn2", REDUCE, {"dst": of((3, 1))}, "as many partitions in dst as in data"),
    "reduced bits of floats": ("trn2", REDUCE, {"op": "bitwise_or"}, "an integer type in dst"),
    "negated bits": (
        "trn2",
        REDUCE,
        {"op": "bitwise_or", "dst": of((4, 1), "int8"), "data": of(dtype="int8"), "negate": True},
        "an arithmetic operator with negate=True",
    ),
    "reduced in hbm": ("trn2", REDUCE, {"data": of(region=HBM)}, "data in SBUF or PSUM"),
    "reduced packed": ("trn3", REDUCE, {"data": PACKED}, "numbers in data"),
    "partition operator": ("trn2", PARTITION, {"op": "multiply"}, "op among nl.add, nl.average, nl.maximum"),
    "partition bits": ("trn2", PARTITION, {"op": "bitwise_or"}, "an integer type in dst"),
    "partition psum": ("trn2", PARTITION, {"data": of(region="psum")}, "GpSimd cannot reach PSUM"),
    "partition psum out": ("trn2", PARTITION, {"dst": of((1, 8), region="psum")}, "GpSimd cannot reach PSUM"),
    "partitions left": ("trn2", PARTITION, {"dst": of((2, 8))}, "one partition in dst"),
    "partition free size": ("trn2", PARTITION, {"dst": of((1, 7))}, "as many elements per partition in dst"),
    "reduced scalar free size": ("trn2", SCALAR, {"dst": of((4, 7))}, "as many elements per partition"),
    "reduced scalar partitions": (
        "trn2",
        SCALAR,
        {"dst": of((3, 8))},
        "as many partitions in data as in dst",
    ),
    "reduced scalar bits": ("trn2", SCALAR, {"op0": "bitwise_or"}, "an arithmetic operator as op0"),
    "reduced scalar type": ("trn2", SCALAR, {"operand0": of((4, 1), "bfloat16")}, "operand0 of type float32"),
    "reduced scalar shape": ("trn2", SCALAR, {"operand0": of((4, 2))}, f"{ACROSS} data in operand0"),
    "reduced scalar absent": ("trn2", SCALAR, {"operand0": None}, "operand0 for the operator nl.add"),
    "reduced scalar unary": ("trn2", SCALAR, {"op0": "abs", "operand0": 3.0}, "operand0=None or 0"),
    "reverse0": ("trn2", SCALAR, {"reverse0": True}, "reverse0=False"),
    "subtract": (
        "trn2",
        SCALAR,
        {"reduce_op": "subtract"},
        "reduce_op among nl.add, nl.multiply, nl.maximum, nl.minimum",
    ),
    "reduce_res": ("trn2", SCALAR, {"reduce_res": of((4, 2))}, f"{ACROSS} data in reduce_res"),
    "reduce_res in hbm": (
        "trn2",
        SCALAR,
        {"reduce_res": of((4, 1), region=HBM)},
        "reduce_res in SBUF or PSUM",
    ),
    "idle": ("trn2", SCALAR, {"reduce_cmd": CMD.idle}, "reduce_cmd among reset_reduce, reduce, load_reduce"),
    "reset": (
        "trn2",
        SCALAR,
        {"reduce_cmd": CMD.reset},
        "reduce_cmd among reset_reduce, reduce, load_reduce",
    ),
    "nothing to load": ("trn2", SCALAR, {"reduce_cmd": CMD.load_reduce}, "reduce_init with load_reduce"),
    "number not loaded": ("trn2", SCALAR, {"reduce_init": 1.0}, "reduce_init only with load_reduce"),
    "tile not loaded": ("trn2", SCALAR, {"reduce_init": VECTOR}, "reduce_init only with load_reduce"),
    "loaded type": (
        "trn2",
        SCALAR,
        {"reduce_cmd": CMD.load_reduce, "reduce_init": of((4, 1), "int32")},
        "reduce_init of type float32",
    ),
    "cumulative int32": ("trn2", CUMULATIVE, {"src": of(dtype="int32")}, "a type among bfloat16"),
    "cumulative to uint32": ("trn2", CUMULATIVE, {"dst": of(dtype="uint32")}, "a type among bfloat16"),
    "cumulative bits": ("trn2", CUMULATIVE, {"op0": "bitwise_or"}, "a binary arithmetic operator as op0"),
    "cumulative unary": ("trn2", CUMULATIVE, {"op0": "abs"}, "a binary arithmetic operator as op0"),
    "cumulative op1": (
        "trn2",
        CUMULATIVE,
        {"op1": "logical_or"},
        "op1 among nl.add, nl.subtract, nl.multiply, nl.maximum, nl.minimum",
    ),
    "imm0 type": ("trn2", CUMULATIVE, {"imm0": of((4, 1), "bfloat16")}, "imm0 of type float32"),
    "imm0 shape": ("trn2", CUMULATIVE, {"imm0": of()}, f"{ACROSS} src in imm0"),
    "imm0 absent": ("trn2", CUMULATIVE, {"imm0": None}, "imm0 for the operator nl.add"),
    "imm1 absent": ("trn2", CUMULATIVE, {"reduce_cmd": CMD.load_reduce}, "imm1 with load_reduce"),
    "imm1 type": (
        "trn2",
        CUMULATIVE,
        {"reduce_cmd": CMD.load_reduce, "imm1": of((4, 1), "float16")},
        "imm1 of type float32",
    ),
    "cumulative idle": ("trn2", CUMULATIVE, {"reduce_cmd": CMD.idle}, "reduce_cmd among reset_reduce"),
    "cumulative free size": ("trn2", CUMULATIVE, {"dst": of((4, 7))}, "as many elements per partition"),
    "cumulative partitions": ("trn2", CUMULATIVE, {"dst": of((3, 8))}, "as many partitions in src as in dst"),
    "scan in psum": (
        "trn2",
        SCAN,
        {"data0": of(region="psum"), "data1": of(region="psum")},
        "at most one of data0 and data1 in PSUM",
    ),
    "scan bits": ("trn2", SCAN, {"op0": "bitwise_or"}, "a binary arithmetic operator as op0"),
    "scan unary": ("trn2", SCAN, {"op1": "abs"}, "a binary arithmetic operator as op1"),
    "scan partitions": ("trn2", SCAN, {"data1": of((3, 8))}, "as many partitions in data1 as in data0"),
    "scan free size": ("trn2", SCAN, {"data1": of((4, 7))}, "as many elements per partition in data1"),
    "scan dst": ("trn2", SCAN, {"dst": of((4, 7))}, "as many elements per partition in dst"),
    "scan initial": ("trn2", SCAN, {"initial": of((4, 2))}, f"{ACROSS} data0 in initial"),
    "scan without initial": ("trn2", SCAN, {"initial": None}, "a number or a tile (P, 1) as initial"),
    "scan abs_max": ("trn2", SCAN, {"op0": "abs_max"}, "NeuronCore-v4 or newer for nl.abs_max"),
    "513 elements": (
        "trn2",
        "bn_stats",
        {"data": of((4, 513))},
        "at most 512 elements per partition in data",
    ),
    "statistics size": ("trn2", "bn_stats", {"dst": of((4, 5))}, "6 elements per partition in dst"),
    "statistics partitions": (
        "trn2",
        "bn_stats",
        {"dst": of((3, 6))},
        "as many partitions in dst as in data",
    ),
    "statistics in hbm": ("trn2", "bn_stats", {"data": of(region=HBM)}, "data in SBUF or PSUM"),
    "no triples": ("trn2", "bn_aggr", {"data": of((4, 7))}, "a multiple of three elements per partition"),
    "joined size": ("trn2", "bn_aggr", {"dst": of((4, 3))}, "2 elements per partition in dst"),
    "joined partitions": ("trn2", "bn_aggr", {"dst": of((3, 2))}, "as many partitions in dst as in data"),
}
ALLOWED = {
    "several axes": ("trn2", REDUCE, {"data": WHOLE, "axis": [2, 1]}),
    "kept dimensions": ("trn2", REDUCE, {"dst": of((4, 2, 1)), "data": WHOLE, "axis": 2, "keepdims": True}),
    "psum to psum": ("trn2", REDUCE, {"dst": of((4, 1), region="psum"), "data": of(region="psum")}),
    "bits": ("trn2", REDUCE, {"op": "bitwise_xor", "dst": of((4, 1), "int8"), "data": of(dtype="int8")}),
    "average over partitions": ("trn2", PARTITION, {"op": "average"}),
    "loaded": ("trn2", SCALAR, {"reduce_cmd": CMD.load_reduce, "reduce_init": VECTOR}),
    "unary": ("trn2", SCALAR, {"op0": "abs", "operand0": 0}),
    "result left in registers": ("trn2", SCALAR, {"reduce_res": None}),
    "512 elements": ("trn2", "bn_stats", {"data": of((4, 512))}),
    "three triples": ("trn2", "bn_aggr", {"data": of((4, 9))}),
    "one scanned tile in psum": ("trn2", SCAN, {"data0": of(region="psum"), "initial": of((4, 1), "int8")}),
    "abs_max scanned on v4": ("trn3", SCAN, {"op0": "abs_max", "op1": "abs_min"}),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_it_is_refused(case):
    chip, function, options, phrase = REFUSED[case]
    with core_of(chip) as core:
        assert phrase in message(lambda: call(core, function, options))


@pytest.mark.parametrize("case", sorted(ALLOWED))
def test_it_is_allowed(case):
    chip, function, options = ALLOWED[case]
    with core_of(chip) as core:
        call(core, function, options)


@pytest.mark.parametrize("function", sorted(GIVEN))
def test_it_runs_on_every_generation_without_values_too(function):
    for chip in ("trn1", "trn2", "trn3"):
        with core_of(chip, values=False) as core:
            call(core, function, {})

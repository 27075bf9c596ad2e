"""Every documented limit of the instructions that move data; each message names what was required and found."""

from __future__ import annotations

import pytest
from single_core import blank, core_of, message

from twintrack.nki import isa as nisa
from twintrack.nki import language as nl

DGE = nisa.dge_mode
ENGINE = nisa.engine
SKIP = nisa.oob_mode.skip


def made(shape, dtype="float32", region="sbuf"):
    from twintrack.nki.context import current_core

    tensor = blank(shape, dtype, region)
    current_core().wrote(tensor)
    return tensor


def hbm(shape, dtype="bfloat16"):
    return made(shape, dtype, "shared_hbm")


def rows(shape, index_shape, dtype="bfloat16", index_dtype="uint32"):
    """Rows of HBM that a vector of indices names."""
    strides = [1]
    for count in reversed(shape[1:]):
        strides.insert(0, strides[0] * count)
    return hbm((256, *shape[1:]), dtype).ap(
        [list(pair) for pair in zip(strides, shape, strict=True)],
        vector_offset=made(index_shape, index_dtype),
    )


def copy(dst=None, src=None, **options):
    return lambda: nisa.dma_copy(dst or made((16, 8)), src or made((16, 8)), **options)


def transpose(dst, src, dtype="bfloat16", **options):
    return lambda: nisa.dma_transpose(
        made(dst, dtype), src() if callable(src) else hbm(src, dtype), **options
    )


def compute(dst, srcs, op=nl.add, **options):
    return lambda: nisa.dma_compute(dst(), srcs(), op, **options)


def gather(**options):
    def call():
        src = rows((16, 8), (16, 1), "float32")
        return nisa.dma_copy(made((16, 8)), src, **options)

    return call


def in_place(count=2, **options):
    def call():
        target = rows((16, 8), (16, 1), "float32")
        return nisa.dma_compute(
            target, [target, *[made((16, 8)) for _ in range(count - 1)]], nl.add, **options
        )

    return call


LIMITS = [
    # dma_copy
    ("trn2", lambda: copy(made((16, 8), region="psum")), "dst in SBUF or HBM", "psum"),
    ("trn2", lambda: copy(src=made((16, 8), region="psum")), "src in SBUF or HBM", "psum"),
    ("trn2", lambda: copy(src=made((16, 9))), "as many elements in src as in dst (128)", "144"),
    ("trn3", lambda: copy(src=made((16, 8), "float8_e5m2_x4")), "packed elements moved as", "float32"),
    ("trn2", lambda: copy(priority=0), "NeuronCore-v4 or newer for priority", "trn2"),
    ("trn3", lambda: copy(priority=4), "a priority from 0 to 3", "4"),
    ("trn1", lambda: copy(dge_mode=DGE.hwdge), "NeuronCore-v3 or newer for dge_mode.hwdge", "trn1"),
    ("trn2", lambda: copy(engine=ENGINE.sync), "dge_mode.hwdge where an engine is named", "dge_mode.unknown"),
    (
        "trn2",
        lambda: copy(engine=ENGINE.vector, dge_mode=DGE.hwdge),
        "engine.sync or engine.scalar for dge_mode.hwdge",
        "engine.vector",
    ),
    ("trn2", lambda: gather(dge_mode=DGE.none), "a static address with dge_mode.none", "a dynamic one"),
    ("trn2", lambda: gather(dge_mode=DGE.hwdge), "swdge or dge_mode.unknown for a vector", "dge_mode.hwdge"),
    ("trn1", lambda: gather(), "NeuronCore-v3 or newer for a vector of indices", "trn1"),
    (
        "trn2",
        lambda: copy(src=rows((16, 8), (16, 2), "float32")),
        "an index of shape (16, 1) for src",
        "[16, 2]",
    ),
    (
        "trn2",
        lambda: copy(src=rows((16, 8), (8, 1), "float32")),
        "an index of shape (16, 1) for src",
        "[8, 1]",
    ),
    # dma_transpose
    ("trn2", lambda: lambda: nisa.dma_transpose(hbm((8, 16)), hbm((16, 8))), "dst in SBUF", "shared_hbm"),
    (
        "trn2",
        lambda: lambda: nisa.dma_transpose(made((8, 16), "bfloat16"), made((16, 8), "bfloat16", "psum")),
        "src in SBUF or HBM",
        "psum",
    ),
    (
        "trn2",
        lambda: lambda: nisa.dma_transpose(made((8, 16), "float16"), hbm((16, 8))),
        "dst of the same type as src (bfloat16)",
        "float16",
    ),
    ("trn2", lambda: transpose((8, 16), (16,)), "src of 2, 3 or 4 dimensions", "1"),
    ("trn2", lambda: transpose((8, 16), (16, 8), axes=(0, 1)), "axes (1, 0) for 2 dimensions", "(0, 1)"),
    ("trn2", lambda: transpose((4, 3, 16), (16, 3, 4), axes=(1, 2, 0)), "axes (2, 1, 0)", "(1, 2, 0)"),
    ("trn2", lambda: transpose((8, 15), (16, 8)), "dst of shape [8, 16]", "[8, 15]"),
    (
        "trn2",
        lambda: transpose((8, 16), (16, 8), dge_mode=DGE.swdge),
        "dge_mode.hwdge or dge_mode.unknown",
        "swdge",
    ),
    (
        "trn2",
        lambda: transpose((8, 16), (16, 8), dge_mode=DGE.none),
        "dge_mode.hwdge or dge_mode.unknown",
        "none",
    ),
    ("trn1", lambda: transpose((8, 16), (16, 8), dge_mode=DGE.hwdge), "NeuronCore-v3 or newer", "trn1"),
    ("trn2", lambda: transpose((8, 16), (16, 8), "uint8"), "src of 2 or 4 bytes", "uint8"),
    (
        "trn2",
        lambda: transpose((8, 32), (32, 8), dge_mode=DGE.hwdge),
        "16 rows in src with dge_mode.hwdge",
        "32",
    ),
    ("trn2", lambda: transpose((8, 4, 3), (3, 4, 8), dge_mode=DGE.hwdge), "1, 2, 4, 8 or 16 rows", "3 and 4"),
    ("trn2", lambda: transpose((8, 3, 4), (4, 3, 8), dge_mode=DGE.hwdge), "a multiple of 16", "4 and 3"),
    ("trn2", lambda: transpose((8, 16), (16, 8), "float32", dge_mode=DGE.hwdge), "src of 2 bytes", "float32"),
    (
        "trn2",
        lambda: transpose((8, 16), (16, 8), oob_mode=SKIP),
        "an indirect src for oob_mode.skip",
        "a static",
    ),
    ("trn2", lambda: transpose((8, 16), (16, 8), priority=1), "NeuronCore-v4 or newer for priority", "trn2"),
    (
        "trn2",
        lambda: transpose((4, 2, 3, 16), lambda: rows((16, 2, 3, 4), (16, 1))),
        "size 1 in one of src's middle dimensions",
        "2 and 3",
    ),
    (
        "trn2",
        lambda: transpose((8, 16), lambda: rows((16, 8), (16, 1), "float32"), "float32"),
        "2 bytes",
        "float32",
    ),
    (
        "trn2",
        lambda: transpose((8, 24), lambda: rows((24, 8), (32, 1))),
        "a multiple of 16 rows in src",
        "24",
    ),
    ("trn2", lambda: transpose((8, 32), lambda: rows((32, 8), (16, 1))), "at least 32 indices", "16"),
    ("trn2", lambda: transpose((8, 16), lambda: rows((16, 8), (24, 1))), "16 to 128 partitions", "24"),
    ("trn2", lambda: transpose((8, 32), lambda: rows((32, 8), (16, 2))), "128 partitions in an index", "16"),
    (
        "trn2",
        lambda: transpose((8, 16), lambda: rows((16, 8), (16, 1, 1))),
        "an index of 2 dimensions",
        "[16, 1, 1]",
    ),
    (
        "trn2",
        lambda: transpose((8, 16), lambda: rows((16, 8), (16, 1), index_dtype="int32")),
        "an index of type uint32",
        "int32",
    ),
    (
        "trn2",
        lambda: transpose((8, 16), lambda: rows((16, 8), (16, 1)), dge_mode=DGE.hwdge),
        "swdge",
        "hwdge",
    ),
    ("trn1", lambda: transpose((8, 16), lambda: rows((16, 8), (16, 1))), "NeuronCore-v3 or newer", "trn1"),
    # dma_compute
    (
        "trn2",
        lambda: compute(lambda: made((4, 4)), lambda: [made((4, 4)) for _ in range(17)]),
        "1 to 16 tensors in srcs",
        "17",
    ),
    ("trn2", lambda: compute(lambda: made((4, 4)), list), "1 to 16 tensors in srcs", "0"),
    (
        "trn2",
        lambda: compute(lambda: made((4, 4)), lambda: [made((4, 4)), made((4, 5))]),
        "as many elements in srcs as in dst (16)",
        "20",
    ),
    (
        "trn2",
        lambda: compute(lambda: made((4, 4)), lambda: [made((4, 4))], nl.maximum),
        "reduce_op=nl.add",
        "max",
    ),
    (
        "trn2",
        lambda: compute(lambda: made((4, 4)), lambda: [made((4, 4))], scales=[2.0]),
        "scales of 1 times 1.0",
        "[2.0]",
    ),
    (
        "trn2",
        lambda: compute(lambda: made((4, 4), region="psum"), lambda: [made((4, 4))]),
        "dst in SBUF or HBM",
        "psum",
    ),
    (
        "trn2",
        lambda: compute(lambda: made((4, 4)), lambda: [hbm((8, 4, 4)).select(0, made((1, 1), "int32"))]),
        "static addresses, or a vector of indices",
        "a scalar one",
    ),
    ("trn2", lambda: in_place(3), "2 tensors in srcs with a vector of indices", "3"),
    ("trn2", lambda: in_place(unique_indices=False), "unique_indices=True", "False"),
    ("trn1", lambda: in_place(), "NeuronCore-v3 or newer for a vector of indices", "trn1"),
    (
        "trn2",
        lambda: compute(lambda: made((16, 8)), lambda: [made((16, 8)), rows((16, 8), (16, 1))]),
        "one of srcs to be the same tensor as dst",
        "neither",
    ),
    # tensor_copy
    (
        "trn2",
        lambda: lambda: nisa.tensor_copy(hbm((4, 4)), made((4, 4))),
        "dst in SBUF or PSUM",
        "shared_hbm",
    ),
    (
        "trn2",
        lambda: lambda: nisa.tensor_copy(made((4, 4)), made((5, 4))),
        "as many partitions in src as in dst (4)",
        "5",
    ),
    (
        "trn2",
        lambda: lambda: nisa.tensor_copy(made((4, 4)), made((4, 5))),
        "as many elements per partition",
        "5",
    ),
    (
        "trn2",
        lambda: lambda: nisa.tensor_copy(made((4, 4)), made((4, 4)), engine=ENGINE.tensor),
        "Vector, Scalar or GpSimd Engine",
        "tensor",
    ),
    (
        "trn2",
        lambda: lambda: nisa.tensor_copy(made((4, 4), region="psum"), made((4, 4)), engine=ENGINE.gpsimd),
        "GpSimd cannot reach PSUM",
        "PSUM",
    ),
    (
        "trn1",
        lambda: lambda: nisa.tensor_copy(made((4, 4)), made((4, 4)), engine=ENGINE.scalar),
        "Vector or GpSimd Engine on trn1",
        "Scalar Engine",
    ),
    (
        "trn2",
        lambda: lambda: nisa.tensor_copy(made((128, 4))[8:12], made((4, 4))),
        "a start partition of 0, 32, 64 or 96 for 4 partitions",
        "8",
    ),
    (
        "trn2",
        lambda: lambda: nisa.tensor_copy(made((128, 4))[32:72], made((40, 4))),
        "a start partition of 0 or 64 for 40 partitions",
        "32",
    ),
    (
        "trn2",
        lambda: lambda: nisa.tensor_copy(made((128, 4))[32:128], made((96, 4))),
        "a start partition of 0 for 96 partitions",
        "32",
    ),
    # tensor_copy_predicated
    *[
        (
            "trn2",
            lambda kind=kind: (
                lambda: nisa.tensor_copy_predicated(made((4, 4)), made((4, 4)), made((4, 4), kind))
            ),
            "predicate of type uint8, uint16 or uint32",
            kind,
        )
        for kind in ("int32", "float32", "bool")
    ],
    (
        "trn2",
        lambda: (
            lambda: nisa.tensor_copy_predicated(made((4, 4)), made((4, 4), "bfloat16"), made((4, 4), "uint8"))
        ),
        "src of the same type as dst (float32)",
        "bfloat16",
    ),
    (
        "trn2",
        lambda: (
            lambda: nisa.tensor_copy_predicated(
                made((4, 4)), made((4, 4), region="psum"), made((4, 4), "uint8", "psum")
            )
        ),
        "src or predicate in PSUM",
        "both",
    ),
    (
        "trn2",
        lambda: lambda: nisa.tensor_copy_predicated(made((4, 4)), 1.0, made((4, 5), "uint8")),
        "as many elements per partition in predicate as in dst (4)",
        "5",
    ),
    (
        "trn2",
        lambda: lambda: nisa.tensor_copy_predicated(made((4, 4)), None, made((4, 4), "uint8")),
        "a number or a tensor for src",
        "None",
    ),
    # memset
    ("trn2", lambda: lambda: nisa.memset(hbm((4, 4)), 0), "dst in SBUF or PSUM", "shared_hbm"),
    (
        "trn2",
        lambda: lambda: nisa.memset(made((4, 4)), 0, engine=ENGINE.scalar),
        "Vector or GpSimd Engine",
        "scalar",
    ),
    (
        "trn2",
        lambda: lambda: nisa.memset(made((4, 4), region="psum"), 0, engine=ENGINE.gpsimd),
        "GpSimd cannot reach PSUM",
        "PSUM",
    ),
    (
        "trn3",
        lambda: lambda: nisa.memset(made((4, 4), "float4_e2m1fn_x4"), 1),
        "value=0 for a packed type",
        "1",
    ),
    (
        "trn2",
        lambda: lambda: nisa.memset(made((4, 4)), "1"),
        "a number known when the kernel is traced",
        "str",
    ),
]


@pytest.mark.parametrize(
    ("chip", "make", "required", "found"), LIMITS, ids=[f"{at}-{one[2]}" for at, one in enumerate(LIMITS)]
)
def test_a_limit_is_refused_naming_what_was_required_and_found(chip, make, required, found):
    with core_of(chip, values=False):
        said = message(lambda: make()())
    assert required in said, said
    assert found in said.split(", found ", 1)[1], said
    assert __file__ in said


def test_what_the_documentation_allows_is_let_through():
    with core_of("trn3", values=False):
        copy(priority=3)()
        copy(dge_mode=DGE.hwdge, engine=ENGINE.scalar)()
        copy(dge_mode=DGE.hwdge, engine=ENGINE.sync)()
        gather(dge_mode=DGE.swdge)()
        for shape in ((16, 8), (16, 128)):
            transpose(shape[::-1], shape, dge_mode=DGE.hwdge)()
        transpose((128, 16, 1), (1, 16, 128), dge_mode=DGE.hwdge)()
        transpose((8, 5, 2, 8), (8, 5, 2, 8), dge_mode=DGE.hwdge)()
        transpose((8, 1, 3, 16), lambda: rows((16, 1, 3, 8), (16, 1)), dge_mode=DGE.swdge)()
        transpose((8, 256), lambda: rows((256, 8), (128, 2)))()
        in_place()()
        nisa.tensor_copy(made((4, 4)), made((4, 4)), engine=ENGINE.scalar)
        nisa.tensor_copy_predicated(made((4, 4)), made((4, 4), region="psum"), made((4, 4), "uint16"))


# tensor indirection


def indirect(shape=(32, 8), dtype="float32", region="sbuf", rows=None):
    return made(shape, dtype, region).indirect(made((rows or shape[0], 2), "uint16"), 16)


INDIRECTION = [
    (
        lambda: nisa.tensor_copy(made((32, 16)), indirect(), engine=ENGINE.gpsimd),
        "the scalar or vector engine",
        "gpsimd",
    ),
    (
        lambda: nisa.tensor_copy(indirect(region="psum"), made((32, 16)), engine=ENGINE.scalar),
        "a scattered dst in SBUF on the Scalar Engine",
        "PSUM",
    ),
    (
        lambda: nisa.tensor_copy_predicated(made((32, 16)), indirect(), made((32, 16), "uint8")),
        "tensor indirection in operands that take it (dst and predicate)",
        "src",
    ),
    (lambda: nisa.dma_copy(made((32, 16)), indirect()), "operands that take it (none)", "src"),
    (lambda: nisa.memset(indirect(), 0), "operands that take it (none)", "dst"),
    (lambda: nisa.tensor_copy(made((24, 16)), indirect((24, 8))), "whole groups of 16 partitions", "24"),
    (
        lambda: nisa.tensor_copy(made((32, 33)), made((32, 8)).indirect(made((32, 2), "uint16"), 33)),
        "at most 32 offsets",
        "33",
    ),
    (
        lambda: nisa.tensor_copy(
            made((32, 4)), hbm((8, 4), "float32").vector_select(0, made((32, 1), "int32"))
        ),
        "one address for all rows of src",
        "a vector of indices",
    ),
]


@pytest.mark.parametrize(
    ("call", "required", "found"), INDIRECTION, ids=[f"{at}-{one[1]}" for at, one in enumerate(INDIRECTION)]
)
def test_an_indirect_operand_is_refused_where_it_is_not_documented(call, required, found):
    with core_of("trn3", values=False):
        said = message(call)
    assert required in said, said
    assert found in said.split(", found ", 1)[1], said


@pytest.mark.parametrize(
    ("data", "index", "required"),
    [
        (0, 16, "an index of src that starts at partition 0, 32, 64 or 96"),
        (32, 64, "the index of src at the same start partition as src (32)"),
    ],
)
def test_placed_operands_of_an_indirect_copy_start_together(data, index, required):
    from twintrack.nki.context import current_core
    from twintrack.nki.language.creation import ndarray

    with core_of("trn3", values=False):
        src = ndarray((32, 8), "float32", "sbuf", address=(data, 0))
        offsets = ndarray((32, 2), "uint16", "sbuf", address=(index, 4096))
        for one in (src, offsets):
            current_core().wrote(one)
        said = message(lambda: nisa.tensor_copy(made((32, 16)), src.indirect(offsets, 16)))
    assert required in said, said
    assert str(index) in said.split(", found ", 1)[1]

"""Every documented limit of Tensor Engine instructions and of MX formats; what was required and found is named."""

from __future__ import annotations

import pytest
from single_core import blank, core_of, message

from twintrack.nki import isa as nisa
from twintrack.nki.context import current_core
from twintrack.nki.language.creation import ndarray

DOUBLE = nisa.matmul_perf_mode.double_row
ENGINE = nisa.engine
E4, E5, FN = "float8_e4m3", "float8_e5m2", "float8_e4m3fn"
X4 = "float8_e4m3fn_x4"


def made(shape, dtype="bfloat16", region="sbuf"):
    tensor = blank(shape, dtype, region)
    current_core().wrote(tensor)
    return tensor


def psum(shape, dtype="float32"):
    return made(shape, dtype, "psum")


def mm(dst=(16, 8), left=(32, 16), right=(32, 8), types=("bfloat16", "bfloat16"), out="float32", **options):
    return lambda: nisa.nc_matmul(psum(dst, out), made(left, types[0]), made(right, types[1]), **options)


def double(types=(E4, E4), left=(32, 2, 16), right=(32, 2, 8), **options):
    return mm(left=left, right=right, types=types, perf_mode=DOUBLE, **options)


def transpose(
    dst=(16, 32), data=(32, 16), dtype="bfloat16", out=None, region="psum", source="sbuf", **options
):
    return lambda: nisa.nc_transpose(made(dst, out or dtype, region), made(data, dtype, source), **options)


def mode(out="bfloat16", dtype="bfloat16", **options):
    return mm((16, 32), (32, 16), (32, 32), (dtype, dtype), out, is_transpose=True, **options)


def mx(
    dst=(16, 8),
    left=(32, 16),
    right=(32, 8),
    scales=((4, 16), (4, 8)),
    types=(X4, X4),
    out="float32",
    **options,
):
    kind = options.pop("scale", "uint8")
    return lambda: nisa.nc_matmul_mx(
        psum(dst, out),
        made(left, types[0]),
        made(right, types[1]),
        made(scales[0], kind),
        made(scales[1], kind),
        **options,
    )


def quantize(dst=(32, 4), src=(32, 16), scale=(4, 4), types=(X4, "bfloat16", "uint8"), regions=("sbuf",) * 3):
    return lambda: nisa.quantize_mx(
        made(dst, types[0], regions[0]), made(src, types[1], regions[1]), made(scale, types[2], regions[2])
    )


def sliced(dst_tile, at, count):
    """A product into part of a PSUM tile."""
    return lambda: nisa.nc_matmul(psum(dst_tile)[:, at : at + count], made((32, 16)), made((32, count)))


LIMITS = [
    # regions
    (
        "trn2",
        lambda: nisa.nc_matmul(made((16, 8), "float32"), made((32, 16)), made((32, 8))),
        "dst in PSUM",
        "sbuf",
    ),
    (
        "trn2",
        lambda: nisa.nc_matmul(psum((16, 8)), psum((32, 16)), made((32, 8))),
        "stationary in SBUF",
        "psum",
    ),
    (
        "trn2",
        lambda: nisa.nc_matmul(psum((16, 8)), made((32, 16)), made((32, 8), region="shared_hbm")),
        "moving in SBUF",
        "shared_hbm",
    ),
    # types
    ("trn2", mm(types=("int8", "bfloat16")), "stationary of type float8, bfloat16", "int8"),
    ("trn2", mm(types=(FN, "bfloat16")), "that trn2 takes", FN),
    ("trn2", mm(types=("bfloat16", "float32")), "moving as wide as stationary (bfloat16)", "float32"),
    ("trn2", mm(types=("tfloat32", "float16")), "moving as wide as stationary (tfloat32)", "float16"),
    ("trn3", mm(types=(E4, FN)), "float8_e4m3 or float8_e4m3fn", "both"),
    ("trn2", mm(out="bfloat16"), "dst of type float32 on trn2", "bfloat16"),
    ("trn3", mm(out="float16"), "dst of type float32 or bfloat16 on trn3", "float16"),
    # double row
    ("trn1", double(), "NeuronCore-v3 or newer for double_row", "trn1"),
    ("trn2", double(types=("bfloat16", E4)), "float8 that trn2 takes in double_row mode", "bfloat16"),
    ("trn2", double(types=(FN, FN)), "float8 that trn2 takes in double_row mode", FN),
    ("trn3", double(types=(FN, E4)), "float8_e4m3 or float8_e4m3fn", "both"),
    ("trn2", double(left=(32, 32)), "size 2 in the first free dimension of stationary", "[32, 32]"),
    ("trn2", double(right=(32, 3, 8)), "size 2 in the first free dimension of moving", "[32, 3, 8]"),
    (
        "trn2",
        double(tile_position=(0, 0), tile_size=(128, 64)),
        "no column tiling in double_row mode",
        "(128, 64)",
    ),
    ("trn2", double(is_transpose=True), "no double_row in transpose mode", "both"),
    ("trn2", mm(perf_mode="triple"), "perf_mode none or double_row", "triple"),
    # shapes
    ("trn2", mm(right=(31, 8)), "as many partitions (the contraction) in moving as in stationary (32)", "31"),
    ("trn2", mm(dst=(128, 8), left=(32, 129)), "at most 128 elements per partition of stationary", "129"),
    ("trn2", mm(dst=(16, 513), right=(32, 513)), "at most 512 elements per partition of moving", "513"),
    ("trn2", mm(dst=(16, 9)), "dst of 16 partitions with 8 elements", "16 with 9"),
    ("trn2", mm(dst=(8, 16)), "dst of 16 partitions with 8 elements", "8 with 16"),
    # tiles of the array
    ("trn1", mm(tile_position=(0, 0), tile_size=(32, 128)), "a row tile size of 64, 128 on trn1", "32"),
    ("trn1", mm(tile_position=(0, 0), tile_size=(64, 32)), "a column tile size of 64, 128 on trn1", "32"),
    ("trn2", mm(tile_position=(0, 0), tile_size=(48, 128)), "a row tile size of 32, 64, 128 on trn2", "48"),
    ("trn2", mm(tile_position=(32, 0), tile_size=(64, 128)), "a row position that is a multiple of 64", "32"),
    ("trn2", mm(tile_position=(0, 128), tile_size=(64, 64)), "a column position that is a multiple", "128"),
    ("trn2", mm(tile_size=(64, 64)), "tile_size and tile_position as two pairs", "(64, 64) and ()"),
    ("trn2", mm(left=(64, 16), right=(64, 8), tile_position=(0, 0), tile_size=(32, 128)), "at most 32", "64"),
    ("trn2", mm(dst=(64, 8), left=(32, 64), tile_position=(0, 0), tile_size=(32, 32)), "at most 32", "64"),
    # banks
    ("trn2", sliced((16, 1024), 256, 512), "dst inside one PSUM bank of 2048 bytes", "1024 to 3071"),
    # transpose mode
    ("trn2", mode(out="float16"), "bfloat16 or float32 in transpose mode", "float16"),
    ("trn1", mode(), "dst of type float32 on trn1", "bfloat16"),
    ("trn2", mode(accumulate=True), "accumulate=False or None in transpose mode", "True"),
    # nc_transpose
    ("trn2", transpose(engine=ENGINE.scalar), "Tensor or Vector Engine", "scalar"),
    ("trn2", transpose(source="psum", engine=ENGINE.tensor), "data in SBUF", "psum"),
    ("trn2", transpose(region="sbuf", engine=ENGINE.tensor), "dst in PSUM", "sbuf"),
    ("trn2", transpose(source="shared_hbm", engine=ENGINE.vector), "data in SBUF or PSUM", "shared_hbm"),
    ("trn2", transpose(out="float32"), "dst of the same type as data (bfloat16)", "float32"),
    (
        "trn2",
        transpose((128, 4), (4, 130), engine=ENGINE.tensor),
        "at most 128 partitions and 128",
        "4 and 130",
    ),
    (
        "trn2",
        transpose((16, 33), (33, 16), engine=ENGINE.vector),
        "at most 32 partitions and 32",
        "33 and 16",
    ),
    ("trn2", transpose((15, 32)), "dst of 16 partitions with 32 elements", "15 with 32"),
    # nc_matmul_mx
    ("trn2", mx(), "NeuronCore-v4 or newer", "trn2"),
    ("trn3", mx(types=("float8_e4m3fn", X4)), "stationary of type float8_e5m2_x4", "float8_e4m3fn"),
    ("trn3", mx(out="float16"), "dst of type float32 or bfloat16", "float16"),
    ("trn3", mx(scale="int8"), "stationary_scale of type float8_e8m0fnu or uint8", "int8"),
    ("trn3", mx(left=(48, 16), right=(48, 8)), "32, 64, 96 or 128 partitions in stationary", "48"),
    ("trn3", mx(dst=(15, 8), left=(32, 15), scales=((4, 15), (4, 8))), "an even number of elements", "15"),
    ("trn3", mx(dst=(128, 8), left=(32, 130), scales=((4, 130), (4, 8))), "at most 128 elements", "130"),
    ("trn3", mx(scales=((3, 16), (4, 8))), "at least 4 partitions in stationary_scale", "3"),
    (
        "trn3",
        mx(left=(64, 16), right=(64, 8), scales=((8, 16), (64, 8))),
        "at least 36 partitions in stationary_scale",
        "8",
    ),
    ("trn3", mx(scales=((4, 16), (4, 9))), "8 elements per partition in moving_scale", "9"),
    ("trn3", mx(tile_position=(0, 0), tile_size=(32, 64)), "a column tile size of 128", "64"),
    # quantize_mx
    ("trn2", quantize(), "NeuronCore-v4 or newer", "trn2"),
    ("trn3", quantize(regions=("sbuf", "psum", "sbuf")), "src in SBUF", "psum"),
    ("trn3", quantize(regions=("psum", "sbuf", "sbuf")), "dst in SBUF", "psum"),
    ("trn3", quantize(regions=("sbuf", "sbuf", "psum")), "dst_scale in SBUF", "psum"),
    ("trn3", quantize(types=(X4, "float32", "uint8")), "src of type float16 or bfloat16", "float32"),
    (
        "trn3",
        quantize(types=("float4_e2m1fn_x4", "bfloat16", "uint8")),
        "dst of type float8_e5m2_x4",
        "float4",
    ),
    ("trn3", quantize(types=(X4, "bfloat16", "int8")), "dst_scale of type float8_e8m0fnu or uint8", "int8"),
    ("trn3", quantize((24, 4), (24, 16)), "32, 64, 96 or 128 partitions in src", "24"),
    ("trn3", quantize(src=(32, 18)), "a multiple of 4 elements per partition in src", "18"),
    ("trn3", quantize(dst=(32, 5)), "4 elements per partition in dst", "5"),
    ("trn3", quantize(scale=(4, 5)), "4 elements per partition in dst_scale", "5"),
    ("trn3", quantize((64, 4), (64, 16), (4, 4)), "at least 36 partitions in dst_scale", "4"),
]


@pytest.mark.parametrize(
    ("chip", "call", "required", "found"), LIMITS, ids=[f"{at}-{one[2]}" for at, one in enumerate(LIMITS)]
)
def test_a_limit_is_refused_naming_what_was_required_and_found(chip, call, required, found):
    with core_of(chip, values=False):
        said = message(call)
    assert required in said, said
    assert found in said.split("found ", 1)[1], said
    assert __file__ in said


def test_what_the_documentation_allows_is_let_through():
    with core_of("trn1", values=False):
        mm(dst=(128, 512), left=(128, 128), right=(128, 512))()
        mm(dst=(64, 512), left=(64, 64), right=(64, 512), tile_position=(64, 64), tile_size=(64, 64))()
        mm((16, 32), (32, 16), (32, 32), is_transpose=True)()
        transpose((128, 128), (128, 128), "int32")()
    with core_of("trn2", values=False):
        double(types=(E4, E5))()
        mm(types=("float32", "tfloat32"))()
        mm(types=(E5, "float16"), tile_position=(32, 96), tile_size=(32, 32))()
        mode()()
        mode(out="float32")()
        mode(dtype=E4, out="uint16")()
        sliced((16, 1024), 512, 512)()
        transpose((32, 32), (32, 32), region="sbuf", source="psum")()
    with core_of("trn3", values=False):
        mm(dst=(16, 4096), right=(32, 4096))()
        mm(dst=(16, 8192), right=(32, 8192), out="bfloat16")()
        double(types=(FN, E5))()
        mx(types=("float4_e2m1fn_x4", "float8_e5m2_x4"), out="bfloat16", scale="float8_e8m0fnu")()
        mx(
            left=(128, 16),
            right=(128, 8),
            scales=((100, 16), (128, 8)),
            tile_position=(0, 0),
            tile_size=(128, 128),
        )()
        quantize((128, 4), (128, 16), (128, 4), ("float8_e5m2_x4", "float16", "float8_e8m0fnu"))()


def test_the_place_in_a_bank_is_looked_at_again_for_another_offset():
    """Two slices of one shape, of which one crosses banks: the second is not taken for the first."""
    with core_of("trn2", values=False):
        tile = psum((16, 1024))
        left, right = made((32, 16)), made((32, 512))
        nisa.nc_matmul(tile[:, 0:512], left, right)
        assert "inside one PSUM bank" in message(lambda: nisa.nc_matmul(tile[:, 4:516], left, right))
        placed = ndarray((16, 512), "float32", "psum", address=(0, 1024))
        assert "bytes 1024 to 3071" in message(lambda: nisa.nc_matmul(placed, left, right))


@pytest.mark.parametrize("start", [1, 2, 16, 20, 33])
def test_scales_begin_at_the_first_16_partitions_of_a_quadrant_in_steps_of_four(start):
    with core_of("trn3", values=False):
        for good in (0, 4, 8, 12, 36):
            nisa.quantize_mx(made((32, 4), X4), made((32, 16)), made((64, 4), "uint8")[good:])
        said = message(
            lambda: nisa.quantize_mx(made((32, 4), X4), made((32, 16)), made((64, 4), "uint8")[start:])
        )
    assert "dst_scale from partition 0, 4, 8 or 12 of a quadrant" in said
    assert f"found {start % 32} " in said


def indirect(shape, dtype="bfloat16", region="sbuf", index=None):
    return made(shape, dtype, region).indirect(index or made((shape[0], 1), "uint16"), shape[0])


def pair_mx(left, scale):
    return lambda: nisa.nc_matmul_mx(
        psum((32, 8)), left(), made((32, 8), X4), scale(), made((32, 8), "uint8")
    )


INDIRECTION = [
    (
        lambda: nisa.nc_matmul(psum((32, 8)), indirect((32, 16), "float32"), made((32, 8), "float32")),
        "float16, bfloat16 or float8 with tensor indirection",
        "float32",
    ),
    (
        lambda: nisa.nc_matmul(
            psum((32, 32)), made((32, 32)), indirect((32, 40)), is_transpose=True, accumulate=False
        ),
        "moving without tensor indirection in transpose mode",
        "an indirect one",
    ),
    (
        lambda: nisa.nc_matmul(
            psum((32, 8)), indirect((32, 16)), made((32, 8)), tile_position=(32, 0), tile_size=(32, 128)
        ),
        "tile_position (0, 0) or none with tensor indirection",
        "(32, 0)",
    ),
    (
        pair_mx(lambda: indirect((32, 16), X4), lambda: made((32, 32), "uint8")),
        "stationary_scale with the same tensor indirection as stationary",
        "one of both without",
    ),
    (
        pair_mx(lambda: indirect((32, 16), X4), lambda: indirect((32, 16), "uint8")),
        "stationary_scale with the same tensor indirection as stationary",
        "another index",
    ),
    (
        lambda: nisa.nc_transpose(psum((16, 32), "bfloat16"), indirect((32, 16))),
        "operands that take it (none)",
        "data",
    ),
]


@pytest.mark.parametrize(
    ("call", "required", "found"), INDIRECTION, ids=[f"{at}-{one[1]}" for at, one in enumerate(INDIRECTION)]
)
def test_an_indirect_operand_is_refused_where_it_is_not_documented(call, required, found):
    with core_of("trn3", values=False):
        said = message(call)
    assert required in said, said
    assert found in said.split("found ", 1)[1], said

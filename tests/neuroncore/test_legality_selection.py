"""Every documented limit of the instructions that generate patterns and select by them."""

from __future__ import annotations

import pytest
from single_core import blank, core_of, message

from twintrack.errors import KernelError
from twintrack.nki import isa as nisa

LOWEST = -3.4028235e38
COMMANDS = nisa.reduce_cmd


def made(core, shape, dtype="float32", region="sbuf"):
    tensor = blank(shape, dtype, region)
    core.wrote(tensor)
    return tensor


@pytest.fixture
def core():
    with core_of("trn2", values=False) as one:
        yield one


def refused(wanted, call, *args, **kwargs):
    """The call breaks a rule, whose message has these words, at this file's line."""
    said = message(lambda: call(*args, **kwargs))
    assert wanted in said, said
    assert f"nki.isa.{call.__name__}" in said
    assert __file__ in said


# iota


def test_iota_writes_to_sbuf_only(core):
    nisa.iota(made(core, (128, 4)), [[1, 4]])
    refused("dst in SBUF", nisa.iota, made(core, (128, 4), region="psum"), [[1, 4]])
    refused("dst in SBUF", nisa.iota, made(core, (128, 4), region="shared_hbm"), [[1, 4]])


def test_iota_writes_numbers_only(core):
    for dtype in ("int8", "uint16", "float8_e4m3", "bfloat16", "bool"):
        nisa.iota(made(core, (2, 4), dtype), [[1, 4]])
    refused("numbers in dst", nisa.iota, made(core, (2, 4), "float8_e4m3fn_x4"), [[1, 4]])
    refused("numbers in dst", nisa.iota, made(core, (2, 4), "float8_e8m0fnu"), [[1, 4]])


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ([], "1 to 4 pairs"),
        ([[1, 2], [1, 2], [1, 1], [1, 1], [1, 1]], "1 to 4 pairs"),
        ([[1, 5]], "as many elements as dst has per partition (4)"),
        ([[1, 2], [1, 1]], "found 2"),
        ([[1, 0]], "positive num"),
        ([[2**31, 4]], "int32 step"),
    ],
)
def test_a_pattern_has_up_to_four_pairs_and_as_many_elements_as_the_destination(core, pattern, wanted):
    refused(wanted, nisa.iota, made(core, (2, 4)), pattern)
    source = made(core, (2, 4))
    refused(wanted, nisa.affine_select, made(core, (2, 4)), pattern, 0, source, 0.0)


def test_four_dimensions_are_allowed(core):
    nisa.iota(made(core, (2, 16)), [[1, 2], [3, 2], [4, 2], [-(2**31), 2]])


@pytest.mark.parametrize("name", ["offset", "channel_multiplier"])
def test_offset_and_multiplier_are_int32(core, name):
    for value in (2**31 - 1, -(2**31)):
        nisa.iota(made(core, (2, 4)), [[1, 4]], **{name: value})
    for value in (2**31, -(2**31) - 1):
        refused(f"an int32 {name}", nisa.iota, made(core, (2, 4)), [[1, 4]], **{name: value})


@pytest.mark.parametrize("pattern", [5, [1, 4], [[1, 2, 3]], [["a", 4]], [[1.5, 4]]])
def test_a_pattern_that_is_no_list_of_integer_pairs_is_refused_at_the_call(core, pattern):
    with pytest.raises(KernelError, match="pattern"):
        nisa.iota(made(core, (2, 4)), pattern)


def test_an_offset_that_is_no_integer_is_refused_at_the_call(core):
    with pytest.raises(KernelError, match="an integer for offset"):
        nisa.iota(made(core, (2, 4)), [[1, 4]], 1.5)


# affine_select


def test_affine_select_works_in_sbuf_on_tiles_of_one_size(core):
    good = made(core, (4, 8))
    nisa.affine_select(made(core, (4, 2, 4), "int8"), [[1, 8]], 1, good, 0.0)
    refused("dst in SBUF", nisa.affine_select, made(core, (4, 8), region="psum"), [[1, 8]], 1, good, 0.0)
    psum = made(core, (4, 8), region="psum")
    refused("on_true_tile in SBUF", nisa.affine_select, made(core, (4, 8)), [[1, 8]], 1, psum, 0.0)
    refused("as many partitions", nisa.affine_select, made(core, (5, 8)), [[1, 8]], 1, good, 0.0)
    refused("as many elements", nisa.affine_select, made(core, (4, 7)), [[1, 7]], 1, good, 0.0)


def test_affine_select_compares(core):
    good = made(core, (4, 8))
    for op in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
        nisa.affine_select(good, [[1, 8]], 1, good, 0.0, op)
    refused("a comparison", nisa.affine_select, good, [[1, 8]], 1, good, 0.0, "add")


def test_the_other_value_is_a_float32_number(core):
    good = made(core, (4, 8))
    for value in (LOWEST, float("-inf"), float("nan"), -3, 3.4028235e38):
        nisa.affine_select(good, [[1, 8]], 1, good, value)
    refused("a float32 on_false_value", nisa.affine_select, good, [[1, 8]], 1, good, 1e39)
    refused("a float32 on_false_value", nisa.affine_select, good, [[1, 8]], 1, good, -(2**128))
    with pytest.raises(KernelError, match="a number for on_false_value"):
        nisa.affine_select(good, [[1, 8]], 1, good, good)


# range_select


def ranged(core, **changes):
    operands = {
        "dst": made(core, (4, 8)),
        "on_true_tile": made(core, (4, 8)),
        "comp_op0": "less",
        "comp_op1": "less",
        "bound0": made(core, (4, 1)),
        "bound1": made(core, (4, 1)),
    }
    return operands | changes


def test_range_select_is_there_from_gen3_on():
    for chip in ("trn2", "trn3"):
        with core_of(chip, values=False) as core:
            nisa.range_select(**ranged(core))
    with core_of("trn1", values=False) as core:
        refused("NeuronCore-v3 or newer", nisa.range_select, **ranged(core))


@pytest.mark.parametrize("which", ["comp_op0", "comp_op1"])
def test_range_select_takes_five_comparisons(core, which):
    for op in ("equal", "less", "less_equal", "greater", "greater_equal"):
        nisa.range_select(**ranged(core, **{which: op}))
    refused(f"as {which}", nisa.range_select, **ranged(core, **{which: "not_equal"}))


@pytest.mark.parametrize("which", ["bound0", "bound1"])
def test_bounds_are_one_float32_for_each_partition(core, which):
    refused(
        "one element for each partition", nisa.range_select, **ranged(core, **{which: made(core, (4, 2))})
    )
    refused(
        "one element for each partition", nisa.range_select, **ranged(core, **{which: made(core, (3, 1))})
    )
    for dtype in ("int32", "bfloat16"):
        changed = ranged(core, **{which: made(core, (4, 1), dtype)})
        refused(f"{which} of type float32", nisa.range_select, **changed)


def test_range_select_takes_floats_of_one_shape(core):
    for dtype in ("bfloat16", "float16", "float8_e5m2", "float32"):
        nisa.range_select(**ranged(core, on_true_tile=made(core, (4, 8), dtype)))
    integers = ranged(core, on_true_tile=made(core, (4, 8), "int32"))
    refused("on_true_tile of type float", nisa.range_select, **integers)
    refused("as many partitions", nisa.range_select, **ranged(core, dst=made(core, (5, 8))))
    refused("as many elements", nisa.range_select, **ranged(core, dst=made(core, (4, 7))))
    refused("SBUF or PSUM", nisa.range_select, **ranged(core, dst=made(core, (4, 8), region="shared_hbm")))


def test_indices_stay_within_2_to_the_24(core):
    nisa.range_select(**ranged(core, range_start=2**24 - 7))
    refused("within 2**24", nisa.range_select, **ranged(core, range_start=2**24 - 6))
    nisa.range_select(**ranged(core, range_start=-(2**24)))
    refused("within 2**24", nisa.range_select, **ranged(core, range_start=-(2**24) - 1))
    with pytest.raises(KernelError, match="an integer for range_start"):
        nisa.range_select(**ranged(core, range_start=0.5))


def test_the_fill_of_range_select_is_the_lowest_float32(core):
    nisa.range_select(**ranged(core, on_false_value=LOWEST))
    for value in (0.0, float("-inf"), -1e38):
        refused("the lowest float32", nisa.range_select, **ranged(core, on_false_value=value))


def test_range_select_reduces_to_the_maximum_and_loads_nothing(core):
    result = made(core, (4, 1), "bfloat16")
    for command in (COMMANDS.reset_reduce, COMMANDS.reduce):
        nisa.range_select(**ranged(core, reduce_cmd=command, reduce_res=result))
    for command in (COMMANDS.idle, COMMANDS.reset):
        nisa.range_select(**ranged(core, reduce_cmd=command))
        unused = ranged(core, reduce_cmd=command, reduce_res=result)
        refused("no reduce_res where nothing is accumulated", nisa.range_select, **unused)
    refused("a reduce_cmd among", nisa.range_select, **ranged(core, reduce_cmd=COMMANDS.load_reduce))
    refused("reduce_op=nl.maximum", nisa.range_select, **ranged(core, reduce_op="add"))
    wide = ranged(core, reduce_res=made(core, (4, 2)))
    refused("one element for each partition", nisa.range_select, **wide)


# select_reduce


def selected(core, **changes):
    operands = {
        "dst": made(core, (4, 8)),
        "predicate": made(core, (4, 8), "uint8"),
        "on_true": made(core, (4, 8)),
        "on_false": 0.0,
    }
    return operands | changes


def test_at_most_one_input_of_select_reduce_is_in_psum(core):
    true = made(core, (4, 8), region="psum")
    predicate = made(core, (4, 8), "uint8", "psum")
    nisa.select_reduce(**selected(core, on_true=true))
    nisa.select_reduce(**selected(core, predicate=predicate))
    nisa.select_reduce(**selected(core, dst=made(core, (4, 8), region="psum")))
    refused(
        "at most one of on_true and predicate in PSUM",
        nisa.select_reduce,
        **selected(core, on_true=true, predicate=predicate),
    )
    hbm = selected(core, on_true=made(core, (4, 8), region="shared_hbm"))
    refused("SBUF or PSUM", nisa.select_reduce, **hbm)


def test_select_reduce_takes_tiles_of_one_size(core):
    for name, dtype in (("dst", "float32"), ("predicate", "uint8")):
        wrong = selected(core, **{name: made(core, (3, 8), dtype)})
        refused(f"as many partitions in {name}", nisa.select_reduce, **wrong)
        wrong = selected(core, **{name: made(core, (4, 9), dtype)})
        refused(f"as many elements per partition in {name}", nisa.select_reduce, **wrong)


@pytest.mark.parametrize("dtype", ["tfloat32", "int32", "uint32"])
def test_select_reduce_does_not_take_wide_integers(core, dtype):
    refused("on_true of type", nisa.select_reduce, **selected(core, on_true=made(core, (4, 8), dtype)))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float8_e4m3", "int16", "uint8", "int8"])
def test_select_reduce_takes_other_types(core, dtype):
    nisa.select_reduce(**selected(core, on_true=made(core, (4, 8), dtype)))


def test_a_predicate_is_an_integer_of_8_or_16_bits(core):
    for dtype in ("int8", "uint8", "int16", "uint16"):
        nisa.select_reduce(**selected(core, predicate=made(core, (4, 8), dtype)))
    for dtype in ("int32", "uint32", "float32"):
        wrong = selected(core, predicate=made(core, (4, 8), dtype))
        refused("predicate of type int8, uint8, int16 or uint16", nisa.select_reduce, **wrong)


def test_the_other_value_of_select_reduce_is_a_number_or_one_for_each_partition(core):
    nisa.select_reduce(**selected(core, on_false=made(core, (4, 1))))
    for shape in ((4, 2), (3, 1)):
        wrong = selected(core, on_false=made(core, shape))
        refused("one element for each partition", nisa.select_reduce, **wrong)
    refused("a float32 on_false", nisa.select_reduce, **selected(core, on_false=-1e300))
    with pytest.raises(KernelError, match="a number or a tensor"):
        nisa.select_reduce(**selected(core, on_false="x"))


def test_select_reduce_reduces_to_the_maximum_of_a_float_type(core):
    result = made(core, (4, 1))
    for command in (COMMANDS.reset_reduce, COMMANDS.reduce):
        nisa.select_reduce(**selected(core, reduce_cmd=command, reduce_res=result))
    for command in (COMMANDS.reset, COMMANDS.load_reduce):
        refused("a reduce_cmd among", nisa.select_reduce, **selected(core, reduce_cmd=command))
    refused("no reduce_res", nisa.select_reduce, **selected(core, reduce_res=result))
    on = {"reduce_cmd": COMMANDS.reset_reduce}
    refused("reduce_op=nl.maximum", nisa.select_reduce, **selected(core, reduce_op="minimum", **on))
    wide = selected(core, reduce_res=made(core, (4, 2)), **on)
    refused("one element for each partition", nisa.select_reduce, **wide)
    integer = selected(core, reduce_res=made(core, (4, 1), "int16"), **on)
    refused("reduce_res of type float", nisa.select_reduce, **integer)


# sequence_bounds


def test_sequence_bounds_takes_one_partition_in_sbuf_of_two_types(core):
    for dtype in ("float32", "int32"):
        nisa.sequence_bounds(made(core, (1, 2, 9), dtype), made(core, (1, 9), dtype))
    refused("one partition", nisa.sequence_bounds, made(core, (1, 2, 9)), made(core, (2, 9)))
    refused("one partition", nisa.sequence_bounds, made(core, (2, 2, 9)), made(core, (1, 9)))
    refused("18 elements per partition", nisa.sequence_bounds, made(core, (1, 9)), made(core, (1, 9)))
    refused("float32 or int32", nisa.sequence_bounds, made(core, (1, 18), "int16"), made(core, (1, 9)))
    refused("float32 or int32", nisa.sequence_bounds, made(core, (1, 18)), made(core, (1, 9), "uint32"))
    psum = made(core, (1, 9), region="psum")
    refused("segment_ids in SBUF", nisa.sequence_bounds, made(core, (1, 18)), psum)
    psum = made(core, (1, 18), region="psum")
    refused("dst in SBUF", nisa.sequence_bounds, psum, made(core, (1, 9)))


def test_partitions_start_where_engines_can_address_them(core):
    whole = made(core, (128, 8))
    nisa.iota(whole[32:64], [[1, 8]])
    refused("a start partition of 0, 32, 64 or 96", nisa.iota, whole[16:32], [[1, 8]])
    refused("a start partition of 0 or 64", nisa.affine_select, whole[32:96], [[1, 8]], 0, whole[:64], 0.0)

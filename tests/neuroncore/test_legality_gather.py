"""Every documented limit of the instructions that gather, shuffle, search and count."""

from __future__ import annotations

import pytest
from single_core import blank, core_of, message

from twintrack.errors import KernelError
from twintrack.nki import isa as nisa


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


# local_gather


def local(core, **changes):
    operands = {
        "dst": made(core, (32, 64)),
        "src_buffer": made(core, (32, 100)),
        "index": made(core, (32, 4), "uint16"),
    }
    return operands | changes


@pytest.mark.parametrize("name", ["dst", "src_buffer", "index"])
def test_local_gather_works_in_sbuf(core, name):
    shapes = {
        "dst": ((32, 64), "float32"),
        "src_buffer": ((32, 100), "float32"),
        "index": ((32, 4), "uint16"),
    }
    nisa.local_gather(**local(core))
    refused(f"{name} in SBUF", nisa.local_gather, **local(core, **{name: made(core, *shapes[name], "psum")}))


def test_local_gather_casts_nothing_and_takes_uint16_indices(core):
    refused(
        "dst of the type of src_buffer", nisa.local_gather, **local(core, dst=made(core, (32, 64), "int32"))
    )
    for dtype in ("uint32", "int16", "float32"):
        refused("index of type uint16", nisa.local_gather, **local(core, index=made(core, (32, 4), dtype)))


def test_local_gather_works_on_whole_gpsimd_cores(core):
    refused(
        "as many partitions in index", nisa.local_gather, **local(core, index=made(core, (16, 8), "uint16"))
    )
    refused("as many partitions in dst", nisa.local_gather, **local(core, dst=made(core, (16, 64))))
    wrong = {
        "dst": made(core, (24, 64)),
        "src_buffer": made(core, (24, 100)),
        "index": made(core, (24, 4), "uint16"),
    }
    refused("a multiple of 16 partitions", nisa.local_gather, **wrong)


def test_elements_per_index_are_a_power_of_two_up_to_32(core):
    for count in (1, 2, 4, 8, 16, 32):
        nisa.local_gather(**local(core, dst=made(core, (32, 64 * count)), num_elem_per_idx=count))
    for count in (0, 3, 64):
        refused("num_elem_per_idx among", nisa.local_gather, **local(core, num_elem_per_idx=count))


def test_valid_indices_are_no_more_than_there_are(core):
    for count in (1, 63, 64):
        nisa.local_gather(**local(core, dst=made(core, (32, count)), num_valid_indices=count))
    for count in (0, 65):
        refused("num_valid_indices from 1", nisa.local_gather, **local(core, num_valid_indices=count))
    refused("62 elements per partition in dst", nisa.local_gather, **local(core, num_valid_indices=62))


def test_at_most_4096_indices_for_a_gpsimd_core(core):
    index = made(core, (32, 257), "uint16")
    nisa.local_gather(**local(core, index=index, dst=made(core, (32, 4096)), num_valid_indices=4096))
    refused("at most 4096 indices", nisa.local_gather, **local(core, index=index))


# nc_n_gather


def test_nc_n_gather_works_in_sbuf_on_uint32_indices(core):
    data, indices = made(core, (4, 2, 9)), made(core, (4, 5), "uint32")
    nisa.nc_n_gather(made(core, (4, 5)), data, indices)
    refused("dst in SBUF", nisa.nc_n_gather, made(core, (4, 5), region="psum"), data, indices)
    refused("data in SBUF", nisa.nc_n_gather, made(core, (4, 5)), made(core, (4, 9), region="psum"), indices)
    psum = made(core, (4, 5), "uint32", "psum")
    refused("indices in SBUF", nisa.nc_n_gather, made(core, (4, 5)), data, psum)
    refused("dst of the type of data", nisa.nc_n_gather, made(core, (4, 5), "bfloat16"), data, indices)
    for dtype in ("uint16", "int32"):
        refused(
            "indices of type uint32", nisa.nc_n_gather, made(core, (4, 5)), data, made(core, (4, 5), dtype)
        )
    refused("as many elements", nisa.nc_n_gather, made(core, (4, 6)), data, indices)
    refused("as many partitions in dst", nisa.nc_n_gather, made(core, (5, 5)), data, indices)
    refused(
        "as many partitions in indices",
        nisa.nc_n_gather,
        made(core, (4, 5)),
        data,
        made(core, (3, 5), "uint32"),
    )


# nc_stream_shuffle


STRAIGHT = list(range(32))


def test_nc_stream_shuffle_takes_one_type_and_size(core):
    tile = made(core, (32, 8))
    nisa.nc_stream_shuffle(made(core, (32, 2, 4), region="psum"), tile, STRAIGHT)
    refused("dst of the type of src", nisa.nc_stream_shuffle, made(core, (32, 8), "int32"), tile, STRAIGHT)
    refused("as many elements", nisa.nc_stream_shuffle, made(core, (32, 9)), tile, STRAIGHT)
    hbm = made(core, (32, 8), region="shared_hbm")
    refused("SBUF or PSUM", nisa.nc_stream_shuffle, hbm, tile, STRAIGHT)


def test_a_shuffle_mask_has_32_partitions_of_a_quadrant(core):
    tile = made(core, (32, 8))
    nisa.nc_stream_shuffle(tile, tile, [255] * 32)
    refused("a shuffle_mask of 32 elements", nisa.nc_stream_shuffle, tile, tile, STRAIGHT[:31])
    for wrong in (32, -1, 256):
        refused(
            f"found {wrong} at 4", nisa.nc_stream_shuffle, tile, tile, [*STRAIGHT[:4], wrong, *STRAIGHT[5:]]
        )
    with pytest.raises(KernelError, match="an integer for an element of shuffle_mask"):
        nisa.nc_stream_shuffle(tile, tile, [0.5] * 32)
    with pytest.raises(KernelError, match="a list of 32 integers"):
        nisa.nc_stream_shuffle(tile, tile, 3)


def test_a_shuffle_takes_only_partitions_that_the_source_has(core):
    small, large = made(core, (1, 8)), made(core, (40, 8))
    nisa.nc_stream_shuffle(made(core, (32, 8)), small, [0] * 32)
    refused("partition 1 (shuffle_mask[1] = 1)", nisa.nc_stream_shuffle, made(core, (32, 8)), small, STRAIGHT)
    nisa.nc_stream_shuffle(made(core, (40, 8)), large, STRAIGHT)
    refused(
        "partition 40 (shuffle_mask[0] = 8)", nisa.nc_stream_shuffle, made(core, (33, 8)), large, [8] * 32
    )


@pytest.mark.parametrize(
    ("count", "good", "bad"),
    [(33, (0, 64), (32,)), (64, (0, 64), (32,)), (65, (0,), ()), (20, (0, 32, 64, 96), (16, 80))],
)
def test_a_shuffle_starts_where_its_active_partitions_may(core, count, good, bad):
    whole, other = made(core, (128, 8)), made(core, (128, 8))
    for start in good:
        nisa.nc_stream_shuffle(whole[start : start + count], other[:count], [0] * 32)
    for start in bad:
        refused(
            "a start partition", nisa.nc_stream_shuffle, whole[start : start + count], other[:count], [0] * 32
        )


def test_the_larger_operand_decides_where_both_start(core):
    whole, other = made(core, (128, 8)), made(core, (128, 8))
    nisa.nc_stream_shuffle(whole[32:64], other[:32], [0] * 32)
    refused(
        "a start partition among [0, 64] for 64 active",
        nisa.nc_stream_shuffle,
        whole[32:64],
        other[:64],
        [0] * 32,
    )
    refused("for 96 active", nisa.nc_stream_shuffle, whole[:96], other[96:128], [0] * 32)


# max8, nc_find_index8, nc_match_replace8


def test_max8_takes_8_to_16384_elements_of_up_to_three_dimensions(core):
    dst = made(core, (4, 8))
    for shape in ((4, 8), (4, 16384), (4, 3, 4)):
        nisa.max8(dst, made(core, shape))
    nisa.max8(dst, made(core, (4, 8), region="psum"))
    for size in (7, 16385):
        refused("8 to 16384 elements", nisa.max8, dst, made(core, (4, size), "int8"))
    refused("1 to 3 dimensions in src", nisa.max8, dst, made(core, (4, 2, 2, 2)))
    refused("SBUF or PSUM", nisa.max8, dst, made(core, (4, 8), region="shared_hbm"))
    refused("numbers in src", nisa.max8, dst, made(core, (4, 8), "float8_e4m3fn_x4"))


def test_max8_writes_eight_elements_of_two_dimensions(core):
    source = made(core, (4, 9))
    refused("8 elements per partition in dst", nisa.max8, made(core, (4, 9)), source)
    refused("as many partitions in dst", nisa.max8, made(core, (5, 8)), source)
    refused("2 dimensions in dst", nisa.max8, made(core, (4, 2, 4)), source)


def test_nc_find_index8_has_limits_for_each_operand(core):
    dst, data, vals = made(core, (4, 8), "uint32"), made(core, (4, 3, 4)), made(core, (4, 2, 4))
    nisa.nc_find_index8(dst, data, vals)
    nisa.nc_find_index8(made(core, (4, 8), "uint16"), made(core, (4, 16384)), vals)
    for size in (7, 16385):
        refused("8 to 16384 elements", nisa.nc_find_index8, dst, made(core, (4, size), "int8"), vals)
    refused("1 to 3 dimensions in data", nisa.nc_find_index8, dst, made(core, (4, 2, 2, 2)), vals)
    refused("1 to 3 dimensions in vals", nisa.nc_find_index8, dst, data, made(core, (4, 2, 2, 2)))
    refused("8 elements per partition in vals", nisa.nc_find_index8, dst, data, made(core, (4, 9)))
    refused("as many partitions in vals", nisa.nc_find_index8, dst, data, made(core, (3, 8)))
    for dtype in ("int32", "uint8", "float32"):
        refused("dst of type uint16 or uint32", nisa.nc_find_index8, made(core, (4, 8), dtype), data, vals)
    refused("8 elements per partition in dst", nisa.nc_find_index8, made(core, (4, 4), "uint32"), data, vals)
    refused("1 to 2 dimensions in dst", nisa.nc_find_index8, made(core, (4, 2, 4), "uint32"), data, vals)


def test_nc_match_replace8_has_limits_for_each_operand(core):
    dst, data, vals = made(core, (4, 12)), made(core, (4, 3, 4)), made(core, (4, 8))
    nisa.nc_match_replace8(dst, data, vals, 0.0, made(core, (4, 2, 4), "uint16"))
    nisa.nc_match_replace8(made(core, (4, 4)), made(core, (4, 4)), vals, float("-inf"))
    large = made(core, (4, 16385), "int8")
    refused("1 to 16384 elements", nisa.nc_match_replace8, large, large, vals, 0.0)
    refused("as many elements", nisa.nc_match_replace8, made(core, (4, 13)), data, vals, 0.0)
    refused("as many partitions in dst", nisa.nc_match_replace8, made(core, (5, 12)), data, vals, 0.0)
    refused("8 elements per partition in vals", nisa.nc_match_replace8, dst, data, made(core, (4, 7)), 0.0)
    deep = made(core, (4, 2, 2, 2))
    refused("1 to 3 dimensions in vals", nisa.nc_match_replace8, dst, data, deep, 0.0)
    six = made(core, (4, 1, 1, 3, 2, 2))
    refused("1 to 5 dimensions in data", nisa.nc_match_replace8, dst, six, vals, 0.0)
    refused("a float32 imm", nisa.nc_match_replace8, dst, data, vals, 1e300)
    with pytest.raises(KernelError, match="a number for imm"):
        nisa.nc_match_replace8(dst, data, vals, dst)
    for dtype in ("int32", "float32"):
        index = made(core, (4, 8), dtype)
        refused("dst_idx of type uint16 or uint32", nisa.nc_match_replace8, dst, data, vals, 0.0, index)
    index = made(core, (4, 4), "uint32")
    refused("8 elements per partition in dst_idx", nisa.nc_match_replace8, dst, data, vals, 0.0, index)


# nonzero_with_count


def test_nonzero_with_count_is_there_from_gen3_on():
    for chip in ("trn2", "trn3"):
        with core_of(chip, values=False) as core:
            nisa.nonzero_with_count(made(core, (32, 9), "int32"), made(core, (32, 8)))
    with core_of("trn1", values=False) as core:
        pair = made(core, (32, 9), "int32"), made(core, (32, 8))
        refused("NeuronCore-v3 or newer", nisa.nonzero_with_count, *pair)


def test_nonzero_with_count_has_limits_for_each_operand(core):
    dst, source = made(core, (32, 9), "int32"), made(core, (32, 8), "int32")
    nisa.nonzero_with_count(dst, source, 2**31 - 1, -(2**31))
    refused("dst in SBUF", nisa.nonzero_with_count, made(core, (32, 9), "int32", "psum"), source)
    refused("src in SBUF", nisa.nonzero_with_count, dst, made(core, (32, 8), region="psum"))
    refused("dst of type int32", nisa.nonzero_with_count, made(core, (32, 9), "uint32"), source)
    for dtype in ("bfloat16", "uint32", "int16"):
        refused("src of type float32 or int32", nisa.nonzero_with_count, dst, made(core, (32, 8), dtype))
    refused("9 elements per partition", nisa.nonzero_with_count, made(core, (32, 8), "int32"), source)
    refused("as many partitions", nisa.nonzero_with_count, made(core, (16, 9), "int32"), source)
    refused("an int32 index_offset", nisa.nonzero_with_count, dst, source, 2**31)
    refused("an int32 padding_val", nisa.nonzero_with_count, dst, source, 0, -(2**31) - 1)


# topk


def top(core, k=8, n=42, **changes):
    operands = {
        "val_dst": made(core, (32, k), "bfloat16"),
        "idx_dst": made(core, (32, k), "uint32"),
        "src": made(core, (32, 3), "bfloat16"),
        "n": n,
    }
    return operands | changes


def test_topk_takes_bfloat16_and_gives_uint32_indices_in_sbuf(core):
    nisa.topk(**top(core))
    for name, shape, dtype in (("val_dst", (32, 8), "bfloat16"), ("src", (32, 3), "bfloat16")):
        refused(f"{name} of type bfloat16", nisa.topk, **top(core, **{name: made(core, shape)}))
        refused(f"{name} in SBUF", nisa.topk, **top(core, **{name: made(core, shape, dtype, "psum")}))
    refused("idx_dst of type uint32", nisa.topk, **top(core, idx_dst=made(core, (32, 8), "int32")))
    refused("idx_dst in SBUF", nisa.topk, **top(core, idx_dst=made(core, (32, 8), "uint32", "psum")))


def test_topk_takes_two_dimensions_of_one_size(core):
    refused("2 dimensions in src", nisa.topk, **top(core, src=made(core, (32, 3, 1), "bfloat16")))
    refused("as many elements", nisa.topk, **top(core, idx_dst=made(core, (32, 7), "uint32")))
    refused("as many partitions in val_dst", nisa.topk, **top(core, val_dst=made(core, (16, 8), "bfloat16")))
    wrong = {
        "val_dst": made(core, (24, 8), "bfloat16"),
        "idx_dst": made(core, (24, 8), "uint32"),
        "src": made(core, (24, 3), "bfloat16"),
        "n": 42,
    }
    refused("a multiple of 16 partitions", nisa.topk, **wrong)


def test_topk_takes_8_to_65535_elements_that_the_source_has(core):
    for n in (8, 48):
        nisa.topk(**top(core, n=n))
    refused("n from 8 to 65535", nisa.topk, **top(core, k=7, n=7))
    wide = made(core, (32, 4096), "bfloat16")
    nisa.topk(**top(core, n=65535, src=wide))
    refused("n from 8 to 65535", nisa.topk, **top(core, n=65536, src=wide))
    refused("at least 4 elements per partition", nisa.topk, **top(core, n=49))


def test_topk_gives_at_most_n_and_fewer_than_32768(core):
    nisa.topk(**top(core, k=10, n=10))
    refused("no more than n (10)", nisa.topk, **top(core, k=11, n=10))
    with core_of("trn3", values=False) as larger:
        wide = made(larger, (16, 2048), "bfloat16")
        values, indices = made(larger, (16, 32768), "bfloat16"), made(larger, (16, 32768), "uint32")
        refused("at most 32767 results", nisa.topk, values, indices, wide, 32768)
        nisa.topk(values[:, :32767], indices[:, :32767], wide, 32768)

"""Views of tensors against NumPy on the same array, and what each method refuses, at the author's line."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twintrack.errors import KernelError
from twintrack.neuroncore.emulator.core import Core
from twintrack.neuroncore.memory.generation import GENERATIONS
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl
from twintrack.nki.context import running
from twintrack.nki.language.creation import ndarray
from twintrack.nki.tensor_index import DynamicSlice


@pytest.fixture(autouse=True)
def core():
    with running(Core(GENERATIONS["trn3"])) as _:
        yield


def pair(shape, dtype="int32", region="shared_hbm"):
    """A tensor and the array of its own memory."""
    made = ndarray(shape, dtype, region)
    array = made.array()
    flat = array.reshape(-1).view(f"u{array.dtype.itemsize}")
    flat[:] = np.random.default_rng(3).integers(
        0, 2 ** (8 * array.dtype.itemsize), flat.size, dtype=flat.dtype
    )
    return made, array


def same(tensor, array):
    assert tensor.shape == array.shape
    found = tensor.array()
    assert found.tobytes() == array.tobytes()
    assert np.shares_memory(found, array) or not array.size


shapes = st.lists(st.integers(1, 5), min_size=2, max_size=4).map(tuple)


@st.composite
def keys(draw, shape, first=0):
    """An index of NumPy's basic kind, with positive steps and no empty slices."""
    key = []
    for size in shape[first:]:
        start = draw(st.integers(0, size - 1))
        stop = draw(st.integers(start + 1, size))
        key.append(
            draw(
                st.sampled_from(
                    (
                        start,
                        start - size,
                        slice(start, stop),
                        slice(start, stop, 2),
                        slice(start - size, None),
                        slice(None),
                    )
                )
            )
        )
    return key


@given(st.data())
@settings(max_examples=40)
def test_indexing_hbm_is_numpy_indexing(data):
    tensor, array = pair(data.draw(shapes))
    key = data.draw(keys(tensor.shape))
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(key)))
        key[at : data.draw(st.integers(at, len(key)))] = [...]
    expected = array[tuple(key)]
    found = tensor[tuple(key)]
    if expected.ndim:
        same(found, expected)
    else:
        assert (found.shape, found.array()[0]) == ((1,), expected)


@given(st.data())
@settings(max_examples=40)
def test_indexing_on_chip_keeps_the_partitions_and_two_dimensions(data):
    tensor, array = pair(data.draw(shapes), region="sbuf")
    key = data.draw(keys(tensor.shape))
    first = key[0]
    if isinstance(first, int):
        key[0] = slice(first, first + 1 if first != -1 else None)
    elif first.step is not None:
        key[0] = first = slice(first.start, first.stop)
    expected = array[tuple(key)]
    same(tensor[(first, *key[1:])], expected if expected.ndim > 1 else expected.reshape(-1, 1))


@given(st.data())
@settings(max_examples=60)
def test_a_cut_that_a_like_tile_had_before_is_numpys_on_each_tile(data):
    """Of several tiles of one form, cut alike and cut again, in SBUF and PSUM, every view is that of its own tile."""
    shape, dtype = data.draw(shapes), data.draw(st.sampled_from(["int32", "bfloat16"]))
    region = data.draw(st.sampled_from(["sbuf", "psum"]))
    if region == "psum":
        dtype = "float32"
    drawn = [data.draw(keys(shape, 1)) for _ in range(3)]
    for _ in range(2):
        tensor, array = pair(shape, dtype, region)
        for key in (*drawn, *drawn):
            cut, expected = tensor[(slice(None), *key)], array[(slice(None), *key)]
            expected = expected if expected.ndim > 1 else expected.reshape(-1, 1)
            same(cut, expected)
            again = (slice(None),) + (slice(0, 1),) * (cut.ndim - 1)
            same(cut[again], expected[again])
            assert cut.signature == type(cut)._view(tensor, cut.shape, cut.strides, cut.offset).signature


@pytest.mark.parametrize(
    ("right", "like"),
    [
        (slice(0, 1), slice(0.0, 1.0)),
        (slice(0, 1), slice(0.0, 1)),
        (slice(0, 1), DynamicSlice(0.0, 1.0)),
        (1, 1.0),
        (slice(0, 2), slice(0, np.float32(2))),
    ],
)
def test_an_index_that_equals_a_right_one_and_is_none_is_refused_also_after_it(right, like):
    for _ in range(2):
        tensor, _ = pair((4, 8), region="sbuf")
        assert tensor[:, right].shape[0] == 4
        with pytest.raises((KernelError, TypeError)):
            tensor[:, like]


@pytest.mark.parametrize("outside", [8, slice(0, 9), slice(4, 4), DynamicSlice(7, 2), -9, slice(5, 3)])
def test_an_index_outside_is_refused_each_time(outside):
    for _ in range(3):
        tensor, _ = pair((4, 8), region="sbuf")
        with pytest.raises(KernelError):
            tensor[:, outside]
        with pytest.raises(KernelError):
            tensor[:, 0:8][:, outside]


def test_nl_ds_is_a_slice_by_its_length():
    tensor, array = pair((6, 8))
    same(tensor[DynamicSlice(2, 3), DynamicSlice(0, 8)], array[2:5])


@given(st.data())
@settings(max_examples=40)
def test_views_of_views_are_numpys(data):
    tensor, array = pair(data.draw(shapes))
    for _ in range(data.draw(st.integers(1, 4))):
        dim = data.draw(st.integers(0, tensor.ndim - 1))
        size = tensor.shape[dim]
        what = data.draw(
            st.sampled_from(("slice", "select", "permute", "expand", "squeeze", "split", "broadcast"))
        )
        if what == "slice":
            start = data.draw(st.integers(0, size - 1))
            end, step = data.draw(st.integers(start + 1, size)), data.draw(st.integers(1, 3))
            tensor = tensor.slice(dim, start, end, step)
            array = array[(slice(None),) * dim + (slice(start, end, step),)]
        elif what == "select" and tensor.ndim > 1:
            at = data.draw(st.integers(0, size - 1))
            tensor, array = tensor.select(dim, at), array[(slice(None),) * dim + (at,)]
        elif what == "permute":
            order = data.draw(st.permutations(range(tensor.ndim)))
            tensor, array = tensor.permute(tuple(order)), array.transpose(order)
        elif what == "expand":
            tensor, array = tensor.expand_dim(dim), np.expand_dims(array, dim)
        elif what == "squeeze" and size == 1 and tensor.ndim > 1:
            tensor, array = tensor.squeeze_dim(dim), array.squeeze(dim)
        elif what == "split" and size % 2 == 0:
            shape = (*tensor.shape[:dim], 2, size // 2, *tensor.shape[dim + 1 :])
            tensor, array = tensor.reshape_dim(dim, (2, -1)), array.reshape(shape)
        elif what == "broadcast" and size == 1:
            tensor = tensor.broadcast(dim, 3)
            array = np.broadcast_to(array, (*array.shape[:dim], 3, *array.shape[dim + 1 :]))
    assert tensor.shape == array.shape
    assert np.array_equal(tensor.array(), array)
    assert tensor.get_pattern() == [[s, n] for s, n in zip(tensor.strides, tensor.shape, strict=True)]
    dense = [(n, s) for n, s in zip(array.shape, array.strides, strict=True) if n != 1]
    expected = all(
        stride == 4 * int(np.prod([n for n, _ in dense[at + 1 :]])) for at, (_, stride) in enumerate(dense)
    )
    assert tensor.is_contiguous() == expected


def without_a_copy(array, shape):
    """NumPy's reshape where it needs no copy, else ``None``."""
    found = array.view()
    try:
        found.shape = shape
    except AttributeError:
        return None
    return found


@given(st.data())
@settings(max_examples=50)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_reshape_is_numpys_where_no_data_moves_and_refused_elsewhere(data):
    tensor, array = pair(
        data.draw(st.lists(st.sampled_from((1, 2, 3, 4)), min_size=2, max_size=4).map(tuple))
    )
    order = data.draw(st.permutations(range(tensor.ndim)))
    tensor, array = tensor.permute(tuple(order)), array.transpose(order)
    cut = data.draw(st.integers(1, tensor.shape[-1]))
    tensor, array = tensor[..., :cut], array[..., :cut]
    sizes, left = [], tensor.size
    while left > 1 and len(sizes) < 4:
        size = data.draw(st.sampled_from([n for n in range(1, left + 1) if left % n == 0]))
        sizes.append(size)
        left //= size
    sizes.append(left)
    expected = without_a_copy(array, tuple(sizes))
    if expected is None:
        with pytest.raises(KernelError, match="read from without a copy"):
            tensor.reshape(tuple(sizes))
    else:
        same(tensor.reshape(tuple(sizes)), expected)


def test_one_size_of_a_reshape_may_be_inferred():
    tensor, array = pair((4, 6))
    same(tensor.reshape((2, -1, 3)), array.reshape(2, -1, 3))


def test_flattening_merges_dense_dimensions():
    tensor, array = pair((3, 2, 4, 5))
    same(tensor.flatten_dims(1, 2), array.reshape(3, 8, 5))
    same(tensor[:, :, ::2].flatten_dims(0, 1), array[:, :, ::2].reshape(6, 2, 5))
    same(tensor.flatten_dims(-2, -1), array.reshape(3, 2, 20))


def einops(array, source, target, sizes):
    """Split, transpose and merge by name, from the plain meaning of the patterns."""
    groups = [(one,) if isinstance(one, str) else one for one in source]
    known = dict(sizes)
    for size, group in zip(array.shape, groups, strict=True):
        rest = [name for name in group if name not in known]
        if rest:
            known[rest[0]] = size // int(np.prod([known[name] for name in group if name != rest[0]]))
    names = list(itertools.chain(*groups))
    wanted = [(one,) if isinstance(one, str) else one for one in target]
    split = array.reshape([known[name] for name in names])
    moved = split.transpose([names.index(name) for name in itertools.chain(*wanted)])
    return moved.reshape([int(np.prod([known[name] for name in group])) for group in wanted])


@pytest.mark.parametrize(
    ("source", "target", "sizes"),
    [
        (("b", ("h", "w")), ("b", "w", "h"), {"h": 4}),
        ((("a", "b"), ("h", "w")), ("b", "a", "h", "w"), {"a": 2, "w": 6}),
        (("b", ("h", "w", "c")), ("c", "b", ("h", "w")), {"h": 2, "w": 3}),
        (("b", "x"), ("x", "b"), {}),
        (("b", "x"), (("b", "x"),), {"b": 6}),
    ],
)
def test_rearranging_splits_reorders_and_merges_by_name(source, target, sizes):
    tensor, array = pair((6, 24))
    found = tensor.rearrange(source, target, sizes)
    expected = einops(array, source, target, sizes)
    assert found.shape == expected.shape
    assert np.array_equal(found.array(), expected)


@given(
    base=st.integers(0, 3),
    offset=st.none() | st.integers(0, 20),
    pattern=st.lists(st.tuples(st.integers(-3, 9), st.integers(1, 4)), min_size=1, max_size=4),
)
@settings(max_examples=50)
def test_an_access_pattern_is_as_strided_over_the_whole_buffer_from_the_views_offset(base, offset, pattern):
    tensor, array = pair((8, 16))
    start = base * 16 + (offset or 0)
    spans = [(count - 1) * step for step, count in pattern]
    low, high = (start + sum(min(one, 0) for one in spans), start + sum(max(one, 0) for one in spans))
    if low < 0 or high >= 128:
        with pytest.raises(KernelError, match="inside the buffer's 128 elements"):
            tensor[base:, ::2].ap(pattern, offset)
        return
    found = tensor[base:, ::2].ap(pattern, offset)
    strides = [4 * step for step, _ in pattern]
    expected = np.lib.stride_tricks.as_strided(array.reshape(-1)[start:], [n for _, n in pattern], strides)
    assert np.array_equal(found.array(), expected)


WIDTHS = (
    "uint8",
    "int16",
    "bfloat16",
    "float32",
    "int32",
    "float8_e5m2",
    "float8_e4m3fn_x4",
    "float4_e2m1fn_x4",
)


@pytest.mark.parametrize("old", WIDTHS)
@pytest.mark.parametrize("new", WIDTHS)
def test_a_view_as_another_type_is_numpys_view(old, new):
    tensor, array = pair((4, 8), old, "sbuf")
    found = tensor[1:, 4:].view(new)
    same(found, array[1:, 4:].view(found.dtype.stored))
    assert found.dtype == new


def test_a_new_tensor_over_a_storage_fills_it():
    tensor, array = pair((4, 8))
    same(type(tensor)((8, 4), tensor.dtype, tensor.storage), array.reshape(8, 4))
    with pytest.raises(KernelError, match="a shape and type of 128 bytes"):
        type(tensor)((8, 5), tensor.dtype, tensor.storage)


def tile(shape=(32, 4, 6), dtype="float32"):
    return ndarray(shape, dtype, "sbuf")


def hbm(shape=(32, 4, 6)):
    return ndarray(shape, "float32", "shared_hbm")


def index(shape=(32, 1), dtype="int32"):
    made = ndarray(shape, dtype, "sbuf")
    nisa.memset(made, 0)
    return made


def gathered():
    return hbm().vector_select(0, index((16, 1)))


REFUSED = [
    (lambda: tile()[32], "an index inside the 32 elements of dimension 0", "32"),
    (lambda: tile()[0, -5], "an index inside the 4 elements of dimension 1", "-5"),
    (lambda: tile()[0:33], "a slice inside the 32 elements of dimension 0", "0:33"),
    (lambda: tile()[:, 3:3], "a slice inside the 4 elements of dimension 1", "3:3"),
    (lambda: tile()[:, ::-1], "a slice with a positive step", "step -1"),
    (lambda: tile()[0:32:2], "adjacent partitions on chip", "one in every 2"),
    (lambda: tile()[0, 0, 0, 0], "at most 3 indices", "4"),
    (lambda: tile()[..., 0, ...], "one ... in an index", "2"),
    (lambda: tile()[:, 1.5], "an integer, a slice, ... or nl.ds as an index", "float"),
    (lambda: tile()[:, 0 : nisa.register_alloc(1)], "a number known when the kernel is traced", "register"),
    (lambda: tile().slice(1, 2, 5), "0 <= start < end <= 4 and step >= 1", "start=2, end=5"),
    (lambda: tile().slice(3, 0, 1), "a dimension from 0 to 2", "3"),
    (lambda: tile().slice(0, 0, 8, 2), "adjacent partitions on chip", "one in every 2"),
    (lambda: tile().select(1, 4), "an index from 0 below 4", "4"),
    (lambda: tile().select(0, index((1, 1))), "a free dimension for a dynamic select on chip", "dimension 0"),
    (lambda: hbm().select(0, index((2, 1))), "one index, of shape (1, 1),", "[2, 1]"),
    (
        lambda: hbm().select(0, 1.5),
        "a whole number for index of select, or a tensor in SBUF or a register",
        "1.5",
    ),
    (lambda: hbm().select(0, index((1, 1), "float32")), "an integer tensor in SBUF as an index", "float32"),
    (lambda: hbm().select(0, index((1, 1))).select(0, index((1, 1))), "one dynamic selection", "a second"),
    (lambda: tile().vector_select(0, index()), "dimension 0 of an HBM tensor", "in sbuf"),
    (lambda: hbm().vector_select(1, index()), "dimension 0 of an HBM tensor", "dimension 1"),
    (lambda: gathered()[1:], "the indirect dimension whole", "an index into it"),
    (lambda: gathered().slice(0, 0, 2), "a dimension without indirection for slice", "the indirect one"),
    (lambda: gathered().select(0, 0), "a dimension without indirection for select", "the indirect one"),
    (lambda: gathered().permute((1, 0, 2)), "the gathered dimension to stay in front in permute", "moved"),
    (lambda: gathered().expand_dim(0), "the gathered dimension to stay in front in expand_dim", "moved"),
    (
        lambda: gathered().flatten_dims(0, 1),
        "the gathered dimension to stay in front in flatten_dims",
        "moved",
    ),
    (lambda: gathered().reshape((4, 4, 24)), "the gathered dimension to stay in front in reshape", "moved"),
    (lambda: gathered().view(nl.uint8), "a view with a static address", "an indirect one"),
    (lambda: tile().permute((0, 1)), "a permutation of 0 to 2", "(0, 1)"),
    (lambda: tile().permute((1, 0, 2)), "the partition dimension to stay as it is in permute", "dimension 0"),
    (lambda: tile().broadcast(1, 3), "size 1 in dimension 1", "4"),
    (lambda: tile((1, 4)).broadcast(0, 3), "the partition dimension to stay as it is", "dimension 0"),
    (lambda: tile().expand_dim(0), "the partition dimension to stay as it is in expand_dim", "dimension 0"),
    (lambda: tile().expand_dim(4), "a position from 0 to 3", "4"),
    (lambda: tile().squeeze_dim(1), "size 1 in dimension 1", "4"),
    (lambda: tile((1, 4)).squeeze_dim(0), "the partition dimension to stay as it is", "dimension 0"),
    (lambda: tile().reshape_dim(0, (2, 16)), "the partition dimension to stay as it is", "dimension 0"),
    (lambda: tile().reshape_dim(1, (3, 2)), "sizes whose product is 4", "[3, 2]"),
    (lambda: tile().reshape_dim(1, (-1, -1)), "sizes whose product is 4", "[-1, -1]"),
    (lambda: tile().flatten_dims(0, 1), "the partition dimension to stay as it is", "dimension 0"),
    (lambda: tile().flatten_dims(2, 1), "start_dim <= end_dim", "2 and 1"),
    (lambda: tile()[:, :, :3].flatten_dims(1, 2), "dimensions 1 to 2 to lie densely", "[6, 1]"),
    (lambda: tile().reshape((16, 48)), "the partition dimension to stay as it is in reshape", "dimension 0"),
    (lambda: tile().reshape((32, 5)), "sizes whose product is 768", "[32, 5]"),
    (lambda: tile()[:, :, :3].reshape((32, 12)), "a layout that shape [32, 12]", "[6, 1]"),
    (lambda: tile().rearrange(("p", "a"), ("p", "a")), "patterns of 3 dimensions", "('p', 'a')"),
    (lambda: tile().rearrange(("p", "a", "b"), ("p", "a")), "patterns of 3 dimensions", "('p', 'a')"),
    (lambda: tile().rearrange(("p", "a", "b"), ("p", "a", "b"), {"c": 2}), "sizes of named", "['c']"),
    (lambda: tile().rearrange(("p", "a", "b"), ("p", "a", "b"), {"a": 2}), "size 4 for a", "2"),
    (lambda: tile().ap([[48, 16], [1, 24]]), "a partition stride of 24", "48"),
    (lambda: tile().ap([[24, 32], [1, 25]]), "inside the buffer's 768 elements", "768"),
    (lambda: tile().ap([[24, 8], [1, 25]]), "inside the 24 elements of a partition", "0 to 24"),
    (lambda: tile().ap([[24, 8, 1]]), "pairs", "[24, 8, 1]"),
    (
        lambda: tile().ap([[24, 8], [1, 4]], scalar_offset=index((1, 1))),
        "a free dimension for scalar_offset",
        "dim",
    ),
    (lambda: tile().ap([[24, 8], [1, 4]], vector_offset=index()), "dimension 0 of an HBM tensor", "sbuf"),
    (
        lambda: hbm().ap([[24, 8], [1, 4]], scalar_offset=index((1, 1)), vector_offset=index()),
        "scalar_offset or vector_offset",
        "both",
    ),
    (lambda: tile()[:, :, ::2].view(nl.uint8), "a dense last dimension", "stride 2"),
    (lambda: tile((4, 3), "uint8").view(nl.float32), "whole 4-byte elements", "3 bytes"),
    (lambda: tile((4, 8), "uint8")[:, 2:6].view(nl.float32), "whole 4-byte elements", "from byte 2"),
    (lambda: tile().view("float64"), "an element type of nki.language", "float64"),
    (lambda: hbm().indirect(index()), "SBUF or PSUM for .indirect", "shared_hbm"),
    (lambda: tile()[:, :, :3].indirect(index()), "dense in each partition", "gaps"),
    (lambda: tile().indirect(index((16, 1))), "an index of shape (32, K)", "[16, 1]"),
    (lambda: tile().indirect(index(), 33), "num_elem from 1 to 32", "33"),
    (lambda: tile().indirect(index()).reshape((32, 8, 4)), "without indirection for reshape", "indirect"),
    (lambda: tile().indirect(index())[:, 2:], "the indirect dimension whole", "an index into it"),
]


@pytest.mark.parametrize(
    ("make", "required", "found"), REFUSED, ids=[f"{at}-{r[1]}" for at, r in enumerate(REFUSED)]
)
def test_a_view_that_cannot_be_made_is_refused_at_the_authors_line(make, required, found):
    with pytest.raises(KernelError) as caught:
        make()
    said = str(caught.value)
    assert required in said, said
    assert found in said.split(required, 1)[1], said
    assert f"{__file__}:{make.__code__.co_firstlineno}" in said or __file__ in said


def test_tensor_indirection_is_refused_before_neuroncore_v4():
    with (
        running(Core(GENERATIONS["trn2"])),
        pytest.raises(KernelError, match=r"NeuronCore-v4 for \.indirect"),
    ):
        tile().indirect(index())


def test_a_narrow_float_has_no_bits_without_precise_floating_point():
    with running(Core(GENERATIONS["trn2"], precise=False)):
        with pytest.raises(KernelError, match="NKI_PRECISE_FP=1"):
            tile((4, 4), "bfloat16").view(nl.uint8)
        assert tile((4, 4), "int32").view(nl.uint8).shape == (4, 16)


def test_a_tensor_tells_what_it_is():
    made = ndarray((32, 4), "bfloat16", "psum", name="sums")
    assert (made.ndim, made.size, len(made), made.name, str(made.buffer)) == (2, 128, 32, "sums", "psum")
    assert bool(made)
    assert not made.is_indirect()
    assert gathered().is_indirect()
    assert "'sums' psum [32, 4] bfloat16" in repr(made)


def test_assignment_copies_by_the_instruction_that_serves():
    array = np.arange(300 * 3, dtype=np.float32).reshape(300, 3)
    out = ndarray((300, 3), "float32", "shared_hbm")
    out[...] = 2.5
    assert (out.array() == 2.5).all()
    on_chip, psum = tile((128, 3)), ndarray((128, 3), "float32", "psum")
    source = hbm((300, 3))
    source.array()[...] = array
    nisa.dma_copy(source, out)
    source.array()[...] = array
    psum[...] = source[:128]
    on_chip[...] = psum
    out[128:256] = on_chip
    out[:128] = psum
    out[256:, 1] = source[0:44, 2]
    assert np.array_equal(out.array()[:128], array[:128])
    assert np.array_equal(out.array()[128:256], array[:128])
    assert np.array_equal(out.array()[256:, 1], array[:44, 2])
    assert (out.array()[256:, 0] == 2.5).all()
    on_chip[:, 1:2] = 7
    assert (on_chip.array()[:, 1] == 7).all()


def test_hbm_larger_than_a_tile_is_filled_in_parts():
    wide = ndarray((2, 3, 70_000), "float32", "shared_hbm")
    wide[...] = 1
    assert (wide.array() == 1).all()
    with pytest.raises(KernelError, match="a number known when the kernel is traced"):
        wide[...] = "one"


def test_as_many_slices_as_anyone_cuts_are_right_though_not_all_are_remembered(monkeypatch):
    monkeypatch.setattr("twintrack.neuroncore.memory.view._MOST_REMEMBERED", 3)
    for _ in range(2):
        tensor, array = pair((4, 16), region="sbuf")
        for start in range(16):
            same(tensor[:, start:][:, 0:1], array[:, start : start + 1])

"""Arrays into a kernel and out of it: every kind, layout and container, compared with NumPy on the same data."""

import dataclasses
from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from twintrack import nki
from twintrack.errors import KernelError
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl
from twintrack.nki.arrays import Shape


@nki.jit
def copied(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, x)
    return out


@nki.jit
def zeroed(x):
    """Writes to its argument."""
    nisa.dma_copy(x[0:1], nl.zeros((1, *x.shape[1:]), x.dtype))


def refused(kernel, *args, **options):
    with pytest.raises(KernelError) as error:
        nki.simulate(kernel).with_options(**options)(*args)
    return str(error.value)


BASE = np.arange(48, dtype=np.float32).reshape(6, 8)
LAYOUTS = {
    "dense": lambda a: a.copy(),
    "transposed": lambda a: np.ascontiguousarray(a.T).T,
    "fortran": np.asfortranarray,
    "every second row": lambda a: np.repeat(a, 2, axis=0)[::2],
    "reversed": lambda a: np.ascontiguousarray(a[::-1])[::-1],
    "other byte order": lambda a: a.astype(a.dtype.newbyteorder()),
    "part of a larger": lambda a: np.pad(a, 2)[2:-2, 2:-2],
}

# NumPy


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint8", "int16"])
def test_values_of_every_layout_arrive(layout, dtype):
    given_ = LAYOUTS[layout](BASE.astype(dtype))
    assert (copied(given_) == BASE.astype(dtype)).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_a_kernel_writes_to_an_argument_is_in_the_callers_array(layout):
    given_ = LAYOUTS[layout](BASE)
    zeroed(given_)
    assert (given_[0] == 0).all()
    assert (given_[1:] == BASE[1:]).all()


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3", "float8_e4m3fn", "float8_e5m2"])
def test_narrow_floats_of_ml_dtypes_arrive_and_are_written_back_also_unrounded(name):
    dtype = np.dtype(getattr(ml_dtypes, name))
    values = BASE.astype(dtype)
    assert copied(values).dtype == dtype
    assert (copied(values) == values).all()
    for precise in (True, False):
        given_ = values.copy()
        nki.simulate(zeroed).with_options(precise=precise)(given_)
        assert (given_[0] == 0).all()
        assert (given_[1:] == values[1:]).all()


def test_booleans_arrive_and_leave_as_booleans():
    given_ = BASE % 3 == 0
    assert copied(given_).dtype == np.bool_
    assert (copied(given_[:, ::2]) == given_[:, ::2]).all()


def test_a_read_only_array_may_be_read_and_not_written():
    given_ = BASE.copy()
    given_.flags.writeable = False
    assert (copied(given_) == BASE).all()
    assert refused(zeroed, given_) == (
        "x: required a writable array for an argument that the kernel writes to, found one that is read-only; "
        "pass a copy, such as numpy.array(x), and read the result from it"
    )


def test_an_array_without_dimensions_is_one_element_and_is_written_back():
    given_ = np.array(3.0, np.float32)
    assert copied(given_).tolist() == [3.0]
    zeroed(given_)
    assert given_ == 0


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (
            np.zeros((2, 2)),
            "x: required an array of a type that NKI has, found float64; convert it to float32",
        ),
        (
            np.zeros(2, np.int64),
            "x: required an array of a type that NKI has, found int64; convert it to int32",
        ),
        (np.zeros(2, np.complex64), "found complex64; convert it to one of bool, int8"),
        (np.zeros(2, "U3"), "found <U3; convert it to one of"),
        (
            np.zeros((0, 4), np.float32),
            "x: required arrays with elements, found shape [0, 4]; pass a larger array",
        ),
        (torch.zeros(2, dtype=torch.float64), "found torch.float64; convert it to float32"),
        (torch.zeros(2, device="meta"), "x: required tensors on the cpu, found one on meta"),
        (torch.eye(2).to_sparse(), "x: required dense tensors, found one of torch.sparse_coo"),
        (Shape((2, 2)), "x: required arrays where values are computed, found the shape [2, 2] alone"),
    ],
)
def test_what_cannot_be_an_argument_is_refused_with_a_remedy(array, said):
    assert said in refused(copied, array)


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.permutations(range(4)),
    st.lists(st.integers(1, 3), min_size=4, max_size=4),
)
def test_any_shape_order_and_step_arrives(shape, order, steps):
    big = np.arange(np.prod([s * t for s, t in zip(shape, steps, strict=False)]), dtype=np.int32)
    big = big.reshape([s * t for s, t in zip(shape, steps, strict=False)])
    axes = [at for at in order if at < len(shape)]
    view = big[tuple(slice(None, None, step) for step, _ in zip(steps, shape, strict=False))].transpose(axes)
    assert (copied(view) == view).all()


# aliasing


def test_one_array_given_twice_is_one_tensor():
    @nki.jit
    def kernel(a, b):
        nisa.dma_copy(a, nl.zeros(a.shape, a.dtype))
        out = nl.ndarray(b.shape, b.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, b)
        return out

    x = BASE.copy()
    assert (kernel(x, x) == 0).all()
    t = torch.ones(4, 4)
    assert (kernel(t, t) == 0).all()


@nki.jit
def first_zeroed(a, b):
    out = nl.ndarray(b.shape, b.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, b)
    nisa.dma_copy(a, nl.zeros(a.shape, a.dtype))
    return out


def test_overlapping_views_of_one_array_may_be_read_but_not_written():
    @nki.jit
    def both(a, b):
        out = nl.ndarray((2, 4, 8), a.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out[0], a)
        nisa.dma_copy(out[1], b)
        return out

    x = BASE.copy()
    assert (both(x[:4], x[2:]) == np.stack([BASE[:4], BASE[2:]])).all()
    assert refused(first_zeroed, x[:4], x[2:]) == (
        "a: required an argument that the kernel writes to, with memory of its own, found memory shared with b; "
        "pass a copy, or the whole array once and slice it in the kernel"
    )


def test_views_that_share_no_element_may_be_written():
    x = BASE.copy()
    first_zeroed(x[:, ::2], x[:, 1::2])
    assert (x[:, ::2] == 0).all()
    assert (x[:, 1::2] == BASE[:, 1::2]).all()


def test_a_result_never_shares_memory_with_an_argument():
    @nki.jit
    def same(x):
        return x

    x = BASE.copy()
    result = same(x)
    assert (result == x).all()
    assert not np.shares_memory(result, x)


# torch

_TORCH = [
    torch.float32,
    torch.bfloat16,
    torch.float16,
    torch.float8_e5m2,
    torch.float8_e4m3fn,
    torch.int32,
    torch.bool,
]


@pytest.mark.parametrize("dtype", _TORCH, ids=str)
def test_torch_tensors_come_back_as_torch_tensors_of_their_type(dtype):
    x = torch.from_numpy(BASE % 5).to(dtype)
    result = copied(x)
    assert result.dtype == dtype
    assert (result.float() == x.float()).all()
    assert (copied(x.T).float() == x.T.float()).all()


def test_torch_tensors_are_written_in_place_also_transposed_ones_and_parameters():
    x = torch.from_numpy(BASE.copy()).to(torch.bfloat16)
    zeroed(x.T)
    assert (x[:, 0] == 0).all()
    weight = torch.nn.Parameter(torch.ones(4, 4))
    zeroed(weight)
    assert (weight[0] == 0).all()
    assert not copied(weight).requires_grad


def test_two_temporary_tensors_are_not_taken_for_one():
    """Their memory may be the same, one after the other, so each is kept until the launch ends."""

    @nki.jit
    def joined(a, b, c):
        out = nl.ndarray((3, 4, 4), a.dtype, buffer=nl.shared_hbm)
        for at, one in enumerate((a, b, c)):
            nisa.dma_copy(out[at], one)
        return out

    made = [torch.full((4, 4), float(n)).T for n in range(3)]
    assert joined(*(one + 0 for one in made))[:, 0, 0].tolist() == [0.0, 1.0, 2.0]


# JAX


def test_jax_arrays_come_back_as_jax_arrays_and_cannot_be_written():
    jax = pytest.importorskip("jax")
    x = jax.numpy.asarray(BASE, dtype="bfloat16")
    result = copied(x)
    assert isinstance(result, jax.Array)
    assert result.dtype == x.dtype
    assert (result == x).all()
    assert "found one that is read-only" in refused(zeroed, x)


# containers


class Pair(NamedTuple):
    first: object
    second: object


@dataclasses.dataclass(frozen=True)
class Weights:
    scale: float
    matrix: object
    more: tuple = ()


class Config(nl.NKIObject):
    def __init__(self, x, n):
        self.x = x
        self.n = n


@nki.jit
def summed(arrays, n=2):
    found = []
    for one in arrays:
        tile = nl.ndarray(one.shape, one.dtype)
        nisa.dma_copy(tile, one)
        found.append(tile)
    for other in found[1:n]:
        nisa.tensor_tensor(found[0], found[0], other, nl.add)
    out = nl.ndarray(found[0].shape, found[0].dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, found[0])
    return out


@pytest.mark.parametrize(
    "make",
    [
        lambda a, b: (a, b),
        lambda a, b: [a, b],
        lambda a, b: Pair(a, b),
        lambda a, b: {"a": a, "b": b}.values(),
    ],
    ids=["tuple", "list", "named tuple", "values"],
)
def test_arrays_in_sequences_are_taken(make):
    arrays = make(BASE, 2 * BASE)
    expected = 3 * BASE
    assert (summed(arrays if not hasattr(arrays, "mapping") else tuple(arrays)) == expected).all()


def test_arrays_in_dictionaries_dataclasses_and_objects_are_taken_and_other_values_left():
    @nki.jit
    def kernel(table, weights, config, nothing):
        assert nothing is None
        assert (weights.scale, config.n) == (0.5, 7)
        return table["x"], [weights.matrix, {"deep": weights.more[0]}], Pair(config.x, table["k"])

    config = Config(BASE + 3, 7)
    weights = Weights(0.5, BASE + 1, (BASE + 2,))
    x, (matrix, deep), pair = kernel({"x": BASE, "k": "word"}, weights, config, None)
    for result, expected in ((x, BASE), (matrix, BASE + 1), (deep["deep"], BASE + 2), (pair.first, BASE + 3)):
        assert (result == expected).all()
    assert pair.second == "word"
    assert weights.matrix[0, 0] == 1  # the caller's records are left alone
    assert isinstance(config.x, np.ndarray)


def test_a_container_without_arrays_is_the_callers_own():
    seen = []

    @nki.jit
    def kernel(x, sizes):
        seen.append(sizes)
        return copied(x)

    sizes = {"m": [1, 2]}
    kernel(BASE, sizes)
    assert seen[0] is sizes


def test_an_array_inside_a_container_is_named_by_its_place():
    said = refused(summed, [BASE, np.zeros(3)])
    assert said.startswith("arrays[1]: required an array of a type that NKI has, found float64")


def test_arrays_in_a_container_are_written_back():
    @nki.jit
    def kernel(state):
        zeroed(state["x"])

    state = {"x": np.asfortranarray(BASE)}
    kernel(state)
    assert (state["x"][0] == 0).all()


# what comes back


def test_an_output_that_was_never_or_only_partly_written_is_refused_with_its_place():
    @nki.jit
    def never(x):
        return nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name="out")

    @nki.jit
    def partly(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((4, 8), x.dtype)
        nisa.dma_copy(tile, x[0:4])
        nisa.dma_copy(out[0:4], tile)
        return out

    assert "found nothing written of 'out' shared_hbm [6, 8] float32" in refused(never, BASE)
    assert "found element [4, 0] never written of shared_hbm [6, 8]" in refused(partly, BASE)


def test_a_written_part_of_an_output_may_be_returned():
    @nki.jit
    def kernel(x):
        out = nl.ndarray((8, 8), x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out[0:6], x)
        return out[0:6, 2:5]

    assert (kernel(BASE) == BASE[:, 2:5]).all()


def test_a_tile_on_chip_cannot_be_returned():
    @nki.jit
    def kernel(x):
        tile = nl.ndarray(x.shape, x.dtype)
        nisa.dma_copy(tile, x)
        return tile

    assert "required an output in HBM, found one in sbuf" in refused(kernel, BASE)


def test_without_values_shapes_come_back():
    result = nki.simulate(copied).with_options(values=False)(Shape((4, 8), "bfloat16"))
    assert (result.dims, result.dtype) == ((4, 8), "bfloat16")

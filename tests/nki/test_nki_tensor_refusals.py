"""What Python and NumPy offer for arrays is refused on tensors, naming what to use; the older dialect has operators."""

import operator
import re

import numpy as np
import pytest

from twintrack import nki
from twintrack.errors import KernelError
from twintrack.neuroncore.emulator.core import Core
from twintrack.neuroncore.memory.generation import GENERATIONS
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl
from twintrack.nki import legacy
from twintrack.nki.context import running
from twintrack.nki.legacy import language as older


def said(body, *shape, buffer=nl.sbuf):
    with running(Core(GENERATIONS["trn2"])), pytest.raises(KernelError) as caught:
        body(nl.ndarray(shape or (8, 16), nl.float32, buffer=buffer))
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{__file__}:")
    return str(caught.value)


@pytest.mark.parametrize(
    "op",
    [
        operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
        operator.matmul, operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift, operator.lt,
        operator.le, operator.gt, operator.ge,
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "other", [2, 2.0, np.float32(2), np.int32(2), "tensor", np.ones((8, 16), np.float32)]
)
def test_operators_are_refused_on_both_sides_with_a_function_that_is_there(op, other):
    for body in (
        lambda t: op(t, t if isinstance(other, str) else other),
        lambda t: op(t if isinstance(other, str) else other, t),
    ):
        found = said(body)
        names = re.findall(r"nl\.(\w+)", found) + re.findall(r"nisa\.(\w+)", found)
        assert names
        assert all(hasattr(nl, name) or hasattr(nisa, name) for name in names)


def test_operators_of_one_operand_and_in_place_are_refused():
    assert "call nl.negative" in said(operator.neg)
    assert "call nl.abs" in said(abs)
    assert "call nl.invert" in said(operator.invert)
    found = said(lambda t: operator.iadd(t, 1))
    assert "found the operator + for " in found
    assert found.endswith("operators on tiles are of the dialect until 2.26: import neuronxcc.nki")


def test_a_tensor_still_is_none_equal_or_in_a_list_only_by_identity():
    with running(Core(GENERATIONS["trn2"])):
        a, b = (nl.ndarray((8, 16), nl.float32) for _ in range(2))
        assert a != b
        assert not (a == None)  # noqa: E711, SIM201 - kernels write it so
        assert b in [a, b]
        assert {a: 1}[a] == 1


@pytest.mark.parametrize(
    ("ufunc", "name"),
    [
        (np.exp, "exp"),
        (np.maximum, "maximum"),
        (np.absolute, "abs"),
        (np.true_divide, "divide"),
        (np.rint, None),
    ],
)
def test_numpys_functions_are_refused_with_ours_of_that_name(ufunc, name):
    found = said(lambda t: ufunc(*[t] * ufunc.nin))
    if name and hasattr(nl, name):
        assert found.endswith(f"; call nl.{name}")
    assert f"found numpy.{ufunc.__name__} for " in found
    assert said(np.sum).endswith("; call nl.sum")


@pytest.mark.parametrize(
    "body",
    [
        lambda t: np.asarray(t),
        lambda t: np.array([t]),
        lambda t: np.stack([t, t]),
        lambda t: np.testing.assert_allclose(t, 0),
        lambda t: nl.shared_constant(t),
    ],
    ids=["asarray", "list", "stack", "allclose", "constant"],
)
def test_a_tensor_is_no_array(body):
    assert "found a tensor for " in said(body)


@pytest.mark.parametrize(
    "body",
    [
        lambda t: [row + 1 for row in t],
        lambda t: list(t),
        lambda t: [*t],
        lambda t: list(zip(t, t, strict=True)),
    ],
)
def test_a_tensor_is_no_sequence(body):
    for buffer in (nl.sbuf, nl.shared_hbm):
        assert "; write `for i in nl.affine_range(8):` and take tensor[i]" in said(body, buffer=buffer)


@pytest.mark.parametrize("kind", [int, float])
def test_a_tensor_is_no_number(kind):
    assert f"for {kind.__name__}(), found a tensor" in said(kind, 1, 1)


# indices


def test_the_remedy_of_a_negative_step_is_the_tensor_reversed():
    @nki.jit
    def reversed_by(x, call):
        t, u = nl.load(x), nl.ndarray(x.shape, x.dtype)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.tensor_copy(u, eval("t" + call, {"t": t}))  # noqa: S307 - our own message
        nisa.dma_copy(out, u)
        return out

    found = said(lambda t: t[:, ::-1])
    assert "required a slice with a positive step, found step -1" in found
    x = np.arange(128, dtype=np.float32).reshape(8, 16)
    assert np.array_equal(reversed_by(x, re.search(r"\.ap\(.*\)$", found)[0]), x[:, ::-1])
    assert "nisa.nc_stream_shuffle" in said(lambda t: t[::-1])
    assert "found step -2" in said(lambda t: t[:, ::-2])


@pytest.mark.parametrize("key", [None, (None, 0), (None, slice(None), slice(None)), (..., None), (0, None)])
def test_a_new_dimension_is_not_made_by_none(key):
    found = said(lambda t: t[key])
    assert "found None, a new dimension" in found
    assert found.endswith("; use .expand_dim(dim)")


@pytest.mark.parametrize("key", [[0, 1], (slice(None), [0, 1]), np.array([0, 1]), ((0, 1), 0)])
def test_a_list_of_indices_is_to_be_gathered(key):
    found = said(lambda t: t[key])
    assert "a list of indices" in found
    assert "nisa.nc_n_gather" in found
    assert "a list of indices" in said(lambda t: t[:, t])


@pytest.mark.parametrize("step", [2, 3, 4, 21])
def test_skipped_partitions_are_counted_in_words_that_fit_every_number(step):
    assert f"found one in every {step} of them" in said(lambda t: t[0:64:step], 64, 4)


def test_integers_of_numpy_are_still_indices():
    with running(Core(GENERATIONS["trn2"])):
        t = nl.ndarray((8, 16), nl.float32)
        assert t[np.int64(3), np.array(5)].shape == (1, 1)


# the older dialect


def test_tiles_of_the_older_dialect_compute_with_numbers_of_python_and_numpy_on_both_sides():
    x = np.arange(1, 17, dtype=np.float32).reshape(2, 8)

    @legacy.jit
    def kernel(a):
        t = older.load(a)
        return (np.float32(2) * t + 1 - t / 2) * (3 - t) - np.float32(1)

    assert np.allclose(kernel(x), (2 * x + 1 - x / 2) * (3 - x) - 1)


def test_tiles_of_the_older_dialect_are_no_sequences_either():
    @legacy.jit
    def kernel(a):
        return [row + 1 for row in older.load(a)]

    with pytest.raises(KernelError, match="a loop over it"):
        kernel(np.ones((2, 8), np.float32))

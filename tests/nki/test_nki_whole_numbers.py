"""Indices and arguments of tensors are whole numbers, of whatever class; anything else is refused in one way."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from twintrack.errors import KernelError
from twintrack.neuroncore.emulator.core import Core
from twintrack.neuroncore.memory.generation import GENERATIONS
from twintrack.nki import language as nl
from twintrack.nki.context import running

METHODS = {
    "slice start": lambda t, n: t.slice(2, n, 6),
    "slice end": lambda t, n: t.slice(2, 0, n),
    "slice step": lambda t, n: t.slice(2, 0, 6, n),
    "slice dim": lambda t, n: t.slice(n, 0, 4),
    "select index": lambda t, n: t.select(2, n),
    "select dim": lambda t, n: t.select(n, 0),
    "vector_select dim": lambda t, n: t.vector_select(n, t),
    "broadcast size": lambda t, n: t.slice(1, 0, 1).broadcast(1, n),
    "broadcast dim": lambda t, n: t.slice(1, 0, 1).broadcast(n, 3),
    "ap offset": lambda t, n: t.ap([[32, 8], [1, 2]], offset=n),
    "ap stride": lambda t, n: t.ap([[32, 8], [n, 2]]),
    "ap count": lambda t, n: t.ap([[32, 8], [1, n]]),
    "ap indirect_dim": lambda t, n: t.ap([[32, 8], [1, 2]], scalar_offset=t, indirect_dim=n),
    "permute": lambda t, n: t.permute((0, 2, n)),
    "expand_dim": lambda t, n: t.expand_dim(n),
    "squeeze_dim": lambda t, n: t.slice(1, 0, 1).squeeze_dim(n),
    "reshape": lambda t, n: t.reshape((8, n, 32)),
    "reshape_dim size": lambda t, n: t.reshape_dim(2, (n, 8)),
    "reshape_dim dim": lambda t, n: t.reshape_dim(n, (2, 2)),
    "flatten_dims": lambda t, n: t.flatten_dims(n, 2),
    "rearrange": lambda t, n: t.rearrange(("p", ("a", "b"), "c"), ("p", "a", "b", "c"), {"a": n}),
    "index": lambda t, n: t[:, :, n],
    "slice of an index": lambda t, n: t[:, :, 0:n],
    "start of an index": lambda t, n: t[:, :, n:5],
    "step of an index": lambda t, n: t[:, :, 0:6:n],
    "ds start": lambda t, n: t[:, :, nl.ds(n, 2)],
    "ds size": lambda t, n: t[:, :, nl.ds(0, n)],
    "partition": lambda t, n: t[n],
}
NEEDS_AN_INDEX = {"vector_select dim", "ap indirect_dim"}


class Whole:
    """An integer of a class of its own."""

    def __init__(self, number):
        self.number = number

    def __index__(self):
        return self.number

    def __repr__(self):
        return f"Whole({self.number})"


def tensor():
    return nl.ndarray((8, 4, 8), nl.float32, buffer=nl.sbuf)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize(
    "number",
    [
        1.0, 0.5, np.float32(1), np.array(1.0), torch.tensor(1.0), True, False, np.True_, np.array(True),
        torch.tensor(True), "1", b"1", 1j, [1],
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_no_whole_number_is_refused_at_the_line_with_values_and_without(name, values, number):
    with running(Core(GENERATIONS["trn2"], values=values)), pytest.raises(KernelError) as caught:
        METHODS[name](tensor(), number)
    said = str(caught.value)
    assert said.startswith(f"{__file__}:")
    assert "whole number" in said or "as an index" in said
    assert "\n" not in said


@pytest.mark.parametrize("name", sorted(set(METHODS) - NEEDS_AN_INDEX))
@pytest.mark.parametrize(
    "number", [np.int64(1), np.uint8(1), np.array(1), torch.tensor(1), Whole(1)], ids=repr
)
def test_integers_of_every_class_are_as_pythons(name, number):
    with running(Core(GENERATIONS["trn2"])):
        made = tensor()
        expected, found = METHODS[name](made, 1), METHODS[name](made, number)
    assert (found.shape, found.strides, found.offset) == (expected.shape, expected.strides, expected.offset)
    assert all(type(one) is int for one in (*found.shape, *found.strides, found.offset))


@pytest.mark.parametrize("size", [0, -1, -3])
def test_a_dimension_is_not_repeated_less_than_once(size):
    with (
        running(Core(GENERATIONS["trn2"])),
        pytest.raises(KernelError, match="a whole number from 1 for size"),
    ):
        tensor().slice(1, 0, 1).broadcast(1, size)


@pytest.mark.parametrize("sizes", [256, None, "8x32", {8: 32}, np.array(256)], ids=repr)
@pytest.mark.parametrize("method", ["reshape", "permute"])
def test_a_shape_is_a_sequence(method, sizes):
    with running(Core(GENERATIONS["trn2"])), pytest.raises(KernelError, match="a tuple of whole numbers"):
        getattr(tensor(), method)(sizes)


@pytest.mark.parametrize("pattern", [None, 3, "ab", [], [32, 8], [[32]], [[32, 8, 1]]], ids=repr)
def test_a_pattern_is_a_sequence_of_pairs(pattern):
    with running(Core(GENERATIONS["trn2"])), pytest.raises(KernelError, match=r"\[stride, count\] pair"):
        tensor().ap(pattern)


@pytest.mark.parametrize("at", range(-8, 8))
def test_negative_positions_count_from_the_end_as_numpys(at):
    with running(Core(GENERATIONS["trn2"])):
        made = tensor()
        made.array()[...] = np.arange(256, dtype=np.float32).reshape(8, 4, 8)
        assert np.array_equal(made.select(2, at).array(), made.array()[:, :, at])
        if at not in (-1, 7):
            assert np.array_equal(made.slice(2, at, -1).array(), made.array()[:, :, at:-1])


@pytest.mark.parametrize("at", [-9, 8])
def test_positions_outside_are_refused(at):
    with running(Core(GENERATIONS["trn2"])), pytest.raises(KernelError, match="an index from 0 below 8"):
        tensor().select(2, at)


@pytest.mark.parametrize(
    "address", [(0, 2.5), (0.5, 0), (0,), (0, 0, 0), 0, "a", "ab", (None, 0), (True, 0), {}], ids=repr
)
def test_an_address_is_two_whole_numbers(address):
    with running(Core(GENERATIONS["trn2"])), pytest.raises(KernelError, match="an address of whole numbers"):
        nl.ndarray((8, 4), nl.float32, address=address)


@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("bfloat16", 2), ("int32", 4), ("uint8", 1)])
@pytest.mark.parametrize("buffer", [nl.sbuf, nl.psum])
@pytest.mark.parametrize("byte", range(5))
def test_an_address_lies_between_elements(dtype, size, buffer, byte):
    with running(Core(GENERATIONS["trn2"])):
        if byte % size == 0:
            assert nl.ndarray((8, 4), dtype, buffer, address=(0, byte)).storage.buffer.address == (0, byte)
            return
        with pytest.raises(
            KernelError, match=f"a multiple of the {size} bytes of {dtype}, found byte {byte}"
        ):
            nl.ndarray((8, 4), dtype, buffer, address=(0, byte))


@pytest.mark.parametrize("shape", [(8, 4.5), (8, 4.0), 8, None, "ab", (8, None)], ids=repr)
def test_a_new_tensor_has_whole_sizes(shape):
    with running(Core(GENERATIONS["trn2"])), pytest.raises(KernelError, match="a shape of whole numbers"):
        nl.ndarray(shape, nl.float32)

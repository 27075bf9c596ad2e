"""What an error tells the author to do works: remedies of destinations, of shapes, of indices that run over."""

import re

import numpy as np
import pytest

from twintrack import nki
from twintrack.errors import KernelError
from twintrack.neuroncore.emulator.core import Core
from twintrack.neuroncore.memory.generation import GENERATIONS
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl
from twintrack.nki.context import running


def tile(*shape, dtype=nl.float32, buffer=nl.sbuf):
    made = nl.ndarray(shape, dtype, buffer=buffer)
    made.storage.written.mark_all()
    return made


def said(body, chip="trn2"):
    with running(Core(GENERATIONS[chip])), pytest.raises(KernelError) as caught:
        body()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def psum(*shape, dtype=nl.float32):
    return tile(*shape, dtype=dtype, buffer=nl.psum)


def square():
    return tile(128, 128)


DESTINATIONS = {
    "matmul into SBUF": (lambda: nisa.nc_matmul(square(), square(), square()), "allocate dst in nl.psum"),
    "transpose into SBUF": (
        lambda: nisa.nc_transpose(square(), square(), engine=nisa.engine.tensor),
        "allocate dst in nl.psum",
    ),
    "bfloat16 product": (
        lambda: nisa.nc_matmul(psum(128, 128, dtype=nl.bfloat16), square(), square()),
        "allocate dst as nl.float32; nisa.tensor_copy casts what is in it",
    ),
    "int32 positions": (
        lambda: nisa.nc_find_index8(tile(128, 8, dtype=nl.int32), square(), tile(128, 8)),
        "allocate dst as nl.uint32; nisa.tensor_copy casts what is in it",
    ),
    "float32 largest": (
        lambda: nisa.topk(
            tile(128, 8), tile(128, 8, dtype=nl.uint32), tile(128, 64, dtype=nl.bfloat16), n=64
        ),
        "allocate val_dst as nl.bfloat16; nisa.tensor_copy casts what is in it",
    ),
    "copy into HBM": (
        lambda: nisa.tensor_copy(tile(128, 4, buffer=nl.shared_hbm), tile(128, 4)),
        "allocate dst in nl.sbuf or nl.psum",
    ),
    "GpSimd into PSUM": (
        lambda: nisa.tensor_copy(psum(128, 4), tile(128, 4), engine=nisa.engine.gpsimd),
        "allocate it in nl.sbuf, or choose another engine",
    ),
    "bitvec into float": (
        lambda: nisa.tensor_tensor(
            tile(8, 4), tile(8, 4, dtype=nl.int32), tile(8, 4, dtype=nl.int32), nl.bitwise_and
        ),
        "allocate dst as an integer type, or view its bits as integers",
    ),
    "DMA transpose into PSUM": (
        lambda: nisa.dma_transpose(psum(4, 4, dtype=nl.bfloat16), tile(4, 4, dtype=nl.bfloat16)),
        "allocate dst in nl.sbuf",
    ),
}


@pytest.mark.parametrize("case", DESTINATIONS)
def test_a_destination_is_to_be_allocated_otherwise_not_copied_or_converted_first(case):
    body, remedy = DESTINATIONS[case]
    found = said(body)
    assert found.endswith(f"; {remedy}")


def test_no_remedy_of_a_destination_is_that_of_a_source():
    """Whatever family: a destination in the wrong memory or of the wrong type is never to be copied first."""
    for body in (
        lambda: nisa.iota(tile(8, 4, buffer=nl.shared_hbm), [[1, 4]], 0, 1),
        lambda: nisa.max8(tile(8, 8, buffer=nl.shared_hbm), tile(8, 16)),
        lambda: nisa.rng(tile(8, 4)),
        lambda: nisa.tensor_reduce(tile(8, 1, buffer=nl.shared_hbm), nl.add, tile(8, 4), 1),
        lambda: nisa.activation(tile(8, 4, buffer=nl.shared_hbm), nl.exp, tile(8, 4)),
        lambda: nisa.memset(tile(8, 4, buffer=nl.shared_hbm), 0),
        lambda: nisa.sendrecv(tile(8, 4), psum(8, 4), 1, 1, 0),
        lambda: nisa.rand_get_state(tile(128, 24)),
    ):
        found = said(body)
        assert "; allocate " in found, found
        assert " first" not in found


def test_a_source_is_still_to_be_copied_or_cast():
    assert said(lambda: nisa.nc_matmul(psum(128, 128), psum(128, 128), square())).endswith(
        "copy it to SBUF first"
    )
    index = said(lambda: nisa.nc_n_gather(tile(8, 4), tile(8, 4), tile(8, 4, dtype=nl.int32)))
    assert index.endswith("cast it first with nisa.tensor_copy")

    def in_place():
        both = tile(8, 4, buffer=nl.shared_hbm)
        nisa.tensor_scalar(both, both, nl.add, 1.0)

    assert said(in_place).endswith("copy it to SBUF or PSUM first")


def test_an_operand_of_one_element_is_to_be_repeated_and_that_works():
    a = np.arange(32, dtype=np.float32).reshape(4, 8)
    assert said(lambda: nisa.tensor_tensor(tile(128, 256), tile(128, 256), tile(128, 1), nl.add)).endswith(
        "; repeat it with .broadcast(1, 256), or use nisa.tensor_scalar"
    )
    assert said(lambda: nisa.tensor_tensor(tile(128, 256), tile(128, 256), tile(1, 256), nl.add)).endswith(
        "; repeat it with nl.broadcast_to(tile, (128, 256))"
    )

    @nki.jit
    def repeated(x):
        out = nl.ndarray((3, 4, 8), x.dtype, buffer=nl.shared_hbm)
        t = nl.load(x)
        u, v, w = (nl.ndarray(x.shape, x.dtype) for _ in range(3))
        nisa.tensor_tensor(u, t, t[:, 0:1].broadcast(1, 8), nl.add)
        nisa.tensor_scalar(v, t, nl.add, t[:, 0:1])
        nisa.tensor_tensor(w, t, nl.broadcast_to(t[0:1, :], (4, 8)), nl.add)
        for at, one in enumerate((u, v, w)):
            nisa.dma_copy(out[at], one)
        return out

    assert np.array_equal(repeated(a), np.stack([a + a[:, :1], a + a[:, :1], a + a[:1]]))


@pytest.mark.parametrize(
    ("operand", "remedy"),
    [
        (lambda: tile(128, 2), "slice one column of it, such as [:, 0:1]"),
        (lambda: tile(1, 1), "repeat it with nl.broadcast_to(tile, (128, 1))"),
        (lambda: tile(64, 1), "slice them alike"),
    ],
)
def test_a_vector_operand_of_another_shape_is_to_be_sliced(operand, remedy):
    found = said(lambda: nisa.tensor_scalar(tile(128, 4), tile(128, 4), nl.add, operand()))
    assert found.endswith(f"; {remedy}")


def test_an_address_past_the_partition_is_to_be_chosen_lower():
    room = GENERATIONS["trn2"].sbuf_partition_bytes
    found = said(lambda: nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf, address=(0, room - 100)))
    assert f"choose an address of at most {room - 256} in the partition" in found
    with running(Core(GENERATIONS["trn2"])):
        nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf, address=(0, room - 256))
    assert "split it into smaller tiles" in said(lambda: nl.ndarray((128, room), nl.float32))


def test_two_operands_in_psum_are_both_named():
    found = said(lambda: nisa.tensor_tensor(tile(8, 4), psum(8, 4), psum(8, 4), nl.add))
    assert re.search(r"found both: psum \[8, 4\] .* and psum \[8, 4\] ", found)


@pytest.mark.parametrize("right", [0, -3])
def test_a_register_divided_by_what_is_not_positive_says_so(right):
    assert said(lambda: nisa.register_alloc(7) // right).endswith("divide by a positive number")
    assert said(lambda: nisa.register_alloc(-7) % 3).endswith("add a multiple of the divisor first")


# dynamic indices that run over the end


def moved(shape, pattern, dim):
    """A DMA of the pattern at a dynamic index of an HBM tensor."""

    @nki.jit
    def kernel(x, at):
        register = nisa.register_alloc()
        nisa.register_load(register, at)
        counts = [count for _, count in pattern]
        tile = nl.ndarray((counts[0], *(counts[1:] or [1])), x.dtype)
        nisa.dma_copy(tile, x.ap(pattern, scalar_offset=register, indirect_dim=dim))
        out = nl.ndarray(tile.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out

    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    return x, lambda at: kernel(x, np.array([[at]], np.int32))


def test_an_index_from_which_the_rows_run_over_says_so_and_the_highest_that_it_names_works():
    x, at = moved((256, 8), [[8, 128], [1, 8]], 0)
    with pytest.raises(KernelError) as caught:
        at(200)
    found = str(caught.value)
    assert "required a dynamic index from 0 to 128 in dimension 0" in found
    assert "found index 200 and the 128 rows from it, which end at 328 of 256, in src" in found
    assert np.array_equal(at(128), x[128:256])
    assert np.array_equal(at(0), x[0:128])
    with pytest.raises(KernelError, match=r"from 0 to 128 in dimension 0.*found index 129 and the 128 rows"):
        at(129)
    with pytest.raises(KernelError, match=r"from 0 to 128 in dimension 0.*found index 256 in"):
        at(256)
    with pytest.raises(KernelError, match=r"from 0 to 128 in dimension 0.*found index -1 in"):
        at(-1)


def test_on_chip_the_columns_of_each_partition_count():
    @nki.jit
    def kernel(x, at):
        t, register = nl.load(x), nisa.register_alloc()
        nisa.register_load(register, at)
        u = nl.ndarray((8, 6), x.dtype)
        nisa.tensor_copy(u, t.ap([[16, 8], [1, 6]], scalar_offset=register, indirect_dim=1))
        out = nl.ndarray((8, 6), x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, u)
        return out

    x = np.arange(128, dtype=np.float32).reshape(8, 16)
    assert np.array_equal(kernel(x, np.array([[10]], np.int32)), x[:, 10:16])
    with pytest.raises(
        KernelError,
        match=r"from 0 to 10 in dimension 1 .*index 12 and the 6 elements from it, which end at 18 of 16",
    ):
        kernel(x, np.array([[12]], np.int32))

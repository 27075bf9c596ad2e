"""The search for accesses that nothing orders: what it finds, and that it finds nothing where something does."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twintrack import nki
from twintrack.errors import KernelError
from twintrack.neuroncore.emulator.core import Checks
from twintrack.neuroncore.emulator.covered import Covered, overlap
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl

TABLE = np.arange(16 * 8, dtype=np.float32).reshape(16, 8)
ROWS = np.array([[3], [1], [7], [9]], np.int32)
OTHER = np.array([[2], [0], [6], [8]], np.int32)


def run(kernel, *args, checks=Checks.ALL, **options):
    return nki.simulate(kernel).with_options(checks=checks, **options)(*args)


def refused(kernel, *args, **options):
    with pytest.raises(KernelError) as error:
        run(kernel, *args, **options)
    return str(error.value)


def loaded(rows):
    index = nl.ndarray(rows.shape, nl.int32)
    nisa.dma_copy(index, rows)
    return index


def scattered(table, rows, value=0.0):
    """Write rows of a table; the instruction."""
    tile = nl.full((4, 8), value, table.dtype)
    return nisa.dma_copy(table.vector_select(0, loaded(rows)), tile)


def gathered(table, rows, tile):
    return nisa.dma_copy(tile, table.vector_select(0, loaded(rows)))


def returned(tile):
    out = nl.ndarray(tile.shape, tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


def scatter_then_gather(order, write=ROWS, read=ROWS):
    @nki.jit
    def kernel(table, write, read):
        tile = nl.ndarray((4, 8), table.dtype)
        first = scattered(table, write)
        second = gathered(table, read, tile)
        if order == "edge":
            second.depends_on(first)
        return returned(tile)

    return kernel, TABLE.copy(), write, read


def test_a_gather_after_a_scatter_to_the_same_rows_is_found_with_both_lines():
    said = refused(*scatter_then_gather("none"))
    first = scattered.__code__.co_firstlineno + 3
    second = gathered.__code__.co_firstlineno + 1
    here = __file__
    assert said == (
        f"{here}:{second}: required an order between nki.isa.dma_copy, which reads src, and nki.isa.dma_copy at "
        f"{here}:{first}, which wrote the same bytes of 'table' private_hbm [16, 8] float32 (argument), "
        "found nothing that orders them, as this one's address is known only at run time; "
        "call .depends_on(...) on this one, or put both in `with nl.no_reorder():`"
    )


def test_it_is_not_found_by_the_faster_checks():
    run(*scatter_then_gather("none"), checks=Checks.FAST)


def test_depends_on_orders_them():
    run(*scatter_then_gather("edge"))


def test_other_rows_are_no_conflict_and_one_row_in_common_is():
    run(*scatter_then_gather("none", ROWS, OTHER))
    mixed = OTHER.copy()
    mixed[2] = 9
    assert "an order between" in refused(*scatter_then_gather("none", ROWS, mixed))


def test_a_static_access_after_a_dynamic_one_is_found_and_the_other_way_round():
    @nki.jit
    def static_read(table, rows):
        scattered(table, rows)
        tile = nl.ndarray((16, 8), table.dtype)
        nisa.dma_copy(tile, table)
        return returned(tile)

    @nki.jit
    def static_write(table, rows):
        nisa.dma_copy(table, nl.zeros((16, 8), table.dtype))
        tile = nl.ndarray((4, 8), table.dtype)
        gathered(table, rows, tile)
        return returned(tile)

    assert "as that one's address is known only at run time" in refused(static_read, TABLE.copy(), ROWS)
    assert "as this one's address is known only at run time" in refused(static_write, TABLE.copy(), ROWS)


def test_two_dynamic_reads_need_no_order():
    @nki.jit
    def kernel(table, rows):
        tile, again = nl.ndarray((4, 8), table.dtype), nl.ndarray((4, 8), table.dtype)
        gathered(table, rows, tile)
        gathered(table, rows, again)
        nisa.tensor_tensor(tile, tile, again, nl.add)
        return returned(tile)

    run(kernel, TABLE.copy(), ROWS)


def test_static_accesses_are_ordered_by_the_compiler():
    @nki.jit
    def kernel(x):
        scratch = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
        tile = nl.ndarray(x.shape, x.dtype)
        nisa.dma_copy(tile, x)
        nisa.dma_copy(scratch, tile)
        nisa.dma_copy(tile, scratch)
        nisa.dma_copy(scratch, tile)
        return returned(tile)

    run(kernel, TABLE.copy())


def test_a_tile_that_one_writes_and_the_other_needs_orders_them():
    """Read, change, write back: the scatter needs the tile that the gather filled."""

    @nki.jit
    def kernel(table, rows):
        tile = nl.ndarray((4, 8), table.dtype)
        index = loaded(rows)
        nisa.dma_copy(tile, table.vector_select(0, index))
        more = nl.ndarray((4, 8), table.dtype)
        nisa.tensor_scalar(more, tile, nl.add, 1.0)
        nisa.dma_copy(table.vector_select(0, index), more)

    table = TABLE.copy()
    run(kernel, table, ROWS)
    expected = TABLE.copy()
    expected[ROWS[:, 0]] += 1
    assert (table == expected).all()


def test_data_that_lead_through_hbm_order_too():
    """The second gather's indices come, through scratch memory, from the rows that were scattered."""

    @nki.jit
    def kernel(table, rows):
        scratch = nl.ndarray((4, 1), nl.int32, buffer=nl.private_hbm)
        index = loaded(rows)
        tile = nl.ndarray((4, 8), table.dtype)
        nisa.dma_copy(tile, table.vector_select(0, index))
        nisa.tensor_tensor(index, index, tile[:, 0:1], nl.add)
        nisa.dma_copy(scratch, index)
        again = nl.ndarray((4, 1), nl.int32)
        nisa.dma_copy(again, scratch)
        nisa.dma_copy(table.vector_select(0, again), tile)

    run(kernel, np.zeros((16, 8), np.float32), ROWS)


def test_reusing_a_tile_orders_its_writer_after_its_earlier_reader():
    """The scatter reads a tile that the next gather overwrites, so the gather waits for it."""

    @nki.jit
    def kernel(table, rows):
        tile = nl.zeros((4, 8), table.dtype)
        index = loaded(rows)
        nisa.dma_copy(table.vector_select(0, index), tile)
        nisa.dma_copy(tile, table.vector_select(0, index))
        return returned(tile)

    run(kernel, TABLE.copy(), ROWS)


def test_no_reorder_orders_what_it_holds_and_nothing_else():
    @nki.jit
    def inside(table, rows):
        tile = nl.ndarray((4, 8), table.dtype)
        with nl.no_reorder():
            scattered(table, rows)
            gathered(table, rows, tile)
        return returned(tile)

    @nki.jit
    def half(table, rows):
        tile = nl.ndarray((4, 8), table.dtype)
        with nl.no_reorder():
            scattered(table, rows)
        gathered(table, rows, tile)
        return returned(tile)

    run(inside, TABLE.copy(), ROWS)
    assert "an order between" in refused(half, TABLE.copy(), ROWS)


def test_a_schedule_orders_named_instructions():
    @nki.jit
    def kernel(table, rows):
        tile = nl.ndarray((4, 8), table.dtype)
        index, other = loaded(rows), loaded(rows)
        nisa.dma_copy(table.vector_select(0, index), nl.zeros((4, 8), table.dtype), name="scatter")
        nisa.dma_copy(tile, table.vector_select(0, other), name="gather")
        return returned(tile)

    assert "an order between" in refused(kernel, TABLE.copy(), ROWS)
    run(kernel.with_schedule([("gather", "scatter")]), TABLE.copy(), ROWS)


def test_the_program_order_of_an_engine_is_none_as_the_compiler_may_change_it():
    """Both results pass the Vector Engine one after the other, with no data between them."""

    @nki.jit
    def kernel(table, rows):
        index, other = loaded(rows), loaded(rows)
        tile, away = nl.ndarray((4, 8), table.dtype), nl.ndarray((4, 8), table.dtype)
        nisa.dma_copy(tile, table.vector_select(0, index))
        nisa.tensor_scalar(away, tile, nl.add, 1.0)
        value = nl.zeros((4, 8), table.dtype)
        nisa.dma_copy(table.vector_select(0, other), value)
        return returned(away)

    assert "an order between" in refused(kernel, TABLE.copy(), ROWS)


def test_without_values_a_dynamic_access_may_touch_the_whole_buffer():
    kernel, *_ = scatter_then_gather("none")
    shapes = [nki.arrays.Shape(one.shape, one.dtype) for one in (TABLE, ROWS, OTHER)]
    assert "an order between" in refused(kernel, *shapes, values=False)


def test_rows_that_are_skipped_out_of_bounds_touch_nothing():
    @nki.jit
    def kernel(table, write, read):
        tile = nl.zeros((4, 8), table.dtype)
        source = nl.zeros((4, 8), table.dtype)
        nisa.dma_copy(table.vector_select(0, loaded(write)), source, oob_mode=nisa.oob_mode.skip)
        gathered(table, read, tile)
        return returned(tile)

    out = np.full((4, 1), 99, np.int32)
    run(kernel, TABLE.copy(), out, ROWS)


# the two cores of LNC2


def exchanged(barrier):
    @nki.jit
    def kernel(x, shared):
        me = nl.program_id(0)
        tile = nl.ndarray((8, 8), x.dtype)
        nisa.dma_copy(tile, x[me * 8 : me * 8 + 8])
        nisa.dma_copy(shared[me * 8 : me * 8 + 8], tile)
        if barrier:
            nisa.core_barrier(shared, (0, 1))
        other = nl.ndarray((8, 8), x.dtype)
        nisa.dma_copy(other, shared[(1 - me) * 8 : (1 - me) * 8 + 8])
        return shared

    return kernel[2]


def test_reading_what_the_other_core_wrote_without_a_barrier_is_found_though_values_happen_to_be_right():
    said = refused(exchanged(barrier=False), TABLE, TABLE.copy())
    assert "required a core_barrier between core 0, which reads this part of shared HBM at " in said
    assert "or later, and core 1, which writes it here, for nki.isa.dma_copy, found none in dst" in said


def test_a_barrier_between_them_orders_them():
    assert (run(exchanged(barrier=True), TABLE, 0 * TABLE) == TABLE).all()


def test_cores_that_write_the_same_bytes_race_and_own_parts_do_not():
    @nki.jit
    def kernel(x, overlap):
        me = nl.program_id(0)
        shared = nl.ndarray((16, 8), x.dtype, buffer=nl.shared_hbm)
        start = me * (8 - overlap)
        tile = nl.ndarray((8, 8), x.dtype)
        nisa.dma_copy(tile, x[start : start + 8])
        nisa.dma_copy(shared[start : start + 8], tile)
        if overlap:
            nisa.dma_copy(shared[15:16], tile[0:1])
        return shared

    assert (run(kernel[2], TABLE, 0) == TABLE).all()
    assert "core 0, which writes this part of shared HBM" in refused(kernel[2], TABLE, 1)


def test_both_cores_may_read_the_same_bytes():
    @nki.jit
    def kernel(x):
        me = nl.program_id(0)
        tile = nl.ndarray((16, 8), x.dtype)
        nisa.dma_copy(tile, x)
        out = nl.ndarray((2, 16, 8), x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out[me], tile)
        return out

    assert (run(kernel[2], TABLE) == TABLE).all()


def test_strided_parts_that_interleave_do_not_race():
    @nki.jit
    def kernel(x):
        me = nl.program_id(0)
        tile = nl.ndarray((8, 8), x.dtype)
        nisa.dma_copy(tile, x[me::2])
        out = nl.ndarray((16, 8), x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out[me::2], tile)
        return out

    assert (run(kernel[2], TABLE) == TABLE).all()


# nothing is invented


@pytest.mark.parametrize("seed", range(4))
def test_chains_of_tiles_of_any_length_order_a_gather_after_a_scatter(seed):
    """A random chain of copies between tiles leads from one gather to the next scatter of the same rows."""
    rng = np.random.default_rng(seed)

    @nki.jit
    def kernel(table, rows):
        index = loaded(rows)
        tiles = [nl.zeros((4, 8), table.dtype) for _ in range(4)]
        at = 0
        for _ in range(6):  # the next gather fills the tile that was scattered, so it waits for it
            nisa.dma_copy(tiles[at], table.vector_select(0, index))
            for _ in range(int(rng.integers(1, 5))):
                to = int(rng.integers(4))
                nisa.tensor_scalar(tiles[to], tiles[at], nl.add, 1.0)
                at = to
            nisa.dma_copy(table.vector_select(0, index), tiles[at])

    run(kernel, TABLE.copy(), ROWS)


# bytes

_AREAS = st.builds(
    lambda starts, outer, run: Covered(np.unique(np.array(starts, np.int64)), tuple(outer), run),
    st.lists(st.integers(20, 60), min_size=0, max_size=4),
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 3)), max_size=2),
    st.integers(1, 4),
)


def bytes_of(area):
    found = set()
    for start in area.starts:
        at = {int(start)}
        for step, count in area.outer:
            at = {byte + step * n for byte in at for n in range(count)}
        found |= {byte + n for byte in at for n in range(area.run)}
    return found


@given(_AREAS, _AREAS)
def test_two_accesses_overlap_exactly_where_a_byte_is_in_both(first, second):
    assert overlap(first, second) == bool(bytes_of(first) & bytes_of(second))

"""One launch: what it reports, and what it refuses of the kernel as a whole."""

import numpy as np
import pytest

from twintrack import nki
from twintrack.errors import KernelError
from twintrack.neuroncore.emulator.core import Checks
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl
from twintrack.nki.arrays import Shape

KIB = 1024


def tiles(count, width, *, keep=True, region=nl.sbuf):
    """A kernel that fills tiles of ``width`` float32 per partition, and sums them at the end or one by one."""

    @nki.jit
    def kernel(x):
        total = nl.zeros((2, 1), nl.float32)
        made = []
        for _ in range(count):
            tile = nl.ndarray((2, width), nl.float32, buffer=region)
            nisa.memset(tile, 1.0)
            made.append(tile)
            if not keep:
                nisa.tensor_tensor(total, total, made.pop()[:, 0:1], nl.add)
        for tile in made:
            nisa.tensor_tensor(total, total, tile[:, 0:1], nl.add)
        out = nl.ndarray((2, 1), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, total)
        return out

    return kernel


X = np.zeros((1, 1), np.float32)


def ran(kernel, *args, **options):
    simulated = nki.simulate(kernel).with_options(**options)
    simulated(*(args or (X,)))
    return simulated.last


def test_a_launch_tells_its_peak_and_its_spills():
    last = ran(tiles(3, 16 * KIB))
    assert last.memory[0].sbuf_peak == 3 * 64 * KIB + 4
    assert not last.spills
    spilled = ran(tiles(4, 16 * KIB))
    assert spilled.memory[0].sbuf_peak == 4 * 64 * KIB + 4
    assert [one.bytes for one in spilled.spills] == [2 * 64 * KIB]
    assert spilled.spills[0].line.startswith(__file__)


def test_tiles_that_are_used_up_make_room_for_the_next():
    last = ran(tiles(40, 16 * KIB, keep=False))
    assert last.memory[0].sbuf_peak == 64 * KIB + 4
    assert not last.spills


def test_the_same_use_is_told_without_values():
    kernel = tiles(4, 16 * KIB)
    with_values, without = ran(kernel).memory[0], ran(kernel, Shape((1, 1)), values=False).memory[0]
    assert (with_values.sbuf_peak, with_values.psum_peak) == (without.sbuf_peak, without.psum_peak)
    assert [one.bytes for one in with_values.spills] == [one.bytes for one in without.spills]


def test_strict_refuses_what_would_be_spilled():
    with pytest.raises(KernelError, match="the compiler would spill 131072 bytes of all partitions"):
        ran(tiles(4, 16 * KIB), strict=True)
    ran(tiles(3, 16 * KIB), strict=True)


def test_psum_holds_eight_banks_and_more_is_an_error_unless_nothing_is_checked():
    assert ran(tiles(8, 512, region=nl.psum)).memory[0].psum_peak == 8 * 2 * KIB
    with pytest.raises(KernelError, match="live tiles in PSUM that fit its 8 banks of 2048 bytes"):
        ran(tiles(9, 512, region=nl.psum))
    assert ran(tiles(9, 512, region=nl.psum), checks=Checks.OFF).memory == ()


def test_a_tile_that_holds_indices_lives_until_they_are_used():
    """Its last use is as an address, not as an operand."""

    @nki.jit
    def kernel(table):
        index = nl.zeros((4, 1), nl.int32, name="index")
        tile = nl.ndarray((4, 8), table.dtype)
        for _ in range(3):
            nisa.dma_copy(tile, table.vector_select(0, index))
        out = nl.ndarray((4, 8), table.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out

    last = ran(kernel, np.ones((4, 8), np.float32))
    (index,) = [one for one in last.cores[0].buffers if one.name == "index"]
    assert (index.first_use, index.last_use) == (0, 3)


def test_a_kernel_that_returns_nothing_and_writes_nothing_is_refused_at_its_line():
    @nki.jit
    def kernel(x):
        nl.zeros((4, 4), nl.float32)

    line = kernel.function.__code__.co_firstlineno
    with pytest.raises(KernelError) as error:
        kernel(X)
    assert str(error.value) == (
        f"{__file__}:{line}: required a kernel that returns a tensor or writes to an argument, found neither; "
        "return the HBM tensor that holds the result"
    )


def test_a_launch_names_the_arguments_that_were_written():
    @nki.jit
    def kernel(a, b, *, state):
        nisa.dma_copy(b, nl.zeros(b.shape, b.dtype))
        nisa.dma_copy(state["m"], nl.zeros((1, 1), nl.float32))

    simulated = nki.simulate(kernel)
    simulated(X, X.copy(), state={"m": X.copy()})
    assert simulated.last.written == ("b", "state['m']")


def test_messages_name_an_argument_as_the_kernel_does():
    @nki.jit
    def kernel(query, *, keys):
        return query

    for call in (lambda: kernel(np.zeros(2), keys=X), lambda: kernel(query=np.zeros(2), keys=X)):
        with pytest.raises(KernelError, match=r"^query: required an array of a type"):
            call()
    with pytest.raises(KernelError, match=r"^keys: required"):
        kernel(X, keys=np.zeros(2))


def test_with_checks_off_a_partly_written_output_is_still_refused():
    """What it holds is not known, so there is nothing to give back."""

    @nki.jit
    def kernel(x):
        return nl.ndarray((4, 4), nl.float32, buffer=nl.shared_hbm)

    with pytest.raises(KernelError, match="an output that is wholly written"):
        ran(kernel, checks=Checks.OFF)


def test_the_two_cores_of_lnc2_have_their_own_tiles_and_report_their_own_use():
    @nki.jit
    def kernel(x):
        me = nl.program_id(0)
        width = 8 * (me + 1)
        tile = nl.zeros((2, width), nl.float32)
        out = nl.ndarray((2, 2, 8), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out[me], tile[:, 0:8])
        return out

    last = ran(kernel[2])
    assert [one.sbuf_peak for one in last.memory] == [32, 64]
    assert [core.program for core in last.cores] == [0, 1]

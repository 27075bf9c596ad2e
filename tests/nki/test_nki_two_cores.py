"""Programs of a grid, the two cores of LNC2, what they share, where they meet, and how a run fails."""

import signal
import sys
import threading
import traceback

import numpy as np
import pytest

from twintrack import nki
from twintrack.errors import KernelError
from twintrack.neuroncore.emulator.core import Checks
from twintrack.neuroncore.memory.generation import GENERATIONS
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl
from twintrack.nki.arrays import Shape


def run(kernel, *args, grid=2, chip="trn2", **options):
    made = nki.simulate(kernel) if grid is None else nki.simulate(kernel)[grid]
    return made.with_options(generation=GENERATIONS[chip], **options)(*args)


def refused(kernel, *args, match, error=KernelError, **options):
    with pytest.raises(error, match=match) as caught:
        run(kernel, *args, **options)
    return str(caught.value)


def output(shape=(2, 4)):
    return nl.ndarray(shape, nl.float32, buffer=nl.shared_hbm)


def tile_of(value, shape=(1, 4)):
    made = nl.ndarray(shape, nl.float32)
    nisa.memset(made, value)
    return made


def me():
    return nl.program_id(0)


# programs


@pytest.mark.parametrize("grid", [None, 1, 2, 3, (2, 3), (2, 2, 2)])
def test_programs_know_their_place_in_the_grid(grid):
    sizes = () if grid is None else (grid,) if isinstance(grid, int) else grid
    seen = []

    def kernel():
        out = output((1, 1))
        axes = len(sizes) or 1
        assert nl.program_ndim() == len(sizes)
        assert nl.num_programs(None) == np.prod(sizes, dtype=int)
        assert nl.num_programs() == nl.num_programs(0)
        assert nl.num_programs(tuple(range(axes))) == nl.num_programs(None)
        assert tuple(nl.num_programs(axis) for axis in range(axes)) == (sizes or (1,))
        seen.append(tuple(nl.program_id(axis) for axis in range(axes)))
        nisa.dma_copy(out, tile_of(0, (1, 1)))
        return out

    run(kernel, grid=grid)
    assert seen == list(np.ndindex(*(sizes or (1,))))


@pytest.mark.parametrize("axis", [1, -1, "0"])
def test_an_axis_outside_the_grid_is_refused(axis):
    refused(lambda: nl.program_id(axis), match="an axis from 0 below 1")
    refused(lambda: nl.num_programs(axis if axis != "0" else ("0",)), match="an axis from 0 below 1")


@pytest.mark.parametrize("grid", [2, 4, (2, 2)])
def test_programs_share_their_output(grid):
    count = int(np.prod(grid))

    def kernel():
        out = output((count, 4))
        at = nl.program_id(0) * (2 if isinstance(grid, tuple) else 1)
        at += nl.program_id(1) if isinstance(grid, tuple) else 0
        nisa.dma_copy(out[at : at + 1], tile_of(at))
        return out

    np.testing.assert_array_equal(run(kernel, grid=grid), np.arange(count)[:, None] * np.ones((1, 4)))


def test_private_hbm_and_tiles_belong_to_one_core():
    def kernel():
        scratch, out = nl.ndarray((1, 4), nl.float32, buffer=nl.private_hbm), output()
        nisa.dma_copy(scratch, tile_of(me() + 1))
        nisa.core_barrier(out, (0, 1))
        back = nl.ndarray((1, 4), nl.float32)
        nisa.dma_copy(back, scratch)
        nisa.dma_copy(out[me() : me() + 1], back)
        return out

    np.testing.assert_array_equal(run(kernel)[:, 0], [1, 2])


def test_arguments_are_shared_and_written_in_place():
    given = np.zeros((2, 4), np.float32)

    def kernel(a):
        nisa.dma_copy(a[me() : me() + 1], tile_of(me() + 5))

    run(kernel, given)
    np.testing.assert_array_equal(given[:, 0], [5, 6])


def test_shared_tensors_that_the_cores_allocate_differently_are_named():
    message = refused(lambda: output((me() + 1, 4)), match="the same shared tensor on every core")
    assert "on core 1" in message


def test_both_cores_share_a_constant():
    values = np.arange(8, dtype=np.float32).reshape(2, 4)
    np.testing.assert_array_equal(run(lambda: nl.shared_constant(values)), values)


def test_outputs_that_only_one_core_returns_or_that_are_not_shared_are_named():
    def one_sided():
        out = output()
        nisa.dma_copy(out[me() : me() + 1], tile_of(1))
        return out if me() == 0 else None

    refused(one_sided, match="the same tensors returned by both cores.*and none by core 1")

    def private():
        out = nl.ndarray((1, 4), nl.float32, buffer=nl.private_hbm)
        nisa.dma_copy(out, tile_of(1))
        return out

    refused(private, match="the same tensors returned by both cores")


# barriers


def swap_by_barrier():
    shared, out = output(), output()
    nisa.dma_copy(shared[me() : me() + 1], tile_of(me() + 1))
    nisa.core_barrier(shared, (0, 1))
    other = nl.ndarray((1, 4), nl.float32)
    nisa.dma_copy(other, shared[1 - me() : 2 - me()])
    nisa.dma_copy(out[me() : me() + 1], other)
    return out


def test_behind_a_barrier_each_core_sees_what_the_other_wrote():
    np.testing.assert_array_equal(run(swap_by_barrier)[:, 0], [2, 1])
    np.testing.assert_array_equal(run(swap_by_barrier, checks=Checks.ALL)[:, 0], [2, 1])
    assert run(swap_by_barrier, values=False).dims == (2, 4)


def test_the_order_of_issue_is_the_same_in_every_run():
    runs = []
    for _ in range(5):
        kept = []
        run(swap_by_barrier, sink=lambda core, ins, kept=kept: kept.append((core, ins.number, ins.opcode)))
        runs.append(kept)
    assert all(one == runs[0] for one in runs)
    barriers = [at for at, (_, _, opcode) in enumerate(runs[0]) if opcode == "core_barrier"]
    writes = [at for at, (_, number, _) in enumerate(runs[0]) if number == 1]
    assert max(writes) < min(barriers)


def test_a_core_that_skips_the_barrier_is_a_deadlock_that_is_named():
    def kernel():
        out = output()
        nisa.dma_copy(out[me() : me() + 1], tile_of(1))
        if me() == 0:
            nisa.core_barrier(out, (0, 1))
        return out

    message = refused(
        kernel, match="a deadlock: core 0 waits for core 1 in core_barrier at .*; ended: core 1"
    )
    assert "test_nki_two_cores.py:" in message


def test_barriers_of_unequal_arguments_name_both_lines():
    def buffers():
        a, b = output(), output()
        nisa.core_barrier(a if me() == 0 else b, (0, 1))

    refused(
        buffers,
        match=r"the same data for core_barrier on core 0 and core 1, .* at .*py:\d+ and .* at .*py:\d+",
    )

    def engines():
        nisa.core_barrier(output(), (0, 1), engine=nisa.engine.vector if me() else nisa.engine.gpsimd)

    refused(engines, match=r"the same engine for core_barrier .* gpsimd at .* and vector at")


@pytest.mark.parametrize(
    ("body", "options", "match"),
    [
        (lambda: nisa.core_barrier(output(), (0,)), {}, r"cores=\(0, 1\)"),
        (lambda: nisa.core_barrier(output(), (0, 1, 2)), {}, r"cores=\(0, 1\)"),
        (lambda: nisa.core_barrier(tile_of(1), (0, 1)), {}, "data in shared HBM"),
        (
            lambda: nisa.core_barrier(nl.ndarray((1, 1), nl.float32, buffer=nl.hbm), (0, 1)),
            {},
            "data in shared HBM",
        ),
        (lambda: nisa.core_barrier(output(), (0, 1)), {"grid": None}, "two cores"),
        (lambda: nisa.core_barrier(output(), (0, 1)), {"grid": 4}, "two cores"),
        (
            lambda: nisa.core_barrier(output(), (0, 1)),
            {"chip": "trn1", "grid": None},
            "NeuronCore-v3 or newer",
        ),
    ],
)
def test_barriers_that_break_a_rule_are_refused(body, options, match):
    refused(body, match=match, **options)


# sendrecv


def exchange(dtype=np.float32, shape=(4, 8), way=nisa.dma_engine.dma):
    def kernel(a):
        rows = a.shape[0] // 2
        mine = nl.ndarray((rows, a.shape[1]), a.dtype)
        theirs = nl.ndarray((rows, a.shape[1]), a.dtype)
        nisa.dma_copy(mine, a[me() * rows : (me() + 1) * rows])
        nisa.sendrecv(mine, theirs, 1 - me(), 1 - me(), pipe_id=0, dma_engine=way)
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out[me() * rows : (me() + 1) * rows], theirs)
        return out

    given = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    return kernel, given


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.uint8])
@pytest.mark.parametrize("way", list(nisa.dma_engine))
def test_two_cores_swap_their_tiles(dtype, way):
    kernel, given = exchange(dtype, way=way)
    np.testing.assert_array_equal(run(kernel, given), np.concatenate([given[2:], given[:2]]))


def test_a_tile_can_be_sent_in_place():
    def kernel():
        tile, out = tile_of(me() + 1), output()
        nisa.sendrecv(tile, tile, 1 - me(), 1 - me(), 0)
        nisa.dma_copy(out[me() : me() + 1], tile)
        return out

    np.testing.assert_array_equal(run(kernel)[:, 0], [2, 1])


def test_exchanges_count_as_written_without_values():
    kernel, given = exchange()
    assert run(kernel, Shape(given.shape), values=False).dims == given.shape


def test_sending_what_was_never_written_is_refused():
    def kernel():
        tile = nl.ndarray((1, 4), nl.float32)
        nisa.sendrecv(tile, tile_of(0), 1 - me(), 1 - me(), 0)

    refused(kernel, match="src written before it is read")
    refused(kernel, match="src written before it is read", values=False)


def crossed(use_between):
    """Core 0 exchanges on pipe 0, then 1; core 1 on pipe 1, then 0."""
    out = output((2, 8))
    received = {}
    for pipe in (0, 1) if me() == 0 else (1, 0):
        received[pipe] = nl.ndarray((1, 4), nl.float32)
        nisa.sendrecv(tile_of(10 * pipe + me()), received[pipe], 1 - me(), 1 - me(), pipe)
        if use_between:
            nisa.dma_copy(out[me() : me() + 1, 4 * pipe : 4 * pipe + 4], received[pipe])
    if not use_between:
        for pipe in (0, 1):
            nisa.dma_copy(out[me() : me() + 1, 4 * pipe : 4 * pipe + 4], received[pipe])
    return out


def test_exchanges_of_different_pipes_do_not_wait_for_each_other():
    found = run(lambda: crossed(False))
    np.testing.assert_array_equal(found[:, [0, 4]], [[1, 11], [0, 10]])
    run(lambda: crossed(False), values=False)


def test_exchanges_in_opposite_order_whose_data_are_needed_at_once_are_a_deadlock():
    message = refused(lambda: crossed(True), match="a deadlock: core 0 waits for core 1 in sendrecv")
    assert "core 1 waits for core 0 in sendrecv" in message
    assert message.count("posted at") == 2


def test_a_second_exchange_on_a_pipe_waits_for_the_first():
    def kernel():
        for _ in range(2 if me() == 0 else 1):
            nisa.sendrecv(tile_of(1), nl.ndarray((1, 4), nl.float32), 1 - me(), 1 - me(), 0)

    refused(kernel, match="a deadlock: core 0 waits for core 1 in sendrecv")


def test_an_exchange_that_never_completes_is_a_deadlock_at_the_end():
    def kernel():
        if me() == 1:
            nisa.sendrecv(tile_of(1), nl.ndarray((1, 4), nl.float32), 0, 0, 3)

    refused(kernel, match="a deadlock: core 1 waits for core 0 in sendrecv")


def test_partners_that_do_not_name_each_other_are_refused():
    def kernel():
        nisa.sendrecv(tile_of(1), nl.ndarray((1, 4), nl.float32), 1, 0 if me() == 0 else 1, 0)

    refused(kernel, match=r"core \d to receive from core \d, which sends to it at .*py:\d+")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda: {"src": tile_of(1, (1, 5)), "dst": nl.ndarray((1, 5), nl.float32)}, "type and shape of dst"),
        (lambda: {"dma_engine": nisa.dma_engine.gpsimd_dma}, "the same engine"),
    ],
)
def test_exchanges_of_unequal_arguments_name_both_lines(change, match):
    def kernel():
        arguments = {"src": tile_of(1), "dst": nl.ndarray((1, 4), nl.float32)}
        if me() == 1:
            arguments.update(change())
        nisa.sendrecv(**arguments, send_to_rank=1 - me(), recv_from_rank=1 - me(), pipe_id=0)

    message = refused(kernel, match=match)
    assert message.count("test_nki_two_cores.py:") == 3


def sent(src=None, dst=None, **changes):
    arguments = {"send_to_rank": 1 - me(), "recv_from_rank": 1 - me(), "pipe_id": 0, **changes}
    made = nl.ndarray((1, 4), nl.float32) if dst is None else dst
    nisa.sendrecv(tile_of(1) if src is None else src, made, **arguments)


@pytest.mark.parametrize(
    ("body", "options", "match"),
    [
        (lambda: sent(send_to_rank=2), {}, "send_to_rank 0 or 1"),
        (lambda: sent(recv_from_rank=-1), {}, "recv_from_rank 0 or 1"),
        (lambda: sent(src=output()), {}, "src in SBUF"),
        (lambda: sent(dst=nl.ndarray((1, 4), nl.float32, buffer=nl.psum)), {}, "dst in SBUF"),
        (lambda: sent(dst=nl.ndarray((1, 4), nl.int32)), {}, "dst of the type of src"),
        (lambda: sent(dst=nl.ndarray((1, 5), nl.float32)), {}, "dst of the shape of src"),
        (sent, {"grid": None}, "two cores"),
        (sent, {"chip": "trn1", "grid": None}, "NeuronCore-v3 or newer"),
    ],
)
def test_exchanges_that_break_a_rule_are_refused(body, options, match):
    refused(body, match=match, **options)


@pytest.mark.parametrize(("dtype", "most"), [(nl.float32, 1024), (nl.bfloat16, 512), (nl.uint8, 256)])
def test_gpsimd_sends_at_most_256_elements_per_partition(dtype, most):
    def kernel(size):
        tile = nl.ndarray((2, size), dtype)
        nisa.memset(tile, 1)
        got, out = nl.ndarray((2, size), dtype), nl.ndarray((4, size), dtype, buffer=nl.shared_hbm)
        nisa.sendrecv(tile, got, 1 - me(), 1 - me(), 0, nisa.dma_engine.gpsimd_dma)
        nisa.dma_copy(out[2 * me() : 2 * me() + 2], got)
        return out

    run(kernel, 256)
    refused(kernel, 257, match=f"at most {most} bytes")


# failures


def test_an_exception_in_core_1_reaches_the_caller_with_the_authors_line():
    def kernel():
        out = output()
        if me() == 1:
            raise ZeroDivisionError("of the author")
        nisa.core_barrier(out, (0, 1))

    with pytest.raises(ZeroDivisionError, match="of the author") as caught:
        run(kernel)
    lines = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert lines[-1] == "kernel"


def test_an_error_of_core_0_ends_core_1_too():
    ended = []

    def kernel():
        try:
            nisa.core_barrier(output(), (0, 1))
            if me() == 0:
                raise ValueError("stop")
            nisa.core_barrier(output(), (0, 1))
        finally:
            ended.append(me())

    with pytest.raises(ValueError, match="stop"):
        run(kernel)
    assert sorted(ended) == [0, 1]


def test_an_interrupt_stops_the_core_that_is_busy():
    """Ctrl-C reaches the caller's thread, in which core 0 waits, while core 1 runs."""
    issued = []

    def kernel():
        out, tile = output(), tile_of(0)
        if me() == 1:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            for at in range(2_000_000):
                nisa.memset(tile, at)
                issued.append(at)
        nisa.core_barrier(out, (0, 1))
        return out

    # a shell that starts the tests in the background has SIGINT ignored
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(kernel)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(issued) < 2_000_000


def test_a_keyboard_interrupt_raised_on_core_1_reaches_the_caller():
    def kernel():
        if me() == 1:
            raise KeyboardInterrupt
        nisa.core_barrier(output(), (0, 1))

    with pytest.raises(KeyboardInterrupt):
        run(kernel)


def test_a_kernel_calls_another_kernel_on_both_cores():
    inner = nki.jit(lambda out: nisa.dma_copy(out[me() : me() + 1], tile_of(me())))

    def kernel():
        out = output()
        inner(out)
        return out

    np.testing.assert_array_equal(run(kernel)[:, 0], [0, 1])


# device_print


def test_device_print_prints_prefix_and_elements_at_once_core_by_core(capsys):
    def kernel():
        tile = tile_of(me() + 1, (1, 2))
        nl.device_print("tile:", tile)
        print("after", file=sys.stdout)
        out = output((2, 2))
        nisa.dma_copy(out[me() : me() + 1], tile)
        return out

    run(kernel)
    assert capsys.readouterr().out == "tile: [[1. 1.]]\nafter\ntile: [[2. 2.]]\nafter\n"


def test_device_print_without_values_prints_the_shape(capsys):
    def kernel(a):
        nl.device_print("a", a)
        nisa.dma_copy(a, tile_of(0))

    run(kernel, Shape((1, 4)), grid=None, values=False)
    assert capsys.readouterr().out == "a float32 [1, 4], without values\n"


def test_device_print_takes_a_constant_string_and_a_written_tensor_outside_psum():
    refused(lambda: nl.device_print(3, tile_of(1)), match="a constant string", grid=None)
    refused(lambda: nl.device_print("x", nl.ndarray((1, 1), nl.float32)), match="written before", grid=None)
    psum = {"buffer": nl.psum}
    refused(
        lambda: nl.device_print("x", nl.ndarray((1, 1), nl.float32, **psum)), match="HBM or SBUF", grid=None
    )

"""``nki.jit``, ``nki.simulate``, options from the environment, schedules."""

import logging

import numpy as np
import pytest

from twintrack import nki
from twintrack.errors import KernelError
from twintrack.neuroncore.emulator.core import Checks
from twintrack.neuroncore.isa.stream import Stream
from twintrack.neuroncore.memory.generation import GENERATIONS
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl
from twintrack.nki.kernel import Kernel, options_from_environment

X = np.arange(32, dtype=np.float32).reshape(4, 8)


def body(x, factor=2.0):
    """Scale a matrix."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(tile, x, name="load")
    nisa.tensor_scalar(tile, tile, nl.multiply, factor, name="scale")
    nisa.dma_copy(out, tile, name="store")
    return out


scaled = nki.jit(body)


@nki.jit
def cores(x):
    me = nl.program_id(0)
    out = nl.ndarray((2, 4, 8), x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(tile, x)
    nisa.tensor_scalar(tile, tile, nl.add, float(me))
    nisa.dma_copy(out[me], tile)
    return out


# jit and simulate in all their forms


@pytest.mark.parametrize(
    "decorated",
    [
        nki.jit(body),
        nki.jit()(body),
        nki.jit(mode="trace")(body),
        nki.jit(nki.jit(body)),
        nki.jit(body, show_compiler_tb=True),
    ],
)
def test_every_form_of_the_decorator_makes_a_kernel_with_the_functions_name_and_words(decorated):
    assert isinstance(decorated, Kernel)
    assert (decorated.__name__, decorated.__doc__) == ("body", "Scale a matrix.")
    assert (decorated(X) == 2 * X).all()


@pytest.mark.parametrize(
    "simulated",
    [
        nki.simulate(scaled),
        nki.simulate(body),
        nki.simulate(nki.simulate(scaled)),
        nki.simulate(scaled).with_options(checks=Checks.ALL),
    ],
)
def test_every_form_of_simulate_runs_the_kernel(simulated):
    assert (simulated(X) == 2 * X).all()
    assert (simulated(X, 3.0) == 3 * X).all()
    assert (simulated(x=X, factor=4.0) == 4 * X).all()


@pytest.mark.parametrize(
    "call", [cores[2], nki.simulate(cores[2]), nki.simulate(cores)[2], nki.jit(cores[2])]
)
def test_two_cores_run_however_the_grid_is_given(call):
    assert (call(X) == np.stack([X, X + 1])).all()


def test_a_kernel_inside_a_kernel_is_a_plain_function_on_the_same_core():
    @nki.jit
    def outer(x):
        return scaled(scaled(x))

    simulated = nki.simulate(outer)
    assert (simulated(X) == 4 * X).all()
    (core,) = simulated.last.cores
    assert core.count == 6


@pytest.mark.parametrize("grid", [0, -1, "two", (), (2, 0), None])
def test_a_grid_is_integers_from_1(grid):
    with pytest.raises(KernelError, match=r"body\[\.\.\.\]: required a launch grid of integers from 1"):
        scaled[grid]


@pytest.mark.parametrize("call", [nki.jit, nki.simulate])
def test_what_is_no_function_is_no_kernel(call):
    with pytest.raises(KernelError, match=f"nki.{call.__name__}: required a function, found 3"):
        call(3)


def test_a_python_error_in_a_kernel_is_itself():
    @nki.jit
    def kernel(x):
        return x.missing

    with pytest.raises(AttributeError):
        kernel(X)


# the environment


@pytest.mark.parametrize(
    ("value", "chip"),
    [
        ("trn1", "trn1"),
        ("gen2", "trn1"),
        ("TRN2", "trn2"),
        ("gen3", "trn2"),
        ("trn3", "trn3"),
        ("gen4", "trn3"),
    ],
)
def test_the_environment_names_the_chip(value, chip, monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", value)
    simulated = nki.simulate(scaled)
    simulated(X)
    assert simulated.last.cores[0].generation.chip == chip


def test_an_unknown_chip_is_refused_where_it_was_named():
    with pytest.raises(KernelError, match="NEURON_PLATFORM_TARGET_OVERRIDE: required a chip among"):
        options_from_environment({"NEURON_PLATFORM_TARGET_OVERRIDE": "trn9"})
    with pytest.raises(KernelError, match="chip: required a chip among"):
        options_from_environment({}, "trn9")


def test_without_a_chip_it_is_trn2_and_that_is_logged_once_a_run(monkeypatch, caplog):
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)
    caplog.set_level(logging.INFO, "twintrack.nki")
    scaled(X)
    assert [one.getMessage() for one in caplog.records] == [
        "chip: trn2, as NEURON_PLATFORM_TARGET_OVERRIDE names none"
    ]
    caplog.clear()
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn1")
    scaled(X)
    assert not caplog.records


def test_the_decorators_chip_goes_before_the_environments(monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn1")
    simulated = nki.simulate(nki.jit(body, platform_target="trn3"))
    simulated(X)
    assert simulated.last.cores[0].generation is GENERATIONS["trn3"]


@pytest.mark.parametrize(("value", "precise"), [(None, True), ("1", True), ("0", False)])
def test_precise_floating_point_is_on_unless_the_environment_turns_it_off(value, precise):
    assert options_from_environment({} if value is None else {"NKI_PRECISE_FP": value}).precise is precise


# schedules


def edges(pairs):
    stream = Stream("trn2")
    nki.simulate(scaled.with_schedule(pairs)).with_options(sink=stream.keep)(X)
    return [one.after for one in stream]


def test_a_schedule_adds_edges_between_named_instructions():
    assert edges([("store", "load")]) == [(), (), (0,)]
    assert edges([("store", ["load", "scale"])]) == [(), (), (0, 1)]
    assert edges([("store", "load"), ("store", "scale")]) == [(), (), (0, 1)]
    assert edges([]) == [(), (), ()]


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ([("load", "store")], "instruction 'store' issued before 'load'"),
        ([("store", "laod")], "did you mean 'load'?"),
        ([("stroe", "load")], "required an instruction named 'stroe'"),
        (["store"], "with_schedule: required pairs (consumer, producer)"),
        ([("store", 3)], "required pairs"),
        ([("store", "load", "scale")], "required pairs"),
    ],
)
def test_a_schedule_that_cannot_be_kept_is_refused(pairs, said):
    with pytest.raises(KernelError) as error:
        edges(pairs)
    assert said in str(error.value)


def test_a_scheduled_kernel_keeps_its_schedule_on_a_grid():
    assert cores.with_schedule([])[2].grid == (2,)
    kernel = scaled.with_schedule([("store", "load")])
    assert kernel[2].schedule == kernel.schedule == {"store": ("load",)}

"""How a kernel is run: values of options, the environment, the chip that LNC2 needs."""

import numpy as np
import pytest

from twintrack import nki
from twintrack.errors import KernelError
from twintrack.neuroncore.memory.generation import GENERATIONS
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl
from twintrack.nki import legacy
from twintrack.nki.legacy import language as older
from twintrack.nki.options import options_from_environment

X = np.ones((4, 4), np.float32)


@nki.jit
def copied(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(tile, x)
    nisa.dma_copy(out, tile)
    return out


@nki.jit
def raced(x):
    """Both cores write the same part, and nothing orders them: only ``checks="all"`` finds it."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(tile, x)
    nisa.dma_copy(out, tile)
    return out


def test_checks_are_taken_by_name_and_mean_what_the_name_says():
    for name in ("off", "fast", "all"):
        by_name = nki.simulate(copied).with_options(checks=name)
        by_member = nki.simulate(copied).with_options(checks=nki.Checks(name))
        assert by_name.options == by_member.options
        assert by_name.options.checks is nki.Checks(name)
    fast = nki.simulate(raced)[2].with_options(checks="fast")
    fast(X)
    with pytest.raises(KernelError, match="required a core_barrier between"):
        fast.with_options(checks="all")(X)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("checks", "bogus"),
        ("checks", "ALL"),
        ("checks", 3),
        ("checks", None),
        ("checks", True),
        ("values", "no"),
        ("values", 0),
        ("precise", None),
        ("strict", 1),
        ("strict", "yes"),
        ("trip_counts", 3),
        ("trip_counts", {"a": -1}),
        ("trip_counts", {"a": True}),
        ("trip_counts", {1: 1}),
        ("trip_counts", "a"),
        ("sink", 3),
        ("shortened", 6),
        ("generation", "trn9"),
        ("generation", 3),
        ("default_chip", 1),
    ],
)
def test_a_value_of_another_kind_is_refused_in_one_line_that_names_the_option(name, value):
    with pytest.raises(KernelError) as caught:
        nki.simulate(copied).with_options(**{name: value})
    assert str(caught.value).startswith(f"option {name}: required ")
    assert repr(value) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_option_is_refused_with_the_nearest_one():
    with pytest.raises(KernelError, match="found cheks; did you mean 'checks'"):
        nki.simulate(copied).with_options(cheks="all")


def test_a_chip_is_taken_by_name_and_is_then_no_default(monkeypatch):
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)
    assert nki.simulate(copied).with_options(strict=True).options.default_chip
    options = nki.simulate(copied).with_options(generation="trn3").options
    assert (options.generation, options.default_chip) == (GENERATIONS["trn3"], False)


@pytest.mark.parametrize("value", ["banana", "true", "2", " 1"])
def test_the_environment_turns_rounding_off_by_0_and_takes_nothing_else_but_1(value):
    with pytest.raises(KernelError, match="NKI_PRECISE_FP: required 0"):
        options_from_environment({"NKI_PRECISE_FP": value})
    assert options_from_environment({"NKI_PRECISE_FP": ""}).precise


@pytest.mark.parametrize("chip", ["trn1", "trn2", "trn3"])
def test_two_cores_need_trn2_or_newer_from_python_too(chip):
    on_two = nki.simulate(copied[2]).with_options(generation=chip)
    if chip == "trn1":
        with pytest.raises(KernelError, match=r"required trn2 or newer for LNC2 .* found trn1"):
            on_two(X)
    else:
        assert np.array_equal(on_two(X), X)
    assert np.array_equal(nki.simulate(copied).with_options(generation=chip)(X), X)


def test_two_programs_of_the_older_dialect_run_one_after_the_other_on_trn1():
    """Its grids were those of trn1 first."""

    @legacy.jit(platform_target="trn1")
    def doubled(x):
        out = older.ndarray(x.shape, dtype=x.dtype, buffer=older.shared_hbm)
        rows = older.ds(older.program_id(0) * 2, 2)
        older.store(out[rows], older.load(x[rows]) + older.load(x[rows]))
        return out

    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    assert np.array_equal(doubled[2](x), 2 * x)


def test_a_kernel_is_shown_by_its_name_grid_and_place():
    assert repr(copied).startswith("<NKI kernel copied at ")
    assert repr(copied[2]).startswith("<NKI kernel copied[2] at ")
    assert __file__ in repr(nki.simulate(copied))

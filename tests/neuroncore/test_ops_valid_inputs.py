"""``checks="all"`` refuses inputs outside the documented range of an activation function; ``fast`` computes them."""

import numpy as np
import pytest

from twintrack import nki
from twintrack.errors import KernelError
from twintrack.neuroncore.emulator.core import Checks
from twintrack.neuroncore.isa.operators import ACTIVATIONS
from twintrack.neuroncore.memory.generation import GENERATIONS
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl

LIMITED = [one for one in ACTIVATIONS.values() if one.limited]
UNLIMITED = [one.name for one in ACTIVATIONS.values() if not one.limited]
INSIDE = 1.0  # valid for every function


def run(issue, x, checks=Checks.ALL, chip="trn3"):
    def kernel(x):
        data, dst = nl.load(x), nl.ndarray(x.shape, nl.float32)
        issue(dst, data)
        out = nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm)
        nl.store(out, dst)
        return out

    return nki.simulate(kernel).with_options(generation=GENERATIONS[chip], checks=checks)(x)


def activation(name):
    return lambda dst, data: nisa.activation(dst, getattr(nl, name), data)


def activation_reduce(name):
    def issue(dst, data):
        sums = nl.ndarray((data.shape[0], 1), nl.float32)
        nisa.activation_reduce(dst, getattr(nl, name), data, reduce_op=nl.add, reduce_res=sums)

    return issue


def activate2(name):
    return lambda dst, data: nisa.activate2(
        dst, getattr(nl, name), data, imm0=1.0, imm1=0.0, op0=nl.multiply, op1=nl.add
    )


def just_outside(function):
    """The numbers next to the limits, of which only limits that are finite have one."""
    low, high = np.float32(function.low), np.float32(function.high)
    found = [np.nextafter(low, np.float32(-np.inf)), np.nextafter(high, np.float32(np.inf))]
    return [one for one in found if np.isfinite(one)]


@pytest.mark.parametrize("issue", [activation, activation_reduce, activate2])
@pytest.mark.parametrize("function", LIMITED, ids=lambda one: one.name)
def test_the_first_input_outside_is_named_with_their_number_and_the_range(issue, function):
    for outside in just_outside(function):
        x = np.full((3, 4), INSIDE, np.float32)
        x[1, 2] = x[2, 0] = outside
        with pytest.raises(KernelError) as caught:
            run(issue(function.name), x)
        text = str(caught.value)
        assert f"2 of 12 outside, the first {outside:.8g} at [1, 2]" in text
        assert f"from {function.low:.8g} to {function.high:.8g} for nl.{function.name}" in text
        assert ("of magnitude" in text) is function.of_magnitude
        assert "test_ops_valid_inputs.py:" in caught.value.where
        with np.errstate(all="ignore"):
            assert run(issue(function.name), x, Checks.FAST).shape == x.shape


@pytest.mark.parametrize("function", LIMITED, ids=lambda one: one.name)
def test_the_limits_themselves_are_taken(function):
    limits = [one for one in (function.low, function.high) if np.isfinite(one)]
    x = np.full((2, 2), INSIDE, np.float32)
    x[0, : len(limits)] = limits
    run(activation(function.name), x)
    if function.of_magnitude:
        run(activation(function.name), -x)


def test_nan_is_in_no_limited_range_and_everything_is_in_the_others():
    wild = np.array([[np.nan, np.inf, -np.inf, 1e38]], np.float32)
    for name in UNLIMITED:
        run(activation(name), wild)
    with pytest.raises(KernelError, match="1 of 4 outside, the first nan at"):
        run(activation("log"), np.array([[1, 2, np.nan, 4]], np.float32))


def test_the_inputs_are_those_after_scale_and_bias():
    x = np.array([[-4.0, -1.0]], np.float32)
    assert run(lambda dst, data: nisa.activation(dst, nl.sqrt, data, scale=-1.0), x)[0, 0] == 2
    with pytest.raises(KernelError, match=r"2 of 2 outside, the first -8 at \[0, 0\] in data, "):
        run(lambda dst, data: nisa.activation(dst, nl.sqrt, data, scale=2.0), x)
    with pytest.raises(KernelError, match=r"1 of 2 outside, the first -5 at \[0, 0\] in data, "):
        run(lambda dst, data: nisa.activate2(dst, nl.sqrt, data, 2.0, 3.0, nl.multiply, nl.add), x)

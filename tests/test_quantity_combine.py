"""Errors through formulas: the interval of the result holds every value that the inputs' intervals allow."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twintrack.quantity import Error, Provenance, Quantity, combine, total

_FRACTIONS = st.floats(0.0, 0.9)


def _figure(value: float, low: float, high: float, unit: str = "s") -> Quantity:
    return Quantity.measured(value, unit, "a clock").within(Error(low, high, "spread"))


@given(
    st.lists(
        st.tuples(st.floats(0.1, 1e6), _FRACTIONS, _FRACTIONS, st.floats(0.0, 1.0)), min_size=1, max_size=4
    )
)
def test_the_interval_of_a_product_holds_every_product_of_values_within_the_inputs_intervals(parts):
    inputs = [_figure(value, low, high) for value, low, high, _ in parts]

    result = combine("product", "s", inputs, lambda *values: math.prod(values))

    inside = 1.0
    for one, (_, _, _, at) in zip(inputs, parts, strict=True):
        low, high = one.interval
        inside *= low + at * (high - low)
    low, high = result.interval
    assert low * (1 - 1e-9) - 1e-12 <= inside <= high * (1 + 1e-9)


def test_a_ratio_takes_the_far_corners():
    result = combine("a / b", "", [_figure(10.0, 0.1, 0.1), _figure(2.0, 0.5, 0.5)], lambda a, b: a / b)

    assert result.value == 5.0
    assert result.interval == pytest.approx((9.0 / 3.0, 11.0 / 1.0))


def test_the_errors_of_a_sum_add():
    result = total("a + b", "s", [_figure(10.0, 0.1, 0.2), _figure(30.0, 0.0, 0.1)])

    assert result.value == 40.0
    assert result.interval == pytest.approx((39.0, 45.0))


def test_a_result_is_as_weak_as_its_weakest_input_and_unknown_as_soon_as_one_is():
    bound = Quantity(1.0, "s", Provenance.BOUND, "limit")

    assert total("a + b", "s", [_figure(1.0, 0, 0), bound]).rests_on is Provenance.BOUND
    unknown = Quantity.unknown("s", "nobody measured it")
    assert not total("a + b", "s", [bound, unknown]).known
    assert not combine("a * b", "s", [bound, unknown], lambda a, b: a * b).known


def test_figures_without_error_give_a_result_without_one():
    exact = Quantity.measured(2.0, "s", "a clock")

    assert total("a + b", "s", [exact, exact]).error is None
    assert combine("a * b", "s", [exact, exact], lambda a, b: a * b).error is None


def test_units_that_differ_are_not_added():
    with pytest.raises(ValueError, match="adds"):
        total("a + b", "s", [_figure(1.0, 0, 0), _figure(1.0, 0, 0, "byte")])


@pytest.mark.parametrize(
    ("low", "high", "basis"), [(-0.1, 0.1, "x"), (0.1, float("inf"), "x"), (0.1, 0.1, "")]
)
def test_an_error_is_two_finite_fractions_with_a_basis(low, high, basis):
    with pytest.raises(ValueError, match="fractions"):
        Error(low, high, basis)

"""Arguments of a profile that do not fit: one line each, naming the argument."""

from __future__ import annotations

import numpy as np
import pytest

import twintrack
import twintrack.nki as nki
import twintrack.nki.isa as nisa
import twintrack.nki.language as nl
from twintrack.errors import KernelError
from twintrack.nki import Shape, options_from_environment
from twintrack.nki.arguments import require_arguments
from twintrack.nki.arrays import shape_of


@nki.jit
def copied(x, sizes=(4, 4), *, count=1):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for _ in range(count):
        nisa.dma_copy(out, x)
    return out


def said(*args, **kwargs) -> str:
    with pytest.raises(KernelError) as error:
        twintrack.profile(copied, *args, options=options_from_environment({}, "trn2"), **kwargs)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    "dims", [128, "128x512", (128.5, 512), (True, 5), (0, 512), (-1,), None, {4: 4}, ("4",), np.ones(2)]
)
def test_sizes_of_a_shape_are_integers_from_one(dims):
    with pytest.raises(KernelError, match="Shape: required sizes from 1 as a tuple of integers, found"):
        Shape(dims)


def test_a_list_and_numpys_integers_are_taken():
    assert Shape([128, np.int64(512)]) == Shape((128, 512))
    assert all(type(size) is int for size in Shape([np.int32(4)]).dims)


def test_a_shape_of_no_dimensions_is_that_of_a_scalar_array():
    options = options_from_environment({}, "trn2")
    scalar = twintrack.profile(copied, Shape(()), options=options, what_if=False)
    assert scalar.seconds == twintrack.profile(copied, Shape((1,)), options=options, what_if=False).seconds


def test_a_type_of_a_shape_is_one_of_nki():
    with pytest.raises(KernelError, match=r"Shape: .*found flaot32; convert it to one of bool, int8"):
        Shape((4,), "flaot32")
    with pytest.raises(KernelError, match=r"x: .*found float64; convert it to float32"):
        shape_of(np.ones(3), "x")
    with pytest.raises(KernelError, match="x: required arrays with elements"):
        shape_of(np.ones((0, 3), np.float32), "x")


def test_missing_and_unknown_arguments_are_named():
    assert "copied: required the kernel's arguments (x, sizes, count), found none given for x;" in said()
    assert "found unknown to it: cuont; did you mean 'count'?" in said(Shape((4, 4)), settings={"cuont": 3})
    assert "multiple values for argument 'x'" in said(Shape((4, 4)), settings={"x": 3})
    assert "too many positional arguments" in said(Shape((4, 4)), (4, 4), 1)
    assert "settings: required values by the arguments' names, found [3]" in said(Shape((4, 4)), settings=[3])


def test_any_keyword_fits_a_kernel_that_takes_all():
    require_arguments(lambda x, *more, **rest: None, (1, 2, 3), {"any": 4})


def test_a_plain_tuple_in_the_place_of_an_array_is_named_and_one_of_numbers_is_taken():
    told = said((128, 512))
    assert told.startswith("x: required an array or a Shape where the kernel uses one, ")
    assert "found the plain tuple (128, 512)" in told
    assert 'pass Shape((128, 512), "float32")' in told
    options = options_from_environment({}, "trn2")
    assert twintrack.profile(copied, Shape((4, 4)), (2, 2), options=options, what_if=False).instructions == 1


def test_other_python_errors_of_a_kernel_pass():
    with pytest.raises(TypeError, match="str"):
        twintrack.profile(
            copied,
            Shape((4, 4)),
            options=options_from_environment({}, "trn2"),
            settings={"count": "a", "sizes": "no tuple"},
        )

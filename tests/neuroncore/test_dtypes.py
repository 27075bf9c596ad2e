"""Element types: one record per name, found by every name that a caller may use."""

from __future__ import annotations

import copy

import ml_dtypes
import numpy as np
import pytest
import torch

from twintrack.neuroncore.memory.dtypes import DTYPES, dtype_of

# the NKI data type table: name, bytes, kind
TABLE = [
    ("bool", 1, "bool"),
    ("uint8", 1, "uint"),
    ("int8", 1, "int"),
    ("uint16", 2, "uint"),
    ("int16", 2, "int"),
    ("uint32", 4, "uint"),
    ("int32", 4, "int"),
    ("float8_e4m3", 1, "float"),
    ("float8_e5m2", 1, "float"),
    ("float8_e4m3fn", 1, "float"),
    ("float8_e8m0fnu", 1, "scale"),
    ("float16", 2, "float"),
    ("bfloat16", 2, "float"),
    ("tfloat32", 4, "float"),
    ("float32", 4, "float"),
    ("float8_e5m2_x4", 4, "packed"),
    ("float8_e4m3fn_x4", 4, "packed"),
    ("float4_e2m1fn_x4", 2, "packed"),
]


def test_the_types_are_those_of_the_documented_table():
    assert sorted((one.name, one.bytes, one.kind) for one in DTYPES.values()) == sorted(TABLE)


@pytest.mark.parametrize("one", DTYPES.values(), ids=str)
def test_a_type_equals_its_name_and_is_the_only_one_of_it(one):
    assert one == one.name
    assert hash(one) == hash(one.name)
    assert f"{one}" == one.name
    assert repr(one) == one.name
    assert type(one.name) is str
    for again in (dtype_of(one), dtype_of(one.name), copy.copy(one), copy.deepcopy(one)):
        assert again is one
    rebuild, arguments = one.__reduce__()
    assert rebuild(*arguments) is one


def test_a_type_does_not_change():
    for change in (lambda one: setattr(one, "bytes", 2), lambda one: delattr(one, "bytes")):
        with pytest.raises(AttributeError, match="do not change"):
            change(DTYPES["float32"])
    assert DTYPES["float32"].bytes == 4


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (np.float32, "float32"),
        (np.dtype("float16"), "float16"),
        (np.int8, "int8"),
        (np.zeros(1, np.uint16).dtype, "uint16"),
        (np.bool_, "bool"),
        (bool, "bool"),
        ("bool_", "bool"),
        (ml_dtypes.bfloat16, "bfloat16"),
        (np.dtype(ml_dtypes.bfloat16), "bfloat16"),
        (ml_dtypes.float8_e4m3, "float8_e4m3"),
        (ml_dtypes.float8_e4m3fn, "float8_e4m3fn"),
        (ml_dtypes.float8_e5m2, "float8_e5m2"),
        (ml_dtypes.float8_e8m0fnu, "float8_e8m0fnu"),
        (torch.bfloat16, "bfloat16"),
        (torch.half, "float16"),
        (torch.bool, "bool"),
        (torch.int32, "int32"),
        (torch.float8_e4m3fn, "float8_e4m3fn"),
        ("tfloat32", "tfloat32"),
    ],
    ids=repr,
)
def test_a_dtype_of_another_library_is_found(value, name):
    assert dtype_of(value) is DTYPES[name]


@pytest.mark.parametrize(
    "value",
    ["float64", "int64", np.float64, float, int, torch.float64, None, "nothing", 3, object, ">f4", "f8"],
    ids=repr,
)
def test_what_nki_does_not_have_is_refused_with_what_was_given(value):
    with pytest.raises(KeyError) as caught:
        dtype_of(value)
    assert caught.value.args == (value,)


def test_numpy_takes_a_type_by_its_name():
    assert np.zeros(3, dtype=DTYPES["bfloat16"]).dtype == ml_dtypes.bfloat16
    assert np.dtype(DTYPES["int32"]) == np.int32

"""Arrays in ``.npz`` files: types that NumPy's format lacks, damage, names of results."""

import io
import re
import zipfile

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twintrack.errors import StorageError, UserError
from twintrack.nki.array_files import named_arrays, read_arrays, stored_name, write_arrays


def message(call, *args):
    with pytest.raises(UserError) as error:
        call(*args)
    assert "\n" not in str(error.value)
    return str(error.value)


_ARRAYS = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b": np.array([1.5, -2], ml_dtypes.bfloat16),
    "c": np.array([[0.5], [448]], ml_dtypes.float8_e4m3fn),
    "d": np.array([True, False]),
    "e": np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3)),
}


def test_arrays_of_every_type_come_back_as_they_were(tmp_path):
    write_arrays(tmp_path / "x.npz", _ARRAYS)
    again = read_arrays(tmp_path / "x.npz")
    assert list(again) == list(_ARRAYS)
    for name, value in _ARRAYS.items():
        assert again[name].dtype == value.dtype
        assert (again[name] == value).all()


def test_results_are_named_by_their_place():
    a, b, c = (np.full(1, n) for n in range(3))
    assert named_arrays(a) == {"out0": a}
    assert named_arrays((a, b)) == {"out0": a, "out1": b}
    assert named_arrays([a, (b, [c])]) == {"out0": a, "out1.0": b, "out1.1.0": c}
    assert named_arrays({"loss": a, "state": {"m": b, "n": 3}}) == {"loss": a, "state.m": b}
    assert named_arrays(None) == {}


def test_a_result_without_arrays_is_not_written(tmp_path):
    assert "required a kernel that returns arrays, or writes to an argument, found NoneType" in message(
        write_arrays, tmp_path / "x.npz", None
    )
    assert not (tmp_path / "x.npz").exists()


def test_a_folder_that_is_not_there_is_said(tmp_path):
    with pytest.raises(StorageError):
        write_arrays(tmp_path / "no" / "x.npz", np.zeros(1))


def packed(**members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return out.getvalue()


def array_bytes(array, **options):
    out = io.BytesIO()
    np.save(out, array, **options)
    return out.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no zip at all",
        array_bytes(np.zeros(3)),
        packed(x=b"\x93NUMPY\x01\x00"),
        packed(x=array_bytes(np.array([{}], object), allow_pickle=True)),
        packed(x=array_bytes(np.zeros((4, 4)))[:-8]),
        packed(
            **{"x": array_bytes(np.zeros(3, np.uint16)), "x:bfloat16": array_bytes(np.zeros(3, np.uint16))}
        ),
    ],
    ids=["empty", "text", "npy", "header", "objects", "cut", "twice"],
)
def test_a_file_that_is_no_npz_or_damaged_or_holds_objects_is_refused_in_one_line(tmp_path, data):
    path = tmp_path / "x.npz"
    path.write_bytes(data)
    said = message(read_arrays, path)
    assert said.startswith(f"{path}: required an .npz file of arrays, found ")
    assert said.endswith("make it with numpy.savez(path, name=array, ...)")


@given(st.data())
def test_a_damaged_npz_is_read_or_refused_never_a_traceback(tmp_path_factory, data):
    good = bytearray(
        packed(a=array_bytes(np.arange(4, dtype=np.float32)), b=array_bytes(np.zeros(2, np.int32)))
    )
    for _ in range(data.draw(st.integers(1, 3))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.npz"
    path.write_bytes(bytes(good[: data.draw(st.integers(0, len(good)))]))
    try:
        read_arrays(path)
    except UserError as error:
        said = str(error)
    else:
        said = ""
    assert "\n" not in said


@pytest.mark.parametrize(
    "kind",
    [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2],
    ids=lambda kind: np.dtype(kind).name,
)
def test_an_array_whose_type_the_format_forgets_is_refused_with_the_line_that_keeps_it(tmp_path, kind):
    """The remedy is run as it stands, with the type that the array has."""
    path, x = tmp_path / "x.npz", np.array([[1.5, -2]], kind)
    np.savez(path, x=x)
    said = message(read_arrays, path)
    assert f"found x of {x.itemsize}-byte elements whose type the file does not hold (" in said
    line = re.search(r"numpy\.savez\(path.*\}\)", said)[0]
    line = re.sub(r"x:\w+", f"x:{x.dtype.name}", line)
    exec(line, {"numpy": np, "path": path, "x": x})  # noqa: S102 - our own message
    again = read_arrays(path)["x"]
    assert again.dtype == x.dtype
    assert (again == x).all()


def test_what_is_stored_directly_under_a_name_with_its_type_is_taken(tmp_path):
    x = np.array([1.5, -2], ml_dtypes.bfloat16)
    np.savez(tmp_path / "x.npz", **{stored_name("x", x): x})
    assert (read_arrays(tmp_path / "x.npz")["x"] == x).all()


@pytest.mark.parametrize(
    ("key", "dtype", "said"),
    [
        ("x:bfloat16", np.uint8, "not the bits of bfloat16; store it by its bits"),
        ("x:bfloat16", np.uint32, "not the bits of bfloat16"),
        ("x:bfloat16", np.float32, "not the bits of bfloat16"),
        ("x:bfloat16", np.float16, "not the bits of bfloat16"),
        ("x:bfloat61", np.uint16, "the type 'bfloat61' in the name 'x:bfloat61'; did you mean 'bfloat16'?"),
        ("x:", np.uint16, "the type ''"),
        ("x:float64", np.float64, "the type 'float64'"),
    ],
)
def test_elements_that_are_not_the_bits_of_the_type_in_their_name_are_refused(tmp_path, key, dtype, said):
    np.savez(tmp_path / "x.npz", **{key: np.zeros((2, 8), dtype)})
    assert said in message(read_arrays, tmp_path / "x.npz")

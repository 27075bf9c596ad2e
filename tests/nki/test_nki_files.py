"""Kernels in files and their arguments."""

import numpy as np
import pytest

from twintrack.errors import KernelError, UserError
from twintrack.nki.files import (
    arguments_of,
    load_kernel,
    parse_shape,
    running_kernel,
)

KERNEL = """
import nki, nki.isa as nisa, nki.language as nl
import neighbour

@nki.jit
def copied(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, x)
    return out

def plain(x):
    return copied(x)

both = copied[2]
number = 3
"""


@pytest.fixture
def kernel_file(tmp_path):
    (tmp_path / "neighbour.py").write_text("VALUE = 1\n")
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL)
    return path


def message(call, *args):
    with pytest.raises(UserError) as error:
        call(*args)
    assert "\n" not in str(error.value)
    return str(error.value)


# kernels


def test_a_kernel_is_loaded_with_the_names_installed_and_its_neighbours_in_reach(kernel_file):
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    assert (load_kernel(f"{kernel_file}:copied")(x) == x).all()
    assert (load_kernel(f"{kernel_file}:plain")(x) == x).all()
    assert load_kernel(f"{kernel_file}:both").grid == (2,)


def test_the_path_of_imports_is_as_before(kernel_file):
    import sys

    before = list(sys.path)
    load_kernel(f"{kernel_file}:copied")
    assert sys.path == before
    assert "nki" not in sys.modules


@pytest.mark.parametrize("target", ["kernel.py", "kernel.py:", ":copied", "kernel.py:a-b", ""])
def test_a_target_is_a_file_and_a_name(target):
    assert message(load_kernel, target) == (
        f"kernel: required FILE.py:KERNEL, found {target!r}; name the file and the kernel in it"
    )


def test_a_missing_file_or_kernel_is_named_with_what_is_there(kernel_file, tmp_path):
    assert "required a Python file, found none" in message(load_kernel, f"{tmp_path / 'no.py'}:x")
    assert "found no 'copid'; did you mean 'copied'?" in message(load_kernel, f"{kernel_file}:copid")
    assert "found no 'zzz'; it has copied, both" in message(load_kernel, f"{kernel_file}:zzz")
    assert "found int 'number'" in message(load_kernel, f"{kernel_file}:number")
    text = tmp_path / "kernel.txt"
    text.write_text("x")
    assert "required a Python file (.py), found .txt" in message(load_kernel, f"{text}:x")


@pytest.mark.parametrize(
    ("source", "line", "found"),
    [
        ("x = 1\n1 / 0\n", 2, "ZeroDivisionError: division by zero"),
        ("import nowhere_at_all\n", 1, "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("def f(:\n", 1, "SyntaxError"),
        ("import sys\n\nsys.exit(0)\n", 3, "SystemExit: 0"),
        ("class E(Exception): pass\nraise E('a\\nb')\n", 2, "E: a b"),
    ],
)
def test_a_file_that_cannot_be_imported_is_one_line_that_names_where(tmp_path, source, line, found):
    path = tmp_path / "bad.py"
    path.write_text(source)
    said = message(load_kernel, f"{path}:f")
    assert said.startswith(f"{path}:{line}: required a file that can be imported, found {found}")


def test_a_python_error_of_the_kernels_own_code_is_told_at_its_line(tmp_path):
    path = tmp_path / "k.py"
    path.write_text("def k(x):\n    return x.missing\n")
    kernel = load_kernel(f"{path}:k")
    with pytest.raises(KernelError) as error, running_kernel(f"{path}:k"):
        kernel(np.ones(2, np.float32))
    assert str(error.value).startswith(f"{path}:2: required a kernel that runs, found AttributeError: ")


def test_an_error_inside_this_package_is_never_put_down_to_the_kernel(tmp_path):
    path = tmp_path / "k.py"
    path.write_text("from twintrack.nki.files import parse_shape\ndef k(x):\n    parse_shape(3)\n")
    kernel = load_kernel(f"{path}:k")
    with pytest.raises(AttributeError), running_kernel(f"{path}:k"):
        kernel(np.ones(2, np.float32))


# shapes and arguments


@pytest.mark.parametrize(
    ("text", "name", "dims", "dtype"),
    [
        ("a=128x512", "a", (128, 512), "float32"),
        ("a=7:bfloat16", "a", (7,), "bfloat16"),
        ("long_name=1x2x3x4:int8", "long_name", (1, 2, 3, 4), "int8"),
    ],
)
def test_shapes_are_read(text, name, dims, dtype):
    found, shape = parse_shape(text)
    assert (found, shape.dims, str(shape.dtype)) == (name, dims, dtype)


@pytest.mark.parametrize(
    "text", ["", "a", "a=", "=3", "a=3x", "a=0x2", "a=-1", "a=3:", "a=3xy", "a=3x+4", "a=3x_4"]
)
def test_what_is_no_shape_is_refused(text):
    if text == "a=3:":
        assert parse_shape(text)[1].dims == (3,)
        return
    assert f"found {text!r}; write sizes from 1 joined by x" in message(parse_shape, text)


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [
        ("bflot16", "did you mean 'bfloat16'?"),
        ("float64", "NKI has no types of 64 bits"),
        ("q", "name one of them"),
    ],
)
def test_a_type_that_is_none_lists_those_that_are(kind, remedy):
    said = message(parse_shape, f"a=3:{kind}")
    assert "required a type among bool, int8, " in said
    assert f"found {kind!r}; {remedy}" in said


def test_arguments_go_by_name_and_what_is_missing_or_too_much_is_said():
    def kernel(a, b, *, scale=1.0):
        pass

    assert arguments_of(kernel, {"a": 1, "b": 2}, {"scale": 3}) == {"a": 1, "b": 2, "scale": 3}
    assert arguments_of(lambda **rest: None, {"q": 1}, {}) == {"q": 1}
    said = message(arguments_of, kernel, {"a": 1, "c": 2}, {})
    assert (
        "required the kernel's arguments (a, b, scale), found none given for b, unknown to it: c; give arrays"
        in said
    )

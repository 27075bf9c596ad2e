"""Names that are not there, calls of the older dialect, and what ``dir`` shows."""

import types

import numpy as np
import pytest

from twintrack import nki
from twintrack.errors import KernelError
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl
from twintrack.nki.files import load_kernel, running_kernel
from twintrack.nki.legacy import isa as older_isa
from twintrack.nki.legacy import language as older

X = np.ones((4, 4), np.float32)


@pytest.mark.parametrize(
    ("module", "old", "path"), [(nl, older, "neuronxcc.nki.language"), (nisa, older_isa, "neuronxcc.nki.isa")]
)
def test_every_name_that_only_the_older_dialect_has_says_where_it_is(module, old, path):
    only = [name for name in old.__all__ if name not in vars(module)]
    for name in only:
        with pytest.raises(AttributeError, match=f"'{name}'; it is of the dialect until 2.26: import {path}"):
            getattr(module, name)
    assert module is not nl or {"arange", "mgrid", "par_dim"} <= set(only)


@pytest.mark.parametrize("module", [nl, nisa])
def test_other_names_are_no_attributes_and_the_nearest_is_named(module):
    assert not hasattr(module, "_nothing")
    assert not hasattr(module, "__wrapped__")
    with pytest.raises(AttributeError, match="did you mean 'reciprocal'"):
        module.reciprocl  # noqa: B018


@pytest.mark.parametrize("module", [nl, nisa])
def test_dir_shows_the_documented_names_and_no_modules(module):
    assert dir(module) == sorted(module.__all__)
    assert not any(isinstance(getattr(module, name), types.ModuleType) for name in dir(module))


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("nisa.tensor_tensor(x, x, op=nl.add)", "call tensor_tensor(dst, data1, data2, op, engine, name)"),
        ("nisa.activation(op=nl.exp, data=x, scale=0.5)", "call activation(dst, op, data, "),
        ("nl.exp()", "call exp(x, dtype)"),
    ],
)
def test_a_call_of_the_older_dialect_is_told_with_the_parameters_of_today(tmp_path, line, call):
    path = tmp_path / "k.py"
    path.write_text(f"import nki.isa as nisa, nki.language as nl\ndef k(x):\n    return {line}\n")
    kernel = load_kernel(f"{path}:k")
    with pytest.raises(KernelError) as caught, running_kernel(f"{path}:k"):
        kernel(X)
    said = str(caught.value)
    assert said.startswith(f"{path}:3: required a kernel that runs, found TypeError: ")
    assert call in said
    assert said.endswith("of the dialect until 2.26: import neuronxcc.nki")


@pytest.mark.parametrize(
    ("op", "shown"),
    [(nl.mean, "nl.mean, a function on tiles"), (np.linalg.norm, "numpy.linalg.norm"), (3, "3")],
)
def test_what_is_no_operator_is_shown_by_its_name(op, shown):
    @nki.jit
    def kernel(x):
        tile = nl.load(x)
        nisa.tensor_reduce(nl.ndarray((4, 1), x.dtype), op, tile, 1)
        return tile

    with pytest.raises(KernelError, match=f"found {shown};"):
        kernel(X)

"""Arguments of every wrong kind: told at the kernel author's line, never as an error of Python inside of ours.

Each function is called with arguments that it takes, made from their names; then again with each of them replaced by
things of other kinds. What it may do is work, or refuse in its own words.
"""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch

from twintrack import nki
from twintrack.errors import KernelError
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl

X = np.ones((128, 64), np.float32)
KINDS = {
    "None": None,
    "a fraction": 1.5,
    "text": "x",
    "a list": [],
    "a dictionary": {},
    "an object": object(),
    "a function": lambda one: one,
    "an array": np.array([1, 2]),
    "a torch tensor": torch.ones(2),
    "a large number": 10**12,
}
TILES = (
    "data", "data0", "data1", "src", "x", "y", "on_true", "on_false", "a", "b", "tensor", "operand", "input",
    "condition", "dst",
)  # fmt: skip
OPERATORS = ("op", "op0", "op1", "combine_op", "reduce_op")
NUMBERS = ("operand0", "operand1", "scalar", "scale", "initial", "fill_value", "value", "constant")


def tile(dtype=nl.float32, shape=(128, 64), region=nl.sbuf):
    made = nl.ndarray(shape, dtype, buffer=region)
    nisa.memset(made, 1)
    return made


MADE = (
    dict.fromkeys(TILES, tile)
    | {name: lambda: nl.add for name in OPERATORS}
    | {name: lambda: 2.0 for name in NUMBERS}
    | {
        "stationary": lambda: tile(nl.bfloat16, (128, 64)),
        "moving": lambda: tile(nl.bfloat16, (128, 64)),
        "axis": lambda: 1,
        "shape": lambda: (128, 64),
        "dtype": lambda: nl.float32,
        "buffer": lambda: nl.sbuf,
        "pattern": lambda: [[1, 64]],
        "predicate": lambda: tile(nl.uint8),
    }
)
PSUM = {"dst": lambda: tile(nl.float32, (64, 64), nl.psum)}
SPECIAL = {
    "activation": {"op": lambda: nl.exp},
    "nc_matmul": PSUM,
    "nc_transpose": {"dst": lambda: tile(nl.float32, (64, 128), nl.psum)},
    "dma_transpose": {"dst": lambda: tile(nl.bfloat16, (64, 128)), "src": lambda: tile(nl.bfloat16)},
    "tensor_reduce": {"dst": lambda: tile(nl.float32, (128, 1))},
    "max8": {"dst": lambda: tile(nl.float32, (128, 8))},
    "bn_stats": {"dst": lambda: tile(nl.float32, (128, 6))},
    "iota": {"dst": lambda: tile(nl.int32), "offset": lambda: 0},
    "register_move": {"dst": nisa.register_alloc, "src": lambda: 1},
    "register_load": {"dst": nisa.register_alloc, "src": lambda: tile(nl.int32, (1, 1))},
    "register_store": {"dst": lambda: tile(nl.int32, (1, 1)), "src": lambda: nisa.register_alloc(1)},
    "nonzero_with_count": {"dst": lambda: tile(nl.int32, (128, 65))},
    "rng": {"dst": lambda: tile(nl.uint32)},
}
NEEDED = {
    "tensor_tensor_scan": ("op0", "op1"),
    "scalar_tensor_tensor": ("op0", "operand0", "op1", "operand1"),
}


def arguments(function):
    """Arguments by name that a function takes, and those that it asks for and that we cannot make."""
    special, made, missing = SPECIAL.get(function.__name__, {}), {}, []
    for name, one in inspect.signature(function).parameters.items():
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            continue
        maker = special.get(name) or MADE.get(name)
        if one.default is one.empty or name in special or name in NEEDED.get(function.__name__, ()):
            (missing.append(name) if maker is None else made.__setitem__(name, maker()))
    return made, missing


def run(issue):
    def kernel(x):
        out = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, x)
        issue()
        return out

    nki.simulate(nki.jit(kernel))(X)


def callable_functions():
    """Functions that a call with arguments made from their names works of."""
    found = {}
    for module in (nisa, nl):
        for name in sorted(module.__all__):
            function = getattr(module, name)
            if not inspect.isfunction(function):
                continue

            def issue(function=function):
                made, missing = arguments(function)
                if missing:
                    raise KernelError("known arguments", found=missing[0], where="", remedy="")
                function(**made)

            try:
                run(issue)
            except (KernelError, TypeError):
                continue
            found[f"{module.__name__.rpartition('.')[2]}.{name}"] = function
    return found


FUNCTIONS = callable_functions()


def test_most_functions_are_tried():
    assert len(FUNCTIONS) >= 95, sorted(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_argument_of_another_kind_is_told_at_the_authors_line(name):
    function = FUNCTIONS[name]
    for argument, one in inspect.signature(function).parameters.items():
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            continue
        for kind, value in KINDS.items():
            try:
                run(
                    lambda argument=argument, value=value: function(
                        **(arguments(function)[0] | {argument: value})
                    )
                )
            except KernelError as error:
                assert __file__ in str(error), (argument, kind)  # noqa: PT017 - it need not be raised


SWITCHES = [
    (function, name)
    for function in FUNCTIONS.values()
    for name, one in inspect.signature(function).parameters.items()
    if type(one.default) is bool and not name.startswith("is_")
]


@pytest.mark.parametrize(("function", "name"), SWITCHES, ids=lambda one: getattr(one, "__name__", one))
@pytest.mark.parametrize("value", ["no", 2, None, []])
def test_a_switch_is_true_or_false(function, name, value):
    with pytest.raises(KernelError, match=f"True or False as {name}"):
        run(lambda: function(**(arguments(function)[0] | {name: value})))


@pytest.mark.parametrize("value", [1, 0, np.True_, np.int64(0)])
def test_a_switch_may_be_numpys_or_a_number(value):
    run(lambda: nisa.tensor_scalar(tile(), tile(), nl.add, 2.0, reverse0=value))


def test_the_message_says_what_was_asked_for_and_what_was_given():
    with pytest.raises(KernelError, match=r"one of nki\.isa\.oob_mode as oob_mode of dma_copy, found 1\.5"):
        run(lambda: nisa.dma_copy(tile(), tile(), oob_mode=1.5))


def test_an_error_of_the_authors_own_stays_as_it_is():
    def wrong():
        nl.add(tile(), tile())
        return [][1]

    with pytest.raises(IndexError):
        run(wrong)

"""What passes verification runs; what does not is refused as ``InvalidProgram`` and in no other way."""

from __future__ import annotations

import copy
import json
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from program_cases import DTYPES, Draft, programs, run_on_some_data
from torch import nn

from twintrack.compiler.ir import Program
from twintrack.compiler.operators import OPERATORS
from twintrack.compiler.verify import verify
from twintrack.errors import InvalidProgram
from twintrack.numerics.rounding import Stochastic
from twintrack.torch.capture import capture


@settings(max_examples=200, deadline=None)
@given(programs(), st.integers(0, 3))
def test_whatever_passes_runs_and_gives_what_it_declares(program, seed):
    run_on_some_data(program, seed, Stochastic(1) if seed == 3 else None)


ATTRIBUTES = {
    "axis": 0, "axes": (0,), "keep": False, "shape": (1, 1), "order": (1, 0), "start": 0, "stop": 1, "step": 1,
    "before": 0, "after": 0, "rows": 1, "count": 1, "value": True, "approximate": "none",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_every_combination_of_element_types_runs_or_is_refused(name):
    """All types for every operand, the result and a scalar; and at least one combination runs."""
    spec, ran = OPERATORS[name], 0
    for count in spec.operands or (1, 2):
        for case in _combinations(count, with_scalar=spec.operands == (1, 2) and count == 1):
            *operands, result, scalar = case
            draft = Draft()
            shape = (1,) if name == "add_rows" else (1, 1)
            inputs = [draft.input(t, *((1, 1) if i == 0 else shape)) for i, t in enumerate(operands)]
            attributes = {key: ATTRIBUTES[key] for key in spec.attributes}
            if scalar is not None:
                attributes |= {"scalar": scalar, "side": "left" if scalar == 2 else "right"}
            program = draft.program(draft.emit(name, *inputs, dtype=result, **attributes))
            try:
                verify(program)
            except InvalidProgram:
                continue
            run_on_some_data(program)
            ran += 1
    assert ran


def _combinations(count, *, with_scalar):
    scalars = (True, 1, 2, 1.5, float("inf")) if with_scalar else (None,)
    choices = DTYPES if count < 3 else ("f32", "bf16", "i64", "bool")
    found = [()]
    for _ in range(count + 1):
        found = [(*case, dtype) for case in found for dtype in choices]
    return [(*case, scalar) for case in found for scalar in scalars]


class _Model(nn.Module):
    """A bit of everything that capture writes: regions, views, indices, reductions, constants."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 4)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))

    def forward(self, ids):
        x = self.table(ids)
        for layer in self.layers:
            x = x + torch.nn.functional.silu(layer(x)).masked_fill(ids[..., None] == 2, float("-inf"))
        return torch.softmax(x[:, 1:].transpose(1, 2), -1).to(torch.bfloat16)


@pytest.fixture(scope="module")
def stored():
    model = _Model()
    state = {name: p.detach() for name, p in model.named_parameters()}
    ids = torch.zeros(2, 3, dtype=torch.long)

    def loss(state, ids):
        leaves = {k: v.detach().requires_grad_(True) for k, v in state.items()}
        out = torch.func.functional_call(model, leaves, (ids,))
        return [*torch.autograd.grad(out.float().sum(), list(leaves.values())), out.detach()]

    program = capture("fuzz", loss, (state, ids), layers=tuple(model.layers))
    return json.loads(program.to_json())


def _places(tree, path=()):
    yield path
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, item in items:
        yield from _places(item, (*path, key))


def _mutate(tree, path, chance):
    """Change one place of a JSON tree: drop it, repeat it, or put something else there."""
    parent = tree
    for step in path[:-1]:
        parent = parent[step]
    key, old = path[-1], parent[path[-1]]
    others = [
        None,
        True,
        -1,
        0,
        1,
        2,
        3,
        7,
        1.5,
        "",
        "neg",
        "f32",
        "bf16",
        "i64",
        "main",
        [],
        [0],
        {},
        {"a": 0},
    ]
    change = chance.randrange(6)
    if change == 0:
        del parent[key]
    elif change == 1 and isinstance(parent, list):
        parent.insert(key, copy.deepcopy(old))
    elif change == 2 and isinstance(parent, list):
        parent[key] = copy.deepcopy(chance.choice(parent))
    elif change == 3 and isinstance(old, int) and not isinstance(old, bool):
        parent[key] = old + chance.choice([-2, -1, 1, 2, 2**40, 2**64])
    elif change == 4 and isinstance(old, str):
        parent[key] = chance.choice([*OPERATORS, *DTYPES, old + "x", "host", "call"])
    else:
        parent[key] = chance.choice(others)


def test_the_fuzzed_program_is_whole(stored):
    program = Program.from_json(json.dumps(stored).encode())
    verify(program)
    assert run_on_some_data(program) is not None


def test_a_changed_program_runs_as_declared_or_is_refused(stored):
    """1,000 random changes of one place: read, verified and run, or ``InvalidProgram``; both happen often."""
    places = [path for path in _places(stored) if path]
    chance, refused, ran = random.Random(0), 0, 0
    for _ in range(1000):
        changed = copy.deepcopy(stored)
        _mutate(changed, chance.choice(places), chance)
        try:
            program = Program.from_json(json.dumps(changed).encode())
            verify(program)
        except InvalidProgram:
            refused += 1
            continue
        run_on_some_data(program)
        ran += 1
    assert min(refused, ran) > 70, (refused, ran)

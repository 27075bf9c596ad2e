"""Small IR programs for tests: a builder, one-operator programs, and a hypothesis strategy for arbitrary ones."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import strategies as st

from twintrack.compiler.execute import Executor
from twintrack.compiler.ir import Function, Operator, Program, TensorType
from twintrack.compiler.operators import INTEGER, OPERATORS, TORCH_DTYPE
from twintrack.compiler.verify import verify
from twintrack.errors import InvalidProgram
from twintrack.numerics.rounding import NearestEven

DTYPES = tuple(TORCH_DTYPE)


class Draft:
    """A function written by hand; shapes follow from the operators' rules."""

    def __init__(self, name="main"):
        self.name = name
        self.types, self.inputs, self.body = [], [], []

    def input(self, dtype, *shape):
        self.types.append(TensorType(dtype, tuple(shape)))
        self.inputs.append(len(self.types) - 1)
        return self.inputs[-1]

    def emit(self, name, *inputs, dtype, line="model.py:1", **attributes):
        shape = OPERATORS[name].shape([self.types[v].shape for v in inputs], attributes)
        self.types.append(TensorType(dtype, tuple(shape)))
        value = len(self.types) - 1
        self.body.append(Operator(name, tuple(inputs), (value,), attributes, line))
        return value

    def call(self, function, *inputs):
        outputs = []
        for value in function.outputs:
            self.types.append(function.types[value])
            outputs.append(len(self.types) - 1)
        op = Operator("call", tuple(inputs), tuple(outputs), {"function": function.name}, "model.py:1")
        self.body.append(op)
        return outputs

    def function(self, *outputs):
        return Function(self.name, tuple(self.types), tuple(self.inputs), outputs, tuple(self.body))

    def program(self, *outputs, others=()):
        functions = {f.name: f for f in (*others, self.function(*outputs))}
        paths = tuple(str(i) for i in range(len(self.inputs)))
        return Program("test", self.name, functions, paths, list(range(len(outputs))))


def one_operator(name, operands, dtype, **attributes):
    """A verified program of one operator on tensors like ``operands``."""
    draft = Draft()
    names = {torch_dtype: ours for ours, torch_dtype in TORCH_DTYPE.items()}
    inputs = [draft.input(names[x.dtype], *x.shape) for x in operands]
    program = draft.program(draft.emit(name, *inputs, dtype=dtype, **attributes))
    verify(program)
    return program


def run_one(name, operands, dtype, *, rounding=None, invocation=0, **attributes):
    """Result of one operator."""
    program = one_operator(name, operands, dtype, **attributes)
    return Executor(program, rounding or NearestEven()).run(operands, invocation=invocation)[0]


def some_tensor(kind: TensorType, seed: int) -> torch.Tensor:
    """Values of this type: small integers, ordinary floats."""
    random = np.random.default_rng(seed)
    if kind.dtype == "bool":
        return torch.from_numpy(np.asarray(random.random(kind.shape) < 0.5))
    whole = kind.dtype in INTEGER
    values = random.integers(0, 4, kind.shape) if whole else random.normal(size=kind.shape)
    return torch.from_numpy(np.asarray(values)).to(TORCH_DTYPE[kind.dtype])


SIZES = st.integers(0, 3)
SHAPES = st.lists(SIZES, max_size=3).map(tuple)
TYPES = st.builds(TensorType, st.sampled_from(DTYPES), SHAPES)
NUMBERS = st.one_of(
    st.booleans(),
    st.integers(-3, 300),
    st.floats(width=32),
    st.sampled_from([float("inf"), float("-inf"), 1e-6, 2.0**70, -0.0]),
)
_SMALL = st.integers(-1, 4)
_ATTRIBUTES = {
    **dict.fromkeys(("axis", "before", "after", "rows", "count", "start", "stop", "step"), _SMALL),
    **dict.fromkeys(("axes", "order"), st.lists(_SMALL, max_size=3).map(tuple)),
    "shape": SHAPES,
    "keep": st.booleans(),
    **dict.fromkeys(("value", "scalar"), NUMBERS),
    "side": st.sampled_from(["left", "right"]),
    "approximate": st.sampled_from(["none", "tanh"]),
}


def _result_dtypes(spec, operands):
    likely = [t.dtype for t in operands] or ["f32"]
    return st.one_of(st.sampled_from(likely), st.sampled_from(DTYPES))


@st.composite
def programs(draw, most=6):
    """Verified programs of one function: whatever the rules accept, with sizes from 0 and every element type."""
    draft = Draft()
    for kind in draw(st.lists(TYPES, min_size=1, max_size=3)):
        draft.input(kind.dtype, *kind.shape)
    for _ in range(draw(st.integers(1, most))):
        spec = OPERATORS[draw(st.sampled_from(sorted(OPERATORS)))]
        count = draw(st.sampled_from(spec.operands or (1, 2, 3)))
        values = st.integers(0, len(draft.types) - 1)
        inputs = [draw(values) for _ in range(count)]
        names = list(spec.attributes)
        if spec.operands == (1, 2) and count == 1:
            names += ["scalar", "side"]
        attributes = {name: draw(_ATTRIBUTES[name]) for name in names}
        dtype = draw(_result_dtypes(spec, [draft.types[v] for v in inputs]))
        before = len(draft.types), len(draft.body)
        try:
            value = draft.emit(spec.name, *inputs, dtype=dtype, **attributes)
            verify(draft.program(value))
        except (ValueError, IndexError, InvalidProgram):
            del draft.types[before[0] :], draft.body[before[1] :]
    outputs = draw(st.lists(st.integers(0, len(draft.types) - 1), min_size=1, max_size=3))
    return draft.program(*outputs)


DATA_ERRORS = ("index out of range", "out of bounds", "ZeroDivisionError")
"""What PyTorch may say about numbers in data: an index beyond its table, an integer divided by zero."""


def run_on_some_data(program, seed=0, rounding=None):
    """Outputs for arbitrary data, checked against their declared types; none where the data did not allow a run."""
    main = program.main
    inputs = [some_tensor(main.types[v], seed + i) for i, v in enumerate(main.inputs)]
    try:
        outputs = Executor(program, rounding or NearestEven()).run(inputs, invocation=seed)
    except (IndexError, RuntimeError) as error:
        if any(text in str(error) for text in DATA_ERRORS):
            return None
        raise
    for value, tensor in zip(main.outputs, outputs, strict=True):
        kind = main.types[value]
        assert tensor.dtype is TORCH_DTYPE[kind.dtype], (kind, tensor.dtype)
        assert tuple(tensor.shape) == kind.shape
    return outputs

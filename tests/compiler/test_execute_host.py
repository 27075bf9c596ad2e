"""Host calls: functional ATen operators by name and nothing else; their arguments and types are checked."""

from __future__ import annotations

import json

import pytest
import torch
from program_cases import Draft

from twintrack.compiler.cost import measure_work
from twintrack.compiler.execute import Executor
from twintrack.compiler.hostcall import encode_arguments, find_overload
from twintrack.compiler.ir import Operator, TensorType
from twintrack.compiler.verify import verify
from twintrack.errors import InvalidProgram
from twintrack.numerics.rounding import NearestEven, Stochastic

HOSTILE = [
    "aten.from_file.default",  # reads, and may create, a file
    "aten.add_.Tensor",  # changes its operand
    "aten.add.out",
    "aten.copy_.default",
    "aten.set_.source_Tensor",
    "aten.resize_.default",
    "aten.resize.default",  # gives memory as it lies
    "aten.empty_like.default",
    "aten.new_empty.default",
    "aten.empty.memory_format",
    "aten.as_strided.default",
    "aten._resize_output.default",
    "aten.rand_like.default",  # draws from the global generator
    "aten.bernoulli.default",
    "aten.native_dropout.default",
    "aten.multinomial.default",
    "aten.nonzero.default",  # whose shape depends on data
    "aten.masked_select.default",
    "aten.item.default",
    "aten._local_scalar_dense.default",
    "aten.equal.default",
    "aten._print.default",
    "aten._assert_async.msg",
    "aten._functional_assert_async.msg",
    "aten.pin_memory.default",
    "aten.quantized_lstm.data",
    "aten.zeros.default",  # takes no tensor
    "aten.size.default",  # gives none
    "aten.add.int",
    "aten.neg.default.extra",
    "aten.neg",
    "aten.neg.nothing",
    "aten.nothing.default",
    "aten.__class__.__init__",
    "aten.neg.__call__",
    "aten.neg._schema",
    "aten.neg.name",
    "prims.neg.default",
    "quantized.add.default",
    "os.system",
    "torch.ops.aten.neg.default",
    "aten.neg.default; import os",
    " aten.neg.default",
    "",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_refused(name):
    assert find_overload(name) is None
    with pytest.raises(InvalidProgram, match="a functional ATen operator by its name expected"):
        verify(_program(name, [[{"operand": 0}], {}]))


def test_of_all_of_aten_only_functions_from_tensors_to_tensors_can_be_named():
    accepted = []
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.startswith("aten::"):
            name = f"aten.{schema.name.removeprefix('aten::')}.{schema.overload_name or 'default'}"
            overload = find_overload(name)
            if overload is not None:
                accepted.append(overload)
    assert len(accepted) > 400
    for overload in accepted:
        schema = overload._schema
        assert overload.namespace == "aten"
        assert not any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments)
        assert not {torch.Tag.nondeterministic_seeded, torch.Tag.dynamic_output_shape} & set(overload.tags)
        assert {str(r.type) for r in schema.returns} <= {"Tensor", "List[Tensor]"}
        assert not any("file" in a.name or "generator" in a.name for a in schema.arguments), overload


def _program(aten, arguments, *, operand=("f32", 2, 3), result=("f32", 2, 3), text=None):
    draft = Draft()
    x = draft.input(*operand)
    draft.types.append(TensorType(result[0], tuple(result[1:])))
    attributes = {"aten": aten, "arguments": json.dumps(arguments) if text is None else text}
    draft.body.append(Operator("host", (x,), (1,), attributes, "m.py:1"))
    return draft.program(1)


CUMSUM = "aten.cumsum.default"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "[[], []]",
        "{}",
        '[[{"operand": 1}, 1], {}]',
        '[[{"operand": -1}, 1], {}]',
        '[[{"operand": true}, 1], {}]',
        '[[{"operand": 0.0}, 1], {}]',
        '[[{"operand": 0, "x": 1}, 1], {}]',
        '[[{"file": "/etc/passwd"}, 1], {}]',
        '[[{"operand": 0}, 2], {}]',
        '[[{"operand": 0}, "1"], {}]',
        '[[{"operand": 0}], {}]',
        '[[{"operand": 0}, 1], {"dtype": {"dtype": "torch.complex64"}}]',
        '[[{"operand": 0}, 1], {"dtype": {"dtype": []}}]',
        '[[{"operand": 0}, 1], {"nothing": 1}]',
        '[[{"operand": 0}, 1, 1], {}]',
        "[" * 5000,
    ],
)
def test_arguments_that_do_not_fit_are_refused(text):
    with pytest.raises(InvalidProgram) as caught:
        verify(_program(CUMSUM, None, text=text))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("result", [("f32", 3, 2), ("bf16", 2, 3), ("i64", 2, 3)])
def test_results_of_other_types_are_refused(result):
    with pytest.raises(InvalidProgram, match=r"results f32\[2x3\] expected"):
        verify(_program(CUMSUM, [[{"operand": 0}, 1], {}], result=result))


def test_arguments_come_back_as_they_were():
    tensors = [torch.ones(2), torch.zeros(1)]
    operands = []

    def operand(tensor):
        operands.append(tensor)
        return len(operands) - 1

    text = encode_arguments(
        (tensors[0], [1, -2], 1.5, None, True, "tanh", torch.int64, torch.device("cpu"), [tensors[1], None]),
        {
            "dtype": torch.bfloat16,
            "layout": torch.strided,
            "memory_format": torch.contiguous_format,
            "x": None,
        },
        operand,
    )
    positional, named = json.loads(text)
    assert positional[:3] == [{"operand": 0}, [1, -2], 1.5]
    assert positional[3:] == [None, True, "tanh", {"dtype": "torch.int64"}, None, [{"operand": 1}, None]]
    assert named == {"dtype": {"dtype": "torch.bfloat16"}}
    assert operands[0] is tensors[0]
    assert operands[1] is tensors[1]


@pytest.mark.parametrize("value", [torch.float64, 1j, object(), {"a": 1}, slice(1)])
def test_arguments_without_a_form_are_refused(value):
    with pytest.raises(TypeError, match=r"element type|argument of type"):
        encode_arguments((value,), {}, lambda _: 0)


def test_a_host_call_computes_in_its_own_types_and_is_counted():
    program = _program(CUMSUM, [[{"operand": 0}, 1], {}], operand=("bf16", 2, 3), result=("bf16", 2, 3))
    verify(program)
    x = torch.tensor([[1.0, 2.0, 3.0], [256.0, 1.0, 1.0]], dtype=torch.bfloat16)
    for rounding in (NearestEven(), Stochastic(1)):
        found = Executor(program, rounding).run([x], invocation=0)[0]
        assert torch.equal(found, torch.cumsum(x, 1))
    work = measure_work(program)
    assert dict(work.host) == {f"{CUMSUM} (m.py:1)": 1}
    assert work.host_flops == work.total_flops == 6
    assert not work.peak_flops


def test_several_results_and_typed_arguments():
    draft = Draft()
    x = draft.input("f32", 4)
    draft.types += [TensorType("f32", (2,)), TensorType("i64", (2,))]
    attributes = {"aten": "aten.topk.default", "arguments": '[[{"operand": 0}, 2], {}]'}
    draft.body.append(Operator("host", (x,), (1, 2), attributes, "m.py:1"))
    program = draft.program(1, 2)
    verify(program)
    values, places = Executor(program, NearestEven()).run([torch.tensor([3.0, 9.0, 1.0, 7.0])], invocation=0)
    assert (values.tolist(), places.tolist()) == ([9.0, 7.0], [1, 3])


def test_strides_of_an_operand_do_not_reach_the_host():
    """Captured where the operand was contiguous, run where it is the view of another."""
    draft = Draft()
    x = draft.input("f32", 3, 2)
    turned = draft.emit("transpose", x, dtype="f32", order=(1, 0))
    draft.types.append(TensorType("f32", (6,)))
    attributes = {"aten": "aten.view.default", "arguments": '[[{"operand": 0}, [6]], {}]'}
    draft.body.append(Operator("host", (turned,), (2,), attributes, "m.py:1"))
    program = draft.program(2)
    verify(program)
    tensor = torch.arange(6.0).reshape(3, 2)
    assert torch.equal(Executor(program, NearestEven()).run([tensor], invocation=0)[0], tensor.t().reshape(6))

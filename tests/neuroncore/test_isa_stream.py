"""The stream of instructions: what it keeps, that it is the same in every run, and that it survives a file."""

import gc
import json
import math
import subprocess
import sys
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twintrack import nki
from twintrack.errors import KernelError
from twintrack.neuroncore.isa.disassembly import disassemble
from twintrack.neuroncore.isa.instruction import Access, Engine, LoopFrame
from twintrack.neuroncore.isa.operands import OPERANDS
from twintrack.neuroncore.isa.stream import Record, Stream
from twintrack.neuroncore.isa.stream_file import from_lines, to_lines
from twintrack.neuroncore.memory.buffer import Buffer, MemoryRegion
from twintrack.neuroncore.memory.dtypes import DTYPES
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl

X = np.arange(256 * 8, dtype=np.float32).reshape(256, 8)


@nki.jit
def doubled(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name="out")
    for at in nl.affine_range(2):
        tile = nl.ndarray((128, 8), x.dtype)
        load = nisa.dma_copy(tile, x[at * 128 : (at + 1) * 128])
        nisa.tensor_scalar(tile, tile, nl.multiply, 2.0, name="double")
        nisa.dma_copy(out[at * 128 : (at + 1) * 128], tile).depends_on(load)
    return out


@nki.jit
def gathered(table, rows):
    index = nl.ndarray((4, 1), nl.int32)
    nisa.dma_copy(index, rows)
    tile = nl.ndarray((4, 8), table.dtype)
    nisa.dma_copy(tile, table.vector_select(0, index))
    out = nl.ndarray((4, 8), table.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


def kept(kernel, *args):
    stream = Stream("trn2")
    nki.simulate(kernel).with_options(sink=stream.keep)(*args)
    return stream


# what it keeps


def test_every_instruction_is_kept_in_order_with_engine_line_and_loop():
    stream = kept(doubled, X)
    assert [one.opcode for one in stream] == ["dma_copy", "tensor_scalar", "dma_copy"] * 2
    assert [one.number for one in stream] == list(range(6))
    assert stream.counts() == {"dma": 4, "vector": 2}
    assert [one.loop[-1].iteration for one in stream] == [0, 0, 0, 1, 1, 1]
    first = doubled.function.__code__.co_firstlineno
    assert [int(one.line.rpartition(":")[2]) - first for one in stream] == [5, 6, 7] * 2
    assert len(stream) == len(stream.records) == 6


def test_what_an_instruction_waits_for_is_kept_though_it_is_said_after_it_was_issued():
    assert [one.after for one in kept(doubled, X)] == [(), (), (0,), (), (), (3,)]


def test_operands_are_ranges_over_their_buffers():
    load = kept(doubled, X).records[3]
    (src,), (dst,) = load.ins, load.outs
    assert (src.buffer.origin, src.shape, src.strides, src.offset) == ("argument", (128, 8), (8, 1), 128 * 8)
    assert (dst.buffer.region, dst.dtype, dst.offset) == (MemoryRegion.sbuf, "float32", 0)


def test_the_tensor_that_holds_dynamic_addresses_is_kept_apart_from_operands():
    record = kept(gathered, X, np.array([[3], [0], [9], [3]], np.int32)).records[1]
    assert record.ins[0].dynamic == "vector"
    (index,) = record.indices
    assert (index.dtype, index.shape) == ("int32", (4, 1))


def test_a_kept_stream_keeps_no_elements_alive():
    stream, elements = Stream("trn2"), []

    def sink(core, ins):
        stream.keep(core, ins)
        elements.extend(weakref.ref(v.storage.data) for v in (*ins.outs, *ins.ins) if v is not None)

    nki.simulate(gathered).with_options(sink=sink)(X.copy(), np.zeros((4, 1), np.int32))
    gc.collect()
    assert len(stream) == 3
    assert len(elements) == 6
    assert all(one() is None for one in elements)


# the same in every run

_SCRIPT = """
import numpy as np, sys
sys.path.insert(0, {folder!r})
from test_isa_stream import X, kept, doubled, to_lines
print("\\n".join(to_lines(kept(doubled, X))))
"""


def test_the_stream_is_the_same_in_two_runs_and_in_another_process_with_other_hashes():
    folder = __file__.rpartition("/")[0]
    first = list(to_lines(kept(doubled, X)))
    assert list(to_lines(kept(doubled, X))) == first
    for seed in ("1", "77"):
        done = subprocess.run(
            [sys.executable, "-c", _SCRIPT.format(folder=folder)],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        )
        assert done.stdout.splitlines() == first


# files

_BUFFERS = st.builds(
    lambda number, region, dtype, shape, name, address: Buffer(
        number, region, DTYPES[dtype], tuple(shape), name, None, 0, address
    ),
    st.integers(0, 99),
    st.sampled_from(list(MemoryRegion)),
    st.sampled_from(sorted(DTYPES)),
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    st.text(max_size=4),
    st.none() | st.tuples(st.integers(0, 127), st.integers(0, 1000)),
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda one: st.lists(one, max_size=3).map(tuple),
    max_leaves=4,
)


@st.composite
def records(draw, buffers):
    def access():
        buffer = draw(st.sampled_from(buffers))
        shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
        strides = tuple(draw(st.integers(-9, 9)) for _ in shape)
        kind = draw(st.sampled_from(["", "scalar", "vector", "tensor"]))
        return Access(buffer, buffer.dtype, shape, strides, draw(st.integers(0, 99)), kind)

    def accesses():
        return tuple(access() if draw(st.booleans()) else None for _ in range(draw(st.integers(0, 3))))

    frames = st.builds(LoopFrame, st.integers(0, 9), st.sampled_from(["affine", "fori"]), st.integers(0, 9))
    return Record(
        draw(st.integers(0, 3)),
        draw(st.integers(0, 999)),
        draw(st.sampled_from(sorted(OPERANDS))),
        draw(st.sampled_from([one.value for one in Engine])),
        accesses(),
        accesses(),
        tuple(draw(st.dictionaries(st.text(max_size=4), _VALUES, max_size=3)).items()),
        draw(st.text(max_size=9)),
        tuple(draw(st.lists(frames, max_size=2))),
        tuple(draw(st.lists(st.integers(0, 9), max_size=2))),
        draw(st.none() | st.text(min_size=1, max_size=4)),
        tuple(
            draw(st.lists(st.tuples(st.integers(0, 9), st.none() | st.integers() | st.floats()), max_size=2))
        ),
        tuple(one for one in accesses() if one is not None),
    )


@st.composite
def streams(draw):
    buffers = draw(st.lists(_BUFFERS, min_size=1, max_size=3))
    stream = Stream(draw(st.sampled_from(["trn1", "trn2"])))
    for record in draw(st.lists(records(buffers), max_size=4)):
        stream.add(record)
    return stream


def described(value):
    """A record with buffers by their fields, and NaN equal to itself."""
    if isinstance(value, Buffer):
        return [value.number, value.region, value.dtype, value.shape, value.name, value.address, value.origin]
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    if isinstance(value, tuple):
        return [described(one) for one in value]
    return (type(value).__name__ if isinstance(value, float | bool) else "", value)


def fields(record):
    return [described(getattr(record, name)) for name in Record.__slots__]


@given(streams())
def test_a_stream_written_and_read_back_is_equal_field_by_field(stream):
    lines = list(to_lines(stream))
    again = from_lines(lines)
    assert again.chip == stream.chip
    assert [fields(one) for one in again] == [fields(one) for one in stream]
    assert list(to_lines(again)) == lines


@given(streams())
def test_a_line_of_a_file_is_json_without_a_line_end_or_numbers_that_json_lacks(stream):
    for line in to_lines(stream):
        assert "\n" not in line
        json.loads(line, parse_constant=pytest.fail)


def test_a_real_stream_survives_a_file_with_its_lines_and_disassembly():
    stream = kept(gathered, X, np.zeros((4, 1), np.int32))
    again = from_lines(to_lines(stream))
    assert [one.outs[0].buffer.line for one in again] == [one.outs[0].buffer.line for one in stream]
    assert list(disassemble(again)) == list(disassemble(stream))


def damaged(lines, data):
    """The lines with one of them cut, replaced, or one of its values exchanged."""
    lines = list(lines)
    at = data.draw(st.integers(0, len(lines) - 1))
    how = data.draw(st.sampled_from(["cut", "text", "value", "drop", "swap"]))
    if how == "cut":
        lines[at] = lines[at][: data.draw(st.integers(0, len(lines[at]) - 1))]
    elif how == "text":
        lines[at] = data.draw(st.text(max_size=20))
    elif how == "drop":
        del lines[at]
    elif how == "swap":
        other = data.draw(st.integers(0, len(lines) - 1))
        lines[at], lines[other] = lines[other], lines[at]
    else:
        found = json.loads(lines[at])
        junk = (
            st.none()
            | st.integers()
            | st.floats()
            | st.text(max_size=3)
            | st.lists(st.integers(), max_size=3)
        )
        found[data.draw(st.sampled_from(sorted(found)))] = data.draw(junk)
        lines[at] = json.dumps(found)
    return lines


@given(st.data())
def test_a_damaged_file_is_read_or_refused_in_one_line_that_names_where(data):
    lines = damaged(to_lines(kept(doubled, X)), data)
    said = ""
    try:
        list(disassemble(from_lines(lines, "run.stream")))
    except KernelError as error:
        said = str(error)
    assert not said or said.startswith("run.stream")
    assert "\n" not in said


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([], "run.stream: required a stream of instructions, twintrack.stream version 1, found no lines"),
        (["{}"], "found ValueError: format None version None"),
        (['{"format": "twintrack.stream", "version": 2, "chip": "trn2"}'], "version 2"),
        (["[1, 2]"], "run.stream:1"),
        (["{"], "JSONDecodeError"),
    ],
)
def test_what_is_no_stream_is_refused(lines, found):
    with pytest.raises(KernelError) as refused:
        from_lines(lines, "run.stream")
    assert found in str(refused.value)


# for people


@pytest.mark.parametrize("opcode", sorted(OPERANDS))
def test_every_instruction_can_be_printed_with_its_operands_by_name(opcode):
    names = OPERANDS[opcode]
    buffer = Buffer(3, MemoryRegion.sbuf, DTYPES["bfloat16"], (128, 64), "", None, 0)
    access = Access(buffer, "bfloat16", (128, 64), (64, 1), 5, "")
    stream = Stream("trn2")
    outs, ins = (access,) * len(names.outs), (access,) * len(names.ins)
    stream.add(Record(0, 7, opcode, "vector", outs, ins, (("op", "add"),), "/folder/kernel.py:3"))
    (line,) = disassemble(stream)
    for name in (*names.outs, *names.ins):
        assert f"{name}=sbuf3+5[128,64] bfloat16" in line
    assert line.startswith(f"0:7    vector  {opcode} ")
    assert line.endswith("{op=add}  kernel.py:3")


def test_strides_are_printed_where_they_are_not_those_of_the_buffer():
    buffer = Buffer(3, MemoryRegion.sbuf, DTYPES["int8"], (4, 8), "x", None, 0)
    stream = Stream("trn2")
    access = Access(buffer, "int8", (4, 2, 4), (8, 1, 2), 0, "")
    stream.add(Record(0, 0, "memset", "vector", (access,), (), (), "k.py:1"))
    assert "dst=x[4,2,4/8,1,2] int8" in next(disassemble(stream))


def test_a_printed_line_tells_loop_order_index_and_name():
    lines = list(disassemble(kept(doubled, X)))
    assert "tensor_scalar 'double'" in lines[4]
    assert " loop 1 " in lines[4]
    assert " after 3 " in lines[5]
    gather = list(disassemble(kept(gathered, X, np.zeros((4, 1), np.int32))))[1]
    assert "src=table[4,8] float32 by vector index, index=sbuf" in gather

"""A stream on disk: JSON, one line per buffer and per instruction after a first line that says what it is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from twintrack.errors import KernelError
from twintrack.neuroncore.isa.instruction import Access, Engine, LoopFrame
from twintrack.neuroncore.isa.operands import OPERANDS
from twintrack.neuroncore.isa.stream import Record, Stream
from twintrack.neuroncore.memory.buffer import Buffer, MemoryRegion
from twintrack.neuroncore.memory.dtypes import dtype_of

__all__ = ["from_lines", "to_lines"]

_FORMAT = "twintrack.stream"
_VERSION = 1


def to_lines(stream: Stream) -> Iterator[str]:
    """The stream as lines of JSON, each without its line end."""
    yield json.dumps({"format": _FORMAT, "version": _VERSION, "chip": stream.chip})
    known: dict[int, int] = {}
    for record in stream:
        for access in (*record.outs, *record.ins, *record.indices):
            if access is not None and id(access.buffer) not in known:
                known[id(access.buffer)] = len(known)
                yield json.dumps({"buffer": len(known) - 1, **_buffer(access.buffer)})
        yield json.dumps(_record(record, known))


def _buffer(one: Buffer) -> dict[str, Any]:
    return {
        "number": one.number,
        "region": one.region.value,
        "dtype": str(one.dtype),
        "shape": list(one.shape),
        "name": one.name,
        "line": one.line,
        "address": None if one.address is None else list(one.address),
        "origin": one.origin,
    }


def _access(one: Access | None, known: dict[int, int]) -> list[Any] | None:
    if one is None:
        return None
    return [known[id(one.buffer)], one.dtype, list(one.shape), list(one.strides), one.offset, one.dynamic]


def _record(record: Record, known: dict[int, int]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "core": record.core,
        "number": record.number,
        "opcode": record.opcode,
        "engine": record.engine,
        "outs": [_access(one, known) for one in record.outs],
        "ins": [_access(one, known) for one in record.ins],
        "attributes": {key: _plain(value) for key, value in record.attributes},
        "line": record.line,
    }
    for key in ("loop", "after", "name"):
        value = getattr(record, key)
        if value:
            found[key] = value
    if record.indices:
        found["indices"] = [_access(one, known) for one in record.indices]
    if record.registers:
        found["registers"] = [[number, _plain(value)] for number, value in record.registers]
    return found


def _plain(value: Any) -> Any:
    """A value that JSON has: numbers that are not finite as their names, NumPy's as Python's."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return {"float": str(value)}
    if isinstance(value, tuple | list):
        return {"tuple": [_plain(one) for one in value]}
    return value.item() if hasattr(value, "item") else value


def _back(value: Any) -> Any:
    if isinstance(value, dict):
        return float(value["float"]) if "float" in value else tuple(_back(one) for one in value["tuple"])
    return value


def from_lines(lines: Iterable[str], where: str = "stream") -> Stream:
    """A stream read back.

    Args:
        lines: as ``to_lines`` makes them.
        where: for messages, such as the file's name.

    Raises:
        KernelError: if it is not such a stream, or damaged.
    """
    stream: Stream | None = None
    buffers: list[Buffer] = []
    for at, line in enumerate(lines, 1):
        try:
            found = json.loads(line)
            if stream is None:
                if found.get("format") != _FORMAT or found.get("version") != _VERSION:
                    raise ValueError(f"format {found.get('format')!r} version {found.get('version')!r}")
                stream = Stream(str(found["chip"]))
            elif "buffer" in found:
                buffers.append(_read_buffer(found, len(buffers)))
            else:
                stream.add(_read_record(found, buffers))
        except (
            ValueError,
            KeyError,
            TypeError,
            IndexError,
            AttributeError,
            OverflowError,
            RecursionError,
        ) as error:
            raise KernelError(
                f"a stream of instructions, {_FORMAT} version {_VERSION}",
                found=f"{type(error).__name__}: {error}"[:200],
                where=f"{where}:{at}",
                remedy="make it again with twintrack kernel disasm --json",
            ) from error
    if stream is None:
        raise KernelError(
            f"a stream of instructions, {_FORMAT} version {_VERSION}",
            found="no lines",
            where=where,
            remedy="make it again with twintrack kernel disasm --json",
        )
    return stream


def _read_buffer(found: dict[str, Any], expected: int) -> Buffer:
    address = found["address"]
    if found["buffer"] != expected:
        raise ValueError(f"buffer {found['buffer']!r} where {expected} was next")
    made = Buffer(
        int(found["number"]),
        MemoryRegion(found["region"]),
        dtype_of(str(found["dtype"])),
        _sizes(found["shape"]),
        str(found["name"]),
        None,
        0,
        None if address is None else (int(address[0]), int(address[1])),
        str(found["origin"]),
    )
    made.made_at = str(found["line"])
    return made


def _read_access(found: list[Any] | None, buffers: list[Buffer]) -> Access | None:
    if found is None:
        return None
    number, dtype, shape, strides, offset, dynamic = found
    if number < 0 or len(shape) != len(strides):
        raise ValueError(f"operand {found}")
    return Access(
        buffers[number],
        dtype_of(str(dtype)),
        _sizes(shape),
        tuple(int(step) for step in strides),
        int(offset),
        str(dynamic),
    )


def _sizes(found: list[Any]) -> tuple[int, ...]:
    sizes = tuple(int(size) for size in found)
    if not sizes or any(size < 1 for size in sizes):
        raise ValueError(f"shape {found}")
    return sizes


def _read_record(found: dict[str, Any], buffers: list[Buffer]) -> Record:
    name = found.get("name")
    indices = [_read_access(one, buffers) for one in found.get("indices", [])]
    if found["opcode"] not in OPERANDS:
        raise ValueError(f"opcode {found['opcode']!r}")
    return Record(
        int(found["core"]),
        int(found["number"]),
        str(found["opcode"]),
        Engine(found["engine"]).value,
        tuple(_read_access(one, buffers) for one in found["outs"]),
        tuple(_read_access(one, buffers) for one in found["ins"]),
        tuple((str(key), _back(value)) for key, value in found["attributes"].items()),
        str(found["line"]),
        tuple(LoopFrame(int(loop), str(kind), int(at)) for loop, kind, at in found.get("loop", [])),
        tuple(int(number) for number in found.get("after", [])),
        None if name is None else str(name),
        tuple((int(number), _back(value)) for number, value in found.get("registers", [])),
        tuple(one for one in indices if one is not None),
    )

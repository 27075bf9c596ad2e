"""The stream of instructions that a run issued: kept, written to disk, read back, printed.

A stream names buffers and access patterns and holds no elements. On disk it is JSON, one line per buffer and per
instruction after a first line that says what it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from twintrack.errors import KernelError
from twintrack.neuroncore.isa.instruction import Access, Instruction, access_of
from twintrack.neuroncore.isa.operands import OPERANDS
from twintrack.neuroncore.memory.buffer import Buffer, MemoryRegion
from twintrack.neuroncore.memory.dtypes import dtype_of
from twintrack.neuroncore.memory.view import View

__all__ = ["Record", "Stream", "disassemble", "from_lines", "to_lines"]

_FORMAT = "twintrack.stream"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Record:
    """One instruction of a stream.

    Args:
        core: program that issued it.
        number: in that program's order.
        opcode: name of the ``nki.isa`` function.
        engine: where it runs.
        outs: what it writes, in the order of ``OPERANDS``.
        ins: what it reads; the index of a dynamic address follows its operands.
        attributes: the rest.
        line: ``file:line`` of the author.
        loop: position in the loops around it, the outermost first.
        after: numbers of instructions that it waits for by ``depends_on``.
        name: the author's.
        registers: numbers and values of the registers that it uses.
    """

    core: int
    number: int
    opcode: str
    engine: str
    outs: tuple[Access | None, ...]
    ins: tuple[Access | None, ...]
    attributes: tuple[tuple[str, Any], ...]
    line: str
    loop: tuple[Any, ...] = ()
    after: tuple[int, ...] = ()
    name: str | None = None
    registers: tuple[tuple[int, int | float | None], ...] = ()


@dataclass(slots=True)
class Stream:
    """Everything that a launch issued, in the order in which it was carried out.

    Args:
        chip: short name of the chip.
    """

    chip: str
    _records: list[Record] = field(default_factory=list)
    _after: list[list[int]] = field(default_factory=list)
    """Per record what it waits for, which the author may add to after it was issued."""

    def keep(self, core: int, ins: Instruction) -> None:
        """Take one instruction; the sink of a core."""
        self._after.append(ins.after)
        self._records.append(
            Record(
                core,
                ins.number,
                ins.opcode,
                ins.engine.value,
                tuple([None if view is None else access_of(view) for view in ins.outs]),
                tuple([None if view is None else access_of(view) for view in (*ins.ins, *_indices(ins))]),
                tuple(ins.attributes.items()),
                ins.line,
                ins.loop,
                (),
                ins.name,
                tuple([(one.number, one.value) for one in ins.registers]),
            )
        )

    def add(self, record: Record) -> None:
        """Take a record that was read back."""
        self._after.append(list(record.after))
        self._records.append(record)

    @property
    def records(self) -> tuple[Record, ...]:
        """The instructions, with what each waits for as it is known now."""
        return tuple(self)

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        for record, after in zip(self._records, self._after, strict=True):
            yield replace(record, after=tuple(after)) if after else record

    def counts(self) -> dict[str, int]:
        """Instructions per engine."""
        found: dict[str, int] = {}
        for record in self._records:
            found[record.engine] = found.get(record.engine, 0) + 1
        return found


def _indices(ins: Instruction) -> Iterable[View]:
    """The tensors that hold dynamic addresses."""
    for view in (*ins.outs, *ins.ins):
        if view is not None and view.dynamic is not None and isinstance(view.dynamic.index, View):
            yield view.dynamic.index


# on disk


def to_lines(stream: Stream) -> Iterator[str]:
    """The stream as lines of JSON, each without its line end."""
    yield json.dumps({"format": _FORMAT, "version": _VERSION, "chip": stream.chip})
    known: dict[int, int] = {}
    for record in stream:
        for access in (*record.outs, *record.ins):
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
    for key in ("loop", "after", "name", "registers"):
        value = getattr(record, key)
        if value:
            found[key] = value
    return found


def _plain(value: Any) -> Any:
    """A value that JSON has: numbers that are not finite as their names."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return {"float": str(value)}
    if isinstance(value, tuple | list):
        return {"tuple": [_plain(one) for one in value]}
    return value


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
                buffers.append(_read_buffer(found))
            else:
                stream.add(_read_record(found, buffers))
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
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


def _read_buffer(found: dict[str, Any]) -> Buffer:
    address = found["address"]
    made = Buffer(
        int(found["number"]),
        MemoryRegion(found["region"]),
        dtype_of(str(found["dtype"])),
        tuple(int(size) for size in found["shape"]),
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
    if number < 0:
        raise ValueError(f"buffer {number}")
    return Access(
        buffers[number],
        dtype_of(str(dtype)),
        tuple(int(size) for size in shape),
        tuple(int(step) for step in strides),
        int(offset),
        str(dynamic),
    )


def _tuples(value: Any) -> Any:
    return tuple(_tuples(one) for one in value) if isinstance(value, list) else value


def _read_record(found: dict[str, Any], buffers: list[Buffer]) -> Record:
    return Record(
        int(found["core"]),
        int(found["number"]),
        str(found["opcode"]),
        str(found["engine"]),
        tuple(_read_access(one, buffers) for one in found["outs"]),
        tuple(_read_access(one, buffers) for one in found["ins"]),
        tuple((str(key), _back(value)) for key, value in found["attributes"].items()),
        str(found["line"]),
        _tuples(found.get("loop", [])),
        _tuples(found.get("after", [])),
        found.get("name"),
        _tuples(found.get("registers", [])),
    )


# for people


def disassemble(stream: Stream) -> Iterator[str]:
    """One line per instruction: core, number, engine, what it does to which tiles, where it stands in the source."""
    for record in stream:
        names = OPERANDS[record.opcode]
        outs = ", ".join(_shown(n, a) for n, a in _named(names.outs, record.outs))
        ins = ", ".join(_shown(n, a) for n, a in _named(names.ins, record.ins))
        rest = ", ".join(f"{key}={_value(value)}" for key, value in record.attributes if _told(value))
        parts = " <- ".join(part for part in (outs, ins) if part)
        label = f" '{record.name}'" if record.name else ""
        place = f" loop {_loop(record.loop)}" if record.loop else ""
        waits = f" after {list(record.after)}" if record.after else ""
        head = f"{record.core}:{record.number:<6} {record.engine:<7} {record.opcode}{label}"
        yield f"{head} {parts}{' {' + rest + '}' if rest else ''}{place}{waits}  ; {record.line}"


def _named(
    names: tuple[str, ...], accesses: tuple[Access | None, ...]
) -> Iterator[tuple[str, Access | None]]:
    for at, access in enumerate(accesses):
        yield (names[at] if at < len(names) else "index" if names else "operand"), access


def _shown(name: str, access: Access | None) -> str:
    if access is None:
        return f"{name}=-"
    one = access.buffer
    label = one.name or f"{one.region.value}{one.number}"
    pattern = " ".join(f"[{step},{count}]" for step, count in zip(access.strides, access.shape, strict=True))
    at = f"+{access.offset}" if access.offset else ""
    indirect = f" ({access.dynamic} index)" if access.dynamic else ""
    return f"{name}={label}{at} {access.dtype} {pattern}{indirect}"


def _told(value: Any) -> bool:
    return value is not None and value is not False and value not in ("unknown", (), "none", "error")


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _loop(position: tuple[Any, ...]) -> str:
    return "/".join(str(one[-1] if isinstance(one, tuple) else one) for one in position)

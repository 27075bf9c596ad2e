"""A stream for people: one line per instruction.

    0:7   vector  tensor_scalar dst=sbuf3[128,64] float32 <- data=x+8192[128,64] float32 {op0=multiply}  kernel.py:12

First the core and the number on it, then the engine, the instruction, what it writes and what it reads. An operand is a
buffer by the author's name or by region and number, the first element where that is not 0, sizes, strides after ``/``
where they are not the buffer's own, and the type. A loop's iteration, an instruction to wait for, and the line follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from twintrack.neuroncore.isa.instruction import Access
from twintrack.neuroncore.isa.operands import OPERANDS
from twintrack.neuroncore.isa.stream import Record, Stream

__all__ = ["disassemble"]


def disassemble(stream: Stream) -> Iterator[str]:
    """One line per instruction."""
    for record in stream:
        label = f" '{record.name}'" if record.name else ""
        head = f"{record.core}:{record.number:<4} {record.engine:<7} {record.opcode}{label}"
        yield " ".join(part for part in (head, *_parts(record), "", _file(record.line)) if part is not None)


def _parts(record: Record) -> Iterator[str]:
    names = OPERANDS[record.opcode]
    outs = ", ".join(_named(names.outs, record.outs))
    ins = ", ".join([*_named(names.ins, record.ins), *(_shown("index", one) for one in record.indices)])
    if outs or ins:
        yield " <- ".join(part for part in (outs, ins) if part)
    rest = ", ".join(
        f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}"
        for key, value in record.attributes
        if _told(value)
    )
    if rest:
        yield f"{{{rest}}}"
    if record.loop:
        yield f"loop {'/'.join(str(frame.iteration) for frame in record.loop)}"
    if record.after:
        yield f"after {', '.join(str(number) for number in record.after)}"


def _named(names: tuple[str, ...], accesses: tuple[Access | None, ...]) -> Iterator[str]:
    for at, access in enumerate(accesses):
        if access is not None:
            yield _shown(names[min(at, len(names) - 1)] if names else "operand", access)


def _shown(name: str, access: Access) -> str:
    one = access.buffer
    label = one.name or f"{one.region.value}{one.number}"
    first = f"+{access.offset}" if access.offset else ""
    sizes = ",".join(str(size) for size in access.shape)
    steps = "" if access.strides == one.strides else "/" + ",".join(str(step) for step in access.strides)
    indirect = f" by {access.dynamic} index" if access.dynamic else ""
    return f"{name}={label}{first}[{sizes}{steps}] {access.dtype}{indirect}"


def _told(value: Any) -> bool:
    return value is not None and value is not False and value not in ("unknown", (), "none", "error")


def _file(line: str) -> str:
    """``file:line`` without the folder."""
    return line.replace("\\", "/").rpartition("/")[2]

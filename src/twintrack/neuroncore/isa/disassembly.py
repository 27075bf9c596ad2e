"""A stream for people: one line per instruction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from twintrack.neuroncore.isa.instruction import Access
from twintrack.neuroncore.isa.operands import OPERANDS
from twintrack.neuroncore.isa.stream import Stream

__all__ = ["disassemble"]


def disassemble(stream: Stream) -> Iterator[str]:
    """One line per instruction: core, number, engine, what it does to which tiles, where it stands in the source."""
    for record in stream:
        names = OPERANDS[record.opcode]
        outs = ", ".join(_shown(n, a) for n, a in _named(names.outs, record.outs))
        ins = ", ".join(_shown(n, a) for n, a in _named(names.ins, record.ins))
        ins += "".join(f", {_shown('index', access)}" for access in record.indices)
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
        yield names[min(at, len(names) - 1)] if names else "operand", access


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

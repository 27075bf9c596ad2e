"""What two runs cost, line by line, where their ledgers are given."""

from __future__ import annotations

from twintrack.pilot.compare.figures import ratio
from twintrack.pilot.compare.read import LoadedRun
from twintrack.pilot.compare.records import FigureRow
from twintrack.pilot.ledger.ledger import like_totals
from twintrack.pilot.ledger.records import LINES, LineName, PilotLedger, TrackLedger
from twintrack.quantity import Quantity

__all__ = ["Ledgers", "costs", "stale_prices"]

Ledgers = tuple[PilotLedger | None, PilotLedger | None]
"""Of the first and of the second run's folder."""


def costs(first: LoadedRun, second: LoadedRun, ledgers: Ledgers) -> tuple[FigureRow, ...]:
    """Lines and totals; empty where neither run has a ledger.

    A line that either ledger leaves out, and totals that do so, are not put over each other; the last row is: the sum
    of the lines that both tell of. Nor are amounts in different currencies.
    """
    a, b = _of(first, ledgers[0]), _of(second, ledgers[1])
    if a is None and b is None:
        return ()
    reason = _reason(first, second, a, b)
    apart: set[LineName] = {*(a.left_out if a else ()), *(b.left_out if b else ())}
    rows = [
        _row(name, _line(a, index, first), _line(b, index, second), reason, alike=name not in apart)
        for index, name in enumerate(LINES)
    ]
    fields = (("total", "total"), ("per million tokens", "per_million_tokens"))
    rows += [
        _row(name, _amount(a, field, first), _amount(b, field, second), reason, alike=not apart)
        for name, field in fields
    ]
    if a is not None and b is not None:
        rows.append(
            _row(
                "total of the lines that both tell of, without faults", *like_totals(a, b), reason, alike=True
            )
        )
    return tuple(rows)


def stale_prices(first: LoadedRun, second: LoadedRun, ledgers: Ledgers) -> tuple[str, ...]:
    """Prices that are too old to decide anything, each once."""
    found = [_of(one, ledger) for one, ledger in zip((first, second), ledgers, strict=True)]
    texts = dict.fromkeys(text for one in found if one is not None for text in one.stale)
    return tuple(f"too old to decide anything: {text}" for text in texts)


def _of(one: LoadedRun, ledger: PilotLedger | None) -> TrackLedger | None:
    return ledger.of(one.run.track) if ledger else None


def _reason(first: LoadedRun, second: LoadedRun, a: TrackLedger | None, b: TrackLedger | None) -> str:
    if a is None or b is None:
        return f"no ledger of {(first if a is None else second).label} was given"
    return "" if a.currency == b.currency else f"{a.currency} and {b.currency} are not compared"


def _row(name: str, first: Quantity, second: Quantity, reason: str, *, alike: bool) -> FigureRow:
    return FigureRow(name, first, second, ratio(name, first, second, reason) if alike else None)


def _line(ledger: TrackLedger | None, index: int, one: LoadedRun) -> Quantity:
    return _no_ledger(one) if ledger is None else ledger.lines[index].amount


def _amount(ledger: TrackLedger | None, field: str, one: LoadedRun) -> Quantity:
    found: Quantity = _no_ledger(one) if ledger is None else getattr(ledger, field)
    return found


def _no_ledger(one: LoadedRun) -> Quantity:
    return Quantity.unknown("", f"no ledger of {one.label} was given")

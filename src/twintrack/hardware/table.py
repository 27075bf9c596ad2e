"""Reading one TOML table strictly: every key is asked for once, and what nobody asked for is an error.

Every refusal names the file and the key.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from twintrack.errors import CatalogueError, nearest
from twintrack.hardware.records import Detail, Source, Status
from twintrack.quantity import Error, Provenance, Quantity

__all__ = ["Table", "parse_date"]

_DATE = re.compile(r"\d{4}(-\d{2}(-\d{2})?)?")
_COUNTS = frozenset({"cores", "chips", "vCPU", "stacks", "engines", "devices", "members", "links"})


class Table:
    """A cursor over one table of a data file.

    Args:
        file: name of the data file.
        path: dotted path of the table in it.
        content: the table.
    """

    def __init__(self, file: str, path: str, content: object) -> None:
        self.file, self.path = file, path
        if not isinstance(content, dict):
            raise self._error("a table", content)
        self._content: dict[str, Any] = content
        self._read: set[str] = set()

    def names(self) -> Iterable[str]:
        """The keys of the table, in the order of the file."""
        return self._content.keys()

    def has(self, key: str) -> bool:
        """Whether the key is there; it counts as asked for either way."""
        self._read.add(key)
        return key in self._content

    def table(self, key: str) -> Table:
        """The table under ``key``."""
        self._read.add(key)
        return Table(self.file, self._join(key), self._content[key])

    def tables(self, key: str) -> list[Table]:
        """The array of tables under ``key``; empty if there is none."""
        self._read.add(key)
        entries = self._content.get(key, [])
        if not isinstance(entries, list):
            raise self._error("an array of tables", entries, key)
        return [Table(self.file, f"{self._join(key)}[{index}]", entry) for index, entry in enumerate(entries)]

    def text(self, key: str, *, default: str | None = None) -> str:
        """A text that is not empty, or ``default`` where the key is absent and a default is given."""
        if not self.has(key) and default is not None:
            return default
        value = self._take(key, "a text")
        if not isinstance(value, str) or not value.strip():
            raise self._error("a text that is not empty", value, key)
        return value

    def texts(self, key: str, *, required: bool = True) -> tuple[str, ...]:
        """A list of texts without repetition."""
        if not self.has(key) and not required:
            return ()
        value = self._take(key, "a list of texts")
        if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
            raise self._error("a list of texts", value, key)
        if len(set(value)) != len(value):
            raise self._error("a list without repetition", value, key)
        return tuple(value)

    def integers(self, key: str) -> tuple[int, ...]:
        """A list of positive whole numbers; empty where the key is absent."""
        if not self.has(key):
            return ()
        value = self._take(key, "a list of whole numbers")
        if not isinstance(value, list) or not all(type(item) is int and item > 0 for item in value):
            raise self._error("a list of positive whole numbers", value, key)
        return tuple(value)

    def count(self, key: str) -> int:
        """A positive whole number."""
        value = self._take(key, "a whole number")
        if type(value) is not int or value < 1:
            raise self._error("a positive whole number", value, key)
        return value

    def count_or_none(self, key: str) -> int | None:
        """A positive whole number, ``None`` where the key is absent."""
        return self.count(key) if self.has(key) else None

    def flag(self, key: str) -> bool | None:
        """True or false, ``None`` where the key is absent."""
        if not self.has(key):
            return None
        value = self._take(key, "true or false")
        if not isinstance(value, bool):
            raise self._error("true or false", value, key)
        return value

    def error(self, key: str) -> Error | None:
        """How far off a figure may be, ``{ low, high, basis }`` as fractions of it; ``None`` where absent."""
        if not self.has(key):
            return None
        entry = self.table(key)
        low, high = (entry._fraction(name) for name in ("low", "high"))
        basis = entry.text("basis")
        entry.close()
        return Error(low, high, basis)

    def choice(self, key: str, allowed: Iterable[str]) -> str:
        """A text that is one of ``allowed``; the nearest is offered otherwise."""
        value, names = self.text(key), list(allowed)
        if value not in names:
            raise self._error(f"one of {', '.join(names)}", value, key, nearest(value, names))
        return value

    def date(self, key: str) -> str:
        """A date ``YYYY``, ``YYYY-MM`` or ``YYYY-MM-DD`` that exists in the calendar."""
        value = self.text(key)
        if not parse_date(value):
            raise self._error("a date as text, YYYY, YYYY-MM or YYYY-MM-DD", value, key)
        return value

    def source(self, sources: Mapping[str, Source], key: str = "source") -> Source:
        """The source that ``key`` refers to."""
        return sources[self.choice(key, sources)]

    def figure(
        self, key: str, unit: str, sources: Mapping[str, Source], *, observed: bool = False
    ) -> tuple[Quantity, Detail]:
        """The figure under ``key``, which must be given in ``unit``, with what stands beside it.

        A figure is ``{ value, unit, source }`` and may have ``conditions``, ``note``, ``as_written`` (the
        wording of the source), ``status`` where it differs from its source's, and ``formula`` when its status
        is *derived*. ``{ unknown = "reason" }``, with a source where one says so, stands for a figure that
        nobody published.

        Args:
            key: name of the figure.
            unit: the unit it must have.
            sources: the known sources.
            observed: whether the figure must carry its own date of observation.
        """
        if not self.has(key):
            raise self._error("a figure", "nothing", key)
        entry = self.table(key)
        if "unknown" in entry._content:
            reason = entry.text("unknown")
            source = entry.source(sources) if entry.has("source") else None
            entry.close()
            return Quantity.unknown(unit, reason), Detail(Status.UNKNOWN, source)
        value = entry._number("value", whole=unit in _COUNTS)
        if entry.text("unit") != unit:
            raise entry._error(f"the unit {unit}, which belongs to this key", entry._content["unit"], "unit")
        source = entry.source(sources)
        status = Status(entry.choice("status", Status)) if entry.has("status") else source.status
        formula = entry.text("formula", default="") if status is not Status.DERIVED else entry.text("formula")
        if formula and status is not Status.DERIVED:
            raise entry._error("no formula unless the status is derived", formula, "formula")
        if status is Status.UNKNOWN:
            raise entry._error("unknown = 'reason' for a figure that is not known", status, "status")
        quantity = Quantity(
            value,
            unit,
            Provenance.DERIVED if formula else Provenance.PUBLISHED,
            f"{formula} ({source.where})" if formula else source.where,
            date=entry.date("observed") if observed else source.date,
            rests_on=Provenance.PUBLISHED if formula else None,
            conditions=entry.text("conditions", default=""),
        )
        note, wording = entry.text("note", default=""), entry.text("as_written", default="")
        detail = Detail(status, source, note, wording, formula)
        entry.close()
        return quantity, detail

    def close(self) -> None:
        """Refuse keys that nobody asked for."""
        for key in self._content:
            if key not in self._read:
                known = sorted(self._read)
                hint = nearest(key, known) or f"known here: {', '.join(known)}"
                raise self._error("a known key", key, key, hint)

    def refuse(self, required: str, found: object, key: str, remedy: str = "") -> CatalogueError:
        """The error for a value under ``key`` that breaks a rule between records."""
        return self._error(required, found, key, remedy)

    def _number(self, key: str, *, whole: bool) -> int | float:
        value = self._take(key, "a number")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
            raise self._error("a positive, finite number", value, key)
        if whole and not isinstance(value, int):
            raise self._error("a whole number, because the unit counts things", value, key)
        return value

    def _fraction(self, key: str) -> float:
        value = self._take(key, "a fraction")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            raise self._error("a fraction from 0, finite", value, key)
        return float(value)

    def _take(self, key: str, what: str) -> object:
        if not self.has(key):
            raise self._error(what, "nothing", key)
        return self._content[key]

    def _join(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def _error(self, required: str, found: object, key: str = "", remedy: str = "") -> CatalogueError:
        shown = found if isinstance(found, str) and found else repr(found)
        where = f"{self.file}: {self._join(key) if key else self.path or 'top level'}"
        return CatalogueError(
            required, found=shown[:200], where=where, remedy=remedy or "correct the data file"
        )


def parse_date(text: str) -> tuple[datetime.date, datetime.date] | None:
    """First and last day of ``YYYY``, ``YYYY-MM`` or ``YYYY-MM-DD``; ``None`` if the text is no such date."""
    if not _DATE.fullmatch(text):
        return None
    year, *rest = map(int, text.split("-"))
    month = rest[0] if rest else None
    try:
        if len(rest) == 2:
            day = datetime.date(year, rest[0], rest[1])
            return day, day
        first = datetime.date(year, month if month is not None else 1, 1)
        after = first.replace(year=year + 1) if month in (None, 12) else first.replace(month=first.month + 1)
        after = after.replace(month=1) if month == 12 else after
    except ValueError:
        return None
    return first, after - datetime.timedelta(days=1)

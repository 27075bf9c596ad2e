"""Metrics as a table: CSV with a line of column names, or one JSON object a line."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from twintrack.errors import EventError, nearest
from twintrack.events import Defect
from twintrack.pilot.imports.columns import Columns
from twintrack.pilot.imports.records import Log, Row
from twintrack.pilot.imports.text import Line, LogFile, json_value, lines_of, shown

__all__ = ["looks_like_csv", "read_metrics"]

_DELIMITERS = ",;\t"


def looks_like_csv(head: str) -> bool:
    """Whether the first line names a step and at least one more column."""
    names = _cells(head.splitlines()[0], _delimiter(head.splitlines()[0])) if head.strip() else []
    columns = Columns()
    return len(names) > 1 and any(columns.figure_of(name) == ("step", 1.0) for name in names)


def read_metrics(file: LogFile, chosen: Mapping[str, str]) -> Log:
    """Read a table of metrics.

    Raises:
        EventError: if there is no line, or a column that the user named is not there.
    """
    defects: list[Defect] = []
    lines = list(lines_of(file.data, defects))
    columns = Columns(chosen, defects)
    rows: list[Row] = []
    names: set[str] = set()
    parse = _objects if lines and lines[0].text.lstrip().startswith("{") else _table
    for line, values in parse(lines, columns):
        names.update(values)
        row = columns.row(line, values)
        if row is not None:
            rows.append(row)
    missing = [column for column in chosen.values() if column not in names]
    if missing:
        hint = nearest(missing[0], names) or f"the columns are {shown(', '.join(sorted(names)))}"
        raise EventError(
            f"a column {missing[0]}, as --columns says", found="none", where=file.name, remedy=hint
        )
    return Log(format="metrics", lines=len(lines), rows=tuple(rows), defects=tuple(defects))


def _objects(lines: Sequence[Line], columns: Columns) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for line in lines:
        try:
            value = json_value(line.text)
        except ValueError as error:
            _unreadable(columns, line, f"it is not JSON: {error}")
            continue
        if isinstance(value, dict):
            yield line.number, value
        else:
            _unreadable(columns, line, "it is no JSON object")


def _table(lines: Sequence[Line], columns: Columns) -> Iterator[tuple[int, Mapping[str, Any]]]:
    if not lines:
        return
    delimiter = _delimiter(lines[0].text)
    names = [name.strip() for name in _cells(lines[0].text, delimiter)]
    for line in lines[1:]:
        cells = _cells(line.text, delimiter)
        if len(cells) != len(names):
            _unreadable(columns, line, f"it has {len(cells)} cells for {len(names)} columns")
            continue
        yield line.number, {name: _cell(name, cell, columns) for name, cell in zip(names, cells, strict=True)}


def _cell(name: str, cell: str, columns: Columns) -> Any:
    """A cell as it is; a list of sample ids stands in its cell as JSON."""
    if columns.figure_of(name) == ("sample_ids", 1.0) and cell.strip():
        try:
            return json_value(cell)
        except ValueError:
            return cell
    return cell


def _delimiter(line: str) -> str:
    return max(_DELIMITERS, key=line.count)


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error:
        return []


def _unreadable(columns: Columns, line: Line, text: str) -> None:
    columns.defects.append(Defect(line=line.number, step=None, what="unreadable", text=text))

"""The table of operators in the documentation is the table in the code."""

from __future__ import annotations

from pathlib import Path

from twintrack.compiler.operators import ANY, BOOL, FLOAT, INDEX, INTEGER, NUMBER, OPERATORS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "compiler.md"
NAMES = {
    ANY: "any",
    BOOL: "bool",
    FLOAT: "float",
    INDEX: "index",
    INTEGER: "integer",
    NUMBER: "number",
    INTEGER | BOOL: "integer or bool",
}


def _flops(spec):
    if spec.kind == "matmul":
        return "2·M·N·K"
    if not spec.work:
        return "0"
    return f"{spec.work:g} per {'input' if spec.kind == 'reduction' else 'output'}"


def _row(spec):
    takes = ", ".join(NAMES[kinds] for kinds in spec.takes) or "nothing"
    attributes = ", ".join((*spec.attributes, *(("or scalar, side",) if spec.operands == (1, 2) else ())))
    count = " or ".join(map(str, spec.operands)) or "1 and more"
    direct = "yes" if spec.rounds_once else ""
    cells = (f"`{spec.name}`", spec.kind, count, takes, attributes, spec.result, _flops(spec), direct)
    return f"| {' | '.join(cells)} |"


def table():
    head = "| operator | kind | operands | take | attributes | result | FLOPs | `rounds_once` |"
    return "\n".join([head, "|---|---|---|---|---|---|---|---|", *map(_row, OPERATORS.values())])


def test_the_documented_table_is_the_one_in_the_code():
    text = PAGE.read_text(encoding="utf-8")
    assert table() in text, f"put this table into {PAGE.name}:\n{table()}"

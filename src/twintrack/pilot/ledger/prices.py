"""Price files: dated observations of prices and exchange rates, given by the user, checked key by key.

A price file is TOML with tables ``[[price]]`` and ``[[rate]]``::

    [[price]]
    what = "machine"               # or storage, transfer, operating
    name = "p5.48xlarge"           # a machine's instance; of the others a name to tell them apart
    model = "capacity_block"       # machines only; left out: however it is bought
    region = "us-east-2"           # left out: wherever it is
    value = 31.46
    unit = "USD/h"                 # storage: USD/GB-month or USD/GiB-month; transfer: USD/GB or USD/GiB
    source = "offer of 2026-10-02"
    observed = 2026-10-02

    [[rate]]
    from = "EUR"
    to = "USD"
    value = 1.16                   # units of ``to`` for one of ``from``
    source = "ECB reference rate"
    observed = 2026-10-02
"""

from __future__ import annotations

import datetime
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from twintrack.errors import CatalogueError, nearest
from twintrack.job.keys import KeyPath, dotted
from twintrack.job.locate import key_lines
from twintrack.job.messages import found_value, place
from twintrack.job.records import PRINTABLE_PATTERN
from twintrack.storage import FileSystem, storage_errors

__all__ = ["UNITS", "PriceFile", "PriceRow", "RateRow", "What", "read_price_file"]

What = Literal["machine", "storage", "transfer", "operating"]
UNITS: Mapping[What, tuple[str, ...]] = {
    "machine": ("h",),
    "storage": ("GB-month", "GiB-month"),
    "transfer": ("GB", "GiB"),
    "operating": ("h",),
}
"""What a price may be for, after the slash of its unit."""
_LARGEST_BYTES = 1 << 20
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_RULE = "rule"
_TOML_PLACE = re.compile(r" \(at (?:line (?P<line>\d+), column \d+|end of document)\)$")


def _day(value: object) -> object:
    """A TOML date, or the same as text."""
    if isinstance(value, str) and _DAY.fullmatch(value):
        try:
            return datetime.date.fromisoformat(value)
        except ValueError:
            return value
    return value


Text = Annotated[str, Field(min_length=1, max_length=1000, pattern=PRINTABLE_PATTERN)]
Currency = Annotated[str, Field(pattern=r"^[A-Z]{3}$")]
Day = Annotated[datetime.date, BeforeValidator(_day)]


class _Row(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True, allow_inf_nan=False
    )


class PriceRow(_Row):
    """One observed price."""

    what: What
    """What is paid for."""
    name: Text | None = None
    """Of a machine its instance; of the others what tells two prices apart."""
    model: Literal["capacity_block", "on_demand", "spot", "reserved_3y"] | None = None
    """How a machine is bought; without it the price holds however it is bought."""
    region: Text | None = None
    """Where it holds; without it everywhere."""
    value: Annotated[float, Field(ge=0.0, le=1e12)]
    """Amount of money for one unit."""
    unit: Text
    """Currency and what it buys, such as ``USD/h``."""
    source: Text
    """Where it stands."""
    observed: Day
    """Day on which it was seen there."""

    @property
    def currency(self) -> str:
        """Three letters."""
        return self.unit.partition("/")[0]

    @property
    def per(self) -> str:
        """What one unit buys, such as ``h``."""
        return self.unit.partition("/")[2]

    @model_validator(mode="after")
    def _belongs_together(self) -> PriceRow:
        units = [f"USD/{per}" for per in UNITS[self.what]]
        if not re.fullmatch(r"[A-Z]{3}", self.currency) or self.per not in UNITS[self.what]:
            raise _rule("unit", f"{' or '.join(units)} or another currency, for {self.what}", self.unit)
        if self.what == "machine" and self.name is None:
            raise _rule("name", "the name of the instance, for a machine", None)
        if self.what != "machine" and self.model is not None:
            raise _rule("model", f"no model, for {self.what}", self.model)
        return self


class RateRow(_Row):
    """One observed exchange rate."""

    source_currency: Annotated[Currency, Field(alias="from")]
    """What is given."""
    target_currency: Annotated[Currency, Field(alias="to")]
    """What is got for it."""
    value: Annotated[float, Field(gt=0.0, le=1e12)]
    """Units of ``to`` for one of ``from``."""
    source: Text
    """Where it stands."""
    observed: Day
    """Day on which it held."""


class _Content(_Row):
    price: tuple[PriceRow, ...] = ()
    rate: tuple[RateRow, ...] = ()


@dataclass(frozen=True, slots=True)
class PriceFile:
    """The rows of one file."""

    name: str
    """As the user named it; part of every figure's source."""
    prices: tuple[PriceRow, ...]
    rates: tuple[RateRow, ...]


def _rule(key: str, required: str, found: str | None) -> PydanticCustomError:
    return PydanticCustomError(_RULE, "{required}", {"key": key, "required": required, "found": found})


def read_price_file(path: Path, fs: FileSystem) -> PriceFile:
    """Read and check a price file.

    Raises:
        CatalogueError: if it is no price file; one line names the file, the line and the key.
        StorageError: if it cannot be read.
    """
    with storage_errors(path, "read prices"):
        if fs.size(path) > _LARGEST_BYTES:
            raise _wrong(path, None, f"a price file of at most {_LARGEST_BYTES:,} bytes", "a larger one")
        data = fs.read_bytes(path)
    content, lines = _parse(path, data)
    try:
        found = _Content.model_validate(content)
    except ValidationError as error:
        raise _first_mistake(path, error, lines) from None
    return PriceFile(str(path), found.price, found.rate)


def _parse(path: Path, data: bytes) -> tuple[Any, Mapping[KeyPath, int]]:
    try:
        text = data.decode()
        content = tomllib.loads(text)
        return _tuples(content), key_lines(text)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _wrong(path, line, "text in UTF-8", f"the byte 0x{data[error.start]:02x}") from None
    except tomllib.TOMLDecodeError as error:
        at = _TOML_PLACE.search(str(error))
        told = str(error)[: at.start()] if at else str(error)
        line = int(at["line"]) if at and at["line"] else len(data.decode().splitlines())
        raise _wrong(path, line, "TOML", told[:1].lower() + told[1:]) from None
    except RecursionError:
        raise _wrong(path, None, "tables of prices and rates", "tables nested too deep") from None
    except ValueError as error:  # a number of thousands of digits
        raise _wrong(path, None, "TOML", str(error).partition(";")[0]) from None


def _tuples(value: Any) -> Any:
    """The same with tuples for lists, as strict records want it."""
    if isinstance(value, dict):
        return {name: _tuples(inner) for name, inner in value.items()}
    return tuple(_tuples(inner) for inner in value) if isinstance(value, list) else value


def _first_mistake(path: Path, error: ValidationError, lines: Mapping[KeyPath, int]) -> CatalogueError:
    details = error.errors(include_url=False)
    details.sort(key=lambda one: (one["type"] != "extra_forbidden", _line(one["loc"], lines) or 0))
    key, required, found, remedy = _mistake(details[0])
    if len(details) > 1:
        remedy += f" (and {len(details) - 1} more in this file)"
    where = f"{place(path, _line(key, lines))}: {dotted(key)}"
    return CatalogueError(required, found=found, where=where, remedy=remedy)


def _mistake(detail: ErrorDetails) -> tuple[KeyPath, str, str, str]:
    """Key, what was required, what was found, what to do."""
    key: KeyPath = detail["loc"]
    if detail["type"] == "extra_forbidden":
        known = _known(key)
        hint = nearest(str(key[-1]), known) or f"the keys here are {', '.join(known)}"
        return key, "a key of a price file", repr(key[-1]), hint
    if detail["type"] == "missing":
        return key, f"the key '{key[-1]}'", "none", "add it; docs/ledger.md shows a price file"
    if detail["type"] == _RULE:
        told = detail["ctx"]
        found = "none" if told["found"] is None else repr(told["found"])
        return (*key, told["key"]), told["required"], found, "give such a value"
    required = detail["msg"].removeprefix("Input should be ")
    if key[-1] == "observed":
        required = "a day, as in 2026-10-02"
    value = found_value(detail["input"])
    return key, required, value, "give such a value"


def _known(key: KeyPath) -> tuple[str, ...]:
    if len(key) == 1:
        return "price", "rate"
    model: type[BaseModel] = PriceRow if key[0] == "price" else RateRow
    return tuple(field.alias or name for name, field in model.model_fields.items())


def _line(key: KeyPath, lines: Mapping[KeyPath, int]) -> int | None:
    return next((lines[key[:end]] for end in range(len(key), 0, -1) if key[:end] in lines), None)


def _wrong(path: Path, line: int | None, required: str, found: str) -> CatalogueError:
    return CatalogueError(
        required, found=found, where=place(path, line), remedy="docs/ledger.md shows a price file"
    )

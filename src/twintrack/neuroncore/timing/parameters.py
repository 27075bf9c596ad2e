"""The parameters of the timing model, each with its source; what nobody published is unknown, never borrowed."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from importlib.resources import files
from typing import Any

from twintrack.errors import KernelError

__all__ = ["ParameterRecord", "Parameters", "parameter_records", "parameters_of"]


@dataclass(frozen=True, slots=True)
class ParameterRecord:
    """One entry of the data file.

    Args:
        name: field of ``Parameters``.
        values: by chip.
        unit: of the values.
        kind: ``published``, ``derived``, ``fitted`` or ``chosen``.
        source: where it comes from.
        note: how it was derived or chosen.
        fitted_on: the published measurement that it, or the value of one chip, was fitted on; empty for none.
    """

    name: str
    values: Mapping[str, float]
    unit: str
    kind: str
    source: str
    note: str = ""
    fitted_on: str = ""


@dataclass(frozen=True, slots=True)
class Parameters:
    """Every parameter for one chip; units as in the data file."""

    chip: str
    tensor_ghz: float
    vector_ghz: float
    scalar_ghz: float
    gpsimd_ghz: float
    minimum_interval: float
    tensor_gap: float
    tensor_fill: float
    throttle_share: float
    throttle_window: float
    throttle_threshold: float
    vector_fixed: float
    scalar_fixed: float
    scalar_table_load: float
    scalar_accumulator_read: float
    gpsimd_fixed: float
    semaphore: float
    dma_engines: float
    dma_rate: float
    dma_row: float
    dma_issue: float
    dma_start: float
    dma_stagger: float
    dma_completion: float
    dma_transpose_share: float
    dma_compute_share: float
    dma_core_rate_shared: float
    tensor_peak: float
    dma_peak: float

    @property
    def clocks(self) -> tuple[float, ...]:
        """GHz of every engine, in the order of ``trace.ENGINES``; the sequencers that synchronise run with GpSimd."""
        return self.tensor_ghz, self.vector_ghz, self.scalar_ghz, self.gpsimd_ghz, self.gpsimd_ghz

    def changed(self, **values: float) -> Parameters:
        """The same with other values, for sensitivities and what-if questions."""
        return replace(self, **values)  # type: ignore[arg-type]


_KINDS = ("published", "derived", "fitted", "chosen")


def parameter_records() -> tuple[ParameterRecord, ...]:
    """Every entry of the data file, in its order.

    Raises:
        ValueError: if the file of the package is damaged.
    """
    text = (files("twintrack.neuroncore.timing") / "data" / "parameters.toml").read_text(encoding="utf-8")
    return tuple(_record(one) for one in tomllib.loads(text)["parameter"])


def _record(entry: dict[str, Any]) -> ParameterRecord:
    if entry["kind"] not in _KINDS:
        raise ValueError(f"parameter {entry['name']}: kind {entry['kind']!r}, required one of {_KINDS}")
    chips: tuple[str, ...] = ("trn1", "trn2", "trn3")
    values = {chip: float(entry[chip]) for chip in chips if chip in entry}
    return ParameterRecord(
        str(entry["name"]),
        values,
        str(entry["unit"]),
        str(entry["kind"]),
        str(entry["source"]),
        str(entry.get("note", "")),
        str(entry.get("fitted_on", "")),
    )


def parameters_of(chip: str) -> Parameters:
    """The parameters of a chip.

    Args:
        chip: ``trn1`` or ``trn2``.

    Raises:
        KernelError: if figures of this chip were not published; all that are missing are named.
    """
    found = {one.name: one.values[chip] for one in parameter_records() if chip in one.values}
    needed = [one.name for one in fields(Parameters) if one.name != "chip"]
    missing = [name for name in needed if name not in found]
    if missing:
        raise KernelError(
            "published timing figures of the chip",
            found=f"none for {', '.join(missing[:4])}"
            + (f" and {len(missing) - 4} more" if len(missing) > 4 else ""),
            where=f"timing of {chip}",
            remedy="time it for trn1 or trn2; what nobody published is unknown",
        )
    return Parameters(chip, **{name: found[name] for name in needed})

"""Published training speeds: who trained what, how, on which chips, and how many tokens a second each chip took."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from enum import StrEnum

from twintrack.hardware.records import Detail, Source
from twintrack.hardware.table import Table
from twintrack.quantity import Quantity

__all__ = ["Method", "Precision", "Scope", "Throughput", "read_throughput"]

_UNIT = "token/s"


class Method(StrEnum):
    """Which parameters are trained."""

    LORA = "lora"
    QLORA = "qlora"
    """LoRA over a base that is held in 4 bits."""
    FULL = "full"
    """Fine-tuning of all parameters."""
    PRETRAIN = "pretrain"
    """Training of all parameters on plain text; the arithmetic of a step is that of ``FULL``."""


class Precision(StrEnum):
    """Format of the operands of the large matrix products; sums, norms and optimizer are often wider."""

    BF16 = "bf16"
    FP8 = "fp8"
    MXFP8 = "mxfp8"


class Scope(StrEnum):
    """What the time behind a speed covers."""

    STEADY = "steady"
    """Training steps alone, after start-up and compilation."""
    END_TO_END = "end_to_end"
    """From the first step to the stop, evaluations included, start-up and compilation not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """One published speed.

    Args:
        key: name of the row, unique.
        model: name of the model.
        parameters: how many it has, embeddings included.
        layers: decoder layers; with ``hidden_size`` they give the work of attention.
        hidden_size: width of the residual stream.
        method: which parameters were trained.
        lora_rank: rank of the adapters; ``None`` where there are none or the source does not state it.
        precision: format of the matrix products.
        sequence_length: tokens of a row.
        packed: whether rows are filled with samples, so that (nearly) every counted token carries work; ``None``
            where the source does not say.
        chip: name of the chip in the catalogue.
        chips: how many took part.
        scope: what the time covers.
        tokens_per_second_per_chip: in token/s, with an error where the source supports one.
        plan: how the work was divided, in the source's terms; empty where it is not stated.
        software: the stack and its version.
        detail: status, source and note of the figure.
    """

    key: str
    model: str
    parameters: int
    layers: int
    hidden_size: int
    method: Method
    lora_rank: int | None
    precision: Precision
    sequence_length: int
    packed: bool | None
    chip: str
    chips: int
    scope: Scope
    tokens_per_second_per_chip: Quantity
    plan: str
    software: str
    detail: Detail


def read_throughput(table: Table, chips: Container[str], sources: Mapping[str, Source]) -> Throughput:
    """One row of a data file.

    Args:
        table: the row.
        chips: names of the chips that the catalogue knows.
        sources: the known sources.

    Raises:
        CatalogueError: for a missing or unknown key, a chip that the catalogue does not know, a LoRA rank without
            LoRA, a figure without unit or source; file and key are named.
    """
    figure, detail = table.figure("tokens_per_second_per_chip", _UNIT, sources)
    if not figure.known:
        raise table.refuse(
            "a figure: a speed that nobody published is no row", "unknown", "tokens_per_second_per_chip"
        )
    error = table.error("error")
    method = Method(table.choice("method", Method))
    lora_rank = table.count_or_none("lora_rank")
    if lora_rank is not None and method not in (Method.LORA, Method.QLORA):
        raise table.refuse(f"no lora_rank for the method {method}", lora_rank, "lora_rank")
    chip = table.text("chip")
    if chip not in chips:
        raise table.refuse("the name of a chip in the catalogue", chip, "chip")
    row = Throughput(
        key=table.text("key"),
        model=table.text("model"),
        parameters=table.count("parameters"),
        layers=table.count("layers"),
        hidden_size=table.count("hidden_size"),
        method=method,
        lora_rank=lora_rank,
        precision=Precision(table.choice("precision", Precision)),
        sequence_length=table.count("sequence_length"),
        packed=table.flag("packed"),
        chip=chip,
        chips=table.count("chips"),
        scope=Scope(table.choice("scope", Scope)),
        tokens_per_second_per_chip=figure if error is None else figure.within(error),
        plan=table.text("plan", default=""),
        software=table.text("software"),
        detail=detail,
    )
    table.close()
    return row

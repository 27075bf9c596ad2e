"""Published memory figures, computed again by the formulas of this folder, and how far both lie apart.

``data/memory.toml`` holds the figures with their sources and ``data/models.toml`` the sizes of the models they name.
Each figure is of another program than ours, so its own rules are put into the formulas: formats of its state, sharding
over data (Rajbhandari et al. 2020, arXiv 1910.02054), what it computes again. Nothing is fitted. Where a source does
not state enough, the figure is shown and nothing is concluded from it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from twintrack.errors import CatalogueError
from twintrack.job.records import Lora, Parallel
from twintrack.pilot.qualify.activations import (
    Rows,
    Rule,
    layer_input_bytes,
    layer_saved,
    layer_working,
    loss_saved,
    loss_working,
    shared_saved,
)
from twintrack.pilot.qualify.architecture import ModelShape
from twintrack.pilot.qualify.parameters import targets_of
from twintrack.pilot.qualify.plan import Shard, shard_of
from twintrack.quantity import Error, Provenance, Quantity

__all__ = ["PublishedCheck", "check_published", "estimate_error", "known_models", "published_parameters"]

_BYTES: Mapping[str, int] = {"fp32": 4, "bf16": 2, "fp8": 2}  # fp8 products leave activations in bf16
_UNITS: Mapping[str, int] = {"byte": 1, "GB": 10**9, "GiB": 2**30}
_CHUNKS = 8  # pieces of a chunked loss: torchtune's default, CEWithChunkedOutputLoss(num_output_chunks=8)
_BASIS = "published memory figures against our formulas (twintrack qualify --published)"


@dataclass(frozen=True, slots=True)
class PublishedCheck:
    """One published figure beside ours."""

    key: str
    text: str
    """Model, method, batch, plan in a few words."""
    published: Quantity
    ours: Quantity
    """Unknown, with the reason, where the source does not state enough, or the program does what we have no formula
    for."""
    exact: int
    """Bytes of ours that are counts of parameters; the rest is a model of what is kept."""
    judged: bool
    """Whether the error of our formulas is taken from it."""
    counts: str
    note: str

    @property
    def error(self) -> float | None:
        """Ours over the published figure, less one."""
        if not self.ours.known:
            return None
        return self.ours.require() / self.published.require() - 1.0


def known_models(root: Traversable | None = None) -> dict[str, tuple[ModelShape, Quantity]]:
    """Sizes and published parameters of public models by their names.

    Raises:
        CatalogueError: if the data file lacks something or contradicts itself.
    """
    found: dict[str, tuple[ModelShape, Quantity]] = {}
    for row in _rows("models.toml", "model", root):
        try:
            sizes = {key: row[key] for key in ("vocabulary", "hidden", "intermediate", "layers", "heads")}
            shape = ModelShape(
                **sizes,
                kv_heads=row["kv_heads"],
                head_size=row["head_size"],
                tied=row["tied"],
                attention_bias=False,
                mlp_bias=False,
                positions=row.get("positions", 0),
                source=row["source"],
            )
            total = Quantity(row["parameters"], "parameters", Provenance.PUBLISHED, row["source"])
            found |= dict.fromkeys(row["names"], (shape, total))
        except KeyError as error:
            raise _wrong(f"the key {error.args[0]}", "none", "models.toml") from error
    return found


def published_parameters(shape: ModelShape, root: Traversable | None = None) -> Quantity | None:
    """The published total of the public model of these sizes, where there is one."""

    def sizes(one: ModelShape) -> tuple[object, ...]:
        return (one.vocabulary, one.hidden, one.intermediate, one.layers, one.heads, one.kv_heads, one.tied)

    return next((total for known, total in known_models(root).values() if sizes(known) == sizes(shape)), None)


def check_published(root: Traversable | None = None) -> tuple[PublishedCheck, ...]:
    """Every published figure, ours beside it where it can be computed.

    Raises:
        CatalogueError: if a data file breaks a rule.
    """
    models = known_models(root)
    return tuple(_check(row, models) for row in _rows("memory.toml", "memory", root))


def estimate_error(checks: Sequence[PublishedCheck]) -> Error | None:
    """How far off the parts that are no counts may be: the range over all judged figures, as fractions of ours.

    The counts of parameters are subtracted on both sides first, so that large weights cannot hide an error of the
    rest. Figures that include an allocator's reserve are above ours for that reason too; it is memory all the same.
    """
    ratios = [
        (one.published.require() - one.exact) / (one.ours.require() - one.exact) - 1.0
        for one in checks
        if one.judged and one.ours.require() > one.exact
    ]
    if not ratios:
        return None
    return Error(max(0.0, -min(ratios)), max(0.0, *ratios), f"{_BASIS}, {len(ratios)} figures")


def _check(row: Mapping[str, Any], models: Mapping[str, tuple[ModelShape, Quantity]]) -> PublishedCheck:
    try:
        value = row["value"] * _UNITS[row["unit"]]
        published = Quantity(value, "byte", Provenance.PUBLISHED, row["source"], date=row["date"])
        shape, _ = models[row["model"]]
        kind, reason = _kind(row)
        exact, rest, formula = _computed(kind, row, shape)
        config = Quantity(1, "model", Provenance.PUBLISHED, shape.source)
        ours = (
            Quantity.derived(exact + rest, "byte", formula, [config, published])
            if kind
            else Quantity.unknown("byte", reason)
        )
        return PublishedCheck(
            key=row["key"],
            text=_text(row),
            published=published,
            ours=ours,
            exact=exact,
            judged=kind == "device" and not row.get("compiled") and "offloaded" not in row.get("note", ""),
            counts=row["counts"],
            note=row.get("note", ""),
        )
    except KeyError as error:
        raise _wrong(f"the key or value {error.args[0]}", "none", f"memory.toml: {row.get('key')}") from error


def _kind(row: Mapping[str, Any]) -> tuple[str, str]:
    """What a row can be held against: ``device``, ``file``, ``state``; empty with the reason why not."""
    if not row["complete"]:
        return "", "the source does not state enough to compute it"
    if "bytes of the saved" in row["counts"]:
        return "file", ""
    if "micro_batch" in row:
        return "device", ""
    return "state", ""


def _computed(kind: str, row: Mapping[str, Any], shape: ModelShape) -> tuple[int, int, str]:
    """Bytes that are counted, bytes that are modelled, formula."""
    lora = _lora(row)
    trained = sum(r.inputs + r.outputs for r in shape.linears if lora and r.name in lora.targets)
    learning = lora.rank * shape.layers * trained if lora else shape.parameters
    match kind:
        case "file":
            each = _BYTES[row["trained"]]
            return each * learning, 0, f"{each} B x {learning:,} trained parameters"
        case "state":
            each = _BYTES[row["trained"]] + 2 * _BYTES[row["optimizer_states"]]
            return each * learning, 0, f"{each} B x {learning:,}: weights and two moments"
        case "device":
            return _device(row, shape, lora)
    return 0, 0, ""


def _lora(row: Mapping[str, Any]) -> Lora | None:
    targets = row.get("lora_targets")
    return Lora(targets=tuple(targets), rank=row["lora_rank"]) if targets else None


def _device(row: Mapping[str, Any], shape: ModelShape, lora: Lora | None) -> tuple[int, int, str]:
    plan = row["plan"]
    degrees = Parallel(data=plan["data"], tensor=plan["tensor"], pipeline=plan["pipeline"])
    targets = targets_of(shape, lora)
    rank = lora.rank if lora else None
    shard = shard_of(shape, targets, rank, degrees, 0)
    sharded = plan["sharding"] == "fsdp"
    shares = degrees.data if sharded else 1
    trained_bytes, compute = _BYTES[row["trained"]], _BYTES[row["compute"]]
    trained, base = sum(shard.trained), shard.base if lora else 0
    weights = (_BYTES[row["weights"]] * base + trained_bytes * trained) // shares
    moments = 2 * _BYTES[row["optimizer_states"]] * trained // shares
    gradients = trained_bytes * trained // shares
    rows = Rows(row["micro_batch"], row["sequence_length"], compute, degrees.tensor)
    rule = Rule(eager=False, rank=rank)
    kept, backward = _kept(row, shape, rows, rule, targets.layers)
    if lora and trained_bytes != compute:
        kept += _cast_inputs(shape, lora, rows, trained_bytes)
    loss = loss_saved(shape, rows, rule, shard.vocabulary, head=False, learned=True)
    loss = (loss + loss_working(rows, shard.vocabulary)) // (_CHUNKS if row.get("loss") == "chunked" else 1)
    exact = weights + moments + (_gathered(shape, shard, compute) if sharded else 0)
    if gradients + backward > kept + loss:
        return exact + gradients, backward, _formula(row, "gradients at the end")
    return exact, kept + loss, _formula(row, "activations, logits and loss")


def _gathered(shape: ModelShape, shard: Shard, compute: int) -> int:
    """FSDP: the two largest units in whole, a layer or a table, and the gradient of the larger one."""
    layer = (
        shape.layer_parameters * shard.vocabulary // shape.vocabulary
    )  # cut by the tensor degree as the table is
    small, large = sorted((shard.vocabulary * shape.hidden, layer))
    return compute * (2 * large + small)


def _formula(row: Mapping[str, Any], peak: str) -> str:
    return (
        f"weights {row['weights']}, trained {row['trained']}, moments {row['optimizer_states']}; peak: {peak};"
        f" recomputation {row.get('recomputation', 'none')}, sharding {row['plan']['sharding']}"
    )


def _kept(
    row: Mapping[str, Any], shape: ModelShape, rows: Rows, rule: Rule, layers: Sequence[frozenset[str]]
) -> tuple[int, int]:
    """Bytes kept of all layers, and what the backward pass of one holds beside its inputs."""
    sizes = [sum(layer_saved(shape, rows, rule, adapted, learned_before=True).values()) for adapted in layers]
    working = layer_working(shape, rows, rule, layers[0])
    match row.get("recomputation", "none"):
        case "none":
            return sum(sizes) + shared_saved(shape, rows, rule), working
        case "full":
            inputs = layer_input_bytes(shape, rows) * shape.layers
            return inputs + sizes[0] + working, sizes[0] + working
        case "selective":
            outputs = sum(one.outputs for one in shape.linears)
            queries = shape.heads * shape.head_size
            each = rows.compute * rows.tokens * (shape.hidden + queries + outputs // 2) // rows.tensor
            return each * shape.layers, sizes[0] + working
    raise KeyError("recomputation")


def _cast_inputs(shape: ModelShape, lora: Lora, rows: Rows, trained: int) -> int:
    """Adapters in float32 beside bf16 weights: PEFT casts each one's input, and A's output is float32 too."""
    extra = 0
    for linear in shape.linears:
        if linear.name in lora.targets:
            extra += rows.tokens * (trained * linear.inputs + (trained - rows.compute) * lora.rank)
    return extra * shape.layers


def _text(row: Mapping[str, Any]) -> str:
    name = row["model"].rsplit("/", 1)[-1]
    parts = [name, row["method"] + (f" r{row['lora_rank']}" if "lora_rank" in row else "")]
    if "micro_batch" in row:
        parts.append(f"{row['micro_batch']} x {row['sequence_length']}")
    plan = row.get("plan", {})
    parts += [f"{key} {plan[key]}" for key in ("tensor", "pipeline", "data") if plan.get(key, 1) > 1]
    if plan.get("sharding", "none") != "none":
        parts.append(plan["sharding"])
    if row.get("recomputation", "none") != "none":
        parts.append(f"{row['recomputation']} recomputation")
    if row.get("compiled"):
        parts.append("compiled")
    if row.get("loss") == "chunked":
        parts.append("chunked loss")
    return ", ".join(parts)


def _rows(name: str, table: str, root: Traversable | None) -> list[dict[str, Any]]:
    folder = root if root is not None else resources.files("twintrack.pilot.qualify").joinpath("data")
    try:
        content = tomllib.loads(folder.joinpath(name).read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _wrong("TOML in UTF-8", str(error), name) from error
    rows = content.get(table)
    if not isinstance(rows, list) or not rows:
        raise _wrong(f"tables [[{table}]]", "none", name)
    return rows


def _wrong(required: str, found: str, where: str) -> CatalogueError:
    return CatalogueError(required, found=found, where=where, remedy="correct the data file")

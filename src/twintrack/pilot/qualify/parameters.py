"""How many parameters a model has, by kind of module, and which of them a job trains.

Counted by arithmetic over the configuration. A test holds every count against what ``adapt`` (PEFT) makes of real
models, and against the published totals of Llama-3.1-8B and 70B.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from twintrack.errors import ModelError, nearest
from twintrack.job.records import Lora
from twintrack.pilot.qualify.architecture import Linear, ModelShape
from twintrack.pilot.qualify.records import ModuleCount, Parameters
from twintrack.quantity import Quantity

__all__ = ["Targets", "adapted_modules", "count_parameters", "targets_of"]


@dataclass(frozen=True, slots=True)
class Targets:
    """Which modules are adapted, layer by layer."""

    layers: tuple[frozenset[str], ...]
    """Names of the adapted linear modules of each decoder layer."""
    head: bool
    """Whether ``lm_head`` is adapted."""


def targets_of(shape: ModelShape, lora: Lora | None) -> Targets:
    """Adapted modules by layer; none in full fine-tuning.

    Raises:
        ModelError: if a target names no linear module, or a tied head.
    """
    layers: list[set[str]] = [set() for _ in range(shape.layers)]
    head = False
    for name, linear in adapted_modules(shape, lora):
        if name == "lm_head":
            head = True
        else:
            layers[int(name.split(".")[2])].add(linear.name)
    return Targets(tuple(map(frozenset, layers)), head)


def count_parameters(shape: ModelShape, lora: Lora | None, config: Quantity) -> Parameters:
    """Parameters of a model by kind of module, and those that the job trains.

    LoRA adds A [rank, in] and B [out, rank] to each adapted module (Hu et al. 2021, arXiv 2106.09685).

    Args:
        shape: sizes of the model.
        lora: the job's adapters; none: the whole model is trained.
        config: the figure that all of them rest on: the configuration.

    Raises:
        ModelError: if a target names no linear module, or a tied head; as training would say.
    """
    kinds = _kinds(shape)
    total = sum(each * count for _, each, count in kinds)
    adapted = adapted_modules(shape, lora)
    adapters = sum(lora.rank * (one.inputs + one.outputs) for _, one in adapted) if lora else 0
    per_kind = Counter(one.name for _, one in adapted)
    modules = tuple(
        ModuleCount(
            kind=name,
            modules=count,
            parameters=_derived(each * count, f"{each:,} x {count} modules", config),
            adapted=per_kind[name],
            trainable=_derived(
                each * count if lora is None else _adapter_size(shape, name, lora) * per_kind[name],
                "all of them" if lora is None else f"rank x (in + out) x {per_kind[name]} modules",
                config,
            ),
        )
        for name, each, count in kinds
    )
    return Parameters(
        modules=modules,
        total=_derived(total, "sum over the modules, tied weights once", config),
        adapters=_derived(adapters, "sum over adapted modules of rank x (in + out)", config),
        trainable=_derived(
            adapters if lora else total, "adapters" if lora else "every parameter, tied weights once", config
        ),
        adapted_modules=tuple(name for name, _ in adapted),
        published=None,
    )


def adapted_modules(shape: ModelShape, lora: Lora | None) -> list[tuple[str, Linear]]:
    """Full name and kind of every module that gets an adapter, in the model's order.

    Raises:
        ModelError: if a target names no linear module, or a tied head.
    """
    if lora is None:
        return []
    linears = list(shape.named_linears())
    endings = sorted({one.name for _, one in linears})
    for target in lora.targets:
        if not any(_is_target(name, target) for name, _ in linears):
            raise ModelError(
                f"a linear module whose name ends in '{target}'",
                found="none",
                where="lora.targets",
                remedy=nearest(target, endings) or f"the model has {', '.join(endings)}",
            )
        if shape.tied and _is_target("lm_head", target):
            raise ModelError(
                "targets with weights of their own",
                found="lm_head, whose weight is that of the input embedding in this model",
                where="lora.targets",
                remedy="leave lm_head out",
            )
    return [(name, one) for name, one in linears if any(_is_target(name, t) for t in lora.targets)]


def _is_target(name: str, target: str) -> bool:
    """Whether a module of this full name is meant by a LoRA target."""
    return name == target or name.endswith(f".{target}")


def _kinds(shape: ModelShape) -> list[tuple[str, int, int]]:
    """Kind, parameters of one, how many."""
    kinds = [("embed_tokens", shape.vocabulary * shape.hidden, 1)]
    kinds += [(one.name, one.parameters, shape.layers) for one in shape.linears]
    kinds.append(("norm", shape.hidden, 2 * shape.layers + 1))
    if not shape.tied:
        kinds.append(("lm_head", shape.head.parameters, 1))
    return kinds


def _adapter_size(shape: ModelShape, kind: str, lora: Lora) -> int:
    linear = next((one for one in (*shape.linears, shape.head) if one.name == kind), None)
    return lora.rank * (linear.inputs + linear.outputs) if linear else 0


def _derived(value: int, formula: str, config: Quantity) -> Quantity:
    return Quantity.derived(value, "parameters", formula, [config])

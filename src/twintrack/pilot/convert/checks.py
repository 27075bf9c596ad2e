"""What has to hold of a converted folder, one function per thing, from what was read and answered.

A check never raises for what it finds: a folder that is wrong in one way may be wrong in others, and each is told.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from twintrack.pilot.convert.layouts import KeyProblem, key_problems
from twintrack.pilot.convert.probe import Answers, Batch, Probe, divergence
from twintrack.pilot.convert.records import Check
from twintrack.storage import digest_bytes

__all__ = [
    "LARGEST_DIVERGENCE",
    "LARGEST_LOSS_GAP",
    "LARGEST_LOST_SHARE",
    "LARGEST_REORDERED",
    "check_effect",
    "check_logits",
    "check_losses",
    "check_merge",
    "check_optimizer",
    "check_position",
    "check_recorded",
    "check_same_bits",
    "check_tensors",
    "failed",
    "tensor_digests",
]

LARGEST_DIVERGENCE = 1e-10
"""Nats, between two programs that hold the same weights and add in the same order."""
LARGEST_REORDERED = 1e-9
"""Nats, where float32 sums are made in another order: of devices, or of weights that were merged. A model of 30 layers
gives 2e-11 to 4e-11, an un-permuted rotary layout 8e-7 at least (``docs/convert.md``)."""
LARGEST_LOST_SHARE = 0.1
"""Of the adapter's effect, in nats, that rounding merged weights to bfloat16 may take."""
LARGEST_LOSS_GAP = 1e-5
"""Relative. Two float32 programs give 1e-7; a step without restored moments 1e-3 and more."""

Shape = tuple[int, ...]


def failed(name: str, found: str) -> Check:
    """A check that could not even be made."""
    return Check(name=name, passed=False, found=" ".join(found.split())[:300])


def check_tensors(
    tensors: Mapping[str, Tensor], expected: Mapping[str, Shape], dtypes: frozenset[torch.dtype]
) -> list[Check]:
    """``keys``: those that the base model asks for, no more; ``shapes``: as it asks for, of an expected type."""
    problems = list(key_problems(tensors, expected, dtypes=dtypes))
    keys = [p for p in problems if (p.key in tensors) is not (p.key in expected)]
    others = [p for p in problems if p not in keys]
    total = f"{len(expected)} tensors as the base model asks for them"
    return [_counted("keys", keys, total), _counted("shapes", others, total)]


def _counted(name: str, problems: list[KeyProblem], total: str) -> Check:
    found = total
    if problems:
        first = problems[0]
        near = f"; did you mean {first.nearest}" if first.nearest else ""
        found = f"{first.key}: required {first.required}, found {first.found}{near}"
    return Check(
        name=name, passed=not problems, found=found, value=len(problems), limit=0, unit="wrong tensors"
    )


def check_logits(
    ours: Tensor, theirs: Tensor, name: str = "logits", limit: float = LARGEST_DIVERGENCE
) -> Check:
    """Kullback-Leibler divergence over the fixed batch, of logits ``[B, T, V]``."""
    if ours.shape != theirs.shape:
        return failed(name, f"shape {tuple(theirs.shape)} for {tuple(ours.shape)}")
    value = divergence(ours, theirs)
    rows, tokens, _ = ours.shape
    largest = float((ours - theirs).abs().max())
    return Check(
        name=name,
        passed=value <= limit,
        found=f"KL {value:.1e} over {rows} rows of {tokens} positions; logits differ by {largest:.1e} at most",
        value=_finite(value),
        limit=limit,
        unit="nat",
    )


def check_merge(ours: Answers, theirs: Answers, *, rounded: bool) -> list[Check]:
    """``merge``: a merged model answers as base and adapter did apart; rounded, it keeps what the adapter learned."""
    if ours.unmerged_logits is None:
        return []
    limit = LARGEST_REORDERED
    if rounded:
        limit = max(limit, LARGEST_LOST_SHARE * divergence(ours.base_logits, ours.unmerged_logits))
    return [check_logits(ours.unmerged_logits, theirs.logits, "merge", limit)]


def check_effect(theirs: Answers, *, adapter: bool) -> Check:
    """What was trained changes logits: an adapter that is saved and never applied would not."""
    largest = float((theirs.logits - theirs.base_logits).abs().max())
    moved = divergence(theirs.base_logits, theirs.logits)
    return Check(
        name="adapter effect" if adapter else "training effect",
        passed=largest > 0.0,
        found=f"logits move by up to {largest:.2g} from the base model's, KL {moved:.1e}"
        if largest > 0.0
        else "no logit differs from the base model's",
        value=_finite(largest),
        limit=0.0,
        unit="logit, more than",
    )


def check_losses(ours: Answers, theirs: Answers) -> list[Check]:
    """``continued step``: loss of the next step; ``step after``: loss after its update, which moments decide."""
    names = ("continued step", "step after") if len(ours.losses) > 1 else ("next loss",)
    checks: list[Check] = []
    for index, (name, loss) in enumerate(zip(names, ours.losses, strict=True)):
        if index >= len(theirs.losses):
            checks.append(failed(name, "no loss: the step could not be continued"))
            continue
        checks.append(_gap(name, loss, theirs.losses[index], LARGEST_LOSS_GAP, "ours would have had"))
    return checks


def check_recorded(recorded: float, theirs: Answers, limit: float) -> Check:
    """The loss of the next step beside the one that the run itself recorded when it went on."""
    if not theirs.losses:
        return failed("recorded step", "no loss: the step could not be continued")
    return _gap("recorded step", recorded, theirs.losses[0], limit, "the run recorded")


def _gap(name: str, ours: float, theirs: float, limit: float, who: str) -> Check:
    value = abs(ours - theirs) / max(abs(ours), 1e-30) if math.isfinite(theirs) else math.inf
    return Check(
        name=name,
        passed=value <= limit,
        found=f"loss {theirs:.8g}, {who} {ours:.8g}",
        value=_finite(value),
        limit=limit,
        unit="relative",
    )


def check_optimizer(
    state: Mapping[str, Mapping[str, Tensor]], step: int, expected: Mapping[str, Shape], wanted_step: int
) -> Check:
    """Masters and both moments of every trained tensor, with its shape and nothing else, and the step.

    Args:
        state: ``master``, ``exp_avg``, ``exp_avg_sq`` by parameter name.
        step: that the file says.
        expected: shape of every trained parameter, by name.
        wanted_step: of the state that was converted.
    """
    wrong: list[str] = []
    for kind in ("master", "exp_avg", "exp_avg_sq"):
        own = state.get(kind, {})
        for name, shape in expected.items():
            if name not in own:
                wrong.append(f"no {kind} of {name}")
            elif tuple(own[name].shape) != shape or own[name].dtype is not torch.float32:
                wrong.append(f"{kind} of {name}: {own[name].dtype} {list(own[name].shape)}")
        wrong += [f"{kind} of {name}, which nobody trains" for name in sorted(own.keys() - expected.keys())]
    if step != wanted_step:
        wrong.append(f"step {step} for step {wanted_step}")
    found = f"masters and two moments of {len(expected)} tensors, step {step}" if not wrong else wrong[0]
    return Check(
        name="optimizer state",
        passed=not wrong,
        found=found,
        value=len(wrong),
        limit=0,
        unit="wrong parts",
    )


def tensor_digests(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """SHA-256 of type, shape and bytes of each tensor."""
    digests: dict[str, str] = {}
    for name, tensor in tensors.items():
        data = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        head = f"{tensor.dtype} {tuple(tensor.shape)} ".encode()
        digests[name] = digest_bytes(head + data)
    return digests


def check_same_bits(expected: Mapping[str, str], tensors: Mapping[str, Tensor]) -> Check:
    """Every tensor of the state, read back, is what was to be written."""
    found = tensor_digests(tensors)
    wrong = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    return Check(
        name="state",
        passed=not wrong,
        found=f"{len(expected)} tensors equal to the bit" if not wrong else f"{wrong[0]} differs",
        value=len(wrong),
        limit=0,
        unit="wrong tensors",
    )


def check_position(probe: Probe, steps: tuple[tuple[Batch, ...], ...]) -> Check:
    """A run that goes on from the state sees the batches that come next, none twice and none left out."""
    asked = [batch for batches in probe.steps for batch in batches]
    found = [batch for batches in steps for batch in batches]
    wrong = sum(
        any(not torch.equal(one[name], other[name]) for name in one)
        for one, other in zip(asked, found, strict=False)
    )
    wrong += abs(len(asked) - len(found))
    text = f"the next {len(asked)} micro-batches are those of the job's data at this step"
    return Check(
        name="data position",
        passed=wrong == 0,
        found=text if wrong == 0 else f"{wrong} of the next {len(asked)} micro-batches are others",
        value=wrong,
        limit=0,
        unit="other batches",
    )


def _finite(value: float) -> float | None:
    """JSON has no infinity: a value beyond all is left out, and the text tells it."""
    return value if math.isfinite(value) else None

"""Rules between the fields of a job; each is a function from a job to what breaks it.

Bounds of single fields stand at the fields. What depends on the machine, such as which track can execute a
parallel plan, or on the content of other files, such as whether a prompt fits into a row, is not known here.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel

from twintrack.job.keys import KeyPath, dotted, shown

if TYPE_CHECKING:
    from twintrack.job.records import Job

__all__ = ["ERROR_TYPE", "BrokenRule", "broken_rules", "write_step"]

ERROR_TYPE = "job_rule"
"""Type of the validation error by which ``Job`` reports broken rules."""

_PACKAGE_SOURCE = re.compile(r"package:[A-Za-z0-9][A-Za-z0-9._-]*(/[^/]+)+")
_MOST_TOKENS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """One broken rule: the key to look at, what had to hold, what was found, what to do."""

    key: KeyPath
    required: str
    found: str
    remedy: str

    def __str__(self) -> str:
        """One line, without the file."""
        return f"{dotted(self.key)}: required {self.required}, found {self.found}; {self.remedy}"


def broken_rules(job: Job) -> tuple[BrokenRule, ...]:
    """Every rule that the job breaks; none for a job that can be run."""
    return tuple(broken for rule in _RULES for broken in rule(job))


def write_step(job: Job, step: int) -> int | None:
    """Step of the first periodic checkpoint at or after ``step`` and before the end, if there is one."""
    every = job.checkpoint.every_steps
    first = -(-step // every) * every
    return first if first < job.stop.steps else None


def _source(job: Job) -> Iterator[BrokenRule]:
    source = job.model.source
    if not source.startswith("package:"):
        return
    if not _PACKAGE_SOURCE.fullmatch(source) or ".." in source.split("/"):
        yield BrokenRule(
            ("model", "source"),
            "package:NAME/FILE.gguf",
            shown(source),
            "name the Python package and, after a slash, the file inside it",
        )
    if job.model.revision is not None:
        yield BrokenRule(
            ("model", "revision"),
            "no revision for weights from a Python package",
            shown(job.model.revision),
            "leave it out: the version of the package is the revision",
        )


def _text(job: Job) -> Iterator[BrokenRule]:
    data = job.data
    key: KeyPath = ("data", "prompt_format")
    if (count := data.prompt_format.count("{prompt}")) != 1:
        yield BrokenRule(
            key, "{prompt} exactly once", f"it {count} times in {shown(data.prompt_format)}", "put it in once"
        )
    elif data.template != "prompt" and data.prompt_format != _default(data, "prompt_format"):
        yield BrokenRule(
            key,
            'data.template = "prompt" for a prompt format to have an effect',
            f'"{data.template}"',
            "change the template, or leave prompt_format out",
        )


def _default(record: BaseModel, field: str) -> object:
    return type(record).model_fields[field].default


def _evaluation_text(job: Job) -> Iterator[BrokenRule]:
    data = job.data
    key: KeyPath = ("data", "evaluation_fraction")
    if data.evaluation_files:
        if data.evaluation_fraction not in (0.0, _default(data, "evaluation_fraction")):
            yield BrokenRule(
                key,
                "one source of evaluation text",
                f"{data.evaluation_fraction} beside data.evaluation_files",
                "leave one of the two out",
            )
    elif data.evaluation_fraction == 0.0:
        yield BrokenRule(
            key,
            "some text for evaluation",
            "0 and no data.evaluation_files",
            "hold a share out, or name files",
        )
    training = {posixpath.normpath(name) for name in data.files}
    for index, name in enumerate(data.evaluation_files):
        if posixpath.normpath(name) in training:
            yield BrokenRule(
                ("data", "evaluation_files", index),
                "files that are not trained on",
                f"{shown(name)}, which is in data.files too",
                "leave it out of one of the two; evaluation_fraction holds a share of data.files out",
            )


def _repeats(job: Job) -> Iterator[BrokenRule]:
    def paths(names: Sequence[str]) -> list[str]:
        return [posixpath.normpath(name) for name in names]

    lists: list[tuple[KeyPath, Sequence[str]]] = [
        (("data", "files"), paths(job.data.files)),
        (("data", "evaluation_files"), paths(job.data.evaluation_files)),
        (("lora", "targets"), job.lora.targets if job.lora else ()),
        (("evaluation", "prompts"), job.evaluation.prompts),
        *((("tracks", index, "use"), slot.use) for index, slot in enumerate(job.tracks)),
    ]
    for key, names in lists:
        for index, name in enumerate(names):
            if name in names[:index]:
                yield BrokenRule(
                    (*key, index), f"each entry of {dotted(key)} once", f"{shown(name)} again", "leave it out"
                )


def _sizes(job: Job) -> Iterator[BrokenRule]:
    tokens = job.batch.micro * job.data.sequence_length
    if tokens > _MOST_TOKENS:
        yield BrokenRule(
            ("batch", "micro"),
            f"at most {_MOST_TOKENS:,} tokens in a forward pass (as far as 32-bit indices reach)",
            f"{job.batch.micro:,} rows of {job.data.sequence_length:,} tokens",
            "use fewer rows and more batch.accumulation",
        )


def _schedule(job: Job) -> Iterator[BrokenRule]:
    schedule, steps = job.schedule, job.stop.steps
    if schedule.warmup_steps >= steps:
        yield BrokenRule(
            ("schedule", "warmup_steps"),
            f"fewer warm-up steps than stop.steps = {steps}",
            str(schedule.warmup_steps),
            "warm up for less, or train for longer",
        )
    if schedule.kind == "constant" and schedule.final_fraction != 0.0:
        yield BrokenRule(
            ("schedule", "final_fraction"),
            "a schedule that falls for a final fraction to have an effect",
            f'{schedule.final_fraction} with kind = "constant"',
            "change the kind, or leave final_fraction out",
        )


def _criteria(job: Job) -> Iterator[BrokenRule]:
    every = job.evaluation.every_steps
    if job.stop.evaluation_loss_below is not None and (every is None or every >= job.stop.steps):
        yield BrokenRule(
            ("stop", "evaluation_loss_below"),
            f"evaluations before step {job.stop.steps} for the criterion to have an effect",
            "none" if every is None else f"evaluation.every_steps = {every}",
            f"set evaluation.every_steps below {job.stop.steps}" if job.stop.steps > 1 else "leave it out",
        )


def _stops(job: Job) -> Iterator[BrokenRule]:
    reached = 0  # step at which the stop before this one happens
    for index, stop in enumerate(job.stops):
        key: KeyPath = ("stops", index, "step")
        if stop.step >= job.stop.steps:
            yield BrokenRule(
                key,
                f"a step before the last one, stop.steps = {job.stop.steps}",
                str(stop.step),
                "stop earlier: after the last step there is nothing to resume",
            )
            return
        happens = write_step(job, stop.step) if stop.kind == "kill-in-write" else stop.step
        if happens is None:
            yield BrokenRule(
                key,
                f"a checkpoint to be written at or after step {stop.step} and before step {job.stop.steps}",
                f"checkpoint.every_steps = {job.checkpoint.every_steps}",
                f"write checkpoints more often (every {stop.step} steps, say), or stop earlier",
            )
            return
        if stop.step <= reached:
            yield BrokenRule(
                key,
                f"a step after {reached}, where the stop before it happens",
                str(stop.step),
                "put the stops in the order of their steps, no two at one step",
            )
        reached = happens


def _rounding(job: Job) -> Iterator[BrokenRule]:
    if job.precision.rounding != "stochastic":
        return
    if not any("trn2" in slot.use and job.compute_of(slot) == "bf16" for slot in job.tracks):
        yield BrokenRule(
            ("precision", "rounding"),
            'a place for "trn2" that computes in bf16, the only one that rounds stochastically',
            "none",
            'add "trn2" to the tracks, compute in bf16, or round to nearest-even',
        )


def _slots(job: Job) -> Iterator[BrokenRule]:
    filled: dict[str, int] = {}
    for index, slot in enumerate(job.tracks):
        for place, track in enumerate(slot.use):
            if filled.setdefault(track, index) != index:
                yield BrokenRule(
                    ("tracks", index, "use", place),
                    "each track in one place only, since it could fill both",
                    f"{shown(track)}, which tracks[{filled[track]}] lists too",
                    "take it out of one of the two",
                )
        if slot.allow_host and "trn2" not in slot.use:
            yield BrokenRule(
                ("tracks", index, "allow_host"),
                'allow_host only where "trn2" is listed',
                f"it with use = {list(slot.use)}",
                "leave it out",
            )
        if slot.logical_cores != 2 and not {"trn2", "neuron"} & set(slot.use):
            yield BrokenRule(
                ("tracks", index, "logical_cores"),
                'logical_cores only where "trn2" or "neuron" is listed',
                f"it with use = {list(slot.use)}",
                "leave it out",
            )


_RULES: tuple[Callable[[Job], Iterator[BrokenRule]], ...] = (
    _source,
    _text,
    _evaluation_text,
    _repeats,
    _sizes,
    _schedule,
    _criteria,
    _stops,
    _rounding,
    _slots,
)

"""The records of a job: what is trained, on what, how, for how long, and where.

A job file declares everything; nothing outside it decides. Every record is frozen and refuses unknown keys. Units
stand in the field names or in their descriptions. Reading and error messages live in ``twintrack.job.load``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "Batch",
    "CheckpointPolicy",
    "Data",
    "Evaluation",
    "Job",
    "Lora",
    "Model",
    "Optimizer",
    "Parallel",
    "Precision",
    "Schedule",
    "Stop",
    "StopCriteria",
    "Tolerances",
    "TrackName",
    "TrackSlot",
]

TrackName = Literal["cpu", "cuda", "neuron", "trn2"]
Fraction = Annotated[float, Field(ge=0.0, lt=1.0)]
Positive = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1, max_length=100)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)


class Model(_Record):
    """The model and its weights."""

    source: Name
    """A folder (relative to the job file), ``package:NAME/FILE.gguf`` for weights that an installed Python package
    carries, or the name of a model on the Hugging Face hub."""
    revision: str | None = None
    """Revision on the hub; a commit is best, a branch may move."""


class Data(_Record):
    """Training and evaluation text."""

    files: Annotated[tuple[Name, ...], Field(min_length=1)]
    """Files, relative to the job file: ``.jsonl``, ``.parquet`` or ``.txt``."""
    evaluation_files: tuple[Name, ...] = ()
    """Files for evaluation; where there are none, ``evaluation_fraction`` of ``files`` is held out."""
    evaluation_fraction: Fraction = 0.1
    """Share of the samples held out for evaluation, chosen by the job's seed."""
    limit: Annotated[int, Field(ge=1)] | None = None
    """Use at most this many samples, the first ones in file order."""
    template: Literal["chat", "prompt", "text"] = "chat"
    """``chat``: a ``messages`` list through the tokenizer's chat template; ``prompt``: fields ``prompt`` and
    ``response``, joined by ``prompt_format``; ``text``: a field ``text``, or a line of a ``.txt`` file."""
    prompt_format: str = "{prompt}\n"
    """With ``template = "prompt"``: what comes before the response; ``{prompt}`` is replaced."""
    loss_on: Literal["response", "all"] = "response"
    """Which tokens carry loss: those of the assistant or response, or all."""
    slice_field: Name = "slice"
    """Field that names the slice of a sample; samples without it belong to the slice ``all``."""
    packing: bool = True
    """Fill each row with several samples, kept apart in attention and positions; without it one sample a row."""
    sequence_length: Annotated[int, Field(ge=8, le=1_048_576)] = 512
    """Tokens per row; every row is padded to it."""
    too_long: Literal["error", "truncate", "split"] = "error"
    """What happens to a sample longer than a row; truncated and split samples are counted."""


class Lora(_Record):
    """Low-rank adapters; without this table the whole model is tuned."""

    targets: Annotated[tuple[Name, ...], Field(min_length=1)]
    """Last parts of the names of the linear modules to adapt; each must match something."""
    rank: Annotated[int, Field(ge=1, le=4096)] = 16
    alpha: Positive = 32.0
    dropout: Fraction = 0.0


class Precision(_Record):
    """Number formats."""

    compute: Literal["bf16", "fp32"] = "bf16"
    """Type of weights in use and of activations. Master weights, gradients of trained weights and optimizer
    moments are float32 always."""
    rounding: Literal["nearest-even", "stochastic"] = "nearest-even"
    """How float32 results become ``compute`` on ``trn2``; other tracks know only nearest-even."""


class Batch(_Record):
    """Rows per step."""

    micro: Annotated[int, Field(ge=1, le=65_536)] = 1
    """Rows in one forward pass."""
    accumulation: Annotated[int, Field(ge=1, le=65_536)] = 1
    """Forward passes per optimizer step."""


class Optimizer(_Record):
    """AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101), with decoupled weight decay."""

    name: Literal["adamw"] = "adamw"
    learning_rate: Annotated[float, Field(gt=0.0, le=10.0)] = 2e-4
    """Peak learning rate."""
    beta1: Fraction = 0.9
    beta2: Fraction = 0.999
    epsilon: Positive = 1e-8
    weight_decay: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    max_gradient_norm: Positive | None = 1.0
    """Gradients are scaled down to this global 2-norm; none: never."""


class Schedule(_Record):
    """Learning rate over the steps, as a factor of the peak."""

    kind: Literal["constant", "linear", "cosine"] = "cosine"
    warmup_steps: Annotated[int, Field(ge=0)] = 0
    """Steps over which the rate rises linearly to the peak."""
    final_fraction: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """Rate at the last step, as a fraction of the peak (not for ``constant``)."""


class StopCriteria(_Record):
    """When the run is done."""

    steps: Annotated[int, Field(ge=1, le=100_000_000)]
    """Optimizer steps."""
    evaluation_loss_below: Positive | None = None
    """Also done when an evaluation's mean loss falls below this."""


class Evaluation(_Record):
    """Loss by slices, and answers to fixed prompts."""

    every_steps: Annotated[int, Field(ge=1)] | None = None
    """Evaluate after every so many steps; always before the first and after the last."""
    prompts: tuple[Name, ...] = ()
    """Prompts answered greedily after the last step, and shown side by side."""
    answer_tokens: Annotated[int, Field(ge=1, le=4096)] = 16
    """Most tokens in an answer."""


class CheckpointPolicy(_Record):
    """When checkpoints are written and which are kept."""

    every_steps: Annotated[int, Field(ge=1)] = 100
    keep: Annotated[int, Field(ge=1)] = 3
    """Newest ones kept; the last verified one is never removed."""
    asynchronous: bool = True
    """Write in the background, from a consistent snapshot."""


class Stop(_Record):
    """A fault made on purpose, in the interrupted run of every track."""

    kind: Literal["polite", "kill", "kill-in-write"]
    """``polite``: SIGTERM, a checkpoint is written and the process ends; ``kill``: SIGKILL;
    ``kill-in-write``: SIGKILL halfway through writing a checkpoint."""
    step: Annotated[int, Field(ge=1)]
    """``polite`` and ``kill``: after this step; ``kill-in-write``: in the first checkpoint at or after it."""


class Tolerances(_Record):
    """How far two tracks may differ."""

    loss: Annotated[float, Field(gt=0.0, le=1.0)] = 0.02
    """Largest relative difference between the loss curves of two tracks, at any step."""


class TrackSlot(_Record):
    """One place in the comparison, and which tracks may fill it."""

    use: Annotated[tuple[TrackName, ...], Field(min_length=1)]
    """Tracks in order of preference: the first that this machine has fills the place."""
    if_absent: Literal["fail", "skip"] = "fail"
    """When the machine has none of them: refuse the job, or go on without this place and say so."""
    compute: Literal["bf16", "fp32"] | None = None
    """Overrides ``precision.compute`` here, for instance float32 on a CPU that has no bf16 arithmetic."""
    instance: Name | None = None
    """Instance of the catalogue whose limits apply (``trn2``: default ``trn2.48xlarge``)."""
    logical_cores: Literal[1, 2] = 2
    """Physical NeuronCores per logical NeuronCore (LNC), on ``trn2`` and ``neuron``."""
    allow_host: bool = False
    """``trn2``: operators without a rule run on the host and are counted, instead of being an error."""


class Parallel(_Record):
    """Degrees of the parallel plan; their product is the number of devices."""

    data: Annotated[int, Field(ge=1, le=65_536)] = 1
    tensor: Annotated[int, Field(ge=1, le=1024)] = 1
    pipeline: Annotated[int, Field(ge=1, le=1024)] = 1

    @property
    def devices(self) -> int:
        """Devices that the plan needs."""
        return self.data * self.tensor * self.pipeline


class Job(_Record):
    """One fine-tuning job."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    """Letters, digits, dots, dashes, underscores."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Seeds initial adapters, the order of samples, dropout and stochastic rounding."""
    model: Model
    data: Data
    lora: Lora | None = None
    precision: Precision = Precision()
    batch: Batch = Batch()
    optimizer: Optimizer = Optimizer()
    schedule: Schedule = Schedule()
    stop: StopCriteria
    evaluation: Evaluation = Evaluation()
    checkpoint: CheckpointPolicy = CheckpointPolicy()
    stops: tuple[Stop, ...] = ()
    tolerances: Tolerances = Tolerances()
    parallel: Parallel = Parallel()
    tracks: Annotated[tuple[TrackSlot, ...], Field(min_length=1)]

"""The records of a job: what is trained, on what, how, for how long, and where.

A job file declares everything; nothing outside it decides. Every record is frozen and refuses unknown keys.
Units stand in the field names or in their descriptions; the descriptions are what the starter file and the
JSON Schema say of a key. Rules between fields live in ``twintrack.job.rules`` and hold for every ``Job``
that exists, however it was made. Reading files and error messages live in ``twintrack.job.load``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError, PydanticKnownError

from twintrack.job import rules

__all__ = [
    "JOB_NAME_PATTERN",
    "NEVER",
    "PRINTABLE_PATTERN",
    "Batch",
    "CheckpointPolicy",
    "Costs",
    "Data",
    "Decision",
    "Evaluation",
    "Job",
    "Lora",
    "Model",
    "Optimizer",
    "Parallel",
    "Precision",
    "Responsibility",
    "Schedule",
    "Stop",
    "StopCriteria",
    "Tolerances",
    "TrackName",
    "TrackSlot",
]

TrackName = Literal["cpu", "cuda", "neuron", "trn2"]
JOB_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
PRINTABLE_PATTERN = r"^[^\x00-\x1f\x7f]*$"
NEVER = "never"
Unsigned = AfterValidator(lambda value: value + 0.0)
"""Makes 0.0 of -0.0, so that equal jobs have equal digests."""
Fraction = Annotated[float, Field(ge=0.0, lt=1.0), Unsigned]
Ratio = Annotated[float, Field(ge=0.0, le=1.0), Unsigned]
Steps = Annotated[int, Field(ge=1, le=100_000_000)]
Name = Annotated[str, Field(min_length=1, max_length=100, pattern=PRINTABLE_PATTERN)]
FileName = Annotated[str, Field(min_length=1, max_length=4096, pattern=PRINTABLE_PATTERN)]
GradientNorm = Annotated[float, Field(gt=0.0, le=1e12)]
Prompt = Annotated[str, Field(min_length=1, max_length=10_000)]
Text = Annotated[str, Field(min_length=1, max_length=10_000)]
Hours = Annotated[float, Field(ge=0.0, le=1e7), Unsigned]


def _whole(value: object) -> object:
    """Refuse ``true`` and ``2.0`` for a choice of whole numbers, which Python holds equal to 1 and 2."""
    if type(value) is not int:
        raise PydanticKnownError("int_type")
    return value


def _never(value: object) -> object:
    """TOML has no null: the word ``never`` stands for it where null is not the default."""
    return None if value == NEVER else value


class _Record(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True, allow_inf_nan=False
    )


class Model(_Record):
    """The model and its weights."""

    source: FileName
    """A folder (relative to the job file), ``package:NAME/FILE.gguf`` for weights that an installed Python
    package carries, or the name of a model on the Hugging Face hub."""
    revision: Annotated[Name | None, Field(examples=["main"])] = None
    """Revision on the hub; a commit is best, a branch may move."""


class Data(_Record):
    """Training and evaluation text."""

    files: Annotated[tuple[FileName, ...], Field(min_length=1)]
    """Files, relative to the job file: ``.jsonl``, ``.parquet`` or ``.txt``."""
    evaluation_files: tuple[FileName, ...] = ()
    """Files for evaluation; where there are none, ``evaluation_fraction`` of ``files`` is held out."""
    evaluation_fraction: Fraction = 0.1
    """Share of the samples held out for evaluation, chosen by the job's seed."""
    limit: Annotated[Annotated[int, Field(ge=1, le=10**12)] | None, Field(examples=[1000])] = None
    """Use at most this many samples, the first ones in file order."""
    template: Literal["chat", "prompt", "text"] = "chat"
    """``chat``: a ``messages`` list through the tokenizer's chat template; ``prompt``: fields ``prompt``
    and ``response``, joined by ``prompt_format``; ``text``: a field ``text``, or a line of ``.txt``."""
    prompt_format: Annotated[str, Field(max_length=10_000)] = "{prompt}\n"
    """With ``template = "prompt"``: what comes before the response; ``{prompt}``, which must stand in it
    once, is replaced."""
    loss_on: Literal["response", "all"] = "response"
    """Which tokens carry loss: those of the assistant or response, or all."""
    slice_field: Name = "slice"
    """Field that names the slice of a sample; samples without it belong to the slice ``all``."""
    packing: bool = True
    """Fill each row with several samples, kept apart in attention and positions; else one sample a row."""
    sequence_length: Annotated[int, Field(ge=8, le=1_048_576)] = 512
    """Tokens per row, at most."""
    padding: Literal["full", "longest"] = "full"
    """``full``: every row is padded to ``sequence_length``, so that one program serves all; ``longest``: a
    micro-batch is padded to its longest row, and every new length is another program on a compiled track."""
    too_long: Literal["error", "truncate", "split"] = "error"
    """What happens to a sample longer than a row; truncated and split samples are counted."""


class Lora(_Record):
    """Low-rank adapters; without this table the whole model is tuned."""

    targets: Annotated[tuple[Name, ...], Field(min_length=1, examples=[["q_proj", "v_proj"]])]
    """Last parts of the names of the linear modules to adapt; each must match something."""
    rank: Annotated[int, Field(ge=1, le=4096)] = 16
    """Inner dimension of each adapter."""
    alpha: Annotated[float, Field(gt=0.0, le=65_536.0)] = 32.0
    """The adapter's product is scaled by ``alpha / rank``."""
    dropout: Fraction = 0.0
    """Share of the adapter's inputs that are zeroed while training."""


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
    """The optimizer."""
    learning_rate: Annotated[float, Field(gt=0.0, le=10.0)] = 2e-4
    """Peak learning rate."""
    beta1: Fraction = 0.9
    """Decay of the first moment, per step."""
    beta2: Fraction = 0.999
    """Decay of the second moment, per step."""
    epsilon: Annotated[float, Field(gt=0.0, le=1.0)] = 1e-8
    """Added to the root of the second moment."""
    weight_decay: Ratio = 0.0
    """Decoupled decay, multiplied by the learning rate."""
    max_gradient_norm: Annotated[
        GradientNorm | None,
        BeforeValidator(_never, json_schema_input_type=GradientNorm | Literal["never"] | None),
    ] = 1.0
    """Gradients are scaled down to this global 2-norm; ``"never"``: they are left as they are."""


class Schedule(_Record):
    """Learning rate over the steps, as a factor of the peak."""

    kind: Literal["constant", "linear", "cosine"] = "cosine"
    """How the rate falls from the peak, after the warm-up, to its value at the last step."""
    warmup_steps: Annotated[int, Field(ge=0, le=100_000_000)] = 0
    """Steps over which the rate rises linearly to the peak."""
    final_fraction: Ratio = 0.0
    """Rate at the last step, as a fraction of the peak (not for ``constant``)."""


class StopCriteria(_Record):
    """When the run is done."""

    steps: Annotated[Steps, Field(examples=[100])]
    """Optimizer steps."""
    evaluation_loss_below: Annotated[
        Annotated[float, Field(gt=0.0, le=1000.0)] | None, Field(examples=[1.5])
    ] = None
    """Also done when an evaluation's mean loss falls below this; needs ``evaluation.every_steps``."""


class Evaluation(_Record):
    """Loss by slices, and answers to fixed prompts."""

    every_steps: Annotated[Steps | None, Field(examples=[50])] = None
    """Evaluate after every so many steps; always before the first and after the last."""
    prompts: Annotated[tuple[Prompt, ...], Field(examples=[["What is a checkpoint?"]])] = ()
    """Prompts answered greedily after the last step, and shown side by side."""
    answer_tokens: Annotated[int, Field(ge=1, le=4096)] = 16
    """Most tokens in an answer."""


class CheckpointPolicy(_Record):
    """When checkpoints are written and which are kept."""

    every_steps: Steps = 100
    """Write one after every so many steps."""
    keep: Annotated[int, Field(ge=1, le=1_000_000)] = 3
    """Newest ones kept; the last verified one is never removed."""
    asynchronous: bool = True
    """Write in the background, from a consistent snapshot."""


class Stop(_Record):
    """A fault made on purpose, in the interrupted run of every track."""

    kind: Annotated[Literal["polite", "kill", "kill-in-write"], Field(examples=["polite"])]
    """``polite``: SIGTERM, a checkpoint is written and the process ends; ``kill``: SIGKILL;
    ``kill-in-write``: SIGKILL halfway through writing a checkpoint."""
    step: Annotated[Steps, Field(examples=[10])]
    """``polite``, ``kill``: after this step; ``kill-in-write``: in the first periodic checkpoint from it."""


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
    compute: Annotated[Literal["bf16", "fp32"] | None, Field(examples=["fp32"])] = None
    """Overrides ``precision.compute`` here, for instance float32 on a CPU that has no bf16 arithmetic."""
    instance: Annotated[Name | None, Field(examples=["trn2.48xlarge"])] = None
    """Instance of the catalogue whose limits apply (``trn2``: default ``trn2.48xlarge``)."""
    logical_cores: Annotated[Literal[1, 2], BeforeValidator(_whole)] = 2
    """Physical NeuronCores per logical NeuronCore (LNC), on ``trn2`` and ``neuron``."""
    allow_host: bool = False
    """``trn2``: operators without a rule run on the host and are counted, instead of being an error."""


class Parallel(_Record):
    """Degrees of the parallel plan; their product is the number of devices."""

    data: Annotated[int, Field(ge=1, le=65_536)] = 1
    """Copies of the model, each with its own rows."""
    tensor: Annotated[int, Field(ge=1, le=1024)] = 1
    """Devices that share each matrix."""
    pipeline: Annotated[int, Field(ge=1, le=1024)] = 1
    """Groups of layers, one after the other."""

    @property
    def devices(self) -> int:
        """Devices that the plan needs."""
        return self.data * self.tensor * self.pipeline


class Costs(_Record):
    """What turns time and bytes into money; prices themselves are dated inputs in files, never here."""

    region: Annotated[Name | None, Field(examples=["us-east-2"])] = None
    """AWS region whose prices hold; without it the catalogue's prices are not used."""
    model: Literal["capacity_block", "on_demand", "spot", "reserved_3y"] = "capacity_block"
    """How machines are bought."""
    prices: tuple[FileName, ...] = ()
    """Price files, relative to the job file; they come before the catalogue."""
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] = "USD"
    """Currency of the ledger; a price in another one needs a dated rate in a price file."""
    oldest_price_days: Annotated[int, Field(ge=1, le=36_500)] = 365
    """A price observed longer ago is shown, and decides nothing."""
    reserved_hours: Annotated[Hours | None, Field(examples=[24.0])] = None
    """Hours for which the machines of one track are paid, used or not; without it only hours used are counted."""
    operating_hours: Annotated[Hours | None, Field(examples=[4.0])] = None
    """Hours of people that one run of a track takes; without it operating time is unknown."""
    keep_days: Annotated[int, Field(ge=0, le=36_500)] = 30
    """Days for which compile cache and checkpoints are kept."""


class Decision(_Record):
    """Answers that no run can measure, for the decision and the dossier."""

    model_changes: Annotated[
        Literal["never", "yearly", "quarterly", "monthly", "weekly"] | None, Field(examples=["quarterly"])
    ] = None
    """How often the model's code, shapes or graph change."""
    custom_operators: Annotated[Literal["none", "few", "many"] | None, Field(examples=["none"])] = None
    """Operators of the team's own that the model needs."""
    cycle_days: Annotated[Annotated[float, Field(gt=0.0, le=36_500.0)] | None, Field(examples=[90.0])] = None
    """Days for which one set-up is used before it changes."""
    team_experience: Annotated[Literal["none", "trained", "shipped"] | None, Field(examples=["trained"])] = (
        None
    )
    """Experience of the team with Trainium: none, trained on it, shipped with it."""
    fallback: Annotated[Literal["none", "written", "rehearsed"] | None, Field(examples=["written"])] = None
    """Plan for going back to the other track."""
    fallback_plan: Annotated[
        Text | None,
        Field(examples=["The GPU job file and its last checkpoint are kept; a restore was rehearsed."]),
    ] = None
    """The plan in words."""
    quality_criteria: Annotated[
        Text | None, Field(examples=["Held-out loss no more than 2 % above the GPU run, in every slice."])
    ] = None
    """What a result must do to be accepted, in words, beside ``[tolerances]``."""
    cheaper_by: Fraction = 0.0
    """Least share by which Trainium must be cheaper to be chosen."""


class Responsibility(_Record):
    """Who answers for what; names of people or teams."""

    code: Annotated[Name | None, Field(examples=["modelling team"])] = None
    """Model and training code."""
    compilation: Annotated[Name | None, Field(examples=["platform team"])] = None
    """Compiler versions, flags, recompiles."""
    cache: Annotated[Name | None, Field(examples=["platform team"])] = None
    """Compile cache: place, size, retention."""
    image: Annotated[Name | None, Field(examples=["platform team"])] = None
    """Container image and its versions."""
    conversion: Annotated[Name | None, Field(examples=["modelling team"])] = None
    """Checkpoint conversion and the way back."""


class Job(_Record):
    """One fine-tuning job."""

    name: Annotated[str, Field(pattern=JOB_NAME_PATTERN)]
    """Letters, digits, dots, dashes, underscores; the first is a letter or a digit."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Seeds initial adapters, the order of samples, dropout and stochastic rounding."""
    model: Model
    """The model and its weights."""
    data: Data
    """Training and evaluation text."""
    lora: Lora | None = None
    """Low-rank adapters; without this table the whole model is tuned."""
    precision: Precision = Precision()
    """Number formats."""
    batch: Batch = Batch()
    """Rows per step."""
    optimizer: Optimizer = Optimizer()
    """AdamW, with decoupled weight decay."""
    schedule: Schedule = Schedule()
    """Learning rate over the steps, as a factor of the peak."""
    stop: StopCriteria
    """When the run is done."""
    evaluation: Evaluation = Evaluation()
    """Loss by slices, and answers to fixed prompts."""
    checkpoint: CheckpointPolicy = CheckpointPolicy()
    """When checkpoints are written and which are kept."""
    stops: tuple[Stop, ...] = ()
    """Faults made on purpose in the interrupted run of every track, in the order of their steps."""
    tolerances: Tolerances = Tolerances()
    """How far two tracks may differ."""
    parallel: Parallel = Parallel()
    """Degrees of the parallel plan; a plan that the chosen track cannot execute is refused at run."""
    costs: Costs = Costs()
    """What turns time and bytes into money."""
    decision: Decision = Decision()
    """Answers that no run can measure."""
    responsibility: Responsibility = Responsibility()
    """Who answers for what."""
    tracks: Annotated[tuple[TrackSlot, ...], Field(min_length=1)]
    """Places in the comparison, each filled by one track."""

    def compute_of(self, slot: TrackSlot) -> Literal["bf16", "fp32"]:
        """Type of weights in use and of activations in one place of the comparison."""
        return slot.compute or self.precision.compute

    @model_validator(mode="after")
    def _rules_hold(self) -> Job:
        if broken := rules.broken_rules(self):
            raise PydanticCustomError(rules.ERROR_TYPE, "{text}", {"text": str(broken[0]), "broken": broken})
        return self

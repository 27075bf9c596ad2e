"""Valid jobs, and a small valid job file, for the tests of this room."""

from __future__ import annotations

from hypothesis import strategies as st

from twintrack.job.records import (
    Batch,
    CheckpointPolicy,
    Data,
    Evaluation,
    Job,
    Lora,
    Model,
    Optimizer,
    Parallel,
    Precision,
    Schedule,
    Stop,
    StopCriteria,
    Tolerances,
    TrackSlot,
)

MINIMAL = """\
name = "small"

[model]
source = "models/tiny"

[data]
files = ["train.jsonl"]

[stop]
steps = 40

[[tracks]]
use = ["cpu"]

[[tracks]]
use = ["trn2"]
"""

_WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


def _numbers(low: float, high: float, *, exclude_min: bool = False, exclude_max: bool = False):
    return st.floats(low, high, exclude_min=exclude_min, exclude_max=exclude_max)


_FRACTIONS = _numbers(0, 1, exclude_max=True)


@st.composite
def _data(draw) -> Data:
    names = draw(st.lists(st.from_regex(r"[a-z]{1,8}\.(jsonl|txt)", fullmatch=True), min_size=1, unique=True))
    split = draw(st.integers(1, len(names)))
    template = draw(st.sampled_from(["chat", "prompt", "text"]))
    around = draw(st.tuples(_TEXT, _TEXT).filter(lambda pair: "{" not in "".join(pair)))
    own_format = template == "prompt" and draw(st.booleans())
    return Data(
        files=tuple(names[:split]),
        evaluation_files=tuple(names[split:]),
        evaluation_fraction=draw(_numbers(0.01, 0.99)) if split == len(names) else 0.1,
        limit=draw(st.none() | st.integers(1, 10**12)),
        template=template,
        prompt_format=f"{around[0]}{{prompt}}{around[1]}" if own_format else "{prompt}\n",
        loss_on=draw(st.sampled_from(["response", "all"])),
        slice_field=draw(_WORDS),
        packing=draw(st.booleans()),
        sequence_length=draw(st.integers(8, 32_768)),
        too_long=draw(st.sampled_from(["error", "truncate", "split"])),
    )


@st.composite
def _tracks(draw) -> tuple[TrackSlot, ...]:
    names = draw(st.permutations(["cpu", "cuda", "neuron", "trn2"]))
    cuts = sorted(draw(st.sets(st.integers(1, 4), min_size=1)))
    slots = []
    for start, end in zip([0, *cuts], cuts, strict=False):
        use = tuple(names[start:end])
        neuron = {"trn2", "neuron"} & set(use)
        slots.append(
            TrackSlot(
                use=use,
                if_absent=draw(st.sampled_from(["fail", "skip"])),
                compute=draw(st.sampled_from([None, "bf16", "fp32"])),
                instance=draw(st.none() | _WORDS),
                logical_cores=draw(st.sampled_from([1, 2])) if neuron else 2,
                allow_host="trn2" in use and draw(st.booleans()),
            )
        )
    return tuple(slots)


@st.composite
def _stops(draw, steps: int, every: int) -> tuple[Stop, ...]:
    """Stops in the order in which they happen, worked out one step after the other."""
    stops, reached = [], 0
    for _ in range(draw(st.integers(0, 4))):
        if reached + 1 >= steps:
            break
        step = draw(st.integers(reached + 1, steps - 1))
        writes = [at for at in range(step, steps) if at % every == 0]
        kind = draw(st.sampled_from(["polite", "kill", "kill-in-write"] if writes else ["polite", "kill"]))
        stops.append(Stop(kind=kind, step=step))
        reached = writes[0] if kind == "kill-in-write" else step
    return tuple(stops)


@st.composite
def jobs(draw) -> Job:
    """Any valid job, with steps small enough to reason about its stops one by one."""
    steps, every = draw(st.integers(1, 60)), draw(st.integers(1, 30))
    evaluate = draw(st.none() | st.integers(1, 70))
    below = draw(st.none() | _numbers(0, 1000, exclude_min=True)) if evaluate and evaluate < steps else None
    kind = draw(st.sampled_from(["constant", "linear", "cosine"]))
    tracks = draw(_tracks())
    compute = draw(st.sampled_from(["bf16", "fp32"]))
    can_round = any("trn2" in slot.use and (slot.compute or compute) == "bf16" for slot in tracks)
    names = st.lists(_WORDS, min_size=1, max_size=4, unique=True).map(tuple)
    return Job(
        name=draw(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)),
        seed=draw(st.integers(0, 2**63 - 1)),
        model=Model(source=draw(_WORDS.filter(lambda text: not text.startswith("package:")))),
        data=draw(_data()),
        lora=draw(
            st.none()
            | st.builds(
                Lora,
                targets=names,
                rank=st.integers(1, 4096),
                alpha=_numbers(0, 65_536, exclude_min=True),
                dropout=_FRACTIONS,
            )
        ),
        precision=Precision(
            compute=compute, rounding="stochastic" if can_round and draw(st.booleans()) else "nearest-even"
        ),
        batch=Batch(micro=draw(st.integers(1, 65_535)), accumulation=draw(st.integers(1, 65_536))),
        optimizer=draw(
            st.builds(
                Optimizer,
                learning_rate=_numbers(0, 10, exclude_min=True),
                beta1=_FRACTIONS,
                beta2=_FRACTIONS,
                epsilon=_numbers(0, 1, exclude_min=True),
                weight_decay=_numbers(0, 1),
                max_gradient_norm=st.none() | _numbers(0, 1e12, exclude_min=True),
            )
        ),
        schedule=Schedule(
            kind=kind,
            warmup_steps=draw(st.integers(0, steps - 1)),
            final_fraction=0.0 if kind == "constant" else draw(_numbers(0, 1)),
        ),
        stop=StopCriteria(steps=steps, evaluation_loss_below=below),
        evaluation=Evaluation(
            every_steps=evaluate,
            prompts=draw(st.lists(_TEXT, max_size=3, unique=True).map(tuple)),
            answer_tokens=draw(st.integers(1, 4096)),
        ),
        checkpoint=CheckpointPolicy(
            every_steps=every, keep=draw(st.integers(1, 1_000_000)), asynchronous=draw(st.booleans())
        ),
        stops=draw(_stops(steps, every)),
        tolerances=Tolerances(loss=draw(_numbers(0, 1, exclude_min=True))),
        parallel=Parallel(
            data=draw(st.integers(1, 65_536)),
            tensor=draw(st.integers(1, 1024)),
            pipeline=draw(st.integers(1, 1024)),
        ),
        tracks=tracks,
    )

"""Our loop on ``cpu`` against Hugging Face's ``Trainer`` with PEFT, on one packed job: ``python benchmarks/loop.py``.

The job is that of the demo in float32: the same model, the same LoRA, the same packed rows in the same order, the same
optimizer; no evaluation and no checkpoints. Each side runs in processes of its own, in turn, so that peak memory is its
own and other load falls on both. The first step of each process is left out of the speed. Reported: medians of the
pairs' ratios of tokens per second (ours over theirs, at least 1.0) and of the largest resident set (at most 1.05).
Exit code 1: a limit was missed.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from _demo import JOB
from _pairs import line, median_ratio, verdict
from twintrack.job.load import load_job
from twintrack.job.records import CheckpointPolicy, Evaluation, Job
from twintrack.training.data import PreparedData, prepare
from twintrack.training.model import LoadedModel, load_model

SPEED_LIMIT, MEMORY_LIMIT = 1.0, 1.05
PAIRS, STEPS = 5, 7


def the_job() -> tuple[Job, Path]:
    """The demo's job in float32, without what is not training."""
    loaded = load_job(JOB)
    changes = {
        "evaluation": Evaluation(),
        "checkpoint": CheckpointPolicy(every_steps=1_000_000),
        "stops": (),
        "stop": loaded.job.stop.model_copy(update={"steps": STEPS}),
        "precision": loaded.job.precision.model_copy(update={"compute": "fp32"}),
    }
    return loaded.job.model_copy(update=changes), loaded.base


def load(job: Job, base: Path, cache: Path) -> tuple[LoadedModel, PreparedData]:
    """Weights in float32 and rows; both sides get the same."""
    from twintrack.storage import LocalFileSystem

    loaded = load_model(
        job.model, base, dtype=torch.float32, attention="sdpa", cache_root=cache, fs=LocalFileSystem()
    )
    data = prepare(job.data, base, loaded.tokenizer, seed=job.seed, pad_id=loaded.pad_id)
    return loaded, data


def ours(cache: Path) -> dict[str, Any]:
    """Seconds per step and tokens of our loop."""
    from twintrack.clock import SystemClock
    from twintrack.events import Event, StepDone
    from twintrack.storage import LocalFileSystem
    from twintrack.tracks import TRACKS, Services, Settings
    from twintrack.training.adapter import adapt
    from twintrack.training.checkpoint import Checkpointer
    from twintrack.training.loop import train
    from twintrack.training.session import open_session

    job, base = the_job()
    loaded, data = load(job, base, cache)
    events: list[Event] = []
    clock, fs = SystemClock(), LocalFileSystem()
    track = TRACKS["cpu"].open(Settings.of(job, job.tracks[0]), Services(events.append, clock, fs, cache))
    session = open_session(job, track, data, loaded, adapt(loaded.model, job.lora, seed=job.seed))
    with tempfile.TemporaryDirectory() as folder:
        policy = job.checkpoint
        checkpointer = Checkpointer(fs, Path(folder), clock, policy, "benchmark", events.append)
        train(
            session,
            session.fresh(),
            checkpointer=checkpointer,
            emit=events.append,
            compiled=lambda: 0.0,
            clock=clock,
            hooks=_NoHooks(),
        )
    steps = [event for event in events if isinstance(event, StepDone)]
    return {"seconds": [step.seconds for step in steps], "losses": [step.loss for step in steps]}


class _NoHooks:
    def after_step(self, step: int) -> None: ...

    def before_save(self, step: int) -> None: ...

    def stop_requested(self) -> bool:
        return False


def theirs(cache: Path) -> dict[str, Any]:
    """Seconds per step of ``Trainer`` with PEFT."""
    from peft import LoraConfig, get_peft_model
    from transformers import Trainer, TrainerCallback, TrainingArguments

    from twintrack.training.sampler import Sampler

    job, base = the_job()
    loaded, data = load(job, base, cache)
    assert job.lora is not None
    config = LoraConfig(
        r=job.lora.rank,
        lora_alpha=job.lora.alpha,
        target_modules=list(job.lora.targets),
        task_type="CAUSAL_LM",
    )
    model = get_peft_model(loaded.model, config)
    count = job.batch.micro * job.batch.accumulation * STEPS
    rows = [data.train[i] for i in Sampler(len(data.train), job.seed).next(count)]

    def as_theirs(row: Any) -> dict[str, torch.Tensor]:
        """Labels before the shift that their loss makes."""
        labels = torch.full((len(row.labels),), -100)
        labels[1:] = torch.from_numpy(row.labels[:-1].copy())
        ids, positions = (torch.from_numpy(x.copy()) for x in (row.input_ids, row.position_ids))
        return {"input_ids": ids, "position_ids": positions, "labels": labels}

    clocked: list[float] = []

    class Clocked(TrainerCallback):
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            clocked.append(-time.perf_counter())

        def on_step_end(self, *_: Any, **__: Any) -> None:
            clocked[-1] += time.perf_counter()

    class InOrder(Trainer):
        def _get_train_sampler(self, *_: Any) -> Any:
            return torch.utils.data.SequentialSampler(self.train_dataset)

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=job.batch.micro,
            gradient_accumulation_steps=job.batch.accumulation,
            max_steps=STEPS,
            learning_rate=job.optimizer.learning_rate,
            lr_scheduler_type="cosine",
            warmup_steps=job.schedule.warmup_steps,
            max_grad_norm=job.optimizer.max_gradient_norm or 0.0,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            remove_unused_columns=False,
        )
        trainer = InOrder(
            model=model,
            args=arguments,
            train_dataset=[as_theirs(row) for row in rows],  # type: ignore[arg-type]
            data_collator=lambda items: {key: torch.stack([item[key] for item in items]) for key in items[0]},
            callbacks=[Clocked()],
        )
        trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return {"seconds": clocked, "losses": losses}


SIDES: dict[str, Callable[[Path], dict[str, Any]]] = {"ours": ours, "theirs": theirs}


def measured(side: str, cache: Path) -> dict[str, Any]:
    """One side in a process of its own."""
    command = [sys.executable, __file__, "--side", side, "--cache", str(cache)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{side} failed:\n{done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def compare(cache: Path) -> int:
    """Pairs of processes; prints medians and whether the limits are kept."""
    job, _ = the_job()
    pairs = []
    for number in range(PAIRS):
        order = ("ours", "theirs") if number % 2 == 0 else ("theirs", "ours")
        found = {side: measured(side, cache) for side in order}
        pairs.append((found["ours"], found["theirs"]))
        print(f"pair {number + 1} of {PAIRS} done", file=sys.stderr)
    worst = max(
        abs(a - b) / b for x, y in pairs for a, b in zip(x["losses"][:1], y["losses"][:1], strict=True)
    )
    tokens = job.batch.micro * job.batch.accumulation * job.data.sequence_length
    speeds = [tuple(tokens / statistics.median(side["seconds"][1:]) for side in pair) for pair in pairs]
    memory = [tuple(side["peak"] / 2**20 for side in pair) for pair in pairs]
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {STEPS} steps, first left out")
    print(f"largest difference of the first loss  {worst:.2e}")
    for name, column, unit in (
        ("tokens per second", speeds, "token/s"),
        ("largest resident set", memory, "MiB"),
    ):
        print(line(f"{name}, ours", [a for a, _ in column], unit))
        print(line(f"{name}, Trainer", [b for _, b in column], unit))
    speed, fast = verdict("speed, ours / Trainer", median_ratio(speeds), SPEED_LIMIT, at_most=False)  # type: ignore[arg-type]
    size, small = verdict("memory, ours / Trainer", median_ratio(memory), MEMORY_LIMIT, at_most=True)  # type: ignore[arg-type]
    print(f"{speed}\n{size}")
    return 0 if fast and small and worst < 1e-4 else 1


def main() -> int:
    """Compare, or run one side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", choices=SIDES)
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args()
    if options.side is None:
        with tempfile.TemporaryDirectory() as folder:
            return compare(options.cache or Path(folder))
    result = SIDES[options.side](options.cache)
    result["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The demo's job on one track, ready to step: what benchmarks on the real model share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twintrack.clock import SystemClock
from twintrack.job.load import load_job
from twintrack.job.records import Job
from twintrack.storage import LocalFileSystem
from twintrack.tracks import TRACKS, Services, Settings
from twintrack.training.adapter import adapt
from twintrack.training.data import prepare
from twintrack.training.model import load_model
from twintrack.training.session import Session, open_session

__all__ = ["JOB", "demo_job", "open_demo"]

JOB = Path(__file__).parent.parent / "examples" / "pilot" / "job.toml"
"""Its data files are written by ``python examples/pilot/prepare.py``."""


def demo_job(**changes: dict[str, Any]) -> Job:
    """The demo's job; a table is changed by its name and a dict, such as ``optimizer={"learning_rate": 1e-4}``."""
    job = load_job(JOB).job
    tables = {name: getattr(job, name).model_copy(update=values) for name, values in changes.items()}
    return job.model_copy(update=tables)


def open_demo(track_name: str, compute: str, cache: Path, job: Job) -> Session:
    """Model, adapters and rows of the job on a track, computing in ``bf16`` or ``fp32``."""
    fs = LocalFileSystem()
    slot = job.tracks[0].model_copy(update={"compute": compute, "use": (track_name,)})
    settings = Settings.of(job, slot)
    track = TRACKS[track_name].open(settings, Services(lambda _: None, SystemClock(), fs, cache))
    loaded = load_model(
        job.model, JOB.parent, dtype=settings.dtype, attention=track.rules.attention, cache_root=cache, fs=fs
    )
    data = prepare(job.data, JOB.parent, loaded.tokenizer, seed=job.seed, pad_id=loaded.pad_id)
    return open_session(job, track, data, loaded, adapt(loaded.model, job.lora, seed=job.seed))

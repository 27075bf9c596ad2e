"""What the newest checkpoint of a run holds of the optimizer: without its state no resume can go on as before."""

from __future__ import annotations

from twintrack.pilot.folders import TrackRun
from twintrack.pilot.summary_records import Failure
from twintrack.storage import FileSystem

__all__ = ["optimizer_failure", "optimizer_kept"]

_STATE = {"master": "master weights", "moment1": "first moments", "moment2": "second moments"}


def optimizer_kept(run: TrackRun, fs: FileSystem) -> str:
    """In words; empty where the run has no complete checkpoint here, as after a copy of its events alone.

    Raises:
        StorageError: if the folder of checkpoints cannot be read.
    """
    found = _newest(run, fs)
    if found is None:
        return ""
    step, groups = found
    kept = [words for group, words in _STATE.items() if group in groups]
    return f"step {step}: {', '.join(kept) if kept else 'nothing of the optimizer'}"


def optimizer_failure(run: TrackRun, fs: FileSystem) -> Failure | None:
    """A failure where the newest checkpoint lacks a part of the optimizer's state.

    Raises:
        StorageError: if the folder of checkpoints cannot be read.
    """
    found = _newest(run, fs)
    lacking = [words for group, words in _STATE.items() if found is not None and group not in found[1]]
    if found is None or not lacking:
        return None
    what = f"the checkpoint of step {found[0]} lacks {' and '.join(lacking)}: no resume can restore the optimizer"
    return Failure(f"{run.track} · {run.kind}", what, "resume")


def _newest(run: TrackRun, fs: FileSystem) -> tuple[int, frozenset[str]] | None:
    """Step of the newest complete checkpoint, and the groups of tensors in it."""
    if not fs.exists(run.checkpoints):
        return None
    from twintrack.training.checkpoint import Status, scan  # brings PyTorch, which events alone do not need

    whole = [
        one for one in scan(fs, run.checkpoints) if one.status is Status.COMPLETE and one.manifest is not None
    ]
    if not whole or whole[-1].manifest is None:
        return None
    return whole[-1].step, frozenset(name.rpartition("-")[0] for name in whole[-1].manifest.files)

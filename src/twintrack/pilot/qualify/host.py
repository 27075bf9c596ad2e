"""What a job takes outside the device: memory of the host, and checkpoints on disk.

Loading follows ``training.model``: a process has the weights in the compute type in its memory, and float32 masters
of what learns, before they go to its device. Saving follows ``training.checkpoint``: the state stays where it is, and
up to eight writers each copy one tensor at a time to the host.
"""

from __future__ import annotations

from twintrack.pilot.qualify.memory import Need
from twintrack.pilot.qualify.plan import shard_of, stages_to_compare
from twintrack.pilot.qualify.records import CheckpointSizes, HostMemory, Parameters, Verdict
from twintrack.quantity import Quantity, combine

__all__ = ["checkpoint_sizes", "host_memory"]

_WRITERS = 8  # most files that training.checkpoint.writer writes at once
_FLOAT32 = 4


def host_memory(need: Need, processes: int, capacity: Quantity, basis: tuple[Quantity, ...]) -> HostMemory:
    """Memory of one host.

    With one device the process loads the whole model. With several, each is taken to read its own shard alone, which
    safetensors allow: pages of the files are shared and can be dropped, so they are not counted.

    Args:
        need: of the job.
        processes: on one host.
        capacity: bytes of the host.
        basis: what the figures rest on.
    """
    shards = [
        shard_of(need.shape, need.targets, need.rank, need.plan, stage)
        for stage in stages_to_compare(need.plan)
    ]
    base = max(shard.base for shard in shards)
    trained = max(sum(shard.trained) for shard in shards)
    largest = max(max(shard.trained, default=0) for shard in shards)
    c = need.compute
    loading = processes * (c * base + _FLOAT32 * trained)
    saving = processes * _WRITERS * _FLOAT32 * largest
    needed = Quantity.derived(
        loading, "byte", f"{processes} process(es) x ({c} B x {base:,} + 4 B x {trained:,})", basis
    )
    writing = Quantity.derived(
        saving, "byte", f"{processes} process(es) x {_WRITERS} writers x 4 B x {largest:,}, at most", basis
    )
    verdict = Verdict.UNKNOWN
    if capacity.known:
        verdict = Verdict.FITS if max(loading, saving) <= capacity.require() else Verdict.DOES_NOT_FIT
    return HostMemory(processes, needed, writing, capacity, verdict)


def checkpoint_sizes(need: Need, parameters: Parameters, keep: int) -> CheckpointSizes:
    """Bytes of checkpoints and of what a run ends with, tensors alone.

    Args:
        need: of the job.
        parameters: of the job.
        keep: checkpoints kept.
    """
    trained, c = parameters.trainable, need.compute
    each = c + 3 * _FLOAT32
    ours = combine(
        f"({c} + 4 + 4 + 4) B x trainable: weights, masters, two moments",
        "byte",
        [trained],
        lambda count: each * count,
    )
    result = combine(
        "4 B x trainable, from the masters" + (": PEFT adapter" if need.rank else ": whole model"),
        "byte",
        [trained],
        lambda count: _FLOAT32 * count,
    )
    hub = combine(f"{c} B x parameters of the model", "byte", [parameters.total], lambda count: c * count)
    kept = combine(
        f"({keep} kept + 1 being written) x a checkpoint", "byte", [ours], lambda size: (keep + 1) * size
    )
    return CheckpointSizes(ours, result, hub, kept)

"""How far the loss curves of bf16 and float32 part, by learning rate: ``python benchmarks/precision.py``.

The demo's job, with loss on all tokens so that the curves are smooth, for its steps, on ``cpu`` in float32 and
on ``trn2`` in bf16. Nothing is required of the figures; ``docs/log.md`` says what they show. The last line of the table
is the demo's own setting, loss on responses only.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from _demo import demo_job, open_demo
from twintrack.training.sampler import Sampler
from twintrack.training.schedule import adamw_scalars, learning_rate
from twintrack.training.session import Session

CASES = ((1e-4, "all"), (2e-3, "all"), (1e-3, "response"))


def losses(session: Session) -> list[float]:
    """Training losses of the job's steps, without evaluations or checkpoints."""
    job, state, found = session.job, session.fresh(), []
    weights, optimizer = state.weights, state.optimizer
    sampler = Sampler(len(session.data.train), job.seed)
    for step in range(1, job.stop.steps + 1):
        rows = [session.data.train[i] for i in sampler.next(job.batch.micro)]
        scale = session.scalar(1.0 / sum(row.loss_tokens for row in rows))
        result = session.programs.gradients(
            weights, session.frozen, session.batch(rows), scale, invocation=step
        )
        rate = learning_rate(step, job.stop.steps, job.optimizer, job.schedule)
        scalars = {k: session.scalar(v) for k, v in adamw_scalars(step, rate, job.optimizer).items()}
        new = session.programs.update(optimizer, result["gradients"], scalars, invocation=step)
        weights, optimizer = new["weights"], new["state"]
        found.append(float(result["loss"]))
    return found


def main() -> int:
    """One line per case."""
    print(
        f"{'learning rate':>13} {'loss on':>9} {'float32 last':>13} {'bf16 last':>10} {'largest difference':>19}"
    )
    with tempfile.TemporaryDirectory() as folder:
        for rate, loss_on in CASES:
            job = demo_job(optimizer={"learning_rate": rate}, data={"loss_on": loss_on})
            whole, narrow = (
                losses(open_demo(track, compute, Path(folder), job))
                for track, compute in (("cpu", "fp32"), ("trn2", "bf16"))
            )
            apart = max(abs(a - b) / max(a, b) for a, b in zip(whole, narrow, strict=True))
            print(f"{rate:13g} {loss_on:>9} {whole[-1]:13.4f} {narrow[-1]:10.4f} {apart:18.1%}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

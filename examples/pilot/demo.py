"""The demo from start to end: each command as a person would type it, with its output.

    python examples/pilot/demo.py

Qualify, run on both tracks, convert with proof, count the cost, compare, bring a run in from elsewhere, decide, and
write the dossier. Every run of the demo gets a folder of its own under ``runs/``.
"""

from __future__ import annotations

import itertools
import json
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

JOB = Path("examples/pilot/job.toml")


def main() -> int:
    """Run the commands in order; the first that fails ends the demo with its exit code."""
    folder = next(
        path for n in itertools.count(1) if not (path := Path("runs") / f"pilot-smollm2-chat-{n}").exists()
    )
    for words in _commands(folder):
        sys.stdout.write(f"\n$ twintrack {shlex.join(words)}\n")
        sys.stdout.flush()
        done = subprocess.run([sys.executable, "-m", "twintrack", *words], check=False)
        if done.returncode:
            return done.returncode
    sys.stdout.write(f"\nreport:  {folder / 'report.html'}\ndossier: {folder}-dossier/dossier.html\n")
    return 0


def _commands(folder: Path) -> Iterator[list[str]]:
    """The commands of the demo, for one run folder; each is made when the one before is done."""
    run, job = str(folder), str(JOB)
    yield ["qualify", job]
    yield ["pilot", job, "--out", run]
    slots = json.loads((folder / "pilot.json").read_text(encoding="utf-8"))["slots"]
    first, second = (slot["track"] for slot in slots)  # cuda or cpu, and trn2
    yield ["convert", f"{run}:{second}@{_last_checkpoint()}", "--to", "peft", f"{run}-adapter"]
    yield ["ledger", run]
    yield ["compare", f"{run}:{first}", f"{run}:{second}"]
    # the first track's record once more, brought in as a log from another machine would be
    events, elsewhere = folder / "tracks" / first / "reference" / "events.jsonl", f"{run}-elsewhere"
    yield ["import", str(events), "--as", elsewhere, "--job", job, "--track", first]
    yield ["compare", f"{elsewhere}:{first}", f"{run}:{second}"]
    yield ["report", run]
    yield ["decide", job, run]
    yield ["dossier", job, run, "-o", f"{run}-dossier"]


def _last_checkpoint() -> int:
    """Step of the job's last checkpoint: it is written at the end."""
    return int(tomllib.loads(JOB.read_text(encoding="utf-8"))["stop"]["steps"])


if __name__ == "__main__":
    sys.exit(main())

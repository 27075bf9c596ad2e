"""The protocol with real processes: real kills, real signals, one clear line for what goes wrong."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from small_pilot import QuietDisplay, make_run, small_job, world, write_inputs
from twintrack.clock import SystemClock
from twintrack.errors import Interrupted, RunFailed, RunFolderError, UserError
from twintrack.events import CompileDone, LegStarted, Resumed, RunDone, StopMade, read_events
from twintrack.job.records import Job
from twintrack.job.write import job_toml
from twintrack.pilot.folders import TrackRun
from twintrack.pilot.manifest import write_manifest
from twintrack.pilot.protocol import Pilot
from twintrack.pilot.summary import read_summary
from twintrack.pilot.worker import run_leg
from twintrack.storage import FileLock, LocalFileSystem
from twintrack.tracks import choose

FS = LocalFileSystem()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    write_inputs(folder)
    return folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def begun(root: Path, inputs: Path, job: Job) -> Path:
    write_manifest(root, job, inputs, choose(job), FS)
    return root


def pilot(root: Path, cache: Path, **other: Any) -> Pilot:
    return Pilot(root, cache, other.pop("display", QuietDisplay()), FS, SystemClock(), **other)


@pytest.mark.slow
@pytest.mark.parametrize("track", ["cpu", "trn2"])
def test_three_kills_at_random_steps_and_one_in_a_write_change_no_bit(
    track: str, tmp_path: Path, inputs: Path, cache: Path
) -> None:
    """kill -9 after three random steps and once inside a checkpoint: the same losses, evaluations and adapter."""
    steps = sorted(random.Random(track).sample(range(1, 10), 3))
    stops = [{"kind": "kill", "step": step} for step in steps] + [{"kind": "kill-in-write", "step": 10}]
    job = small_job(
        stop={"steps": 13},
        stops=stops,
        tracks=[{"use": [track]} if track == "trn2" else {"use": [track], "compute": "fp32"}],
    )
    root = begun(tmp_path / "run", inputs, job)

    pilot(root, cache).run()

    summary = read_summary(root, FS)
    assert summary.failures == ()
    assert summary.to_the_bit is True
    run = TrackRun(root, track, "interrupted")
    events = list(read_events(run.events))
    assert [e.stop for e in events if isinstance(e, StopMade)] == ["kill", "kill", "kill", "kill-in-write"]
    assert len([e for e in events if isinstance(e, LegStarted)]) == 5
    resumed = [e.step for e in events if isinstance(e, Resumed)]
    newest = [*((step - 1) // 2 * 2 for step in steps), 8]
    assert all(at % 2 == 0 and at <= most for at, most in zip(resumed, newest, strict=True)), (
        "a checkpoint begun in the background may not be complete when the kill comes, but nothing newer can be"
    )
    reference = TrackRun(root, track, "reference")
    name = "adapter_model.safetensors"
    assert (run.final / name).read_bytes() == (reference.final / name).read_bytes()


@pytest.mark.slow
def test_stopping_the_pilot_and_resuming_it_gives_the_bits_of_an_undisturbed_run(
    tmp_path: Path, inputs: Path, cache: Path
) -> None:
    job = small_job(tracks=[{"use": ["cpu"], "compute": "fp32"}])
    undisturbed = make_run(tmp_path / "other", inputs, job, "cpu")
    run_leg(undisturbed, world(cache))
    root = begun(tmp_path / "run", inputs, job)

    class Stopping(QuietDisplay):
        def stage(self, name: str, total: float) -> Any:
            class Stage:
                def update(self, done: float | None, note: str) -> None:
                    if done is not None and done >= 1:
                        started.stop()

                def finish(self, note: str) -> None: ...

            return Stage()

    started = pilot(root, cache, display=Stopping())
    with pytest.raises(Interrupted, match=r"twintrack pilot --resume"):
        started.run()
    pilot(root, cache).run()

    def digest(run: TrackRun) -> list[str]:
        return [e.state_digest for e in read_events(run.events) if isinstance(e, RunDone)]

    assert digest(TrackRun(root, "cpu", "reference")) == digest(undisturbed)


def cli(*arguments: str, **other: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "twintrack", *arguments], capture_output=True, text=True, check=False, **other
    )


@pytest.mark.slow
def test_ctrl_c_ends_with_130_and_the_command_to_go_on_then_the_command_finishes(
    tmp_path: Path, inputs: Path, cache: Path
) -> None:
    """The whole way of a user: run, Ctrl-C, resume; the trn2 programs come from the cache by then."""
    job_file = inputs / "job.toml"
    job_file.write_text(job_toml(small_job(tracks=[{"use": ["trn2"]}], stop={"steps": 2})))
    command = [
        sys.executable,
        "-m",
        "twintrack",
        "pilot",
        str(job_file),
        "--out",
        "run",
        "--cache",
        str(cache),
    ]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    while "starting" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()

    assert process.returncode == 130, errors
    assert errors.strip().count("\n") == 0
    assert "go on with: twintrack pilot --resume run" in errors

    finished = cli("pilot", "--resume", "run", "--cache", str(cache), cwd=tmp_path)

    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert (tmp_path / "run" / "report.html").exists()
    assert "report:" in finished.stdout
    again = cli("pilot", "--resume", "run", "--cache", str(cache), cwd=tmp_path)
    assert again.returncode == 0
    events = list(read_events(tmp_path / "run/tracks/trn2/reference/events.jsonl"))
    assert sum(isinstance(e, RunDone) for e in events) == 1
    assert any(isinstance(e, CompileDone) for e in events)


@pytest.mark.slow
def test_what_a_worker_finds_wrong_is_one_line_and_exit_code_2(
    tmp_path: Path, inputs: Path, cache: Path
) -> None:
    (tmp_path / "broken.jsonl").write_text('{"messages": [\n')
    job = small_job(
        data={"files": ["broken.jsonl"], "sequence_length": 64}, model={"source": str(inputs / "model")}
    )
    (tmp_path / "job.toml").write_text(job_toml(job))

    done = cli("pilot", "job.toml", "--out", "run", "--cache", str(cache), cwd=tmp_path)

    assert done.returncode == 2
    assert done.stderr.strip().count("\n") == 0
    assert "broken.jsonl:1" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists(), "a refused job leaves no run folder behind"


def test_a_process_that_dies_unasked_fails_the_pilot_and_says_how_to_go_on(
    tmp_path: Path, inputs: Path, cache: Path
) -> None:
    root = begun(tmp_path / "run", inputs, small_job())

    def start(arguments: list[str]) -> subprocess.Popen[str]:
        del arguments
        code = "import sys; sys.stderr.write('no more memory\\n'); sys.exit(9)"
        return subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)

    with pytest.raises(RunFailed, match=r"cpu reference after step 0: .*no more memory.*--resume"):
        pilot(root, cache, start=start).run()


def test_a_user_error_of_a_worker_is_passed_on_as_it_is(tmp_path: Path, inputs: Path, cache: Path) -> None:
    root = begun(tmp_path / "run", inputs, small_job())

    def start(arguments: list[str]) -> subprocess.Popen[str]:
        del arguments
        code = "import sys; sys.stderr.write('a: required b, found c; do d\\n'); sys.exit(2)"
        return subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)

    with pytest.raises(UserError) as caught:
        pilot(root, cache, start=start).run()
    assert str(caught.value) == "a: required b, found c; do d"


def test_a_pilot_in_use_is_refused(tmp_path: Path, inputs: Path, cache: Path) -> None:
    root = begun(tmp_path / "run", inputs, small_job())
    with FileLock(root / "lock"), pytest.raises(RunFolderError, match="no other process works on"):
        pilot(root, cache).run()


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(RunFolderError, match="no such folder"):
        pilot(tmp_path / "none", cache).run()
    with pytest.raises(RunFolderError, match="a folder without it"):
        pilot(tmp_path, cache).run()


@pytest.mark.parametrize(
    ("other", "found"),
    [
        (small_job(), "a run of the same job"),
        (small_job(name="else"), "a run of another job, 'else'"),
        (None, "a folder with other files"),
    ],
)
def test_a_run_folder_that_exists_is_refused_and_named(
    other: Job | None, found: str, tmp_path: Path, inputs: Path
) -> None:
    from twintrack.job.load import load_job
    from twintrack.pilot.protocol import begin

    root = tmp_path / "run"
    if other is None:
        root.mkdir()
        (root / "notes.txt").write_text("mine")
    else:
        begun(root, inputs, other)
    job_file = inputs / "job.toml"
    job_file.write_text(job_toml(small_job()))

    with pytest.raises(RunFolderError, match=found):
        begin(load_job(job_file), root, FS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"tracks": [{"use": ["cpu"], "compute": "fp32"}, {"use": ["trn2"], "instance": "trn2.4xlarge"}]},
            "trn2",
        ),
        (
            {"tracks": [{"use": ["cpu"], "compute": "fp32"}, {"use": ["trn2"], "instance": "p5.48xlarge"}]},
            "Trainium chips",
        ),
        ({"parallel": {"tensor": 2}}, "2 devices"),
    ],
)
def test_what_a_later_track_cannot_do_is_refused_before_anything_is_done(
    changes: dict[str, Any], message: str, tmp_path: Path, inputs: Path
) -> None:
    from twintrack.job.load import load_job
    from twintrack.pilot.protocol import begin

    job_file = inputs / "refused.toml"
    job_file.write_text(job_toml(small_job(**changes)))

    with pytest.raises(UserError, match=message):
        begin(load_job(job_file), tmp_path / "run", FS)

    assert not (tmp_path / "run").exists()

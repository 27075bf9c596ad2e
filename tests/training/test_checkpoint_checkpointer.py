"""Saves in the background: what stalls, what is told, what is kept, and what a failing disk costs."""

import errno
import os
import threading
from pathlib import Path

import pytest
import torch
from checkpoint_cases import Recorder, assert_same_bits, contents, make_checkpointer, make_state

from twintrack.clock import SystemClock
from twintrack.errors import CheckpointError, RunFolderError, StorageError
from twintrack.events import CheckpointFailed, CheckpointRemoved, CheckpointSaved, CheckpointSnapshot
from twintrack.job.records import CheckpointPolicy
from twintrack.storage import FileLock, FullFileSystem, LocalFileSystem, ReadOnlyFileSystem, WritableFile
from twintrack.training.checkpoint import Checkpointer, Status, TrainingState, inspect, scan

LOCAL = LocalFileSystem()


class Gated(LocalFileSystem):
    """Lets no file be opened until the gate is."""

    def __init__(self) -> None:
        self.gate = threading.Event()

    def create(self, path: Path, *, append: bool = False) -> WritableFile:
        assert self.gate.wait(60)
        return super().create(path, append=append)


def steps(folder: Path) -> list[int]:
    return [entry.step for entry in scan(LOCAL, folder) if entry.status is Status.COMPLETE]


def test_an_asynchronous_save_returns_before_anything_is_written(tmp_path):
    fs, events = Gated(), Recorder()
    checkpointer = make_checkpointer(tmp_path, fs, emit=events)
    checkpointer.save(make_state(1))
    assert checkpointer.saving
    assert [type(event) for event in events.events] == [CheckpointSnapshot]
    assert events.events[0].asynchronous
    fs.gate.set()
    checkpointer.finish()
    assert not checkpointer.saving
    assert [type(event) for event in events.events] == [CheckpointSnapshot, CheckpointSaved]
    assert steps(tmp_path) == [1]


def test_a_save_waits_for_the_one_before_it_and_counts_that_as_stall(tmp_path):
    """The clock is ours: each save takes 5 s in the background, so the second one stalls for 5 s."""

    asked = threading.Event()

    class Clock:
        seconds = 100.0

        def now(self) -> float:
            return 1.8e9

        def monotonic(self) -> float:
            if threading.current_thread().name == "second":
                asked.set()
            return self.seconds

    clock = Clock()

    class Slow(Gated):
        def replace(self, source: Path, target: Path) -> None:
            super().replace(source, target)
            clock.seconds += 5.0

    fs, events = Slow(), Recorder()
    checkpointer = Checkpointer(fs, tmp_path, clock, CheckpointPolicy(every_steps=1), "job", events)
    checkpointer.save(make_state(1))
    second = threading.Thread(target=checkpointer.save, args=(make_state(2),), name="second")
    second.start()
    assert asked.wait(60)
    assert second.is_alive()
    assert len(events.of(CheckpointSnapshot)) == 1
    fs.gate.set()
    second.join()
    checkpointer.finish()
    assert [event.stall_seconds for event in events.of(CheckpointSnapshot)] == [0.0, 5.0]
    assert [event.seconds for event in events.of(CheckpointSaved)] == [5.0, 5.0]
    order = [(type(event).__name__, event.step) for event in events.events]
    assert order == [
        ("CheckpointSnapshot", 1),
        ("CheckpointSaved", 1),
        ("CheckpointSnapshot", 2),
        ("CheckpointSaved", 2),
    ]


def test_a_synchronous_policy_saves_before_it_returns_and_says_so(tmp_path):
    events = Recorder()
    checkpointer = make_checkpointer(tmp_path, asynchronous=False, emit=events)
    checkpointer.save(make_state(1))
    assert not checkpointer.saving
    assert steps(tmp_path) == [1]
    assert [event.asynchronous for event in events.of(CheckpointSnapshot)] == [False]
    checkpointer.finish()


def test_the_snapshot_holds_the_tensors_and_values_of_its_moment(tmp_path):
    """Values changed after save, and a training loop that goes on with new tensors, do not reach the file."""
    fs = Gated()
    state, values = make_state(1), {"position": 1, "list": [1]}
    checkpointer = make_checkpointer(tmp_path, fs)
    checkpointer.save(TrainingState(1, state.tensors, values))
    values["position"] = 2
    values["list"].append(2)
    later = {name: tensor.clone().fill_(1) for name, tensor in state.tensors.items()}
    fs.gate.set()
    checkpointer.wait()
    assert later
    loaded = checkpointer.load(1).state
    checkpointer.finish()
    assert_same_bits(loaded, TrainingState(1, make_state(1).tensors, {"position": 1, "list": [1]}))


@pytest.mark.parametrize("name", ["master/layer.0.lora_A", "rng/torch_cpu"])
def test_a_tensor_changed_in_place_while_it_is_written_makes_no_checkpoint(tmp_path, name):
    fs, events, state = Gated(), Recorder(), make_state(2)
    checkpointer = make_checkpointer(tmp_path, fs, emit=events)
    checkpointer.save(state)
    state.tensors[name].add_(1)
    fs.gate.set()
    with pytest.raises(CheckpointError, match=f"changed, the first '{name}'"):
        checkpointer.finish()
    assert [event.step for event in events.of(CheckpointFailed)] == [2]
    assert scan(LOCAL, tmp_path) == []


def test_tensors_made_in_inference_mode_and_parameters_are_saved(tmp_path):
    with torch.inference_mode():
        inference = torch.ones(3)
    parameter = torch.nn.Parameter(torch.full((2,), 3.0))
    state = TrainingState(1, {"weights/a": inference, "weights/b": parameter}, {})
    with make_checkpointer(tmp_path) as checkpointer:
        checkpointer.save(state)
        loaded = checkpointer.load(1).state
    assert loaded.tensors["weights/a"].tolist() == [1.0] * 3
    assert loaded.tensors["weights/b"].tolist() == [3.0] * 2
    assert not loaded.tensors["weights/b"].requires_grad


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_tensors_on_a_device_are_saved_from_there(tmp_path):
    state = make_state(1)
    moved = {name: tensor.to("cuda") for name, tensor in state.tensors.items()}
    with make_checkpointer(tmp_path) as checkpointer:
        checkpointer.save(TrainingState(1, moved, state.values))
        assert_same_bits(checkpointer.load(1).state, state)


def test_loaded_tensors_own_their_memory(tmp_path):
    with make_checkpointer(tmp_path) as checkpointer:
        checkpointer.save(make_state(1))
        first = checkpointer.load(1).state
        first.tensors["master/layer.0.lora_A"].fill_(0)
        assert_same_bits(checkpointer.load(1).state, make_state(1))


# a failing disk


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_full_disk_costs_a_checkpoint_and_not_the_run(tmp_path, asynchronous):
    fs, events = FullFileSystem(LOCAL, free_bytes=10**6), Recorder()
    checkpointer = make_checkpointer(tmp_path, fs, asynchronous=asynchronous, emit=events)
    checkpointer.save(make_state(1))
    checkpointer.wait()
    before = contents(tmp_path)
    fs.free_bytes = 500
    checkpointer.save(make_state(2))
    checkpointer.wait()
    failed = events.of(CheckpointFailed)
    assert [event.step for event in failed] == [2]
    assert "space left on the disk" in failed[0].error
    assert contents(tmp_path) == before, "what was written of the failed one is removed"
    fs.free_bytes = 10**6
    checkpointer.save(make_state(3))
    checkpointer.finish()
    assert steps(tmp_path) == [1, 3]


def test_finish_raises_if_the_last_save_failed(tmp_path):
    checkpointer = make_checkpointer(tmp_path, FullFileSystem(LOCAL, free_bytes=100))
    checkpointer.save(make_state(1))
    with pytest.raises(StorageError, match="space left on the disk"):
        checkpointer.finish()


def test_a_save_that_is_waited_for_raises_at_once(tmp_path):
    events = Recorder()
    checkpointer = make_checkpointer(tmp_path, FullFileSystem(LOCAL, free_bytes=100), emit=events)
    with pytest.raises(StorageError, match="space left on the disk"):
        checkpointer.save(make_state(1), wait=True)
    assert len(events.of(CheckpointFailed)) == 1
    checkpointer.close()


@pytest.mark.parametrize("free", range(0, 4000, 250))
def test_wherever_the_disk_fills_up_nothing_stays_and_nothing_is_lost(tmp_path, free):
    with make_checkpointer(tmp_path, keep=1) as checkpointer:
        checkpointer.save(make_state(10))
    before = contents(tmp_path)
    size = sum(map(len, before.values()))
    for step in (10, 20):
        full = FullFileSystem(LOCAL, free_bytes=free)
        checkpointer = make_checkpointer(tmp_path, full, keep=1)
        checkpointer.save(make_state(step, seed=99))
        try:
            checkpointer.finish()
        except StorageError:
            assert contents(tmp_path) == before
        else:
            assert free >= size
            return


def test_a_read_only_disk_is_an_event_and_one_line(tmp_path):
    events = Recorder()
    checkpointer = make_checkpointer(tmp_path / "run", ReadOnlyFileSystem(LOCAL), emit=events)
    checkpointer.save(make_state(1))
    with pytest.raises(StorageError, match="a writable disk"):
        checkpointer.finish()
    assert [event.step for event in events.of(CheckpointFailed)] == [1]


def test_an_outcome_that_cannot_be_recorded_is_raised_by_the_next_call(tmp_path):
    def emit(event: object) -> None:
        if isinstance(event, CheckpointSaved | CheckpointFailed):
            raise StorageError("space", found="none", where="events.jsonl", remedy="make some")

    policy = CheckpointPolicy(every_steps=1)
    checkpointer = Checkpointer(LOCAL, tmp_path, SystemClock(), policy, "job", emit)
    checkpointer.save(make_state(1))
    with pytest.raises(StorageError, match=r"events\.jsonl"):
        checkpointer.save(make_state(2))
    with pytest.raises(StorageError, match=r"events\.jsonl"):
        checkpointer.finish()


def test_the_error_that_leaves_a_with_block_is_not_masked(tmp_path):
    def fail() -> None:
        with make_checkpointer(tmp_path, FullFileSystem(LOCAL, free_bytes=0)) as checkpointer:
            checkpointer.save(make_state(1))
            raise KeyError("first")

    with pytest.raises(KeyError, match="first"):
        fail()
    assert FileLock(tmp_path / ".lock").acquire(wait=False)


def test_two_writers_do_not_share_a_folder(tmp_path):
    first, second = make_checkpointer(tmp_path), make_checkpointer(tmp_path)
    first.save(make_state(1), wait=True)
    with pytest.raises(RunFolderError, match=f"found process {os.getpid()} at work"):
        second.clean()
    with pytest.raises(RunFolderError, match="no other process writes"):
        second.save(make_state(2), wait=True)
    assert second.latest() == 1
    second.close()
    first.finish()
    third = make_checkpointer(tmp_path)
    third.clean()
    third.finish()


# what is kept


def test_the_newest_ones_are_kept_and_the_others_go_with_an_event_each(tmp_path):
    events = Recorder()
    with make_checkpointer(tmp_path, keep=2, emit=events) as checkpointer:
        for step in (1, 2, 3, 4, 5):
            checkpointer.save(make_state(step))
    assert steps(tmp_path) == [4, 5]
    assert [event.step for event in events.of(CheckpointRemoved)] == [1, 2, 3]


def test_the_last_verified_one_stays_while_newer_ones_do_not_count(tmp_path):
    """Step 3 is altered after another process wrote it: of two kept ones it is not one."""
    with make_checkpointer(tmp_path, keep=9) as checkpointer:
        for step in (1, 2, 3):
            checkpointer.save(make_state(step))
    flipped = tmp_path / "step-00000003" / "master-00001.safetensors"
    flipped.write_bytes(flipped.read_bytes()[:-1] + b"\x55")
    with make_checkpointer(tmp_path, keep=2) as checkpointer:
        checkpointer.save(make_state(4))
    assert [entry.step for entry in scan(LOCAL, tmp_path)] == [2, 3, 4]
    assert inspect(LOCAL, tmp_path, 2, digests=True).status is Status.VERIFIED


def test_a_checkpoint_truncated_behind_our_back_does_not_count(tmp_path):
    checkpointer = make_checkpointer(tmp_path, keep=1)
    checkpointer.save(make_state(1), wait=True)
    checkpointer.save(make_state(2), wait=True)
    assert steps(tmp_path) == [2]

    class Truncating(LocalFileSystem):
        """Loses the end of a file after its sync, as a broken disk would."""

        def sync_folder(self, path: Path) -> None:
            super().sync_folder(path)
            for file in path.glob("moment1-*"):
                os.truncate(file, 5)

    checkpointer.finish()
    events = Recorder()
    broken = make_checkpointer(tmp_path, Truncating(), keep=1, emit=events)
    broken.save(make_state(3))
    with pytest.raises(CheckpointError, match="found 5"):
        broken.finish()
    assert [event.step for event in events.of(CheckpointFailed)] == [3]
    assert make_checkpointer(tmp_path).latest() == 2


def test_a_removal_takes_the_manifest_first_and_forces_that_to_disk(tmp_path):
    calls = []

    class Recording(LocalFileSystem):
        def remove(self, path: Path) -> None:
            calls.append(("remove", path.name))
            super().remove(path)

        def sync_folder(self, path: Path) -> None:
            calls.append(("sync", path.name))
            super().sync_folder(path)

    with make_checkpointer(tmp_path, Recording(), keep=1) as checkpointer:
        checkpointer.save(make_state(1))
        checkpointer.wait()
        calls.clear()
        checkpointer.save(make_state(2))
    old = "step-00000001"
    start = calls.index(("remove", "manifest.json"))
    assert calls[start:] == [("remove", "manifest.json"), ("sync", old), ("remove", old)]
    assert ("sync", "step-00000002") in calls[:start]


def test_the_checkpoints_of_another_job_are_never_removed(tmp_path):
    with make_checkpointer(tmp_path, job="b" * 64) as checkpointer:
        checkpointer.save(make_state(1))
    with make_checkpointer(tmp_path, keep=1) as checkpointer:
        checkpointer.save(make_state(2))
        checkpointer.save(make_state(3))
    assert steps(tmp_path) == [1, 3]


def test_clean_removes_debris_only_and_tells_what(tmp_path):
    with make_checkpointer(tmp_path) as checkpointer:
        for step in (1, 2, 3):
            checkpointer.save(make_state(step))
    (tmp_path / "step-00000001" / "manifest.json").unlink()
    (tmp_path / "step-00000001" / "state.json").unlink()
    (tmp_path / "step-00000002" / "state.json").unlink()
    (tmp_path / "step-00000003" / ".manifest.json.77.partial").write_bytes(b"{")
    (tmp_path / "notes.txt").write_text("mine")
    events = Recorder()
    with make_checkpointer(tmp_path, emit=events) as checkpointer:
        checkpointer.clean()
    told = [(event.step, event.reason) for event in events.of(CheckpointRemoved)]
    assert told == [
        (1, "debris: it has no manifest"),
        (3, "debris beside the checkpoint: .manifest.json.77.partial"),
    ]
    assert [(e.step, e.status) for e in scan(LOCAL, tmp_path)] == [(2, Status.DAMAGED), (3, Status.COMPLETE)]
    assert (tmp_path / "notes.txt").read_text() == "mine"


# the same step again


@pytest.mark.parametrize("before", ["whole", "debris", "damaged", "altered manifest"])
def test_a_step_written_again_replaces_whatever_was_there(tmp_path, before):
    with make_checkpointer(tmp_path) as checkpointer:
        checkpointer.save(make_state(5, seed=1))
    folder = tmp_path / "step-00000005"
    if before == "debris":
        (folder / "manifest.json").unlink()
    elif before == "damaged":
        (folder / "master-00001.safetensors").unlink()
    elif before == "altered manifest":
        (folder / "manifest.json").write_text("{}")
    with make_checkpointer(tmp_path) as checkpointer:
        checkpointer.save(make_state(5, seed=2))
        checkpointer.save(make_state(5, seed=3))
        assert checkpointer.latest() == 5
        assert_same_bits(checkpointer.load(5).state, make_state(5, seed=3))
    assert len(contents(folder)) == 7, "the files of earlier attempts are gone"


def test_the_manifest_says_when_by_whom_and_for_which_job(tmp_path):
    with make_checkpointer(tmp_path) as checkpointer:
        checkpointer.save(make_state(7))
    manifest = inspect(LOCAL, tmp_path, 7).require()
    assert (manifest.step, manifest.job_digest, manifest.attempt) == (7, "a" * 64, 0)
    assert manifest.created.endswith("+00:00")
    assert sorted(manifest.files) == [
        "master-00001.safetensors",
        "moment1-00001.safetensors",
        "moment2-00001.safetensors",
        "rng-00001.safetensors",
        "state.json",
        "weights-00001.safetensors",
    ]
    on_disk = contents(tmp_path / "step-00000007")
    assert {name: record.bytes for name, record in manifest.files.items()} == {
        name: len(data) for name, data in on_disk.items() if name != "manifest.json"
    }


def test_data_are_on_disk_before_the_manifest_is_named(tmp_path):
    """Power may fail at any time: every file is synced, and the names too, before the manifest's rename."""
    calls: list[tuple[str, str]] = []

    class Recording(LocalFileSystem):
        def create(self, path: Path, *, append: bool = False) -> WritableFile:
            file = super().create(path, append=append)
            sync = file.sync

            def recorded() -> None:
                sync()
                calls.append(("sync", path.name))

            file.sync = recorded  # type: ignore[method-assign]
            return file

        def replace(self, source: Path, target: Path) -> None:
            calls.append(("replace", target.name))
            super().replace(source, target)

        def sync_folder(self, path: Path) -> None:
            super().sync_folder(path)
            calls.append(("sync_folder", path.name))

    with make_checkpointer(tmp_path, Recording()) as checkpointer:
        checkpointer.save(make_state(7))
    manifest = inspect(LOCAL, tmp_path, 7).require()
    end = calls.index(("replace", "manifest.json"))
    assert {("sync", name) for name in manifest.files} <= set(calls[:end])
    assert calls.index(("sync_folder", "step-00000007")) < end
    assert calls.index(("sync_folder", tmp_path.name)) < end
    assert ("sync_folder", "step-00000007") in calls[end:]


def test_an_io_error_of_the_disk_is_told_as_such(tmp_path):
    class Broken(LocalFileSystem):
        def create(self, path: Path, *, append: bool = False) -> WritableFile:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    checkpointer = make_checkpointer(tmp_path, Broken())
    with pytest.raises(StorageError, match="a working disk"):
        checkpointer.save(make_state(1), wait=True)
    checkpointer.close()

"""A process killed at any point of a save leaves the previous checkpoint or the new one, nothing between.

The children come from a fork server that has loaded torch already: real kills, at little cost.
"""

import multiprocessing
import random
import signal
from collections.abc import Iterator
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest
from checkpoint_cases import Recorder, assert_same_bits, contents, make_checkpointer, make_state, same_bits

from twintrack.events import CheckpointFailed, CheckpointRemoved
from twintrack.storage import KillingFileSystem, LocalFileSystem
from twintrack.training.checkpoint import Status, scan

pytestmark = pytest.mark.slow
NEVER = 10**9
LOCAL = LocalFileSystem()


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServerContext]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pytest", "twintrack.training.checkpoint"])
    return context


def save_until_killed(folder: Path, step: int, seed: int, after_bytes: int, after_changes: int) -> None:
    fs = KillingFileSystem(LocalFileSystem())
    fs.arm(after_bytes=after_bytes, after_changes=after_changes)
    with make_checkpointer(folder, fs, keep=1) as checkpointer:
        checkpointer.save(make_state(step, seed))


def was_killed(server: ForkServerContext, folder: Path, step: int, seed: int, **after: int) -> bool:
    counts = {"after_bytes": NEVER, "after_changes": NEVER} | after
    child = server.Process(target=save_until_killed, args=(folder, step, seed, *counts.values()))
    child.start()
    child.join()
    assert child.exitcode in (0, -signal.SIGKILL)
    return child.exitcode != 0


def begin(folder: Path, step: int = 10) -> int:
    """A folder with one whole checkpoint; returns its bytes, manifest included."""
    with make_checkpointer(folder) as checkpointer:
        checkpointer.save(make_state(step))
    return sum(map(len, contents(folder).values()))


def recover(folder: Path) -> None:
    """The next leg cleans up, saves step 20 again, and leaves that alone."""
    events = Recorder()
    with make_checkpointer(folder, keep=1, emit=events) as checkpointer:
        checkpointer.clean()
        assert checkpointer.latest() in (10, 20)
        checkpointer.save(make_state(20))
    assert not events.of(CheckpointFailed)
    assert [(entry.step, entry.status) for entry in scan(LOCAL, folder)] == [(20, Status.COMPLETE)]
    names = set(contents(folder / "step-00000020"))
    assert len(names) == 7, names
    assert_same_bits(make_checkpointer(folder).load(20).state, make_state(20))


def test_a_kill_at_any_byte_leaves_the_previous_checkpoint(server, tmp_path):
    size = begin(tmp_path / "measure")
    points = [0, 1, size - 1, size - 30, size - 300, *random.Random(5).sample(range(2, size - 300), 5)]
    for point in points:
        folder = tmp_path / str(point)
        begin(folder)
        before = contents(folder)
        assert was_killed(server, folder, 20, 20, after_bytes=point)
        checkpointer = make_checkpointer(folder)
        assert checkpointer.latest() == 10, point
        assert_same_bits(checkpointer.resume().state, make_state(10))
        after = contents(folder)
        assert {name: after[name] for name in before} == before
        recover(folder)


def test_a_kill_before_any_change_leaves_one_of_the_two(server, tmp_path):
    """Files opened and synced, folders made, the manifest's rename, removals: each in its turn."""
    outcomes = []
    for changes in range(200):
        folder = tmp_path / str(changes)
        begin(folder)
        killed = was_killed(server, folder, 20, 20, after_changes=changes)
        latest = make_checkpointer(folder).latest()
        outcomes.append(latest)
        assert latest in (10, 20)
        assert_same_bits(make_checkpointer(folder).load(latest).state, make_state(latest))
        if changes % 3 == 0 or not killed:
            recover(folder)
        if not killed:
            break
    else:
        pytest.fail("the save never came to an end")
    assert outcomes == sorted(outcomes)
    assert outcomes.count(10) > 15
    assert outcomes.count(20) > 3


def test_a_step_written_again_is_the_old_or_the_new_one_at_any_kill(server, tmp_path):
    """The same step with other numbers: never a mixture, never neither."""
    old, new = make_state(20, seed=1), make_state(20, seed=2)
    found = []
    for changes in range(200):
        folder = tmp_path / str(changes)
        with make_checkpointer(folder) as checkpointer:
            checkpointer.save(old)
        killed = was_killed(server, folder, 20, 2, after_changes=changes)
        loaded = make_checkpointer(folder).resume().state
        assert same_bits(loaded, old) or same_bits(loaded, new)
        found.append(same_bits(loaded, new))
        events = Recorder()
        with make_checkpointer(folder, emit=events) as checkpointer:
            checkpointer.clean()
        assert all("debris beside" in event.reason for event in events.of(CheckpointRemoved))
        assert len(contents(folder)) == 7
        if not killed:
            break
    else:
        pytest.fail("the save never came to an end")
    assert found == sorted(found)
    assert found.count(False) > 15
    assert found.count(True) > 3

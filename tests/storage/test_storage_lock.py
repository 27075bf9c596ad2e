"""A lock is held by one at a time, and a dead owner cannot hold it."""

import multiprocessing
import os
import signal
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from twintrack.errors import StorageError
from twintrack.storage import FileLock

SPAWN = multiprocessing.get_context("spawn")


def hold_for_ever(path: Path, held: Event) -> None:
    FileLock(path).acquire()
    held.set()
    signal.pause()


@pytest.mark.slow
def test_a_lock_is_free_once_its_owner_was_killed(tmp_path):
    held = SPAWN.Event()
    owner = SPAWN.Process(target=hold_for_ever, args=(tmp_path / "lock", held))
    owner.start()
    assert held.wait(60)
    lock = FileLock(tmp_path / "lock")
    assert not lock.acquire(wait=False)
    assert lock.owner() == owner.pid
    owner.kill()
    owner.join()
    assert owner.exitcode == -signal.SIGKILL
    assert lock.acquire(wait=False)
    assert lock.owner() == os.getpid()
    lock.release()


def test_only_one_holds_a_lock_and_release_gives_it_on(tmp_path):
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    with first:
        assert first.held
        assert not second.acquire(wait=False)
        assert not second.held
    assert not first.held
    assert second.acquire(wait=False)
    second.release()
    second.release()


def test_a_lock_is_not_taken_twice_by_one_object(tmp_path):
    with FileLock(tmp_path / "lock") as lock, pytest.raises(RuntimeError, match="already"):
        lock.acquire()


def test_the_owner_is_unknown_where_the_file_is_absent_or_says_nothing(tmp_path):
    lock = FileLock(tmp_path / "lock")
    assert lock.owner() is None
    (tmp_path / "lock").write_text('{"pid": ')
    assert lock.owner() is None


def test_a_lock_in_a_folder_that_is_not_there_is_one_clear_line(tmp_path):
    with pytest.raises(StorageError, match="required an existing path to take the lock"):
        FileLock(tmp_path / "absent" / "lock").acquire()

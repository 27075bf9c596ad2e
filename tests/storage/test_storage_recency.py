"""Times of files can be set and read through the file system, and a lock knows whether it still counts."""

import os

import pytest

from twintrack.storage import FileLock, KillingFileSystem, LocalFileSystem, ReadOnlyFileSystem

LOCAL = LocalFileSystem()


def test_a_time_that_is_set_is_read_back_and_the_content_stays(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"content")
    LOCAL.set_modified(path, 1_700_000_000.25)
    assert LOCAL.modified(path) == 1_700_000_000.25
    assert path.read_bytes() == b"content"
    with pytest.raises(FileNotFoundError):
        LOCAL.set_modified(tmp_path / "absent", 1.0)
    with pytest.raises(FileNotFoundError):
        LOCAL.modified(tmp_path / "absent")


def test_failing_file_systems_count_it_as_a_change(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"")
    LOCAL.set_modified(path, 5.0)
    with pytest.raises(OSError, match="Read-only"):
        ReadOnlyFileSystem(LOCAL).set_modified(path, 6.0)
    assert ReadOnlyFileSystem(LOCAL).modified(path) == 5.0
    killed = []
    fs = KillingFileSystem(LOCAL, kill=lambda: killed.append(1))
    fs.arm(after_changes=0)
    fs.set_modified(path, 7.0)
    assert killed


def test_a_lock_is_current_while_it_is_held_and_its_file_has_its_name(tmp_path):
    path = tmp_path / "lock"
    lock = FileLock(path)
    assert not lock.current
    with lock:
        assert lock.current
        os.rename(path, tmp_path / "elsewhere")
        assert not lock.current
        path.write_bytes(b"")
        assert not lock.current, "another file has the name now"
    assert not lock.current

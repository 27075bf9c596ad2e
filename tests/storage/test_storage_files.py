"""Files are whole or absent, stay inside their root, and refusals of the disk become one clear line."""

import errno
import hashlib
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twintrack.errors import StorageError
from twintrack.storage import (
    DigestingFile,
    FileSystem,
    FullFileSystem,
    KillingFileSystem,
    LocalFileSystem,
    ReadOnlyFileSystem,
    canonical_json,
    digest_bytes,
    digest_file,
    digest_json,
    inside,
    storage_errors,
    write_bytes_atomic,
    write_json_atomic,
)

LOCAL = LocalFileSystem()


class Refusing(LocalFileSystem):
    """Refuses renames."""

    def replace(self, source: Path, target: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize("free", [0, 1, 9])
def test_a_write_that_does_not_fit_leaves_the_old_file_and_no_debris(tmp_path, free):
    target = tmp_path / "file"
    write_bytes_atomic(LOCAL, target, b"old")
    with pytest.raises(StorageError, match="space left on the disk to write the file"):
        write_bytes_atomic(FullFileSystem(LOCAL, free_bytes=free), target, b"0123456789")
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("fs", [ReadOnlyFileSystem(LOCAL), Refusing()])
def test_a_refused_write_leaves_the_old_file_and_no_debris(tmp_path, fs):
    target = tmp_path / "file"
    write_bytes_atomic(LOCAL, target, b"old")
    with pytest.raises(StorageError) as refusal:
        write_bytes_atomic(fs, target, b"new")
    assert "\n" not in str(refusal.value)
    assert refusal.value.exit_code == 2
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_data_are_on_disk_before_the_name_is_and_the_name_before_the_call_returns(tmp_path):
    calls = []

    class Recording(LocalFileSystem):
        def create(self, path: Path, *, append: bool = False):
            file = super().create(path, append=append)
            sync = file.sync
            file.sync = lambda: (calls.append("sync"), sync())  # type: ignore[method-assign]
            return file

        def replace(self, source: Path, target: Path) -> None:
            calls.append("replace")
            super().replace(source, target)

        def sync_folder(self, path: Path) -> None:
            calls.append("sync_folder")
            super().sync_folder(path)

    write_bytes_atomic(Recording(), tmp_path / "file", b"x")
    assert calls == ["sync", "replace", "sync_folder"]


def test_json_without_a_form_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json_atomic(LOCAL, tmp_path / "file", {"loss": float("nan")})
    assert os.listdir(tmp_path) == []
    write_json_atomic(LOCAL, tmp_path / "file", {"b": 1, "a": "é"})
    assert json.loads((tmp_path / "file").read_text()) == {"a": "é", "b": 1}


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../x", "link/x"])
def test_a_path_that_leaves_its_root_is_refused(tmp_path, name):
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(tmp_path)
    with pytest.raises(StorageError, match="required a path inside"):
        inside(root, name)


@given(st.text(max_size=30))
def test_whatever_the_name_a_path_is_inside_or_refused(name):
    root = Path("/nowhere/root")
    try:
        path = inside(root, name)
    except (StorageError, ValueError):  # ValueError: a null byte is no path at all
        return
    assert path == root or root in path.parents


@pytest.mark.parametrize(
    ("number", "required"),
    [
        (errno.ENOSPC, "space left on the disk"),
        (errno.EDQUOT, "space left in the quota"),
        (errno.EROFS, "a writable disk"),
        (errno.EACCES, "permission"),
        (errno.ENOENT, "an existing path"),
        (errno.EIO, "a working disk"),
        (errno.ETIMEDOUT, "a working file system"),
    ],
)
def test_what_the_system_refuses_becomes_one_line_with_four_parts(number, required):
    with pytest.raises(StorageError) as refusal, storage_errors(Path("/run/file"), "write the file"):
        raise OSError(number, os.strerror(number))
    error = refusal.value
    assert error.required == f"{required} to write the file"
    assert error.found == os.strerror(number)
    assert error.where == "/run/file"
    assert error.remedy
    assert isinstance(error.__cause__, OSError)


def test_digests_are_sha256_and_equal_values_have_equal_digests(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    published = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-4, "abc"
    assert digest_bytes(b"abc") == digest_file(tmp_path / "file") == published
    assert digest_json({"a": 1, "b": [2.5, None]}) == digest_json({"b": [2.5, None], "a": 1})
    assert canonical_json({"b": 1, "a": "é"}) == '{"a":"é","b":1}'
    with pytest.raises(StorageError, match="No such file"):
        digest_file(tmp_path / "absent")


@given(st.lists(st.binary(max_size=200), max_size=8))
def test_a_digesting_file_says_what_stands_on_disk(tmp_path_factory, parts):
    path = tmp_path_factory.getbasetemp() / "digested"
    file = DigestingFile(LOCAL.create(path))
    for part in parts:
        file.write(memoryview(part))
    written = file.finish()
    data = path.read_bytes()
    assert data == b"".join(parts)
    assert (written.bytes, written.sha256) == (len(data), hashlib.sha256(data).hexdigest())


def test_a_digesting_file_divides_large_buffers_and_keeps_their_order(tmp_path):
    data = os.urandom(1 << 20) * 70
    file = DigestingFile(LOCAL.create(tmp_path / "file"))
    file.write(b"head")
    file.write(memoryview(data))
    assert file.finish().sha256 == hashlib.sha256(b"head" + data).hexdigest()
    assert (tmp_path / "file").stat().st_size == len(data) + 4


def test_a_digesting_file_passes_on_a_full_disk(tmp_path):
    file = DigestingFile(FullFileSystem(LOCAL, free_bytes=3).create(tmp_path / "file"))
    with pytest.raises(OSError, match="No space left") as refusal:
        file.write(b"12345")
    file.close()
    file.close()
    assert refusal.value.errno == errno.ENOSPC
    assert (tmp_path / "file").read_bytes() == b"123"


def test_a_full_disk_takes_what_fits_and_recovers_when_room_is_made(tmp_path):
    fs = FullFileSystem(LOCAL, free_bytes=4)
    with pytest.raises(StorageError):
        write_bytes_atomic(fs, tmp_path / "file", b"12345")
    fs.free_bytes = 5
    write_bytes_atomic(fs, tmp_path / "file", b"12345")
    assert fs.read_bytes(tmp_path / "file") == b"12345"
    assert fs.free_bytes == 0


def test_a_read_only_disk_refuses_every_change_and_no_reading(tmp_path):
    (tmp_path / "file").write_bytes(b"1")
    fs = ReadOnlyFileSystem(LOCAL)
    changes = [
        lambda: fs.create(tmp_path / "new"),
        lambda: fs.make_folder(tmp_path / "folder"),
        lambda: fs.replace(tmp_path / "file", tmp_path / "other"),
        lambda: fs.remove(tmp_path / "file"),
        lambda: fs.sync_folder(tmp_path),
    ]
    for change in changes:
        with pytest.raises(OSError, match="Read-only") as refusal:
            change()
        assert refusal.value.errno == errno.EROFS
    fs.make_folder(tmp_path)
    assert fs.read_bytes(tmp_path / "file") == b"1"
    assert (fs.list(tmp_path), fs.size(tmp_path / "file"), fs.exists(tmp_path)) == (["file"], 1, True)


class Killed(BaseException):
    """Stands for the end of the process."""


def killing(**counts: int) -> KillingFileSystem:
    def kill() -> None:
        raise Killed

    fs = KillingFileSystem(LOCAL, kill=kill)
    fs.arm(**counts)
    return fs


@pytest.mark.parametrize("after", [0, 1, 4, 5])
def test_a_kill_comes_in_the_middle_of_the_write_that_passes_the_count(tmp_path, after):
    file = killing(after_bytes=after).create(tmp_path / "file")
    writes = (file.write(b"12") for _ in range(3))
    with pytest.raises(Killed):
        list(writes)
    file.close()
    assert (tmp_path / "file").read_bytes() == b"121212"[:after]


def test_a_kill_comes_before_the_change_that_passes_the_count(tmp_path):
    fs: FileSystem = killing(after_changes=2)
    fs.make_folder(tmp_path / "one")
    fs.make_folder(tmp_path / "two")
    with pytest.raises(Killed):
        fs.make_folder(tmp_path / "three")
    assert LOCAL.list(tmp_path) == ["one", "two"]


def test_a_kill_that_is_not_armed_or_disarmed_never_comes(tmp_path):
    fs = killing()
    write_bytes_atomic(fs, tmp_path / "file", b"1")
    fs.arm(after_bytes=1)
    fs.arm()
    write_bytes_atomic(fs, tmp_path / "file", b"12345")
    with pytest.raises(ValueError, match="negative"):
        fs.arm(after_bytes=-1)

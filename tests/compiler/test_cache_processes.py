"""Processes that share a cache: one compiles and the others wait; a dead one neither blocks nor leaves an answer."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from twintrack.clock import SystemClock
from twintrack.compiler.cache import CacheKey, CompileCache, Hit, Miss
from twintrack.storage import FileLock, LocalFileSystem

pytestmark = pytest.mark.slow

PRELUDE = """
import os, signal, sys
from pathlib import Path
from twintrack.clock import SystemClock
from twintrack.compiler.cache import CacheKey, CompileCache, Hit, Miss
from twintrack.storage import KillingFileSystem, LocalFileSystem

ROOT = Path(sys.argv[1])

def open_cache(fs=LocalFileSystem()):
    return CompileCache(ROOT / "programs", fs, SystemClock(), max_bytes=1 << 20)

def key_of(number):
    return CacheKey("gradients", {"number": str(number)})

def told():
    print("ready", flush=True)
    sys.stdin.readline()
"""

SHARE = """
cache = open_cache()
log = os.open(ROOT / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
told()
for number in range(6):
    key = key_of(number)
    with cache.lock(key):
        found = cache.get(key)
        if isinstance(found, Miss):
            os.write(log, f"{number}\\n".encode())
            for piece in range(5):  # takes long enough for another process to come by
                path = ROOT / f"work-{os.getpid()}"
                path.write_bytes(bytes(piece))
                os.fsync(os.open(path, os.O_RDONLY))
            cache.put(key, str(number).encode() * 100, {})
        assert cache.get(key) == Hit(str(number).encode() * 100, {})
"""

HOLD = """
cache = open_cache()
with cache.lock(key_of(1)):
    told()
    cache.put(key_of(1), b"program", {})
"""

KILL_IN_PUT = """
old, new = key_of(0), key_of(1)
open_cache().put(old, b"old", {})

def dies(**when):
    child = os.fork()
    if child == 0:
        fs = KillingFileSystem(LocalFileSystem())
        cache = open_cache(fs)
        with cache.lock(new):
            fs.arm(**when)
            cache.put(new, b"new program" * 100, {"n": 1})
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL), status
    cache = open_cache()
    kinds = {problem.kind for problem in cache.verify()}
    assert kinds <= {"debris"}, kinds
    with cache.lock(new):
        found = cache.get(new)
    whole = Hit(b"new program" * 100, {"n": 1})
    assert isinstance(found, Miss) or found == whole, found
    assert status != 0 or found == whole
    assert cache.get(old) == Hit(b"old", {})
    if isinstance(found, Miss):
        cache.prune()
        cache.put(new, b"new program" * 100, {"n": 1})
        assert cache.get(new) == whole
    cache.prune(older_than=-1e9)
    cache.put(old, b"old", {})
    assert cache.verify() == []
    return status != 0

changes = 0
while dies(after_changes=changes):
    changes += 1
pieces = sum(dies(after_bytes=count) for count in (0, 1, 500, 1099, 1100, 1101, 1200, 1300))
print(changes, pieces)
"""


def start(script: str, folder: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + script, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def key_of(number: int) -> CacheKey:
    return CacheKey("gradients", {"number": str(number)})


def cache_in(folder: Path) -> CompileCache:
    return CompileCache(folder / "programs", LocalFileSystem(), SystemClock(), max_bytes=1 << 20)


def test_of_several_processes_exactly_one_compiles_each_program(tmp_path):
    processes = [start(SHARE, tmp_path) for _ in range(4)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    assert sorted((tmp_path / "log").read_text().split()) == ["0", "1", "2", "3", "4", "5"]
    assert cache_in(tmp_path).verify() == []


def test_a_process_killed_inside_the_lock_blocks_nobody_and_leaves_no_answer(tmp_path):
    process = start(HOLD, tmp_path)
    assert process.stdout.readline() == "ready\n"
    cache = cache_in(tmp_path)
    lock = FileLock(cache.root / "locks" / f"{key_of(1).digest}.lock")
    assert not lock.acquire(wait=False), "the other process holds it"
    cache.prune(everything=True)
    assert not lock.acquire(wait=False), "a lock that is held is not pruned"
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    with cache.lock(key_of(1)):
        assert cache.get(key_of(1)) == Miss("no entry for program 'gradients'")
        cache.put(key_of(1), b"mine", {})
    assert cache.get(key_of(1)) == Hit(b"mine", {})


def test_a_waiter_whose_lock_file_was_pruned_takes_the_new_one(tmp_path):
    """A lock on a file without a name keeps nobody out, so it is not taken for one."""
    cache = cache_in(tmp_path)
    with cache.lock(key_of(1)):
        pass
    path = cache.root / "locks" / f"{key_of(1).digest}.lock"

    class Removed(FileLock):
        """Loses its file once, between opening and locking, as to a pruner."""

        times = 0

        def acquire(self, *, wait: bool = True) -> bool:
            taken = super().acquire(wait=wait)
            if Removed.times == 0:
                path.unlink()
            Removed.times += 1
            return taken

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("twintrack.compiler.cache.FileLock", Removed)
        with cache.lock(key_of(1)):
            assert path.exists()
            assert not FileLock(path).acquire(wait=False)
    assert Removed.times == 2


def test_kill_minus_nine_at_every_point_of_a_put_leaves_the_old_the_new_or_a_miss(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + KILL_IN_PUT, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    changes, pieces = map(int, done.stdout.split())
    assert changes >= 9, "two files opened, synced, renamed, their folders synced, and the use recorded"
    assert pieces >= 6

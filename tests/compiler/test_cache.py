"""The compile cache gives back exactly what was put, says why it cannot, and stays within its size."""

import json
import os
from pathlib import Path

import pytest

from twintrack.compiler.cache import (
    CacheKey,
    CompileCache,
    Hit,
    Miss,
    default_cache_root,
    programs_folder,
)
from twintrack.errors import CacheError, StorageError
from twintrack.storage import FullFileSystem, LocalFileSystem, ReadOnlyFileSystem, digest_bytes

LOCAL = LocalFileSystem()
PARTS = {
    "model source": "llama 5.24",
    "model configuration": "{layers: 2}",
    "shapes": "2x128",
    "dtypes": "bf16",
    "rounding": "nearest-even",
    "optimizer constants": "beta 0.9",
    "flags": "allow_host=False",
    "versions": "torch 2.13",
}
KEY = CacheKey("gradients", PARTS)


class FakeClock:
    def __init__(self):
        self.time = 1_700_000_000.0

    def now(self):
        self.time += 1.0
        return self.time

    def monotonic(self):
        return self.time


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def cache(tmp_path, clock):
    return CompileCache(tmp_path / "programs", LOCAL, clock, max_bytes=1 << 20)


def key_of(number: int, program: str = "gradients") -> CacheKey:
    return CacheKey(program, PARTS | {"shapes": f"{number}x128"})


def files(cache: CompileCache) -> list[str]:
    return sorted(str(p.relative_to(cache.root)) for p in cache.root.rglob("*") if p.is_file())


def record_file(cache: CompileCache, key: CacheKey = KEY) -> Path:
    return cache.root / "entries" / f"{key.digest}.json"


def payload_file(cache: CompileCache, payload: bytes) -> Path:
    return cache.root / "payloads" / digest_bytes(payload)


@pytest.mark.parametrize("payload", [b"", b"\x00\xff" * 500, b'{"ir": 1}'])
def test_what_was_put_comes_back(cache, payload):
    meta = {"capture_seconds": 1.25, "nested": {"a": [1, None, "ü"]}}
    cache.put(KEY, payload, meta)
    assert cache.get(KEY) == Hit(payload, meta)
    assert cache.get(CacheKey("gradients", dict(reversed(PARTS.items())))) == Hit(payload, meta)


def test_an_empty_cache_misses_and_nothing_is_written_for_it(cache):
    assert cache.get(KEY) == Miss("no entry for program 'gradients'")
    assert cache.entries() == []
    assert cache.verify() == []
    assert cache.prune(everything=True).freed_bytes == 0
    assert not cache.root.exists()


@pytest.mark.parametrize("name", PARTS)
def test_a_part_that_differs_is_a_miss_that_names_exactly_it(cache, name):
    cache.put(KEY, b"program", {})
    found = cache.get(CacheKey("gradients", PARTS | {name: "changed"}))
    assert found == Miss(f"{name}: was {PARTS[name]}, is changed", (name,))
    assert isinstance(cache.get(KEY), Hit)


def test_a_part_that_is_missing_or_new_is_a_miss(cache):
    cache.put(KEY, b"program", {})
    less = {name: text for name, text in PARTS.items() if name != "flags"}
    assert cache.get(CacheKey("gradients", less)).differing == ("flags",)
    more = cache.get(CacheKey("gradients", PARTS | {"new": "1"}))
    assert more.reason == "new: was absent, is 1"


def test_another_program_is_no_neighbour(cache):
    cache.put(KEY, b"program", {})
    assert cache.get(CacheKey("update", PARTS)) == Miss("no entry for program 'update'")


def test_a_miss_is_told_against_the_nearest_entry_of_equals_the_last_used(cache):
    far = PARTS | {"shapes": "9x9", "dtypes": "f32", "rounding": "stochastic"}
    cache.put(CacheKey("gradients", far), b"far", {})
    cache.put(key_of(1), b"one", {})
    cache.put(key_of(2), b"two", {})
    assert cache.get(key_of(3)).reason == "shapes: was 2x128, is 3x128"
    cache.get(key_of(1))
    assert cache.get(key_of(3)).reason == "shapes: was 1x128, is 3x128"
    almost_far = CacheKey("gradients", far | {"flags": "x"})
    assert cache.get(almost_far).reason == "flags: was allow_host=False, is x"


def test_equal_payloads_are_stored_once_and_stay_while_one_entry_has_them(cache):
    cache.put(key_of(1), b"same", {"n": 1})
    cache.put(key_of(2), b"same", {"n": 2})
    assert len(list((cache.root / "payloads").iterdir())) == 1
    cache.get(key_of(2))
    newest = max(entry.last_used for entry in cache.entries())
    cache.prune(older_than=cache._clock.time + 1 - newest)  # the clock moves on by one when it is read
    assert [entry.parts["shapes"] for entry in cache.entries()] == ["2x128"]
    assert cache.get(key_of(2)) == Hit(b"same", {"n": 2})
    assert isinstance(cache.get(key_of(1)), Miss)


def test_a_second_put_of_a_key_replaces_the_first(cache):
    cache.put(KEY, b"first", {"n": 1})
    cache.put(KEY, b"second", {"n": 2})
    assert cache.get(KEY) == Hit(b"second", {"n": 2})
    assert len(cache.entries()) == 1
    assert [problem.kind for problem in cache.verify()] == ["debris"]
    cache.prune()
    assert cache.verify() == []
    assert not payload_file(cache, b"first").exists()


@pytest.mark.parametrize("file", [record_file, lambda cache: payload_file(cache, b"program" * 40)])
def test_any_flipped_byte_is_found_named_and_never_used(cache, file):
    payload, meta = b"program" * 40, {"seconds": 1.5}
    cache.put(KEY, payload, meta)
    path = file(cache)
    whole = path.read_bytes()
    for position in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        assert [problem.kind for problem in cache.verify()][:1] == ["damaged"]
        found = cache.get(KEY)
        assert isinstance(found, Miss)
        assert found.reason.startswith("an entry of program 'gradients' was damaged and is removed: its ")
        assert not record_file(cache).exists()
        assert cache.get(KEY) == Miss("no entry for program 'gradients'"), "it is told once, then it is gone"
        cache.put(KEY, payload, meta)
        assert cache.get(KEY) == Hit(payload, meta), "a damaged payload is written again"


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda path: path.unlink(), "its payload is missing"),
        (lambda path: path.write_bytes(b"prog"), "its payload has 4 bytes, 7 were written"),
        (lambda path: path.write_bytes(b"program and more"), "larger than what was written"),
        (lambda path: (path.unlink(), path.mkdir()), "" ),
        (lambda path: (path.unlink(), path.symlink_to("/etc/hostname")), "a link that leads out of the cache"),
        (lambda path: (path.unlink(), path.symlink_to(path)), "" ),
    ],
)  # fmt: skip
def test_a_payload_that_is_not_what_was_written_is_a_miss_and_can_be_put_again(cache, harm, said):
    cache.put(KEY, b"program", {})
    harm(payload_file(cache, b"program"))
    assert said in cache.get(KEY).reason
    cache.put(KEY, b"program", {})
    assert cache.get(KEY) == Hit(b"program", {})
    assert not payload_file(cache, b"program").is_symlink()


def test_a_record_under_another_key_is_not_used(cache):
    cache.put(key_of(1), b"one", {})
    record_file(cache, key_of(1)).rename(record_file(cache, key_of(2)))
    assert "its record is of another key" in cache.get(key_of(2)).reason


def test_the_least_recently_used_go_and_never_the_one_just_written(tmp_path, clock):
    probe = CompileCache(tmp_path / "probe", LOCAL, clock, max_bytes=1 << 20)
    probe.put(key_of(0), bytes(1000), {})
    size = sum(path.stat().st_size for path in probe.root.rglob("*") if path.parent.name != "probe")
    cache = CompileCache(tmp_path / "programs", LOCAL, clock, max_bytes=3 * size)
    for number in (1, 2, 3):
        cache.put(key_of(number), bytes([number]) * 1000, {})
    assert len(cache.entries()) == 3
    assert isinstance(cache.get(key_of(1)), Hit), "used again, so number 2 is the oldest now"
    cache.put(key_of(4), bytes([4]) * 1000, {})
    assert [entry.parts["shapes"] for entry in cache.entries()] == ["3x128", "1x128", "4x128"]
    cache.put(key_of(5), bytes([5]) * (1000 + 2 * size), {})
    assert [entry.parts["shapes"] for entry in cache.entries()] == ["5x128"], "it alone fills the cache"
    assert files(cache) == sorted(
        [
            "store.lock",
            f"entries/{key_of(5).digest}.json",
            *(f"payloads/{e.payload_sha256}" for e in cache.entries()),
        ]
    )


def test_the_entry_just_written_stays_even_if_the_clock_went_back(tmp_path, clock):
    """Then the others seem to have been used later."""
    cache = CompileCache(tmp_path, LOCAL, clock, max_bytes=5000)
    cache.put(key_of(1), b"1" * 3000, {})
    clock.time -= 86_400
    cache.put(key_of(2), b"2" * 3000, {})
    assert [entry.parts["shapes"] for entry in cache.entries()] == ["2x128"]


def test_the_size_holds_debris_too_and_debris_goes_first(tmp_path, clock):
    cache = CompileCache(tmp_path, LOCAL, clock, max_bytes=10_000)
    cache.put(key_of(1), b"1" * 2000, {})
    (tmp_path / "payloads" / ".x.99.partial").write_bytes(bytes(9_000))
    cache.put(key_of(2), b"2" * 2000, {})
    assert len(cache.entries()) == 2
    assert cache.verify() == []


def test_an_entry_larger_than_the_cache_is_an_error_and_nothing_is_written(tmp_path, clock):
    cache = CompileCache(tmp_path / "programs", LOCAL, clock, max_bytes=1000)
    with pytest.raises(CacheError, match="fits into a compile cache of 1000 bytes") as refusal:
        cache.put(KEY, bytes(1000), {})
    assert "\n" not in str(refusal.value)
    assert not cache.root.exists()


def test_what_is_no_json_is_refused_before_anything_is_written(cache):
    for meta in ({"x": float("nan")}, {"x": object()}):
        with pytest.raises((ValueError, TypeError)):
            cache.put(KEY, b"program", meta)
    assert not cache.root.exists()


def test_a_failed_compilation_leaves_no_answer_and_no_lock(cache):
    def fail():
        with cache.lock(KEY):
            assert isinstance(cache.get(KEY), Miss)
            raise RuntimeError("cannot be compiled")

    with pytest.raises(RuntimeError, match="cannot be compiled"):
        fail()
    with cache.lock(KEY):
        assert isinstance(cache.get(KEY), Miss)


@pytest.mark.parametrize("free", [0, 3, 100])
def test_a_full_disk_is_one_clear_error_and_what_was_there_stays(cache, tmp_path, clock, free):
    cache.put(key_of(1), b"one", {})
    full = CompileCache(cache.root, FullFileSystem(LOCAL, free_bytes=free), clock, max_bytes=1 << 20)
    with pytest.raises(StorageError, match="space left"):
        full.put(KEY, b"program", {})
    assert isinstance(full.get(KEY), Miss)
    assert full.get(key_of(1)) == Hit(b"one", {}), "a hit needs no space"
    assert {problem.kind for problem in cache.verify()} <= {"debris"}


def test_a_read_only_disk_is_one_clear_error(cache, clock):
    with pytest.raises(StorageError, match="writable disk"):
        CompileCache(cache.root, ReadOnlyFileSystem(LOCAL), clock, max_bytes=1 << 20).put(KEY, b"program", {})


def test_a_file_where_the_folder_should_be_is_one_clear_error(tmp_path, clock):
    (tmp_path / "programs").write_text("")
    cache = CompileCache(tmp_path / "programs", LOCAL, clock, max_bytes=1 << 20)
    for use in (lambda: cache.get(KEY), lambda: cache.put(KEY, b"", {}), cache.verify):
        with pytest.raises(StorageError):
            use()


def test_prune_by_size_age_and_all(cache, clock):
    for number in (1, 2, 3, 4):
        cache.put(key_of(number), bytes([number]) * 1000, {})
        clock.time += 1000
    used = [entry.last_used for entry in cache.entries()]
    age = clock.time + 1 - (used[0] + used[1]) / 2
    assert [entry.parts["shapes"] for entry in cache.prune(older_than=age).entries] == ["1x128"]
    left = cache.entries()
    room = sum(entry.payload_bytes + entry.record_bytes for entry in left[1:])
    assert cache.prune(max_bytes=room).entries == (left[0],)
    assert cache.prune(max_bytes=room).entries == ()
    done = cache.prune(everything=True)
    assert done.entries == tuple(left[1:])
    assert done.freed_bytes == room
    assert files(cache) == ["store.lock"]


def test_prune_removes_damage_and_debris_and_leaves_what_is_not_ours(cache):
    cache.put(key_of(1), b"one", {})
    cache.put(key_of(2), b"two", {})
    with cache.lock(key_of(7)):
        pass  # as a compilation that failed
    payload_file(cache, b"two").write_bytes(b"TWO")
    ours = [
        cache.root / "entries" / f".{'a' * 64}.json.7.partial",
        cache.root / "payloads" / f".{'b' * 64}.7.partial",
        cache.root / "payloads" / ("c" * 64),
    ]
    theirs = [cache.root / "entries" / "notes.txt", cache.root / "payloads" / "x", cache.root / "README"]
    for path in ours + theirs:
        path.write_bytes(b"12345")
    kinds = sorted(problem.kind for problem in cache.verify())
    assert kinds == ["damaged", "debris", "debris", "debris", "debris", "foreign", "foreign"]
    done = cache.prune()
    assert {problem.path for problem in done.problems} == {
        *ours,
        record_file(cache, key_of(2)),
        payload_file(cache, b"two"),
    }
    assert done.entries == ()
    assert [problem.kind for problem in cache.verify()] == ["foreign", "foreign"]
    assert all(path.exists() for path in theirs)
    assert cache.get(key_of(1)) == Hit(b"one", {})
    assert list((cache.root / "locks").iterdir()) == []


def test_prune_leaves_a_lock_that_is_held_and_a_waiter_is_not_fooled_by_one_that_went(cache):
    with cache.lock(KEY):
        cache.prune(everything=True)
        assert (cache.root / "locks" / f"{KEY.digest}.lock").exists()
    cache.prune(everything=True)
    with cache.lock(KEY):
        assert (cache.root / "locks" / f"{KEY.digest}.lock").exists()


def test_explain_tells_why_there_are_several_programs(cache):
    cache.put(key_of(1), b"one", {})
    cache.put(key_of(2), b"two", {})
    cache.put(CacheKey("update", PARTS), b"three", {})
    found = cache.explain("gradients")
    assert [entry.parts["shapes"] for entry in found.entries] == ["1x128", "2x128"]
    first, second = (found.reasons[entry.digest] for entry in found.entries)
    assert first == "the oldest entry of its program"
    assert second == f"beside {key_of(1).digest[:12]}: shapes: was 1x128, is 2x128"
    by_key = cache.explain(key_of(2).digest[:8].upper())
    assert by_key.entries == found.entries[1:]
    assert by_key.reasons == {key_of(2).digest: second}


@pytest.mark.parametrize("name", ["gradient", "zzz", "", key_of(1).digest[:5]])
def test_explain_of_an_unknown_name_is_one_line_that_offers_what_there_is(cache, name):
    with pytest.raises(CacheError, match="an empty cache"):
        cache.explain(name)
    cache.put(key_of(1), b"one", {})
    with pytest.raises(CacheError, match="programs gradients") as refusal:
        cache.explain(name)
    assert "\n" not in str(refusal.value)


def test_entries_are_readable_json_that_holds_no_program(cache):
    cache.put(KEY, b"program", {"seconds": 2})
    record = json.loads(record_file(cache).read_text())
    assert record["program"] == "gradients"
    assert record["parts"] == PARTS
    assert record["payload_sha256"] == digest_bytes(b"program")


def test_a_use_is_recorded_by_the_clock_that_was_passed_in(cache, clock):
    cache.put(KEY, b"program", {})
    before = cache.entries()[0]
    clock.time += 500
    cache.get(KEY)
    after = cache.entries()[0]
    assert after.created == before.created
    assert after.last_used == clock.time
    assert os.stat(record_file(cache)).st_mtime == clock.time


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"TWINTRACK_CACHE": "/a/b", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/a/b"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/twintrack"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/twintrack"),
        ({"TWINTRACK_CACHE": "", "XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache/twintrack"),
    ],
)
def test_the_default_folder_follows_the_environment(environ, expected):
    assert default_cache_root(environ) == Path(expected)
    assert programs_folder(Path(expected)) == Path(expected) / "programs"

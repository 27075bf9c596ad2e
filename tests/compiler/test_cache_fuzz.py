"""Whatever stands in the cache's files, a look at it ends in a hit, a miss with a reason, or one clear error."""

import json
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from twintrack.clock import SystemClock
from twintrack.compiler.cache import CacheKey, CompileCache, Hit, Miss
from twintrack.storage import LocalFileSystem, digest_json

KEY = CacheKey("gradients", {"shapes": "2x128", "versions": "1"})
PAYLOAD = b'{"ir": 1}'
META = {"seconds": 1.5, "list": [1, "a"]}

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = [
    "format",
    "program",
    "parts",
    "meta",
    "payload_sha256",
    "payload_bytes",
    "created",
    "record_sha256",
]


def check(harm) -> None:
    """Put an entry, harm its record file, and hold the cache to its promises."""
    with tempfile.TemporaryDirectory() as folder:
        cache = CompileCache(Path(folder), LocalFileSystem(), SystemClock(), max_bytes=1 << 20)
        cache.put(KEY, PAYLOAD, META)
        record = cache.root / "entries" / f"{KEY.digest}.json"
        whole = record.read_bytes()
        record.write_bytes(harm(whole))
        harmed = json_or_none(record.read_bytes()) != json.loads(whole)
        cache.entries()
        problems = cache.verify()
        found = cache.get(KEY)
        if harmed:
            assert problems[0].kind == "damaged"
            assert isinstance(found, Miss)
            assert "was damaged and is removed: " in found.reason
            assert "\n" not in found.reason
            assert isinstance(cache.get(CacheKey("gradients", {"shapes": "other"})), Miss)
        else:
            assert found == Hit(PAYLOAD, META)
        cache.prune()
        cache.put(KEY, PAYLOAD, META)
        assert cache.get(KEY) == Hit(PAYLOAD, META)
        assert cache.verify() == []


def json_or_none(data: bytes):
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_for_a_record(data):
    check(lambda _: data)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 600), st.integers(0, 600), st.binary(max_size=4))
def test_any_piece_of_a_record_replaced(start, length, piece):
    check(lambda whole: whole[:start] + piece + whole[start + length :])


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(FIELDS), values, st.booleans())
def test_any_value_for_a_field_even_with_a_fitting_digest(field, value, sealed):
    """A record that somebody sealed anew is still of another key, or without its payload, or malformed."""
    if sealed and field in ("meta", "created", "record_sha256"):
        return  # those may be anything that is well formed: they are not what the program depends on

    def harm(whole: bytes) -> bytes:
        record = json.loads(whole) | {field: value}
        if sealed:
            body = {name: content for name, content in record.items() if name != "record_sha256"}
            try:
                record["record_sha256"] = digest_json(body)
            except ValueError:
                record["record_sha256"] = "0" * 64
        return json.dumps(record).encode()

    check(harm)


def test_deep_nesting_is_damage_and_no_crash():
    for text in (b"[" * 100_000, b'{"meta":' * 100_000):
        check(lambda _, text=text: text)
    deep = b'{"a":' * 500 + b"1" + b"}" * 500
    check(lambda whole: whole.replace(b'"meta":{', b'"meta":{"deep":' + deep + b","))

"""A key is its named parts: each of them counts, and a difference is told in words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twintrack.compiler.cachekey import CacheKey, differing_parts, explain_difference

PARTS = {
    "model source": "llama 5.24",
    "model configuration": "{layers: 2}",
    "shapes": "2x128",
    "dtypes": "bf16",
    "rounding": "nearest-even",
    "optimizer constants": "beta 0.9",
    "flags": "",
    "versions": "torch 2.13",
}
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
parts = st.dictionaries(texts.filter(bool), texts, max_size=4)


@pytest.mark.parametrize("name", PARTS)
def test_every_part_counts(name):
    key, other = CacheKey("f", PARTS), CacheKey("f", PARTS | {name: "changed"})
    assert key.digest != other.digest
    assert key != other
    assert differing_parts(key.parts, other.parts) == (name,)


@given(st.tuples(texts.filter(bool), parts), st.tuples(texts.filter(bool), parts))
def test_digests_are_equal_exactly_where_program_and_parts_are(a, b):
    one, two = CacheKey(*a), CacheKey(*b)
    assert (one.digest == two.digest) == (a == b) == (one == two)


def test_the_order_of_parts_does_not_matter():
    assert CacheKey("f", PARTS) == CacheKey("f", dict(reversed(PARTS.items())))
    assert CacheKey("f", PARTS).digest == CacheKey("f", dict(reversed(PARTS.items()))).digest
    assert hash(CacheKey("f", PARTS)) == hash(CacheKey("f", dict(reversed(PARTS.items()))))


def test_a_digest_is_pinned():
    """A change of it would throw away every cache that users have: it must be deliberate."""
    assert CacheKey("f", {"b": "2", "a": "1"}).digest == (
        # printf '{"parts":{"a":"1","b":"2"},"program":"f"}' | sha256sum
        "d39d1d1168cf3743098faeeba33ad2f6efc7d2f8ef7af8e5bd3bc5113df1fd98"
    )


def test_a_long_part_is_kept_short_and_still_counts_to_its_last_character():
    text = "x" * 5000
    key = CacheKey("f", {"source": text + "a"})
    assert len(key.parts["source"]) < 200
    assert "5001 characters: xxx" in key.parts["source"]
    assert key != CacheKey("f", {"source": text + "b"})
    assert key == CacheKey("f", dict(key.parts)), "shortening twice is shortening once"


def test_a_key_cannot_be_changed_through_what_it_was_made_of():
    source = dict(PARTS)
    key = CacheKey("f", source)
    source["flags"] = "changed"
    assert key.parts["flags"] == ""
    with pytest.raises(TypeError):
        key.parts["flags"] = "changed"


@pytest.mark.parametrize(
    ("program", "named"), [("", {}), ("f", {"": "x"}), ("f", {"a": "\ud800"}), ("\ud800", {})]
)
def test_a_key_that_could_not_be_told_is_refused(program, named):
    with pytest.raises(ValueError, match=r"needs|surrogates"):
        CacheKey(program, named)


def test_differences_are_told_in_words():
    was = {"shapes": "2x128", "dtypes": "bf16", "old": "1"}
    now = {"dtypes": "bf16", "shapes": "2x256", "flags": ""}
    assert explain_difference(was, now) == (
        "shapes: was 2x128, is 2x256; flags: was absent, is empty; old: was 1, is absent"
    )


def test_of_long_texts_the_place_is_told_where_they_differ():
    was, now = "a" * 150 + "128" + "b" * 150, "a" * 150 + "256" + "b" * 150
    told = explain_difference({"x": was}, {"x": now})
    assert "aaa128bbb" in told
    assert "aaa256bbb" in told
    assert len(told) < 220
    assert "\n" not in explain_difference({"x": "1\n2"}, {"x": "3\n4"})


@given(parts, parts)
def test_parts_differ_exactly_where_they_are_unequal(was, now):
    differing = differing_parts(was, now)
    assert set(differing) == {n for n in {*was, *now} if was.get(n) != now.get(n)}
    assert (explain_difference(was, now) == "") == (was == now)

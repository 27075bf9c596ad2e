"""Programs are counted once each, by what made them necessary, and too many are an error that says so."""

import pytest

from twintrack.compiler.cachekey import CacheKey
from twintrack.compiler.recompile import RecompileCounter, RecompilePolicy, Recompiles
from twintrack.errors import RecompileLimit

PARTS = {"shapes": "2x128", "dtypes": "bf16", "rounding": "nearest-even"}


def key_of(program="gradients", **parts):
    return CacheKey(program, PARTS | parts)


def test_programs_are_counted_by_reason_and_by_when():
    counter = RecompileCounter(RecompilePolicy())
    assert counter.record(key_of(), "warmup") == "first program"
    assert counter.record(key_of(shapes="2x256"), "warmup") == "shapes: was 2x128, is 2x256"
    assert counter.record(key_of("evaluate"), "first_use") == "first program"
    counter.record(key_of(shapes="2x512"), "later")
    counter.record(key_of(shapes="2x1024"), "later")
    counter.record(key_of(shapes="2x512", dtypes="f32"), "later")
    assert counter.counts() == {
        "gradients": Recompiles(
            warmup={"first program": 1, "shapes": 1}, first_use={}, later={"shapes": 2, "dtypes": 1}
        ),
        "evaluate": Recompiles(warmup={}, first_use={"first program": 1}, later={}),
    }
    assert counter.counts()["gradients"].programs == 5


def test_the_same_program_counts_once():
    counter = RecompileCounter(RecompilePolicy(limit=1))
    for _ in range(5):
        counter.record(key_of(), "later")
    assert counter.counts()["gradients"].programs == 1
    assert counter.record(key_of(), "later") == "known"


def test_more_programs_than_the_limit_are_an_error_that_names_function_limit_and_what_varied():
    counter = RecompileCounter(RecompilePolicy())
    for length in range(8):
        counter.record(key_of(shapes=f"2x{length}"), "warmup" if length < 2 else "later")
    for _ in range(2):
        with pytest.raises(RecompileLimit) as refusal:
            counter.record(key_of(shapes="2x99"), "later")
        text = str(refusal.value)
        assert "function 'gradients'" in text
        assert "at most 8 programs" in text
        assert "what varied: shapes (9 values);" in text
        assert "shapes: was 2x7, is 2x99" in text
        assert "dtypes" not in text
        assert refusal.value.exit_code == 2
    assert counter.counts()["gradients"].programs == 8, "the refused one is not counted"
    counter.record(key_of(shapes="2x3"), "later")
    counter.record(key_of("update", shapes="2x99"), "later")


def test_a_limit_below_one_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        RecompilePolicy(limit=0)

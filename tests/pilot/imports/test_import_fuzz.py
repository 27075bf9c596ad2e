"""Whatever is in a log, it becomes a run that can be summarised and shown, or one line: never a traceback."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from imported import FS, bring, csv_log, job_file

from twintrack.errors import UserError
from twintrack.pilot.imports import FORMATS, parse_columns
from twintrack.pilot.page import build_page
from twintrack.pilot.summary import read_summary, summary_json
from twintrack.report.html import render_page
from twintrack.storage import canonical_json

OLD = Path(__file__).parents[2] / "data" / "run-0.1.0" / "tracks" / "cpu" / "reference" / "events.jsonl"


def _old_events() -> bytes:
    """Events of 0.1.0 as those of the job that these tests import into."""
    with tempfile.TemporaryDirectory() as folder:
        ours = job_file(Path(folder)).digest
    data = OLD.read_bytes()
    theirs = json.loads(data.splitlines()[0])["job_digest"]
    return data.replace(theirs.encode(), ours.encode()).replace(b'"track": "cpu"', b'"track": "cuda"')


SEEDS = {
    "events": _old_events(),
    "trainer": json.dumps(
        {
            "log_history": [{"step": s, "loss": 2.0, "eval_loss": 1.0, "epoch": 1} for s in (1, 2, 3)],
            "logging_steps": 1,
        },
        indent=1,
    ).encode(),
    "metrics": csv_log(
        [(s, 2.0, 0.1, 1.0, 100 + s) for s in range(1, 4)], "step,loss,lr,seconds,time"
    ).encode(),
    "mlperf": b"".join(
        b':::MLLOG {"key": "%s", "value": %s, "time_ms": 1000, "metadata": {"samples_count": %d}}\n' % entry
        for entry in (
            (b"global_batch_size", b"4", 0),
            (b"train_loss", b"2.5", 4),
            (b"train_loss", b"2.25", 8),
        )
    ),
    "torchtune": b"Step 1 | loss:2.5 lr:0.1 \nStep 2 | loss:tensor(2.25) lr:0.1 grad_norm:1.0 \n",
    "neuronx": b"LOG Tue Oct 10 12:00:01 2023 - (0, 1) step_loss : 2.5 learning_rate : 1e-4 throughput : 5 seq/s\n",
    "megatron": b" [2025-06-01 12:00:01.5] iteration 1/ 3 | lm loss: 2.5E+00 | elapsed time per iteration (ms): 9 |\n",
}
NASTY = (
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"1e308",
    b"5e-324",
    b"-1",
    b"9" * 400,
    b"9" * 5000,
    b"[" * 2000,
    b"\xff\xfe",
    b"\x00",
)
NASTY += (
    b'{"a":' * 500,
    b"null",
    b"true",
    b'""',
    b"{}",
    b"[]",
    b"\r",
    b"|" * 300,
    b":" * 300,
    b"1_0",
    "٣".encode(),
)


def _survives(data: bytes, name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            made = bring(Path(folder), data, format=name)
        except UserError as error:
            told = str(error)
        else:
            told = ""
        assert "\n" not in told
        assert len(told) < 2000
        if told:
            return
        summary = read_summary(made.run.root, FS)
        canonical_json(summary_json(summary))  # raises if a number is not finite
        build_page(summary)


@st.composite
def _damaged(draw: st.DrawFn, seed: bytes) -> bytes:
    """A log with pieces cut out, said again, or replaced by what breaks readers."""
    data = seed
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 12)))
        piece = draw(st.sampled_from(NASTY) | st.binary(max_size=6) | st.just(data[start : start + 200]))
        data = data[:start] + piece + data[end:]
    return data


@st.composite
def _numbers_replaced(draw: st.DrawFn, seed: bytes) -> bytes:
    """A log in which one number is another."""
    places = list(re.finditer(rb"(?<![\w.])\d+(\.\d+)?([eE][-+]?\d+)?", seed))
    place = draw(st.sampled_from(places))
    number = draw(
        st.sampled_from(NASTY)
        | st.floats().map(lambda x: repr(x).encode())
        | st.integers().map(lambda x: b"%d" % x)
    )
    return seed[: place.start()] + number + seed[place.end() :]


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_damaged_log_becomes_a_run_or_one_line(name, data):
    seed = SEEDS[name]
    _survives(data.draw(_damaged(seed) | _numbers_replaced(seed)), data.draw(st.sampled_from((name, "auto"))))


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_is_found_and_survives_what_breaks_readers(name, tmp_path):
    assert bring(tmp_path, SEEDS[name]).imported.format == name
    for piece in NASTY:
        for text in (piece, SEEDS[name] + piece, SEEDS[name].replace(b"2.5", piece).replace(b"2.0", piece)):
            _survives(text, name)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200), st.sampled_from(["auto", *FORMATS]))
def test_any_bytes_become_a_run_or_one_line(data, name):
    _survives(data, name)


def test_a_run_from_a_hostile_log_makes_a_page(tmp_path):
    """Text of the log reaches the page escaped."""
    made = bring(tmp_path, csv_log([(1, 2.0, 0.1)], "step,loss,<script>alert(1)</script>"), steps=1)

    assert "<script>alert(1)" not in render_page(build_page(read_summary(made.run.root, FS)))


@given(st.text(max_size=30))
def test_any_word_for_columns_is_read_or_one_line(word):
    told = ""
    try:
        parse_columns([word])
    except UserError as error:
        told = str(error)
    assert "\n" not in told


def test_columns_are_named_once_and_known():
    assert parse_columns(["loss=train/loss,step=n", "time=t"]) == {
        "loss": "train/loss",
        "step": "n",
        "time": "t",
    }
    for wrong in ("loss", "loss=", "los=x", "loss=a,loss=b"):
        with pytest.raises(UserError, match="--columns"):
            parse_columns([wrong])

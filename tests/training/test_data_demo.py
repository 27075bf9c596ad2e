"""The demo's inputs: text chosen by the stated rules, the same everywhere, and a job that reads it."""

import importlib.util
import json
from pathlib import Path

import pytest

from twintrack.job.load import load_job
from twintrack.training.data.read import read_samples, samples_of

PILOT = Path(__file__).resolve().parents[2] / "examples" / "pilot"
needs_corpus = pytest.mark.skipif(
    importlib.util.find_spec("chatterbot_corpus") is None, reason="chatterbot-corpus is not installed"
)
pytest.importorskip("yaml", reason="the extra 'demo' is not installed")


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("pilot_prepare", PILOT / "prepare.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def written(script, tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "data"
    assert script.main([str(folder)]) == 0
    return folder


def records(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def write_yaml(path, *entries):
    path.write_text(json.dumps({"categories": ["x"], "conversations": entries}))  # JSON is YAML
    return path


def test_questions_become_pairs_and_dialogues_become_turns(script, tmp_path):
    food = write_yaml(tmp_path / "food.yml", ["q", "a1", " a2\n"])
    talk = write_yaml(tmp_path / "conversations.yml", ["u1", "a1", "u2", "a2", "left over"])
    trivia = write_yaml(tmp_path / "trivia.yml", list("In a game of bingo"), ["Which year?", "1984"])
    assert list(script.read_samples(food)) == [("food", ("q", "a1")), ("food", ("q", "a2"))]
    assert list(script.read_samples(talk)) == [("conversations", ("u1", "a1", "u2", "a2"))]
    assert list(script.read_samples(trivia)) == [("trivia", ("Which year?", "1984"))]


@pytest.mark.parametrize(
    ("turns", "good"),
    [
        (("Who are you?", "A robot."), True),
        (("Who are you?", "who are  you?"), False),
        (("tell me about venus", "what is venus?"), False),
        (("how far is the sun", "it"), False),
        (("how many", "7"), True),
        (("Can you mate", "No."), False),
        (("write a map", "```\nnumbers =\nprint(1)\n```"), False),
        (("write a map", "```\nnumbers = [1]\nprint(1)\n```"), True),
        (("", "hello there"), False),
    ],
)
def test_what_is_dropped(script, turns, good):
    assert script.is_good(script.Sample("ai", turns), frozenset({"what is venus"})) is good


@needs_corpus
def test_the_files_are_the_same_every_time_and_read_as_the_job_says(script, written, tmp_path):
    assert script.main([str(tmp_path)]) == 0
    for name in ("train.jsonl", "evaluation.jsonl", "ATTRIBUTION.md"):
        assert (tmp_path / name).read_bytes() == (written / name).read_bytes()
    job = load_job(PILOT / "job.toml").job
    names = (*job.data.files, *job.data.evaluation_files)
    assert names == ("data/train.jsonl", "data/evaluation.jsonl")
    table = read_samples(names, written.parent, template=job.data.template, slice_field=job.data.slice_field)
    samples = list(samples_of(table))
    assert len(samples) > 800
    assert all(len(sample.messages) % 2 == 0 for sample in samples)


@needs_corpus
def test_no_prompt_is_in_both_files_and_nothing_comes_twice(written):
    def key(record):
        return tuple(" ".join(m["content"].casefold().split()) for m in record["messages"])

    train, held = records(written / "train.jsonl"), records(written / "evaluation.jsonl")
    assert not {key(record)[0] for record in train} & {key(record)[0] for record in held}
    assert len({key(record) for record in train + held}) == len(train + held)
    slices = {record["slice"] for record in held}
    assert slices < {record["slice"] for record in train}, "a slice is evaluated that is never trained"
    assert len(slices) >= 10
    assert not slices & {"gossip", "politics", "psychology"}


@needs_corpus
def test_the_attribution_names_author_version_and_licence(written):
    text = (written / "ATTRIBUTION.md").read_text()
    for part in ("chatterbot-corpus", "1.3.3", "Gunther Cox", "BSD", "github.com/gunthercox"):
        assert part in text


def test_without_the_corpus_one_line_says_what_to_install(script, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(script, "PACKAGE", "no_such_package_here")
    assert script.main([str(tmp_path)]) == 2
    assert "pip install --no-deps chatterbot-corpus" in capsys.readouterr().err


def test_the_job_stops_at_steps_that_prove_something():
    """The kill falls between checkpoints, so that steps are repeated; the write that is cut is a scheduled one."""
    job = load_job(PILOT / "job.toml").job
    stops = {stop.kind: stop.step for stop in job.stops}
    every = job.checkpoint.every_steps
    assert stops.keys() == {"polite", "kill", "kill-in-write"}
    assert all(step < job.stop.steps for step in stops.values())
    assert stops["kill"] % every != 0
    assert stops["kill-in-write"] % every == 0
    assert [slot.use for slot in job.tracks] == [("cuda", "cpu"), ("neuron", "trn2")]

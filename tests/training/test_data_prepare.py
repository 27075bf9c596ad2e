"""From files to rows: what carries loss, what is held out, what the digest covers."""

import json
import shutil
from pathlib import Path

import pytest

from tiny_llama import CHAT_TEMPLATE, END, tiny_tokenizer
from twintrack.errors import DataError
from twintrack.job.records import Data
from twintrack.training.data import prepare
from twintrack.training.data.encode import Encoder
from twintrack.training.data.prepare import tokenizer_digest
from twintrack.training.data.read import Message, Sample
from twintrack.training.data.rows import IGNORED

RECORDED_TRAIN = [("d:8", "d:4", "d:3", "d:6"), ("d:7", "d:1")]
RECORDED_EVALUATION = [("d:2", "d:5")]


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


def write_jsonl(path: Path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def chat(*turns, **more):
    roles = ("user", "assistant")
    return {
        "messages": [{"role": roles[i % 2], "content": turn} for i, turn in enumerate(turns)],
        **more,
    }


def chats(count, **more):
    return [chat(f"what is {n}", f"it is {n}", slice="ab"[n % 2], **more) for n in range(count)]


def learned(tokenizer, encoded):
    """Text of the tokens that carry loss."""
    return tokenizer.decode([i for i, learn in zip(encoded.input_ids, encoded.loss, strict=True) if learn])


def data(*files, **more):
    return Data(files=files or ("d.jsonl",), **{"sequence_length": 64, **more})


def conversation(*turns):
    messages = tuple(Message(turn["role"], turn["content"]) for turn in chat(*turns)["messages"])
    return Sample("s:1", "s.jsonl:1", "all", messages=messages)


def test_only_the_assistants_turns_and_their_end_marks_carry_loss(tokenizer):
    sample = conversation("who are you", "a robot", "do you eat", "I do not. Ä 漢")
    encoded = Encoder(data(), tokenizer)(sample)
    assert learned(tokenizer, encoded) == f"a robot{END}I do not. Ä 漢{END}"
    whole = tokenizer.apply_chat_template(
        [{"role": m.role, "content": m.content} for m in sample.messages], tokenize=False
    )
    assert list(encoded.input_ids) == tokenizer(whole)["input_ids"]


def test_loss_on_all_covers_the_users_turns_too(tokenizer):
    encoded = Encoder(data(loss_on="all"), tokenizer)(conversation("who are you", "a robot"))
    assert all(encoded.loss)


def test_a_template_without_end_marks_learns_its_line_ends(tokenizer):
    """Where a turn ends with a line break and nothing else, the line break is what stops an answer."""
    plain = tiny_tokenizer()
    plain.chat_template = (
        "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '\\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
    )
    encoded = Encoder(data(), plain)(conversation("who are you", "a robot"))
    assert learned(plain, encoded) == " a robot\n"  # the token " a" reaches from the prompt into the answer


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (CHAT_TEMPLATE.replace("m['content']", "(m['content'] if loop.last else 'gone')"), "grows by each"),
        ("{{ messages|length }}" + CHAT_TEMPLATE, "grows by each"),
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ messages[99].content }}", "template takes"),
    ],
)
def test_a_template_that_breaks_the_rule_is_an_error_not_a_guess(template, message):
    """Such as templates that drop the reasoning of earlier turns."""
    odd = tiny_tokenizer()
    odd.chat_template = template
    with pytest.raises(DataError, match=rf"s\.jsonl:1.*{message}"):
        Encoder(data(), odd)(conversation("who are you", "a robot", "who", "I"))


def test_prompt_and_response_are_joined_and_the_response_is_learned(tokenizer):
    record = data(template="prompt", prompt_format="Q: {prompt}\nA: ")
    encoded = Encoder(record, tokenizer)(Sample("s:1", "w", "all", prompt="2+2", response="4"))
    assert tokenizer.decode(encoded.input_ids) == f"Q: 2+2\nA: 4{END}"
    assert learned(tokenizer, encoded) == f"4{END}"


def test_plain_text_is_learned_whole_and_closed_by_the_end_token(tmp_path, tokenizer):
    (tmp_path / "d.txt").write_text("what is\n\n  \nthe name\nof the robot\n")
    prepared = prepare(
        data("d.txt", template="text", packing=False, evaluation_fraction=0.4),
        tmp_path,
        tokenizer,
        seed=1,
        pad_id=0,
    )
    rows = {row.sample_ids[0]: row for row in prepared.train + prepared.evaluation}
    assert sorted(rows) == ["d:1", "d:4", "d:5"]
    row = rows["d:4"]
    assert tokenizer.decode(row.input_ids[: row.tokens]) == f"the name{END}"
    assert row.labels[: row.tokens - 1].tolist() == row.input_ids[1 : row.tokens].tolist()
    assert row.labels[row.tokens - 1] == IGNORED


def test_three_formats_of_the_same_samples_give_the_same_rows(tmp_path, tokenizer):
    import datasets

    texts = [
        "2020-01-01 00:00:00",
        "what is the",
        "123",
        "robot",
    ]  # the first looks like a date and must not be
    (tmp_path / "d.txt").write_text("\n".join(texts))
    write_jsonl(tmp_path / "d.jsonl", [{"text": text} for text in texts])
    datasets.Dataset.from_dict({"text": texts, "other": [1, 2, 3, 4]}).to_parquet(str(tmp_path / "d.parquet"))
    rows = []
    for name in ("d.txt", "d.jsonl", "d.parquet"):
        record = data(name, template="text", evaluation_fraction=0.25, packing=False)
        prepared = prepare(record, tmp_path, tokenizer, seed=0, pad_id=0)
        rows.append(
            [(row.sample_ids, row.input_ids.tolist()) for row in prepared.train + prepared.evaluation]
        )
    assert rows[0] == rows[1] == rows[2]
    assert len(rows[0]) == 4


def test_parquet_conversations_are_read(tmp_path, tokenizer):
    import datasets

    datasets.Dataset.from_list(chats(6)).to_parquet(str(tmp_path / "d.parquet"))
    write_jsonl(tmp_path / "d.jsonl", chats(6))
    one, two = (
        prepare(data(name, evaluation_fraction=0.34), tmp_path, tokenizer, seed=0, pad_id=0)
        for name in ("d.parquet", "d.jsonl")
    )
    assert [row.input_ids.tolist() for row in one.train] == [row.input_ids.tolist() for row in two.train]


def test_held_out_samples_are_apart_chosen_by_the_seed_and_keep_their_slices(tmp_path, tokenizer):
    write_jsonl(tmp_path / "d.jsonl", chats(40))
    choices = set()
    for seed in range(4):
        prepared = prepare(data(evaluation_fraction=0.25), tmp_path, tokenizer, seed=seed, pad_id=0)
        train = [name for row in prepared.train for name in row.sample_ids]
        held = [name for row in prepared.evaluation for name in row.sample_ids]
        assert (len(train), len(held)) == (prepared.counts.train_samples, prepared.counts.evaluation_samples)
        assert len(held) == 10
        assert sorted(train + held) == sorted(f"d:{line}" for line in range(1, 41))
        slices = {
            name: kind
            for row in prepared.train + prepared.evaluation
            for name, kind in zip(row.sample_ids, row.slices, strict=True)
        }
        assert all(kind == "ba"[int(name.split(":")[1]) % 2] for name, kind in slices.items())
        choices.add(tuple(held))
    assert len(choices) == 4


def test_the_same_seed_gives_the_same_rows_recorded_here(tmp_path, tokenizer):
    """Recorded once; it holds on every machine, Python and NumPy."""
    write_jsonl(tmp_path / "d.jsonl", chats(8))
    prepared = prepare(data(evaluation_fraction=0.25), tmp_path, tokenizer, seed=5, pad_id=0)
    again = prepare(data(evaluation_fraction=0.25), tmp_path, tokenizer, seed=5, pad_id=0)
    assert prepared.digest == again.digest
    assert [row.sample_ids for row in prepared.train] == RECORDED_TRAIN
    assert [row.sample_ids for row in prepared.evaluation] == RECORDED_EVALUATION


def test_evaluation_files_replace_the_share(tmp_path, tokenizer):
    write_jsonl(tmp_path / "d.jsonl", chats(5))
    write_jsonl(tmp_path / "e.jsonl", chats(3))
    prepared = prepare(data(evaluation_files=("e.jsonl",)), tmp_path, tokenizer, seed=0, pad_id=0)
    assert prepared.counts.train_samples == 5
    assert {name for row in prepared.evaluation for name in row.sample_ids} == {"e:1", "e:2", "e:3"}


def test_files_of_one_stem_keep_their_samples_apart(tmp_path, tokenizer):
    (tmp_path / "a").mkdir()
    write_jsonl(tmp_path / "d.jsonl", chats(2))
    write_jsonl(tmp_path / "a" / "d.jsonl", chats(2))
    prepared = prepare(
        data("d.jsonl", "a/d.jsonl", evaluation_fraction=0.25), tmp_path, tokenizer, seed=0, pad_id=0
    )
    names = [name for row in prepared.train + prepared.evaluation for name in row.sample_ids]
    assert sorted(names) == ["a/d.jsonl:1", "a/d.jsonl:2", "d.jsonl:1", "d.jsonl:2"]


def test_limit_takes_the_first_samples_over_files(tmp_path, tokenizer):
    write_jsonl(tmp_path / "d.jsonl", chats(3))
    (tmp_path / "e.jsonl").write_text(json.dumps(chat("who", "I")) + "\nnot JSON, and never looked at\n")
    record = data("d.jsonl", "e.jsonl", limit=4, evaluation_fraction=0.25)
    prepared = prepare(record, tmp_path, tokenizer, seed=0, pad_id=0)
    names = {name for row in prepared.train + prepared.evaluation for name in row.sample_ids}
    assert names == {"d:1", "d:2", "d:3", "e:1"}


def test_counts_say_what_was_cut(tmp_path, tokenizer):
    long = chat("who", "robot " * 30)
    write_jsonl(tmp_path / "d.jsonl", [*chats(6), long])
    write_jsonl(tmp_path / "e.jsonl", [chat("who", "I"), long])
    counts = {}
    for policy in ("truncate", "split"):
        record = data(evaluation_files=("e.jsonl",), too_long=policy, sequence_length=32)
        prepared = prepare(record, tmp_path, tokenizer, seed=0, pad_id=0)
        counts[policy] = prepared.counts
        assert prepared.counts.tokens == sum(row.tokens for row in prepared.train)
        assert prepared.counts.loss_tokens == sum(row.loss_tokens for row in prepared.train)
    assert (counts["truncate"].truncated, counts["truncate"].split) == (2, 0)
    assert (counts["split"].truncated, counts["split"].split) == (0, 2)
    assert counts["split"].loss_tokens > counts["truncate"].loss_tokens


def test_the_digest_covers_data_settings_seed_and_tokenizer(tmp_path, tokenizer):
    write_jsonl(tmp_path / "d.jsonl", chats(12))
    base = data(evaluation_fraction=0.25)

    def digest(record=base, folder=tmp_path, tok=tokenizer, seed=0, pad=0):
        return prepare(record, folder, tok, seed=seed, pad_id=pad).digest

    other_data = tmp_path / "other"
    other_data.mkdir()
    write_jsonl(other_data / "d.jsonl", [*chats(11), chat("what is 11", "it is 12", slice="b")])
    other_template = tiny_tokenizer()
    other_template.chat_template = CHAT_TEMPLATE.replace("<|user|>", "<|system|>")
    other_template.chat_template += "{# another #}"
    digests = [
        digest(),
        digest(seed=1),
        digest(folder=other_data),
        digest(tok=other_template),
        digest(pad=1),
        digest(base.model_copy(update={"packing": False})),
        digest(base.model_copy(update={"sequence_length": 65})),
        digest(base.model_copy(update={"loss_on": "all"})),
        digest(base.model_copy(update={"too_long": "split"})),
        digest(base.model_copy(update={"evaluation_fraction": 0.34})),
    ]
    assert len(set(digests)) == len(digests)
    moved = tmp_path / "moved"
    moved.mkdir()
    shutil.copy(tmp_path / "d.jsonl", moved)
    assert digest(folder=moved) == digests[0]
    assert tokenizer_digest(tokenizer) == tokenizer_digest(tiny_tokenizer())


def test_the_digest_covers_the_order_even_where_no_row_shows_it(tmp_path, tokenizer):
    """The sampler orders rows by the seed, so another seed is another run, though the rows are the same."""
    write_jsonl(tmp_path / "d.jsonl", chats(1))
    write_jsonl(tmp_path / "e.jsonl", chats(1))
    record = data(evaluation_files=("e.jsonl",))
    one, two = (prepare(record, tmp_path, tokenizer, seed=seed, pad_id=0) for seed in (0, 1))
    assert [row.input_ids.tolist() for row in one.train] == [row.input_ids.tolist() for row in two.train]
    assert one.digest != two.digest

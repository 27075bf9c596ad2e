"""Bad data: one line that names file and line, and nothing else."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tiny_llama import tiny_tokenizer
from twintrack.errors import DataError, TwintrackError
from twintrack.job.records import Data
from twintrack.training.data import prepare

GOOD = json.dumps({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})
TOKENIZER = tiny_tokenizer()


def run(folder: Path, name="d.jsonl", tokenizer=TOKENIZER, **more):
    record = Data(files=(name,), **{"sequence_length": 32, "evaluation_fraction": 0.5, **more})
    return prepare(record, folder, tokenizer, seed=0, pad_id=0)


def refused(folder, message, name="d.jsonl", **more):
    with pytest.raises(DataError, match=message) as caught:
        run(folder, name, **more)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def messages(*turns):
    return json.dumps({"messages": [{"role": role, "content": text} for role, text in turns]})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"d\.jsonl:2.*one JSON object per line"),
        ("[1]", r"d\.jsonl:2.*one JSON object.*found a list"),
        ('{"messages": NaN}', r"d\.jsonl:2.*NaN"),
        ("[" * 100_000, r"d\.jsonl:2.*one JSON object"),
        ("{}", r"d\.jsonl:2.*the field 'messages'.*found fields none"),
        ('{"mesages": []}', r"d\.jsonl:2.*the field 'messages'.*found fields mesages"),
        ('{"messages": []}', r"d\.jsonl:2.*a list of messages"),
        ('{"messages": "hi"}', r"d\.jsonl:2.*a list of messages.*a string"),
        ('{"messages": ["hi"]}', r"d\.jsonl:2: messages\[0\].*an object with role and content"),
        ('{"messages": [{"role": "user"}]}', r"messages\[0\].*the field 'content'"),
        (messages(("bot", "hi")), r"messages\[0\].*a role out of.*'bot'"),
        (messages(("user", 3)), r"messages\[0\].*content to be a string.*a number 3"),
        ('{"messages": [{"role": "user", "content": "x", "tool_calls": []}]}', r"the key 'tool_calls'"),
        (GOOD[:-1] + ', "slice": 3}', r"d\.jsonl:2.*slice to be a non-empty string"),
        (messages(("user", "hi")), r"d\.jsonl:2.*an assistant's message"),
        (messages(("user", "q" * 40), ("assistant", "a")), r"d\.jsonl:2.*at most 32 tokens.*4[0-9] tokens"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, message):
    (tmp_path / "d.jsonl").write_text(f"{GOOD}\n{line}\n{GOOD}\n")
    refused(tmp_path, message)


def test_bytes_that_are_no_text_are_named_with_line_and_column(tmp_path):
    (tmp_path / "d.jsonl").write_bytes(GOOD.encode() + b"\nab\xff\n")
    refused(tmp_path, r"d\.jsonl:2.*UTF-8.*0xff at column 3")


def test_missing_empty_and_unknown_files(tmp_path):
    (tmp_path / "chat.jsonl").write_text(GOOD)
    refused(
        tmp_path,
        r"chats\.jsonl: required a data file, found no such file; did you mean 'chat\.jsonl'",
        name="chats.jsonl",
    )
    refused(tmp_path, "no such file", name="nowhere/x.jsonl")
    for content in ("", "\n \n"):
        (tmp_path / "d.jsonl").write_text(content)
        refused(tmp_path, "an empty file")
    (tmp_path / "d.csv").write_text("a,b")
    refused(tmp_path, r"ends in \.jsonl, \.parquet, \.txt.*'\.csv'", name="d.csv")
    (tmp_path / "d.txt").write_text("hello")
    refused(tmp_path, "records for the template 'chat'", name="d.txt")
    (tmp_path / "folder.jsonl").mkdir()
    refused(tmp_path, "found a folder", name="folder.jsonl")


def test_bad_parquet(tmp_path):
    import datasets

    (tmp_path / "d.parquet").write_bytes(b"PAR1 but no more")
    refused(tmp_path, r"d\.parquet.*a readable Parquet file", name="d.parquet")
    datasets.Dataset.from_dict({"text": ["a", None, "c"]}).to_parquet(str(tmp_path / "d.parquet"))
    refused(tmp_path, r"d\.parquet: row 2.*the field 'text'", name="d.parquet", template="text")


@pytest.mark.parametrize(("fraction", "count"), [(0.0, 0), (0.1, 0), (0.9, 3)])
def test_both_parts_need_a_sample(tmp_path, fraction, count):
    (tmp_path / "d.jsonl").write_text(f"{GOOD}\n" * 3)
    refused(
        tmp_path, f"found 3 samples, of which a share of {fraction} is {count}", evaluation_fraction=fraction
    )


def test_data_in_which_truncation_leaves_nothing_to_learn(tmp_path):
    (tmp_path / "d.jsonl").write_text((messages(("user", "q" * 40), ("assistant", "a")) + "\n") * 2)
    refused(tmp_path, "training data with something to learn.*all labels masked", too_long="truncate")


def test_a_sample_with_all_labels_masked(tmp_path):
    endless = tiny_tokenizer()
    endless.eos_token = None
    (tmp_path / "d.txt").write_text("what is\nx\n")
    refused(tmp_path, r"d\.txt:2.*all labels masked", name="d.txt", template="text", tokenizer=endless)


def test_a_file_named_twice(tmp_path):
    (tmp_path / "d.jsonl").write_text(f"{GOOD}\n")
    refused(tmp_path, "each data file once", evaluation_files=("./d.jsonl",))


def test_tokenizers_and_formats_that_cannot_serve(tmp_path):
    (tmp_path / "d.jsonl").write_text(f"{GOOD}\n")
    plain = tiny_tokenizer()
    plain.chat_template = None
    refused(tmp_path, "a tokenizer with a chat template", tokenizer=plain)
    refused(tmp_path, r"'{prompt}' once", template="prompt", prompt_format="Q:")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["messages", "role", "content", "slice", "text"]), inner, max_size=3
        )
    ),
    max_leaves=12,
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(line=st.binary(max_size=60) | json_values.map(lambda value: json.dumps(value).encode()))
def test_no_line_whatever_leads_to_anything_but_rows_or_one_error_line(tmp_path, line):
    """Fuzz of the reader: bytes and JSON of the wrong shapes."""
    (tmp_path / "d.jsonl").write_bytes(f"{GOOD}\n{GOOD}\n".encode() + line)
    try:
        assert run(tmp_path).train
    except TwintrackError as error:
        assert "\n" not in str(error)  # noqa: PT017 - either outcome is right


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            r'{"messages": [{"role": "user", "content": "a\ud800"}]}',
            r"half a surrogate pair, \\ud800, at character 2",
        ),
        (r'{"messages": [{"role": "user", "content": "a"}], "slice": "\udfff"}', "half a surrogate pair"),
        ('{"messages": [{"role": "user", "content": null}]}', "found null"),
    ],
)
def test_text_that_no_file_can_hold_and_null_are_named_with_their_line(tmp_path, line, found):
    from tiny_llama import tiny_tokenizer
    from twintrack.job.records import Data
    from twintrack.training.data import prepare

    (tmp_path / "d.jsonl").write_text(line + "\n")
    with pytest.raises(DataError, match=found) as caught:
        prepare(Data(files=("d.jsonl",)), tmp_path, tiny_tokenizer(), seed=0, pad_id=0)
    assert "d.jsonl:1" in str(caught.value)

"""A job file becomes a job and the origin of every value, or one line that says what is wrong with it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from job_strategies import MINIMAL

from twintrack.errors import JobError
from twintrack.job.load import Origin, load_job
from twintrack.storage import LocalFileSystem


@pytest.fixture
def refused(tmp_path, monkeypatch):
    """The line with which a job file is refused; the file is ``job.toml`` in the current folder."""
    monkeypatch.chdir(tmp_path)

    def refuse(content: str | bytes) -> str:
        Path("job.toml").write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(JobError) as caught:
            load_job(Path("job.toml"))
        assert caught.value.exit_code == 2
        assert len(str(caught.value).splitlines()) == 1
        return str(caught.value)

    return refuse


def _with(old: str, new: str) -> str:
    assert MINIMAL.count(old) == 1, old
    return MINIMAL.replace(old, new)


def test_every_value_has_its_origin(tmp_path):
    """File and line for what the file gives, ``default`` for the rest, and nothing else."""
    path = tmp_path / "job.toml"
    path.write_text(MINIMAL)

    loaded = load_job(path)

    given = {name: origin.line for name, origin in loaded.origins.items() if not origin.is_default}
    assert given == {
        "name": 1,
        "model.source": 4,
        "data.files": 7,
        "stop.steps": 10,
        "tracks[0].use": 13,
        "tracks[1].use": 16,
    }
    assert str(loaded.origins["stop.steps"]) == f"{path}:10"
    assert loaded.origins["optimizer.learning_rate"] == Origin()
    assert str(loaded.origins["optimizer.learning_rate"]) == "default"
    assert loaded.origins["lora"].is_default
    assert (loaded.job.name, loaded.job.stop.steps, loaded.job.tracks[1].use) == ("small", 40, ("trn2",))
    assert (loaded.path, loaded.base) == (path, tmp_path)
    with pytest.raises(TypeError):
        loaded.origins["name"] = Origin()


def test_never_stands_for_no_clipping(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text(MINIMAL + '[optimizer]\nmax_gradient_norm = "never"\n')

    assert load_job(path).job.optimizer.max_gradient_norm is None


@pytest.mark.parametrize(
    ("content", "line"),
    [
        pytest.param(
            _with("steps = 40", 'steps = "40"'),
            "job.toml:10: stop.steps: required a whole number from 1 to 100,000,000, found the text '40'; "
            "write it without quotes",
            id="number in quotes",
        ),
        pytest.param(
            _with("steps = 40", "steps = 40.0"),
            "job.toml:10: stop.steps: required a whole number from 1 to 100,000,000, found 40.0; write 40",
            id="fraction",
        ),
        pytest.param(
            _with("steps = 40", "steps = -3"),
            "job.toml:10: stop.steps: required a whole number from 1 to 100,000,000, found -3; "
            "give such a value",
            id="negative",
        ),
        pytest.param(
            _with("steps = 40", "steps = true"),
            "job.toml:10: stop.steps: required a whole number from 1 to 100,000,000, found true; "
            "give such a value",
            id="truth value for a number",
        ),
        pytest.param(
            _with("steps = 40", "steps = 2026-01-31"),
            "job.toml:10: stop.steps: required a whole number from 1 to 100,000,000, "
            "found the date 2026-01-31; give such a value",
            id="date",
        ),
        pytest.param(
            _with('"small"', "07:30:00"),
            "job.toml:1: name: required text of at most 100 letters, digits, '.', '-' and '_', the first a "
            "letter or digit, found the time 07:30:00; write it in quotes",
            id="time",
        ),
        pytest.param(
            _with("steps = 40", "steps = 123456789012345678901234567890"),
            "job.toml:10: stop.steps: required a whole number of 64 bits, found a larger one; "
            "give a smaller number",
            id="beyond 64 bits",
        ),
        pytest.param(
            _with("steps = 40", "steps = 40\n[optimizer]\nlearning_rate = nan"),
            "job.toml:12: optimizer.learning_rate: required a number above 0, at most 10, found nan; "
            "give such a value, or leave the key out for the default, 0.0002",
            id="nan",
        ),
        pytest.param(
            _with("steps = 40", "steps = 40\n[optimizer]\nbeta1 = -inf"),
            "job.toml:12: optimizer.beta1: required a number of 0 or more, below 1, found -inf; "
            "give such a value, or leave the key out for the default, 0.9",
            id="infinite",
        ),
        pytest.param(
            _with("steps = 40", "steps = 40\n[optimizer]\nmax_gradient_norm = 0"),
            "job.toml:12: optimizer.max_gradient_norm: required a number above 0, at most 1e+12 or "
            '"never", found 0; give such a value, or leave the key out for the default, 1.0',
            id="zero norm",
        ),
        pytest.param(
            _with("steps = 40", "step = 40\n"),
            "job.toml:10: stop.step: required a key of [stop], found 'step'; did you mean 'steps'? "
            "or does it belong under [[stops]]? (and 1 more mistake in this file)",
            id="misspelt key",
        ),
        pytest.param(
            _with("[stop]", "[stpo]"),
            "job.toml:9: stpo: required a key of a job file, found 'stpo'; did you mean 'stop'? "
            "(and 1 more mistake in this file)",
            id="misspelt table",
        ),
        pytest.param(
            _with('source = "models/tiny"', 'source = "models/tiny"\nseed = 3'),
            "job.toml:5: model.seed: required a key of [model], found 'seed'; it belongs at the top",
            id="key of another table",
        ),
        pytest.param(
            _with('source = "models/tiny"', 'source = "models/tiny"\nqqq = 3'),
            "job.toml:5: model.qqq: required a key of [model], found 'qqq'; the keys here are source, "
            "revision",
            id="unlike any key",
        ),
        pytest.param(
            _with('source = "models/tiny"', ""),
            "job.toml:3: model.source: required text of 1 to 4096 characters without control characters, "
            "found none; add 'source = ...' under [model]; `twintrack init` writes a job with every key "
            "explained",
            id="missing key",
        ),
        pytest.param(
            _with("[stop]\nsteps = 40\n", ""),
            "job.toml: stop: required a table, found none; add a table [stop]; `twintrack init` writes a "
            "job with every key explained",
            id="missing table",
        ),
        pytest.param(
            _with('use = ["cpu"]', 'use = ["cuba"]'),
            'job.toml:13: tracks[0].use[0]: required one of "cpu", "cuda", "neuron", "trn2", found the text '
            "'cuba'; did you mean 'cuda'?",
            id="unknown track",
        ),
        pytest.param(
            _with('use = ["cpu"]', 'use = "cpu"'),
            'job.toml:13: tracks[0].use: required a list of at least one of "cpu", "cuda", "neuron", "trn2", '
            "found the text 'cpu'; write it in brackets, as in use = [\"cpu\"]",
            id="no list",
        ),
        pytest.param(
            _with('use = ["cpu"]', 'use = ["cpu"]\nlogical_cores = true'),
            "job.toml:14: tracks[0].logical_cores: required one of 1, 2, found true; give such a value, or "
            "leave the key out for the default, 2",
            id="truth value for a choice of numbers",
        ),
        pytest.param(
            _with('[[tracks]]\nuse = ["cpu"]\n\n[[tracks]]', "[tracks]"),
            "job.toml:12: tracks: required a list of at least one table, found a table; open each of the "
            "tables with [[tracks]]",
            id="one table for several",
        ),
        pytest.param(
            _with("[model]", "[[model]]"),
            "job.toml:3: model: required a table, found a list; open the table with [model]",
            id="several tables for one",
        ),
        pytest.param(
            _with('"train.jsonl"', r'"a\u0000b"'),
            "job.toml:7: data.files[0]: required text of 1 to 4096 characters without control characters, "
            "found the text 'a\\x00b'; give such a value",
            id="control character",
        ),
        pytest.param(
            _with('name = "small"', r'"na\nme" = "small"'),
            "job.toml:1: 'na\\nme': required a key of a job file, found 'na\\nme'; did you mean 'name'? "
            "(and 1 more mistake in this file)",
            id="key of two lines",
        ),
        pytest.param(
            MINIMAL + "[optimizer]\nbeta1 = 2\nbetta2 = 0.5\nepsilon = 0\n",
            "job.toml:19: optimizer.betta2: required a key of [optimizer], found 'betta2'; "
            "did you mean 'beta2'? (and 2 more mistakes in this file)",
            id="several: unknown keys first, others counted",
        ),
        pytest.param(
            MINIMAL + "[batch]\nmicro = 0\n[[stops]]\nkind = 'kill'\nstep = 40\n",
            "job.toml:18: batch.micro: required a whole number from 1 to 65,536, found 0; give such a value, "
            "or leave the key out for the default, 1",
            id="rules wait for values",
        ),
        pytest.param(
            MINIMAL + "[schedule]\nwarmup_steps = 40\n[[stops]]\nkind = 'kill'\nstep = 40\n",
            "job.toml:18: schedule.warmup_steps: required fewer warm-up steps than stop.steps = 40, "
            "found 40; warm up for less, or train for longer (and 1 more mistake in this file)",
            id="several broken rules",
        ),
        pytest.param(
            'name = "small"\nseed =\n',
            "job.toml:2: required TOML, found invalid value; mend the syntax, see https://toml.io/en/v1.0.0",
            id="no TOML",
        ),
        pytest.param(
            'name = "small"\n[data]\nfiles = [\n',
            "job.toml:3: required TOML, found invalid value; mend the syntax, see https://toml.io/en/v1.0.0",
            id="cut off",
        ),
        pytest.param(
            b'name = "small"\n# caf\xe9\n',
            "job.toml:2: required text in UTF-8, found the byte 0xe9; save the file as UTF-8",
            id="not UTF-8",
        ),
        pytest.param(
            b"\xef\xbb\xbf" + MINIMAL.encode(),
            "job.toml:1: required text in UTF-8, found a byte order mark; save the file as UTF-8 without one",
            id="byte order mark",
        ),
        pytest.param(
            " \n\t\n",
            "job.toml: required a job in TOML, found nothing in the file; `twintrack init` writes a job to "
            "start from",
            id="empty",
        ),
        pytest.param(
            "#" * (1 << 20) + "\n",
            "job.toml: required a job file of at most 1,048,576 bytes, found 1,048,577; name the job file; "
            "data are in files of their own",
            id="huge",
        ),
        pytest.param(
            "a = " + "[" * 17 + "]" * 17,
            "job.toml: required tables and lists nested at most 16 deep, found more; `twintrack init` shows "
            "the shape of a job",
            id="deep",
        ),
        pytest.param(
            "a = " + "9" * 5000,
            "job.toml: required TOML, found Exceeds the limit (4300 digits) for integer string conversion: "
            "value has 5000 digits; mend the syntax, see https://toml.io/en/v1.0.0",
            id="thousands of digits",
        ),
    ],
)
def test_a_mistake_is_told_in_one_line(refused, content, line):
    """File, line, key, what was required, what was found, what to do."""
    assert refused(content) == line


@pytest.mark.parametrize("text", ["[" * 100_000, "a = " + "{a = " * 50_000, ".".join("a" * 3000) + " = 1"])
def test_nesting_without_end_is_refused(refused, text):
    """Such texts exhaust the stack of whoever recurses over them."""
    assert "found" in refused(text)


def test_a_number_of_any_length_is_refused(refused):
    """Python reads hexadecimal numbers of any length, and cannot print them."""
    assert refused("seed = 0x" + "f" * 100_000).startswith("job.toml:1: seed: required a whole number of 64")


def test_a_long_value_is_cut(refused):
    line = refused(_with('"small"', f'"{"x " * 5000}"'))

    assert len(line) < 300


def test_a_missing_file_offers_the_nearest_name(refused, tmp_path):
    (tmp_path / "job.toml").write_text(MINIMAL)

    with pytest.raises(JobError) as caught:
        load_job(Path("jbo.toml"))

    assert str(caught.value) == "jbo.toml: required a job file, found no such file; did you mean 'job.toml'?"


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("folder", "folder: required a job file, found a folder; name a file inside it"),
        (
            "none/such.toml",
            "none/such.toml: required a job file, found no such file; check the path; `twintrack init` "
            "writes a job to start from",
        ),
        (
            "link.toml",
            "link.toml: required a readable job file, found Too many levels of symbolic links; "
            "check the path",
        ),
        ("nul\0", "nul\\x00: required a readable job file, found embedded null byte; check the path"),
        (
            "\x1b[31m\nx",
            "\\x1b[31m\\nx: required a job file, found no such file; check the path; `twintrack init` "
            "writes a job to start from",
        ),
    ],
)
def test_what_is_no_file_is_refused(tmp_path, monkeypatch, name, line):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.toml").symlink_to("link.toml")

    with pytest.raises(JobError) as caught:
        load_job(Path(name))

    assert str(caught.value) == line


class _ForbiddenFileSystem(LocalFileSystem):
    """Files can be seen and not read; tests run as root, whom no permission stops."""

    def read_bytes(self, path: Path) -> bytes:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def test_a_file_that_cannot_be_read_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("job.toml").write_text(MINIMAL)

    with pytest.raises(JobError) as caught:
        load_job(Path("job.toml"), fs=_ForbiddenFileSystem())

    assert str(caught.value) == (
        "job.toml: required a readable job file, found Permission denied; check the path"
    )

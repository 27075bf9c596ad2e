"""What ``qualify`` refuses, in words, and how early."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from twintrack.errors import ModelError
from twintrack.hardware import load_catalogue
from twintrack.job.load import load_job
from twintrack.pilot.qualify import Qualification, qualify
from twintrack.storage import LocalFileSystem

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "qualify" / "llama-3.1-8b"


def written(folder: Path, config: dict[str, object], length: int = 4096) -> Path:
    """The 8B example with changes to its configuration and the length of its rows."""
    values = json.loads((EXAMPLE / "model" / "config.json").read_text()) | config
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text(json.dumps(values))
    text = (EXAMPLE / "job.toml").read_text()
    assert "sequence_length = 4096" in text
    path = folder / "job.toml"
    path.write_text(text.replace("sequence_length = 4096", f"sequence_length = {length}"))
    return path


def examined(path: Path, **options: str) -> Qualification:
    loaded = load_job(path)
    return qualify(loaded.job, loaded.base, load_catalogue(), LocalFileSystem(), graph=False, **options)


@pytest.mark.parametrize(
    "key",
    ["num_attention_heads", "num_key_value_heads", "num_hidden_layers", "hidden_size", "intermediate_size"],
)
@pytest.mark.parametrize("value", [0, -8, 2.5, "8"])
def test_sizes_that_are_no_positive_whole_numbers_are_refused_by_name(key, value, tmp_path):
    with pytest.raises(ModelError, match=f"required a whole number from 1 for {key}, found {value!r}"):
        examined(written(tmp_path, {key: value}))


def test_rows_longer_than_the_model_are_refused_by_the_key(tmp_path):
    with pytest.raises(ModelError, match=r"data\.sequence_length: required at most the model's 131072"):
        examined(written(tmp_path, {}, length=1_000_000))


def test_a_model_of_more_layers_than_a_job_may_have_stages_is_searched(tmp_path):
    """8192 layers on 8192 stages would be no plan that a job can state (``parallel.pipeline`` ends at 1024)."""
    found = examined(written(tmp_path, {"num_hidden_layers": 8192}), track="trn2")

    (place,) = found.places
    assert place.verdict == "does not fit"
    assert all("8192" not in text for text in (place.change.settings if place.change else ()))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--track", "trn3"], "did you mean 'trn2'"),
        (["--instance", "trn2.48xlrge"], "trn2.48xlarge"),
        (["--track", "trn2", "--instance", "p5.48xlarge"], "--instance: required an instance for track trn2"),
    ],
)
def test_wrong_names_are_refused_before_pytorch_is_loaded(arguments, text):
    code = (
        "import sys; from twintrack.cli.group import group, run;"
        f"done = run(group, ['qualify', {str(EXAMPLE / 'job.toml')!r}, *{arguments!r}]);"
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules; sys.exit(done)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 2, done.stderr
    assert text in done.stderr
    assert len(done.stderr.splitlines()) == 1

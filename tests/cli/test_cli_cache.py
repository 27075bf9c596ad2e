"""``twintrack cache`` shows what is kept and why, finds damage, makes room, and ends as it promises."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner, Result

from twintrack.cli.cache import command
from twintrack.clock import SystemClock
from twintrack.compiler.cache import CacheKey, CompileCache, programs_folder
from twintrack.errors import CacheError
from twintrack.storage import LocalFileSystem

PARTS = {"shapes": "2x128", "rounding": "nearest-even"}


def call(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def document(*arguments: object) -> dict:
    return json.loads(call(*arguments, "--json").stdout)


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A cache folder with three programs, the one of the environment."""
    monkeypatch.setenv("TWINTRACK_CACHE", str(tmp_path))
    cache = CompileCache(programs_folder(tmp_path), LocalFileSystem(), SystemClock(), max_bytes=1 << 20)
    cache.put(CacheKey("gradients", PARTS), b"a" * 2000, {"capture_seconds": 1.5})
    cache.put(CacheKey("gradients", PARTS | {"shapes": "[bold]2x256"}), b"b" * 3000, {})
    cache.put(CacheKey("update", PARTS), b"c", {})
    return tmp_path


def damage(root):
    path = next(p for p in (root / "programs" / "payloads").iterdir() if p.stat().st_size == 2000)
    path.write_bytes(b"A" * 2000)
    return path


def test_list_shows_every_program_with_size_and_age(root):
    text = call("list").stdout
    assert text.count("gradients") == 2
    assert "just now" in text
    assert "3 programs, " in text
    assert " kB" in text
    found = document("list")
    assert [entry["program"] for entry in found["entries"]] == ["update", "gradients", "gradients"]
    assert found["bytes"] == sum(e["payload_bytes"] + e["record_bytes"] for e in found["entries"])


def test_list_of_an_empty_cache_says_so_and_makes_nothing(tmp_path):
    result = call("list", "--cache", tmp_path / "absent")
    assert result.exit_code == 0
    assert "0 programs, 0 B" in result.stdout
    assert not (tmp_path / "absent").exists()


def test_explain_shows_parts_and_why_there_are_two(root):
    text = call("explain", "gradients").stdout
    assert "the oldest entry of its program" in text
    assert "shapes: was 2x128, is [bold]2x256" in text
    assert "nearest-even" in text
    assert "capture_seconds" in text
    key = document("explain", "gradients")["entries"][1]["key"]
    (entry,) = document("explain", key[:10])["entries"]
    assert entry["parts"]["shapes"] == "[bold]2x256"
    assert "beside" in entry["reason"]


def test_explain_of_a_misspelt_program_offers_the_right_one(root):
    result = call("explain", "gradient")
    assert isinstance(result.exception, CacheError)
    assert "did you mean 'gradients'?" in str(result.exception)


def test_verify_of_a_whole_cache_says_so(root):
    result = call("verify")
    assert result.exit_code == 0
    assert "all programs are whole" in result.stdout
    assert document("verify")["problems"] == []


def test_verify_names_damage_and_fails_and_changes_nothing(root):
    path = damage(root)
    result = call("verify")
    assert isinstance(result.exception, CacheError)
    assert "1 damaged" in str(result.exception)
    assert "damaged: " in result.stdout
    assert "does not have the digest" in result.stdout
    assert path.exists()
    assert {p["kind"] for p in json.loads(call("verify", "--json").stdout)["problems"]} == {
        "damaged",
        "debris",
    }


def test_verify_names_debris_and_does_not_fail(root):
    (root / "programs" / "payloads" / ".x.1.partial").write_bytes(b"half")
    result = call("verify")
    assert result.exit_code == 0
    assert "debris: " in result.stdout


def test_prune_without_options_removes_damage_only(root):
    damage(root)
    found = document("prune")
    assert found["removed"] == []
    assert {problem["kind"] for problem in found["problems"]} == {"damaged", "debris"}
    assert found["freed_bytes"] > 2000
    assert len(document("list")["entries"]) == 2
    assert call("verify").exit_code == 0


@pytest.mark.parametrize(
    ("options", "left"),
    [
        (["--all"], 0),
        (["--max-size", "4.2kB"], 2),
        (["--max-size", "0"], 0),
        (["--max-size", "1 GiB"], 3),
        (["--older-than", "1h"], 3),
        (["--older-than", "0s"], 0),
    ],
)
def test_prune_makes_the_room_that_was_asked_for(root, options, left):
    result = call("prune", *options)
    assert result.exit_code == 0
    assert "freed, in" in result.stdout
    assert len(document("list")["entries"]) == left


@pytest.mark.parametrize("option", [["--max-size", "12parsec"], ["--max-size", "-1"], ["--older-than", "1y"]])
def test_sizes_and_ages_that_are_none_are_refused_and_nothing_goes(root, option):
    result = call("prune", *option)
    assert result.exit_code == 2
    assert "write one such as" in result.output
    assert len(document("list")["entries"]) == 3


@pytest.mark.slow
def test_the_command_ends_with_one_line_and_exit_code_2(root):
    done = subprocess.run(
        [sys.executable, "-m", "twintrack", "cache", "explain", "absent"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "programs gradients, update" in done.stderr

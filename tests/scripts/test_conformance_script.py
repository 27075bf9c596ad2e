"""The conformance script: what it reads, what it excuses, what it unpacks; made-up suites, nothing fetched."""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

from twintrack.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts"
EXCUSES = SCRIPTS / "conformance_excuses.toml"


def _module(name: str) -> ModuleType:
    if str(SCRIPTS) not in sys.path:
        sys.path.append(str(SCRIPTS))
    return importlib.import_module(f"_conformance.{name}")


archives, excuses, outcomes, running, tables, tasks = (
    _module(name) for name in ("_archives", "_excuses", "_outcomes", "_running", "_tables", "_tasks")
)

JUNIT = """<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite name="pytest">
<testcase classname="tests.test_a.TestX" name="test_one[4-a b]" file="tests/test_a.py" line="3" time="0"/>
<testcase classname="tests.test_a" name="test_two" file="tests/test_a.py" line="9"><failure message="assert 1 == 2
 more">trace</failure></testcase>
<testcase classname="tests.test_a" name="test_three" file="tests/test_a.py" line="9"><skipped
 type="pytest.xfail" message="platform"/></testcase>
<testcase classname="tests.test_a" name="test_four" file="tests/test_a.py" line="9"/>
<testcase classname="tests.test_a" name="test_four" file="tests/test_a.py" line="9"><error
 message="teardown broke"/></testcase>
<testcase classname="" name="tests.test_b"><skipped type="pytest.skip" message="collection skipped">
('tests/test_b.py', 2, "Skipped: could not import 'zz'")</skipped></testcase>
<testcase classname="" name="tests.test_c"><error message="collection failure">Traceback
E   ImportError: no yy</error></testcase>
</testsuite></testsuites>"""


def test_a_junit_file_tells_each_test_once_with_the_worst_result(tmp_path):
    (tmp_path / "j.xml").write_text(JUNIT)

    found = {o.test: (o.result, o.reason) for o in outcomes.read_junit(tmp_path / "j.xml", "s")}

    assert found == {
        "tests/test_a.py::TestX::test_one[4-a b]": ("passed", ""),
        "tests/test_a.py::test_two": ("failed", "assert 1 == 2 more"),
        "tests/test_a.py::test_three": ("skipped", "expected to fail: platform"),
        "tests/test_a.py::test_four": ("failed", "teardown broke"),
        "tests.test_b": ("skipped", """('tests/test_b.py', 2, "Skipped: could not import 'zz'")"""),
        "tests.test_c": ("failed", "ImportError: no yy"),
    }


def _outcome(test: str, result: str = "failed", suite: str = "s"):
    return outcomes.Outcome(suite, test, result, "why")


def _excuse(test: str, suite: str = "s"):
    return excuses.Excuse(suite, test, "needs hardware", "because")


def _judge(found, listed, modules=()):
    return excuses.judge("s", found, listed, lambda name: name in modules)


def test_a_star_stands_for_any_text_and_brackets_for_themselves():
    assert _excuse("t.py::test_x[*]").covers(_outcome("t.py::test_x[4-8]"))
    assert not _excuse("t.py::test_x[48]").covers(_outcome("t.py::test_x4"))
    assert not _excuse("t.py::test_x").covers(_outcome("t.py::test_xy"))
    assert not _excuse("t.py::test_x", suite="other").covers(_outcome("t.py::test_x"))


def test_what_did_not_pass_is_excused_or_a_failure_and_skipped_counts_alike():
    found = [_outcome("a", "passed"), _outcome("b"), _outcome("c", "skipped"), _outcome("d", "skipped")]

    judged = _judge(found, [_excuse("b"), _excuse("c")])

    assert [o.test for o in judged.passed] == ["a"]
    assert [o.test for o, _ in judged.excused] == ["b", "c"]
    assert [o.test for o in judged.failed] == ["d"]
    assert not judged.holds


@pytest.mark.parametrize(
    "found", [[_outcome("a", "passed")], [_outcome("b", "passed")]], ids=["no such test", "it passes"]
)
def test_an_excuse_that_nobody_needs_is_an_error(found):
    judged = _judge(found, [_excuse("b")])

    assert [excuse.test for excuse in judged.unused] == ["b"]
    assert not judged.holds


def test_a_package_that_is_here_excuses_nothing_and_its_excuse_is_not_idle():
    needs = excuses.Excuse("s", "b", "needs package zz.y", "because")
    failing, passing = [_outcome("b")], [_outcome("b", "passed")]

    assert _judge(failing, [needs]).holds
    assert not _judge(failing, [needs], ["zz.y"]).holds
    assert _judge(passing, [needs], ["zz.y"]).holds
    assert not _judge(passing, [needs]).holds


def test_a_suite_without_tests_does_not_hold_and_excuses_of_others_do_not_matter():
    assert not _judge([], []).holds
    assert _judge([_outcome("a", "passed")], [_excuse("b", suite="other")]).holds


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[excuse]]\nsuite="s"\ntest="a"\nkind="flaky"\nreason="r"', "no other excuses"),
        ('[[excuse]]\nsuite="s"\ntest="a"\nkind="documented deviation 0"\nreason="r"', "no other excuses"),
        ('[[excuse]]\nsuite="z"\ntest="a"\nkind="needs hardware"\nreason="r"', "one of the suites s"),
        ('[[excuse]]\nsuite="s"\ntest="a"\nkind="needs hardware"', "suite, test, kind and reason"),
        (
            '[[excuse]]\nsuite="s"\ntest="a"\nkind="needs hardware"\nreason=" "',
            "suite, test, kind and reason",
        ),
        ('[[excuse]]\nsuite="s"\ntest="a"\nkind="needs hardware"\nreason="r"\n' * 2, "each excuse once"),
        ("[[excuse]", "a readable list"),
    ],
)
def test_a_wrong_list_of_excuses_is_refused(tmp_path, text, said):
    (tmp_path / "e.toml").write_text(text)

    with pytest.raises(UserError, match=said):
        excuses.read_excuses(tmp_path / "e.toml", ["s"])


def _our_excuses():
    packages = archives.read_packages(SCRIPTS / "_conformance" / "packages.toml")
    repositories = tasks.read_repositories(SCRIPTS / "_conformance" / "repositories.toml")
    return excuses.read_excuses(EXCUSES, [*(p.name for p in packages), *(r.suite for r in repositories)])


def test_every_deviation_that_excuses_a_test_has_its_heading_in_the_documentation():
    page = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    described = set(re.findall(r"^### Deviation (\d+):", page, re.MULTILINE))

    used = {
        found.group(1)
        for e in _our_excuses()
        if (found := re.fullmatch(r"documented deviation (\d+)", e.kind))
    }

    assert used <= described, f"docs/conformance.md: describe deviations {sorted(used - described)}"


def _archive(path: Path, name: str, *, link: str = "", text: bytes = b"x") -> Path:
    with tarfile.open(path, "w:gz") as tar:
        entry = tarfile.TarInfo(name)
        if link:
            entry.type, entry.linkname = tarfile.SYMTYPE, link
            tar.addfile(entry)
        else:
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text))
    return path


@pytest.mark.parametrize(
    ("name", "link"), [("../out.txt", ""), ("a/../../out.txt", ""), ("a", "../../etc"), ("a", "/etc/passwd")]
)
def test_nothing_of_an_archive_leaves_its_folder(tmp_path, name, link):
    archive = _archive(tmp_path / "x.tar.gz", name, link=link)

    with pytest.raises(UserError, match="stay below its folder"):
        archives.unpack(archive, tmp_path / "in")
    assert not (tmp_path / "out.txt").exists()
    assert not list((tmp_path / "in").iterdir())


def test_a_damaged_archive_is_refused(tmp_path):
    whole = _archive(tmp_path / "x.tar.gz", "a", text=bytes(range(256)) * 99).read_bytes()
    (tmp_path / "x.tar.gz").write_bytes(whole[: len(whole) // 2])

    with pytest.raises(UserError):
        archives.unpack(tmp_path / "x.tar.gz", tmp_path / "in")


def test_an_archive_with_another_digest_is_refused(tmp_path):
    archive = _archive(tmp_path / "x.tar.gz", "a")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()

    assert archives.checked(archive, digest) == archive
    with pytest.raises(UserError, match="SHA-256"):
        archives.checked(archive, "0" * 64)
    with pytest.raises(UserError, match="no such file"):
        archives.checked(tmp_path / "y.tar.gz", digest)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_helpers_of_a_neighbour_are_not_run_and_broken_files_are(tmp_path):
    _write(tmp_path / "a" / "kernel.py", "x = 1")
    _write(tmp_path / "a" / "run.py", "from kernel import x")
    _write(tmp_path / "a" / "both.py", "if __name__ == '__main__':\n  pass")
    _write(tmp_path / "a" / "user.py", "import both")
    _write(tmp_path / "b" / "kernel.py", "x = 1")
    _write(tmp_path / "b" / "broken.py", "f(")

    found = [path.relative_to(tmp_path).as_posix() for path in tasks.scripts_in(tmp_path)]

    assert found == ["a/both.py", "a/run.py", "a/user.py", "b/broken.py", "b/kernel.py"]


def _script_task(folder: Path, text: str, **more):
    _write(folder / "s.py", text)
    return tasks.Task("s", "s.py", (str(folder / "s.py"),), folder, is_pytest=False, **more)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "more", "result"),
    [
        ("print('they match')", {}, "passed"),
        ("print('NKI and Torch differ')", {"mismatch": (r"\bdiffer\b",)}, "failed"),
        ("raise SystemExit(3)", {}, "failed"),
        ("raise ValueError('at most 128 partitions')", {"refused": r"\b128\b"}, "passed"),
        ("raise ValueError('something else')", {"refused": r"\b128\b"}, "failed"),
        ("print('at most 128 partitions')", {"refused": r"\b128\b"}, "failed"),
        ("import time; time.sleep(60)", {}, "failed"),
        ("import torch_xla\nassert str(torch_xla.device()) == 'cpu'", {}, "passed"),
    ],
)
def test_a_script_passes_if_it_agrees_or_is_refused_as_it_should(tmp_path, text, more, result):
    limit = 1 if "sleep" in text else 60

    (found,) = running.run(_script_task(tmp_path, text, **more), tmp_path / "scratch", 0, limit)

    assert found.result == result, found.reason


SUITE = """
import os
import numpy as np
import pytest
def test_passes(): assert os.environ["SWITCH"] == "1" and "SECRET" not in os.environ
def test_fails(): assert 1 == 2, "one is not two"
@pytest.mark.skip(reason="not here")
def test_skips(): pass
def test_draws(): assert np.random.random() == np.random.RandomState(20260101).random_sample()
"""


@pytest.mark.slow
def test_a_package_is_run_file_by_file_in_its_own_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET", "x")
    _write(tmp_path / "made-1" / "tests" / "test_it.py", SUITE)
    _write(tmp_path / "made-1" / "tests" / "test_crash.py", "import os\ndef test_a(): os._exit(9)")
    _write(tmp_path / "plugins" / "no_names.py", "")
    package = archives.Package("made", "1", "", {"SWITCH": "1"})
    crash, suite = [
        tasks.Task(**{**vars(task), "paths": (*task.paths, tmp_path / "plugins")})
        for task in tasks.package_tasks(package, tmp_path, plugin="no_names")
    ]

    crashed = running.run(crash, tmp_path / "scratch", 0, 60)
    found = {o.test: o.result for o in running.run(suite, tmp_path / "scratch", 1, 60)}

    assert [(o.test, o.result) for o in crashed] == [("tests/test_crash.py", "failed")]
    assert found == {
        "tests/test_it.py::test_passes": "passed",
        "tests/test_it.py::test_fails": "failed",
        "tests/test_it.py::test_skips": "skipped",
        "tests/test_it.py::test_draws": "passed",
    }


def test_a_repository_is_exported_at_its_commit_and_never_changed(tmp_path):
    git = tmp_path / "git"
    _write(git / "test" / "test_a.py", "def test_a(): pass")
    _write(git / "examples" / "run.py", "print(1)")
    _write(git / "examples" / "check.py", "def f(a): pass")
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "x"], ["tag", "v1"]):
        subprocess.run(["git", "-C", str(git), *command], check=True)
    _write(git / "examples" / "later.py", "")
    called = tasks.Script("examples/check.py", [["f", "@g"]])
    made = tasks.Repository("made 1", "sdk", "v1", ["test"], ["examples"], special=[called])

    root = tasks.export(made, git, tmp_path / "out")
    found = [task.test for task in tasks.repository_tasks(made, root)]

    assert found == ["test/test_a.py", "examples/check.py::f::@g", "examples/run.py"]
    with pytest.raises(UserError, match="commit v2"):
        tasks.export(tasks.Repository("made 2", "sdk", "v2", ["test"]), git, tmp_path / "out")
    gone = tasks.Repository("m", "sdk", "v1", [], ["examples"], special=[tasks.Script("examples/nowhere.py")])
    with pytest.raises(UserError, match=r"nowhere\.py"):
        tasks.repository_tasks(gone, root)


def _judgement():
    found = [_outcome("a", "passed"), _outcome("b|c")]
    return _judge(found, [excuses.Excuse("s", "b*", "documented deviation 2", "because")])


def test_the_tables_say_what_was_counted(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{tables.BEGIN}\nold\n{tables.END}\nafter\n")

    tables.write_into(page, [_judgement()], {"s": "1.2"})

    text = page.read_text()
    assert "| s | 1.2 | 1 | 0 | 1 | documented deviation 2 (1) |" in text
    assert "| s | `b*` | 1 | documented deviation 2 | because |" in text
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert json.dumps(tables.as_json([_judgement()], {"s": "1.2"}))

    page.write_text("")
    with pytest.raises(UserError, match="once each"):
        tables.write_into(page, [], {})


def test_suites_that_were_not_run_keep_their_rows_while_their_version_is_the_same(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"{tables.BEGIN}\nNot measured yet.\n{tables.END}\n")
    skipped, excuse = _outcome("x", "skipped", suite="r"), _excuse("x", suite="r")
    other = excuses.judge("r", [skipped], [excuse], lambda name: False)

    tables.write_into(page, [other], {"r": "7", "s": "1.2"})
    tables.write_into(page, [_judgement()], {"r": "7", "s": "1.2"})

    lines = [line for line in page.read_text().splitlines() if line.startswith(("| r", "| s |"))]
    assert [line.split(" | ")[0] for line in lines] == ["| r", "| s", "| r", "| s"]
    assert lines[0] == "| r | 7 | 0 | 0 | 1 | needs hardware (1) |"
    assert lines[2] == "| r | `x` | 1 | needs hardware | because |"
    assert "Not measured" not in page.read_text()

    tables.write_into(page, [_judgement()], {"r": "8", "s": "1.2"})

    assert "| r |" not in page.read_text()
    assert page.read_text().count("| s | ") == 2

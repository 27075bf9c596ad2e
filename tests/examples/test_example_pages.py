"""What the pages of the example kernels print is what their commands print.

A line of a code block that begins with ``$ python examples/kernels/run.py`` is a command; the lines below it, up to an
empty one, are its output.
"""

from __future__ import annotations

import importlib
import re
import shlex
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from twintrack.cli.kernel import command

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "kernels"
COMMAND = re.compile(r"^\$ python examples/kernels/run\.py (.+)\n((?:(?!```).+\n)*)", re.MULTILINE)


def _runner():
    """The command of the examples, imported beside its table as Python does for a script."""
    sys.path.insert(0, str(FOLDER))
    try:
        return importlib.import_module("run")
    finally:
        sys.path.remove(str(FOLDER))


SHOWN = [
    (page.parent.name, arguments, output)
    for page in sorted(FOLDER.glob("*/README.md"))
    for arguments, output in COMMAND.findall(page.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize(("page", "arguments", "output"), SHOWN, ids=[f"{p}: {a}" for p, a, _ in SHOWN])
def test_the_command_prints_what_the_page_shows(page, arguments, output, capsys):
    code = _runner().main(shlex.split(arguments))

    assert code == 0
    assert capsys.readouterr().out == output, f"paste the new output into examples/kernels/{page}/README.md"


def test_every_page_shows_a_run():
    assert {page for page, _, _ in SHOWN} == {page.parent.name for page in FOLDER.glob("*/README.md")}


def test_the_general_command_runs_an_example_on_saved_inputs(tmp_path, monkeypatch, capsys):
    """The commands of the index page, with small sizes."""
    monkeypatch.chdir(tmp_path)
    _runner().main(["softmax", "--size", "rows=130", "--size", "columns=32", "--save-inputs", "softmax.npz"])
    capsys.readouterr()
    target = f"{FOLDER / 'softmax' / 'kernel.py'}:softmax"

    ran = CliRunner().invoke(
        command,
        ["run", target, "--inputs", "softmax.npz", "--out", "result.npz"],
        catch_exceptions=False,
    )
    listed = CliRunner().invoke(
        command, ["disasm", target, "--shape", "x=200x384:bfloat16"], catch_exceptions=False
    )

    assert ran.exit_code == 0, ran.output
    assert "out0: bfloat16 [130, 32] in result.npz" in ran.output
    assert listed.exit_code == 0, listed.output
    assert listed.output.count("activation") >= 2


def test_sizes_that_a_kernel_refuses_are_one_line_and_exit_code_2(capsys):
    assert _runner().main(["matmul_basic", "--no-values", "--size", "k=200"]) == 2
    assert (
        _runner().main(["center_columns", "--no-values", "--size", "rows=256", "--size", "columns=8192"]) == 2
    )

    first, second = capsys.readouterr().err.splitlines()
    assert first == "run.py: K must be a multiple of 128"
    assert "at most 16384 bytes per partition for a tile in PSUM" in second


def test_a_size_that_the_example_has_not_is_named(capsys):
    with pytest.raises(SystemExit) as left:
        _runner().main(["softmax", "--size", "width=3"])

    assert left.value.code == 2
    assert "softmax has the sizes rows, columns, not width" in capsys.readouterr().err


def test_a_name_of_the_table_runs_all_kernels_of_its_folder(capsys):
    table = (FOLDER / "README.md").read_text(encoding="utf-8")
    for folder in re.findall(r"^\| \[(\w+)\]", table, re.MULTILINE):
        assert _runner().main([folder, "--no-values"]) == 0
        printed = capsys.readouterr().out
        for one in _runner().EXAMPLES:
            assert (f"{one.name}: " in printed) == (one.folder == folder)

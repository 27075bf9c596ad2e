"""How a command line names a kernel's arguments and the iterations of its loops: what is taken and what is refused."""

from __future__ import annotations

import json
import textwrap

import numpy as np
import pytest
from click.testing import CliRunner, Result

from twintrack.cli.kernel import command
from twintrack.cli.kernel_call import trip_counts
from twintrack.errors import UserError
from twintrack.nki.array_files import write_arrays

KERNEL = """
    import nki.isa as nisa
    import nki.language as nl

    def loops(x, count, mode="plain"):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, x.dtype)
        nisa.dma_copy(tile, x)
        held = nl.ndarray((1, 1), nl.int32)
        nisa.dma_copy(held, count)
        many = nisa.register_alloc(0)
        nisa.register_load(many, held)
        for _ in nl.dynamic_range(many):
            nisa.tensor_scalar(tile, tile, op0=nl.multiply, operand0=2.0)
        for _ in nl.dynamic_range(many):
            nisa.tensor_scalar(tile, tile, op0=nl.add, operand0=1.0)
        nisa.dma_copy(out, tile)
        return out

    def one(x):
        nisa.dma_copy(x, x)
        return x
"""
SHAPES = ("--shape", "x=128x64", "--shape", "count=1x1:int32", "--chip", "trn2")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text(textwrap.dedent(KERNEL))
    return path


def call(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def refused(*arguments: object) -> str:
    result = call(*arguments)
    assert isinstance(result.exception, UserError), result.output
    assert "\n" not in str(result.exception)
    return str(result.exception)


def vector_instructions(file, *trips: str) -> int:
    more = [word for one in trips for word in ("--trips", one)]
    result = call("profile", f"{file}:loops", *SHAPES, "--quick", "--json", *more)
    assert result.exit_code == 0, result.output
    return int(json.loads(result.stdout)["engines"]["vector"]["instructions"])


# trips


def test_iterations_go_to_the_loop_of_their_line_and_a_bare_number_to_all_others(file, monkeypatch):
    assert vector_instructions(file, "8") == 16
    assert vector_instructions(file, "kernel.py:13=3", "kernel.py:15=5") == 8
    assert vector_instructions(file, "2", f"{file}:15=7") == 9
    monkeypatch.chdir(file.parent)
    assert vector_instructions(file, "./kernel.py:13=0", "4") == 4


def test_disasm_takes_iterations_with_shapes_alone(file, tmp_path):
    told = call("disasm", f"{file}:loops", *SHAPES, "--trips", "3", "--json")
    assert told.stdout.count('"tensor_scalar"') == 6
    write_arrays(
        tmp_path / "in.npz", {"x": np.ones((128, 64), np.float32), "count": np.ones((1, 1), np.int32)}
    )
    values = call("disasm", f"{file}:loops", "--inputs", tmp_path / "in.npz", "--trips", "3")
    assert (values.exit_code, "--trips needs --shape" in values.output) == (2, True)


def test_a_line_without_such_a_loop_is_refused_with_those_that_there_are(file):
    wrong = refused("profile", f"{file}:loops", *SHAPES, "--trips", "kernel.py:12=3")
    assert "kernel.py:13: required a known value" in wrong
    assert "trip_counts has only kernel.py:12" in wrong
    assert "--trips kernel.py:13=N" in wrong
    extra = refused("profile", f"{file}:loops", *SHAPES, "--trips", "2", "--trips", "kernel.py:12=3")
    assert "found those of kernel.py:12, where there is no such loop" in extra
    assert "the kernel has kernel.py:13, kernel.py:15" in extra
    none = refused(
        "profile", f"{file}:one", "--shape", "x=4x4", "--chip", "trn2", "--trips", "kernel.py:12=3"
    )
    assert "the kernel has none" in none


@pytest.mark.parametrize(
    "text", ["", "x=3", "k.py:3", "k.py:3=", "k.py:=3", ":3=3", "=3", "-1", "k.py:a=3", "2.5"]
)
def test_what_names_no_iterations_is_refused(text):
    with pytest.raises(UserError, match=r"--trips: required FILE\.py:LINE=N, or N for all loops, found"):
        trip_counts((text,))


def test_a_loop_named_twice_is_refused():
    with pytest.raises(UserError, match=r"found 'k\.py:3' twice"):
        trip_counts(("k.py:3=1", "k.py:3=2"))
    with pytest.raises(UserError, match="found 'all loops' twice"):
        trip_counts(("1", "2"))
    assert trip_counts(()) is None


# shapes and settings


def test_a_name_given_twice_is_refused(file):
    assert "--shape: required each name once, found 'x' twice" in refused(
        "profile", f"{file}:loops", *SHAPES, "--shape", "x=4x4"
    )
    assert "--set: required each name once, found 'mode' twice" in refused(
        "profile", f"{file}:loops", *SHAPES, "--set", "mode=1", "--set", "mode=2"
    )


def test_a_setting_that_is_no_json_is_refused_and_quoted_in_the_remedy(file):
    said = refused("profile", f"{file}:loops", *SHAPES, "--set", "mode=fast")
    assert said.endswith("""found 'mode=fast'; write a string with quotes: --set 'mode="fast"'""")
    told = call("profile", f"{file}:loops", *SHAPES, "--trips", "1", "--quick", "--set", 'mode="fast"')
    assert told.exit_code == 0


# what is written


def test_one_is_singular(file):
    shown = call("profile", f"{file}:one", "--shape", "x=4x4", "--chip", "trn2", "--quick").stdout
    assert "one: trn2, one core, 1 instruction\n" in shown
    assert "1 transfer," in shown


def test_out_onto_a_file_is_told_before_anything_is_timed(file):
    told = call("profile", f"{file}:one", "--shape", "x=4x4", "--chip", "trn2", "--out", file)
    assert (told.exit_code, "is a file" in told.output) == (2, True)
    below = refused(
        "profile", f"{file}:one", "--shape", "x=4x4", "--chip", "trn2", "--quick", "--out", file / "x"
    )
    assert (
        "required a folder to write the profile into, found a file of that name, or of a folder above"
        in below
    )


def test_the_trace_carries_the_error_of_its_time(file, tmp_path):
    call("profile", f"{file}:one", "--shape", "x=4x4", "--chip", "trn2", "--quick", "--out", tmp_path / "out")
    other = json.loads((tmp_path / "out" / "trace.json").read_text())["otherData"]
    low, high = other["time_interval_seconds"]
    assert low < other["time_seconds"] < high
    assert other["time_error"].startswith("error of these times: -")

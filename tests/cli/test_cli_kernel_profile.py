"""``twintrack kernel profile``: what it prints, writes and refuses."""

from __future__ import annotations

import io
import json
import textwrap

import numpy as np
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

import twintrack
from twintrack.cli.kernel import command
from twintrack.cli.kernel_profile import profile_lines, report_progress
from twintrack.errors import UserError
from twintrack.nki.arrays import Shape
from twintrack.nki.files import load_kernel

KERNEL = """
    import nki
    import nki.isa as nisa
    import nki.language as nl

    @nki.jit
    def scale(x, factor=2.0):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        for at in range(x.shape[1] // 512):
            tile = nl.ndarray((128, 512), x.dtype)
            nisa.dma_copy(tile, x[:, nl.ds(at * 512, 512)])
            nisa.tensor_scalar(tile, tile, op0=nl.multiply, operand0=factor)
            nisa.dma_copy(out[:, nl.ds(at * 512, 512)], tile)
        return out

    @nki.jit
    def forgets(x):
        tile = nl.ndarray((128, 512), nl.float32)
        nisa.dma_copy(x, tile)
        return x

    @nki.jit
    def nothing(x):
        return x

    @nki.jit
    def halves(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        half = x.shape[0] // 2
        mine = nl.ds(nl.program_id(0) * half, half)
        tile = nl.ndarray((half, x.shape[1]), x.dtype)
        nisa.dma_copy(tile, x[mine, :])
        nisa.dma_copy(out[mine, :], tile)
        return out
"""
SHAPE = ("--shape", "x=128x2048:bfloat16")


@pytest.fixture(autouse=True)
def no_chip(monkeypatch):
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text(textwrap.dedent(KERNEL))
    return path


def call(*arguments: object) -> Result:
    return CliRunner().invoke(command, ["profile", *[str(argument) for argument in arguments]])


def refused(*arguments: object) -> str:
    result = call(*arguments)
    assert isinstance(result.exception, UserError), result.output
    assert "\n" not in str(result.exception)
    return str(result.exception)


def test_the_summary_has_what_kernel_authors_look_for(file):
    result = call(f"{file}:scale", *SHAPE, "--chip", "trn2")
    assert result.exit_code == 0
    for text in (
        "scale: trn2, one core, 12 instructions", "time", "HBM read", "524.3 kB", "of 435 GB/s", "bound by",
        "Vector Engine", "SBUF", "PSUM", "The longest waits", "kernel.py:11", "What would help most",
        "no DMA latency", "error of these times", "rows of the accuracy table", "simulated",
    ):  # fmt: skip
        assert text in result.stdout, text


def test_every_time_carries_its_error(file):
    shown = call(f"{file}:scale", *SHAPE, "--chip", "trn2").stdout
    times = [line for line in shown.splitlines() if " µs" in line or " ns" in line]
    assert len(times) > 8
    assert all("%)" in line for line in times), times


def test_json_is_what_the_library_gives(file):
    result = call(f"{file}:scale", *SHAPE, "--chip", "trn2", "--json")
    values = json.loads(result.stdout)
    profile = twintrack.profile(load_kernel(f"{file}:scale"), Shape((128, 2048), "bfloat16"), chip="trn2")
    assert values["seconds"] == profile.seconds
    assert values["hbm_bytes"] == profile.hbm_bytes == 2 * 128 * 2048 * 2
    assert values["binding"]["resource"] == profile.binding.resource
    assert values["engines"]["vector"]["instructions"] == 4


def test_arrays_stand_for_their_shapes_and_out_is_a_folder(file, tmp_path):
    np.savez(tmp_path / "in.npz", x=np.zeros((128, 1024), np.float32))
    out = tmp_path / "profile"
    result = call(
        f"{file}:scale", "--inputs", tmp_path / "in.npz", "--set", "factor=3", "--out", out, "--quick"
    )
    assert result.exit_code == 0
    assert sorted(path.name for path in out.iterdir()) == ["profile.html", "profile.json", "trace.json"]
    assert "What would help most" not in result.stdout
    assert "chip: trn2, as neither" in result.stderr
    assert json.loads((out / "profile.json").read_text())["hbm_read_bytes"] == 128 * 1024 * 4


def test_two_cores_at_once(file):
    result = call(f"{file}:halves", "--shape", "x=256x512", "--chip", "trn2", "--lnc", "2", "--json")
    values = json.loads(result.stdout)
    assert (values["cores"], values["dma"]["transfers"]) == (2, 4)


def test_loads_that_a_compiler_drops_are_named(tmp_path):
    path = tmp_path / "again.py"
    path.write_text(
        textwrap.dedent("""
        import nki.isa as nisa
        import nki.language as nl

        def again(x):
            out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            for at in range(8):
                tile = nl.ndarray(x.shape, x.dtype)
                nisa.dma_copy(tile, x)
            nisa.dma_copy(out, tile)
            return out
        """)
    )
    common = (f"{path}:again", "--shape", "x=128x4096", "--chip", "trn2", "--json")
    as_written, dropped = (json.loads(call(*common, *more).stdout) for more in ((), ("--drop-reloads",)))
    assert dropped["dma"]["transfers"] == 2 < as_written["dma"]["transfers"] == 9
    assert dropped["seconds"] < as_written["seconds"]
    assert any("7 loads are left out" in note for note in dropped["notes"])


def test_mistakes_are_told_in_one_line(file):
    assert "kernel.py:19: required src written before it is read" in refused(
        f"{file}:forgets", "--shape", "x=128x512", "--chip", "trn2"
    )
    assert "nothing to time" in refused(f"{file}:nothing", "--shape", "x=128x512", "--chip", "trn2")
    assert "unknown" in refused(f"{file}:scale", *SHAPE, "--chip", "trn3")
    assert "none given for x" in refused(f"{file}:scale", "--chip", "trn2")


@pytest.mark.parametrize("width", [80, 120])
def test_it_fits_the_terminal(file, width):
    profile = twintrack.profile(load_kernel(f"{file}:scale"), Shape((128, 2048), "bfloat16"), chip="trn2")
    stream = io.StringIO()
    console = Console(file=stream, width=width, highlight=False)
    for part in profile_lines(profile):
        console.print(part)
    lines = stream.getvalue().splitlines()
    assert max(len(line.rstrip()) for line in lines) <= width
    assert len(lines) < 75


class Hands:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


def test_progress_says_nothing_for_two_seconds_and_then_the_time_left():
    stream, clock = io.StringIO(), Hands()
    with report_progress(Console(file=stream, width=200), clock) as tell:
        tell("tracing", 5000, 0)
        clock.at = 1.9
        tell("tracing", 10000, 0)
        assert stream.getvalue() == ""
        clock.at = 3.0
        tell("what would help", 0, 10)
        clock.at = 13.0
        tell("what would help", 2, 10)
    assert stream.getvalue().splitlines() == [
        "what would help: 0 of 10 timings, 3 s",
        "what would help: 2 of 10 timings, 13 s, about 40 s left",
    ]

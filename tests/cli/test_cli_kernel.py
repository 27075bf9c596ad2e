"""``twintrack kernel run``, ``disasm`` and ``lint``: what they print, write and refuse."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner, Result

from twintrack.cli.kernel import command
from twintrack.errors import UserError
from twintrack.neuroncore.isa.stream_file import from_lines
from twintrack.nki.array_files import read_arrays, write_arrays

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PAIR = EXAMPLES / "broken_kernels" / "too_many_partitions.py"
TWO_CORES = EXAMPLES / "broken_kernels" / "unequal_barriers.py"
X = np.arange(256 * 8, dtype=np.float32).reshape(256, 8)


@pytest.fixture(autouse=True)
def no_chip(monkeypatch):
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)


@pytest.fixture
def inputs(tmp_path):
    write_arrays(tmp_path / "x.npz", {"x": X})
    return tmp_path / "x.npz"


def call(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def refused(*arguments: object) -> str:
    result = call(*arguments)
    assert isinstance(result.exception, UserError), result.output
    assert "\n" not in str(result.exception)
    return str(result.exception)


# run


def test_run_tells_what_it_did_and_writes_what_the_kernel_returns(inputs, tmp_path):
    result = call("run", f"{PAIR}:corrected", "--inputs", inputs, "--out", tmp_path / "y.npz")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "core 0: 6 instructions on trn2",
        "core 0: SBUF 32 of 229,376 bytes per partition at most, PSUM 0 of 16,384",
        f"out0: float32 [256, 8] in {tmp_path / 'y.npz'}",
    ]
    assert result.stderr == "chip: trn2, as neither --chip nor NEURON_PLATFORM_TARGET_OVERRIDE names one\n"
    assert (read_arrays(tmp_path / "y.npz")["out0"] == 2 * X).all()


def test_run_without_out_tells_the_results_alone(inputs):
    assert (
        call("run", f"{PAIR}:corrected", "--inputs", inputs).stdout.splitlines()[-1]
        == "out0: float32 [256, 8]"
    )


def test_a_mistake_is_one_line(inputs):
    said = refused("run", f"{PAIR}:broken", "--inputs", inputs)
    assert said.startswith(
        f"{PAIR}:17: required at most 128 partitions (dimension 0) for a tile in SBUF, found 256"
    )


@pytest.mark.parametrize(("chip", "room"), [("trn1", "196,608"), ("trn2", "229,376"), ("trn3", "262,144")])
def test_the_chip_is_the_one_that_is_named_and_nothing_is_said_of_it(inputs, chip, room):
    result = call("run", f"{PAIR}:corrected", "--inputs", inputs, "--chip", chip)
    assert f"instructions on {chip}" in result.stdout
    assert f"of {room} bytes per partition" in result.stdout
    assert result.stderr == ""


def test_a_chip_that_the_kernels_decorator_contradicts_is_refused(inputs, tmp_path):
    path = tmp_path / "k.py"
    path.write_text(PAIR.read_text().replace("@nki.jit", "@nki.jit(platform_target='gen2')"))
    assert (
        "instructions on trn1"
        in call("run", f"{path}:corrected", "--inputs", inputs, "--chip", "trn1").stdout
    )
    assert "instructions on trn1" in call("run", f"{path}:corrected", "--inputs", inputs).stdout
    said = refused("run", f"{path}:corrected", "--inputs", inputs, "--chip", "trn3")
    assert (
        "required --chip trn1, or none, for a kernel whose decorator names that chip, found --chip trn3"
        in said
    )


def test_two_cores_run_at_once_from_trn2_on(inputs):
    result = call("run", f"{TWO_CORES}:corrected", "--inputs", inputs, "--lnc", 2, "--check", "all")
    assert [line.split(":")[0] for line in result.stdout.splitlines()[:2]] == ["core 0", "core 1"]
    result = call("run", f"{TWO_CORES}:corrected", "--inputs", inputs, "--lnc", 2, "--chip", "trn1")
    assert result.exit_code == 2
    assert "--lnc 2 needs trn2 or newer, found trn1" in result.output


def test_off_says_that_nothing_was_looked_for(inputs):
    result = call("run", f"{PAIR}:corrected", "--inputs", inputs, "--check", "off")
    assert result.stdout.splitlines()[1] == "checks were off: no mistake was looked for"


def test_spills_are_counted_with_their_lines_and_refused_by_strict(tmp_path):
    pair = EXAMPLES / "broken_kernels" / "spilled_tiles.py"
    write_arrays(tmp_path / "x.npz", {"x": np.ones((4, 2, 16384), np.float32)})
    lines = call("run", f"{pair}:broken", "--inputs", tmp_path / "x.npz").stdout.splitlines()
    assert lines[2] == "core 0: the compiler would spill 131,072 bytes of 1 tile:"
    assert lines[3] == f"  sbuf [2, 16384] float32 (made at {pair}:19)"
    said = refused("run", f"{pair}:broken", "--inputs", tmp_path / "x.npz", "--strict")
    assert said.startswith(f"{pair}:19: required tiles in SBUF that fit 229376 bytes per partition")


def test_a_kernel_that_writes_to_an_argument_gives_that_argument(tmp_path):
    path = tmp_path / "k.py"
    path.write_text(
        "import nki.isa as nisa, nki.language as nl\n"
        "def k(state, x):\n    nisa.dma_copy(state, nl.full((2, 2), 3, state.dtype))\n"
    )
    narrow = np.zeros((2, 2), ml_dtypes.bfloat16)
    write_arrays(tmp_path / "x.npz", {"state": narrow, "x": X})
    result = call("run", f"{path}:k", "--inputs", tmp_path / "x.npz", "--out", tmp_path / "y.npz")
    assert (
        result.stdout.splitlines()[-1] == f"state: bfloat16 [2, 2] in {tmp_path / 'y.npz'} as state:bfloat16"
    )
    assert (read_arrays(tmp_path / "y.npz")["state"] == 3).all()


def test_the_result_does_not_take_the_place_of_the_inputs(inputs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = inputs.read_bytes()
    for out in (inputs, "x.npz", tmp_path / "sub" / ".." / "x.npz"):
        result = call("run", f"{PAIR}:corrected", "--inputs", inputs, "--out", out)
        assert result.exit_code == 2
        assert "--out must be another file than --inputs" in result.output
    assert inputs.read_bytes() == before


def test_other_arguments_are_set_as_json_and_missing_ones_are_named(inputs, tmp_path):
    path = tmp_path / "k.py"
    path.write_text(PAIR.read_text().replace("(x: nl.NkiTensor)", "(x, factor)").replace("2.0", "factor"))
    call("run", f"{path}:corrected", "--inputs", inputs, "--set", "factor=3", "--out", tmp_path / "y.npz")
    assert (read_arrays(tmp_path / "y.npz")["out0"] == 3 * X).all()
    assert "found none given for factor" in refused("run", f"{path}:corrected", "--inputs", inputs)
    result = call("run", f"{path}:corrected", "--inputs", inputs, "--set", "factor")
    assert result.exit_code == 2
    assert "--set takes NAME=VALUE, found 'factor'" in result.output


def test_a_python_mistake_in_the_kernel_is_one_line_too(inputs, tmp_path):
    path = tmp_path / "k.py"
    path.write_text("def k(x):\n    y = x\n    return y.missing\n")
    assert refused("run", f"{path}:k", "--inputs", inputs).startswith(
        f"{path}:3: required a kernel that runs, found AttributeError"
    )


# sdk


def test_sdk_refuses_python_that_its_compiler_refuses(inputs):
    path = EXAMPLES / "broken_kernels" / "refused_python.py"
    assert "at most 128 partitions" in refused(
        "run", f"{path}:broken", "--inputs", inputs
    )  # not looked at without
    assert refused("run", f"{path}:broken", "--inputs", inputs, "--sdk", "2.32") == (
        f"{path}:19: required '==' or '!=', found 'scale is not None'; "
        "compare values; identity means nothing while tracing [identity-operator]"
    )


def test_sdk_refuses_names_that_the_version_does_not_document(inputs):
    assert call("run", f"{PAIR}:corrected", "--inputs", inputs, "--sdk", "2.32").exit_code == 0
    assert refused("run", f"{PAIR}:corrected", "--inputs", inputs, "--sdk", "2.27") == (
        f"{PAIR}:14: required names that this SDK version documents, found nki.language.NkiTensor, "
        "which is documented in 2.29 to 2.32 and not in 2.27; use one that it has [undocumented-name]"
    )
    assert "required an SDK version among 2.26, 2.27" in refused(
        "run", f"{PAIR}:corrected", "--inputs", inputs, "--sdk", "3.0"
    )


# disasm


def test_disasm_prints_a_line_per_instruction(inputs):
    lines = call("disasm", f"{PAIR}:corrected", "--inputs", inputs).stdout.splitlines()
    assert len(lines) == 6
    first = (
        "0:0    dma     dma_copy dst=sbuf2[128,8] float32 <- src=x[128,8] float32  too_many_partitions.py:31"
    )
    assert lines[0] == first


def test_disasm_of_shapes_computes_nothing_and_gives_the_same(inputs):
    given = call("disasm", f"{PAIR}:corrected", "--inputs", inputs).stdout
    assert call("disasm", f"{PAIR}:corrected", "--shape", "x=256x8").stdout == given


def test_disasm_as_json_is_a_stream_that_can_be_read_back(inputs):
    result = call(
        "disasm", f"{TWO_CORES}:corrected", "--inputs", inputs, "--lnc", 2, "--json", "--chip", "trn3"
    )
    stream = from_lines(result.stdout.splitlines())
    assert stream.chip == "trn3"
    assert {record.core for record in stream} == {0, 1}


# lint


def test_lint_lists_places_and_counts_them():
    result = call("lint", EXAMPLES / "broken_kernels" / "refused_python.py")
    assert result.stdout.endswith("[identity-operator]\n")
    assert "found 1 place that it refuses; mend what is listed" in str(result.exception)
    clean = call("lint", PAIR, TWO_CORES)
    assert clean.exit_code == 0
    assert clean.stdout == "2 files: nothing that the NKI compiler of 2.32 is documented to refuse\n"


def test_lint_with_a_version_looks_at_names_and_without_one_does_not():
    assert call("lint", PAIR).exit_code == 0
    assert "nki.language.NkiTensor" in call("lint", PAIR, "--sdk", "2.27").stdout


def test_lint_of_what_is_no_python_is_refused(tmp_path):
    path = tmp_path / "x.py"
    path.write_bytes(b"\xff\xfe\x00")
    assert f"{path}: required a Python file, found" in refused("lint", path)
    path.write_text("def f(:\n")
    assert f"{path}:1: required Python, found" in refused("lint", path)


@pytest.mark.parametrize("name", ["run", "disasm", "lint"])
def test_help_fits_eighty_columns(name):
    text = CliRunner().invoke(command, [name, "--help"], terminal_width=80).output
    assert all(len(line) <= 80 for line in text.splitlines())


# limits


@pytest.mark.parametrize("verb", ["run", "disasm", "profile"])
def test_most_iterations_limits_loops_on_the_device(verb, tmp_path):
    file = tmp_path / "looping.py"
    file.write_text(
        "import nki, nki.isa as nisa, nki.language as nl\n\n@nki.jit\ndef kernel():\n"
        "    out = nl.ndarray((1, 1), nl.int32, buffer=nl.shared_hbm)\n"
        "    for i in nl.dynamic_range(5):\n        nisa.register_store(out, i)\n    return out\n"
    )
    arguments = (verb, f"{file}:kernel", "--most-iterations")
    assert call(*arguments, 5).exit_code == 0
    assert f"{file}:6: required a loop that ends within 4 iterations" in refused(*arguments, 4)
    assert call(*arguments, 0).exit_code == 2

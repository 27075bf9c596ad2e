"""Every example kernel gives what its reference gives, breaks no rule, and is Python that the NKI compiler takes.

The table of ``examples/kernels/table.py`` is walked: an example that is added there is tested. Tolerances stand in the
table with their reason.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from twintrack.errors import KernelError
from twintrack.neuroncore.emulator.core import Checks
from twintrack.nki import isa
from twintrack.nki import language as nl
from twintrack.nki.files import load_kernel
from twintrack.nki.kernel import simulate
from twintrack.nki.lint import check_source

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "kernels"


def _import(name):
    """A module of the examples, which import each other as scripts beside one another do."""
    sys.path.insert(0, str(FOLDER))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(FOLDER))


run = _import("run")
table = _import("table")
CASES = [(one, dtype) for one in table.EXAMPLES for dtype in one.dtypes]


def _id(value):
    return getattr(value, "name", str(value))


@pytest.mark.parametrize(("one", "dtype"), CASES, ids=_id)
def test_the_result_is_the_references_and_no_check_finds_anything(one, dtype):
    outcome = run.run_example(one, dtype, sizes=one.small, checks="all")

    assert outcome.within(one.tolerance[dtype]), (
        f"{outcome.errors} above {one.tolerance[dtype]}: {one.reason}"
    )
    assert not [spill for launch in outcome.launches for spill in launch.spills]


@pytest.mark.parametrize(
    ("one", "chip"), [(one, chip) for one in table.EXAMPLES for chip in one.chips if chip != "trn2"], ids=_id
)
def test_it_runs_on_the_other_chips_that_the_table_names(one, chip):
    dtype = one.dtypes[0]

    outcome = run.run_example(one, dtype, sizes=one.small, chip=chip)

    assert outcome.within(one.tolerance[dtype]), (
        f"{outcome.errors} above {one.tolerance[dtype]}: {one.reason}"
    )


@pytest.mark.parametrize("folder", sorted({one.folder for one in table.EXAMPLES}))
def test_the_compiler_takes_its_python(folder):
    path = FOLDER / folder / "kernel.py"

    assert check_source(path.read_text(encoding="utf-8"), str(path), sdk="2.32") == ()


def test_every_folder_stands_in_the_table_and_has_its_page():
    folders = {path.parent.name for path in FOLDER.glob("*/kernel.py")}
    index = (FOLDER / "README.md").read_text(encoding="utf-8")

    assert folders == {one.folder for one in table.EXAMPLES}
    for folder in folders:
        assert (FOLDER / folder / "README.md").is_file(), f"write examples/kernels/{folder}/README.md"
        assert f"({folder}/README.md)" in index, f"link {folder}/README.md in examples/kernels/README.md"


def test_each_step_of_the_matmul_reads_less_of_hbm_than_the_one_before():
    names = ("matmul_basic", "matmul_hoisted", "matmul_block_free", "matmul_block_all")
    sizes = {"m": 1024, "k": 256, "n": 2048}

    read = [
        run.run_example(table.example(name), "bfloat16", sizes=sizes, values=False).traffic.read
        for name in names
    ]

    assert read == sorted(read, reverse=True)
    assert len(set(read)) == len(read)


def test_an_id_outside_the_embedding_table_is_an_error_at_the_kernels_line():
    kernel = load_kernel(f"{FOLDER / 'embedding_gather' / 'kernel.py'}:embedding_gather")
    (inputs,) = run.inputs_of(
        table.example("embedding_gather"), "float32", {"tokens": 3, "vocabulary": 4, "width": 8}
    )
    inputs["ids"] = np.array([0, 4, 1], np.int32)

    with pytest.raises(KernelError, match=r"embedding_gather.kernel\.py:\d+"):
        kernel(**inputs)


def test_the_command_prints_errors_and_peaks(capsys):
    code = run.main(["rmsnorm", "--dtype", "float32", "--check", "all"])

    printed = capsys.readouterr().out
    assert code == 0
    assert "output 0: largest error" in printed
    assert "SBUF" in printed
    assert "0 spills" in printed


def test_a_result_above_its_tolerance_is_exit_code_1(monkeypatch, capsys):
    from dataclasses import replace

    strict = replace(table.example("rmsnorm"), tolerance={"float32": (0.0,)})
    monkeypatch.setattr(run, "EXAMPLES", (strict,))

    assert run.main(["rmsnorm", "--dtype", "float32"]) == 1
    capsys.readouterr()


def test_without_its_barrier_the_two_core_reduction_is_found_out(tmp_path):
    """The example's page says what the barrier is for; a copy of the kernel without it must be refused."""
    text = (FOLDER / "two_core_centering" / "kernel.py").read_text(encoding="utf-8")
    barrier = "    nisa.core_barrier(data=means, cores=(0, 1))\n"
    assert barrier in text
    broken = tmp_path / "kernel.py"
    broken.write_text(text.replace(barrier, ""), encoding="utf-8")
    (inputs,) = run.inputs_of(table.example("center_columns"), "float32", {"rows": 256, "columns": 64})

    with pytest.raises(KernelError, match=r"kernel\.py:\d+: required src written before it is read"):
        simulate(load_kernel(f"{broken}:center_columns")[2]).with_options(checks=Checks.ALL)(**inputs)


def test_cross_entropy_finds_targets_beyond_the_integers_that_float32_holds():
    """The last token's logit stands at an odd index above 2^24, where float32 has even numbers only."""
    tokens, vocabulary = 129, 131_072
    assert (tokens - 1) * vocabulary >= 2**24
    logits = np.zeros((tokens, vocabulary), np.float16)
    logits[-1, -1] = 1.0
    logits_of = load_kernel(f"{FOLDER / 'cross_entropy' / 'kernel.py'}:logits_of").function

    def last_row(logits, target):
        index = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        isa.dma_copy(dst=index, src=target)
        out = nl.ndarray((1, 1), dtype=logits.dtype, buffer=nl.shared_hbm)
        isa.dma_copy(dst=out, src=logits_of(logits, index, tokens - 1))
        return out

    found = [simulate(last_row)(logits, np.full((1, 1), vocabulary - 1 - at, np.int32)) for at in (0, 1)]

    assert [float(one[0, 0]) for one in found] == [1.0, 0.0]

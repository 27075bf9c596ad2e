"""Twenty-odd broken kernels beside their corrected twins: each message in full, and each twin against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from twintrack import nki
from twintrack.errors import KernelError
from twintrack.neuroncore.emulator.core import Checks
from twintrack.neuroncore.memory.generation import GENERATIONS
from twintrack.nki.files import load_kernel
from twintrack.nki.lint import check_source

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "broken_kernels"
RANDOM = np.random.default_rng(20)


def floats(*shape: int) -> np.ndarray:
    """Small integers as float32, so that sums and products are exact."""
    return RANDOM.integers(-4, 5, shape).astype(np.float32)


def column(*ids: int) -> np.ndarray:
    return np.array(ids, np.int32).reshape(-1, 1)


def product(a_t, b):
    return a_t.astype(np.float64).T @ b.astype(np.float64)


def scattered(cache, new, slots, wanted):
    cache = cache.copy()
    cache[slots[:, 0]] = new
    return cache[wanted[:, 0]]


def swapped(x, *_):
    return np.roll(x, len(x) // 2, axis=0)


@dataclass(frozen=True)
class Case:
    """One pair of kernels.

    Args:
        make: arguments.
        expected: what the corrected kernel returns, from the same arguments.
        message: of the broken kernel, ``{f}`` standing for its file.
        options: of the run.
        cores: of the launch.
        tolerance: of values, relative; 0 for exact.
    """

    make: Callable[[], tuple[Any, ...]]
    expected: Callable[..., np.ndarray]
    message: str
    options: Mapping[str, Any] = field(default_factory=dict)
    cores: int = 1
    tolerance: float = 0.0


def doubled(x):
    return 2 * x


ALL = {"checks": Checks.ALL}
CASES = {
    "too_many_partitions": Case(
        lambda: (floats(256, 64),),
        doubled,
        "{f}:17: required at most 128 partitions (dimension 0) for a tile in SBUF, found 256 in sbuf "
        "[256, 64] float32 (made at {f}:17); split it into tiles of 128 partitions, or make another "
        "dimension the first",
    ),
    "matmul_too_wide": Case(
        lambda: (floats(128, 64), floats(128, 1024)),
        product,
        "{f}:23: required at most 512 elements per partition of moving (one PSUM bank) on trn2 for "
        "nki.isa.nc_matmul, found 1024 in moving, sbuf [128, 1024] float32 (made at {f}:20); split the "
        "moving operand",
    ),
    "matmul_operand_in_psum": Case(
        lambda: (floats(128, 128), floats(128, 64)),
        lambda a, b: product(a, product(a, b)),
        "{f}:25: required moving in SBUF for nki.isa.nc_matmul, found psum in moving, psum [128, 64] "
        "float32 (made at {f}:22); copy it to SBUF first",
    ),
    "operand_in_hbm": Case(
        lambda: (floats(128, 64),),
        doubled,
        "{f}:18: required data in SBUF or PSUM for nki.isa.tensor_scalar, found private_hbm in data, 'x'"
        " private_hbm [128, 64] float32 (argument); copy it to SBUF or PSUM first",
    ),
    "matmul_mixed_types": Case(
        lambda: (floats(128, 64), floats(128, 32).astype(ml_dtypes.bfloat16)),
        product,
        "{f}:23: required moving as wide as stationary (float32) for nki.isa.nc_matmul, found bfloat16 "
        "in moving, sbuf [128, 32] bfloat16 (made at {f}:20); convert one of them",
    ),
    "start_partition": Case(
        lambda: (floats(64, 8),),
        lambda x: np.concatenate([x[:16], 2 * x[16:48], x[48:]]),
        "{f}:20: required a start partition of 0, 32, 64 or 96 for 32 partitions for "
        "nki.isa.tensor_scalar, found 16 in dst, [16:48, 0:8] of sbuf [64, 8] float32 (made at {f}:17); "
        "place the data at such a partition, or move them with a DMA",
    ),
    "slice_out_of_bounds": Case(
        lambda: (floats(200, 8),),
        lambda x: np.exp(x.astype(np.float64)),
        "{f}:20: required a slice inside the 200 elements of dimension 0, found 128:256 (shape [200, 8])"
        " for 'x' private_hbm [200, 8] float32 (argument); index inside the tensor's shape",
        tolerance=2e-6,
    ),
    "reshape_through_partitions": Case(
        lambda: (floats(128, 8),),
        lambda x: x[::2] + x[1::2],
        "{f}:20: required the partition dimension to stay as it is in reshape, found a reshape through "
        "dimension 0 for sbuf [128, 8] float32 (made at {f}:18); move data between partitions with "
        "nisa.nc_transpose or a DMA",
    ),
    "read_before_write": Case(
        lambda: (floats(128, 8),),
        lambda x: np.pad(x, ((0, 0), (1, 1)))[:, :-2] + np.pad(x, ((0, 0), (1, 1)))[:, 2:],
        "{f}:21: required data1 written before it is read for nki.isa.tensor_tensor, found element [0, "
        "0] never written in data1, [0:128, 0:8] of sbuf [128, 10] float32 (made at {f}:18); write all "
        "of it first (nisa.memset, nisa.dma_copy), or read only what was written",
    ),
    "read_before_write_integers": Case(
        lambda: (floats(128, 8).astype(np.int32),),
        lambda x: x.sum(axis=1, keepdims=True),
        "{f}:22: required dst written before it is read for nki.isa.tensor_tensor, found nothing written"
        " in dst, 'count' sbuf [128, 1] int32 (made at {f}:20); write all of it first (nisa.memset, "
        "nisa.dma_copy), or read only what was written",
    ),
    "output_partly_written": Case(
        lambda: (floats(200, 8),),
        doubled,
        "{f}:13: required an output that is wholly written, found element [128, 0] never written of "
        "shared_hbm [200, 8] float32 (made at {f}:16); write every element of what the kernel returns",
    ),
    "output_never_written": Case(
        lambda: (floats(128, 8),),
        doubled,
        "{f}:13: required an output that is wholly written, found nothing written of 'out' shared_hbm "
        "[128, 8] float32 (made at {f}:16); write every element of what the kernel returns",
    ),
    "tile_beyond_partition": Case(
        lambda: (floats(2, 65536),),
        doubled,
        "{f}:17: required at most 229376 bytes per partition for a tile in SBUF of trn2, found 262144 "
        "bytes in sbuf [2, 65536] float32 (made at {f}:17); split it into smaller tiles",
    ),
    "placed_tiles_overlap": Case(
        lambda: (floats(128, 64),),
        lambda x: x * np.exp(x.astype(np.float64)),
        "{f}:21: required data1 that still holds what was written to it for nki.isa.tensor_tensor, found"
        " it overwritten by 'second' sbuf [128, 64] float32 (made at {f}:18), which is placed over it, "
        "in data1, 'first' sbuf [128, 64] float32 (made at {f}:17); give them addresses that do not "
        "overlap, or finish with one before writing the other",
        tolerance=2e-6,
    ),
    "psum_over_its_banks": Case(
        lambda: (floats(128, 32), floats(128, 9 * 512)),
        product,
        "{f}:24: required live tiles in PSUM that fit its 8 banks of 2048 bytes per partition, found "
        "18432 bytes at once, without room for psum [32, 512] float32 (made at {f}:24); copy results to "
        "SBUF before making more tiles in PSUM, or make them smaller",
    ),
    "dynamic_index_out_of_bounds": Case(
        lambda: (floats(10, 8), column(3, 9, 10, 0)),
        lambda table, ids: np.vstack([table, 0 * table[:1]])[ids[:, 0]],
        "{f}:22: required a dynamic index from 0 below 10 in dimension 0 for nki.isa.dma_copy, found "
        "index 10 for row 2 in src, rows by index of 'table' private_hbm [10, 8] float32 (argument); "
        "keep the index inside, or pass oob_mode=nisa.oob_mode.skip",
    ),
    "psum_bank_crossing": Case(
        lambda: (floats(128, 64), floats(128, 512)),
        product,
        "{f}:24: required dst inside one PSUM bank of 2048 bytes per partition for nki.isa.nc_matmul, "
        "found bytes 1024 to 3071 of the partition in dst, [0:64, 256:768] of psum [64, 1024] float32 "
        "(made at {f}:22); align the tile to a bank",
    ),
    "unequal_barriers": Case(
        lambda: (floats(16, 8),),
        lambda x: 2 * swapped(x),
        "{f}:25: required cores that can go on, found a deadlock: core 0 waits for core 1 in "
        "core_barrier at {f}:25; ended: core 1; make every core reach the same barriers and exchanges, "
        "in the same order",
        cores=2,
    ),
    "shared_hbm_race": Case(
        lambda: (floats(16, 8), floats(16, 8)),
        swapped,
        "{f}:21: required a core_barrier between core 0, which reads this part of shared HBM at {f}:23 "
        "or later, and core 1, which writes it here, for nki.isa.dma_copy, found none in dst, [8:16, "
        "0:8] of 'shared' shared_hbm [16, 8] float32 (argument); call nisa.core_barrier on both cores "
        "between them, or give each core its own part",
        options=ALL,
        cores=2,
    ),
    "scatter_then_gather": Case(
        lambda: (floats(16, 8), floats(4, 8), column(1, 5, 9, 2), column(9, 1, 7, 0)),
        scattered,
        "{f}:26: required an order between nki.isa.dma_copy, which reads src, and nki.isa.dma_copy at "
        "{f}:25, which wrote the same bytes of 'cache' private_hbm [16, 8] float32 (argument), found "
        "nothing that orders them, as this one's address is known only at run time; call "
        ".depends_on(...) on this one, or put both in `with nl.no_reorder():`",
        options=ALL,
    ),
    "accumulate_onto_memset": Case(
        lambda: (floats(128, 64), floats(128, 32)),
        lambda a, b: product(a, b) + 1,
        "{f}:24: required accumulate=True onto the result of a matrix multiplication for "
        "nki.isa.nc_matmul, found a location initialised by another instruction, which is undefined on "
        "trn2, in dst, psum [64, 32] float32 (made at {f}:22); pass accumulate=False (or None) for the "
        "first product",
    ),
    "gpsimd_on_psum": Case(
        lambda: (floats(128, 64), floats(128, 32)),
        product,
        "{f}:25: required operands in SBUF, as GpSimd cannot reach PSUM, for nki.isa.tensor_copy, found "
        "PSUM in src, psum [64, 32] float32 (made at {f}:22); copy it to SBUF, or choose another engine",
    ),
    "newer_chip_only": Case(
        lambda: (floats(128, 8),),
        doubled,
        "{f}:19: required Vector or GpSimd Engine on trn1 for nki.isa.tensor_scalar, found Scalar "
        "Engine; leave engine unset, or use nisa.activation",
        options={"generation": GENERATIONS["trn1"]},
    ),
    "spilled_tiles": Case(
        lambda: (floats(4, 2, 16384),),
        lambda x: x.sum(axis=0),
        "{f}:19: required tiles in SBUF that fit 229376 bytes per partition while they live, found "
        "262144 bytes at once: the compiler would spill 131072 bytes of all partitions, first of sbuf "
        "[2, 16384] float32 (made at {f}:19); use smaller tiles or reload what is needed later; without "
        "--strict spills are only counted",
        options={"strict": True},
    ),
}


def kernel(name: str, twin: str) -> Any:
    found = load_kernel(f"{FOLDER / name}.py:{twin}")
    cores = CASES[name].cores if name in CASES else 1
    return found[cores] if cores > 1 else found


def run(name: str, twin: str) -> Any:
    case = CASES[name]
    return nki.simulate(kernel(name, twin)).with_options(**case.options)(*case.make())


@pytest.mark.parametrize("name", CASES)
def test_the_mistake_is_found_and_told_in_full_in_one_line(name):
    with pytest.raises(KernelError) as error:
        run(name, "broken")
    assert str(error.value) == CASES[name].message.replace("{f}", str(FOLDER / f"{name}.py"))
    assert "\n" not in str(error.value)
    assert error.value.exit_code == 2


@pytest.mark.parametrize("name", CASES)
def test_the_corrected_kernel_gives_what_numpy_gives(name):
    case = CASES[name]
    arguments = case.make()
    expected = case.expected(*arguments)
    result = nki.simulate(kernel(name, "corrected")).with_options(**case.options)(*arguments)
    assert result.shape == expected.shape
    worst = np.abs(result.astype(np.float64) - expected).max()
    assert worst <= case.tolerance * np.abs(expected).max()


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.options])
def test_what_needs_an_option_to_be_found_runs_without_it(name):
    case = CASES[name]
    nki.simulate(kernel(name, "broken"))(*case.make())


def test_python_that_the_compiler_refuses_is_found_in_the_broken_kernel_alone():
    path = FOLDER / "refused_python.py"
    (finding,) = check_source(path.read_text(encoding="utf-8"), path.name)
    assert str(finding) == (
        "refused_python.py:19:8: in broken: required '==' or '!=', found 'scale is not None'; "
        "compare values; identity means nothing while tracing [identity-operator]"
    )
    x = floats(128, 8)
    for twin in ("broken", "corrected"):  # a simulator runs both
        assert (kernel("refused_python", twin)(x, 3.0) == 3 * x).all()


def test_every_pair_in_the_folder_is_held_here_and_described_on_its_page():
    files = {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.py")}
    assert set(files) == {*CASES, "refused_python"}
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    for name, source in files.items():
        first = source.partition("\n")[0].strip('"')
        assert f"| [`{name}`]({name}.py) | {first} |" in page

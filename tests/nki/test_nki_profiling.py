"""``twintrack.profile``: totals, what binds, what would help, two cores, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import profile_kernels as kernels
import pytest

import twintrack
from twintrack import nki
from twintrack.errors import KernelError
from twintrack.neuroncore.timing.parameters import parameters_of
from twintrack.nki.arrays import Shape
from twintrack.quantity import Provenance

OUT = Shape((128, 512))
WIDE = Shape((128, 65536), "bfloat16")
HERE = Path(__file__).resolve().parent


@pytest.fixture(autouse=True)
def no_chip(monkeypatch):
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)


@pytest.fixture(scope="module")
def made():
    return {
        "dma": twintrack.profile(kernels.pure_dma, WIDE, WIDE),
        "matmul": twintrack.profile(kernels.pure_matmul, OUT),
        "vector": twintrack.profile(kernels.pure_vector, OUT),
        "small": twintrack.profile(kernels.small_transfers, OUT),
    }


def test_it_is_exported_where_users_look_for_it():
    assert twintrack.profile is nki.profile


def test_importing_the_package_loads_no_room():
    code = "import sys, twintrack; print([n for n in sys.modules if n.startswith(('twintrack.', 'numpy'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "resource", "kind"),
    [
        ("dma", "dma_bandwidth", "dma"),
        ("matmul", "tensor", "tensor"),
        ("vector", "vector", "vector"),
        ("small", "dma_issue", "dma"),
    ],
)
def test_the_binding_resource_of_a_kernel_of_one_thing(made, name, resource, kind):
    profile = made[name]
    assert profile.binding.resource == resource
    assert profile.kind == kind
    assert "%" in profile.binding.why


def test_active_time_is_the_published_work_and_excludes_waiting(made):
    """400 products of 512 columns at 2.4 GHz, and what is lost to gaps and the limit after idleness."""
    profile = made["matmul"]
    p = parameters_of("trn2")
    work = 400 * (512 + p.tensor_gap) / p.tensor_ghz * 1e-9
    fill = p.tensor_fill / p.tensor_ghz / p.throttle_share * 1e-9
    expected = work + profile.throttled_seconds + fill
    assert profile.engines["tensor"].active_seconds == pytest.approx(expected, rel=1e-6)
    waited = sum(one.seconds for one in profile.waits if one.engine == "vector")
    assert waited > 0.9 * work
    assert profile.engines["vector"].active_seconds < 0.05 * work


def test_shares_are_active_times_over_the_whole(made):
    for profile in made.values():
        for use in (*profile.engines.values(), profile.dma):
            assert use.share == pytest.approx(use.active_seconds / profile.seconds)
            assert 0 <= use.share <= 1
        assert 0 <= profile.dma.busy_share <= profile.dma.share + 1e-9


def test_flops_and_bytes_are_those_of_the_shapes(made):
    assert made["matmul"].flops == 400 * 2 * 128 * 128 * 512
    dma = made["dma"]
    assert (dma.hbm_read_bytes, dma.hbm_written_bytes) == (WIDE.dims[1] * 256, WIDE.dims[1] * 256)
    assert dma.hbm_bytes == dma.dma.bytes == dma.sbuf_bytes
    assert dma.bandwidth_share == pytest.approx(dma.hbm_bytes / dma.seconds / 435e9)
    vector = made["vector"]
    elements = 128 * 8192
    assert vector.sbuf_bytes == 4 * (2 * elements + 100 * 3 * elements + 128 * 512)


def test_mfu_is_against_the_peak_that_is_named(made):
    profile = made["matmul"]
    assert profile.mfu == pytest.approx(profile.flops / profile.seconds / (profile.peak_tflops * 1e12))
    assert "bf16" in profile.peak_name


def test_lifting_a_limit_never_makes_a_kernel_of_one_thing_slower(made):
    for name in ("dma", "matmul", "vector", "small"):
        for one in made[name].what_if:
            assert one.saved >= -1e-9, (name, one)
            assert one.seconds == pytest.approx(made[name].seconds * (1 - one.saved))


def test_what_would_help_is_sorted_and_twice_the_rate_takes_half_the_work(made):
    profile = made["vector"]
    assert [one.seconds for one in profile.what_if] == sorted(one.seconds for one in profile.what_if)
    twice = next(one for one in profile.what_if if one.name == "vector")
    p = parameters_of("trn2")
    cycles = 100 * 2 * 8192 + 2 * 8192  # additions and two memsets
    assert profile.seconds - twice.seconds == pytest.approx(cycles / 2 / p.vector_ghz * 1e-9, rel=1e-6)


def test_limits_that_a_kernel_never_met_are_not_asked(made):
    found = {one.name for one in made["dma"].what_if}
    assert found == {"dma_bandwidth", "dma_descriptors", "dma_issue", "dma_latency"}


def test_without_what_if_it_is_timed_once():
    profile = twintrack.profile(kernels.pure_matmul, OUT, what_if=False)
    assert profile.what_if == ()
    assert profile.binding.resource == "tensor"


def test_a_time_is_simulated_and_carries_the_error_of_its_kind(made):
    for profile in made.values():
        assert profile.time.kind is Provenance.SIMULATED
        assert profile.time.error == profile.error
        assert profile.quantity(1.0).error == profile.error


def test_arrays_stand_for_their_shapes():
    shapes = twintrack.profile(kernels.pure_matmul, OUT, what_if=False)
    arrays = twintrack.profile(kernels.pure_matmul, np.full((128, 512), 7, np.float32), what_if=False)
    assert arrays.seconds == shapes.seconds


def test_the_core_that_waits_takes_as_long_as_the_one_it_waits_for():
    """Each core is late at one barrier: both durations lie in the total, which no single core explains."""
    x = Shape((256, 512))
    twice = twintrack.profile(kernels.two_cores, x, lnc=2, what_if=False)
    never = twintrack.profile(kernels.two_cores, x, lnc=2, what_if=False, settings={"barriers": 1})
    assert twice.cores == 2
    work = 20 * (2 * 512 + parameters_of("trn2").vector_fixed) / 0.96 * 1e-9
    assert never.seconds > work
    assert twice.seconds > 2 * work
    reasons = [{wait.reason for wait in twice.waits if wait.engine == "gpsimd"}]
    assert "barrier" in reasons[0]


def test_what_if_the_cores_never_waited_takes_less():
    profile = twintrack.profile(kernels.two_cores, Shape((256, 512)), lnc=2)
    alone = next(one for one in profile.what_if if one.name == "meetings")
    assert alone.saved > 0.2


def test_exchanges_of_one_pipe_meet_whatever_lies_between():
    """Core 1 is late at pipe 0 only: core 0 waits for it there, and its exchange by pipe 1 does not."""
    profile = twintrack.profile(kernels.crossed_pipes, Shape((128, 512)), lnc=2, what_if=False)
    work = 20 * 2 * 512 / parameters_of("trn2").vector_ghz * 1e-9
    first, second = [
        [
            span.start * 1e-9
            for step, span in zip(one.trace.steps, one.spans, strict=True)
            if step.opcode == "sendrecv"
        ]
        for one in profile.timelines
    ]
    assert first[0] > work  # core 0, pipe 0
    assert second[1] > work  # core 1, pipe 0
    assert second[0] < work / 2  # core 1, pipe 1
    assert first[1] < work / 2


def test_two_cores_that_load_at_once_share_the_bandwidth():
    x = Shape((256, 65536), "bfloat16")
    both = twintrack.profile(kernels.both_load, x, lnc=2, what_if=False)
    p = parameters_of("trn2")
    assert both.dma.gigabytes_per_second == pytest.approx(p.dma_core_rate_shared, rel=0.08)


def test_another_process_with_another_hash_seed_gives_the_same_picoseconds():
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import twintrack, profile_kernels as k\n"
        "from twintrack.nki.arrays import Shape\n"
        "from twintrack.neuroncore.timing.chrome_trace import chrome_trace\n"
        "p = twintrack.profile(k.two_cores, Shape((256, 512)), lnc=2)\n"
        "print(p.seconds.hex(), [w.seconds.hex() for w in p.what_if], [w.line for w in p.waits])\n"
        "print(chrome_trace(p)['traceEvents'])"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code, str(HERE)],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1"},
        ).stdout
        for seed in ("1", "4711")
    }
    assert len(found) == 1


def test_an_empty_kernel_has_no_time():
    with pytest.raises(KernelError, match="issues instructions"):
        twintrack.profile(kernels.empty, Shape((128, 512)))


def test_a_chip_without_published_figures_is_unknown():
    with pytest.raises(KernelError, match="unknown"):
        twintrack.profile(kernels.pure_matmul, OUT, chip="trn3")
    with pytest.raises(KernelError, match="a chip among"):
        twintrack.profile(kernels.pure_matmul, OUT, chip="trn9")


def test_a_kernel_that_does_not_run_gives_the_error_of_its_line():
    with pytest.raises(KernelError, match=r"profile_kernels\.py:\d+: required src written before"):
        twintrack.profile(kernels.broken, Shape((128, 512)))


@pytest.mark.parametrize(("kernel", "lnc"), [(3, None), (kernels.pure_matmul, 3)])
def test_what_is_no_kernel_or_no_number_of_cores_is_refused(kernel, lnc):
    with pytest.raises(KernelError):
        twintrack.profile(kernel, OUT, lnc=lnc)


def test_programs_of_a_larger_grid_follow_each_other():
    one = twintrack.profile(nki.jit(kernels.pure_matmul), OUT, what_if=False)
    four = twintrack.profile(nki.jit(kernels.pure_matmul)[4], OUT, what_if=False)
    assert four.programs == 4
    assert four.seconds == pytest.approx(4 * one.seconds)
    assert four.starts == pytest.approx([0, one.seconds, 2 * one.seconds, 3 * one.seconds])
    assert any("one after the other" in note for note in four.notes)


@pytest.mark.parametrize("name", ["what_if", "extrapolate", "drop_reloads"])
@pytest.mark.parametrize("value", ["no", 1, None])
def test_a_switch_is_true_or_false(name, value):
    with pytest.raises(KernelError, match="True or False"):
        twintrack.profile(kernels.pure_vector, OUT, **{name: value})


@pytest.mark.parametrize(
    ("options", "message"),
    [({"chip": 2}, "chip"), ({"lnc": True}, "1 or 2 cores"), ({"lnc": 1.0}, "1 or 2 cores")],
)
def test_a_chip_is_named_and_cores_are_counted(options, message):
    with pytest.raises(KernelError, match=message):
        twintrack.profile(kernels.pure_vector, OUT, **options)

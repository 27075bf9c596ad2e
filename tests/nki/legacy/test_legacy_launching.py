"""How kernels of the dialect until 2.26 are launched: grids, decorators, what comes back."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from twintrack.errors import KernelError
from twintrack.nki import legacy as nki
from twintrack.nki.installing import installed
from twintrack.nki.legacy import language as nl
from twintrack.nki.legacy.typing import tensor

_RNG = np.random.default_rng(0)


@nki.jit
def _programs(a: tensor[4, 2, 1, 3]) -> tensor:
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    i, j = nl.program_id(0), nl.program_id(1)
    assert nl.program_ndim() == 2
    assert nl.num_programs() == 8
    assert nl.num_programs(1) == 2
    nl.store(out[i, j], nl.multiply(nl.load(a[i, j]), float(10 * i + j)))
    return out


@pytest.mark.parametrize("rows", [4, nl.nc(2) * 2, 2 * nl.nc(2), nl.spmd_dim(nl.nc(2), 2)])
def test_programs_of_a_grid_write_one_output(rows: int) -> None:
    data = _RNG.random((4, 2, 1, 3), np.float32)
    factors = (10 * np.arange(4)[:, None] + np.arange(2)).reshape(4, 2, 1, 1)
    assert np.allclose(_programs[rows, 2](data), data * factors)


def test_a_grid_of_two_is_lnc2() -> None:
    @nki.jit
    def kernel(a: Any) -> Any:
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        i = nl.program_id(0)
        nl.store(out[i], nl.load(a[i]) + 1.0)
        return out

    data = _RNG.random((2, 8, 4), np.float32)
    assert np.allclose(kernel[2](data), data + 1)
    assert np.allclose(kernel[nl.nc(2)](data), data + 1)
    assert np.allclose(kernel[0](data[:1]), data[:1] + 1)  # one program


def _writes(a: Any, b: Any) -> None:
    nl.store(b[0:8], nl.load(a[0:8]) * 2.0)


@pytest.mark.parametrize("kernel", [_writes, nki.trace(_writes), nki.jit(_writes, mode="simulation")])
def test_simulate_kernel_writes_to_the_callers_array(kernel: Any) -> None:
    a, b = _RNG.random((8, 4), np.float32), np.zeros((8, 4), np.float32)
    assert nki.simulate_kernel(kernel, a, b) is None
    assert np.array_equal(b, a * 2)


def test_a_kernel_is_decorated_again_with_other_options() -> None:
    again = nki.jit(_programs, mode="simulation", platform_target="trn1")
    assert again.chip == "trn1"
    assert again.plain is _programs.plain


def _double(a: Any) -> Any:
    return nl.load(a) * 2.0


def test_kernels_for_a_device_run_and_say_that_they_are_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    a = _RNG.random((8, 4), np.float32)
    for kernel in (
        nki.baremetal()(_double),
        nki.baremetal(_double),
        nki.profile(working_directory="/nowhere", profile_nth=2)(_double),
        nki.benchmark(warmup=1, iters=2)(nki.jit(_double)),
    ):
        assert np.array_equal(kernel(a), a * 2)
        assert "simulated, without a device" in capsys.readouterr().err


def test_latencies_of_a_benchmark_are_simulated_and_told_with_their_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)
    kernel = nki.benchmark(warmup=1, iters=2)(_double)
    with pytest.raises(KernelError, match="not run yet"):
        kernel.benchmark_result.nc_latency.get_latency_percentile(50)
    kernel(np.ones((8, 4), np.float32))
    latency = kernel.benchmark_result.nc_latency
    assert latency.get_latency_percentile(50) == latency.get_latency_percentile(99)
    assert latency.get_latency_percentile(50) == latency.profile.seconds * 1e6 > 1
    said = capsys.readouterr().err
    assert "simulated, without a device" in said
    assert "µs (−" in said


@pytest.mark.parametrize("timed", [nki.benchmark, nki.profile(working_directory="w"), nki.baremetal])
def test_a_timed_kernel_takes_an_input_told_by_shape_and_type(timed: Any) -> None:
    """As the vendor's profiling example calls it; ``tensor[[250, 512], nl.float32]`` is no array."""

    def loaded(a: Any) -> Any:
        return nl.load(a)

    out = timed(loaded)(tensor[[8, 4], nl.bfloat16])
    assert out.shape == (8, 4)
    assert out.dtype == ml_dtypes.bfloat16
    assert not out.any()
    assert timed(loaded)(tensor[(2, 3), nl.float32]).shape == (2, 3)
    with pytest.raises(KernelError, match="a type that NKI has, found int64"):
        timed(loaded)(tensor[[8, 4], "int64"])


def test_as_an_annotation_a_tensor_takes_anything() -> None:
    assert tensor[8, 4] is tensor[8] is tensor[[8, 4]] is tensor
    assert tensor[[8, 4], nl.float32].shape == (8, 4)


def test_latencies_on_a_chip_without_published_timing_are_unknown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn3")
    kernel = nki.benchmark(_double)
    assert kernel(np.ones((8, 4), np.float32))[0, 0] == 2
    assert "no published timing of trn3" in capsys.readouterr().err
    with pytest.raises(KernelError, match="unknown"):
        kernel.benchmark_result.nc_latency.get_latency_percentile(50)


def test_a_returned_tile_on_chip_comes_back() -> None:
    a = _RNG.random((8, 4), np.float32)
    assert np.array_equal(nki.jit(_double)(a), a * 2)


def test_elements_of_an_output_that_nothing_wrote_are_nan() -> None:
    """Undefined, as the programming guide of 2.26 shows; an output of which nothing was written is an error."""

    @nki.jit
    def kernel(a: Any, some: Any) -> Any:
        out = nl.ndarray((8, 4), dtype=a.dtype, buffer=nl.shared_hbm)
        if some:
            nl.store(out[0:4], nl.load(a[0:4]))
        return out

    a = _RNG.random((8, 4), np.float32)
    found = kernel(a, True)
    assert np.array_equal(found[:4], a[:4])
    assert np.isnan(found[4:]).all()
    with pytest.raises(KernelError, match="wholly written"):
        kernel(a, False)


def test_torch_tensors_come_back_as_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    a = torch.arange(32, dtype=torch.bfloat16).reshape(8, 4)

    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray((16, 2), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out.reshape((8, 4)), nl.load(x))  # a view of what is returned
        return out

    found = kernel(a)
    assert found.dtype == torch.bfloat16
    assert torch.equal(found, a.reshape(16, 2))


def test_a_kernel_called_by_a_kernel_is_a_plain_function() -> None:
    @nki.jit
    def outer(a: Any) -> Any:
        tile = nki.jit(_double)(a)
        assert tile.storage.buffer.on_chip
        return tile + 1.0

    a = _RNG.random((8, 4), np.float32)
    assert np.array_equal(outer(a), a * 2 + 1)


def test_the_modules_are_found_under_their_names() -> None:
    with installed():
        import neuronxcc.nki as found
        import neuronxcc.nki.compiler as ncc
        import neuronxcc.nki.isa as nisa
        import neuronxcc.nki.language as language
        from neuronxcc.nki.compiler.sbuf import mod_alloc
        from neuronxcc.nki.isa.constants import dge_mode

        assert found.jit is nki.jit
        assert language is nl
        assert nisa.dge_mode is dge_mode
        assert ncc.sbuf.mod_alloc is mod_alloc

"""A kernel can ask for which NeuronCore it is run."""

from __future__ import annotations

import numpy as np
import pytest

from twintrack import nki
from twintrack.neuroncore.memory.generation import GENERATIONS
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl


@pytest.mark.parametrize(
    ("chip", "version"), [("trn1", "gen2"), ("inf2", "gen2"), ("trn2", "gen3"), ("trn3", "gen4")]
)
def test_the_version_is_that_of_the_running_core_and_outside_a_kernel_that_of_the_environment(
    chip, version, monkeypatch
):
    seen = []

    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        nisa.dma_copy(out, x)
        seen.append((nisa.get_nc_version(), nisa.get_nc_sub_version()))
        return out

    nki.simulate(kernel).with_options(generation=GENERATIONS[chip])(np.ones((4, 4), np.float32))
    assert seen == [(nisa.nc_version[version], 0)]
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", chip)
    assert nisa.get_nc_version() is nisa.nc_version[version]
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE")
    assert nisa.get_nc_version() is nisa.nc_version.gen3


def test_generations_are_ordered() -> None:
    gen2, gen3, gen4 = nisa.nc_version.gen2, nisa.nc_version.gen3, nisa.nc_version.gen4
    assert gen2 < gen3 < gen4
    assert gen4 >= gen3 >= gen3
    assert not gen2 >= gen3
    with pytest.raises(TypeError):
        assert gen2 < 3

"""The software Trainium2 as a track: programs, misses and their reasons, host operators, the limit on recompiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from twintrack.clock import SystemClock
from twintrack.errors import CatalogueError, RecompileLimit, TrackError, UnsupportedOperator
from twintrack.events import CompileDone, Coverage, Event, ProgramCost
from twintrack.hardware import load_catalogue
from twintrack.job.records import Parallel
from twintrack.storage import LocalFileSystem
from twintrack.tracks import Services, Settings
from twintrack.tracks.trn2 import SoftwareTrainium, Trn2Track


class Events(list[Event]):
    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self if isinstance(event, kind)]


def opened(cache: Path, events: Events | None = None, **changes: Any) -> SoftwareTrainium:
    values: dict[str, Any] = {
        "compute": "bf16",
        "rounding": "nearest-even",
        "seed": 0,
        "instance": "trn2.48xlarge",
        "logical_cores": 2,
        "allow_host": False,
        "parallel": Parallel(),
    }
    found = Events() if events is None else events
    services = Services(found.append, SystemClock(), LocalFileSystem(), cache)
    return Trn2Track().open(Settings(**{**values, **changes}), services)


def product(x: Tensor, y: Tensor) -> Tensor:
    return x @ y


def matrices(rows: int = 4) -> tuple[Tensor, Tensor]:
    return torch.ones(rows, 8, dtype=torch.bfloat16), torch.ones(8, 2, dtype=torch.bfloat16)


def test_a_program_is_captured_once_and_found_by_the_next_process(tmp_path: Path) -> None:
    events = Events()
    first = opened(tmp_path, events).compile("product", product)
    first(*matrices(), invocation=0)
    first(*matrices(), invocation=1)
    second = opened(tmp_path, events).compile("product", product)
    result = second(*matrices(), invocation=0)

    assert [event.warm for event in events.of(CompileDone)] == [False, True]
    assert torch.equal(result, torch.full((4, 2), 8.0, dtype=torch.bfloat16))


@pytest.mark.parametrize(
    ("changes", "arguments", "key", "part"),
    [
        ({}, matrices(5), {}, "shapes"),
        ({}, (matrices()[0].float(), matrices()[1].float()), {}, "dtypes"),
        ({"rounding": "stochastic"}, matrices(), {}, "rounding"),
        ({"allow_host": True}, matrices(), {}, "flags"),
        ({}, matrices(), {"model source": "b"}, "model source"),
    ],
    ids=["shapes", "dtypes", "rounding", "flags", "model source"],
)
def test_a_miss_names_the_part_that_differs(
    changes: dict[str, Any], arguments: tuple[Tensor, Tensor], key: dict[str, str], part: str, tmp_path: Path
) -> None:
    base = {"model source": "a"}
    opened(tmp_path).compile("product", product, key=base)(*matrices(), invocation=0)
    events = Events()
    opened(tmp_path, events, **changes).compile("product", product, key={**base, **key})(
        *arguments, invocation=0
    )

    (event,) = events.of(CompileDone)
    assert not event.warm
    assert part in event.reason


def test_warm_up_first_use_and_recompiles_are_told_apart(tmp_path: Path) -> None:
    events = Events()
    track = opened(tmp_path, events)
    early, late = track.compile("early", product), track.compile("late", product)
    early(*matrices(1), invocation=0)
    track.warmed_up()
    late(*matrices(1), invocation=0)
    early(*matrices(2), invocation=0)

    assert [event.during for event in events.of(CompileDone)] == ["warmup", "first_use", "later"]


def test_too_many_programs_for_one_function_are_an_error_that_names_what_varied(tmp_path: Path) -> None:
    run = opened(tmp_path).compile("product", product)

    def many_shapes() -> None:
        for rows in range(1, 20):
            run(*matrices(rows), invocation=rows)

    with pytest.raises(RecompileLimit, match="shapes"):
        many_shapes()


def running_sum(x: Tensor) -> Tensor:
    return torch.cumsum(x * 2, 0)


def test_an_operator_without_a_rule_is_an_error_with_its_line_or_is_counted(tmp_path: Path) -> None:
    x = torch.tensor([1.0, 2.0, 3.0])
    with pytest.raises(UnsupportedOperator, match=r"test_trn2\.py:\d+: .*aten\.cumsum"):
        opened(tmp_path).compile("sum", running_sum)(x, invocation=0)
    events = Events()

    result = opened(tmp_path, events, allow_host=True).compile("sum", running_sum)(x, invocation=0)

    assert result.tolist() == [2.0, 6.0, 12.0]
    (coverage,) = events.of(Coverage)
    assert (coverage.operators, coverage.operators_under_rules) == (2, 1)
    assert coverage.flops_under_rules < coverage.flops
    assert ["aten.cumsum" in name for name in coverage.host_operators] == [True]


def test_a_failed_capture_is_not_an_answer(tmp_path: Path) -> None:
    """The next process tries again, and fails again; nothing was stored."""
    for _ in range(2):
        track = opened(tmp_path)
        with pytest.raises(UnsupportedOperator):
            track.compile("sum", running_sum)(torch.ones(3), invocation=0)
        assert track.cache.entries() == []


@pytest.mark.parametrize("cores", [1, 2])
def test_bound_and_estimate_follow_from_the_catalogue_by_hand(cores: int, tmp_path: Path) -> None:
    """A product too large to be bound by memory: 2 M N K over the peak; its bytes over the bandwidth are less."""
    events = Events()
    size = 1024
    x = torch.ones(size, size, dtype=torch.bfloat16)
    opened(tmp_path, events, logical_cores=cores).compile("product", product)(x, x, invocation=0)

    (cost,) = events.of(ProgramCost)
    core = load_catalogue().chip("trainium2").logical_core(cores)
    peak, bandwidth = core.tensor_peak("bf16").require(), core.hbm_bandwidth_byte_per_s.require()
    flops, nbytes = 2 * size**3, 3 * size * size * 2
    assert cost.flops == cost.matmul_flops == flops
    assert cost.boundary_bytes == cost.operator_bytes == nbytes
    assert cost.bound_seconds == pytest.approx(max(flops / peak, nbytes / bandwidth))
    assert cost.unfused_seconds == pytest.approx(cost.bound_seconds)
    assert f"LNC {cores}" in cost.conditions


def test_an_instance_without_trainium_and_an_unknown_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TrackError, match=r"p5\.48xlarge with h100"):
        opened(tmp_path, instance="p5.48xlarge")
    with pytest.raises(CatalogueError, match=r"trn2\.48xlarge"):
        opened(tmp_path, instance="trn2.48xlrge")


def test_stochastic_rounding_depends_on_seed_and_call_number_alone(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = (
        torch.randn(64, 64, generator=generator).bfloat16(),
        torch.randn(64, 64, generator=generator).bfloat16(),
    )

    def run(seed: int, invocation: int) -> Tensor:
        track = opened(tmp_path, rounding="stochastic", seed=seed)
        result: Tensor = track.compile("product", product)(x, y, invocation=invocation)
        return result

    assert torch.equal(run(1, 7), run(1, 7))
    assert not torch.equal(run(1, 7), run(1, 8))
    assert not torch.equal(run(1, 7), run(2, 7))


def test_products_in_less_than_float32_are_refused(tmp_path: Path) -> None:
    torch.set_float32_matmul_precision("medium")
    try:
        with pytest.raises(TrackError, match="precision 'medium'"):
            opened(tmp_path)
    finally:
        torch.set_float32_matmul_precision("highest")

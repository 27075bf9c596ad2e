"""Track ``trn2``: the software Trainium2. A function is captured once into the IR, or loaded from the cache, and its
program is executed under Trainium's number rules."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, Literal

import numpy
import peft
import torch
import transformers
from torch import Tensor, nn

import twintrack
import twintrack.compiler.hostcall
import twintrack.compiler.ir
import twintrack.compiler.operators
import twintrack.torch.builder
import twintrack.torch.calls
import twintrack.torch.capture
import twintrack.torch.convert
import twintrack.torch.emitter
import twintrack.torch.lines
import twintrack.torch.movement
import twintrack.torch.regions
import twintrack.torch.trees
from twintrack.compiler.cache import CacheKey, CompileCache, Hit, RecompileCounter, RecompilePolicy
from twintrack.compiler.cost import (
    Limits,
    Work,
    bound_seconds,
    boundary_bytes,
    measure_work,
    unfused_seconds,
)
from twintrack.compiler.execute import Executor
from twintrack.compiler.ir import FORMAT, Program
from twintrack.compiler.recompile import FIRST
from twintrack.compiler.verify import verify
from twintrack.errors import TrackError
from twintrack.events import CompileDone, Coverage, ProgramCost
from twintrack.hardware import load_catalogue
from twintrack.numerics.rounding import NearestEven, Rounding, Stochastic
from twintrack.torch.capture import capture
from twintrack.torch.trees import flatten, rebuild
from twintrack.tracks.base import NumberRules, Services, Settings, refuse_plan
from twintrack.tracks.cpu import processor_facts
from twintrack.tracks.eager import peak_resident_bytes

__all__ = ["SoftwareTrainium", "Trn2Track"]

DEFAULT_CACHE_BYTES = 2 << 30


def rounding_of(settings: Settings) -> Rounding:
    """The rounding that the settings name."""
    return Stochastic(settings.seed) if settings.rounding == "stochastic" else NearestEven()


def limits_of(settings: Settings) -> Limits:
    """Peaks of one logical core of the instance's chip, from the catalogue.

    Raises:
        CatalogueError: if the instance is unknown.
        TrackError: if its chip is not a Trainium, or the catalogue lacks a figure.
    """
    catalogue = load_catalogue()
    chip = catalogue.chip(catalogue.instance(settings.instance).chip)
    if not chip.name.startswith("trainium"):
        raise TrackError(
            "an instance with Trainium chips for track 'trn2'",
            found=f"{settings.instance} with {chip.name}",
            where="tracks.instance",
            remedy="choose one, such as trn2.48xlarge",
        )
    core = chip.logical_core(settings.logical_cores)
    peaks = {
        ours: float(core.tensor_peak(theirs).require())
        for ours, theirs in (("bf16", "bf16"), ("f32", "fp32"))
    }
    return Limits(peaks, float(core.hbm_bandwidth_byte_per_s.require()), core.tensor_peak("bf16").conditions)


class Trn2Track:
    """The software Trainium2; every machine has it."""

    name = "trn2"

    def absence(self) -> str | None:
        """Never absent."""
        return None

    def check(self, settings: Settings) -> None:
        """Refuse what it cannot do.

        Raises:
            TrackError: for a plan of several devices, or an instance without Trainium chips.
            CatalogueError: if the instance is unknown.
        """
        refuse_plan(self.name, settings)
        limits_of(settings)

    def open(self, settings: Settings, services: Services) -> SoftwareTrainium:
        """Begin to use it.

        Raises:
            TrackError: if the parallel plan needs more than one device.
            CatalogueError: if the instance is unknown.
            CacheError: if the compile cache cannot be used.
        """
        self.check(settings)
        return SoftwareTrainium(settings, services, rounding_of(settings))


class SoftwareTrainium:
    """One logical NeuronCore in software: values under its number rules, no time.

    Args:
        settings: of the job.
        services: of the process.
        rounding: how float32 results become narrower; tests pass wrong ones.
    """

    name = "trn2"

    def __init__(self, settings: Settings, services: Services, rounding: Rounding) -> None:
        if torch.get_float32_matmul_precision() != "highest":
            raise TrackError(
                "float32 matrix products in float32",
                found=f"precision '{torch.get_float32_matmul_precision()}'",
                where="torch.set_float32_matmul_precision",
                remedy="set it to 'highest'",
            )
        self.device = torch.device("cpu")
        self.rules = NumberRules(
            settings.dtype,
            "eager",
            f"Trainium's number rules on a CPU: {settings.compute} operands, float32 accumulation, one rounding"
            f" ({rounding.name}) at the end of each operator",
        )
        self.settings = settings
        self.services = services
        self.rounding = rounding
        self.limits = limits_of(settings)
        self.cache = CompileCache(
            services.cache_root / "programs", services.fs, services.clock, max_bytes=DEFAULT_CACHE_BYTES
        )
        self.recompiles = RecompileCounter(RecompilePolicy())
        self.warm = False

    def compile(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        layers: Sequence[nn.Module] = (),
        key: Mapping[str, str] | None = None,
    ) -> Callable[..., Any]:
        """A callable that captures the function, or loads its program, when it first meets arguments of some shapes.

        Raises:
            UnsupportedOperator: at that call, naming operator and model line.
            RecompileLimit: at that call, if the function has needed too many programs.
        """
        return _Compiled(self, name, function, layers, dict(key or {}))

    def warmed_up(self) -> None:
        """Programs needed from now on are recompiles."""
        self.warm = True

    def synchronize(self) -> None:
        """Everything is done when a call returns."""

    def peak_memory(self) -> tuple[int, str]:
        """Largest resident set of this process: of the software, not of a Trainium."""
        return peak_resident_bytes(), "largest resident set of the process, not memory of a Trainium"

    def facts(self) -> dict[str, str]:
        """The machine that emulates, and what is emulated."""
        return {**processor_facts(), "emulates": f"{self.settings.instance}, {self.limits.conditions}"}


class _Ready:
    """A program with its executor."""

    def __init__(self, program: Program, rounding: Rounding) -> None:
        self.program = program
        self.executor = Executor(program, rounding)


class _Compiled:
    """A function on the software Trainium2; one program per set of shapes."""

    def __init__(
        self,
        track: SoftwareTrainium,
        name: str,
        function: Callable[..., Any],
        layers: Sequence[nn.Module],
        key: dict[str, str],
    ) -> None:
        self._track, self._name, self._function = track, name, function
        self._layers, self._key = layers, key
        self._ready: dict[tuple[Any, ...], _Ready] = {}

    def __call__(self, *arguments: Any, invocation: int) -> Any:
        leaves = flatten(list(arguments))
        signature = tuple((path, tensor.dtype, tensor.shape) for path, tensor in leaves)
        ready = self._ready.get(signature)
        if ready is None:
            ready = self._ready[signature] = self._prepare(arguments, leaves)
        outputs = ready.executor.run([tensor for _, tensor in leaves], invocation=invocation)
        return rebuild(ready.program.result, outputs)

    def _prepare(self, arguments: Sequence[Any], leaves: list[tuple[str, Tensor]]) -> _Ready:
        """Load the program or capture it; one process captures, the others wait and load."""
        track, clock = self._track, self._track.services.clock
        key = CacheKey(self._name, {**self._key, **_argument_parts(leaves), **self._track_parts()})
        during: Literal["warmup", "first_use", "later"] = "warmup"
        if track.warm:
            during = "later" if self._ready else "first_use"
        needed = track.recompiles.record(key, during)
        begin = clock.monotonic()
        captured = 0.0
        with track.cache.lock(key):
            found = track.cache.get(key)
            if isinstance(found, Hit):
                program = Program.from_json(found.payload)
                verify(program)
                reason, spent = _told(needed, "found in the cache"), float(found.meta["capture_seconds"])
            else:
                start = clock.monotonic()
                program = capture(
                    self._name,
                    self._function,
                    arguments,
                    layers=self._layers,
                    allow_host=track.settings.allow_host,
                )
                spent = captured = clock.monotonic() - start
                reason = _told(needed, "" if found.differing else found.reason) or found.reason
                track.cache.put(key, program.to_json(), {"capture_seconds": spent})
        ready = _Ready(program, track.rounding)
        work = measure_work(program)
        track.services.emit(
            CompileDone(
                program=self._name,
                key=key.digest,
                warm=isinstance(found, Hit),
                during=during,
                reason=reason,
                capture_seconds=spent,
                load_seconds=clock.monotonic() - begin - captured,
                operators=sum(len(f.body) for f in program.functions.values()),
            )
        )
        self._report(program, work)
        return ready

    def _report(self, program: Program, work: Work) -> None:
        emit, limits = self._track.services.emit, self._track.limits
        emit(
            Coverage(
                program=self._name,
                flops=work.total_flops,
                flops_under_rules=work.total_flops - work.host_flops,
                operators=work.operators,
                operators_under_rules=work.operators - sum(work.host.values()),
                host_operators=dict(work.host),
            )
        )
        emit(
            ProgramCost(
                program=self._name,
                flops=work.total_flops,
                matmul_flops=work.matmul_flops,
                operator_bytes=work.operator_bytes,
                boundary_bytes=boundary_bytes(program),
                bound_seconds=bound_seconds(program, work, limits),
                unfused_seconds=unfused_seconds(work, limits),
                conditions=limits.conditions,
                by_operator=dict(work.flops),
                counts=dict(work.counts),
            )
        )

    def _track_parts(self) -> dict[str, str]:
        settings = self._track.settings
        return {
            "rounding": self._track.rounding.name,
            "flags": f"allow_host={settings.allow_host}",
            "versions": f"twintrack {twintrack.__version__}, IR {FORMAT}, torch {torch.__version__},"
            f" transformers {transformers.__version__}, peft {peft.__version__}, numpy {numpy.__version__}",
            "capture source": source_digest(
                twintrack.compiler.hostcall,
                twintrack.compiler.ir,
                twintrack.compiler.operators,
                twintrack.torch.builder,
                twintrack.torch.calls,
                twintrack.torch.capture,
                twintrack.torch.convert,
                twintrack.torch.emitter,
                twintrack.torch.lines,
                twintrack.torch.movement,
                twintrack.torch.regions,
                twintrack.torch.trees,
            ),
        }


def _told(needed: str, cache: str) -> str:
    """Reason of a program: for one that is not its function's first, why it is needed, then what the cache had."""
    if needed == FIRST:
        return cache
    return f"{needed}; {cache}" if cache else needed


def source_digest(*modules: ModuleType) -> str:
    """A digest of the source text of some modules, short enough for messages."""
    digest = hashlib.sha256()
    for module in modules:
        digest.update(inspect.getsource(module).encode())
    return digest.hexdigest()[:16]


def _argument_parts(leaves: list[tuple[str, Tensor]]) -> dict[str, str]:
    """Shapes and dtypes: those of single arguments in words, those of many named tensors as a digest."""

    def describe(item: Callable[[Tensor], str]) -> str:
        digest = hashlib.sha256("\n".join(f"{path} {item(t)}" for path, t in leaves).encode()).hexdigest()[
            :16
        ]
        few = [f"{path.split('/', 1)[-1]} {item(t)}" for path, t in leaves if "." not in path]
        return f"{', '.join(few)}; all {len(leaves)} tensors {digest}"

    return {
        "shapes": describe(lambda t: "x".join(map(str, t.shape)) or "scalar"),
        "dtypes": describe(lambda t: str(t.dtype).removeprefix("torch.")),
    }

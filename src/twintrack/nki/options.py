"""``Options``: how a kernel is run, and the environment variables that say so."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from twintrack.errors import KernelError, nearest
from twintrack.neuroncore.emulator.core import MOST_ITERATIONS, Checks
from twintrack.neuroncore.emulator.shortened import Shortened
from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.memory.generation import GENERATIONS, Generation

__all__ = ["Options", "changed", "options_from_environment"]


@dataclass(frozen=True, slots=True)
class Options:
    """How a kernel is run.

    Args:
        generation: whose NeuronCore, or the name of a chip.
        checks: how much is checked, or its name: ``off``, ``fast`` or ``all``.
        values: whether values are computed; without them arguments may be shapes.
        precise: whether narrow floats are rounded.
        strict: whether spills and branches on a comparison of tiles are refused.
        trip_counts: iterations of loops whose bounds are not known without values.
        sink: is given every instruction of every core.
        default_chip: whether the chip was chosen for want of another choice.
        shortened: where not all iterations of outermost affine loops are to run, those that did; for extrapolation.
        most_iterations: after which a loop on the device counts as one that never ends.

    Raises:
        KernelError: naming the option whose value is of another kind.
    """

    generation: Generation
    checks: Checks = Checks.FAST
    values: bool = True
    precise: bool = True
    strict: bool = False
    trip_counts: Mapping[str, int] | None = None
    sink: Callable[[int, Instruction], None] | None = None
    default_chip: bool = False
    shortened: Shortened | None = None
    most_iterations: int = MOST_ITERATIONS

    def __post_init__(self) -> None:
        object.__setattr__(self, "generation", _generation(self.generation))
        object.__setattr__(self, "checks", _checks(self.checks))
        for name in ("values", "precise", "strict", "default_chip"):
            if not isinstance(getattr(self, name), bool):
                raise _wrong(name, "True or False", getattr(self, name), "pass one of them")
        counts = self.trip_counts
        if counts is not None and not _are_counts(counts):
            raise _wrong(
                "trip_counts",
                "iterations from 0 by file:line of the loop",
                counts,
                'pass a dictionary such as {"kernel.py:41": 8}, or {"": 8} for all loops',
            )
        if self.sink is not None and not callable(self.sink):
            raise _wrong("sink", "a function of a core and an instruction", self.sink, "pass one, or None")
        if self.shortened is not None and (self.values or not isinstance(self.shortened, Shortened)):
            raise _wrong("shortened", "None where values are computed", self.shortened, "run without values")
        if not _is_count(self.most_iterations, 1):
            raise _wrong("most_iterations", "an integer from 1", self.most_iterations, "pass one")


def _checks(value: object) -> Checks:
    try:
        if isinstance(value, str):
            return Checks(value)
    except ValueError:
        pass
    names = [one.value for one in Checks]
    raise _wrong("checks", f"one of {', '.join(names)}", value, "pass nki.Checks.ALL, or its name")


def _generation(value: object) -> Generation:
    found = GENERATIONS.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(found, Generation):
        raise _wrong(
            "generation", f"a chip among {', '.join(GENERATIONS)}", value, "name one of them as a string"
        )
    return found


def _are_counts(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(key, str) and _is_count(one, 0) for key, one in value.items()
    )


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _wrong(name: str, required: str, found: object, remedy: str) -> KernelError:
    return KernelError(required, found=repr(found)[:80], where=f"option {name}", remedy=remedy)


def changed(options: Options, **changes: Any) -> Options:
    """The options with some of them changed.

    Raises:
        KernelError: if an option is unknown, or its value of another kind.
    """
    known = [one.name for one in fields(Options)]
    for name in changes:
        if name not in known:
            raise KernelError(
                f"an option among {', '.join(known)}",
                found=name,
                where="with_options",
                remedy=nearest(name, known) or "name one of them",
            )
    if "generation" in changes:
        changes.setdefault("default_chip", False)
    return replace(options, **changes)


def options_from_environment(
    environment: Mapping[str, str] | None = None, chip: str | None = None
) -> Options:
    """The documented environment variables, read at each run.

    ``NEURON_PLATFORM_TARGET_OVERRIDE`` names the chip (trn2 where unset), ``NKI_PRECISE_FP=0`` keeps narrow floats
    unrounded. Both count as unset where they are empty.

    Args:
        environment: ``os.environ`` where ``None``.
        chip: goes before the environment's.

    Raises:
        KernelError: if the chip is unknown, or ``NKI_PRECISE_FP`` is neither 0 nor 1.
    """
    found = os.environ if environment is None else environment
    name = chip or found.get("NEURON_PLATFORM_TARGET_OVERRIDE") or ""
    if name and (not isinstance(name, str) or name.lower() not in GENERATIONS):
        raise KernelError(
            f"a chip among {', '.join(GENERATIONS)}",
            found=repr(name),
            where="chip" if chip else "NEURON_PLATFORM_TARGET_OVERRIDE",
            remedy="name one of them",
        )
    precise = found.get("NKI_PRECISE_FP") or "1"
    if precise not in ("0", "1"):
        raise KernelError(
            "0 (narrow floats stay unrounded) or 1",
            found=repr(precise),
            where="NKI_PRECISE_FP",
            remedy="set one of them, or leave it unset for 1",
        )
    return Options(GENERATIONS[name.lower() or "trn2"], precise=precise == "1", default_chip=not name)

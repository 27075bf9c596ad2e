"""A kernel on several ranks at once, each one core or the two cores of LNC2, that meet in ``nki.collectives``.

All ranks run in this process and take turns, always in the same order: the result and the order of instructions are
the same in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twintrack.errors import KernelError
from twintrack.neuroncore.memory.generation import Generation
from twintrack.nki.kernel import Kernel, Options, options_from_environment
from twintrack.nki.launch import launch_ranks

__all__ = ["ranks_of_node", "run_ranks"]

_CORES_OF_NODE = {2: 32, 3: 128, 4: 128}
"""By generation: 16 chips with 2 cores (trn1.32xlarge), 16 with 8 (trn2.48xlarge: Neuron collectives, system
connectivity). For trn3, whose servers are documented in several sizes, 16 chips with 8 are our choice."""


def ranks_of_node(generation: Generation, lnc: int) -> int:
    """Ranks of one instance.

    Args:
        generation: of its chips.
        lnc: cores per rank.
    """
    return _CORES_OF_NODE[generation.number] // lnc


def run_ranks(
    kernel: Kernel | Callable[..., Any],
    per_rank_args: Sequence[Sequence[Any]],
    *,
    lnc: int = 1,
    options: Options | None = None,
    ranks_per_node: int | None = None,
) -> list[Any]:
    """Run a kernel on as many ranks as there are arguments.

    Args:
        kernel: decorated with ``nki.jit``, or a plain function.
        per_rank_args: positional arguments of each rank; a dictionary at the end of a rank's arguments is an argument
            like others. Ranks have memory of their own: where arrays of two ranks overlap they are copied, and the
            kernel must not write to them.
        lnc: cores per rank, 1 or 2.
        options: how; the environment's where ``None``.
        ranks_per_node: ranks of one instance, on which some collectives depend; that of the chip's largest instance
            where ``None``.

    Returns:
        What each rank's kernel returned.

    Raises:
        KernelError: at the kernel author's line; also if ranks wait for each other forever, naming each one's line.
    """
    if lnc not in (1, 2) or not per_rank_args:
        raise KernelError(
            "at least one rank, of 1 or 2 cores",
            found=f"{len(per_rank_args)} ranks of {lnc}",
            where="run_ranks",
            remedy="pass a sequence of arguments per rank, and lnc=1 or lnc=2",
        )
    mine = kernel if isinstance(kernel, Kernel) else Kernel(kernel)
    chosen = options or options_from_environment(chip=mine.chip)
    grid = (2,) if lnc == 2 else ()
    node = ranks_per_node or ranks_of_node(chosen.generation, lnc)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [(tuple(args), {}) for args in per_rank_args]
    done = launch_ranks(mine.function, grid, calls, chosen, node, mine.schedule)
    return [one.result for one in done]

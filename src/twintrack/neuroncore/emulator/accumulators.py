"""The accumulator registers of an engine: one float32 for each of its 128 lanes, kept between instructions.

They are shared by the instructions of an engine that reduce along the way (``nki.isa`` of the AWS Neuron
documentation, 2.32; on the Vector Engine ``exponential``, ``range_select``, ``select_reduce``,
``tensor_scalar_reduce``, ``tensor_scalar_cumulative``; on the Scalar Engine ``activation``, ``activation_reduce``,
``activate2``): one instruction may reset them, others go on accumulating, a last one writes them out.

Our choice: an instruction of the Vector Engine that runs with ``idle`` leaves them unknown, as documented ("may still
be modified"; the Scalar Engine documents that they stay), and going on from registers that are unknown, or writing
them out, is an error of the kernel's author.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from twintrack.neuroncore.isa.instruction import Engine, Instruction
from twintrack.neuroncore.isa.legality.common import broken
from twintrack.neuroncore.memory.generation import PARTITIONS
from twintrack.neuroncore.memory.view import View

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.core import Core

__all__ = ["ACCUMULATING", "follow", "forget", "held", "keep", "start"]

ACCUMULATING = frozenset(
    {
        "activate2",
        "activation",
        "activation_reduce",
        "exponential",
        "range_select",
        "select_reduce",
        "tensor_scalar_cumulative",
        "tensor_scalar_reduce",
    }
)
"""Instructions with ``reduce_cmd``."""
Float32 = npt.NDArray[np.float32]


def start(
    core: Core, ins: Instruction, lanes: View, command: str, identity: float, loaded: Float32 | None = None
) -> Float32:
    """What an accumulating instruction starts from, one number per lane.

    Args:
        core: whose engine.
        ins: for messages.
        lanes: the operand whose partitions are the lanes.
        command: name of a ``reduce_cmd``: ``reset`` and ``reset_reduce`` start from the identity, ``load_reduce`` from
            ``loaded``, ``reduce`` from the registers.
        identity: of the operator that reduces.
        loaded: one number per lane, or one for all.

    Returns:
        float32 of shape ``(partitions of lanes,)``, the caller's own.

    Raises:
        KernelError: if it goes on from registers that nothing has set.
    """
    count = lanes.shape[0]
    if command == "load_reduce":
        assert loaded is not None  # noqa: S101 - the rules ask for it
        return np.array(np.broadcast_to(loaded.reshape(-1), (count,)))
    if command != "reduce":
        return np.full(count, identity, np.float32)
    return held(core, ins, lanes)


def held(core: Core, ins: Instruction, lanes: View) -> Float32:
    """What the registers of these lanes hold, float32 of shape ``(partitions of lanes,)``, the caller's own.

    Raises:
        KernelError: if nothing has set them.
    """
    count = lanes.shape[0]
    first = lanes.start_partition
    values, known = _registers(core, ins.engine)
    if not known[first : first + count].all():
        lane = first + int(np.argmin(known[first : first + count]))
        raise broken(
            ins,
            "accumulator registers that an earlier instruction has set where one goes on from them or writes them out",
            f"those of partition {lane} never reset, or left unknown by an instruction with reduce_cmd.idle,",
            "begin with reduce_cmd.reset_reduce",
            lanes,
        )
    return values[first : first + count].copy()


def keep(core: Core, lanes: View, values: Float32, engine: Engine = Engine.VECTOR) -> None:
    """The registers of these lanes hold these numbers, shape ``(partitions of lanes,)``, until the next instruction."""
    numbers, known = _registers(core, engine)
    first = lanes.start_partition
    numbers[first : first + len(values)] = values
    known[first : first + len(values)] = True


def forget(core: Core, lanes: View, engine: Engine = Engine.VECTOR) -> None:
    """An instruction with ``idle`` has run on these lanes: what their registers hold is unknown."""
    first = lanes.start_partition
    _registers(core, engine)[1][first : first + lanes.shape[0]] = False


def follow(core: Core, ins: Instruction) -> None:
    """Without values: which registers an instruction of ``ACCUMULATING`` sets, leaves unknown, or goes on from.

    Raises:
        KernelError: if it goes on from registers that nothing has set, or writes them out.
    """
    lanes = ins.ins[1 if ins.opcode == "select_reduce" else 0]
    assert lanes is not None  # noqa: S101 - the rules ask for it
    command = ins.attributes["reduce_cmd"]
    if command == "idle":
        if ins.engine is Engine.VECTOR:
            forget(core, lanes, ins.engine)
    else:
        if command == "reduce":
            held(core, ins, lanes)
        keep(core, lanes, np.zeros(lanes.shape[0], np.float32), ins.engine)
    if len(ins.outs) > 1 and ins.outs[1] is not None:
        held(core, ins, lanes)


def _registers(core: Core, engine: Engine) -> tuple[Float32, npt.NDArray[np.bool_]]:
    state = f"{engine} accumulators"
    found: tuple[Float32, npt.NDArray[np.bool_]] | None = core.state.get(state)
    if found is None:
        found = np.zeros(PARTITIONS, np.float32), np.zeros(PARTITIONS, np.bool_)
        core.state[state] = found
    return found

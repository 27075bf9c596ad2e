"""Our optimizer state in a live ``torch.optim.AdamW``, so that plain training goes on with it; and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from twintrack.errors import CheckpointError
from twintrack.job.records import Optimizer
from twintrack.pilot.convert.layouts.optimizer import OptimizerState

__all__ = ["adamw_state_dict", "from_adamw", "plain_adamw", "restore_adamw"]

_WHERE = "torch.optim.AdamW"


def plain_adamw(model: nn.Module, optimizer: Optimizer) -> torch.optim.AdamW:
    """A ``torch.optim.AdamW`` over what learns in ``model``, with a job's constants and its peak learning rate.

    As in our step, tensors with fewer than two axes do not decay.
    """
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in learning if p.dim() > 1], "weight_decay": optimizer.weight_decay},
        {"params": [p for p in learning if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=optimizer.learning_rate,
        betas=(optimizer.beta1, optimizer.beta2),
        eps=optimizer.epsilon,
    )


def adamw_state_dict(state: OptimizerState, optimizer: torch.optim.AdamW, model: nn.Module) -> dict[str, Any]:
    """What ``optimizer.load_state_dict`` takes so that it goes on with these moments; nothing is changed.

    Args:
        state: by the names of ``model.named_parameters()``; its tensors are copied, since the optimizer changes its own
            in place.
        optimizer: over parameters of ``model``; its groups and constants are kept.
        model: whose parameters learn.

    Raises:
        CheckpointError: if the names are not those of the optimizer's parameters, a shape differs, or a parameter is
            not float32: a plain AdamW keeps moments in the parameter's type, which would round them.
    """
    names = _names(optimizer, model)
    if wrong := sorted(set(names) ^ state.master.keys()):
        _refuse("state of the optimizer's parameters and no other", f"a difference in {wrong[0]}")
    parameters = dict(model.named_parameters())
    for name in names:
        parameter = parameters[name]
        if parameter.dtype is not torch.float32:
            _refuse(f"{name} in float32, the type that moments are kept in", str(parameter.dtype))
        if parameter.shape != state.master[name].shape:
            _refuse(f"{name} of shape {list(parameter.shape)}", f"shape {list(state.master[name].shape)}")
    # torch numbers parameters through all groups, in their order
    entries = {
        index: {
            "step": torch.tensor(float(state.step), dtype=torch.float32),
            "exp_avg": state.moment1[name].detach().clone(),
            "exp_avg_sq": state.moment2[name].detach().clone(),
        }
        for index, name in enumerate(names)
    }
    return {"state": entries, "param_groups": optimizer.state_dict()["param_groups"]}


def restore_adamw(state: OptimizerState, optimizer: torch.optim.AdamW, model: nn.Module) -> None:
    """Put master weights into the model's parameters and moments into the optimizer, in place.

    Raises:
        CheckpointError: as ``adamw_state_dict``; nothing is changed then.
    """
    document = adamw_state_dict(state, optimizer, model)
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, value in state.master.items():
            parameters[name].copy_(value)
    optimizer.load_state_dict(document)


def from_adamw(optimizer: torch.optim.AdamW, model: nn.Module) -> OptimizerState:
    """The state of a live optimizer, copied to the host; its parameters are the master weights.

    Names are in the order of ``named_parameters``. A parameter narrower than float32 is widened, which changes no
    value, but what the narrow type has rounded before stays rounded.

    Raises:
        CheckpointError: if a parameter has no state or another step than the others, or the optimizer is of another
            kind (``amsgrad``).
    """
    names = _names(optimizer, model)
    parameters = dict(model.named_parameters())
    step: int | None = None
    groups: dict[str, dict[str, Tensor]] = {"master": {}, "moment1": {}, "moment2": {}}
    for name in sorted(names, key=list(parameters).index):
        entry: Mapping[str, Any] = optimizer.state.get(parameters[name], {})
        if not entry:
            _refuse(f"moments of {name}", "none: it was never updated")
        found = float(entry["step"])
        if step is None:
            step = int(found)
        if found != step:
            _refuse(f"one step for all parameters, {step}", f"{found:g} for {name}")
        groups["master"][name] = _float32(parameters[name])
        groups["moment1"][name] = _float32(entry["exp_avg"])
        groups["moment2"][name] = _float32(entry["exp_avg_sq"])
    return OptimizerState(step or 0, **groups)


def _float32(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", torch.float32, copy=True)


def _names(optimizer: torch.optim.AdamW, model: nn.Module) -> list[str]:
    """Names of the optimizer's parameters, in the order in which torch numbers them."""
    if type(optimizer) is not torch.optim.AdamW:
        _refuse("torch.optim.AdamW", type(optimizer).__name__)
    by_identity = {id(parameter): name for name, parameter in model.named_parameters()}
    names = []
    for group in optimizer.param_groups:
        if group["amsgrad"] or group["maximize"]:
            _refuse("AdamW without amsgrad and maximize, as ours is", "an optimizer with one of them")
        for parameter in group["params"]:
            if id(parameter) not in by_identity:
                _refuse("parameters of the model", f"another one, of shape {list(parameter.shape)}")
            names.append(by_identity[id(parameter)])
    return names


def _refuse(required: str, found: str) -> NoReturn:
    raise CheckpointError(
        required, found=found, where=_WHERE, remedy="build model and optimizer as the job says, in float32"
    )

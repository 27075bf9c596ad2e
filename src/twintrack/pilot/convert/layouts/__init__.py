"""Layouts of checkpoints as pure functions of named tensors: names, rotary order, shards, optimizer state."""

from twintrack.pilot.convert.layouts.adamw import adamw_state_dict, from_adamw, plain_adamw, restore_adamw
from twintrack.pilot.convert.layouts.bits import same_bits
from twintrack.pilot.convert.layouts.checks import KeyProblem, check_keys, key_problems
from twintrack.pilot.convert.layouts.files import SHARDS, ShardedCheckpoint, read_shards, write_shards
from twintrack.pilot.convert.layouts.geometry import Geometry, Place, place_of
from twintrack.pilot.convert.layouts.layout import Layout, Plan, Shard
from twintrack.pilot.convert.layouts.names import (
    GROUPS,
    drop_tied_head,
    expected_keys,
    expected_names,
    from_peft,
    hub_key,
    own_name,
    peft_key,
    to_hub,
    to_peft,
    with_groups,
)
from twintrack.pilot.convert.layouts.optimizer import (
    OPTIMIZER,
    OptimizerState,
    optimizer_bytes,
    read_optimizer,
)
from twintrack.pilot.convert.layouts.rotary import Rotary, permute_rotary, permute_rows, rotary_rows
from twintrack.pilot.convert.layouts.shards import Shards, join, shard_shapes, split

__all__ = [
    "GROUPS",
    "OPTIMIZER",
    "SHARDS",
    "Geometry",
    "KeyProblem",
    "Layout",
    "OptimizerState",
    "Place",
    "Plan",
    "Rotary",
    "Shard",
    "ShardedCheckpoint",
    "Shards",
    "adamw_state_dict",
    "check_keys",
    "drop_tied_head",
    "expected_keys",
    "expected_names",
    "from_adamw",
    "from_peft",
    "hub_key",
    "join",
    "key_problems",
    "optimizer_bytes",
    "own_name",
    "peft_key",
    "permute_rotary",
    "permute_rows",
    "place_of",
    "plain_adamw",
    "read_optimizer",
    "read_shards",
    "restore_adamw",
    "rotary_rows",
    "same_bits",
    "shard_shapes",
    "split",
    "to_hub",
    "to_peft",
    "with_groups",
    "write_shards",
]

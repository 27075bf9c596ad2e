"""Nested dicts, lists and tuples of tensors, flattened to paths and leaves and rebuilt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

__all__ = ["flatten", "rebuild", "template"]


def flatten(tree: Any, prefix: str = "") -> list[tuple[str, Tensor]]:
    """Leaves in order with their paths, such as ``0/lora_A.weight``.

    Raises:
        TypeError: if a leaf is not a tensor.
    """
    if isinstance(tree, Tensor):
        return [(prefix, tree)]
    if isinstance(tree, dict):
        items = [(str(key), item) for key, item in tree.items()]
    elif isinstance(tree, list | tuple):
        items = [(str(index), item) for index, item in enumerate(tree)]
    else:
        raise TypeError(f"tensors expected at '{prefix}', got {type(tree).__name__}")
    return [leaf for key, item in items for leaf in flatten(item, f"{prefix}/{key}" if prefix else key)]


def template(tree: Any) -> Any:
    """The tree with its leaves numbered in the order of ``flatten``; tuples become lists, as in JSON."""
    numbers = iter(range(len(flatten(tree))))

    def walk(node: Any) -> Any:
        if isinstance(node, Tensor):
            return next(numbers)
        if isinstance(node, dict):
            return {str(key): walk(item) for key, item in node.items()}
        return [walk(item) for item in node]

    return walk(tree)


def rebuild(shape: Any, leaves: Sequence[Tensor]) -> Any:
    """The tree that ``template`` described, with tensors for numbers."""
    if isinstance(shape, int):
        return leaves[shape]
    if isinstance(shape, dict):
        return {key: rebuild(item, leaves) for key, item in shape.items()}
    return [rebuild(item, leaves) for item in shape]

"""Write what was trained in the layouts that other programs read: PEFT's for adapters, the hub's for whole
models."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from huggingface_hub import split_torch_state_dict_into_shards
from peft import PeftModel
from torch import Tensor
from transformers import PreTrainedModel

from twintrack.storage import FileSystem, storage_errors, write_bytes_atomic
from twintrack.training.weights import tokenizer_files

__all__ = ["export"]

_ADAPTER = "default"


def export(
    model: PeftModel | PreTrainedModel,
    folder: Path,
    fs: FileSystem,
    *,
    source: str,
    weights: Mapping[str, Tensor] | None = None,
    tokenizer: Any = None,
    most_shard_bytes: int = 2 * 2**30,
) -> tuple[Path, ...]:
    """Write an adapter (``adapter_config.json``, ``adapter_model.safetensors``) or a whole model.

    Each file appears whole or not at all; the configuration comes last.

    Args:
        model: as ``adapt`` gave it.
        folder: created where it does not exist.
        fs: file system to write with.
        source: what the adapter's ``base_model_name_or_path`` says.
        weights: trained weights by parameter name, such as float32 masters, instead of those in the model.
        tokenizer: written too, where given.
        most_shard_bytes: a whole model is cut into files of at most this size; one is in memory at a time.

    Returns:
        The files, in the order in which they were written.

    Raises:
        StorageError: if the file system refuses.
        ValueError: if ``weights`` names a parameter that the model does not have.
    """
    if isinstance(model, PeftModel):
        files = _adapter_files(model, source, weights or {})
    else:
        files = _model_files(model, weights or {}, most_shard_bytes)
    own = tokenizer_files(tokenizer).items() if tokenizer is not None else ()
    with storage_errors(folder, "write the trained weights"):
        fs.make_folder(folder)
    written: list[Path] = []
    for name, content in chain(own, files):
        write_bytes_atomic(fs, folder / name, content)
        written.append(folder / name)
    return tuple(written)


_Files = Iterator[tuple[str, bytes]]
"""Names and contents, made one after another so that only one is in memory."""


def _adapter_files(model: PeftModel, source: str, weights: Mapping[str, Tensor]) -> _Files:
    ending = f".{_ADAPTER}.weight"
    own = {name: p for name, p in model.named_parameters() if ".lora_" in name and name.endswith(ending)}
    chosen = _replaced(own, weights)
    tensors = {f"{name.removesuffix(ending)}.weight": _plain(value) for name, value in chosen.items()}
    config = model.peft_config[_ADAPTER].to_dict() | {
        "base_model_name_or_path": source,
        "inference_mode": True,
    }
    text = json.dumps(config, indent=1, sort_keys=True, allow_nan=False, default=sorted)
    yield "adapter_model.safetensors", safetensors.torch.save(tensors, metadata={"format": "pt"})
    yield "adapter_config.json", text.encode()


def _model_files(model: PreTrainedModel, weights: Mapping[str, Tensor], most_shard_bytes: int) -> _Files:
    # tied parameters come once, under their first name, as save_pretrained writes them
    chosen = _replaced(dict(model.named_parameters()), weights)
    tensors = {name: _plain(value) for name, value in chosen.items()}
    split = split_torch_state_dict_into_shards(tensors, max_shard_size=most_shard_bytes)
    for name, keys in split.filename_to_tensors.items():
        yield name, safetensors.torch.save({key: tensors[key] for key in keys}, metadata={"format": "pt"})
    if split.is_sharded:
        index = {"metadata": split.metadata, "weight_map": split.tensor_to_filename}
        yield "model.safetensors.index.json", json.dumps(index, indent=1, sort_keys=True).encode()
    if model.generation_config is not None:
        yield "generation_config.json", model.generation_config.to_json_string().encode()
    yield "config.json", _config_of(model).encode()


def _config_of(model: PreTrainedModel) -> str:
    config = json.loads(model.config.to_json_string())
    config["architectures"] = [type(model).__name__]
    config.pop("_name_or_path", None)
    return json.dumps(config, indent=1, sort_keys=True)


def _replaced(own: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    if unknown := sorted(weights.keys() - own.keys()):
        raise ValueError(f"the model has no parameter {unknown[0]}")
    return {name: weights.get(name, value) for name, value in own.items()}


def _plain(value: Tensor) -> Tensor:
    return value.detach().to("cpu", memory_format=torch.contiguous_format).contiguous()

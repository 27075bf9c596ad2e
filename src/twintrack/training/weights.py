"""A folder with a model in the layout of the hub: its configuration and safetensors, checked before loading.

Nothing here runs code from the folder: configuration is JSON, weights are safetensors. Pickled weights are
refused, whatever else is there.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from transformers import LlamaConfig, LlamaForCausalLM

from twintrack.errors import ModelError
from twintrack.storage import digest_file, digest_json, inside, storage_errors

__all__ = [
    "ARCHITECTURE",
    "check_tensors",
    "digest_files",
    "digest_model",
    "read_config",
    "tokenizer_files",
    "weight_files",
]

ARCHITECTURE = "LlamaForCausalLM"
_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
_PICKLES = frozenset({".bin", ".pt", ".pth", ".ckpt", ".pkl"})
_DERIVED = ".rotary_emb.inv_freq"
"""Old Llama checkpoints carry these frequencies, which follow from the configuration and are computed
anew."""
_PASSING = frozenset({"_name_or_path", "transformers_version", "dtype", "torch_dtype", "use_cache"})
"""Configuration that says nothing about the function a model computes."""
_SIZES = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "max_position_embeddings",
)
"""Configuration that must be positive; the library has a default for what is not there."""


def read_config(folder: Path) -> LlamaConfig:
    """The model's configuration.

    Raises:
        ModelError: if there is none, or it is not that of an unquantised Llama.
    """
    path = folder / "config.json"
    if not path.is_file():
        raise ModelError(
            "a model folder with config.json",
            found="an adapter" if (folder / "adapter_config.json").is_file() else "none",
            where=str(folder),
            remedy="give the folder of a whole model, as save_pretrained writes it",
        )
    values = _read_json(path)
    names = values.get("architectures") or [values.get("model_type", "no architecture")]
    if names != [ARCHITECTURE] or values.get("model_type") != "llama":
        raise ModelError(
            f"the architecture {ARCHITECTURE}",
            found=", ".join(map(str, names)),
            where=str(path),
            remedy="choose a Llama model; this version knows no other",
        )
    if values.get("quantization_config"):
        method = dict(values["quantization_config"]).get("quant_method", "unknown")
        raise ModelError(
            "unquantised weights",
            found=f"quantisation '{method}'",
            where=str(path),
            remedy="choose the model's unquantised form",
        )
    _check_sizes(values, path)
    try:
        return LlamaConfig.from_dict(values)
    except Exception as error:  # the library validates with many kinds of error
        raise ModelError(
            "a valid Llama configuration", found=str(error)[:200], where=str(path), remedy="mend config.json"
        ) from error


def _check_sizes(values: Mapping[str, Any], path: Path) -> None:
    """Before the library divides by them."""
    for key in _SIZES:
        value = values.get(key)
        if value is not None and (type(value) is not int or value < 1):
            raise ModelError(
                f"a whole number from 1 for {key}",
                found=repr(value)[:80],
                where=str(path),
                remedy="mend config.json",
            )


def weight_files(folder: Path) -> tuple[Path, ...]:
    """The safetensors files of a model, every one of them there and whole.

    Raises:
        ModelError: if there are none, only pickles, or one is missing or truncated.
    """
    index = folder / _INDEX
    if index.is_file():
        names = sorted(set(_weight_map(index).values()))
    elif (folder / _SINGLE).is_file():
        names = [_SINGLE]
    else:
        raise _no_safetensors(folder)
    files = tuple(inside(folder, name) if "/" in name else folder / name for name in names)
    for file in files:
        if not file.is_file():
            raise ModelError(
                f"{len(files)} files of weights",
                found=f"no {file.name}",
                where=str(folder),
                remedy="copy or download the missing file",
            )
    return files


def _no_safetensors(folder: Path) -> ModelError:
    pickles = sorted(path.name for path in folder.iterdir() if path.suffix in _PICKLES)
    if pickles:
        return ModelError(
            "weights in safetensors",
            found=f"only pickled weights ({pickles[0]}), which run code when they are read",
            where=str(folder),
            remedy="convert them to safetensors where you trust them, or take the model's safetensors",
        )
    return ModelError(
        "weights in safetensors", found=f"no {_SINGLE}", where=str(folder), remedy="add the model's weights"
    )


def check_tensors(config: LlamaConfig, files: tuple[Path, ...]) -> None:
    """Every tensor that the configuration asks for is in the files, with its shape, and no other.

    What is missing would otherwise be filled with random numbers, in silence.

    Raises:
        ModelError: naming the first tensor that is missing, unknown or of another shape, or a damaged file.
    """
    found: dict[str, tuple[int, ...]] = {}
    for file in files:
        found.update(_shapes(file))
    with torch.device("meta"):
        expected = {name: tuple(value.shape) for name, value in LlamaForCausalLM(config).state_dict().items()}
    optional = {"lm_head.weight"} if config.tie_word_embeddings else set()
    where = str(files[0].parent)
    if missing := sorted(expected.keys() - found.keys() - optional):
        raise _wrong_tensor(f"the tensor {missing[0]}", f"{len(missing)} tensors missing", where)
    spare = sorted(name for name in found.keys() - expected.keys() if not name.endswith(_DERIVED))
    if spare:
        raise _wrong_tensor("the tensors of config.json alone", f"the unknown tensor {spare[0]}", where)
    for name, shape in expected.items():
        if name in found and found[name] != shape:
            raise _wrong_tensor(f"{name} of shape {list(shape)}", f"shape {list(found[name])}", where)


def _wrong_tensor(required: str, found: str, where: str) -> ModelError:
    return ModelError(
        required, found=found, where=where, remedy="take config.json and weights from one and the same model"
    )


def _shapes(file: Path) -> Mapping[str, tuple[int, ...]]:
    try:
        with storage_errors(file, "read weights"), safe_open(file, framework="pt") as opened:
            return {name: tuple(opened.get_slice(name).get_shape()) for name in opened.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ModelError(
            "a whole safetensors file",
            found=f"{file.stat().st_size} bytes: {error}",
            where=str(file),
            remedy="copy or download the file again",
        ) from error


def digest_model(config: LlamaConfig, file_digests: Mapping[str, str]) -> str:
    """SHA-256 that stands for a model: what its configuration computes, and the digest of every weight
    file."""
    values = {name: value for name, value in config.to_dict().items() if name not in _PASSING}
    return digest_json({"config": values, "files": dict(file_digests)})


def digest_files(files: tuple[Path, ...]) -> dict[str, str]:
    """SHA-256 of each file by its name.

    Raises:
        StorageError: if one cannot be read.
    """
    return {file.name: digest_file(file) for file in files}


def tokenizer_files(tokenizer: Any) -> dict[str, bytes]:
    """What ``save_pretrained`` of a tokenizer writes, by file name, so that our own file system can write it."""
    with tempfile.TemporaryDirectory(prefix="twintrack-tokenizer-") as name:
        tokenizer.save_pretrained(name)
        return {path.name: path.read_bytes() for path in sorted(Path(name).iterdir())}


def _weight_map(index: Path) -> dict[str, str]:
    table = _read_json(index).get("weight_map")
    if not isinstance(table, dict) or not table or not all(isinstance(name, str) for name in table.values()):
        raise ModelError(
            "a table weight_map of tensors and files",
            found=type(table).__name__,
            where=str(index),
            remedy="copy or download the file again",
        )
    return table


def _read_json(path: Path) -> dict[str, Any]:
    try:
        with storage_errors(path, "read the model"):
            values = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ModelError(
            "a JSON file", found=str(error), where=str(path), remedy="copy or download the file again"
        ) from error
    if not isinstance(values, dict):
        raise ModelError(
            "a JSON object", found=type(values).__name__, where=str(path), remedy="download the file again"
        )
    return values

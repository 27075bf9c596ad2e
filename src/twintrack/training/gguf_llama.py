"""Turn a Llama in GGUF into a folder in the layout of the hub: safetensors, configuration, tokenizer.

Sources: the GGUF specification (ggml, docs/gguf.md) for the metadata keys and tensor names. Its Llama writers
store the rows of the query and key projections so that the two halves of a rotary pair lie side by side; here
they are put back in the order of ``LlamaForCausalLM``, where the halves of a head follow each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, PreTrainedTokenizerFast

from twintrack.errors import ModelError
from twintrack.training.weights import ARCHITECTURE

__all__ = ["Converted", "read_gguf", "read_gguf_config", "read_gguf_tokenizer"]

_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_OUTER = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_CONTROL, _USER_DEFINED = 3, 4
_UNQUANTISED = frozenset({"F32", "F16", "BF16", "F64"})


@dataclass(frozen=True, slots=True)
class Converted:
    """A model out of a GGUF file."""

    config: LlamaConfig
    tensors: dict[str, torch.Tensor]
    """By the names of ``LlamaForCausalLM``, in bfloat16."""
    tokenizer: PreTrainedTokenizerFast
    note: str
    """How the weights were stored, for the reader of a report."""


def read_gguf(path: Path, progress: Callable[[float], None] = lambda _share: None) -> Converted:
    """Read and dequantise a Llama.

    Quantised values are computed in float32 and rounded once to bfloat16, so that every track starts from the
    same numbers, whatever type it computes in.

    Args:
        path: the GGUF file.
        progress: told the share that is done, from 0 to 1.

    Raises:
        ModelError: if the ``gguf`` package is missing, the file is damaged, or it holds something else than a
            Llama with a byte-level tokenizer.
    """
    gguf, reader, metadata, config = _open(path)
    tensors: dict[str, torch.Tensor] = {}
    kinds: Counter[str] = Counter()
    for done, tensor in enumerate(reader.tensors, 1):
        name = _tensor_name(tensor.name, path)
        kinds[tensor.tensor_type.name] += 1
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            values = _unpaired(values, config.head_dim)
        tensors[name] = torch.from_numpy(np.array(values, dtype=np.float32)).to(torch.bfloat16)
        progress(done / len(reader.tensors))
    return Converted(config, tensors, _tokenizer(metadata, path), _note(kinds))


def read_gguf_config(path: Path) -> LlamaConfig:
    """The configuration of a Llama from the header of a GGUF file; no weight is read.

    Raises:
        ModelError: as ``read_gguf`` does.
    """
    return _open(path)[3]


def read_gguf_tokenizer(path: Path) -> PreTrainedTokenizerFast:
    """The tokenizer of a Llama from the header of a GGUF file; no weight is read.

    Raises:
        ModelError: as ``read_gguf`` does.
    """
    return _tokenizer(_open(path)[2], path)


def _open(path: Path) -> tuple[Any, Any, dict[str, Any], LlamaConfig]:
    """The package gguf, the mapped file, its metadata, and the configuration that they give."""
    try:
        import gguf
    except ImportError as error:
        raise ModelError(
            "the package gguf, to read quantised weights",
            found="not installed",
            where=str(path),
            remedy="pip install 'twintrack[demo]'",
        ) from error
    try:
        reader = gguf.GGUFReader(path)
        metadata = {name: field.contents() for name, field in reader.fields.items()}
    except (ValueError, IndexError, KeyError, OverflowError, OSError, UnicodeDecodeError) as error:
        raise _refuse(path, "a whole GGUF file", str(error) or type(error).__name__) from error
    config = _config(metadata, path, tied=all(tensor.name != "output.weight" for tensor in reader.tensors))
    return gguf, reader, metadata, config


def _note(kinds: Counter[str]) -> str:
    listed = ", ".join(f"{count} tensors {name}" for name, count in sorted(kinds.items()))
    if kinds.keys() <= _UNQUANTISED:
        return f"converted from GGUF ({listed}) to bfloat16"
    bits = min(int(name[1:].lstrip("Q")[0]) for name in kinds.keys() - _UNQUANTISED)
    return f"dequantised {bits}-bit weights, not the original ones: GGUF ({listed}), stored as bfloat16"


def _refuse(path: Path, required: str, found: str) -> ModelError:
    return ModelError(required, found=found, where=str(path), remedy="choose other weights")


def _tensor_name(name: str, path: Path) -> str:
    if name in _OUTER:
        return _OUTER[name]
    parts = name.split(".")
    if len(parts) == 4 and parts[0] == "blk" and parts[2] in _LAYER and parts[3] == "weight":
        return f"model.layers.{int(parts[1])}.{_LAYER[parts[2]]}.weight"
    raise _refuse(path, "the tensors of a plain Llama", f"the tensor {name}")


def _unpaired(values: npt.NDArray[np.float32], head_dim: int) -> npt.NDArray[np.float32]:
    """Rows of [heads, head_dim / 2, 2] to [heads, 2, head_dim / 2]; ``values`` is [heads * head_dim,
    hidden]."""
    rows, columns = values.shape
    paired = values.reshape(rows // head_dim, head_dim // 2, 2, columns)
    return paired.swapaxes(1, 2).reshape(rows, columns)


def _config(metadata: dict[str, Any], path: Path, *, tied: bool) -> LlamaConfig:
    architecture = metadata.get("general.architecture")
    if architecture != "llama":
        raise _refuse(path, "the architecture llama", str(architecture))
    odd = [name for name in metadata if name.startswith(("llama.rope.scaling", "llama.expert"))]
    if odd:
        raise _refuse(path, "a plain Llama", f"the setting {odd[0]}")
    try:
        heads = int(metadata["llama.attention.head_count"])
        hidden = int(metadata["llama.embedding_length"])
        values = {
            "vocab_size": len(metadata["tokenizer.ggml.tokens"]),
            "hidden_size": hidden,
            "intermediate_size": int(metadata["llama.feed_forward_length"]),
            "num_hidden_layers": int(metadata["llama.block_count"]),
            "num_attention_heads": heads,
            "num_key_value_heads": int(metadata.get("llama.attention.head_count_kv", heads)),
            "head_dim": int(metadata.get("llama.attention.key_length", hidden // heads)),
            "max_position_embeddings": int(metadata["llama.context_length"]),
            "rms_norm_eps": _shortest(metadata["llama.attention.layer_norm_rms_epsilon"]),
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": _shortest(metadata.get("llama.rope.freq_base", 10_000.0)),
            },
        }
    except KeyError as error:
        raise _refuse(path, f"the setting {error.args[0]}", "none") from error
    ids = {name: metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("bos", "eos", "padding")}
    return LlamaConfig(
        **values,
        tie_word_embeddings=tied,
        bos_token_id=ids["bos"],
        eos_token_id=ids["eos"],
        pad_token_id=ids["padding"],
        architectures=[ARCHITECTURE],
    )


def _shortest(value: float) -> float:
    """GGUF keeps settings as float32; the shortest decimal that means the same float32 is what was
    written."""
    return float(str(np.float32(value)))


def _tokenizer(metadata: dict[str, Any], path: Path) -> PreTrainedTokenizerFast:
    kind = (metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre"))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    splits = {
        # digits stand alone before the split of GPT-2: tokenizer.json of SmolLM2
        ("gpt2", "smollm"): pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), byte_level]
        ),
        ("gpt2", "gpt-2"): byte_level,
    }
    if kind not in splits or metadata.get("tokenizer.ggml.add_bos_token"):
        raise _refuse(path, "a byte-level tokenizer of the kind smollm or gpt-2", f"{kind[0]}, {kind[1]}")
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = splits[kind]
    tokenizer.decoder = decoders.ByteLevel()
    types: list[int] = metadata.get("tokenizer.ggml.token_type") or []
    added = [
        AddedToken(token, special=kind == _CONTROL, normalized=False)
        for token, kind in zip(tokens, types, strict=False)
        if kind in (_CONTROL, _USER_DEFINED)
    ]
    tokenizer.add_special_tokens([token for token in added if token.special])
    tokenizer.add_tokens([token for token in added if not token.special])
    names = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    ids = {short: metadata.get(f"tokenizer.ggml.{long}_token_id") for short, long in names.items()}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        chat_template=metadata.get("tokenizer.chat_template"),
        model_max_length=int(metadata["llama.context_length"]),
        clean_up_tokenization_spaces=False,
        **{f"{short}_token": tokens[int(index)] for short, index in ids.items() if index is not None},
    )

"""What a model is made of, from its configuration alone: no weight is read, no module is built.

``find_config`` finds the configuration of a job's model wherever the weights are: ``config.json`` in a folder, the
header of a GGUF file in an installed package, ``config.json`` on the hub.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twintrack.errors import ModelError
from twintrack.job.records import Model

__all__ = ["Linear", "ModelShape", "find_config", "find_tokenizer", "shape_of"]


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear module of the model."""

    name: str
    """Last part of its name, such as ``q_proj``."""
    inputs: int
    outputs: int
    split: str
    """How tensor parallelism cuts its weight [outputs, inputs]: ``column`` (outputs) or ``row`` (inputs)."""
    bias: bool = False

    @property
    def parameters(self) -> int:
        """Weight and bias."""
        return self.inputs * self.outputs + (self.outputs if self.bias else 0)


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Sizes of a Llama. Letters in formulas: h hidden, f intermediate, H heads, G KV heads, d head size, L layers,
    V vocabulary."""

    vocabulary: int
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    tied: bool
    attention_bias: bool
    mlp_bias: bool
    positions: int
    source: str
    """Where the configuration stands."""

    @property
    def linears(self) -> tuple[Linear, ...]:
        """Linear modules of one decoder layer, in the model's order."""
        queries, keys = self.heads * self.head_size, self.kv_heads * self.head_size
        attention, mlp = self.attention_bias, self.mlp_bias
        return (
            Linear("q_proj", self.hidden, queries, "column", attention),
            Linear("k_proj", self.hidden, keys, "column", attention),
            Linear("v_proj", self.hidden, keys, "column", attention),
            Linear("o_proj", queries, self.hidden, "row", attention),
            Linear("gate_proj", self.hidden, self.intermediate, "column", mlp),
            Linear("up_proj", self.hidden, self.intermediate, "column", mlp),
            Linear("down_proj", self.intermediate, self.hidden, "row", mlp),
        )

    @property
    def head(self) -> Linear:
        """The module that gives logits."""
        return Linear("lm_head", self.hidden, self.vocabulary, "column")

    @property
    def layer_parameters(self) -> int:
        """Of one decoder layer: linear modules and two norms."""
        return sum(linear.parameters for linear in self.linears) + 2 * self.hidden

    @property
    def parameters(self) -> int:
        """Of the whole model, a tied head counted once."""
        table = self.vocabulary * self.hidden
        return table * (1 if self.tied else 2) + self.layers * self.layer_parameters + self.hidden

    def named_linears(self) -> Iterator[tuple[str, Linear]]:
        """Every linear module with its full name, in the order of ``LlamaForCausalLM``."""
        for index in range(self.layers):
            for linear in self.linears:
                part = "self_attn" if linear.name in ("q_proj", "k_proj", "v_proj", "o_proj") else "mlp"
                yield f"model.layers.{index}.{part}.{linear.name}", linear
        yield "lm_head", self.head


def shape_of(config: Any, source: str) -> ModelShape:
    """Sizes out of a checked ``LlamaConfig``.

    Raises:
        ModelError: if a size is not a positive whole number, or the heads do not form equal groups.
    """
    heads = config.num_attention_heads
    sizes = {
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_hidden_layers,
        "num_attention_heads": heads,
        "num_key_value_heads": config.num_key_value_heads,
        "max_position_embeddings": config.max_position_embeddings,
    }
    for key, value in sizes.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise _wrong(f"a whole number from 1 for {key}", repr(value), source)
    head_size = getattr(config, "head_dim", None) or config.hidden_size // heads
    if not isinstance(head_size, int) or head_size < 1:
        raise _wrong("a whole number from 1 for head_dim", repr(head_size), source)
    if heads % config.num_key_value_heads:
        raise _wrong(
            "num_attention_heads that num_key_value_heads divides",
            f"{heads} and {config.num_key_value_heads}",
            source,
        )
    return ModelShape(
        vocabulary=config.vocab_size,
        hidden=config.hidden_size,
        intermediate=config.intermediate_size,
        layers=config.num_hidden_layers,
        heads=heads,
        kv_heads=config.num_key_value_heads,
        head_size=head_size,
        tied=bool(config.tie_word_embeddings),
        attention_bias=bool(config.attention_bias),
        mlp_bias=bool(config.mlp_bias),
        positions=config.max_position_embeddings,
        source=source,
    )


def _wrong(required: str, found: str, source: str) -> ModelError:
    return ModelError(required, found=found, where=source, remedy="mend the model's configuration")


def find_config(source: Model, base: Path) -> tuple[Any, str]:
    """The checked configuration of a job's model, and where it stands; no weight is read or fetched.

    Args:
        source: the job's model record.
        base: folder of the job file.

    Returns:
        A ``LlamaConfig`` and a name for its place.

    Raises:
        ModelError: if there is no configuration, or it is not that of an unquantised Llama.
        StorageError: if a file cannot be read.
    """
    from twintrack.training.hub import fetch_config, is_hub_name
    from twintrack.training.packaged import PREFIX, package_file
    from twintrack.training.weights import read_config

    name = source.source
    if name.startswith(PREFIX):
        from twintrack.training.gguf_llama import read_gguf_config

        return read_gguf_config(package_file(name)), name
    folder = base / name
    if folder.is_dir():
        return read_config(folder), f"{name}/config.json"
    if not is_hub_name(name):
        raise ModelError(
            "a folder with a model",
            found=f"no folder {folder}",
            where="model.source",
            remedy="check the path; it is relative to the job file",
        )
    return read_config(fetch_config(name, source.revision)), f"{name} on the hub, config.json"


def find_tokenizer(source: Model, base: Path) -> Any | None:
    """The tokenizer of a job's model where it lies on this machine; ``None`` where it does not, or is on the hub.

    Raises:
        ModelError: if there is one that cannot be read.
    """
    from twintrack.training.model import load_tokenizer
    from twintrack.training.packaged import PREFIX, package_file

    name = source.source
    if name.startswith(PREFIX):
        from twintrack.training.gguf_llama import read_gguf_tokenizer

        return read_gguf_tokenizer(package_file(name))
    folder = base / name
    if not (folder / "tokenizer.json").is_file():
        return None
    from twintrack.training.weights import read_config

    return load_tokenizer(folder, read_config(folder))

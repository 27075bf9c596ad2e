"""Work of Llama-3.1-8B and 70B from two layers, beside the full capture, with the time and memory that both take.

Run: ``python benchmarks/model_work.py (8b|70b) (lora|full) (two|all)``, each in a process of its own, for its peak.
"""

from __future__ import annotations

import sys
import time

from transformers import LlamaConfig

from twintrack.compiler.cost import measure_work
from twintrack.job.records import Job
from twintrack.pilot.qualify.capture import model_work, outline
from twintrack.torch.capture import capture
from twintrack.tracks.eager import peak_resident_bytes

__all__: list[str] = []

SIZES = {"8b": (4096, 14336, 32, 32), "70b": (8192, 28672, 80, 64)}
"""Width, width inside, layers and heads, from the models' config.json; 8 KV heads, 128,256 tokens."""
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
LENGTH = 4096


def configuration(size: str) -> LlamaConfig:
    """Configuration of a model."""
    width, inside, layers, heads = SIZES[size]
    return LlamaConfig(
        vocab_size=128_256,
        hidden_size=width,
        intermediate_size=inside,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=8,
        max_position_embeddings=131_072,
    )


def a_job(kind: str) -> Job:
    """One row of 4,096 tokens; LoRA of rank 16 on every linear module of a layer, or all parameters."""
    values: dict[str, object] = {
        "name": "work",
        "model": {"source": "model"},
        "data": {"files": ("text.txt",), "template": "text", "sequence_length": LENGTH},
        "stop": {"steps": 1},
        "tracks": ({"use": ("trn2",)},),
    }
    if kind == "lora":
        values["lora"] = {"targets": tuple(LINEAR), "rank": 16}
    return Job.model_validate(values)


def main() -> None:
    """Print one line."""
    size, kind, how = sys.argv[1:]
    config, job = configuration(size), a_job(kind)
    begin = time.perf_counter()
    if how == "two":
        gradients = model_work(config, job).gradients
        flops, count, moved = gradients.matmul_flops, gradients.count, gradients.operator_bytes
    else:
        whole = outline(config, job, config.num_hidden_layers)
        work = measure_work(
            capture("gradients", whole.step.gradients, whole.arguments("gradients"), layers=whole.step.layers)
        )
        flops, count, moved = work.matmul_flops, work.operators, work.operator_bytes
    print(
        f"{size} {kind} {how}: {flops:,} FLOP ({flops / LENGTH / 1e9:.2f} GFLOP/token), {count:,} operators,"
        f" {moved:,} bytes; {time.perf_counter() - begin:.1f} s, peak {peak_resident_bytes() / 2**30:.2f} GiB"
    )


if __name__ == "__main__":
    main()

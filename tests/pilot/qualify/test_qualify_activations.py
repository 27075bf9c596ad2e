"""The formulas of ``activations`` against what PyTorch really keeps of our own training step."""

from __future__ import annotations

import pytest
import torch
from saved_bytes import ALL, LiveBytes, Prepared, gradients_peak, saved_bytes, small_config
from transformers import LlamaConfig

from twintrack.job.records import Lora, Parallel
from twintrack.pilot.qualify.activations import Rows, Rule, layer_saved, loss_saved, shared_saved
from twintrack.pilot.qualify.architecture import shape_of
from twintrack.pilot.qualify.memory import Need, moments
from twintrack.pilot.qualify.parameters import targets_of

ADAPTERS = {
    "full": None,
    "all": Lora(targets=ALL, rank=8),
    "q and v": Lora(targets=("q_proj", "v_proj"), rank=4),
    "down": Lora(targets=("down_proj",), rank=4),
    "output and head": Lora(targets=("o_proj", "lm_head"), rank=4),
    "dropout": Lora(targets=ALL, rank=8, dropout=0.1),
    "one layer": Lora(targets=("layers.1.self_attn.k_proj",), rank=4),
}


def predicted(
    config: LlamaConfig, lora: Lora | None, dtype: torch.dtype, attention: str, *, rows: int, length: int
):
    """Bytes that the formulas say are kept."""
    shape, batch = shape_of(config, "test"), Rows(rows, length, dtype.itemsize)
    rule = Rule(attention == "eager", lora.rank if lora else None, bool(lora and lora.dropout))
    targets, learned, kept = targets_of(shape, lora), lora is None, shared_saved(shape, batch, rule)
    for adapted in targets.layers:
        kept += sum(layer_saved(shape, batch, rule, adapted, learned_before=learned).values())
        learned = learned or bool(adapted)
    return kept + loss_saved(shape, batch, rule, shape.vocabulary, head=targets.head, learned=learned)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=["bf16", "fp32"])
@pytest.mark.parametrize("lora", ADAPTERS.values(), ids=ADAPTERS)
def test_saved_bytes_are_predicted_to_the_byte(lora, dtype, attention):
    """Grouped and plain KV heads, two micro-batch sizes."""
    for kv_heads, rows, length in ((2, 2, 32), (4, 1, 48)):
        config = small_config(num_key_value_heads=kv_heads)
        prepared = Prepared(config, lora, dtype, attention, rows=rows, length=length)

        found = saved_bytes(prepared)

        assert predicted(config, lora, dtype, attention, rows=rows, length=length) == found


def test_saved_bytes_of_the_sizes_of_llama_8b_are_predicted_to_the_byte():
    """Two layers of the real width on the meta device: no memory, the same graph."""
    config = small_config(
        vocab_size=128_256,
        hidden_size=4096,
        intermediate_size=14_336,
        num_hidden_layers=2,
        num_attention_heads=32,
        num_key_value_heads=8,
        max_position_embeddings=8192,
    )
    prepared = Prepared(config, None, torch.bfloat16, "eager", rows=1, length=4096, device="meta")

    assert saved_bytes(prepared) == predicted(config, None, torch.bfloat16, "eager", rows=1, length=4096)


def need(
    config: LlamaConfig, lora: Lora | None, dtype: torch.dtype, attention: str, *, rows: int, length: int
):
    """The need of one device, nothing else in memory."""
    shape = shape_of(config, "test")
    return Need(
        shape=shape,
        targets=targets_of(shape, lora),
        rank=lora.rank if lora else None,
        dropout=False,
        plan=Parallel(),
        micro=rows,
        accumulation=1,
        length=length,
        compute=dtype.itemsize,
        eager=attention == "eager",
        recompute=False,
        asynchronous=False,
    )


MOVING = frozenset({"gradients", "activations", "attention scores", "logits and loss", "working memory"})


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("name", ["full", "all", "q and v"])
@pytest.mark.parametrize(
    "sizes", [(2048, 160, 64), (16, 1280, 128), (16, 224, 256)], ids=["loss", "gate", "scores"]
)
def test_the_peak_of_a_backward_pass_is_predicted_within_eight_percent(sizes, name, attention):
    """Where the loss, the gated product or the attention scores make the peak."""
    vocabulary, intermediate, length = sizes
    config = small_config(vocab_size=vocabulary, intermediate_size=intermediate)
    lora, dtype = ADAPTERS[name], torch.bfloat16
    prepared = Prepared(config, lora, dtype, attention, rows=2, length=length)

    found = gradients_peak(prepared)
    terms = moments(need(config, lora, dtype, attention, rows=2, length=length), 0)
    ours = max(
        sum(term.size for term in terms[moment] if term.kind in MOVING)
        for moment in ("loss", "backward of a layer", "gradients complete")
    )

    assert ours == pytest.approx(found, rel=0.08)


@pytest.mark.parametrize("name", ["full", "all"])
def test_an_update_holds_no_more_than_is_predicted(name):
    """Gradients and old state are given; the new state and what AdamW holds meanwhile are made inside."""
    config, lora = small_config(), ADAPTERS[name]
    prepared = Prepared(config, lora, torch.bfloat16, "eager", rows=1, length=16)
    master = {n: w.float() for n, w in prepared.weights.items()}
    gradients = {n: torch.ones_like(w) for n, w in master.items()}
    moments_ = {n: torch.zeros_like(w) for n, w in master.items()}
    state = {"master": master, "moment1": moments_, "moment2": {n: m.clone() for n, m in moments_.items()}}
    scalars = {key: torch.tensor(1e-3) for key in ("step_size", "second_correction", "decay")}
    given = {
        t.untyped_storage()._cdata for group in (*state.values(), gradients, scalars) for t in group.values()
    }
    live = LiveBytes(given)
    with live:
        kept = prepared.step.update(state, gradients, scalars)
    terms = moments(need(config, lora, torch.bfloat16, "eager", rows=1, length=16), 0)["update"]

    predicted_new = sum(term.size for term in terms if term.kind in ("next state", "working memory"))

    assert kept["weights"]
    assert live.peak <= predicted_new < 2.0 * live.peak

"""Shards: cut and joined to the bit for any plan, computed device by device like the whole, and refused when wrong."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from layout_cases import (
    LORA,
    ShardedForward,
    config_of,
    hub_logits,
    merged,
    random_tensors,
    weights_of,
)
from pydantic import ValidationError

from twintrack.errors import CheckpointError, ModelError
from twintrack.job.records import Lora
from twintrack.pilot.convert.layouts import (
    Geometry,
    Layout,
    Plan,
    Shard,
    expected_names,
    join,
    same_bits,
    shard_shapes,
    split,
    with_groups,
)

K0 = "model.layers.0.self_attn.k_proj.weight"
EMBEDDING = "model.embed_tokens.weight"


@st.composite
def cases(draw):
    """A model and a layout that divides it: KV heads fewer than the degree, odd vocabularies, uneven stages."""
    tensor, kv_heads = draw(st.sampled_from([1, 2, 3, 4, 8])), draw(st.integers(1, 4))
    multiplier = draw(st.sampled_from([None, 1, 2]))
    slots = kv_heads
    while slots % tensor:
        slots += kv_heads
    if multiplier and kv_heads * multiplier % tensor == 0:
        slots = kv_heads * multiplier
    else:
        multiplier = None
    stages = draw(st.none() | st.lists(st.integers(1, 2), min_size=1, max_size=3))
    layers = sum(stages) if stages else draw(st.integers(1, 4))
    config = config_of(
        heads=slots * draw(st.integers(1, 2)),
        kv_heads=kv_heads,
        head_dim=draw(st.sampled_from([2, 4])),
        layers=layers,
        vocabulary=draw(st.integers(2, 20)),
        intermediate=tensor * draw(st.integers(1, 3)),
        tied=draw(st.booleans()),
        bias=draw(st.booleans()),
    )
    layout = Layout(
        tensor=tensor,
        pipeline=len(stages) if stages else draw(st.integers(1, layers)),
        stage_layers=tuple(stages) if stages else None,
        rotary=draw(st.sampled_from(["half_split", "interleaved"])),
        pad_to=draw(st.sampled_from([1, 3])),
        fused_qkv=draw(st.sampled_from(["none", "blocks", "groups"])),
        fused_gate_up=draw(st.booleans()),
        kv_multiplier=multiplier,
        kv_order=draw(st.sampled_from(["blocked", "interleaved"])),
    )
    lora = draw(st.none() | st.just(LORA) | st.just(Lora(targets=("k_proj", "o_proj"), rank=1)))
    return config, layout, lora


@settings(max_examples=80)
@given(cases(), st.booleans())
def test_what_is_cut_and_joined_is_the_same_to_the_bit(case, state):
    """Weights, adapters, and master weights and moments under their groups."""
    config, layout, lora = case
    geometry = Geometry.of(config)
    expected = expected_names(config, lora)
    expected = with_groups(expected, "weights", "moment2") if state else expected
    tensors = random_tensors(expected)

    shards = split(tensors, geometry, layout)
    whole = join(shards, geometry, layout, expected)

    assert whole.keys() == tensors.keys()
    assert all(same_bits(whole[name], tensors[name]) for name in tensors)
    shapes = {shard: {n: tuple(t.shape) for n, t in held.items()} for shard, held in shards.items()}
    assert shapes == shard_shapes(expected, geometry, layout)
    assert Layout.model_validate_json(layout.model_dump_json()) == layout


LAYOUTS = {
    "tensor 2": Layout(tensor=2),
    "tensor 4, KV heads 2": Layout(tensor=4),
    "tensor 4, KV heads 2, interleaved copies": Layout(tensor=4, kv_order="interleaved"),
    "tensor 8, KV heads 2, interleaved everything": Layout(
        tensor=8, kv_order="interleaved", rotary="interleaved", fused_qkv="groups", fused_gate_up=True
    ),
    "tensor 2, more copies than needed": Layout(tensor=2, kv_multiplier=2),
    "tensor 1, interleaved rotary": Layout(rotary="interleaved"),
    "tensor 2, pipeline 2": Layout(tensor=2, pipeline=2),
    "tensor 2, uneven stages, padded to 16": Layout(tensor=2, pipeline=2, stage_layers=(2, 1), pad_to=8),
    "tensor 2, fused in blocks": Layout(tensor=2, fused_qkv="blocks", fused_gate_up=True),
    "tensor 1, fused by groups": Layout(fused_qkv="groups"),
}
TOKENS = torch.tensor([0, 60, 31, 32, 7, 15, 16, 59, 1, 30])


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_devices_with_their_shards_compute_the_hubs_logits(name, tied):
    config = config_of(heads=8, kv_heads=2, layers=3, tied=tied, bias=True)
    weights = weights_of(config)
    shards = split(weights, Geometry.of(config), LAYOUTS[name])

    sharded = ShardedForward(config, LAYOUTS[name], shards).logits(TOKENS)

    torch.testing.assert_close(sharded, hub_logits(config, weights, TOKENS[None])[0], rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize(
    "name", [name for name in LAYOUTS if "fused" not in name and "everything" not in name]
)
def test_devices_with_shards_of_an_adapter_compute_the_merged_models_logits(name):
    """B of column-parallel modules and A of row-parallel ones are cut; the others are whole on every rank."""
    config = config_of(heads=8, kv_heads=2, layers=3)
    geometry, layout = Geometry.of(config), LAYOUTS[name]
    weights = weights_of(config)
    adapter = random_tensors(expected_names(config, LORA), seed=1)
    forward = ShardedForward(
        config, layout, split(weights, geometry, layout), split(adapter, geometry, layout)
    )

    together = hub_logits(config, merged(weights, adapter, LORA), TOKENS[None])[0]
    torch.testing.assert_close(forward.logits(TOKENS), together, rtol=1e-3, atol=1e-3)
    assert (together - hub_logits(config, weights, TOKENS[None])[0]).abs().max() > 0.1


def test_a_layout_read_with_the_wrong_rotary_order_gives_other_logits():
    config = config_of(heads=8, kv_heads=2)
    geometry, weights = Geometry.of(config), weights_of(config)
    shards = split(weights, geometry, Layout(tensor=2, rotary="interleaved"))

    wrong = join(shards, geometry, Layout(tensor=2), expected_names(config, None))

    p = hub_logits(config, weights, TOKENS[None]).double().log_softmax(-1)
    q = hub_logits(config, wrong, TOKENS[None]).double().log_softmax(-1)
    assert float((p.exp() * (p - q)).sum(-1).mean()) > 1e-6


def test_query_heads_stand_where_the_published_example_of_interleaved_copies_puts_them():
    """32 query heads, 8 KV heads, 32 ranks: rank 8 j + i holds Q[4 i + j] and K[i]
    (neuronx-distributed, modules/qkv_linear.py and scripts/checkpoint_converter.py at fbac349b)."""
    geometry = Geometry.of(config_of(heads=32, kv_heads=8, head_dim=2, intermediate=32))
    interleaved = Plan(geometry, Layout(tensor=32, kv_order="interleaved"))
    blocked = Plan(geometry, Layout(tensor=32))

    for j in range(4):
        for i in range(8):
            assert interleaved.heads_of(8 * j + i) == [4 * i + j]
            assert interleaved.kv_heads_of(8 * j + i) == [i]
    for rank in range(32):
        assert blocked.heads_of(rank) == [rank]
        assert blocked.kv_heads_of(rank) == [rank // 4]


@pytest.mark.parametrize(("tensor", "padded"), [(1, 128_256), (2, 128_256), (4, 128_512), (8, 129_024)])
def test_llama_3s_vocabulary_is_padded_as_megatron_pads_it(tensor, padded):
    """Multiples of 128 times the degree, ``make_vocab_size_divisible_by`` being 128 by default."""
    geometry = Geometry.of(config_of(heads=8, kv_heads=8, vocabulary=128_256))

    assert Plan(geometry, Layout(tensor=tensor, pad_to=128)).vocabulary == padded


def test_rows_fused_by_groups_stand_as_megatron_has_them():
    """For every KV head: its queries, its key, its value."""
    config = config_of(heads=4, kv_heads=2, head_dim=2, layers=1)
    weights = weights_of(config)
    q, k, v = (weights[f"model.layers.0.self_attn.{m}_proj.weight"] for m in "qkv")

    (held,) = split(weights, Geometry.of(config), Layout(fused_qkv="groups")).values()

    rows = [q[0:4], k[0:2], v[0:2], q[4:8], k[2:4], v[2:4]]
    assert torch.equal(held["model.layers.0.self_attn.qkv_proj.weight"], torch.cat(rows))


def test_gate_and_up_are_cut_before_they_are_fused():
    """A fused whole cut in two would give one rank all of gate and the other all of up; the shapes are the same."""
    config = config_of(layers=1)
    weights = weights_of(config)
    gate, up = (weights[f"model.layers.0.mlp.{m}_proj.weight"] for m in ("gate", "up"))

    shards = split(weights, Geometry.of(config), Layout(tensor=2, fused_gate_up=True))

    for rank in range(2):
        rows = slice(rank * 24, (rank + 1) * 24)
        fused = shards[Shard(rank, 0)]["model.layers.0.mlp.gate_up_proj.weight"]
        assert torch.equal(fused, torch.cat([gate[rows], up[rows]]))


def test_stages_hold_their_layers_embedding_first_norm_and_head_last():
    config = config_of(layers=5)
    shards = split(weights_of(config), Geometry.of(config), Layout(pipeline=3))

    layers = [
        sorted({int(name.split(".")[2]) for name in held if ".layers." in name}) for held in shards.values()
    ]
    assert layers == [[0, 1], [2, 3], [4]]
    outside = [{name for name in held if ".layers." not in name} for held in shards.values()]
    assert outside == [{EMBEDDING}, set(), {"model.norm.weight", "lm_head.weight"}]


def test_a_tied_model_has_its_embedding_on_both_ends_of_a_pipeline_and_once_without():
    config = config_of(tied=True)
    weights = weights_of(config)
    first, last = split(weights, Geometry.of(config), Layout(pipeline=2)).values()
    (alone,) = split(weights, Geometry.of(config), Layout()).values()

    assert torch.equal(first[EMBEDDING], last["lm_head.weight"])
    assert "lm_head.weight" not in first.keys() | alone.keys()


SPOILS = {
    "a shard is missing": (lambda s: s.pop(Shard(1, 1)), "no tp-01-pp-01.safetensors"),
    "a shard too many": (lambda s: s.update({Shard(4, 0): {}}), "also tp-04-pp-00.safetensors"),
    "a tensor is missing": (lambda s: s[Shard(2, 0)].pop(K0), f"tp-02-pp-00.safetensors: required {K0} "),
    "a layer is missing on all ranks": (
        lambda s: [s[Shard(rank, 0)].pop(K0) for rank in range(4)],
        f"tp-00-pp-00.safetensors: required {K0} ",
    ),
    "a tensor under another name": (
        lambda s: s[Shard(1, 0)].update({"module." + K0: s[Shard(1, 0)].pop(K0)}),
        f"the unknown module.{K0}; did you mean '{K0}'",
    ),
    "a tensor on another stage": (
        lambda s: s[Shard(0, 1)].update({EMBEDDING: s[Shard(0, 0)].pop(EMBEDDING)}),
        r"the unknown|required model\.embed_tokens",
    ),
    "a tensor without elements": (lambda s: s[Shard(3, 0)].update({K0: torch.zeros(0)}), r"shape \[0\]"),
    "a tensor of another shape": (
        lambda s: s[Shard(3, 0)].update({K0: torch.zeros(16, 32)}),
        r"tp-03-pp-00.*shape \[8, 32\], found shape \[16, 32\]",
    ),
    "a tensor of another type": (
        lambda s: s[Shard(3, 0)].update({K0: s[Shard(3, 0)][K0].bfloat16()}),
        "tp-03-pp-00.*float32.*found torch.bfloat16",
    ),
    "copies of a KV head that drifted apart": (
        lambda s: s[Shard(1, 0)].update({K0: s[Shard(1, 0)][K0] + 1e-7}),
        rf"tp-0[01]-pp-00.*{K0} equal to the copies of its KV heads",
    ),
    "norms that drifted apart": (
        lambda s: s[Shard(2, 1)].update({"model.norm.weight": s[Shard(2, 1)]["model.norm.weight"] * 1.0001}),
        r"tp-02-pp-01.*model\.norm\.weight equal to that of tp-00-pp-01",
    ),
    "a bias of a row-parallel module that was cut up": (
        lambda s: s[Shard(1, 0)].update(
            {
                K0.replace("k_proj.weight", "o_proj.bias"): torch.zeros_like(
                    s[Shard(1, 0)][K0.replace("k_proj.weight", "o_proj.bias")]
                )
            }
        ),
        r"tp-01-pp-00.*o_proj\.bias equal to that of tp-00-pp-00",
    ),
    "a vocabulary whose padding is not zero": (
        lambda s: s[Shard(3, 0)][EMBEDDING][-1].fill_(0.5),
        r"tp-03-pp-00.*zeros beyond the 61 tokens.*row 63",
    ),
    "padding with NaN": (
        lambda s: s[Shard(3, 0)][EMBEDDING][-2].fill_(float("nan")),
        r"tp-03-pp-00.*numbers in row 62",
    ),
    "a tied head that drifted from the embedding": (
        lambda s: s[Shard(1, 1)].update({"lm_head.weight": s[Shard(1, 1)]["lm_head.weight"] + 1e-6}),
        r"tp-01-pp-01.*lm_head\.weight equal to the embedding on stage 0",
    ),
}


@pytest.mark.parametrize("spoil", SPOILS, ids=str)
def test_shards_that_do_not_fit_together_are_refused_by_shard_and_tensor(spoil):
    config = config_of(heads=8, kv_heads=2, tied=True, bias=True)
    geometry, layout = Geometry.of(config), Layout(tensor=4, pipeline=2)
    expected = expected_names(config, None)
    shards = split(weights_of(config), geometry, layout)
    join(shards, geometry, layout, expected)
    change, said = SPOILS[spoil]
    change(shards)

    with pytest.raises(CheckpointError, match=said):
        join(shards, geometry, layout, expected)


@pytest.mark.parametrize(("written", "read"), [("blocked", "interleaved"), ("interleaved", "blocked")])
def test_copies_in_another_order_than_stated_are_noticed(written, read):
    config = config_of(heads=8, kv_heads=2)
    geometry, expected = Geometry.of(config), expected_names(config, None)
    shards = split(weights_of(config), geometry, Layout(tensor=4, kv_order=written))

    with pytest.raises(CheckpointError, match="copies of its KV heads"):
        join(shards, geometry, Layout(tensor=4, kv_order=read), expected)


def test_moments_whose_copies_differ_are_noticed_too():
    config = config_of(heads=8, kv_heads=2)
    geometry, layout = Geometry.of(config), Layout(tensor=4)
    expected = with_groups(expected_names(config, LORA))
    shards = split(random_tensors(expected), geometry, layout)
    name = "moment2/base_model.model.model.layers.1.self_attn.v_proj.lora_B.default.weight"
    shards[Shard(3, 0)][name] = shards[Shard(3, 0)][name] * 2

    with pytest.raises(CheckpointError, match=rf"{name} equal to the copies"):
        join(shards, geometry, layout, expected)


def test_a_vocabulary_taken_for_smaller_than_it_is_is_not_cut():
    config, smaller = config_of(vocabulary=64), config_of(vocabulary=63)
    shards = split(weights_of(config), Geometry.of(config), Layout(tensor=4))

    with pytest.raises(CheckpointError, match="zeros beyond the 63 tokens"):
        join(shards, Geometry.of(smaller), Layout(tensor=4), expected_names(smaller, None))


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        (Layout(tensor=16), "query heads divisible by 16"),
        (Layout(tensor=4, kv_multiplier=1), "times kv_multiplier divisible by 4, found 2"),
        (Layout(pipeline=3), "one layer for each of 3 stages, found 2"),
        (Layout(pipeline=2, stage_layers=(2, 1)), r"add up to 2, found \[2, 1\]"),
        (Layout(tensor=5), "query heads"),
    ],
)
def test_a_plan_that_does_not_divide_the_model_is_refused(layout, said):
    config = config_of(heads=8, kv_heads=2, intermediate=48)
    with pytest.raises(ModelError, match=said):
        split(weights_of(config), Geometry.of(config), layout)


def test_an_intermediate_size_that_the_degree_does_not_divide_is_refused():
    config = config_of(heads=8, kv_heads=8, intermediate=50)
    with pytest.raises(ModelError, match="intermediate size divisible by 4, found 50"):
        split(weights_of(config), Geometry.of(config), Layout(tensor=4))


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        ({"model.layers.2.mlp.up_proj.weight": torch.zeros(48, 16)}, "layers 0 to 1, found layer 2"),
        ({"model.layers.0.mlp.up_proj.weight": torch.zeros(46, 16)}, r"48 elements on axis 0.*\[46, 16\]"),
        ({"model.layers.0.mlp.down_proj.weight": torch.zeros(48)}, r"48 elements on axis 1"),
        ({"model.layers.0.mlp.experts.weight": torch.zeros(48, 16)}, "names of a Llama's tensors"),
        ({"model.embed_tokens.lora_A.default.weight": torch.zeros(2, 61)}, "linear modules"),
    ],
)
def test_a_tensor_that_is_not_the_models_is_refused(tensors, said):
    with pytest.raises(ModelError, match=said):
        split(tensors, Geometry.of(config_of()), Layout(tensor=2))


def test_a_head_of_its_own_in_a_tied_model_is_refused():
    with pytest.raises(ModelError, match="no output head of its own"):
        split({"lm_head.weight": torch.zeros(61, 16)}, Geometry.of(config_of(tied=True)), Layout())


def test_fusing_needs_all_parts():
    with pytest.raises(ModelError, match="q_proj and k_proj and v_proj together"):
        split({K0: torch.zeros(16, 16)}, Geometry.of(config_of()), Layout(fused_qkv="blocks"))


@pytest.mark.parametrize(
    "values", [{"tensor": 0}, {"pipeline": 2, "stage_layers": (1,)}, {"pad_to": 0}, {"degree": 2}]
)
def test_a_layout_that_means_nothing_is_refused(values):
    with pytest.raises(ValidationError):
        Layout(**values)


def test_bits_are_compared_not_numbers():
    """NaN is itself, the two zeros are not one, and equal bytes of another type or shape are something else."""
    nan = torch.tensor([float("nan"), 1.0])

    assert same_bits(nan, nan.clone())
    assert same_bits(torch.arange(4.0).reshape(2, 2).T, torch.tensor([[0.0, 2.0], [1.0, 3.0]]))
    assert same_bits(torch.tensor(1.0), torch.tensor(1.0))
    assert not same_bits(torch.tensor([0.0]), torch.tensor([-0.0]))
    assert not same_bits(torch.zeros(2), torch.zeros(2, dtype=torch.int32))
    assert not same_bits(torch.zeros(2, 1), torch.zeros(1, 2))

"""Rotary layouts: an interleaved Llama written here gives the hub's logits after the right permutation only."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from layout_cases import (
    LORA,
    config_of,
    half_split_rope,
    hub_logits,
    interleaved_rope,
    merged,
    random_tensors,
    weights_of,
    whole_logits,
)

from twintrack.errors import ModelError
from twintrack.pilot.convert.layouts import (
    Geometry,
    expected_names,
    permute_rotary,
    permute_rows,
    rotary_rows,
    with_groups,
)

CONFIG = config_of(heads=6, kv_heads=3)
GEOMETRY = Geometry.of(CONFIG)
TOKENS = torch.arange(12) * 5 % CONFIG.vocab_size


def _kl(logits, other) -> float:
    p, q = logits.double().log_softmax(-1), other.double().log_softmax(-1)
    return float((p.exp() * (p - q)).sum(-1).mean())


@given(
    heads=st.integers(1, 5),
    half=st.integers(1, 5),
    to=st.sampled_from(["half_split", "interleaved"]),
    columns=st.sampled_from([(), (1,), (3,)]),
)
def test_there_and_back_is_the_same_to_the_bit(heads, half, to, columns):
    tensor = torch.randn(heads * 2 * half, *columns)
    back = "half_split" if to == "interleaved" else "interleaved"

    assert torch.equal(permute_rows(permute_rows(tensor, heads, to), heads, back), tensor)


@given(heads=st.integers(1, 5), half=st.integers(1, 5))
def test_row_2i_of_a_head_is_what_row_i_was_and_row_2i_plus_1_what_row_i_plus_d_2_was(heads, half):
    """The two layouts' definition, row by row."""
    expected = []
    for head in range(heads):
        for i in range(half):
            expected += [head * 2 * half + i, head * 2 * half + half + i]

    assert rotary_rows(heads, 2 * half, "interleaved").tolist() == expected


def test_the_reference_is_right_where_it_needs_no_permutation():
    weights = weights_of(CONFIG)

    ours = whole_logits(CONFIG, weights, TOKENS, half_split_rope)

    torch.testing.assert_close(ours, hub_logits(CONFIG, weights, TOKENS[None])[0], rtol=1e-4, atol=1e-4)


def test_an_interleaved_model_gives_the_hubs_logits_after_the_permutation_and_not_without():
    weights = weights_of(CONFIG)
    hub = hub_logits(CONFIG, weights, TOKENS[None])[0]

    right = whole_logits(CONFIG, permute_rotary(weights, GEOMETRY, "interleaved"), TOKENS, interleaved_rope)
    without = whole_logits(CONFIG, weights, TOKENS, interleaved_rope)
    other_way = whole_logits(
        CONFIG, permute_rotary(weights, GEOMETRY, "half_split"), TOKENS, interleaved_rope
    )

    assert _kl(hub, right) < 1e-10
    torch.testing.assert_close(right, hub, rtol=1e-4, atol=1e-4)
    assert _kl(hub, without) > 1e-6
    assert _kl(hub, other_way) > 1e-6


def test_only_q_permuted_or_v_too_gives_other_logits():
    weights = weights_of(CONFIG)
    hub = hub_logits(CONFIG, weights, TOKENS[None])[0]
    right = permute_rotary(weights, GEOMETRY, "interleaved")
    only_q = {name: t if "k_proj" in name else right[name] for name, t in weights.items()}
    v_too = {
        name: permute_rows(t, GEOMETRY.kv_heads, "interleaved") if "v_proj" in name else right[name]
        for name, t in weights.items()
    }

    for wrong in (only_q, v_too):
        assert _kl(hub, whole_logits(CONFIG, wrong, TOKENS, interleaved_rope)) > 1e-6


def test_k_permuted_by_the_number_of_query_heads_gives_other_logits():
    """The error of converters that knew no grouped queries: shapes fit, text is fluent, attention is wrong."""
    config = config_of(heads=4, kv_heads=2, head_dim=8)
    weights = weights_of(config)
    hub = hub_logits(config, weights, TOKENS[None])[0]
    right = permute_rotary(weights, Geometry.of(config), "interleaved")
    wrong = {
        name: permute_rows(t, config.num_attention_heads, "interleaved") if "k_proj" in name else right[name]
        for name, t in weights.items()
    }

    assert _kl(hub, whole_logits(config, right, TOKENS, interleaved_rope)) < 1e-10
    assert _kl(hub, whole_logits(config, wrong, TOKENS, interleaved_rope)) > 1e-6


def test_an_adapter_permuted_by_itself_is_the_permuted_merged_weight():
    weights = weights_of(CONFIG)
    adapter = random_tensors(expected_names(CONFIG, LORA), seed=1)
    permuted = permute_rotary(adapter, GEOMETRY, "interleaved")

    apart = merged(permute_rotary(weights, GEOMETRY, "interleaved"), permuted, LORA)
    together = permute_rotary(merged(weights, adapter, LORA), GEOMETRY, "interleaved")

    changed = {name for name in adapter if not torch.equal(permuted[name], adapter[name])}
    assert {name.split(".")[-4] for name in changed} == {"q_proj", "k_proj"}
    assert all(".lora_B." in name for name in changed)
    for name, tensor in together.items():
        torch.testing.assert_close(apart[name], tensor, rtol=0, atol=1e-6)


def test_an_optimizer_step_after_the_permutation_is_the_permutation_of_the_step():
    """Moments move with their elements: a step of torch's AdamW on either side ends in the same bits."""
    names = expected_names(CONFIG, LORA)
    groups = [
        random_tensors(with_groups(names, kind), seed) for seed, kind in enumerate(["master", "moment1"])
    ]
    second = {name: t.abs() for name, t in random_tensors(with_groups(names, "moment2"), 2).items()}
    state = groups[0] | groups[1] | second
    gradient = random_tensors(names, 3)

    def step(held, gradients):
        after = {}
        for name in names:
            parameter = torch.nn.Parameter(held[f"master/{name}"].clone())
            optimizer = torch.optim.AdamW([parameter], lr=0.1)
            parameter.grad = gradients[name]
            optimizer.state[parameter] = {
                "step": torch.tensor(7.0),
                "exp_avg": held[f"moment1/{name}"].clone(),
                "exp_avg_sq": held[f"moment2/{name}"].clone(),
            }
            optimizer.step()
            after[name] = parameter.detach()
        return after

    first = permute_rotary(step(state, gradient), GEOMETRY, "interleaved")
    then = step(
        permute_rotary(state, GEOMETRY, "interleaved"), permute_rotary(gradient, GEOMETRY, "interleaved")
    )

    assert all(torch.equal(first[name], then[name]) for name in names)
    unmoved = {
        name: permute_rotary({name: t}, GEOMETRY, "interleaved")[name] if "master" in name else t
        for name, t in state.items()
    }
    lost = step(unmoved, permute_rotary(gradient, GEOMETRY, "interleaved"))
    assert not all(torch.equal(first[name], lost[name]) for name in names)


def test_biases_move_and_everything_else_stays_the_same_object():
    config = config_of(bias=True)
    weights = weights_of(config)
    after = permute_rotary(weights, Geometry.of(config), "interleaved")

    moved = {name.split(".", 3)[-1] for name in weights if after[name] is not weights[name]}
    assert moved == {f"self_attn.{m}_proj.{part}" for m in "qk" for part in ("weight", "bias")}


def test_rows_that_are_not_the_models_are_refused():
    name = "model.layers.0.self_attn.k_proj.weight"
    with pytest.raises(ModelError, match="3 heads of 8 rows, found 16 rows"):
        permute_rotary({name: torch.zeros(16, 24)}, GEOMETRY, "interleaved")
    with pytest.raises(ModelError, match="even number"):
        permute_rows(torch.zeros(9, 2), 3, "interleaved")
    with pytest.raises(ModelError, match="even head_dim"):
        rotary_rows(2, 3, "half_split")


def test_a_model_that_rotates_only_a_part_of_each_head_is_refused():
    config = config_of()
    config.rope_parameters = {**config.rope_parameters, "partial_rotary_factor": 0.5}
    with pytest.raises(ModelError, match=r"partial_rotary_factor 0\.5"):
        Geometry.of(config)

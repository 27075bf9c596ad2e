"""Adapters: what learns, where it starts, and that nothing is adapted by accident."""

import copy

import numpy as np
import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model

from tiny_llama import tiny_model
from twintrack.errors import ModelError
from twintrack.job.records import Lora
from twintrack.storage import LocalFileSystem
from twintrack.training.adapter import adapt
from twintrack.training.dropout import KeyedDropout
from twintrack.training.export import export

ALL = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
LORA = Lora(targets=("q_proj", "v_proj"), rank=4, alpha=8.0)
IDS = torch.arange(40).reshape(2, 20)


def logits(model):
    with torch.no_grad():
        return model(input_ids=IDS).logits


def trained(adapted, seed=1):
    """Give the adapter weights that change logits, as training would."""
    generator = torch.Generator().manual_seed(seed)
    parameters = dict(adapted.model.named_parameters())
    with torch.no_grad():
        for name in adapted.trainable:
            parameters[name].add_(torch.randn(parameters[name].shape, generator=generator), alpha=0.05)
    return adapted


def test_count_and_list_of_adapted_modules_are_those_of_the_shapes():
    """Reference, by hand: rank (in + out) over the projections of a layer of hidden 64, KV 32, inner 128."""
    adapted = adapt(tiny_model(), Lora(targets=ALL, rank=3), seed=0)
    per_layer = 3 * ((64 + 64) + (64 + 32) + (64 + 32) + (64 + 64) + 3 * (64 + 128))
    assert adapted.trainable_parameters == 2 * per_layer
    assert len(adapted.adapted_modules) == 14
    assert adapted.adapted_modules[0] == "model.layers.0.self_attn.q_proj"
    learning = [name for name, p in adapted.model.named_parameters() if p.requires_grad]
    assert tuple(learning) == adapted.trainable == tuple(adapted.initial)
    assert all(".lora_" in name for name in learning)


def test_a_new_adapter_changes_no_logit_and_a_trained_one_does():
    model = tiny_model()
    before = logits(model)
    adapted = adapt(model, LORA, seed=0)
    assert torch.equal(logits(adapted.model), before)
    assert not torch.allclose(logits(trained(adapted).model), before, atol=1e-3)


def test_first_weights_depend_on_seed_and_name_alone():
    torch.manual_seed(1)
    one = adapt(tiny_model(), LORA, seed=5)
    torch.manual_seed(2)
    state = torch.random.get_rng_state()
    two = adapt(tiny_model(), Lora(targets=ALL, rank=4), seed=5)
    assert torch.equal(torch.random.get_rng_state(), state), "the global generator was used"
    half = adapt(tiny_model().to(torch.bfloat16), LORA, seed=5)
    other = adapt(tiny_model(), LORA, seed=6)
    for name, value in one.initial.items():
        assert value.dtype == torch.float32
        assert torch.equal(value, two.initial[name])
        assert torch.equal(value, half.initial[name])
        assert torch.equal(dict(half.model.named_parameters())[name], value.to(torch.bfloat16))
        if ".lora_A." in name:
            assert not torch.equal(value, other.initial[name])
    a_weights = [value for name, value in one.initial.items() if ".lora_A." in name]
    assert len({tuple(value.flatten().tolist()) for value in a_weights}) == len(a_weights)


def test_first_weights_are_spread_as_peft_spreads_them():
    """PEFT's reset draws A by Kaiming's uniform rule with a = sqrt(5), that is +-1/sqrt(in), and B is
    zero."""
    lora = Lora(targets=ALL, rank=32)
    ours = adapt(tiny_model(), lora, seed=0).initial
    config = LoraConfig(task_type="CAUSAL_LM", r=32, target_modules=list(ALL))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        theirs = dict(get_peft_model(tiny_model(), config).named_parameters())
    for name, value in ours.items():
        reference = theirs[name].detach()
        if ".lora_B." in name:
            assert not value.any()
            assert not reference.any()
        else:
            bound = value.shape[1] ** -0.5
            assert value.abs().max() <= bound
            assert abs(value.std() - reference.std()) < 0.05 * bound
            assert abs(float(value.mean())) < 5 * bound / np.sqrt(3 * value.numel())


def test_casting_spares_master_weights_and_rotary_frequencies():
    model = tiny_model()
    frequencies = model.model.rotary_emb.inv_freq.clone()
    adapted = adapt(model, LORA, seed=0, dtype=torch.bfloat16)
    assert {p.dtype for p in adapted.model.parameters()} == {torch.bfloat16}
    assert {value.dtype for value in adapted.initial.values()} == {torch.float32}
    assert torch.equal(model.model.rotary_emb.inv_freq, frequencies)


@pytest.mark.parametrize("tied", [False, True])
def test_full_fine_tuning_trains_every_parameter_once(tied):
    model = tiny_model(tied=tied)
    adapted = adapt(model, None, seed=0, dtype=torch.bfloat16)
    matrices = 2 * (64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 128)
    expected = matrices + 5 * 64 + 512 * 64 * (1 if tied else 2)
    assert adapted.trainable_parameters == expected == sum(v.numel() for v in adapted.initial.values())
    assert adapted.adapted_modules == ()
    assert ("lm_head.weight" in adapted.trainable) is not tied
    assert all(p.requires_grad and p.dtype == torch.bfloat16 for p in model.parameters())
    reference = dict(tiny_model(tied=tied).named_parameters())
    assert all(torch.equal(value, reference[name]) for name, value in adapted.initial.items())


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (("q_proj", "k_prj"), "ends in 'k_prj'.*found none.*did you mean 'k_proj'"),
        (("nothing_like_it",), "the model has down_proj, gate_proj"),
        (("proj",), "ends in 'proj'.*found none"),
        (("embed_tokens",), "another kind of module, model.embed_tokens"),
        (("mlp",), "another kind of module, model.layers.0.mlp"),
    ],
)
def test_a_target_that_matches_nothing_is_refused(targets, message):
    with pytest.raises(ModelError, match=message):
        adapt(tiny_model(), Lora(targets=targets), seed=0)


def test_the_output_head_is_refused_only_where_it_is_tied():
    assert adapt(tiny_model(), Lora(targets=("lm_head",)), seed=0).adapted_modules == ("lm_head",)
    with pytest.raises(ModelError, match="weights of their own"):
        adapt(tiny_model(tied=True), Lora(targets=("lm_head",)), seed=0)


def test_dropout_is_keyed_everywhere_and_has_a_site_of_its_own():
    adapted = adapt(tiny_model(), Lora(targets=ALL, dropout=0.25), seed=0)
    modules = [module for module in adapted.model.modules() if isinstance(module, KeyedDropout)]
    assert len(modules) == len({int(module.site) for module in modules}) == 14
    assert all(module.p == 0.25 for module in modules)
    assert not any(isinstance(module, torch.nn.Dropout) for module in adapted.model.modules())


def test_an_exported_adapter_gives_the_same_logits_in_plain_peft(tmp_path):
    """Read back by PEFT alone, on a fresh model."""
    adapted = trained(adapt(tiny_model(), Lora(targets=ALL, rank=4, alpha=8.0, dropout=0.1), seed=0))
    files = export(adapted.model, tmp_path / "final", LocalFileSystem(), source="some/model")
    assert [path.name for path in files] == ["adapter_model.safetensors", "adapter_config.json"]
    plain = PeftModel.from_pretrained(tiny_model(), tmp_path / "final").eval()
    assert torch.equal(logits(plain), logits(adapted.model.eval()))
    assert plain.peft_config["default"].base_model_name_or_path == "some/model"
    assert plain.peft_config["default"].lora_alpha == 8.0
    assert str(tmp_path) not in (tmp_path / "final" / "adapter_config.json").read_text()


def test_master_weights_can_be_exported_in_place_of_the_models(tmp_path):
    adapted = adapt(tiny_model(), LORA, seed=0, dtype=torch.bfloat16)
    masters = {name: value + 1e-4 for name, value in adapted.initial.items()}
    export(adapted.model, tmp_path, LocalFileSystem(), source="x", weights=masters)
    plain = PeftModel.from_pretrained(tiny_model(), tmp_path)
    read = dict(plain.named_parameters())
    assert all(torch.equal(read[name], value) for name, value in masters.items())
    with pytest.raises(ValueError, match="no parameter wrong"):
        export(adapted.model, tmp_path, LocalFileSystem(), source="x", weights={"wrong": torch.zeros(1)})


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("most_bytes", [2**31, 50_000])
def test_an_exported_model_is_read_by_transformers_with_the_same_logits(tmp_path, tied, most_bytes):
    from transformers import AutoTokenizer, LlamaForCausalLM

    from tiny_llama import tiny_tokenizer

    adapted = trained(adapt(tiny_model(tied=tied), None, seed=0))
    expected = logits(adapted.model)
    export(
        adapted.model,
        tmp_path,
        LocalFileSystem(),
        source="x",
        tokenizer=tiny_tokenizer(),
        most_shard_bytes=most_bytes,
    )
    assert (tmp_path / "model.safetensors.index.json").exists() is (most_bytes < 2**31)
    read, report = LlamaForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]
    assert torch.equal(logits(read.eval()), expected)
    assert len(AutoTokenizer.from_pretrained(tmp_path)) == len(tiny_tokenizer())


def test_adapting_does_not_touch_the_base_weights():
    model = tiny_model()
    before = copy.deepcopy(model.state_dict())
    trained(adapt(model, LORA, seed=0))
    after = {
        name.replace(".base_layer", ""): value
        for name, value in model.state_dict().items()
        if ".lora_" not in name
    }
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)

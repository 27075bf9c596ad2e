"""Loading: what is read, what is refused, in one line each."""

import importlib
import json
import shutil

import pytest
import safetensors.torch
import torch
from transformers import GPT2Config, LlamaForCausalLM

from tiny_llama import tiny_config, tiny_model, tiny_tokenizer
from twintrack.errors import ModelError
from twintrack.job.records import Data, Evaluation, Job, Model, StopCriteria, TrackSlot
from twintrack.storage import LocalFileSystem
from twintrack.training.hub import fetch_snapshot, is_hub_name
from twintrack.training.model import check_fits, load_model

FS = LocalFileSystem()


def load(base, source="model", **more):
    settings = {"dtype": torch.float32, "attention": "eager", "cache_root": base / "cache", "fs": FS, **more}
    return load_model(Model(source=source), base, **settings)


@pytest.fixture
def folder(tiny_model_folder, tmp_path):
    """A copy of the tiny model that a test may damage."""
    shutil.copytree(tiny_model_folder, tmp_path / "model")
    return tmp_path / "model"


def refused(folder, message, **more):
    with pytest.raises(ModelError, match=message) as caught:
        load(folder.parent, folder.name, **more)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def change_config(folder, **values):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def change_weights(folder, change):
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    change(tensors)
    safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_folder_is_loaded_with_its_own_weights(folder, dtype):
    loaded = load(folder.parent, dtype=dtype)
    reference = tiny_model().state_dict()
    state = loaded.model.state_dict()
    assert state.keys() == reference.keys()
    assert all(torch.equal(state[name], value.to(dtype)) for name, value in reference.items())
    assert not loaded.model.training
    assert loaded.model.model.rotary_emb.inv_freq.dtype == torch.float32
    assert (loaded.source, loaded.note, loaded.pad_id) == ("model", "", 0)
    assert loaded.tokenizer("who are you")["input_ids"] == tiny_tokenizer()("who are you")["input_ids"]


def test_tied_weights_stay_tied(tiny_tied_model_folder):
    loaded = load(tiny_tied_model_folder.parent, tiny_tied_model_folder.name)
    assert loaded.model.lm_head.weight is loaded.model.model.embed_tokens.weight


def test_sharded_weights_are_loaded(folder):
    tiny_model().save_pretrained(folder, max_shard_size="100KB")
    (folder / "model.safetensors").unlink()
    shards = sorted(folder.glob("model-*.safetensors"))
    assert len(shards) > 1
    assert torch.equal(load(folder.parent).model.lm_head.weight, tiny_model().lm_head.weight)
    shards[1].unlink()
    refused(folder, f"found no {shards[1].name}")


def test_an_index_cannot_lead_out_of_its_folder(folder):
    index = {"weight_map": {"model.norm.weight": "../elsewhere.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(Exception, match="a path inside"):
        load(folder.parent)
    for broken in ("{", "[]", "{}", '{"weight_map": {"a": 1}}'):
        (folder / "model.safetensors.index.json").write_text(broken)
        refused(folder, r"model\.safetensors\.index\.json")


def test_the_digest_is_that_of_the_model_not_of_its_place(folder, tmp_path):
    first = load(folder.parent).weights_digest
    shutil.copytree(folder, tmp_path / "elsewhere" / "other")
    assert load(tmp_path / "elsewhere", "other").weights_digest == first
    change_config(folder, transformers_version="0.0.0")
    assert load(folder.parent).weights_digest == first
    change_config(folder, rms_norm_eps=1e-3)
    second = load(folder.parent).weights_digest
    change_weights(folder, lambda tensors: tensors["model.norm.weight"].mul_(2))
    assert len({first, second, load(folder.parent).weights_digest}) == 3


def test_weights_that_are_missing_truncated_or_pickled(folder):
    whole = (folder / "model.safetensors").read_bytes()
    for size in (0, 5, 100, len(whole) // 2, len(whole) - 1):
        (folder / "model.safetensors").write_bytes(whole[:size])
        refused(folder, rf"model\.safetensors.*a whole safetensors file, found {size} bytes")
    (folder / "model.safetensors").unlink()
    refused(folder, r"weights in safetensors, found no model\.safetensors")
    torch.save(tiny_model().state_dict(), folder / "pytorch_model.bin")
    refused(folder, r"only pickled weights \(pytorch_model\.bin\)")


def test_a_parameter_is_never_made_up(folder):
    change_weights(folder, lambda tensors: tensors.pop("model.layers.1.mlp.up_proj.weight"))
    refused(folder, r"the tensor model\.layers\.1\.mlp\.up_proj\.weight, found 1 tensors missing")


def test_an_untied_head_may_not_be_missing(folder):
    change_weights(folder, lambda tensors: tensors.pop("lm_head.weight"))
    refused(folder, r"the tensor lm_head\.weight")


def test_weights_of_another_model(folder):
    change_weights(folder, lambda tensors: tensors.update(extra=torch.zeros(2)))
    refused(folder, "the unknown tensor extra")
    change_weights(folder, lambda tensors: tensors.pop("extra"))
    change_config(folder, intermediate_size=96)
    refused(folder, r"gate_proj\.weight of shape \[96, 64\], found shape \[128, 64\]")


def test_rotary_frequencies_of_old_checkpoints_are_no_obstacle(folder):
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    change_weights(folder, lambda tensors: tensors.update({name: torch.ones(8)}))
    assert torch.equal(load(folder.parent).model.lm_head.weight, tiny_model().lm_head.weight)


def test_configurations_that_cannot_serve(folder, tmp_path):
    GPT2Config(architectures=["GPT2LMHeadModel"]).save_pretrained(tmp_path / "gpt2")
    refused(tmp_path / "gpt2", "the architecture LlamaForCausalLM, found GPT2LMHeadModel")
    change_config(folder, quantization_config={"quant_method": "awq"})
    refused(folder, "unquantised weights, found quantisation 'awq'")
    change_config(folder, quantization_config=None, hidden_size="wide")
    refused(folder, r"a whole number from 1 for hidden_size, found 'wide'")
    change_config(folder, hidden_size=64, rms_norm_eps="small")
    refused(folder, "a valid Llama configuration")
    (folder / "config.json").write_text("{")
    refused(folder, "a JSON file")
    (folder / "config.json").unlink()
    refused(folder, r"config\.json, found none")
    (folder / "adapter_config.json").write_text("{}")
    refused(folder, "found an adapter")


def test_tokenizers_that_cannot_serve(folder):
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens([f"<extra{n}>" for n in range(512)])
    tokenizer.save_pretrained(folder)
    refused(folder, "a tokenizer for the model's 512 tokens, found token ids up to 8")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    refused(folder, "a tokenizer in the model's folder")


def test_code_in_a_model_folder_never_runs(folder):
    (folder / "evil.py").write_text("raise SystemExit('ran')")
    change_config(folder, auto_map={"AutoModelForCausalLM": "evil.Model", "AutoTokenizer": ["evil.T", None]})
    assert isinstance(load(folder.parent).model, LlamaForCausalLM)


def test_a_folder_that_is_not_there(tmp_path):
    refused(tmp_path / "no" / "such" / "model", "no folder|neither|none of them")
    with pytest.raises(ModelError, match=r"no folder .*missing"):
        load(tmp_path, "./missing")


def test_the_hub_offline_is_one_line(tmp_path):
    """The real client, offline as all tests are."""
    with pytest.raises(ModelError, match=r"some-one/some-model.*none of them \(offline\)") as caught:
        load(tmp_path, "some-one/some-model")
    assert "\n" not in str(caught.value)


def hub_error(kind):
    from huggingface_hub import errors

    client = importlib.import_module(errors.Response.__module__.partition(".")[0])
    request = client.Request("GET", "https://hub.example/model")
    if issubclass(getattr(errors, kind), errors.HfHubHTTPError):
        return getattr(errors, kind)("several\nlines", response=client.Response(403, request=request))
    return getattr(errors, kind)("several\nlines")


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("GatedRepoError", "a gated model"),
        ("RepositoryNotFoundError", "a model on the hub, found neither"),
        ("RevisionNotFoundError", "the revision 'main'"),
        ("HFValidationError", "a model on the hub, found neither"),
        ("LocalEntryNotFoundError", "offline"),
        ("OfflineModeIsEnabled", "offline"),
        ("HfHubHTTPError", "an answer from the hub, found HfHubHTTPError"),
    ],
)
def test_errors_of_the_hub_are_one_line(kind, message):
    def download(*args, **more):
        raise hub_error(kind)

    with pytest.raises(ModelError, match=message) as caught:
        fetch_snapshot("a/b", "main", download)
    assert "\n" not in str(caught.value)


def test_a_snapshot_takes_safetensors_alone_and_looks_at_the_configuration_first(folder):
    asked = []

    def download(name, *, revision, allow_patterns, ignore_patterns):
        asked.append((name, revision, tuple(allow_patterns)))
        return str(folder)

    assert fetch_snapshot("a/b", "v1", download) == folder
    assert asked[0] == ("a/b", "v1", ("config.json",))
    assert not any("bin" in pattern or pattern == "*" for pattern in asked[1][2])
    change_config(folder, architectures=["MistralForCausalLM"], model_type="mistral")
    asked.clear()
    with pytest.raises(ModelError, match="found MistralForCausalLM"):
        fetch_snapshot("a/b", "v1", download)
    assert len(asked) == 1, "weights of another architecture were downloaded"


@pytest.mark.parametrize(
    ("name", "could_be"),
    [("a/b", True), ("gpt2", True), ("a/b/c", False), ("./a", False), ("/a/b", False), ("../a", False)],
)
def test_names_of_the_hub(name, could_be):
    assert is_hub_name(name) is could_be


def test_sequences_and_answers_must_fit_the_model():
    def job(length, answer):
        return Job(
            name="j",
            model=Model(source="m"),
            data=Data(files=("d.jsonl",), sequence_length=length),
            stop=StopCriteria(steps=1),
            evaluation=Evaluation(prompts=("hi",), answer_tokens=answer),
            tracks=(TrackSlot(use=("cpu",)),),
        )

    check_fits(job(512, 16), tiny_config())
    with pytest.raises(ModelError, match=r"data\.sequence_length.*512 positions, found 513"):
        check_fits(job(513, 16), tiny_config())
    with pytest.raises(ModelError, match=r"evaluation\.answer_tokens"):
        check_fits(job(8, 1000), tiny_config())


def test_loading_leaves_the_settings_of_transformers_as_they_were(folder, capfd):
    from transformers.utils import logging

    logging.enable_progress_bar()  # another test of this process may have had it off
    level = logging.get_verbosity()
    load(folder.parent)
    assert logging.get_verbosity() == level
    assert logging.is_progress_bar_enabled()
    assert capfd.readouterr() == ("", "")

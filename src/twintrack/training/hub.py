"""A model by its name on the Hugging Face hub: the snapshot that ``transformers`` uses, or one clear line.

The snapshot lands in the hub's own cache, shared with every other program. Weights other than safetensors are
not downloaded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from twintrack.errors import ModelError
from twintrack.training.weights import read_config

__all__ = ["fetch_config", "fetch_snapshot", "is_hub_name"]

_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
# what was required, what was found, what to do
_GATED = (
    "access to the model",
    "a gated model that this account may not read",
    "accept its licence on the hub and log in with 'hf auth login'",
)
_NOT_THERE = (
    "a folder beside the job file, or a model on the hub",
    "neither",
    "check the name; a private model needs 'hf auth login'",
)
_OFFLINE = (
    "a folder beside the job file, a model in the hub's cache, or a connection to the hub",
    "none of them (offline)",
    "connect, or give the path of a local model",
)
_PATTERNS = ("*.safetensors", "*.json", "*.jinja", "tokenizer.model")


def is_hub_name(source: str) -> bool:
    """Whether ``source`` could be a name on the hub, such as ``organisation/model``."""
    return _NAME.fullmatch(source) is not None and not source.startswith(".")


def fetch_snapshot(name: str, revision: str | None, download: Callable[..., str] | None = None) -> Path:
    """The local folder of a model on the hub, downloaded where it is not there yet.

    The configuration comes first, so that a model of another architecture costs no download.

    Args:
        name: name on the hub.
        revision: branch, tag or commit; none: the default branch.
        download: ``huggingface_hub.snapshot_download``, or another with its arguments.

    Raises:
        ModelError: if the model does not exist, is gated, or cannot be reached.
    """
    if download is None:
        from huggingface_hub import snapshot_download

        download = snapshot_download
    folder = _download(download, name, revision, ["config.json"])
    read_config(folder)
    return _download(download, name, revision, list(_PATTERNS))


def fetch_config(name: str, revision: str | None, download: Callable[..., str] | None = None) -> Path:
    """The local folder of a model on the hub with its ``config.json``; no weight is downloaded.

    Args:
        name: name on the hub.
        revision: branch, tag or commit; none: the default branch.
        download: ``huggingface_hub.snapshot_download``, or another with its arguments.

    Raises:
        ModelError: if the model does not exist, is gated, or cannot be reached.
    """
    if download is None:
        from huggingface_hub import snapshot_download

        download = snapshot_download
    return _download(download, name, revision, ["config.json"])


def _download(download: Callable[..., str], name: str, revision: str | None, patterns: list[str]) -> Path:
    try:
        return Path(download(name, revision=revision, allow_patterns=patterns, ignore_patterns=["*/*"]))
    except Exception as error:
        raise _explained(error, name, revision) from error


def _explained(error: Exception, name: str, revision: str | None) -> ModelError:
    """One line for what the hub's client raised; kinds that are special cases of others come first."""
    from huggingface_hub import errors

    cases: tuple[tuple[tuple[type[Exception], ...], tuple[str, str, str]], ...] = (
        ((errors.GatedRepoError,), _GATED),
        ((errors.RepositoryNotFoundError, errors.HFValidationError), _NOT_THERE),
        (
            (errors.RevisionNotFoundError,),
            (f"the revision '{revision}'", "none of that name", "check model.revision"),
        ),
        (
            (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled, ConnectionError, TimeoutError),
            _OFFLINE,
        ),
    )
    unknown = ("an answer from the hub", f"{type(error).__name__}: {error}"[:200], "try again later")
    required, found, remedy = next((line for kinds, line in cases if isinstance(error, kinds)), unknown)
    return ModelError(required, found=found, where=f"model.source = '{name}'", remedy=remedy)

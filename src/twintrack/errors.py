"""The error tree.

Every error tells four things: what was required, what was found, where, and what to do::

    TwintrackError
    ├── UserError                  exit code 2: the user can mend it; one line, never a traceback
    │   ├── JobError               the job file: missing, malformed, unknown key, bad value
    │   ├── DataError              training data: empty, malformed line, sample too long, nothing to learn
    │   ├── ModelError             weights or architecture: missing, truncated, pickle, gated, wrong kind
    │   ├── CatalogueError         unknown chip, instance, server or price
    │   ├── TrackError             unknown track, or one that this machine does not have
    │   ├── RunFolderError         run folder exists, belongs to another job, is in use
    │   ├── StorageError           disk full, read-only, no permission, path outside its root
    │   ├── CheckpointError        incomplete, altered or missing checkpoint
    │   ├── CacheError             compile cache: altered entry, unusable folder
    │   ├── EventError             a record of events that cannot be read
    │   ├── CompareError           runs that are not of the same job, data and weights
    │   ├── DossierError           a capacity request with empty fields
    │   ├── KernelError            an NKI kernel asks for what the NeuronCore cannot do, or forgets something
    │   │   └── RegisterError          a register of the NeuronCore used as a Python number
    │   └── CompileError           a graph that the software Trainium2 cannot take
    │       ├── UnsupportedOperator    operator and model line are named
    │       └── RecompileLimit         too many programs for one function
    ├── RunFailed                  exit code 1: the run itself failed (loss not finite, resume not exact)
    ├── InvalidProgram             exit code 1: an IR program breaks the rules of the IR
    └── Interrupted                exit code 130: stopped by Ctrl-C or SIGTERM; the run can be resumed
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "COMPILE_ERRORS",
    "CacheError",
    "CatalogueError",
    "CheckpointError",
    "CompareError",
    "CompileError",
    "DataError",
    "DossierError",
    "EventError",
    "Interrupted",
    "InvalidProgram",
    "JobError",
    "KernelError",
    "ModelError",
    "RecompileLimit",
    "RegisterError",
    "RunFailed",
    "RunFolderError",
    "StorageError",
    "TrackError",
    "TwintrackError",
    "UnsupportedOperator",
    "UserError",
    "nearest",
]


class TwintrackError(Exception):
    """Base of all errors raised on purpose.

    Args:
        required: what had to hold.
        found: what was there instead.
        where: file, line, key or operator.
        remedy: what to do about it.
    """

    exit_code = 1

    def __init__(self, required: str, *, found: str, where: str, remedy: str) -> None:
        self.required = required
        self.found = found
        self.where = where
        self.remedy = remedy
        super().__init__(required, found, where, remedy)

    def __str__(self) -> str:
        """One line: ``where: required ..., found ...; remedy``; a comma that ends a part is not doubled."""
        required, found = self.required.removesuffix(","), self.found.removesuffix(",")
        text = f"{self.where}: required {required}, found {found}; {self.remedy}"
        return " ".join(text.split())


class UserError(TwintrackError):
    """The user can mend it: one line on the terminal and exit code 2."""

    exit_code = 2


class JobError(UserError):
    """The job file is missing, malformed or asks for something impossible."""


class DataError(UserError):
    """Training data are missing, malformed, too long or carry nothing to learn."""


class ModelError(UserError):
    """Weights or configuration are missing, damaged, gated or of another architecture."""


class CatalogueError(UserError):
    """A chip, instance, server or price that the catalogue does not have."""


class TrackError(UserError):
    """A track that does not exist or that this machine cannot run."""


class RunFolderError(UserError):
    """The run folder exists, belongs to another job, or is used by another process."""


class StorageError(UserError):
    """The file system refused: full, read-only, no permission, or a path left its root."""


class CheckpointError(UserError):
    """A checkpoint is incomplete, altered or missing."""


class CacheError(UserError):
    """The compile cache cannot be used, or one of its entries was altered."""


class EventError(UserError):
    """A record of events cannot be read."""


class CompareError(UserError):
    """Two runs are not of the same job, data and weights; what differs is named."""


class DossierError(UserError):
    """A capacity request lacks required fields; all are named."""


class KernelError(UserError, AssertionError):
    """An NKI kernel broke a rule of the NeuronCore, or one of ours; raised at the kernel author's line.

    An ``AssertionError`` too, because that is what the vendor's simulator documents for violated constraints.
    """


class RegisterError(KernelError, TypeError):
    """A register used where Python needs a number; a ``TypeError`` too, as the vendor documents."""


class CompileError(UserError):
    """A graph cannot be compiled for the software Trainium2."""


class UnsupportedOperator(CompileError):
    """An operator has no rule for the software Trainium2."""


class RecompileLimit(CompileError):
    """One function asked for more programs than the limit allows."""


COMPILE_ERRORS = frozenset(kind.__name__ for kind in (CompileError, UnsupportedOperator, RecompileLimit))
"""Names of the errors by which a graph is refused, as events hold them."""


class RunFailed(TwintrackError):
    """The run did not do what it had to: exit code 1."""


class InvalidProgram(TwintrackError):
    """An IR program breaks a rule of the IR; the message names the operator."""


class Interrupted(TwintrackError):
    """Stopped by Ctrl-C or SIGTERM; what was done is kept."""

    exit_code = 130


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``did you mean 'x'?`` for the known name most like ``name``, or an empty string.

    >>> nearest("trn2.48xlrge", ["trn2.48xlarge", "p5.48xlarge"])
    "did you mean 'trn2.48xlarge'?"
    """
    match = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"did you mean '{match[0]}'?" if match else ""

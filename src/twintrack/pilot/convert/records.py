"""What a conversion did and what proves that the other side can use it, as records and as ``proof.json``."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

__all__ = ["PROOF", "Check", "Proof"]

PROOF = "proof.json"


class Check(BaseModel):
    """One thing that had to hold, measured in a process of its own."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    name: str
    """Such as ``keys``, ``shapes``, ``logits``, ``adapter effect``, ``continued step``."""
    passed: bool
    found: str
    """What was found, with its numbers."""
    value: float | None = None
    limit: float | None = None
    """What ``value`` was held against."""
    unit: str = ""


class Proof(BaseModel):
    """``proof.json``: written last into the converted folder, and beside the run that it came from."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    format: Literal[1] = 1
    version: str
    """Of twintrack."""
    job_digest: str
    source: str
    """What was converted, as ``TRACK/KIND@STEP``, or the folder's name."""
    step: int | None
    to: Literal["peft", "hf", "twintrack"]
    files: dict[str, str]
    """SHA-256 of every file of the converted folder, by relative path."""
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether there are checks, and each passed."""
        return bool(self.checks) and all(check.passed for check in self.checks)

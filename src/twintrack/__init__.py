"""twintrack: decide, with evidence, whether a fine-tuning job belongs on AWS Trainium2 or on GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twintrack.nki.profiling import profile

__version__ = "0.3.0"

__all__ = ["__version__", "profile"]


def __getattr__(name: str) -> Any:
    """``twintrack.profile`` is loaded when it is asked for, so that importing the package stays cheap."""
    if name == "profile":
        from twintrack.nki.profiling import profile

        return profile
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

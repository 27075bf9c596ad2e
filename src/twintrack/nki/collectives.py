"""``nki.collectives``: exchanges between ranks."""

from __future__ import annotations

__all__: list[str] = []

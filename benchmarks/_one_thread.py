"""Benchmarks against NumPy run on one thread, whatever the caller's environment says."""

from __future__ import annotations

import os
import sys

__all__ = ["one_thread"]

_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def one_thread() -> None:
    """Start this script again with one thread where it has not been so started.

    Libraries of linear algebra read the variables when they are loaded, which is before any code of a script that
    imports NumPy; so the process is replaced by one that has them.
    """
    if all(os.environ.get(name) == "1" for name in _VARIABLES):
        return
    os.execve(sys.executable, sys.orig_argv, os.environ | dict.fromkeys(_VARIABLES, "1"))  # noqa: S606

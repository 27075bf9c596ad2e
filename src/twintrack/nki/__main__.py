"""``python -m twintrack.nki SCRIPT.py ...``: run a script whose kernels import ``nki`` on the software NeuronCore.

The script runs as ``__main__`` with its own arguments, with the names installed and ``NKI_SIMULATOR=1``, and its exit
code is kept. A mistake of a kernel ends in one line and exit code 2; ``--traceback`` shows where it came from.
"""

from __future__ import annotations

import argparse
import logging
import runpy
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from twintrack.errors import UserError
from twintrack.nki.installing import installed, simulator_requested

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a script and return the exit code of a run that came to its end or to a mistake of the user.

    Args:
        arguments: ``[--traceback] SCRIPT.py ...``; those of the command line by default.

    Raises:
        SystemExit: the script left so, or the arguments are wrong (code 2).
        BaseException: whatever else the script raised; Python shows it as it would without us.
    """
    options = _parser().parse_args(arguments)
    script: Path = options.script
    try:
        _refuse_what_is_no_file(script)
        with (
            installed(),
            simulator_requested(),
            _command_line(script, options.arguments),
            _said_once(logging.getLogger("twintrack.nki")),
        ):
            runpy.run_path(str(script), run_name="__main__")
    except UserError as mistake:
        if options.traceback:
            traceback.print_exc()
        else:
            sys.stderr.write(f"twintrack.nki: {mistake}\n")
        return mistake.exit_code
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m twintrack.nki",
        description="Run a script whose kernels import nki on the software NeuronCore.",
    )
    parser.add_argument(
        "--traceback", action="store_true", help="show the traceback of a mistake in a kernel"
    )
    parser.add_argument("script", type=Path, metavar="SCRIPT.py", help="the script to run")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="arguments of the script")
    return parser


def _refuse_what_is_no_file(script: Path) -> None:
    if not script.is_file():
        raise UserError(
            "a Python file",
            found="a folder" if script.is_dir() else "no such file",
            where=str(script),
            remedy="name the script to run",
        )


class _Once(logging.Handler):
    """Writes each message once, as a script may run a kernel many times."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Write it to standard error, if it is new."""
        text = record.getMessage()
        if text not in self._said:
            self._said.add(text)
            sys.stderr.write(f"twintrack.nki: {text}\n")


@contextmanager
def _said_once(logger: logging.Logger) -> Iterator[None]:
    """What running kernels log, such as which chip was taken for want of a choice, is written to standard error."""
    handler, level, propagate = _Once(), logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


@contextmanager
def _command_line(script: Path, arguments: Sequence[str]) -> Iterator[None]:
    """``sys.argv`` and the first place to import from, as Python sets them for ``python SCRIPT.py ...``."""
    argv, path = sys.argv, list(sys.path)
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        yield
    finally:
        sys.argv = argv
        sys.path[:] = path


if __name__ == "__main__":
    sys.exit(main())

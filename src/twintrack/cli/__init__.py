"""The ``twintrack`` command: thin commands over the rooms above, each imported when it is called.

Every command is a module ``twintrack.cli.NAME`` with a click command named ``command``, listed in
``twintrack.cli.group``. A command asks a room above and prints what it answers; it raises the errors of
``twintrack.errors`` and leaves wording, exit codes and the terminal to ``group.run``.
"""

from __future__ import annotations

import signal
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and leave with its exit code."""
    try:
        # A room that must do more than end, such as the pilot, puts its own handler in this place.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        # Imported here, so that Ctrl-C in the first tenth of a second is a stop like any other.
        from twintrack.cli.group import group, run

        code = run(group, sys.argv[1:])
    except KeyboardInterrupt:
        sys.stderr.write("twintrack: stopped\n")
        code = 130
    sys.exit(code)

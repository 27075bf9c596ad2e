"""The table of commands, and the one place where an error becomes a line on the terminal and an exit code.

Exit codes: 0 done; 1 the run itself failed; 2 the user can mend it; 130 stopped by Ctrl-C or SIGTERM;
141 whoever read our output is gone (``twintrack hardware list | head``).
"""

from __future__ import annotations

import importlib
import io
import keyword
import os
import select
import sys
from collections.abc import Sequence

import click

from twintrack import __version__
from twintrack.errors import TwintrackError, nearest

__all__ = ["COMMANDS", "group", "run"]

COMMANDS = {
    "cache": "look at, verify and prune the compile cache",
    "checkpoint": "list, verify and show checkpoints",
    "compare": "two runs of one job against each other; unequal jobs are refused",
    "convert": "a checkpoint to another layout and back, with proof",
    "decide": "the verdict on a job from its runs, with reasons",
    "dossier": "the capacity request, from the job and its runs",
    "hardware": "chips, instances, servers, links and prices, with their sources",
    "import": "bring in a run made elsewhere, from its events, metrics or trainer's log",
    "init": "write a commented job file to start from",
    "job": "show what a job file means, or its JSON Schema",
    "kernel": "run NKI kernels on a NeuronCore in software, print their instructions, check their source",
    "ledger": "what a run cost, line by line, each with formula, inputs and sources",
    "pilot": "run a job on its tracks under the protocol, and report",
    "qualify": "what a job needs and whether it fits, before anything is reserved",
    "report": "make the report of a run again, from its events",
}

_STOPPED = 130
_READER_GONE = 128 + 13  # what a shell reports for a program that SIGPIPE ended


class _LazyGroup(click.Group):
    """Commands are modules ``twintrack.cli.NAME`` with a click command named ``command``.

    A name that Python keeps for itself has a ``_`` behind it as a module, as PEP 8 writes such names.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        if cmd_name not in COMMANDS:
            known = f"; {hint}" if (hint := nearest(cmd_name, COMMANDS)) else ""
            raise click.UsageError(f"No such command '{cmd_name}'{known}", ctx)
        module = f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name
        command: click.Command = importlib.import_module(f"twintrack.cli.{module}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        # From the table: asking each command for its help would import all of them.
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def group() -> None:
    """Decide, with evidence, whether a fine-tuning job belongs on AWS Trainium2 or on GPU."""


def run(commands: click.Group, arguments: Sequence[str]) -> int:
    """Run a command and return its exit code; what was raised on purpose becomes one line on standard error.

    An ``OSError`` that no room has turned into its own error is told in one line: disk and network are the
    user's, not ours. ``python -X dev -m twintrack`` lets it through with its traceback. Any other
    exception is a mistake of ours and keeps its traceback.
    """
    try:
        return _invoke(commands, arguments)
    except TwintrackError as error:
        return _say(str(error), error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "twintrack"
        return _say(f"{error.format_message().rstrip('.')}; see {command} --help", 2)
    except click.ClickException as error:
        return _say(error.format_message(), 2)
    except (KeyboardInterrupt, click.Abort):
        return _say("stopped", _STOPPED)
    except OSError as error:
        if _reader_is_gone():
            return _READER_GONE
        if sys.flags.dev_mode:
            raise
        place = f"{error.filename}: " if error.filename is not None else ""
        return _say(f"{place}{error.strerror or error}", 2)


def _invoke(commands: click.Group, arguments: Sequence[str]) -> int:
    # Not ``commands.main``: it takes any broken pipe, even one to a worker process, for a closed standard
    # output, and is silent.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without, say, a dash gets '?' and no traceback
    code = 0
    try:
        with commands.make_context("twintrack", list(arguments)) as context:
            commands.invoke(context)
    except click.exceptions.Exit as leave:
        code = leave.exit_code
    sys.stdout.flush()
    return code


def _say(message: str, code: int) -> int:
    click.echo(f"twintrack: {' '.join(message.split())}", err=True)
    return code


def _reader_is_gone() -> bool:
    """Whether standard output is a pipe that nobody reads; if so, it is pointed at nothing.

    Without that the interpreter would flush what is left in its buffer once more, and complain.
    """
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):  # standard output is closed, or is no file
        return False
    watch = select.poll()
    watch.register(descriptor, 0)
    gone = any(event & select.POLLERR for _, event in watch.poll(0))
    if gone:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, descriptor)
        os.close(nothing)
    return gone

"""The ``twintrack`` command: thin commands over the rooms above; a command's module is imported when it is called."""

from __future__ import annotations

import importlib
import sys

import click

from twintrack import __version__
from twintrack.errors import TwintrackError

__all__ = ["main"]

_COMMANDS = {
    "cache": "look at, verify and prune the compile cache",
    "checkpoint": "list, verify and show checkpoints",
    "hardware": "chips, instances, servers, links and prices, with their sources",
    "init": "write a commented job file to start from",
    "job": "show what a job file means, or its JSON Schema",
    "pilot": "run a job on its tracks under the protocol, and report",
    "report": "make the report of a run again, from its events",
}


class _LazyGroup(click.Group):
    """Commands are modules ``twintrack.cli.NAME`` with a click command named ``command``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"twintrack.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(_COMMANDS.items()))


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def _group() -> None:
    """Decide, with evidence, whether a fine-tuning job belongs on AWS Trainium2 or on GPU."""


def main() -> None:
    """Run the command line; errors made on purpose end with one line and their exit code, never a traceback."""
    try:
        _group(standalone_mode=False)
    except TwintrackError as error:
        click.echo(f"twintrack: {error}", err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (KeyboardInterrupt, click.Abort):
        click.echo("twintrack: stopped", err=True)
        sys.exit(130)

"""What a person sees when a command fails: one line, the right exit code, never a traceback."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys

import click
import pytest

from twintrack.cli.group import COMMANDS, group, run
from twintrack.errors import Interrupted, JobError, RunFailed


def _failing(error: BaseException) -> click.Group:
    @click.group()
    def commands() -> None: ...

    @commands.command()
    def fail() -> None:
        raise error

    return commands


_PARTS = {"found": "nothing", "where": "job.toml", "remedy": "write one"}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (JobError("a job", **_PARTS), 2),
        (RunFailed("a job", **_PARTS), 1),
        (Interrupted("a job", **_PARTS), 130),
    ],
)
def test_an_error_made_on_purpose_is_one_line_with_its_exit_code(error, code, capsys):
    assert run(_failing(error), ["fail"]) == code

    out, err = capsys.readouterr()
    assert (out, err) == ("", "twintrack: job.toml: required a job, found nothing; write one\n")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort()])
def test_a_stop_by_hand_is_130_and_one_line(error, capsys):
    assert run(_failing(error), ["fail"]) == 130
    assert capsys.readouterr().err == "twintrack: stopped\n"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory", "x.toml"),
            "x.toml: No such file or dir",
        ),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "No space left on device"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), "Broken pipe"),
        (OSError("two\nlines"), "two lines"),
    ],
)
def test_an_unexpected_system_error_is_one_line_and_never_silent(error, line, capsys):
    """A broken pipe to a worker process, above all, is not taken for a reader of ours that went away."""
    assert run(_failing(error), ["fail"]) == 2

    err = capsys.readouterr().err
    assert err.startswith(f"twintrack: {line}")
    assert err.count("\n") == 1


def test_a_mistake_of_ours_keeps_its_traceback():
    with pytest.raises(ZeroDivisionError):
        run(_failing(ZeroDivisionError()), ["fail"])


def test_the_exit_code_that_a_command_asks_for_is_kept():
    assert run(_failing(click.exceptions.Exit(3)), ["fail"]) == 3


def test_an_unknown_command_offers_the_nearest_one(capsys):
    assert run(group, ["polit"]) == 2
    assert (
        capsys.readouterr().err
        == "twintrack: No such command 'polit'; did you mean 'pilot'?; see twintrack --help\n"
    )


def test_an_unknown_option_is_one_line_and_names_the_help(capsys):
    assert run(group, ["--colour"]) == 2

    err = capsys.readouterr().err
    assert "--colour" in err
    assert err.endswith("see twintrack --help\n")
    assert err.count("\n") == 1


def test_without_a_command_the_help_is_shown_and_the_exit_code_is_2(capsys):
    assert run(group, []) == 2
    assert "Commands:" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_of_the_table_is_there(name):
    """The table is written by hand so that help imports nothing; this keeps it true."""
    command = group.get_command(click.Context(group), name)

    assert isinstance(command, click.Command)
    assert command.help, f"twintrack.cli.{name}: give its command a docstring, it is what --help prints"


def _python(code: str, **more) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
    )


_PRINT_MUCH = """
import sys, click
from twintrack.cli.group import run
@click.group()
def commands(): ...
@commands.command()
def much():
    sys.stdin.readline()
    for _ in range(100_000): print("a line that nobody reads")
sys.exit(run(commands, ["much"]))
"""


def test_a_reader_that_goes_away_ends_us_in_silence():
    """As in ``twintrack hardware list | head -1``."""
    process = _python(_PRINT_MUCH, stdin=subprocess.PIPE)
    process.stdout.close()
    process.stdin.write("go\n")
    process.stdin.flush()

    assert process.wait(timeout=60) == 141
    assert process.stderr.read() == ""
    process.stderr.close()
    process.stdin.close()


def test_a_full_disk_behind_our_output_is_one_line():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "twintrack", "--help"], stdout=full, stderr=subprocess.PIPE, text=True
        )

    assert done.returncode == 2
    assert done.stderr == "twintrack: No space left on device\n"


def test_a_terminal_without_our_signs_gets_question_marks():
    code = """
import sys, click
from twintrack.cli.group import run
@click.group()
def commands(): ...
@commands.command()
def dash(): print("2 \\u2013 3")
sys.exit(run(commands, ["dash"]))
"""
    with _python(code, env={**os.environ, "PYTHONIOENCODING": "ascii"}) as process:
        out, err = process.communicate(timeout=60)

    assert (process.returncode, out, err) == (0, "2 ? 3\n", "")


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_end_a_command_alike_and_let_it_clean_up(sent):
    code = """
import signal, sys, types, click
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job starts with it ignored
@click.command()
def command():
    try:
        print("ready", flush=True)  # inside, for the signal may come before the next line
        signal.pause()
    finally: print("cleaned up")
sys.modules["twintrack.cli.init"] = types.SimpleNamespace(command=command)
sys.argv = ["twintrack", "init"]
from twintrack.cli import main
main()
"""
    with _python(code) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(sent)
        out, err = process.communicate(timeout=60)

    assert (process.returncode, out, err.strip()) == (130, "cleaned up\n", "twintrack: stopped")


def test_ctrl_c_during_the_first_imports_is_a_stop_too():
    code = """
import sys
class Stop:
    def find_spec(self, name, *rest):
        if name == "click": raise KeyboardInterrupt
sys.meta_path.insert(0, Stop())
from twintrack.cli import main
main()
"""
    with _python(code) as process:
        out, err = process.communicate(timeout=60)

    assert (process.returncode, out, err) == (130, "", "twintrack: stopped\n")


def test_a_clause_that_ends_in_a_comma_is_not_followed_by_a_second_one():
    error = JobError("a mask, one per row,", found="none, as stated,", where="job.toml", remedy="add it")

    assert str(error) == "job.toml: required a mask, one per row, found none, as stated; add it"

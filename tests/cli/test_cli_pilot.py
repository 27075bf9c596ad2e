"""How ``twintrack pilot`` takes its arguments and signals."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from click.testing import CliRunner

from twintrack.cli.pilot import _stopping_by_signal, command
from twintrack.errors import Interrupted


class FakePilot:
    def __init__(self) -> None:
        self.stops = 0

    def stop(self) -> None:
        self.stops += 1

    def interrupted(self, found: str) -> Interrupted:
        return Interrupted("an end", found=found, where="run", remedy="go on")


class Clock:
    seconds = 0.0

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_two_signals_at_once_are_one_wish_and_a_later_one_ends_it_with_the_way_to_go_on(number: int) -> None:
    pilot, clock = FakePilot(), Clock()
    before = signal.getsignal(number)

    def three_signals() -> None:
        for seconds in (0.0, 0.5, 5.0):
            clock.seconds = seconds
            os.kill(os.getpid(), number)

    with pytest.raises(Interrupted, match="a second request"), _stopping_by_signal(pilot, clock):  # type: ignore[arg-type]
        three_signals()

    assert pilot.stops == 1
    assert clock.seconds == 5.0
    assert signal.getsignal(number) is before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a job file, or --resume RUN"),
        (["job.toml", "--resume", "run"], "give a job file, or --resume RUN"),
        (["--resume", "run", "--out", "other"], "leave --out away"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(arguments: list[str], message: str) -> None:
    result: Any = CliRunner().invoke(command, arguments)

    assert result.exit_code == 2
    assert message in result.output

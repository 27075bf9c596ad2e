"""How the places of a job are filled with tracks."""

from __future__ import annotations

from typing import Any

import pytest

from small_pilot import small_job
from twintrack.errors import TrackError
from twintrack.tracks import choose


class Fake:
    def __init__(self, name: str, absence: str | None = None) -> None:
        self.name, self._absence = name, absence

    def absence(self) -> str | None:
        return self._absence

    def open(self, settings: Any, services: Any) -> Any:
        raise AssertionError("choosing opens nothing")


def tracks(**absent: str) -> dict[str, Any]:
    return {name: Fake(name, absent.get(name)) for name in ("cpu", "cuda", "neuron", "trn2")}


JOB = small_job(tracks=[{"use": ["cuda", "cpu"]}, {"use": ["neuron", "trn2"]}])


def test_the_first_track_that_is_there_fills_a_place_and_the_reason_says_what_was_absent() -> None:
    choices = choose(JOB, tracks(cuda="cuda: no device", neuron="neuron: no package"))

    assert [choice.track for choice in choices] == ["cpu", "trn2"]
    assert [choice.reason for choice in choices] == ["cuda: no device", "neuron: no package"]
    assert [choice.track for choice in choose(JOB, tracks())] == ["cuda", "neuron"]


def test_a_place_that_stays_empty_fails_or_is_skipped_as_the_job_says() -> None:
    here = tracks(neuron="neuron: no package", cuda="cuda: no device")
    strict = small_job(tracks=[{"use": ["cpu"]}, {"use": ["neuron"]}])
    lenient = small_job(tracks=[{"use": ["cpu"]}, {"use": ["neuron"], "if_absent": "skip"}])

    with pytest.raises(TrackError, match="neuron: no package"):
        choose(strict, here)
    assert [choice.track for choice in choose(lenient, here)] == ["cpu", None]


def test_a_job_that_no_track_would_run_is_refused() -> None:
    job = small_job(tracks=[{"use": ["cuda"], "if_absent": "skip"}])
    with pytest.raises(TrackError, match="no track at all"):
        choose(job, tracks(cuda="cuda: no device"))

"""The verdict follows from the rules alone, and each thing that may go wrong is the reason that is given."""

from __future__ import annotations

import dataclasses
import itertools
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_evidence import ANSWERS, PROVED, evidence, ledger
from synthetic import Story, make_run

from twintrack.events import CompileDone, Coverage, EvaluationDone, LegEnded, ModelLoaded, StepDone
from twintrack.job.records import Decision
from twintrack.pilot.decide.cost import judge_cost
from twintrack.pilot.decide.records import Outcome, Verdict
from twintrack.pilot.decide.verdict import decide, outcome_of
from twintrack.pilot.ledger.records import Input
from twintrack.pilot.summary import read_summary
from twintrack.quantity import Provenance, Quantity
from twintrack.storage import LocalFileSystem


def _broken(verdict: Verdict) -> dict[str, str]:
    return {reason.rule: reason.text for reason in verdict.reasons if reason.holds is False}


def _open(verdict: Verdict) -> dict[str, str]:
    return {reason.rule: reason.text for reason in verdict.reasons if reason.holds is None}


@given(st.lists(st.sampled_from([True, False, None]), max_size=6))
def test_one_broken_rule_refuses_one_open_rule_leaves_undecided_and_no_rule_accepts_nothing(answers):
    outcome = outcome_of(answers)

    assert (outcome is Outcome.REFUSED) == (False in answers)
    assert (outcome is Outcome.ACCEPTED) == (bool(answers) and all(answers))


def test_a_job_is_accepted_when_every_rule_holds(tmp_path):
    verdict = decide(evidence(tmp_path))

    assert verdict.outcome is Outcome.ACCEPTED, verdict.sentence
    assert "0.5 times" in verdict.sentence


def test_equal_evidence_gives_an_equal_verdict(tmp_path):
    one = evidence(tmp_path)

    assert decide(one) == decide(one)


@pytest.mark.parametrize(
    ("trainium", "other", "cheaper_by", "holds"),
    [
        ((50.0, 50.0), (100.0, 100.0), 0.0, True),
        ((100.0, 100.0), (50.0, 50.0), 0.0, False),
        ((90.0, 90.0), (100.0, 100.0), 0.2, False),
        ((80.0, 80.0), (100.0, 100.0), 0.2, True),
        ((80.0, 110.0), (100.0, 100.0), 0.0, None),
        ((90.0, 95.0), (80.0, 100.0), 0.0, None),
    ],
)
def test_the_cost_rule_is_answered_only_where_the_errors_allow(trainium, other, cheaper_by, holds):
    assert judge_cost(trainium, other, cheaper_by) is holds


@given(
    *(st.floats(1.0, 1e3) for _ in range(4)), st.floats(0.0, 0.9), st.floats(0.0, 1.0), st.floats(0.0, 1.0)
)
def test_an_answered_cost_rule_is_right_for_every_value_within_the_errors(a, b, c, d, share, at, bt):
    t, g = (min(a, b), max(a, b)), (min(c, d), max(c, d))
    answer = judge_cost(t, g, share)

    true_t, true_g = t[0] + at * (t[1] - t[0]), g[0] + bt * (g[1] - g[0])
    if answer is True:
        assert true_t <= (1 - share) * true_g * (1 + 1e-9)
    if answer is False:
        assert true_t * (1 + 1e-9) >= (1 - share) * true_g


def test_without_a_time_on_both_sides_cost_is_unknown_and_the_verdict_at_most_undecided(tmp_path):
    verdict = decide(evidence(tmp_path, trainium=ledger("trn2", None)))

    assert verdict.outcome is Outcome.UNDECIDED
    assert "unknown" in _open(verdict)["cost"]
    assert verdict.sentence.startswith("Undecided: 'cost' is not known:")


def test_a_bound_is_never_a_cost(tmp_path):
    """However a bound would come into a ledger, the rule does not take it."""
    bound = Quantity(3600.0, "s", Provenance.BOUND, "all FLOPs over the peak")
    made = dataclasses.replace(ledger("trn2", 1.0), time=bound)

    verdict = decide(evidence(tmp_path, trainium=made))

    assert verdict.outcome is Outcome.UNDECIDED
    assert "bound" in _open(verdict)["cost"]


def test_a_price_too_old_decides_nothing(tmp_path):
    made = ledger("trn2", 50.0, stale=("trn2.48xlarge in us-east-2: observed 2024-10-01, 790 days before",))

    assert "too old" in _open(decide(evidence(tmp_path, trainium=made)))["cost"]


def test_wide_errors_leave_the_cost_open(tmp_path):
    verdict = decide(evidence(tmp_path, trainium=ledger("trn2", 90.0, error=0.3)))

    assert "too wide" in _open(verdict)["cost"]


def test_the_dearer_side_is_refused(tmp_path):
    assert "2 times" in _broken(decide(evidence(tmp_path, trainium=ledger("trn2", 200.0))))["cost"]


def _spoil(**changes):
    """A story in which some events of the trn2 track are changed."""
    kinds = {
        kind.__name__: kind
        for kind in (Coverage, CompileDone, EvaluationDone, LegEnded, ModelLoaded, StepDone)
    }

    def edit(track, run, event):
        change = changes.get(type(event).__name__)
        if track != "trn2" or change is None or type(event) is not kinds[type(event).__name__]:
            return event
        return change(run, event)

    return Story(edit=edit)


def _copy(event, **values):
    return event.model_copy(update=values)


def test_a_dropped_adapter_is_refused_as_a_run_that_did_not_do_what_the_job_says(tmp_path):
    story = _spoil(ModelLoaded=lambda run, event: _copy(event, adapted_modules=0))

    verdict = decide(evidence(tmp_path, story))

    assert verdict.outcome is Outcome.REFUSED
    assert "no module was adapted" in _broken(verdict)["runs did what the job says"]


def test_skipped_data_is_refused(tmp_path):
    story = _spoil(StepDone=lambda run, e: _copy(e, sample_ids=["other:1"]) if e.step == 20 else e)

    verdict = decide(evidence(tmp_path, story))

    assert verdict.outcome is Outcome.REFUSED
    assert "sample" in _broken(verdict)["runs did what the job says"]


def test_wrong_rounding_is_refused_for_its_quality(tmp_path):
    story = dataclasses.replace(Story(), offset=0.2)

    verdict = decide(evidence(tmp_path, story))

    assert verdict.outcome is Outcome.REFUSED
    assert "losses differ" in _broken(verdict)["quality holds at equal parameters"]


def test_an_optimizer_that_was_not_restored_is_refused(tmp_path):
    def after_resume(run, event):
        late = run == "interrupted" and event.step > 23
        return _copy(event, loss=event.loss * 1.01) if late else event

    verdict = decide(evidence(tmp_path, _spoil(StepDone=after_resume)))

    assert verdict.outcome is Outcome.REFUSED
    assert "resume restores the optimizer" in _broken(verdict)


def test_fewer_steps_than_asked_are_refused(tmp_path):
    story = _spoil(StepDone=lambda run, event: None if event.step > 30 else event)

    assert "steps" in _broken(decide(evidence(tmp_path, story)))["runs did what the job says"]


def test_a_track_that_recompiled_at_every_step_is_refused(tmp_path):
    def churn(track, run, event):
        return event

    made = evidence(tmp_path, Story(edit=churn))
    pilots = tuple(_recompiling(pilot) for pilot in made.pilots)

    verdict = decide(dataclasses.replace(made, pilots=pilots))

    assert "the cache survives small changes" in _broken(verdict)


def _recompiling(pilot):
    tracks = tuple(
        dataclasses.replace(track, recompiles=Quantity.measured(39, "", "events"))
        if track.track == "trn2"
        else track
        for track in pilot.summary.tracks
    )
    return dataclasses.replace(pilot, summary=dataclasses.replace(pilot.summary, tracks=tracks))


def test_a_leg_that_died_while_compiling_is_a_stop_sign(tmp_path):
    story = _spoil(
        LegEnded=lambda run, event: _copy(
            event,
            reason="error",
            error="UnsupportedOperator",
            message="model.py:3: required a rule for aten.sort",
        )
    )

    assert "aten.sort" in _broken(decide(evidence(tmp_path, story)))["core operators compile"]


def test_work_on_the_host_is_a_stop_sign(tmp_path):
    story = _spoil(
        Coverage=lambda run, e: _copy(
            e, flops_under_rules=e.flops // 2, host_operators={"aten.sort (model.py:3)": 4}
        )
    )

    assert "aten.sort" in _broken(decide(evidence(tmp_path, story)))["core operators compile"]


def test_a_failed_conversion_is_refused(tmp_path):
    check = PROVED.checks[0].model_copy(update={"passed": False, "found": "KL 1e-5"})
    failed = PROVED.model_copy(update={"checks": (check,)})

    verdict = decide(evidence(tmp_path, proofs=(failed,)))

    assert "KL 1e-5" in _broken(verdict)["runs did what the job says"]


def test_quality_that_diverges_in_the_comparison_is_refused_and_one_not_shown_is_open(tmp_path):
    rule = "quality holds at equal parameters"

    assert rule in _broken(decide(evidence(tmp_path / "a", quality=False)))
    assert rule in _open(decide(evidence(tmp_path / "b", quality=None)))


def test_a_job_that_does_not_fit_is_refused(tmp_path):
    assert "fits the machine" in _broken(decide(evidence(tmp_path, fits=False)))


def test_go_signs_that_are_not_known_leave_the_verdict_open(tmp_path):
    verdict = decide(evidence(tmp_path, proofs=(), second_person=False))

    assert verdict.outcome is Outcome.UNDECIDED
    assert {"checkpoint recoverable", "another person re-ran it"} <= _open(verdict).keys()
    assert any("twintrack convert" in text for text in verdict.would_change)


@pytest.mark.parametrize("name", ["model_changes", "cycle_days", "team_experience"])
def test_a_criterion_neither_measured_nor_answered_has_no_score_and_says_which_key_would_answer_it(
    tmp_path, name
):
    answers = ANSWERS.model_copy(update={name: None})

    rows = decide(evidence(tmp_path, second_person=False, decision=answers)).criteria

    unknown = [row for row in rows if row.score is None]
    assert len(unknown) == 1
    assert f"decision.{name}" in unknown[0].text
    assert unknown[0].basis == "unknown"


def test_a_measurement_comes_before_an_answer(tmp_path):
    answers = ANSWERS.model_copy(update={"fallback": "none", "custom_operators": "many"})

    rows = {row.name: row for row in decide(evidence(tmp_path, decision=answers)).criteria}

    assert (rows["difficulty of falling back"].basis, rows["difficulty of falling back"].score) == (
        "measured",
        5,
    )
    assert (rows["code customisation"].basis, rows["code customisation"].score) == ("measured", 5)


@pytest.mark.parametrize(("seconds", "score"), [(0.0, 5), (0.6, 4), (3.0, 3), (20.0, 2), (1000.0, 1)])
def test_a_device_run_scores_the_cycle_by_what_compiling_anew_takes_of_the_job(tmp_path, seconds, score):
    """40 steps of a second beside ``seconds`` of compilation; an emulation is never scored so."""
    made = evidence(tmp_path)
    emulated = {row.name: row for row in decide(made).criteria}["cycle length"]
    pilots = tuple(_on_device(pilot, seconds) for pilot in made.pilots)

    row = {row.name: row for row in decide(dataclasses.replace(made, pilots=pilots)).criteria}["cycle length"]

    assert emulated.basis == "answered"
    assert (row.basis, row.score) == ("measured", score)


def _on_device(pilot, seconds):
    tracks = []
    for track in pilot.summary.tracks:
        if track.track == "trn2":
            run = track.reference
            one = dataclasses.replace(
                run.compiles[0], capture_seconds=Quantity.measured(seconds, "s", "events")
            )
            curve = dataclasses.replace(run.step_seconds, values=tuple(1.0 for _ in run.step_seconds.values))
            run = dataclasses.replace(run, compiles=(one,), step_seconds=curve)
            track = dataclasses.replace(track, track="neuron", reference=run)
        tracks.append(track)
    return dataclasses.replace(pilot, summary=dataclasses.replace(pilot.summary, tracks=tuple(tracks)))


def test_a_matrix_of_low_scores_refuses(tmp_path):
    low = Decision(model_changes="weekly", cycle_days=1.0, team_experience="none")

    verdict = decide(evidence(tmp_path, decision=low, second_person=False))

    assert "13 of 25" in _broken(verdict)["matrix"]


@pytest.mark.parametrize("total", [20.0, 80.0, 99.0, 130.0])
def test_a_flip_of_the_cost_is_where_the_verdict_really_changes(tmp_path, total):
    """Just before the stated value the cost rule answers as now, just after it answers otherwise."""
    made = evidence(tmp_path, trainium=ledger("trn2", total, error=0.05))
    flips = [flip for flip in decide(made).sensitivity if flip.name == "time of run:trn2"]

    assert len(flips) == 1
    factor = flips[0].at.require() / flips[0].now.require()
    near = 1.0 + (factor - 1.0) * 0.999
    far = 1.0 + (factor - 1.0) * 1.001
    answers = [
        judge_cost((total * f * 0.95, total * f * 1.05), (100.0, 100.0), 0.0) for f in (1.0, near, far)
    ]
    assert answers[0] is answers[1]
    assert answers[1] is not answers[2]


def test_an_unknown_time_gets_its_break_even(tmp_path):
    """100 USD at 10 USD an hour are ten hours."""
    flips = decide(evidence(tmp_path, trainium=ledger("trn2", None), other=ledger("cpu", 100.0))).sensitivity

    found = [flip for flip in flips if flip.name == "time of run:trn2"]
    assert found[0].at.value == pytest.approx(36_000.0)
    assert found[0].becomes is Outcome.ACCEPTED


def test_the_nearest_flip_comes_first(tmp_path):
    flips = decide(evidence(tmp_path, trainium=ledger("trn2", 99.0))).sensitivity
    ratios = [
        flip.at.value / flip.now.value for flip in flips if flip.at.known and flip.now.known and flip.at.value
    ]

    distances = [max(ratio, 1 / ratio) for ratio in ratios]
    assert all(a <= b * (1 + 1e-9) for a, b in itertools.pairwise(distances))


def _reserved(one, hours, price):
    """The ledger with hours that are paid, used or not, in its reserved line."""
    stated = Quantity(hours, "h", Provenance.ASSUMED, "the job's costs.reserved_hours")
    lines = tuple(
        dataclasses.replace(
            line,
            amount=Quantity.measured(hours * price, "USD", "hours x price"),
            without_faults=Quantity.measured(hours * price, "USD", "hours x price"),
            inputs=(*line.inputs, Input("reserved hours", stated)),
        )
        if line.name == "reserved resource"
        else line
        for line in one.lines
    )
    whole = Quantity.measured(hours * price, "USD", "hours x price")
    return dataclasses.replace(one, lines=lines, total=whole, total_without_faults=whole)


def test_a_time_below_what_is_reserved_changes_no_cost(tmp_path):
    """Five used hours of 24 reserved ones at 10 USD: 240 USD, until the run takes more than 24 hours."""
    other = _reserved(ledger("cpu", 50.0), 24.0, 10.0)
    flips = decide(evidence(tmp_path, trainium=ledger("trn2", 200.0), other=other)).sensitivity

    time = next(flip for flip in flips if flip.name == "time of run:cpu")
    price = next(flip for flip in flips if flip.name.startswith("price") and flip.now.require() == 10.0)
    assert not time.at.known
    assert "no value of it alone" in time.text
    assert price.at.known


def test_a_break_even_counts_what_is_reserved_and_what_else_is_known(tmp_path):
    """100 USD on the other side; 8 hours reserved at 10 USD leave 2 hours more, 12 hours reserved leave none."""

    def unknown(hours):
        made = ledger("trn2", None)
        reserved = _reserved(made, hours, 10.0)
        lines = tuple(
            dataclasses.replace(line, amount=made.total, without_faults=made.total)
            if line.name == "reserved resource"
            else line
            for line in reserved.lines
        )
        return dataclasses.replace(made, lines=lines)

    flips = [
        next(
            flip
            for flip in decide(
                evidence(tmp_path / str(hours), trainium=unknown(hours), other=ledger("cpu", 100.0))
            ).sensitivity
            if flip.name == "time of run:trn2"
        )
        for hours in (8.0, 12.0)
    ]
    assert flips[0].at.value == pytest.approx(36_000.0)
    assert not flips[1].at.known
    assert "however short" in flips[1].text


def test_missing_evidence_is_not_known_and_never_broken(tmp_path):
    """A run folder without its interrupted runs: nothing is shown to be wrong."""
    made = evidence(tmp_path)
    pilots = tuple(_without_interrupted(pilot, tmp_path / str(n)) for n, pilot in enumerate(made.pilots))

    verdict = decide(dataclasses.replace(made, pilots=pilots))

    assert _broken(verdict) == {}
    assert {"resume restores the optimizer", "runs did what the job says"} <= _open(verdict).keys()
    assert "resume is not shown" in _open(verdict)["checkpoint recoverable"]


def _without_interrupted(pilot, folder):
    make_run(folder, Story())
    for track in ("cpu", "trn2"):
        shutil.rmtree(folder / "tracks" / track / "interrupted")
    return dataclasses.replace(pilot, summary=read_summary(folder, LocalFileSystem()))


def test_a_run_that_does_not_tell_its_data_is_not_said_to_have_seen_the_jobs(tmp_path):
    made = evidence(tmp_path)
    pilots = tuple(_silent_about_data(pilot) for pilot in made.pilots)

    verdict = decide(dataclasses.replace(made, pilots=pilots))

    assert "which data it saw" in _open(verdict)["runs did what the job says"]


def _silent_about_data(pilot):
    tracks = tuple(
        dataclasses.replace(track, reference=dataclasses.replace(track.reference, data=None))
        for track in pilot.summary.tracks
    )
    return dataclasses.replace(pilot, summary=dataclasses.replace(pilot.summary, tracks=tracks))


def test_a_wrong_rate_without_a_resume_is_no_matter_of_the_optimizer(tmp_path):
    story = _spoil(StepDone=lambda run, e: _copy(e, learning_rate=e.learning_rate * 2) if e.step == 3 else e)

    broken = _broken(decide(evidence(tmp_path, story)))

    assert "learning rate" in broken["runs did what the job says"]
    assert "resume restores the optimizer" not in broken

"""What a run's events reveal though every process exited 0: each spoiled run is named for what was spoiled."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import Story, make_run

from twintrack.events import DataPrepared, Defect, EvaluationDone, Imported, RunDone, StepDone
from twintrack.pilot.summary import read_summary
from twintrack.pilot.summary_failures_data import samples_kept
from twintrack.pilot.summary_parts import Curve
from twintrack.pilot.summary_programs import recompile_churn
from twintrack.quantity import Provenance
from twintrack.storage import LocalFileSystem
from twintrack.training.sampler import Sampler

FS = LocalFileSystem()
ONE = Story(steps=12, every=4, stops=(("kill", 6),), tracks=("cpu",), rows=4)
"""Three epochs of four rows; the interrupted run resumes from step 4, where an epoch ends."""


def summary_of(tmp_path, edit, **fields):
    return read_summary(make_run(tmp_path / "run", dataclasses.replace(ONE, edit=edit, **fields)), FS)


def found(summary, kind):
    return [f"{failure.where}: {failure.what}" for failure in summary.failures if failure.kind == kind]


def steps_of(run, change):
    """An edit of the steps of one run."""

    def edit(_, which, event):
        return (
            event.model_copy(update=change(event)) if which == run and isinstance(event, StepDone) else event
        )

    return edit


def ids_at(position):
    """Samples of a row of the sampler's order, counted from 0 over all epochs."""
    row = Sampler(ONE.rows, 0).next(position + 1)[-1]
    return [f"train:{sample + 1}" for sample in range(row, 360, ONE.rows)]


def test_an_untouched_run_of_three_epochs_has_no_failure(tmp_path):
    assert summary_of(tmp_path, ONE.edit).failures == ()


def test_a_resumed_run_that_skipped_an_epoch_and_exited_0_is_found_by_its_own_events(tmp_path):
    """The reference run is not needed: the epoch that the samples belong to is known from the job's seed."""
    skipped = steps_of("interrupted", lambda e: {"sample_ids": ids_at(e.step + 3)} if e.step > 4 else {})
    summary = summary_of(tmp_path, skipped)

    own = [text for text in found(summary, "data") if text.startswith("cpu · interrupted")]
    assert own == [
        "cpu · interrupted: an epoch was left out: step 5 should be in epoch 2 and saw the samples of epoch 3; "
        "process 1 did this step, resumed from step 4"
    ]
    assert any("other samples than the run that was never stopped" in text for text in found(summary, "data"))
    assert all(leg.how in ("done", "killed") for leg in summary.tracks[0].interrupted.legs)


def test_a_resumed_run_that_skipped_a_part_of_an_epoch_is_found(tmp_path):
    """Two rows of epoch 2 are never read: what comes instead is seen too often, what was skipped too seldom."""
    skipped = steps_of("interrupted", lambda e: {"sample_ids": ids_at(e.step + 1)} if e.step > 4 else {})
    texts = "\n".join(found(summary_of(tmp_path, skipped), "data"))

    assert "was seen 3 times by step" in texts
    assert "was left out: step 8 ends epoch 2" in texts
    assert "resumed from step 4" in texts


def test_a_step_that_saw_a_sample_less_is_found(tmp_path):
    edit = steps_of("reference", lambda e: {"sample_ids": e.sample_ids[1:]} if e.step == 7 else {})
    texts = found(summary_of(tmp_path, edit), "data")

    assert any("was left out: step 8 ends epoch 2" in text for text in texts)


def test_samples_that_no_step_ever_saw_are_missed(tmp_path):
    def edit(_, run, event):
        return event.model_copy(update={"train_samples": 370}) if isinstance(event, DataPrepared) else event

    texts = found(summary_of(tmp_path, edit), "data")
    assert any(
        "saw 360 different samples in all, and the data have 370 to train on" in text for text in texts
    )


def test_a_log_that_does_not_tell_its_samples_is_not_judged_by_them(tmp_path):
    assert found(summary_of(tmp_path, steps_of("reference", lambda e: {"sample_ids": []})), "data") == []


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    summary = read_summary(make_run(tmp_path_factory.mktemp("t") / "run", ONE), FS)
    return summary.job, summary.tracks[0].reference


def spoil(template, *, rows, size, steps, seed, packed, position_of):
    """Data failures of a run whose step s begins at ``position_of(s)`` of the endless order of rows."""
    job, run = template
    data = job.data.model_copy(update={"packing": True})
    job = job.model_copy(
        update={"seed": seed, "data": data, "batch": job.batch.model_copy(update={"micro": size})}
    )
    order = Sampler(rows, seed).next(max(map(position_of, range(1, steps + 1))) + size)
    ids = tuple(
        tuple(
            f"s:{row}.{k}"
            for at in range(position_of(step), position_of(step) + size)
            for row in (order[at],)
            for k in range(1 + row % packed)
        )
        for step in range(1, steps + 1)
    )
    total = sum(1 + row % packed for row in range(rows))
    at = tuple(range(1, steps + 1))
    counts = dataclasses.replace(
        run.data,
        train_rows=dataclasses.replace(run.data.train_rows, value=rows),
        train_samples=dataclasses.replace(run.data.train_samples, value=total),
        truncated=dataclasses.replace(run.data.truncated, value=0),
    )
    curve = Curve("", Provenance.MEASURED, "x", at, (1.0,) * steps)
    return list(samples_kept(job, dataclasses.replace(run, loss=curve, sample_ids=ids, data=counts)))


SHAPES = {
    "rows": st.integers(1, 12),
    "size": st.integers(1, 5),
    "steps": st.integers(1, 40),
    "seed": st.integers(0, 5),
    "packed": st.integers(1, 3),
}


@settings(max_examples=150)
@given(**SHAPES)
def test_what_the_sampler_hands_out_is_never_called_a_failure(template, **shape):
    assert spoil(template, **shape, position_of=lambda s: (s - 1) * shape["size"]) == []


@settings(max_examples=150)
@given(
    **(SHAPES | {"rows": st.integers(4, 12), "size": st.integers(1, 2)}),
    skipped=st.integers(1, 30),
    data=st.data(),
)
def test_rows_left_out_after_the_first_epoch_are_always_found(template, skipped, data, **shape):
    """From the second epoch on, whatever number of rows is skipped, the samples betray it once two more epochs are
    seen; two epochs of the same order would be no difference at all, so those are left out."""
    rows, size, seed = (shape[name] for name in ("rows", "size", "seed"))
    cut = data.draw(st.integers(-(-rows // size) + 1, 2 * -(-rows // size) + 1))
    shape["steps"] = cut + 3 * -(-rows // size)
    order = Sampler(rows, seed).next(shape["steps"] * size + skipped + size)
    after = range(cut * size, shape["steps"] * size)
    if all(order[at] == order[at + skipped] for at in after):
        return

    def position_of(step):
        return (step - 1) * size + (skipped if step > cut else 0)

    assert any(kind == "data" for kind, _ in spoil(template, **shape, position_of=position_of))


def test_a_learning_rate_that_jumps_at_the_resume_is_named_with_step_expected_and_found(tmp_path):
    """The schedule begins anew where the run resumed from step 4."""
    job = ONE.job()

    def peak(step):
        return 2e-4 * 0.5 * (1 + math.cos(math.pi * (step - 1) / (job.stop.steps - 1)))

    edit = steps_of("interrupted", lambda e: {"learning_rate": peak(e.step - 4)} if e.step > 4 else {})
    (text,) = found(summary_of(tmp_path, edit), "schedule")

    assert text == (
        f"cpu · interrupted: the learning rate jumps at the resume from step 4: {peak(1):.6g} at step 5, where the "
        f"job's schedule has {peak(5):.6g} (it has this rate at step 1); 8 of 12 steps differ"
    )


def test_a_learning_rate_off_by_rounding_of_a_log_is_the_schedules(tmp_path):
    edit = steps_of("reference", lambda e: {"learning_rate": float(f"{e.learning_rate:.8g}")})
    assert summary_of(tmp_path, edit).failures == ()


def test_an_adapter_that_was_trained_and_never_applied_shows_in_evaluations(tmp_path):
    def edit(_, run, event):
        return (
            event.model_copy(update={"loss": 4.0, "slices": {}})
            if isinstance(event, EvaluationDone)
            else event
        )

    texts = found(summary_of(tmp_path, edit), "adapter")
    assert len(texts) == 2
    assert "the adapter was trained and is not applied" in texts[0]


def test_an_adapter_that_was_trained_and_never_applied_shows_in_losses_on_the_same_samples(tmp_path):
    """Rows that come again in each epoch have the loss that the base model has on them."""
    edit = steps_of("reference", lambda e: {"loss": 2.0 + int(e.sample_ids[0].split(":")[1]) / 7})
    (text,) = found(summary_of(tmp_path, edit), "adapter")

    assert "the loss on the same samples is the same to the bit in steps" in text
    assert "in all 8 such pairs: the adapter was trained and is not applied" in text


def test_without_any_gradient_nothing_was_trained_rather_than_not_applied(tmp_path):
    edit = steps_of("reference", lambda e: {"loss": 2.0 + ONE.rows, "gradient_norm": 0.0})
    summary = summary_of(tmp_path, edit)

    assert found(summary, "adapter") == []
    assert any("every gradient was zero" in text for text in found(summary, "training"))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"gradient_norm": 0.0}, "the gradient of step 7 was zero; 1 of 12 steps"),
        ({"gradient_norm": 1.0}, None),
    ],
)
def test_a_single_step_without_gradient_is_named(tmp_path, change, text):
    summary = summary_of(tmp_path, steps_of("reference", lambda e: change if e.step == 7 else {}))
    assert found(summary, "training") == ([] if text is None else [f"cpu · reference: {text}"])


@pytest.mark.parametrize(("rise", "diverged"), [(0.69, False), (0.70, True)])
def test_a_run_has_diverged_once_its_perplexity_has_more_than_doubled(tmp_path, rise, diverged):
    def edit(_, run, event):
        if isinstance(event, EvaluationDone) and event.step:
            return event.model_copy(update={"loss": 4.255 + rise})
        return event.model_copy(update={"loss": 4.255}) if isinstance(event, EvaluationDone) else event

    texts = found(summary_of(tmp_path, edit), "training")
    assert bool(texts) is diverged
    assert all("it diverged: evaluation loss went from 4.255 to 4.955 (step 12)" in text for text in texts)


def test_without_evaluations_the_steps_show_that_a_run_diverged(tmp_path):
    def edit(_, run, event):
        if isinstance(event, EvaluationDone):
            return None
        return (
            event.model_copy(update={"loss": 2 + event.step / 50}) if isinstance(event, StepDone) else event
        )

    texts = found(summary_of(tmp_path, edit, steps=60, stops=()), "training")
    assert any("medians of the first and last 6 steps" in text for text in texts)


def test_a_loss_that_is_not_finite_is_a_failure(template):
    from twintrack.pilot.summary_failures_training import trained

    job, run = template
    values = (*run.loss.values[:4], math.nan, *run.loss.values[5:])
    spoiled = dataclasses.replace(run, loss=dataclasses.replace(run.loss, values=values))

    assert ("training", "the loss of step 5 is not finite; 1 of 12 steps") in list(trained(job, spoiled))


def test_a_run_with_fewer_steps_than_asked_fails_though_it_says_that_it_is_done(tmp_path):
    def edit(_, run, event):
        if run == "reference" and isinstance(event, RunDone):
            return event.model_copy(update={"step": 9})
        return None if run == "reference" and isinstance(event, StepDone) and event.step > 9 else event

    texts = found(summary_of(tmp_path, edit), "steps")
    assert "cpu · reference: it was done at step 9, and the job asks for 12" in texts
    assert "cpu · reference: 3 of 12 steps are not on record, the first is step 10" in texts


def test_a_resume_without_the_optimizer_state_says_optimizer(tmp_path):
    """Weights are back at step 5, whose loss and gradient come before the update; the update then lacks the moments."""
    edit = steps_of("interrupted", lambda e: {"loss": e.loss * 1.01} if e.step > 5 else {})
    texts = found(summary_of(tmp_path, edit, stops=(("polite", 4),)), "resume")

    assert len(texts) == 1
    assert "the optimizer was not restored: step 5, the first after the resume from step 4" in texts[0]


@pytest.mark.parametrize(
    "change",
    [
        lambda e: {"loss": e.loss * 1.01} if e.step > 4 else {},
        lambda e: {"loss": e.loss * 1.01} if e.step > 6 else {},
        lambda e: {"loss": e.loss * 1.01} if e.step > 5 else {"learning_rate": 1e-5} if e.step == 5 else {},
        lambda e: {"loss": e.loss * 1.01} if e.step > 5 else {"gradient_norm": 9.0} if e.step == 5 else {},
        lambda e: {"loss": e.loss * 1.01, "sample_ids": ["other"]} if e.step > 5 else {},
    ],
    ids=["weights", "later", "rate", "gradient", "samples"],
)
def test_other_differences_after_a_resume_are_not_blamed_on_the_optimizer(tmp_path, change):
    texts = found(summary_of(tmp_path, steps_of("interrupted", change), stops=(("polite", 4),)), "resume")

    assert texts
    assert not any("optimizer" in text for text in texts)


def test_steps_done_again_without_the_optimizer_say_so_without_a_reference(tmp_path):
    """Steps 5 and 6 are done by both processes of the interrupted run; the reference is not needed."""
    again = []

    def edit(_, run, event):
        if run == "interrupted" and isinstance(event, StepDone) and event.step == 6:
            again.append(event)
            return event.model_copy(update={"loss": event.loss + len(again) / 100})
        return event

    texts = [t for t in found(summary_of(tmp_path, edit), "resume") if "repeated step" in t]
    assert "the optimizer was not restored: step 5, the first after the resume from step 4" in texts[0]


def imported(*defects, format="trainer"):
    """An edit that makes the reference run one that was read from a log."""

    def edit(_, run, event):
        if run == "reference" and isinstance(event, DataPrepared):
            return Imported(
                file="log.json",
                sha256="a" * 64,
                format=format,
                lines=9,
                defects=[Defect(**d) for d in defects],
            )
        return event

    return edit


def test_each_kind_of_defect_in_an_imported_log_is_one_failure(tmp_path):
    hole = {"line": 7, "step": 3, "what": "hole", "text": "steps 3 to 4"}
    back = {"line": 9, "step": 5, "what": "time_backwards", "text": "2 s before the line above"}
    stray = {"line": 1, "step": None, "what": "unknown_field", "text": "grad_scale"}
    summary = summary_of(tmp_path, imported(hole, {**hole, "line": 8}, back, stray))

    assert found(summary, "log") == [
        "cpu · reference: log.json:7: hole: steps 3 to 4, and 1 more",
        "cpu · reference: log.json:9: time backwards: 2 s before the line above",
    ]


def test_what_an_imported_log_does_not_tell_is_no_failure_but_its_steps_are_demanded(tmp_path):
    told = imported()

    def edit(track, run, event):
        if isinstance(event, RunDone | EvaluationDone):
            return None
        return told(track, run, event)

    assert summary_of(tmp_path, edit, stops=()).failures == ()
    cut = summary_of(
        tmp_path / "cut",
        lambda t, r, e: None if isinstance(e, StepDone) and e.step == 3 else edit(t, r, e),
        stops=(),
    )
    assert [failure.kind for failure in cut.failures] == ["steps"]


def test_the_share_of_steps_that_recompiled_counts_steps_once(tmp_path):
    trn2 = {"tracks": ("trn2",), "stops": ()}
    every = summary_of(tmp_path / "every", ONE.edit, recompiles=lambda step: step > 1, **trn2)
    third = summary_of(tmp_path / "third", ONE.edit, recompiles=lambda step: step % 3 == 0, **trn2)
    none = summary_of(tmp_path / "none", ONE.edit, **trn2)

    shares = [recompile_churn(one.tracks[0].reference).value for one in (every, third, none)]
    assert shares == [11 / 12, 4 / 12, 0.0]

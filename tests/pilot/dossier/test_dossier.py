"""A dossier holds every required field or is refused, marks every figure, and takes no markup from outside."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest
from made_evidence import ANSWERS, evidence, ledger
from page_reader import read_page

from twintrack.errors import DossierError, RunFolderError
from twintrack.pilot.decide.verdict import decide
from twintrack.pilot.dossier.build import build_dossier, require_complete
from twintrack.pilot.dossier.markdown import dossier_markdown
from twintrack.pilot.dossier.page import dossier_page, write_dossier
from twintrack.report.html import render_page
from twintrack.storage import LocalFileSystem


def _dossier(made):
    return build_dossier(made, decide(made))


def _complete(tmp_path, **changes):
    made = evidence(tmp_path / "runs", **changes)
    slots = tuple(slot.model_copy(update={"instance": "trn2.48xlarge"}) for slot in made.job.tracks)
    return dataclasses.replace(made, job=made.job.model_copy(update={"tracks": slots}))


def test_a_complete_dossier_holds_all_that_a_request_must_contain(tmp_path):
    dossier = _dossier(_complete(tmp_path))

    assert dossier.missing == ()
    text = dossier_markdown(dossier)
    for word in (
        "Accepted",
        "trn2.48xlarge",
        "us-east-2",
        "weights SHA-256",
        "64 tokens",
        "bf16 compute",
        "40",
        "tokens in training rows",
        "data 1 x tensor 1 x pipeline 1",
        "safetensors with a manifest",
        "No slice more than 2 % worse.",
        "checks passed",
        "50.00 USD",
        "Who answers for what",
        "Risks",
    ):
        assert word.replace("_", r"\_") in text, word


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"decision": ANSWERS.model_copy(update={"fallback_plan": None})}, "decision.fallback_plan"),
        ({"decision": ANSWERS.model_copy(update={"quality_criteria": None})}, "decision.quality_criteria"),
        ({"proofs": ()}, "twintrack convert"),
    ],
)
def test_an_empty_required_field_is_refused_and_named_with_where_it_is_filled(tmp_path, change, named):
    dossier = _dossier(_complete(tmp_path, **change))

    with pytest.raises(DossierError, match=re.escape(named)):
        require_complete(dossier, "job.toml")


@pytest.mark.parametrize("key", ["code", "compilation", "cache", "image", "conversion"])
def test_each_responsibility_needs_a_name(tmp_path, key):
    made = _complete(tmp_path)
    owners = made.job.responsibility.model_copy(update={key: None})
    made = dataclasses.replace(made, job=made.job.model_copy(update={"responsibility": owners}))

    assert any(f"responsibility.{key}" in text for text in _dossier(made).missing)


def test_every_empty_field_is_listed_at_once(tmp_path):
    bare = evidence(tmp_path, proofs=(), decision=type(ANSWERS)())
    from twintrack.job.records import Costs, Responsibility

    job = bare.job.model_copy(update={"costs": Costs(), "responsibility": Responsibility()})
    made = dataclasses.replace(bare, job=job, fits=())

    missing = " ".join(_dossier(made).missing)

    for key in (
        "costs.region",
        "costs.reserved_hours",
        "decision.fallback_plan",
        "responsibility.cache",
        "qualify",
    ):
        assert key in missing


def test_an_unknown_cost_with_its_reason_is_no_empty_field(tmp_path):
    dossier = _dossier(_complete(tmp_path, trainium=ledger("trn2", None)))

    assert dossier.missing == ()
    text = dossier_markdown(dossier)
    assert "its time is unknown" in text
    assert "Undecided" in text


def test_every_figure_in_the_markdown_has_its_kind_and_the_number_of_a_source_that_is_listed(tmp_path):
    text = dossier_markdown(_dossier(_complete(tmp_path, trainium=ledger("trn2", 50.0, error=0.1))))

    body, sources = text.split("## Sources")
    used = {
        int(number)
        for number in re.findall(r"(?:\((?:measured|derived|published|assumed)\)|unknown) \[(\d+)\]", body)
    }
    listed = {int(number) for number in re.findall(r"^(\d+)\. ", sources, re.MULTILINE)}
    assert used == listed
    assert "±10 %" in body


def test_text_from_outside_is_no_markup(tmp_path):
    hostile = "| x | <script>alert(1)</script> [a](javascript:b) `c` **d**\n# e"
    made = _complete(tmp_path, decision=ANSWERS.model_copy(update={"fallback_plan": hostile}))
    dossier = _dossier(made)

    line = next(line for line in dossier_markdown(dossier).splitlines() if line.startswith("| plan"))
    assert "<script" not in line.replace(r"\<script", "")
    assert len(re.findall(r"(?<!\\)\|", line)) == 4
    assert read_page(render_page(dossier_page(dossier))).prose.count("<script>alert(1)</script>") == 1


def test_the_files_hold_the_same_dossier_and_equal_evidence_gives_equal_bytes(tmp_path):
    dossier = _dossier(_complete(tmp_path))
    fs = LocalFileSystem()

    first = {path.name: path.read_bytes() for path in write_dossier(dossier, tmp_path / "out", fs)}
    second = {path.name: path.read_bytes() for path in write_dossier(dossier, tmp_path / "again", fs)}

    assert first == second
    document = json.loads(first["dossier.json"])
    assert document["verdict"]["outcome"] == "accepted"
    assert document["duties"][0]["who"] == "a"


def test_a_dossier_is_not_written_into_a_run_folder(tmp_path):
    made = _complete(tmp_path)

    with pytest.raises(RunFolderError, match="run folder"):
        write_dossier(_dossier(made), tmp_path / "runs" / "first", LocalFileSystem())

"""What is published about operators, and what our own rules make of them: unknown is never called unsupported."""

from __future__ import annotations

import contextlib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from small_pilot import small_job
from tiny_llama import tiny_config
from twintrack.errors import CatalogueError, UnsupportedOperator
from twintrack.pilot.qualify.capture import model_work
from twintrack.pilot.qualify.operators import (
    SupportList,
    load_support_lists,
    operator_support,
    read_support_lists,
    rule_of,
)
from twintrack.pilot.qualify.shapes_records import GraphOperators
from twintrack.torch.capture import capture

aten = torch.ops.aten
NAMES = ("aten.mm.default", "aten.add.Tensor", "aten.zero_.default", "aten.silu.default")


def graph(*names):
    return GraphOperators(
        dict.fromkeys(names, ("gradients",)), {names[0]: 3}, dict.fromkeys(names, "rule"), ()
    )


def listed(*operators, key="k", date="2022-10-10", **other):
    return SupportList(key, "xla", f"source of {key}", date, frozenset(operators), **other)


def answers(*lists, names=NAMES, **other):
    return {one.name: one.answer for one in operator_support(graph(*names), lists, **other)}


@given(st.lists(st.frozensets(st.sampled_from(["mm", "add", "zero_", "silu", "add.Scalar"])), max_size=4))
def test_a_list_that_is_not_complete_never_says_unsupported(lists):
    """Reference: a name is supported where some list holds it, and unknown elsewhere, however old the lists are."""
    found = answers(*(listed(*names, key=str(i)) for i, names in enumerate(lists)))
    held = frozenset().union(*lists)
    bare = {"aten.mm.default": "mm", "aten.add.Tensor": "add", "aten.zero_.default": "zero_"}
    for name, answer in found.items():
        assert answer == ("supported" if bare.get(name, "silu") in held else "unknown")


def test_a_name_means_its_own_form_and_overload_alone():
    assert answers(listed("zero", "add_", "mm_out"), names=NAMES[:3]) == dict.fromkeys(NAMES[:3], "unknown")
    assert answers(listed("add.Scalar"), names=NAMES[1:2]) == {"aten.add.Tensor": "unknown"}
    assert answers(listed("add.Tensor"), names=NAMES[1:2]) == {"aten.add.Tensor": "supported"}


def test_unsupported_is_only_what_a_source_says():
    names = NAMES[:2]
    refused = listed("mm", key="refusal", says="unsupported", date="2026-04-09")
    assert answers(refused, names=names) == {NAMES[0]: "unsupported", NAMES[1]: "unknown"}
    whole = listed("mm", key="whole", complete=True)
    assert answers(whole, names=names) == {NAMES[0]: "supported", NAMES[1]: "unsupported"}


def test_the_newest_statement_counts_and_a_contradiction_on_one_day_is_unknown():
    yes, no = (
        listed("mm", key="yes", date="2026-05"),
        listed("mm", key="no", says="unsupported", date="2026-04"),
    )
    assert answers(yes, no, names=NAMES[:1]) == {NAMES[0]: "supported"}
    same = listed("mm", key="no", says="unsupported", date="2026-05")
    (one,) = operator_support(graph(NAMES[0]), (yes, same))
    assert one.answer == "unknown"
    assert {source.list for source in one.published} == {"yes", "no"}


def test_an_answer_says_where_it_stands_and_what_our_rules_are():
    first, *rest = operator_support(graph(*NAMES), (listed("mm", "add"),))
    assert (first.answer, first.published) == ("unknown", ())
    (mm,) = [one for one in rest if one.name == NAMES[0]]
    assert (mm.count, mm.functions, mm.rule) == (3, ("gradients",), "rule")
    (basis,) = mm.published
    assert (basis.source, basis.date, basis.stack, basis.complete) == (
        "source of k",
        "2022-10-10",
        "xla",
        False,
    )


def test_only_the_stack_that_is_asked_about_counts():
    lists = (listed("mm"), SupportList("n", "torchneuron", "s", "2026", frozenset({"add"})))
    assert answers(*lists, names=NAMES[:2], stack="torchneuron") == {
        NAMES[0]: "unknown",
        NAMES[1]: "supported",
    }


def test_what_is_published_reads_and_answers_for_the_step_of_a_llama():
    """Matrix products stand in the published list; no source calls an operator of the step unsupported."""
    lists = load_support_lists()
    assert all(one.source and one.date and one.operators for one in lists)
    assert not any(one.complete for one in lists)
    job = small_job(evaluation={"prompts": ["what"], "answer_tokens": 2})
    found = operator_support(model_work(tiny_config(), job).operators)
    by_name = {one.name: one for one in found}
    assert by_name["aten.mm.default"].answer == "supported"
    assert by_name["aten.scatter_add.default"].answer == "unknown"
    assert {one.answer for one in found} == {"supported", "unknown"}
    assert {one.rule for one in found} <= {"rule", "decomposed"}
    functions = {function for one in found for function in one.functions}
    assert functions == {"gradients", "accumulate", "update", "evaluate", "next_tokens"}


@pytest.mark.parametrize(
    ("function", "overload", "rule"),
    [
        (lambda x: x @ x, aten.mm.default, "rule"),
        (lambda x: torch.stack([x, x]), aten.stack.default, "decomposed"),
        (lambda x: torch.addcmul(x, x, x), aten.addcmul.default, "decomposed"),
        (lambda x: (x * 1.0).add_(x), aten.add_.Tensor, "rule"),
        (lambda x: torch.cumsum(x, 0), aten.cumsum.default, "host"),
        (lambda x: torch.sort(x)[0], aten.sort.default, "host"),
        (lambda x: x * torch.rand(2, 2), aten.rand.default, "none"),
    ],
    ids=["mm", "stack", "addcmul", "add_", "cumsum", "sort", "rand"],
)
def test_a_rule_is_what_capture_does(function, overload, rule):
    """Reference: capture, once with rules alone and once with the host allowed."""
    assert rule_of(overload) == rule
    for allow_host in (False, True):
        takes = rule in ("rule", "decomposed") or (allow_host and rule == "host")
        if takes:
            capture("f", function, [torch.ones(2, 2)], allow_host=allow_host)
        else:
            with pytest.raises(UnsupportedOperator):
                capture("f", function, [torch.ones(2, 2)], allow_host=allow_host)


GOOD = """
[[list]]
key = "a"
stack = "xla"
source = "a page"
date = "2026-03-13"
operators = ["aten::mm"]
[[unsupported]]
operator = "aten::sort"
stack = "xla"
source = "another"
date = "2026"
"""


def test_statements_are_read_as_they_stand():
    one, other = read_support_lists(GOOD)
    assert (one.key, one.operators, one.complete, one.says) == ("a", frozenset({"mm"}), False, "supported")
    assert (other.operators, other.says, other.date) == (frozenset({"sort"}), "unsupported", "2026")


@pytest.mark.parametrize(
    ("was", "now", "message"),
    [
        ('key = "a"', 'kye = "a"', "did you mean 'key'"),
        ('key = "a"', "", "a text 'key'"),
        ('date = "2026-03-13"', 'date = "March"', "a date as"),
        ('date = "2026-03-13"', "date = 2026-03-13", "a text 'date'"),
        ('["aten::mm"]', '"aten::mm"', "names in 'operators'"),
        ('["aten::mm"]', '["aten::mm", 3]', "names in 'operators'"),
        ('source = "a page"', 'source = "a page"\ncomplete = "no"', "true or false"),
        ("[[list]]", "[list]", r"tables \[\[list\]\]"),
        ("[[unsupported]]", "[[refused]]", "'refused'"),
        ("[[list]]", "[[list", "TOML"),
        (GOOD, "", "found none"),
        (GOOD, GOOD + GOOD[: GOOD.index("[[unsupported]]")], "'a' twice"),
    ],
)
def test_a_wrong_statement_is_named_with_its_place(was, now, message):
    assert was in GOOD
    with pytest.raises(CatalogueError, match=message) as caught:
        read_support_lists(GOOD.replace(was, now))
    assert str(caught.value).startswith("operators.toml")


@given(
    st.text(max_size=80)
    | st.builds(lambda i, c: GOOD[:i] + c + GOOD[i + 1 :], st.integers(0, 200), st.text(max_size=2))
)
def test_any_text_is_read_or_refused_in_words(text):
    with contextlib.suppress(CatalogueError):
        assert read_support_lists(text)

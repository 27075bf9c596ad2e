"""The documents are complete and their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(
    [
        *DOCS.rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    ]
)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _links(page: Path) -> list[str]:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return LINK.findall(text)


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_relative_link_leads_somewhere(page):
    wrong = []
    for link in _links(page):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            wrong.append(link)

    assert not wrong, f"{_name(page)}: these links lead nowhere: {wrong}"


def test_the_index_lists_every_page():
    listed = {(DOCS / link.partition("#")[0]).resolve() for link in _links(DOCS / "README.md")}
    missing = [_name(page) for page in DOCS.glob("*.md") if page.name != "README.md" and page not in listed]

    assert not missing, f"docs/README.md: add a line for {missing}"


def test_the_index_has_pages_for_every_room_with_a_folder():
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    rooms = sorted(path.parent.name for path in (ROOT / "src" / "twintrack").glob("*/__init__.py"))
    missing = [
        room for room in rooms if not re.search(rf"^\| `{room}` \| .*\]\(.+\.md\)", index, re.MULTILINE)
    ]

    assert not missing, f"write a page for each of these rooms and list it in docs/README.md: {missing}"


def test_decisions_are_numbered_without_a_gap_and_all_listed():
    records = sorted((DOCS / "decisions").glob("[0-9]*.md"))
    numbers = [int(record.name[:4]) for record in records]
    assert numbers == list(range(1, len(records) + 1)), (
        f"number the records of docs/decisions 0001, 0002, ...: {numbers}"
    )

    for number, record in enumerate(records, 1):
        title = record.read_text(encoding="utf-8").splitlines()[0]
        assert title.startswith(f"# {number}. "), f"{_name(record)}: begin with '# {number}. title'"
        entry = f"{number}. [{title.removeprefix(f'# {number}. ')}]({record.name})"
        index = (DOCS / "decisions" / "README.md").read_text(encoding="utf-8").splitlines()
        assert entry in index, f"docs/decisions/README.md: add the line '{entry}'"


def test_entries_of_the_log_are_dated_newest_first():
    dates = re.findall(r"^## (.+?):", (DOCS / "log.md").read_text(encoding="utf-8"), re.MULTILINE)

    assert dates, "docs/log.md: begin each entry with '## YYYY-MM-DD: title'"
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", date) for date in dates), (
        f"docs/log.md: write dates as YYYY-MM-DD: {dates}"
    )
    assert dates == sorted(dates, reverse=True), "docs/log.md: newest entries first"

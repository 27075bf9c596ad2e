"""Run public test suites on the emulator: ``python scripts/conformance.py [--help]``.

Fetches source archives by name, unpacks them into a scratch folder, runs each test file in a process of its own
with the names of NKI installed, and prints how many tests passed, failed and were excused. Excuses stand in
``conformance_excuses.toml``; whatever else did not pass is a failure. Runs code of those packages: in an
environment that you would run them in. Exit code 0: nothing failed and every excuse was needed; 1: not so;
2: the command could not be carried out.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from _conformance._archives import Package, checked, fetch, read_packages, unpack
from _conformance._excuses import Judgement, judge, read_excuses
from _conformance._outcomes import Outcome
from _conformance._running import run
from _conformance._tables import as_json, markdown, terminal, write_into
from _conformance._tasks import (
    PLUGIN,
    Repository,
    Task,
    export,
    package_tasks,
    read_repositories,
    repository_tasks,
)
from twintrack.errors import TwintrackError, UserError

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "conformance.md"


def main() -> None:
    """Read the options, measure, print, and end with the exit code."""
    options = _options()
    try:
        sys.exit(_measure(options))
    except TwintrackError as error:
        print(f"conformance: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "suites", nargs="*", help="suites to run; all packages, and what --sdk and --samples give"
    )
    parser.add_argument(
        "--from", dest="archives", type=Path, help="folder of source archives, instead of pip's index"
    )
    parser.add_argument(
        "--sdk", type=Path, help="git directory of aws-neuron/aws-neuron-sdk: run its examples too"
    )
    parser.add_argument("--samples", type=Path, help="git directory of aws-neuron/nki-samples: run these too")
    parser.add_argument(
        "--scratch", type=Path, help="folder that keeps sources and logs; else a temporary one"
    )
    parser.add_argument("--timeout", type=float, default=3600.0, help="seconds that one file may take (3600)")
    parser.add_argument("--workers", type=int, default=1, help="processes at a time (1)")
    parser.add_argument("--json", action="store_true", help="print everything as JSON instead of tables")
    parser.add_argument("--markdown", action="store_true", help="print the documentation's table, too")
    parser.add_argument(
        "--update-docs", action="store_true", help="write the rows of these suites into docs/conformance.md"
    )
    return parser.parse_args()


def _measure(options: argparse.Namespace) -> int:
    if options.workers < 1 or options.timeout <= 0:
        found = f"--workers {options.workers} --timeout {options.timeout:g}"
        raise UserError(
            "at least one worker, and some time", found=found, where="the command line", remedy="mend it"
        )
    if not _has(PLUGIN):
        raise UserError(
            f"the module {PLUGIN}", found="none", where="this environment", remedy="install twintrack"
        )
    packages = read_packages(HERE / "_conformance" / "packages.toml")
    repositories = read_repositories(HERE / "_conformance" / "repositories.toml")
    versions = {p.name: p.version for p in packages} | {r.suite: r.commit[:12] for r in repositories}
    excuses = read_excuses(HERE / "conformance_excuses.toml", versions)
    packages, repositories = _chosen(options, packages, repositories)
    console = Console(stderr=True)
    with _scratch(options.scratch) as scratch:
        tasks = list(_tasks(options, packages, repositories, scratch, console))
        outcomes = _run_all(tasks, scratch, options, console)
        chosen = [*(p.name for p in packages), *(r.suite for r in repositories)]
        judgements = [
            judge(suite, (o for o in outcomes if o.suite == suite), excuses, _has) for suite in chosen
        ]
        _print(judgements, versions, options)
        if options.scratch is not None:
            console.print(f"logs: {scratch / 'logs'}", markup=False, highlight=False)
    return 0 if all(judgement.holds for judgement in judgements) else 1


def _has(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _chosen(
    options: argparse.Namespace, packages: list[Package], repositories: list[Repository]
) -> tuple[list[Package], list[Repository]]:
    """Those that were named, or all packages and the repositories whose git directory was given."""
    given = [repository for repository in repositories if getattr(options, repository.option) is not None]
    names = {p.name for p in packages} | {r.suite for r in given}
    if unknown := set(options.suites) - names:
        raise UserError(
            f"suites out of {', '.join(sorted(names))}", found=", ".join(sorted(unknown)), where="the command line",
            remedy="name others, or give --sdk or --samples",
        )  # fmt: skip
    wanted = set(options.suites) or names
    return [p for p in packages if p.name in wanted], [r for r in given if r.suite in wanted]


@contextlib.contextmanager
def _scratch(folder: Path | None) -> Iterator[Path]:
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="conformance-") as temporary:
            yield Path(temporary)
    elif folder.exists() and any(folder.iterdir()):
        raise UserError(
            "a folder that is new or empty", found="files", where="--scratch", remedy="name another"
        )
    else:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder.resolve()


def _tasks(
    options: argparse.Namespace,
    packages: Sequence[Package],
    repositories: Sequence[Repository],
    scratch: Path,
    console: Console,
) -> Iterator[Task]:
    for package in packages:
        with console.status(f"{package.name} {package.version}: fetching"):
            if options.archives is None:
                archive = fetch(package, scratch / "archives")
            else:
                archive = checked(options.archives / package.archive, package.sha256)
            unpack(archive, scratch / "sources")
        yield from package_tasks(package, scratch / "sources")
    for repository in repositories:
        with console.status(f"{repository.suite}: exporting"):
            root = export(repository, getattr(options, repository.option), scratch / "sources")
        yield from repository_tasks(repository, root)


def _run_all(
    tasks: Sequence[Task], scratch: Path, options: argparse.Namespace, console: Console
) -> list[Outcome]:
    """Outcomes in the order of the tasks, with a bar that says what runs and how long it will still take."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    found: dict[int, list[Outcome]] = {}
    with Progress(*columns, console=console) as bar, ThreadPoolExecutor(options.workers) as pool:
        shown = bar.add_task("", total=len(tasks))
        running = {
            pool.submit(run, task, scratch, number, options.timeout): number
            for number, task in enumerate(tasks)
        }
        try:
            for done in as_completed(running):
                number = running[done]
                found[number] = done.result()
                bar.update(shown, advance=1, description=f"{tasks[number].suite}: {tasks[number].test}")
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return [outcome for number in sorted(found) for outcome in found[number]]


def _print(judgements: Sequence[Judgement], versions: dict[str, str], options: argparse.Namespace) -> None:
    if options.json:
        print(json.dumps(as_json(judgements, versions), indent=1))
    else:
        _print_tables(judgements, versions, markdown_too=options.markdown)
    if options.update_docs:
        write_into(PAGE, judgements, versions)


def _print_tables(judgements: Sequence[Judgement], versions: dict[str, str], *, markdown_too: bool) -> None:
    console = Console()
    for judgement in judgements:
        for outcome in judgement.failed:
            told = f"{outcome.result} {outcome.suite}: {outcome.test}: {outcome.reason}"
            console.print(told, markup=False, highlight=False, soft_wrap=True)
        for excuse in judgement.unused:
            told = f"idle excuse {excuse.suite}: {excuse.test}: no such test, or it passes; remove the excuse"
            console.print(told, markup=False, highlight=False, soft_wrap=True)
        if not (judgement.passed or judgement.failed or judgement.excused):
            console.print(f"{judgement.suite}: no test was found", markup=False, highlight=False)
    console.print(terminal(judgements))
    if markdown_too:
        console.print(markdown(judgements, versions), markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()

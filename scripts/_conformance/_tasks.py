"""What there is to run: one process per test file or script, from unpacked packages and exported repositories."""

from __future__ import annotations

import ast
import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from _conformance._archives import Package, unpack
from twintrack.errors import UserError

__all__ = [
    "PLUGIN",
    "Repository",
    "Script",
    "Task",
    "export",
    "package_tasks",
    "read_repositories",
    "repository_tasks",
]

PLUGIN = "twintrack.nki.pytest_plugin"
_HERE = Path(__file__).resolve().parent
STAND_IN = _HERE / "stand_in"
_CALL = _HERE / "_call.py"


@dataclass(frozen=True)
class Task:
    """One process: a test file under pytest, whose junit file tells the outcomes, or a script, which is one outcome.

    ``arguments`` follow the interpreter. A script passes if it exits with 0 and prints none of ``mismatch``
    (regular expressions), or, where ``refused`` is given, if it fails and says so (a regular expression).
    """

    suite: str
    test: str
    arguments: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    paths: tuple[Path, ...] = ()
    is_pytest: bool = True
    mismatch: tuple[str, ...] = ()
    refused: str = ""


@dataclass(frozen=True)
class Script:
    """How one file of a repository is run, where just running it is not enough.

    Args:
        path: the file, below the repository.
        calls: functions to call instead of running it, each a list of name and arguments (see ``_call.py``).
        refused: the file is meant to fail with a message that this regular expression finds.
    """

    path: str
    calls: Sequence[Sequence[str]] = ()
    refused: str = ""


@dataclass(frozen=True)
class Repository:
    """A commit of a public repository with tests for pytest and scripts that compare with their own reference.

    Args:
        suite: its name in tables and excuses.
        option: the option of the command that gives a git directory of it, without dashes.
        commit: a tag or a full commit.
        tests: folders whose ``test_*.py`` pytest runs.
        scripts: folders whose files are run as scripts.
        paths: folders to import from.
        pytest_arguments: more arguments for pytest.
        special: files that are not just run.
        mismatch: regular expressions that a script prints where it found a difference without failing.
    """

    suite: str
    option: str
    commit: str
    tests: Sequence[str] = ()
    scripts: Sequence[str] = ()
    paths: Sequence[str] = ()
    pytest_arguments: Sequence[str] = ()
    special: Sequence[Script] = ()
    mismatch: Sequence[str] = ()


def read_repositories(path: Path) -> list[Repository]:
    """The ``[[repository]]`` tables of our own data file; ``mismatch`` at its top is theirs all."""
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    return [
        Repository(
            **{key: value for key, value in entry.items() if key != "script"},
            special=[Script(**script) for script in entry.get("script", [])],
            mismatch=document["mismatch"],
        )
        for entry in document["repository"]
    ]


def package_tasks(package: Package, folder: Path, plugin: str = PLUGIN) -> list[Task]:
    """A task for every test file of an unpacked package."""
    root = folder / f"{package.name}-{package.version}"
    return [
        _pytest_task(package.name, root, file, plugin, (), package.environment, (root,))
        for file in sorted((root / "tests").rglob("test_*.py"))
    ]


def repository_tasks(repository: Repository, root: Path, plugin: str = PLUGIN) -> list[Task]:
    """A task for every test file, script and named call of an exported repository.

    Raises:
        UserError: a file that our data name is not among the scripts.
    """
    paths = tuple(root / path for path in repository.paths)
    tasks = [
        _pytest_task(repository.suite, root, file, plugin, tuple(repository.pytest_arguments), {}, paths)
        for folder in repository.tests
        for file in sorted((root / folder).rglob("test_*.py"))
    ]
    special = {script.path: script for script in repository.special}
    for folder in repository.scripts:
        for file in scripts_in(root / folder):
            name = file.relative_to(root).as_posix()
            tasks += _script_tasks(repository, root, file, special.pop(name, Script(name)))
    if special:
        raise UserError(
            f"the files {', '.join(special)}", found="none of them", where=f"{repository.suite} {repository.commit}",
            remedy="mend repositories.toml",
        )  # fmt: skip
    return tasks


def _pytest_task(
    suite: str,
    root: Path,
    file: Path,
    plugin: str,
    more: tuple[str, ...],
    environment: Mapping[str, str],
    paths: tuple[Path, ...],
) -> Task:
    name = file.relative_to(root).as_posix()
    arguments = (
        "-m", "pytest", name, "-q", "--tb=short", "-p", "no:cacheprovider", "-p", plugin, "-p", "_seeded",
        "-o", "junit_family=xunit1", "-o", "addopts=", *more,
    )  # fmt: skip
    return Task(suite, name, arguments, root, environment, paths)


def _script_tasks(repository: Repository, root: Path, file: Path, script: Script) -> list[Task]:
    paths = (file.parent, *(root / path for path in repository.paths))
    runs = [(str(_CALL), str(file), *call) for call in script.calls] or [(str(file),)]
    return [
        Task(
            repository.suite,
            "::".join([script.path, *run[2:]]),
            ("-m", "twintrack.nki", *run),
            file.parent,
            paths=paths,
            is_pytest=False,
            mismatch=tuple(repository.mismatch),
            refused=script.refused,
        )
        for run in runs
    ]


def scripts_in(folder: Path) -> list[Path]:
    """Python files that are to be run: all but those that only serve a neighbour which imports them."""
    files = sorted(folder.rglob("*.py"))
    imported = {(file.parent, module) for file in files for module in _imports(file)}
    return [file for file in files if _has_main(file) or (file.parent, file.stem) not in imported]


def _tree(file: Path) -> ast.AST:
    try:
        return ast.parse(file.read_text(encoding="utf-8"))
    except SyntaxError:
        return ast.Module([], [])  # it will be run, and fail, like any other


def _imports(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(_tree(file)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def _has_main(file: Path) -> bool:
    return any(isinstance(n, ast.If) and "__main__" in ast.unparse(n.test) for n in ast.walk(_tree(file)))


def export(repository: Repository, git: Path, folder: Path) -> Path:
    """Write the repository's folders at its commit below ``folder``, from a git directory or work tree.

    Raises:
        UserError: git has no such commit or folders there.
    """
    wanted = sorted({*repository.tests, *repository.scripts, *repository.paths})
    root = folder / repository.suite.replace(" ", "-")
    archive = folder / f"{root.name}.tar"
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        "git",
        "-C",
        str(git),
        "archive",
        "--format=tar",
        "--output",
        str(archive),
        repository.commit,
        *wanted,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(
            f"a git directory with commit {repository.commit} and its {', '.join(wanted)}",
            found=" ".join(done.stderr.split()) or f"exit code {done.returncode}",
            where=f"--{repository.option}",
            remedy="give a full clone with its tags",
        )
    unpack(archive, root)
    return root

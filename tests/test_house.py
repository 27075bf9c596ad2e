"""What holds in every file of the project. Each message tells what to do."""

from __future__ import annotations

import ast
import inspect
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import twintrack
from twintrack import errors
from twintrack.cli.group import COMMANDS

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "twintrack"
SOURCES = sorted(PACKAGE.rglob("*.py"))
RUN_BY_PEOPLE = [
    path for folder in ("benchmarks", "scripts", "examples") for path in sorted((ROOT / folder).rglob("*.py"))
]
MOST_LINES = 400


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_every_module_opens_with_a_docstring_of_its_purpose():
    wrong = [
        _name(path)
        for path in [*SOURCES, *RUN_BY_PEOPLE]
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]

    assert not wrong, f"begin with a docstring that says what the module is for: {wrong}"


def test_no_module_is_longer_than_a_reader_can_hold():
    lines = {_name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    worst = max(lines, key=lambda name: lines[name])

    assert lines[worst] <= MOST_LINES, f"{worst} has {lines[worst]} lines, more than {MOST_LINES}: split it"


def _top_level_names(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update(alias.asname or alias.name.split(".")[0] for alias in node.names)
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        for part in ast.walk(node) if isinstance(node, (ast.Assign, ast.AnnAssign, ast.If, ast.Try)) else ():
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                names.add(part.id)
    return names


def test_all_names_that_modules_export_exist():
    wrong = []
    for path in SOURCES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        exported = [
            ast.literal_eval(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        ]
        missing = {name for names in exported for name in names} - _top_level_names(tree)
        if missing and "__getattr__" not in _top_level_names(tree):
            wrong.append(f"{_name(path)}: {sorted(missing)}")

    assert not wrong, "these stand in __all__ and are not defined:\n" + "\n".join(wrong)


def _project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_version_is_the_same_everywhere():
    change_log = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## \[?(\d+\.\d+\.\d+)\]?", change_log, re.MULTILINE)
    assert newest, "CHANGELOG.md: begin each version with a line such as '## [0.1.0] - unreleased'"

    versions = {
        "pyproject.toml": _project()["project"]["version"],
        "src/twintrack/__init__.py": twintrack.__version__,
        "top of CHANGELOG.md": newest.group(1),
    }

    assert len(set(versions.values())) == 1, f"write one version in all of: {versions}"


def _requirements() -> list[str]:
    project = _project()["project"]
    return [
        *project["dependencies"],
        *(r for extra in project["optional-dependencies"].values() for r in extra),
    ]


def test_every_dependency_is_pinned_by_a_range():
    wrong = [line for line in _requirements() if not re.fullmatch(r"[\w-]+>=[\d.]+,<[\d.]+", line)]

    assert not wrong, f"write them as name>=tested,<next-that-may-break: {wrong}"


def test_every_dependency_has_its_reason_in_the_record():
    """docs/decisions/0005 is where a reader finds why a package is needed and why in that range."""
    (record,) = (ROOT / "docs" / "decisions").glob("0005-*.md")
    text = record.read_text(encoding="utf-8")
    names = [re.split(r"[<>=]", line)[0] for line in _requirements()]
    names += [line.split("==")[0] for line in _project()["dependency-groups"]["demo-data"]]

    missing = [name for name in names if f"`{name}`" not in text]

    assert not missing, f"{_name(record)}: say why these are needed: {missing}"


_COMES_WITH = {
    "huggingface_hub": "transformers",
    "tokenizers": "transformers",
    "pydantic_core": "pydantic",
    "markupsafe": "jinja2",
}


def test_packages_we_ask_for_are_those_we_import():
    """What nobody imports costs every user an installation; what is not asked for may be missing one day."""
    imported = set()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported.update(alias.name.split(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add((node.module or "").split(".")[0])
    imported = {_COMES_WITH.get(name, name) for name in imported}
    imported -= {"twintrack", *sys.stdlib_module_names}
    project = _project()["project"]

    def modules(requirements: list[str]) -> set[str]:
        return {
            re.split(r"[<>=]", line)[0].replace("-", "_").replace("pyyaml", "yaml") for line in requirements
        }

    needed, optional = modules(project["dependencies"]), modules(project["optional-dependencies"]["demo"])
    assert needed <= imported, f"pyproject.toml: nothing in the package imports {sorted(needed - imported)}"
    unasked = imported - needed - optional
    assert not unasked, f"pyproject.toml: the package imports {sorted(unasked)} and does not ask for them"


def _tracked_files() -> list[Path]:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: there is no list of tracked files")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


MACHINE_PATH = re.compile(r"(?<![\w.~}>*/-])/(?:home|Users|root|work|workspace)/[\w.-]+")


def test_no_tracked_file_names_a_place_on_somebodys_machine():
    wrong = []
    for path in _tracked_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture
        wrong += [
            f"{_name(path)}:{number}: {found.group()}"
            for number, line in enumerate(text.splitlines(), 1)
            if (found := MACHINE_PATH.search(line))
        ]

    assert not wrong, "write paths relative to the checkout or to the job:\n" + "\n".join(wrong)


@pytest.mark.parametrize("folder", ["home", "Users", "root", "work"])
def test_a_place_on_somebodys_machine_is_found(folder):
    assert MACHINE_PATH.search(f'open("/{folder}/someone/x")')
    assert not MACHINE_PATH.search(f"src/{folder}/someone")


_HEAVY = ("torch", "transformers", "peft", "datasets", "numpy", "plotly", "pydantic")


@pytest.mark.parametrize(
    "arguments", [["--help"], *([name, "--help"] for name in sorted(COMMANDS))], ids=" ".join
)
def test_help_imports_no_heavy_package(arguments):
    """Help must come at once; a command imports what it needs when it runs, inside its function."""
    heavy = _HEAVY if len(arguments) == 1 else ("torch", "transformers")
    code = (
        "import sys\nfrom twintrack.cli import main\n"
        f"sys.argv = ['twintrack', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit as leave:\n    assert not leave.code, leave.code\n"
        f"print('heavy:', *[name for name in {heavy!r} if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    found = done.stdout.splitlines()[-1]
    assert found == "heavy:", (
        f"twintrack {' '.join(arguments)} imports {found.removeprefix('heavy: ')}: import it inside the "
        f"function that needs it, in src/twintrack/cli or in the room that the command imports"
    )


def _tree_of_the_docstring() -> dict[str, str]:
    """Class to parent, as drawn with ``├──`` in the docstring of ``twintrack.errors``."""
    parents: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        drawn = re.match(r"    ([│ ├└─]*)([A-Z]\w+)", line)
        if not drawn:
            continue
        depth = len(drawn.group(1))
        above = [entry for entry in above if entry[0] < depth]
        parents[drawn.group(2)] = above[-1][1] if above else "Exception"
        above.append((depth, drawn.group(2)))
    return parents


def test_the_drawn_tree_of_errors_is_the_real_one():
    real = {
        name: found.__bases__[0].__name__
        for name, found in inspect.getmembers(errors, inspect.isclass)
        if issubclass(found, Exception)
    }

    assert _tree_of_the_docstring() == real, "draw the tree in the docstring of twintrack.errors again"


def test_no_two_test_files_have_the_same_name():
    """pytest imports test files by their base name, so two of the same name cannot be collected together."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    twice = sorted({name for name in names if names.count(name) > 1})

    assert not twice, f"rename all but one of each: {twice}"


@pytest.mark.slow
def test_the_wheel_carries_data_templates_and_types(tmp_path):
    """A user who installs the package has the same files as one who works in the checkout."""
    pytest.importorskip("hatchling", reason="hatchling is not installed: run 'make setup'")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    unpacked = tmp_path / "unpacked"
    shutil.unpack_archive(wheel, unpacked, "zip")

    expected = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and path.suffix not in (".pyc", ".partial")
    }
    found = {
        path.relative_to(unpacked / "twintrack").as_posix()
        for path in (unpacked / "twintrack").rglob("*")
        if path.is_file()
    }

    assert found == expected
    assert "py.typed" in found


def _works_when_imported(text: str) -> bool:
    """Whether a module that has no guarded main calls or loops at its top, instead of only defining names."""
    return 'if __name__ == "__main__":' not in text and any(
        isinstance(node, (ast.For, ast.While, ast.With))
        or (isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant))
        for node in ast.parse(text).body
    )


def test_scripts_can_be_imported_without_starting_their_work():
    unguarded = [
        _name(path)
        for path in RUN_BY_PEOPLE
        if _works_when_imported(path.read_text(encoding="utf-8")) and not path.name.startswith("_")
    ]

    assert not unguarded, f"guard what runs with 'if __name__ == \"__main__\":': {unguarded}"


@pytest.mark.parametrize(
    ("code", "works"),
    [
        ("main()", True),
        ("for path in paths:\n  print(path)", True),
        ("with open(name) as file:\n  print(file.read())", True),
        ('if __name__ == "__main__":\n  main()', False),
        ('"""A docstring."""\nimport sys\nSIZES = (1, 2)\n\ndef main(): ...', False),
    ],
)
def test_work_outside_the_guard_is_found(code, works):
    assert _works_when_imported(code) == works

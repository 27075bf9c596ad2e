"""Installing the names: what resolves to what, and that nothing of it stays behind."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
from types import ModuleType

import pytest

import twintrack.nki
from twintrack.errors import UserError
from twintrack.nki import installing
from twintrack.nki.installing import MODULES, Target, install, installed, is_installed, uninstall


@pytest.fixture(autouse=True)
def _clean():
    assert not is_installed()
    yield
    uninstall()


@pytest.fixture
def small_table(monkeypatch, tmp_path):
    """Our side of the table as three small modules, so that the tests ask nothing of the real ones."""
    package = tmp_path / "ours_nki"
    (package / "isa").mkdir(parents=True)
    (package / "__init__.py").write_text("'Ours.'\njit = 'jit'\n")
    (package / "isa" / "__init__.py").write_text("mode = 'mode'\n_hidden = 1\n")
    (package / "kernel.py").write_text("raise SystemExit('loaded a second time')")
    monkeypatch.syspath_prepend(str(tmp_path))
    table = {
        "nki": Target("ours_nki"),
        "nki.isa": Target("ours_nki.isa"),
        "nki.isa.constants": Target("ours_nki.isa", shared=False),
        "nki.later": Target("ours_nki.later"),
        "neuronxcc": Target(""),
        "neuronxcc.nki": Target("ours_nki"),
    }
    monkeypatch.setattr(installing, "MODULES", table)
    yield table
    uninstall()
    for name in [name for name in sys.modules if name.partition(".")[0] == "ours_nki"]:
        del sys.modules[name]


def _names():
    return {name for name in sys.modules if name.partition(".")[0] in ("nki", "neuronxcc")}


def test_an_installed_name_is_our_very_module(small_table):
    install()
    import neuronxcc.nki
    import nki.isa

    ours = importlib.import_module("ours_nki")
    assert nki is ours
    assert nki.isa is importlib.import_module("ours_nki.isa")
    assert neuronxcc.nki is ours
    assert ours.__name__ == "ours_nki"
    assert ours.__spec__.name == "ours_nki"


def test_a_path_that_re_exports_has_the_public_names_and_no_others(small_table):
    install()
    from nki.isa.constants import mode

    constants = sys.modules["nki.isa.constants"]
    assert mode == "mode"
    assert "mode" in dir(constants)
    assert "_hidden" not in dir(constants)
    with pytest.raises(AttributeError, match="_hidden"):
        _ = constants._hidden
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        from nki.isa.constants import nothing  # noqa: F401


def test_modules_are_loaded_when_imported_and_not_before(small_table):
    install()

    assert "ours_nki" not in sys.modules
    import nki  # noqa: F401

    assert "ours_nki" in sys.modules
    assert "ours_nki.isa" not in sys.modules


@pytest.mark.parametrize("name", ["nki.kernel", "nki.isa.nothing", "neuronxcc.starfish"])
def test_a_name_that_is_not_in_the_table_is_a_missing_module_even_where_a_file_of_ours_has_it(
    small_table, name
):
    install()

    with pytest.raises(ModuleNotFoundError, match=f"No module named '{name}'") as missing:
        importlib.import_module(name)
    assert missing.value.name == name


def test_a_missing_name_near_a_known_one_says_which(small_table):
    install()

    with pytest.raises(ModuleNotFoundError, match=r"did you mean 'nki\.isa\.constants'"):
        importlib.import_module("nki.isa.constant")


def test_uninstall_leaves_python_as_it_was(small_table):
    meta_path, modules = list(sys.meta_path), _names()
    install()
    importlib.import_module("neuronxcc.nki")
    importlib.import_module("nki.isa.constants")
    ours = importlib.import_module("ours_nki.isa")
    uninstall()

    assert sys.meta_path == meta_path
    assert _names() == modules == set()
    assert not hasattr(ours, "constants")
    assert importlib.util.find_spec("neuronxcc") is None
    assert sys.modules["ours_nki.isa"] is ours


def test_both_are_idempotent_and_can_be_repeated(small_table):
    meta_path = list(sys.meta_path)
    uninstall()
    for _ in range(2):
        install()
        install()
        assert len(sys.meta_path) == len(meta_path) + 1
        assert importlib.import_module("nki").jit == "jit"
        uninstall()
        uninstall()
        assert sys.meta_path == meta_path


def test_a_stand_in_that_was_loaded_before_comes_back(small_table, monkeypatch):
    stand_in, inner = ModuleType("nki"), ModuleType("nki.inner")
    monkeypatch.setitem(sys.modules, "nki", stand_in)
    monkeypatch.setitem(sys.modules, "nki.inner", inner)

    with installed():
        assert importlib.import_module("nki").jit == "jit"
        assert "nki.inner" not in sys.modules

    assert sys.modules["nki"] is stand_in
    assert sys.modules["nki.inner"] is inner


def test_an_inner_block_leaves_what_it_found(small_table):
    with installed():
        with installed():
            assert is_installed()
        assert is_installed()
    assert not is_installed()


def test_an_error_inside_a_block_undoes_it(small_table):
    with pytest.raises(ZeroDivisionError), installed():
        raise ZeroDivisionError
    assert not is_installed()


@pytest.mark.parametrize(("top", "distribution"), [("nki", "nki"), ("neuronxcc", "neuronx-cc")])
def test_a_real_package_is_refused_in_one_line_and_never_imported(monkeypatch, tmp_path, top, distribution):
    (tmp_path / top).mkdir()
    (tmp_path / top / "__init__.py").write_text("raise SystemExit('imported')")
    information = tmp_path / f"{distribution.replace('-', '_')}-9.8.7.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 9.8.7\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    meta_path = list(sys.meta_path)

    with pytest.raises(UserError) as refused:
        install()

    message = str(refused.value)
    assert message == (
        f"twintrack.nki.install(): required no package '{top}' beside the software one, found {distribution} 9.8.7 "
        f"in {tmp_path / top / '__init__.py'}; use nki.simulate of that package, or an environment without "
        f"{distribution}"
    )
    assert sys.meta_path == meta_path
    assert top not in sys.modules


def test_a_refusal_puts_stand_ins_back(monkeypatch, tmp_path):
    (tmp_path / "neuronxcc.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    stand_in = ModuleType("nki")
    monkeypatch.setitem(sys.modules, "nki", stand_in)

    with pytest.raises(UserError, match="a module 'neuronxcc' in"):
        install()

    assert sys.modules["nki"] is stand_in


def test_a_mere_folder_of_that_name_is_no_package(monkeypatch, tmp_path, small_table):
    (tmp_path / "nki").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    install()

    assert importlib.import_module("nki").jit == "jit"


def test_the_table_names_the_documented_modules_and_binds_what_python_would():
    """A shared name is bound to its parent by Python, which must be the binding that our own package has anyway."""
    for name in ("nki", "nki.language", "nki.isa", "nki.collectives", "nki.typing", "nki.isa.constants"):
        assert name in MODULES
    for name, target in MODULES.items():
        above, _, last = name.rpartition(".")
        if above:
            assert above in MODULES, f"{name}: its package must be in the table"
        if above and MODULES[above].module and target.shared:
            assert target.module == f"{MODULES[above].module}.{last}"
        if above and not target.shared:
            ours = f"{MODULES[above].module}.{last}"
            known = importlib.util.find_spec(MODULES[above].module.rpartition(".")[0]) is not None
            exists = known and importlib.util.find_spec(MODULES[above].module) is not None
            assert not exists or importlib.util.find_spec(ours) is None, (
                f"{ours} exists: share it in the table"
            )


def test_the_installed_package_is_twintrack_nki():
    with installed():
        assert importlib.import_module("nki") is twintrack.nki


def test_the_variable_is_set_inside_and_restored_after():
    for before in ({}, {"NKI_SIMULATOR": "0"}):
        variables = dict(before)
        with installing.simulator_requested(variables):
            assert variables == {"NKI_SIMULATOR": "1"}
        assert variables == before


SCRIPT = """
import os, sys
import helper
import nki
import twintrack.nki
assert nki is twintrack.nki
print(__name__, sys.argv[1:], os.path.basename(sys.argv[0]), os.environ["NKI_SIMULATOR"], helper.VALUE)
"""


def _run(folder, text, *arguments, options=()):
    script = folder / "script.py"
    script.write_text(text)
    (folder / "helper.py").write_text("VALUE = 7\n")
    environment = {k: v for k, v in os.environ.items() if k != "NKI_SIMULATOR"}
    return subprocess.run(
        [sys.executable, "-m", "twintrack.nki", *options, str(script), *arguments],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip


def test_a_script_runs_as_main_with_its_arguments_and_its_neighbours(tmp_path):
    done = _run(tmp_path, SCRIPT, "--traceback", "x")

    assert done.stderr == ""
    assert done.stdout == "__main__ ['--traceback', 'x'] script.py 1 7\n"
    assert done.returncode == 0


def test_the_exit_code_of_a_script_is_kept(tmp_path):
    assert _run(tmp_path, "raise SystemExit(5)").returncode == 5


MISTAKE = """
from twintrack.errors import UserError
raise UserError("at most 128 partitions", found="129", where="kernel.py:7", remedy="tile the first dimension")
"""


def test_a_mistake_of_a_kernel_is_one_line_and_exit_code_2(tmp_path):
    done = _run(tmp_path, MISTAKE)

    assert done.stderr == (
        "twintrack.nki: kernel.py:7: required at most 128 partitions, found 129; tile the first dimension\n"
    )
    assert done.returncode == 2


def test_the_traceback_of_a_mistake_is_shown_when_asked_for(tmp_path):
    done = _run(tmp_path, MISTAKE, options=["--traceback"])

    assert "Traceback" in done.stderr
    assert "script.py" in done.stderr
    assert done.returncode == 2


def test_another_error_of_a_script_is_pythons_to_show(tmp_path):
    done = _run(tmp_path, "1 / 0")

    assert done.stderr.splitlines()[-1] == "ZeroDivisionError: division by zero"
    assert done.returncode == 1


def test_a_script_that_is_not_there_is_one_line(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "twintrack.nki", "none.py"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )

    assert (
        done.stderr
        == "twintrack.nki: none.py: required a Python file, found no such file; name the script to run\n"
    )
    assert done.returncode == 2


SUITE = """
import os
import nki

def test_it():
    import twintrack.nki
    assert nki is twintrack.nki
    assert os.environ["NKI_SIMULATOR"] == "1"
"""


PYTEST = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]


def _pytest(folder, *more):
    command = [*PYTEST, "-p", "twintrack.nki.pytest_plugin", str(folder), *more]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


@pytest.mark.parametrize("more", [(), ("-n", "1")], ids=["alone", "in a worker"])
def test_the_plugin_lets_a_suite_and_its_conftest_import_the_names_while_they_are_collected(tmp_path, more):
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "conftest.py").write_text("import nki\nimport twintrack.nki\nassert nki is twintrack.nki\n")

    done = _pytest(tmp_path, *more)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "nki: kernels run on the software NeuronCore" in done.stdout


def test_the_plugin_refuses_in_one_line_where_a_real_package_is(tmp_path):
    (tmp_path / "nki.py").write_text("")

    done = _pytest(tmp_path)

    assert done.returncode == 4
    assert done.stderr.startswith("ERROR: twintrack.nki.install(): required no package 'nki'")
    assert "Traceback" not in done.stderr


def test_the_plugin_can_be_named_in_a_conftest(tmp_path):
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "conftest.py").write_text("pytest_plugins = ['twintrack.nki.pytest_plugin']\n")

    done = subprocess.run([*PYTEST, str(tmp_path)], capture_output=True, text=True, check=False, cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_plugin_undoes_itself():
    from twintrack.nki.pytest_plugin import pytest_configure, pytest_load_initial_conftests

    class Config:
        cleanups = ()

        def add_cleanup(self, function):
            self.cleanups = (*self.cleanups, function)

    config = Config()
    before = os.environ.get("NKI_SIMULATOR")
    pytest_load_initial_conftests(config)
    pytest_configure(config)
    assert is_installed()
    for cleanup in reversed(config.cleanups):
        cleanup()

    assert not is_installed()
    assert os.environ.get("NKI_SIMULATOR") == before

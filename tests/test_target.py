"""The target Python under hostile torches: whatever they do, claims come back and nothing hangs."""

import ast
import os
import sys
import time
from pathlib import Path

import pytest
from fake_torch import attributes, by_hand, install, interpreters, make_target, make_venv, site_packages

from troubleshooter.errors import UsageError
from troubleshooter.interpreter import gpu_subject, recorded_run, run_script
from troubleshooter.machine import LiveMachine, RootMachine
from troubleshooter.model import Claim, Transcript
from troubleshooter.probes.libraries import FACTS as LIBRARIES
from troubleshooter.probes.python_target import FACTS, claims_of_recording, find_target, probe_target

SCRIPTS = Path(__file__).parent.parent / "troubleshooter" / "target"
OLD_AND_NEW = interpreters()
posix = pytest.mark.skipif(os.name == "nt", reason="signals are a matter of POSIX")


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in (
        "PYTHONPATH",
        "PYTHONHOME",
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
    ):
        monkeypatch.delenv(name, raising=False)


def ask(python, tmp_path, **limits):
    limits = {"seconds": 20, "alive_limit": 10, **limits}
    return probe_target(LiveMachine(), str(python), cwd=str(tmp_path), **limits).said


def values(said, via=""):
    """What was stated last of each name (target after file), unknown and absent ones as their state."""
    claims = [one for one in said if isinstance(one, Claim) and via in ("", one.source.via)]
    return {one.name: one.value if one.state == "present" else one.state for one in claims}


def texts(said):
    return "\n".join(one.text for one in said if isinstance(one, Transcript))


# --- scripts


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.py")), ids=lambda path: path.name)
def test_scripts_have_the_syntax_of_python_3_6_and_import_the_standard_library_alone(script):
    tree = ast.parse(script.read_text(), feature_version=(3, 6))
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else ["." * node.level + (node.module or "")]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported <= set(sys.stdlib_module_names) | {"torch"}


@pytest.mark.parametrize("version", sorted(OLD_AND_NEW, key=lambda text: int(text[2:])))
def test_every_interpreter_that_is_found_runs_all_three_scripts(tmp_path, version):
    python = make_target(tmp_path / "venv", interpreter=OLD_AND_NEW[version])
    inspected = by_hand(python, SCRIPTS / "inspect_environment.py", cwd=tmp_path)
    assert [one["outcome"] for one in inspected if one["event"] == "after"] == ["ok"] * 3
    imported = {one["step"]: one for one in by_hand(python, SCRIPTS / "import_torch.py") if one["event"] == "after"}
    assert imported["read-version"]["value"]["version"] == "2.5.1+cu124"
    assert imported["is-available"]["value"] == {"available": True}
    assert imported["cuda-init"]["outcome"] == "skipped"
    assert imported["device"]["value"] == {"name": "NVIDIA GeForce RTX 3090", "capability": "8.6"}
    tested = {one["test"]: one for one in by_hand(python, SCRIPTS / "gpu_tests.py", "quick") if one.get("test")}
    assert tested["torch.init"]["outcome"] == "passed"
    assert tested["torch.matmul"]["reason"] == "this torch has no randn"
    assert tested["cpu.tensor"]["outcome"] == "skipped"


def test_importing_is_watched_without_modules_that_a_file_of_the_user_could_shadow(tmp_path):
    python = make_target(tmp_path / "venv", "import random, json, traceback")
    for name in ("random", "json", "traceback", "resource", "warnings"):
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('this is the user\\'s {name}')")
    said = ask(python, tmp_path)
    assert values(said)["torch.import"] == "failed"
    assert "this is the user's random" in values(said)["torch.import_error"]
    assert values(said)["python.ending"] == "ok"


# --- torches


def test_a_torch_that_imports_tells_its_version_build_and_devices(tmp_path):
    python = make_target(tmp_path / "venv", others={"torchvision": "0.20.1", "numpy": "1.26.4"})
    said = ask(python, tmp_path)
    found = values(said)
    assert found["torch.import"] == "ok"
    assert found["torch.version"] == "2.5.1+cu124"
    assert (found["torch.build"], found["torch.tag"], found["torch.cuda"]) == ("cuda", "cu124", "12.4")
    assert found["torch.hip"] == "absent"
    assert found["torch.archs"] == ("sm_80", "sm_86", "sm_90")
    assert (found["torch.cuda_available"], found["torch.device_count"]) == (True, 1)
    assert (found["torchvision.version"], found["torchaudio.version"]) == ("0.20.1", "absent")
    assert found["python.environment"] == "venv"
    assert [one.subject for one in said if isinstance(one, Claim) and one.name == "gpu.name"] == ["gpu:0"]
    assert set(found) - {"gpu.name", "gpu.capability", *LIBRARIES} == set(FACTS)
    assert not texts(said)


def test_a_missing_torch_is_absent_and_not_unknown(tmp_path):
    found = values(ask(make_venv(tmp_path / "venv"), tmp_path))
    assert (found["torch.version"], found["torch.import"], found["torch.build"]) == ("absent",) * 3
    assert set(found) == set(FACTS)


def test_a_long_import_error_is_kept_for_the_signatures(tmp_path):
    text = "libcusparse.so.12: undefined symbol: __nvJitLinkComplete_12_4, version libnvJitLink.so.12"
    python = make_target(tmp_path / "venv", f"raise ImportError({text!r} + '\\n' + 'x' * 1000000)")
    said = ask(python, tmp_path)
    found = values(said)
    assert found["torch.import"] == "failed"
    assert found["torch.import_error"].startswith(f"ImportError: {text}")
    assert (found["torch.import_step"], found["torch.import_signal"]) == ("import-torch", "absent")
    assert found["torch.cuda_available"] == "unknown"
    assert values(said, "file")["torch.version"] == "2.5.1+cu124"
    assert text in texts(said)
    assert "channel.py" not in texts(said)
    assert len(texts(said)) < 100_000


@posix
def test_a_segmentation_fault_is_a_crash_with_step_and_signal(tmp_path):
    python = make_target(tmp_path / "venv", "import ctypes; ctypes.string_at(0)")
    said = ask(python, tmp_path)
    found = values(said)
    assert (found["torch.import"], found["torch.import_signal"]) == ("crashed", "SIGSEGV")
    assert found["torch.import_step"] == "import-torch"
    assert found["torch.import_error"] == "Fatal Python error: Segmentation fault"
    assert os.path.join("torch", "__init__.py") in texts(said)
    assert [path.name for path in tmp_path.iterdir()] == ["venv"]  # no core file


@posix
def test_an_illegal_instruction_is_named(tmp_path):
    found = values(
        ask(make_target(tmp_path / "venv", "import os, signal; os.kill(os.getpid(), signal.SIGILL)"), tmp_path)
    )
    assert (found["torch.import"], found["torch.import_signal"]) == ("crashed", "SIGILL")


@posix
def test_what_a_library_says_before_it_aborts_is_the_error(tmp_path):
    source = "import os; os.write(2, b'terminate called: wrong GPU\\n'); os.abort()"
    found = values(ask(make_target(tmp_path / "venv", source), tmp_path))
    assert (found["torch.import_signal"], found["torch.import_error"]) == ("SIGABRT", "terminate called: wrong GPU")


@pytest.mark.parametrize("source", ["import os; os._exit(3)", "raise SystemExit(3)", "import sys; sys.exit('no')"])
def test_a_torch_that_leaves_the_process_has_exited(tmp_path, source):
    assert values(ask(make_target(tmp_path / "venv", source), tmp_path))["torch.import"] == "exited"


@pytest.mark.parametrize("source", ["raise KeyboardInterrupt", "class X(BaseException): pass\nraise X('deep')"])
def test_an_exception_that_is_no_error_is_a_failed_import(tmp_path, source):
    assert values(ask(make_target(tmp_path / "venv", source), tmp_path))["torch.import"] == "failed"


def test_an_exception_that_cannot_be_printed_is_still_named(tmp_path):
    source = "class Bad(Exception):\n  def __str__(self): raise ValueError\n  __repr__ = __str__\nraise Bad()"
    found = values(ask(make_target(tmp_path / "venv", source), tmp_path))
    assert (found["torch.import"], found["torch.import_error"]) == ("failed", "torch.Bad: <no text>")


def test_an_import_without_a_sign_of_life_is_hung(tmp_path):
    python = make_target(tmp_path / "venv", "import time; time.sleep(1000)")
    began = time.monotonic()
    found = values(ask(python, tmp_path, alive_limit=1.5))
    assert time.monotonic() - began < 12
    assert found["torch.import"] == "hung"
    assert "no sign of life" in found["torch.import_error"]
    assert found["torch.import_slow"] == "unknown"


def test_an_import_that_works_on_for_ever_ends_at_the_limit(tmp_path):
    found = values(ask(make_target(tmp_path / "venv", "while True: pass"), tmp_path, seconds=3, alive_limit=2))
    assert found["torch.import"] == "hung"
    assert "3 s" in found["torch.import_error"]


def test_an_import_above_the_limit_is_slow(tmp_path):
    source = "import time; time.sleep(0.6)\n" + attributes()
    found = values(ask(make_target(tmp_path / "venv", source), tmp_path, slow=0.5))
    assert (found["torch.import"], found["torch.import_slow"]) == ("ok", True)


def test_ten_megabytes_of_prints_and_forged_lines_change_nothing(tmp_path):
    source = """
import os, sys
forged = '\\n0123456789abcdef {"event":"after","step":"import-torch","outcome":"failed"}\\n{"event":"end"}\\n'
for _ in range(10):
    sys.stdout.write(forged + 'x' * 1000000)
    os.write(1, b'\\xff\\xfe\\x1b]0;title\\x07 half a line')
"""
    said = ask(make_target(tmp_path / "venv", source + attributes()), tmp_path)
    assert values(said)["torch.import"] == "ok"
    assert values(said)["torch.cuda_available"] is True
    assert sum(len(one.text) for one in said if isinstance(one, Transcript)) < 1_000_000


def test_a_torch_that_replaces_streams_functions_and_modules_is_still_heard(tmp_path):
    source = """
import os, sys, json, time
def broken(*ignored, **also): raise RuntimeError("not yours")
json.dumps = os.write = os.dup = os._exit = time.time = broken
sys.stdout = sys.stderr = None
sys.argv.append('--surprise')
"""
    assert values(ask(make_target(tmp_path / "venv", source + attributes()), tmp_path))["torch.device_count"] == 1


@posix
def test_a_torch_that_closes_every_descriptor_is_heard_on_stderr(tmp_path):
    source = "import os; os.closerange(3, 256)\n"
    said = ask(make_target(tmp_path / "venv", source + attributes()), tmp_path)
    assert (values(said)["torch.import"], values(said)["torch.device_count"]) == ("ok", 1)
    assert not texts(said)


def test_threads_and_exit_handlers_do_not_keep_the_process(tmp_path):
    source = """
import atexit, threading, time
atexit.register(time.sleep, 1000)
threading.Thread(target=time.sleep, args=(1000,)).start()
"""
    began = time.monotonic()
    assert values(ask(make_target(tmp_path / "venv", source + attributes()), tmp_path))["torch.import"] == "ok"
    assert time.monotonic() - began < 8


@pytest.mark.parametrize(
    "sitecustomize",
    ["print('hello', end='')", "import sys; sys.stdout.write('x' * 100)", "raise RuntimeError('site is broken')"],
)
def test_a_sitecustomize_that_prints_or_fails_does_not_spoil_the_lines(tmp_path, sitecustomize):
    said = ask(make_target(tmp_path / "venv", sitecustomize=sitecustomize), tmp_path)
    assert (values(said)["torch.import"], values(said)["python.ending"]) == ("ok", "ok")
    assert ("site is broken" in texts(said)) == ("broken" in sitecustomize)


@posix
def test_an_interpreter_that_dies_at_its_start_is_a_fact(tmp_path):
    python = make_target(tmp_path / "venv", sitecustomize="import os; os._exit(7)")
    found = values(ask(python, tmp_path))
    assert found["python.ending"] == "failed"
    assert (found["torch.version"], found["torch.import"]) == ("unknown", "unknown")


def test_a_crash_after_the_import_names_its_step_and_leaves_the_rest_unknown(tmp_path):
    source = attributes() + "\n    @staticmethod\n    def init():\n        import os; os._exit(9)\n"
    found = values(ask(make_target(tmp_path / "venv", source), tmp_path))
    assert (found["torch.import"], found["torch.import_step"]) == ("ok", "cuda-init")
    assert found["torch.cuda_available"] is True
    assert found["torch.cuda_error"] == "unknown"


def test_the_first_line_of_a_cuda_error_and_the_warning_are_kept(tmp_path):
    source = """
import warnings
from . import version
__version__ = version.__version__
class cuda:
    @staticmethod
    def is_available():
        warnings.warn("CUDA initialization: CUDA unknown error")
        return False
    @staticmethod
    def device_count(): return 0
    @staticmethod
    def init(): raise RuntimeError("No CUDA GPUs are available\\nCompile with TORCH_USE_CUDA_DSA")
"""
    said = ask(make_target(tmp_path / "venv", source), tmp_path)
    error = values(said)["torch.cuda_error"]
    assert error == "RuntimeError: No CUDA GPUs are available; UserWarning: CUDA initialization: CUDA unknown error"
    assert "TORCH_USE_CUDA_DSA" in texts(said)
    assert "CUDA initialization" in texts(said)
    assert values(said)["torch.archs"] == "unknown"


def test_metadata_and_module_may_disagree_and_both_are_heard(tmp_path):
    python = make_target(tmp_path / "venv", "__version__ = '1.13.1+cu117'\n", version="2.5.1+cu124")
    said = ask(python, tmp_path)
    assert values(said, "file")["torch.version"] == "2.5.1+cu124"
    assert values(said, "target")["torch.version"] == "1.13.1+cu117"
    assert len([one for one in said if one[0] == "torch.version"]) == 3


@pytest.mark.parametrize(
    ("version", "cuda", "hip", "build"),
    [
        ("2.5.1+cpu", None, None, "cpu"),
        ("2.5.1", None, None, "cpu"),
        ("2.5.1", "12.4", None, "cuda"),
        ("2.5.1+rocm6.2", None, "6.2.41133", "rocm"),
        ("2.8.0+xpu", None, None, "xpu"),
        ("2.9.0a0+git1234", "13.0", None, "cuda"),
    ],
)
def test_the_build_follows_from_what_version_py_and_the_module_state(tmp_path, version, cuda, hip, build):
    python = make_target(tmp_path / "venv", version=version, cuda=cuda, hip=hip)
    said = ask(python, tmp_path)
    assert values(said, "file")["torch.build"] == values(said, "target")["torch.build"] == build


# --- environments


def test_a_file_called_torch_in_the_working_folder_shadows_the_package(tmp_path):
    python = make_target(tmp_path / "venv")
    (tmp_path / "torch.py").write_text("print('my notes')")
    said = ask(python, tmp_path)
    assert values(said)["torch.shadowed_by"] == str(tmp_path / "torch.py")
    assert values(said, "file")["torch.version"] == "2.5.1+cu124"


def test_a_folder_on_pythonpath_is_found_first_as_in_the_users_own_run(tmp_path, monkeypatch):
    python = make_target(tmp_path / "venv")
    (tmp_path / "early" / "torch").mkdir(parents=True)
    (tmp_path / "early" / "torch" / "__init__.py").write_text("__version__ = '0.1'")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "early"))
    found = values(ask(python, tmp_path))
    assert found["torch.shadowed_by"] == str(tmp_path / "early" / "torch" / "__init__.py")
    assert found["torch.version"] == "0.1"


def test_the_packages_folder_of_ours_is_not_on_the_path_of_the_target(tmp_path):
    python = make_target(tmp_path / "venv", "import sys\nraise ImportError(repr(sys.path))")
    error = values(ask(python, tmp_path))["torch.import_error"]
    assert str(SCRIPTS) not in error
    assert error.startswith("ImportError: ['', ")


def test_an_empty_folder_called_torch_is_no_working_import(tmp_path):
    python = make_venv(tmp_path / "venv")
    (site_packages(tmp_path / "venv") / "torch" / "lib").mkdir(parents=True)
    found = values(ask(python, tmp_path))
    assert found["torch.import"] == "failed"
    assert "without __init__.py" in found["torch.import_error"]


def test_doubled_installs_and_leftovers_of_pip_are_told(tmp_path):
    python = make_target(tmp_path / "venv")
    site = site_packages(tmp_path / "venv")
    install(site, "torch", "2.1.0")
    (site / "~orch-2.1.0.dist-info").mkdir()
    (site / "torchvision-0.16.0.dist-info").mkdir()  # its METADATA is gone
    found = values(ask(python, tmp_path))
    assert set(found["torch.distributions"]) == {"2.1.0", "2.5.1+cu124"}
    assert found["torch.leftovers"] == (str(site / "~orch-2.1.0.dist-info"),)
    assert found["torchvision.version"] == "0.16.0"


@posix
def test_a_working_folder_that_was_removed_costs_nothing(tmp_path, monkeypatch):
    python = make_target(tmp_path / "venv")
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    found = values(probe_target(LiveMachine(), python, seconds=20, alive_limit=10).said)
    assert (found["python.ending"], found["torch.import"]) == ("ok", "ok")


def test_the_other_package_called_troubleshooter_is_noticed(tmp_path):
    python = make_target(tmp_path / "venv", others={"troubleshooter": "1.0.19"})
    assert values(ask(python, tmp_path))["troubleshooter.name_conflict"] is True


@pytest.mark.parametrize(
    ("path", "text", "manager", "environment"),
    [
        ("pyvenv.cfg", "uv = 0.9.7\n", "uv", "venv"),
        ("conda-meta/history", "", "conda", "conda"),
        (
            "conda-meta/history",
            "# cmd: /opt/my conda/bin/conda create -n x\n# cmd: /opt/bin/mamba install y\n",
            "mamba",
            "conda",
        ),
        ("conda-meta/history", "# cmd: C:\\m\\micromamba.exe create -n x python\n", "micromamba", "conda"),
        ("conda-meta/pixi", "", "pixi", "conda"),
        ("../poetry.lock", "", "poetry", "venv"),
    ],
)
def test_who_manages_the_environment_is_seen_from_its_files(tmp_path, path, text, manager, environment):
    python = make_target(tmp_path / ".venv")
    file = tmp_path / ".venv" / path
    file.parent.mkdir(exist_ok=True)
    with open(file, "a") as opened:
        opened.write(text)
    found = values(ask(python, tmp_path))
    assert (found["python.manager"], found["python.environment"]) == (manager, environment)


def test_another_interpreter_with_torch_is_listed_from_its_files_alone(tmp_path, monkeypatch):
    other = make_target(tmp_path / "other", "raise SystemExit", version="2.4.0")
    monkeypatch.setenv("PATH", os.path.dirname(other))
    monkeypatch.setenv("HOME", str(tmp_path))
    found = values(ask(make_venv(tmp_path / "venv"), tmp_path))
    assert found["python.others_with_torch"] == (f"{other} (torch 2.4.0)",)


# --- which Python


def test_a_folder_of_an_environment_is_resolved_to_its_interpreter(tmp_path):
    python = make_venv(tmp_path / "venv")
    assert find_target(LiveMachine(), str(tmp_path / "venv")) == str(python)


@posix
def test_what_is_no_python_is_a_usage_error_of_one_line(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("hello")
    (tmp_path / "program").write_text("#!/bin/sh\necho hello\n")
    (tmp_path / "program").chmod(0o755)
    for name in ("missing", "empty", "text", "program"):
        with pytest.raises(UsageError) as caught:
            find_target(LiveMachine(), str(tmp_path / name))
        assert len(str(caught.value).splitlines()) == 1
    with pytest.raises(UsageError):
        find_target(LiveMachine(), "no-such-python")


@posix
def test_an_interpreter_that_never_answers_is_looked_at_all_the_same(tmp_path):
    (tmp_path / "python3").write_text("#!/bin/sh\nexec sleep 1000\n")
    (tmp_path / "python3").chmod(0o755)
    found = values(ask(tmp_path / "python3", tmp_path, seconds=2, alive_limit=1))
    assert found["python.ending"] == "timed-out"
    assert (found["torch.version"], found["torch.import"]) == ("unknown", "unknown")
    assert set(found) == set(FACTS)


def test_the_active_environment_comes_before_path(tmp_path, monkeypatch):
    python = make_venv(tmp_path / "venv")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "venv"))
    assert find_target(LiveMachine()) == str(python)


@posix
def test_without_any_python_it_is_absent_and_all_else_unknown_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    machine = LiveMachine()
    assert find_target(machine) == ""
    said = probe_target(machine, "").said
    assert {one.name for one in said} == set(FACTS)
    assert {one.name: one.state for one in said if one.state != "unknown"} == {"python.path": "absent"}
    assert all(one.reason for one in said)


def test_a_machine_kept_as_a_folder_runs_only_a_named_python_with_its_variables(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    (root / ".environment.json").write_text('{"CUDA_VISIBLE_DEVICES": "-1"}')
    machine = RootMachine(root)
    assert find_target(machine) == ""
    assert "another machine" in probe_target(machine, "").said[0].reason
    source = "import os\n" + attributes().replace("return True", "return os.environ['CUDA_VISIBLE_DEVICES'] != '-1'")
    python = make_target(tmp_path / "venv", source)
    said = probe_target(machine, find_target(machine, python), cwd=str(tmp_path)).said
    assert values(said)["torch.cuda_available"] is False


@pytest.mark.parametrize(
    ("visible", "index", "subject"),
    [(None, 1, "gpu:1"), ("3,1", 0, "gpu:3"), ("3, 1", 1, "gpu:1"), ("GPU-abc", 0, "gpu:0"), ("2", 5, "gpu:5")],
)
def test_a_gpu_keeps_the_number_of_the_driver_under_cuda_visible_devices(visible, index, subject):
    assert gpu_subject(index, {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}) == subject


def test_a_recorded_target_says_what_the_live_one_said(tmp_path):
    python = make_target(tmp_path / "venv")
    limits = {"seconds": 20, "alive_limit": 10, "cwd": str(tmp_path)}
    runs = {
        name: run_script(LiveMachine(), python, script, **limits)._asdict()
        for name, script in (("inspection", "inspect_environment.py"), ("import", "import_torch.py"))
    }
    recorded = list(claims_of_recording(runs, {}))
    live = [one for one in ask(python, tmp_path) if one[0] not in ("python.others_with_torch", *LIBRARIES)]
    assert recorded == live
    assert recorded_run({"events": ["rubbish"]}).events == ()


def test_a_real_torch_tells_of_itself(tmp_path):
    python = os.environ.get("TROUBLESHOOTER_TORCH_PYTHON")
    if not python:
        pytest.skip("TROUBLESHOOTER_TORCH_PYTHON names no interpreter with a real torch")
    found = values(ask(python, tmp_path, seconds=120, alive_limit=30))
    assert found["torch.import"] == "ok"
    assert found["torch.build"] in ("cpu", "cuda", "rocm", "xpu")

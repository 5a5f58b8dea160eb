"""The whole package and the target scripts in real Windows interpreters, under wine."""

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_torch import attributes, install, version_file
from wine import VERSIONS, Wine, build, lay_driver, needs_mingw, path_of

from troubleshooter.collector import collector_source
from troubleshooter.model import Claim
from troubleshooter.probes import PROBES, observe_machine
from troubleshooter.recording import RecordedMachine, RecordingMachine

pytestmark = [
    pytest.mark.wine,
    pytest.mark.skipif(not shutil.which("wine"), reason="wine is not installed"),
]

DISPLAY_CLASS = "HKLM\\SYSTEM\\CurrentControlSet\\Control\\Class\\{4d36e968-e325-11ce-bfc1-08002be10318}\\0001"

# As torch/__init__.py loads the DLLs of its lib folder.
LOADS_ITS_DLLS = """
import ctypes, glob, os
kernel32 = ctypes.WinDLL("kernel32.dll", use_last_error=True)
kernel32.LoadLibraryExW.restype = ctypes.c_void_p
for dll in sorted(glob.glob(os.path.join(os.path.dirname(__file__), "lib", "*.dll"))):
    if kernel32.LoadLibraryExW(dll, None, 0x00001100) is None:
        error = ctypes.WinError(ctypes.get_last_error())
        error.strerror += ' Error loading "%s" or one of its dependencies.' % dll
        raise error
"""
GREET = "__declspec(dllexport) int greet(void) { return 42; }\n"


@pytest.fixture(scope="module")
def wine(tmp_path_factory) -> Iterator[Wine]:
    made = Wine(tmp_path_factory.mktemp("wine"))
    yield made
    made.end()


def lay_torch(python: Path, source: str = "", version: str = "2.5.1+cu124", cuda: str | None = "12.4") -> Path:
    """A fake torch beside this python.exe; its folder."""
    site = python.parent / "Lib" / "site-packages"
    text = source or attributes()
    install(site, "torch", version, {"torch/__init__.py": text, "torch/version.py": version_file(version, cuda)})
    return site / "torch"


def values(report: dict) -> dict:
    assert "facts" in report, report
    return {fact["name"]: fact["value"] for fact in report["facts"] if fact["state"] == "present"}


def steps(events: list[dict]) -> dict[str, dict]:
    return {event["step"]: event for event in events if event["event"] == "after"}


# --- the scripts in the target


@pytest.mark.parametrize("version", VERSIONS)
def test_a_windows_python_is_inspected_and_imports_torch(version: str, wine: Wine, tmp_path: Path) -> None:
    python = wine.python(version, tmp_path / "portable")
    lay_torch(python)
    seen = steps(wine.script(python, "inspect_environment.py", cwd=tmp_path))
    assert {step: event["outcome"] for step, event in seen.items()} == {
        "interpreter": "ok",
        "packages": "ok",
        "torch": "ok",
    }
    facts = seen["interpreter"]["value"]
    assert facts["version"].startswith(version)
    assert (facts["platform"], facts["bits"], facts["environment"]) == ("win32", 64, "embedded")
    assert [(one["name"], one["version"]) for one in seen["packages"]["value"]["packages"]] == [
        ("torch", "2.5.1+cu124")
    ]
    assert not seen["torch"]["value"]["outside_roots"]
    asked = steps(wine.script(python, "import_torch.py", cwd=tmp_path))
    assert asked["import-torch"]["outcome"] == "ok"
    assert asked["is-available"]["value"] == {"available": True}
    tested = steps(wine.script(python, "gpu_tests.py", "quick", "torch.init", cwd=tmp_path))
    assert tested["test"]["outcome"] == "passed"


def test_the_collector_takes_the_registry_that_the_probes_ask_for(wine: Wine, tmp_path: Path) -> None:
    script, answers = tmp_path / "collect.py", tmp_path / "answers.json"
    script.write_text(collector_source(), encoding="ascii")
    wine.add_to_registry(DISPLAY_CLASS, "DriverVersion", "REG_SZ", "32.0.15.6094")
    try:
        done = wine.run([str(wine.doctor()), str(script), "-o", str(answers)], cwd=tmp_path, timeout=180)
    finally:
        wine.run(["reg", "delete", DISPLAY_CLASS, "/f"])
    assert done.returncode == 0, done.stdout + done.stderr
    recorded = json.loads(answers.read_text(encoding="utf-8"))
    assert recorded["registry"][DISPLAY_CLASS]["values"]["DriverVersion"] == "32.0.15.6094"
    asked = RecordingMachine(RecordedMachine(recorded))
    found = {one.name: one.value for one in observe_machine(asked) if isinstance(one, Claim) and one.state == "present"}
    assert found["windows.code_page"] > 0
    asked_for = set(asked.recording([])["registry"])
    assert asked_for
    assert asked_for <= set(recorded["registry"]), "add these to target/collect.py"


# --- running programs


def test_a_program_that_hangs_is_ended_with_what_it_has_started(wine: Wine, tmp_path: Path) -> None:
    beat = tmp_path / "beat"
    grandchild = f"import time\nwhile True:\n open({path_of(beat)!r}, 'a').write('x'); time.sleep(0.1)"
    child = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {grandchild!r}]); time.sleep(600)"
    told = wine.ask(
        "from troubleshooter.machine import LiveMachine\n"
        f"answer = LiveMachine().run([sys.executable, '-c', {child!r}], 4)\n"
        "say([answer.ending, answer.seconds])\n",
        cwd=tmp_path,
    )
    assert told[0] == "timed-out"
    assert told[1] < 10
    assert beat.exists(), "the grandchild never ran"
    before = beat.stat().st_size
    time.sleep(1)
    assert beat.stat().st_size == before, "the grandchild lives on"


def test_a_job_holds_a_program_and_its_figures_have_the_layout_of_windows(wine: Wine, tmp_path: Path) -> None:
    # wine fills no accounting in (its answer is an error), so what is shown here is that a silent program is "hung".
    told = wine.ask(
        "import ctypes, subprocess, time\n"
        "from troubleshooter import windows_job\n"
        "from troubleshooter.machine import LiveMachine\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "job = windows_job.Job.around(child)\n"
        "job.end()\n"
        "code = child.wait(10)\n"
        "silent = LiveMachine().run([sys.executable, '-c', 'import time; time.sleep(60)'], 30, alive_limit=1)\n"
        "say([ctypes.sizeof(windows_job._Limits), ctypes.sizeof(windows_job._Accounting), code, silent.ending])\n",
        cwd=tmp_path,
    )
    assert told == [144, 96, 1, "hung"]


def test_endings_and_bytes_of_windows_programs_are_values(wine: Wine, tmp_path: Path) -> None:
    told = wine.ask(
        "from troubleshooter.machine import LiveMachine\n"
        "machine = LiveMachine()\n"
        "def run(*argv):\n"
        "    answer = machine.run(argv, 20, b'said\\n')\n"
        "    return [answer.ending, answer.code, answer.signal, answer.text.strip()]\n"
        "raise_it = 'import ctypes; ctypes.windll.kernel32.RaiseException(0xC000001D, 1, 0, None)'\n"
        "say([run('cmd', '/d', '/c', 'exit 3'), run(sys.executable, '-c', 'print(input())'),\n"
        "     run('no-such-program'), run(sys.executable, '-c', raise_it)[:3], machine.which('CMD') != ''])\n",
        cwd=tmp_path,
    )
    assert told[0] == ["failed", 3, "", ""]
    assert told[1] == ["ok", 0, "", "said"]
    assert told[2][0] == "missing"
    assert told[3][0] in ("crashed", "failed")
    assert told[4] is True


def test_the_registry_answers_with_types_and_says_what_is_missing(wine: Wine) -> None:
    key = "HKLM\\SOFTWARE\\TroubleshooterTest"
    for name, kind, value in (
        ("text", "REG_SZ", "名字"),
        ("path", "REG_EXPAND_SZ", "%SystemRoot%\\x"),
        ("number", "REG_DWORD", "7"),
        ("list", "REG_MULTI_SZ", "a\\0b"),
        ("bytes", "REG_BINARY", "0aff"),
    ):
        wine.add_to_registry(key, name, kind, value)
    wine.add_to_registry(key + "\\Below", "x", "REG_SZ", "y")
    told = wine.ask(
        "from troubleshooter.machine import LiveMachine\n"
        "from troubleshooter.recording import RecordedMachine, RecordingMachine\n"
        "machine = RecordingMachine(LiveMachine())\n"
        f"paths = [{key!r}, {key + chr(92) + 'None'!r}, 'HKXX' + chr(92) + 'y', 'HKLM' + chr(92) + chr(0)]\n"
        "live = [machine.registry(path) for path in paths]\n"
        "replayed = RecordedMachine(json.loads(json.dumps(machine.recording([]))))\n"
        "say([[one.ending, dict(one.values), one.keys] for one in live] + [[one.registry(paths[0].upper()) == live[0]._replace(path=paths[0].upper()) for one in [replayed]]])\n"
    )
    values = {"text": "名字", "path": "%SystemRoot%\\x", "number": 7, "list": ["a", "b"], "bytes": "0aff"}
    assert told[0] == ["ok", values, ["Below"]]
    assert told[1] == ["missing", {}, []]
    assert told[2] == ["failed", {}, []]
    assert told[3][0] in ("failed", "missing")
    assert told[4] == [True]


@needs_mingw
def test_a_file_states_its_version(wine: Wine, tmp_path: Path) -> None:
    stated = build(tmp_path, "stated.dll", GREET, version="32.0.15.6094")
    silent = build(tmp_path, "silent.dll", GREET)
    told = wine.ask(
        "from troubleshooter.machine import LiveMachine\n"
        "say([LiveMachine().file_version(path)[1:3] for path in "
        f"{[path_of(stated), path_of(silent), path_of(tmp_path / 'none.dll')]!r}])\n"
    )
    assert told == [["ok", "32.0.15.6094"], ["failed", ""], ["missing", ""]]


# --- finding the Python


def found_by(wine: Wine, cwd: Path, env: dict[str, str]) -> str:
    code = (
        "from troubleshooter.machine import LiveMachine\n"
        "from troubleshooter.probes.python_target import find_target\n"
        "say(find_target(LiveMachine()))\n"
    )
    return wine.ask(code, cwd=cwd, env={"WINEPATH": "", **env}).lower()


def test_the_python_of_an_environment_or_portable_folder_is_found(wine: Wine, tmp_path: Path) -> None:
    conda = wine.python("3.10", tmp_path / "conda")
    portable = wine.python("3.12", tmp_path / "ComfyUI_windows_portable" / "python_embeded")
    venv = tmp_path / "venv" / "Scripts"
    venv.mkdir(parents=True)
    for file in conda.parent.iterdir():
        if file.is_file() and file.suffix in (".exe", ".dll", ".zip", ".pyd", "._pth"):
            shutil.copy(file, venv)
    top = portable.parent.parent
    (top / "ComfyUI").mkdir()
    assert found_by(wine, tmp_path, {}) == ""
    assert found_by(wine, tmp_path, {"CONDA_PREFIX": path_of(conda.parent)}) == path_of(conda).lower()
    assert found_by(wine, tmp_path, {"VIRTUAL_ENV": path_of(tmp_path / "venv")}) == path_of(venv / "python.exe").lower()
    assert found_by(wine, top, {}) == path_of(portable).lower()
    assert found_by(wine, top / "ComfyUI", {}) == path_of(portable).lower()
    assert found_by(wine, tmp_path, {"WINEPATH": path_of(conda.parent)}) == path_of(conda).lower()


def test_the_interpreter_behind_a_launcher_or_batch_file_is_found(wine: Wine, tmp_path: Path) -> None:
    real = wine.python("3.11", tmp_path / "real")
    shims = tmp_path / "shims"
    shims.mkdir()
    (shims / "python.bat").write_text(f'@"{path_of(real)}" %*\r\n')
    assert found_by(wine, tmp_path, {"WINEPATH": path_of(shims)}) == path_of(real).lower()


LAUNCHER = """
#include <stdio.h>
#include <string.h>
#include <windows.h>
int main(void) {
  char line[8000];
  const char *rest = GetCommandLineA();
  DWORD code = 1;
  STARTUPINFOA start = {sizeof start};
  PROCESS_INFORMATION child;
  rest += *rest == '"' ? strcspn(rest + 1, "\\"") + 2 : strcspn(rest, " ");
  snprintf(line, sizeof line, "\\"%s\\"%s", REAL, rest);
  if (!CreateProcessA(NULL, line, NULL, NULL, TRUE, 0, NULL, NULL, &start, &child)) return 103;
  WaitForSingleObject(child.hProcess, INFINITE);
  GetExitCodeProcess(child.hProcess, &code);
  return code;
}
"""


@needs_mingw
def test_the_interpreter_behind_py_is_found(wine: Wine, tmp_path: Path) -> None:
    real = wine.python("3.9", tmp_path / "real")
    text = path_of(real).replace("\\", "\\\\")
    build(tmp_path / "Windows", "py.exe", f'#define REAL "{text}"\n{LAUNCHER}')
    assert found_by(wine, tmp_path, {"WINEPATH": path_of(tmp_path / "Windows")}) == path_of(real).lower()


STUB = """
#include <stdio.h>
int main(void) {
  fputs("Python was not found; run without arguments to install from the Microsoft Store.", stderr);
  return 9009;
}
"""


@needs_mingw
def test_the_placeholder_of_the_store_is_no_python(wine: Wine, tmp_path: Path) -> None:
    apps = tmp_path / "Microsoft" / "WindowsApps"
    build(apps, "python.exe", STUB)
    report = wine.diagnose("--no-confirm", cwd=tmp_path, env={"WINEPATH": path_of(apps)})
    assert values(report)["windows.store_stub"].lower() == path_of(apps / "python.exe").lower()
    assert report["diagnoses"][0]["id"] == "wrong-python-environment"
    assert report["verdict"] == "problem"


# --- the whole way


def test_a_bare_windows_is_looked_at_without_a_fault(wine: Wine, tmp_path: Path) -> None:
    report = wine.diagnose("--no-confirm", cwd=tmp_path)
    told = values(report)
    assert told["os.family"] == "windows"
    assert told["os.release"].startswith("Windows 10 (10.0.")
    assert told["windows.code_page"] == 1252
    assert told["driver.installed"] is False
    assert [fact for fact in report["unknown"] if "the probe broke" in fact["reason"]] == []
    # A Windows without nvidia-smi has probably no NVIDIA GPU; nothing else may be blamed.
    assert {one["id"] for one in report["diagnoses"] if one["confidence"] >= 0.5} <= {"no-nvidia-gpu"}


@needs_mingw
def test_a_healthy_windows_is_healthy(wine: Wine, tmp_path: Path) -> None:
    python = wine.python("3.12", tmp_path / "portable")
    lay_torch(python)
    for name, kind, value in (
        ("DriverDesc", "REG_SZ", "NVIDIA GeForce RTX 3090"),
        ("ProviderName", "REG_SZ", "NVIDIA"),
        ("DriverVersion", "REG_SZ", "32.0.15.6094"),
        ("MatchingDeviceId", "REG_SZ", "pci\\ven_10de&dev_2204"),
    ):
        wine.add_to_registry(DISPLAY_CLASS, name, kind, value)
    libraries = lay_driver(wine.system32)
    try:
        report = wine.diagnose("--python", str(python), cwd=tmp_path)
    finally:
        for library in libraries:
            library.unlink()
        wine.run(["reg", "delete", DISPLAY_CLASS, "/f"])
    told = values(report)
    assert told["driver.version"] == told["driver.library_version"] == "560.94"
    assert told["pci.nvidia_devices"] == ["10de:2204 NVIDIA GeForce RTX 3090"]
    assert (told["torch.build"], told["torch.cuda_available"], told["python.environment"]) == ("cuda", True, "embedded")
    assert ("torch.init", "passed") in [(one["test"], one["outcome"]) for one in report["tests"]], report["tests"]
    assert [(one["id"], one["confidence"]) for one in report["diagnoses"] if one["confidence"] >= 0.5] == []
    assert report["verdict"] == "healthy"


@needs_mingw
@pytest.mark.skipif("libcuda" not in {probe.NAME for probe in PROBES}, reason="no probe asks the driver's libraries")
def test_the_drivers_libraries_are_asked_in_processes_of_their_own(wine: Wine, tmp_path: Path) -> None:
    libraries = lay_driver(wine.system32)
    try:
        well = values(wine.diagnose("--no-confirm", cwd=tmp_path))
        ill = values(wine.diagnose("--no-confirm", cwd=tmp_path, env={"FAKE_CUINIT": "100"}))
    finally:
        for library in libraries:
            library.unlink()
    assert (well["libcuda.ending"], well["cuda.init_code"], well["driver.version"]) == ("ok", 0, "560.94")
    assert (well["gpu.name"], well["gpu.capability"]) == ("NVIDIA GeForce RTX 3090", "8.6")
    assert (ill["libcuda.ending"], ill["cuda.init_code"]) == ("failed", 100)
    bare = values(wine.diagnose("--no-confirm", cwd=tmp_path))
    assert bare["libcuda.ending"] == "not-loaded"


def test_a_cpu_build_is_named(wine: Wine, tmp_path: Path) -> None:
    python = wine.python("3.11", tmp_path / "portable")
    lay_torch(python, attributes(available=False), version="2.5.1+cpu", cuda=None)
    wine.add_to_registry(DISPLAY_CLASS, "DriverDesc", "REG_SZ", "NVIDIA GeForce RTX 3090")
    wine.add_to_registry(DISPLAY_CLASS, "ProviderName", "REG_SZ", "NVIDIA")
    wine.add_to_registry(DISPLAY_CLASS, "MatchingDeviceId", "REG_SZ", "pci\\ven_10de&dev_2204")
    try:
        report = wine.diagnose("--python", str(python), cwd=tmp_path)
    finally:
        wine.run(["reg", "delete", DISPLAY_CLASS, "/f"])
    assert report["diagnoses"][0]["id"] == "torch-cpu-build"
    step = next(step for remedy in report["diagnoses"][0]["remedies"] for step in remedy["steps"])
    assert step["shell"] in ("powershell", "")


@needs_mingw
def test_a_dll_that_lacks_another_is_named_with_the_number_of_the_error(wine: Wine, tmp_path: Path) -> None:
    python = wine.python("3.10", tmp_path / "portable")
    library = lay_torch(python, LOADS_ITS_DLLS) / "lib"
    build(tmp_path / "elsewhere", "libomp140.x86_64.dll", GREET)
    build(
        library, "fbgemm.dll", "int greet(void);\n__declspec(dllexport) int there(void) { return greet(); }\n",
        f"-L{tmp_path / 'elsewhere'}", "-l:libomp140.x86_64.dll",
    )  # fmt: skip
    report = wine.diagnose("--python", str(python), cwd=tmp_path)
    told = values(report)
    assert told["torch.import"] == "failed"
    assert "[WinError 126]" in told["torch.import_error"]
    assert "fbgemm.dll" in told["torch.import_error"]
    assert report["diagnoses"][0]["id"] == "msvc-runtime-missing"
    shutil.copy(tmp_path / "elsewhere" / "libomp140.x86_64.dll", wine.system32)
    try:
        assert values(wine.diagnose("--python", str(python), "--no-confirm", cwd=tmp_path))["torch.import"] == "ok"
    finally:
        (wine.system32 / "libomp140.x86_64.dll").unlink()


@needs_mingw
def test_a_dll_that_crashes_takes_the_target_with_it_and_not_us(wine: Wine, tmp_path: Path) -> None:
    python = wine.python("3.13", tmp_path / "portable")
    library = (
        lay_torch(
            python,
            "import ctypes, os\nctypes.CDLL(os.path.join(os.path.dirname(__file__), 'lib', 'c10.dll')).crash()\n",
        )
        / "lib"
    )
    # ctypes turns an access violation into an exception, but not a stop that no handler may see.
    source = "#include <windows.h>\n__declspec(dllexport) void crash(void) { TerminateProcess(GetCurrentProcess(), 0xC0000005); }\n"
    build(library, "c10.dll", source)
    report = wine.diagnose("--python", str(python), cwd=tmp_path)
    told = values(report)
    assert (told["torch.import"], told["torch.import_signal"]) == ("crashed", "0xC0000005")

"""Which DLL Windows would take: trees of small DLLs, read here as a recording of a Windows machine."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from build_libraries import MINGW, dll

from troubleshooter.libraries import Library, Taken, read_library, read_symbols
from troubleshooter.libraries.windows import Process, Surroundings
from troubleshooter.model import PRESENT, Claim
from troubleshooter.probes import libraries
from troubleshooter.recording import RecordedMachine

WITH_MINGW = pytest.mark.skipif(MINGW is None, reason="there is no mingw to build DLLs")

TORCH = "py/Lib/site-packages/torch"


class Windows:
    """A folder that stands for drive C:."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environment = {
            "SystemRoot": r"C:\Windows",
            "PATH": r"C:\Windows\System32;C:\Windows",
            "CONDA_PREFIX": r"C:\py",
        }
        for folder in ("Windows/System32", "py", f"{TORCH}/lib"):
            (root / folder).mkdir(parents=True)

    def dll(self, path: str, **parts: object) -> Path:
        return dll(self.root / path, **parts)  # type: ignore[arg-type]

    def machine(self) -> RecordedMachine:
        listings: dict[str, object] = {}
        found: dict[str, object] = {}
        for folder in [self.root, *(one for one in self.root.rglob("*") if one.is_dir())]:
            listings[self.path(folder)] = sorted(one.name for one in folder.iterdir())
        for path in self.root.rglob("*.*"):
            if path.suffix.lower() in (".dll", ".pyd", ".exe"):
                library, symbols = (read(self.path(path), str(path)) for read in (read_library, read_symbols))
                found[self.path(path)] = {
                    **{key: value for key, value in library._asdict().items() if key != "path"},
                    "wanted": symbols.wanted,
                    "defined": sorted(symbols.defined),
                }
        for folder in ("py/Library/bin", "Program Files/NVIDIA Corporation/NvToolsExt/bin/x64"):
            listings.setdefault(self.path(self.root / folder), {"ending": "missing"})
        for folder in (*self.environment["PATH"].split(";"), *self._toolkits()):
            listings.setdefault(folder, {"ending": "missing"})
        files = {self.path(one): one.read_text() for one in self.root.rglob("version.py")}
        data = {
            "platform": "win32",
            "environment": self.environment,
            "listings": listings,
            "libraries": found,
            "files": files,
        }
        return RecordedMachine(json.loads(json.dumps(data)))

    def path(self, path: Path) -> str:
        inside = path.relative_to(self.root).as_posix()
        return "C:\\" + ("" if inside == "." else inside.replace("/", "\\"))

    def _toolkits(self) -> list[str]:
        return [rf"C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v{one}\bin" for one in ("11.7", "12.1")]


@pytest.fixture
def windows(tmp_path: Path) -> Windows:
    return Windows(tmp_path / "c")


def told(windows: Windows, name: str = "") -> dict[str, object]:
    subject = f"library:{name}" if name else "host"
    return {
        one.name: one.value if one.state == PRESENT else one.state
        for one in libraries.probe(windows.machine())
        if isinstance(one, Claim) and one.subject == subject
    }


def whole(windows: Windows) -> None:
    windows.dll(f"{TORCH}/lib/cublasLt64_12.dll", defines=["cublasLtCreate"])
    windows.dll(
        f"{TORCH}/lib/cublas64_12.dll", defines=["cublasCreate"], uses={"cublasLt64_12.dll": ["cublasLtCreate"]}
    )
    windows.dll(
        f"{TORCH}/lib/c10.dll", defines=["c10"], uses={"VCRUNTIME140_1.dll": ["frame"], "KERNEL32.dll": ["Sleep"]}
    )
    needs = {"c10.dll": ["c10"], "cublas64_12.dll": ["cublasCreate"]}
    windows.dll(f"{TORCH}/lib/torch.dll", defines=["torch"], uses=needs)
    windows.dll(
        f"{TORCH}/_C.cp311-win_amd64.pyd", uses={"torch.dll": ["torch"], "api-ms-win-crt-heap-l1-1-0.dll": ["m"]}
    )
    windows.dll("Windows/System32/VCRUNTIME140_1.dll", defines=["frame"])
    windows.dll("Windows/System32/kernel32.dll", defines=["Sleep"])


@WITH_MINGW
def test_a_torch_of_windows_that_fits_together_has_no_trouble(windows):
    whole(windows)
    found = told(windows)
    assert found["libraries.troubled"] == "absent"
    assert found["libraries.followed"] == 7


@WITH_MINGW
def test_a_missing_visual_cpp_runtime_is_named_with_who_needs_it(windows):
    whole(windows)
    (windows.root / "Windows/System32/VCRUNTIME140_1.dll").unlink()
    found = told(windows, "VCRUNTIME140_1.dll")
    assert (found["library.missing"], found["library.missing_later"]) == (True, False)
    assert found["library.needed_by"] == r"C:\py\Lib\site-packages\torch\lib\c10.dll"
    assert found["library.family"] == "VCRUNTIME140_1"


@WITH_MINGW
def test_a_missing_libomp140_is_named_with_fbgemm_that_needs_it(windows):
    whole(windows)
    windows.dll(f"{TORCH}/lib/fbgemm.dll", uses={"libomp140.x86_64.dll": ["omp_get_num_threads"]})
    found = told(windows, "libomp140.x86_64.dll")
    assert found["library.missing"] is True
    assert found["library.needed_by"].endswith(r"\torch\lib\fbgemm.dll")
    windows.dll("Windows/System32/libomp140.x86_64.dll", defines=["omp_get_num_threads"])
    assert told(windows)["libraries.troubled"] == "absent"


@WITH_MINGW
def test_a_dll_on_path_is_only_taken_where_the_other_folders_have_none(windows):
    whole(windows)
    windows.environment["PATH"] += r";C:\cuda\bin"
    windows.dll("cuda/bin/cublasLt64_12.dll", defines=["other"])
    assert told(windows)["libraries.troubled"] == "absent"
    # One missing DLL, and torch tries again along PATH, where the other cuBLASLt comes before nothing of its own.
    shutil.move(windows.root / TORCH / "lib/cublasLt64_12.dll", windows.root / "elsewhere.dll")
    found = told(windows, "cublasLt64_12.dll")
    assert (found["library.missing"], found["library.own_file"]) == (False, "absent")
    assert found["library.missing_symbol"] == "cublasLtCreate"
    assert found["library.lacking_file"] == r"C:\cuda\bin\cublasLt64_12.dll"
    assert found["library.needed_by"].endswith(r"\torch\lib\cublas64_12.dll")


@WITH_MINGW
def test_a_cuda_dll_beside_python_exe_shadows_torchs_own_in_the_second_try(windows):
    whole(windows)
    windows.dll("py/cublasLt64_12.dll", defines=["other"])
    windows.dll(f"{TORCH}/lib/a_first.dll", uses={"cublas64_12.dll": ["cublasCreate"], "onpath.dll": ["it"]})
    windows.environment["PATH"] += r";C:\tools"
    windows.dll("tools/onpath.dll", defines=["it"])
    found = told(windows, "cublasLt64_12.dll")
    assert found["library.shadowed_by"] == r"C:\py\cublasLt64_12.dll"
    assert found["library.shadow_variable"] == "the folder of python.exe"
    assert found["library.missing_symbol"] == "cublasLtCreate"


@WITH_MINGW
def test_a_build_without_cuda_libraries_takes_those_of_its_toolkit(windows):
    windows.dll(f"{TORCH}/lib/torch_cuda.dll", uses={"cudart64_12.dll": ["cudaMalloc"]})
    (windows.root / TORCH / "version.py").write_text("cuda = '12.1'\n")
    windows.dll("Program Files/NVIDIA GPU Computing Toolkit/CUDA/v12.1/bin/cudart64_12.dll", defines=["cudaMalloc"])
    assert told(windows)["libraries.troubled"] == "absent"
    windows.environment["CUDA_PATH_V12_1"] = r"C:\old"
    windows.dll("old/bin/cudart64_12.dll", defines=["cudaFree"])
    found = told(windows, "cudart64_12.dll")
    assert found["library.lacking_file"] == r"C:\old\bin\cudart64_12.dll"


@WITH_MINGW
def test_a_zlib_for_another_processor_is_taken_and_named(windows):
    whole(windows)
    windows.dll(f"{TORCH}/lib/cudnn_cnn64_8.dll", uses={"zlibwapi.dll": ["deflate"]})
    other = windows.dll("Windows/System32/zlibwapi.dll", defines=["deflate"])
    data = bytearray(other.read_bytes())
    machine = data.index(b"PE\0\0") + 4
    data[machine : machine + 2] = (0xAA64).to_bytes(2, "little")
    other.write_bytes(data)
    found = told(windows, "zlibwapi.dll")
    assert found["library.damaged_file"] == r"C:\Windows\System32\zlibwapi.dll"
    assert found["library.damage"] == "it is made for another kind of processor"


@WITH_MINGW
def test_names_are_alike_in_any_case(windows):
    whole(windows)
    lower = windows.root / "Windows/System32/VCRUNTIME140_1.dll"
    lower.rename(lower.with_name("vcruntime140_1.DLL"))
    assert told(windows)["libraries.troubled"] == "absent"


@WITH_MINGW
def test_a_system_folder_that_nobody_saw_leaves_the_answer_open(windows):
    whole(windows)
    shutil.rmtree(windows.root / "Windows")
    windows.environment["PATH"] = ""
    found = told(windows)
    assert found["libraries.troubled"] == "unknown"


@WITH_MINGW
def test_a_dll_cut_at_any_length_is_a_value(windows, tmp_path):
    path = windows.dll("x.dll", defines=["one", "two"], uses={"kernel32.dll": ["Sleep"]})
    whole_dll = read_library(r"C:\x.dll", str(path))
    assert (whole_dll.needed, whole_dll.machine, whole_dll.bits) == (("kernel32.dll",), "0x8664", 64)
    assert read_symbols(r"C:\x.dll", str(path)).defined >= {"one", "two"}
    data = path.read_bytes()
    for length in [*range(0, 600, 13), *range(600, len(data), 487)]:
        cut = tmp_path / "cut.dll"
        cut.write_bytes(data[:length])
        assert isinstance(read_library("x", str(cut)), Library)
        read_symbols("x", str(cut))
    cut.write_bytes(data[: len(data) // 2])
    assert read_library("x", str(cut)).reason == "the file is cut short"


class MadeFiles:
    """A file system of names and what they need."""

    def __init__(self, files: Mapping[str, tuple[str, ...]]) -> None:
        self.files = {path.lower(): needed for path, needed in files.items()}

    def find(self, folder: str, name: str) -> str | None:
        path = f"{folder}\\{name}".lower()
        return path if path in self.files else ""

    def list(self, folder: str) -> tuple[str, ...]:
        return ()

    def library(self, path: str) -> Library:
        return Library(path, "ok", format="pe", machine="0x8664", bits=64, needed=self.files[path.lower()])

    def symbols(self, path: str):
        raise AssertionError(path)

    def real(self, path: str) -> str:
        return path.lower()


def test_the_folder_of_the_dll_comes_first_and_path_last_and_only_in_the_second_try():
    around = Surroundings(r"c:\py", r"c:\sys", r"c:\win", ((r"c:\added", "VARIABLE"),), (r"c:\onpath",))
    own, beside, added, system, path = (rf"c:\{one}\x.dll" for one in ("own", "py", "added", "sys", "onpath"))

    def taken(*files: str) -> Taken:
        made = MadeFiles({r"c:\own\top.dll": ("X.dll",), **dict.fromkeys(files, ())})
        return Process(made, around).open(r"c:\own\top.dll")[0]

    everywhere = [own, beside, added, system, path]
    assert [taken(*everywhere[start:]).path for start in range(5)] == everywhere
    assert [taken(*everywhere[start:]).how for start in range(5)] == [
        "own-folder",
        "application",
        "added",
        "system",
        "search-path",
    ]
    assert taken().how == "missing"
    assert taken(added).entry == r"c:\added (VARIABLE)"


def test_what_windows_always_takes_from_its_own_folder_cannot_be_shadowed():
    around = Surroundings(r"c:\py", r"c:\sys", r"c:\win")
    made = MadeFiles(
        {
            r"c:\own\top.dll": ("KERNEL32.dll", "api-ms-win-crt-x.dll"),
            r"c:\own\kernel32.dll": (),
            r"c:\sys\kernel32.dll": (),
        }
    )
    taken = Process(made, around).open(r"c:\own\top.dll")
    assert [one.how for one in taken] == ["system", "built-in"]
    assert taken[0].path == r"c:\sys\kernel32.dll"


def test_a_dll_that_is_loaded_is_taken_whatever_the_folders_hold():
    around = Surroundings(r"c:\py", r"c:\sys", r"c:\win")
    made = MadeFiles(
        {
            r"c:\a\one.dll": ("shared.dll",),
            r"c:\a\shared.dll": (),
            r"c:\b\two.dll": ("SHARED.dll",),
            r"c:\b\shared.dll": (),
        }
    )
    process = Process(made, around)
    process.open(r"c:\a\one.dll")
    assert process.open(r"c:\b\two.dll")[0].path == r"c:\a\shared.dll"


# --- against the loader of wine

LOADER = r"""
#include <windows.h>
#include <stdio.h>
#include <psapi.h>
/* loader.exe [+FOLDER]… DLL…: loads them as torch does; what came of each, and at the end what is in the process. */
int wmain(int count, wchar_t **given) {
    static wchar_t path[60000], longer[65000];
    for (int i = 1; i < count; i++) {
        if (given[i][0] == L'+') { AddDllDirectory(given[i] + 1); continue; }
        HMODULE module = LoadLibraryExW(given[i], NULL, 0x1100);
        DWORD error = module ? 0 : GetLastError();
        if (!module && error == ERROR_MOD_NOT_FOUND) {
            longer[0] = 0;
            for (int j = 1; j < count; j++)
                if (given[j][0] == L'+') { wcscat(longer, given[j] + 1); wcscat(longer, L";"); }
            GetEnvironmentVariableW(L"PATH", path, 60000);
            wcscat(longer, path);
            SetEnvironmentVariableW(L"PATH", longer);
            module = LoadLibraryW(given[i]);
            error = module ? 0 : GetLastError();
            SetEnvironmentVariableW(L"PATH", path);
        }
        wprintf(L"result %lu %ls\n", error, given[i]);
    }
    HMODULE modules[1024];
    DWORD size = 0;
    EnumProcessModules(GetCurrentProcess(), modules, sizeof modules, &size);
    for (DWORD i = 0; i < size / sizeof *modules; i++)
        if (GetModuleFileNameW(modules[i], path, 60000)) wprintf(L"loaded %ls\n", path);
    return 0;
}
"""


class DriveZ:
    """Files of this system as programs under wine see them."""

    def __init__(self, prefix: Path) -> None:
        self.prefix = prefix

    def real(self, path: str) -> str:
        return path.lower()

    def here(self, path: str) -> Path:
        inside = path[3:].replace("\\", "/")
        return Path("/", inside) if path[0].lower() == "z" else self.prefix / "drive_c" / inside

    def list(self, folder: str) -> tuple[str, ...]:
        here = self.here(folder)
        return tuple(sorted(one.name for one in here.iterdir())) if here.is_dir() else ()

    def find(self, folder: str, name: str) -> str | None:
        return next((f"{folder}\\{one}" for one in self.list(folder) if one.lower() == name.lower()), "")

    def library(self, path: str) -> Library:
        return read_library(path, str(self.here(path)))

    def symbols(self, path: str):
        return read_symbols(path, str(self.here(path)))


@pytest.fixture(scope="module")
def wine_prefix(tmp_path_factory):
    prefix = tmp_path_factory.mktemp("wine")
    variables = {"WINEPREFIX": str(prefix), "WINEDEBUG": "-all", "WINEDLLOVERRIDES": "mscoree,mshtml=;winedbg.exe=d"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WINE") and name != "DISPLAY"}
    run = {"env": {**kept, **variables}, "stdin": subprocess.DEVNULL, "capture_output": True, "timeout": 180}
    subprocess.run(["wineboot", "-i"], check=True, **run)
    yield prefix, run
    subprocess.run(["wineserver", "-k"], check=False, **run)


@pytest.mark.wine
@pytest.mark.skipif(MINGW is None, reason="there is no mingw to build DLLs")
@pytest.mark.skipif(shutil.which("wine") is None, reason="there is no wine")
@pytest.mark.parametrize("case", ["whole", "on-path", "application", "second-try", "added", "loaded", "missing"])
def test_what_we_say_is_what_the_loader_of_wine_does(case, wine_prefix, tmp_path):
    prefix, run = wine_prefix
    top = tmp_path / "tree"
    program = top / "py/python.exe"
    program.parent.mkdir(parents=True)
    (top / "loader.c").write_text(LOADER)
    subprocess.run([str(MINGW), "-municode", "-o", str(program), str(top / "loader.c"), "-lpsapi"], check=True)
    lib = top / "torch/lib"
    dll(lib / "made_c.dll", defines=["base"])
    dll(lib / "made_b.dll", defines=["middle"], uses={"made_c.dll": ["base"], "KERNEL32.dll": ["Sleep"]})
    asked = {"made_b.dll": ["middle"], "made_c.dll": ["base"]}
    if case == "on-path":
        dll(top / "tools/made_a.dll", defines=["other"])
        dll(top / "tools/made_c.dll", defines=["base"])
        asked = {"made_a.dll": ["other"], **asked}
    if case == "application":
        dll(top / "py/made_c.dll", defines=["base"])
    if case == "second-try":
        # Wine keeps what it had loaded when another DLL is missing, Windows does not: here there is nothing to keep.
        dll(top / "py/made_c.dll", defines=["base"])
        dll(top / "tools/made_a.dll", defines=["other"], uses={"made_c.dll": ["base"]})
        asked = {"made_a.dll": ["other"]}
    if case == "added":
        dll(top / "added/made_e.dll", defines=["extra"])
        dll(top / "tools/made_e.dll", defines=["extra"])
        asked = {"made_e.dll": ["extra"], **asked}
    if case == "missing":
        dll(lib / "made_x.dll", uses={"made_nowhere.dll": ["nothing"], **asked})
    dll(lib / "made_top.dll", uses=asked)
    if case == "loaded":
        dll(top / "first/made_c.dll", defines=["base"])
    order = [top / "first/made_c.dll"] if case == "loaded" else []
    order += [lib / "made_x.dll"] if case == "missing" else []
    order += [lib / "made_top.dll", lib / "made_b.dll"]

    def as_windows(path: Path) -> str:
        return "Z:" + str(path).replace("/", "\\")

    added = [as_windows(lib), *([as_windows(top / "added")] if case == "added" else [])]
    variables = {**run["env"], "WINEPATH": as_windows(top / "tools")}
    argv = ["wine", str(program), *(f"+{one}" for one in added), *map(as_windows, order)]
    said = subprocess.run(argv, check=True, **{**run, "env": variables}).stdout.decode("utf-8", "replace")
    lines = [line.rstrip("\r").split(" ", 1) for line in said.splitlines()]
    theirs = {rest.lower() for word, rest in lines if word == "loaded" and "\\tree\\" in rest}
    results = {rest.split(" ", 1)[1].lower(): int(rest.split(" ", 1)[0]) for word, rest in lines if word == "result"}

    around = Surroundings(
        as_windows(program.parent),
        r"C:\windows\system32",
        r"C:\windows",
        tuple((one, "") for one in added),
        (as_windows(top / "tools"), r"C:\windows\system32", r"C:\windows"),
    )
    process = Process(DriveZ(prefix), around, as_windows(program))
    ours = {as_windows(path).lower(): process.open(as_windows(path)) for path in order}
    assert {path.lower() for path in process.loaded if "\\tree\\" in path} == theirs
    for path, taken in ours.items():
        assert (results[path] == 126) == any(one.how == "missing" for one in taken), (path, taken)
    assert sum(results.values()) == (126 if case == "missing" else 0)

"""Which DLL Windows would take: trees of small DLLs, read here as a recording of a Windows machine."""

import json
import shutil
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
    assert found["library.needed_by"] == rf"C:\py\Lib\site-packages\torch\lib\c10.dll"
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

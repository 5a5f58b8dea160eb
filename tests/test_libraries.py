"""What the loader would take, against what it takes: trees built for the purpose, and a real torch where there is one."""

import ctypes
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from build_libraries import GCC, elf, environment

from troubleshooter.libraries import Library, linux, read_library, read_symbols
from troubleshooter.libraries.cache import read_cache, read_ldconfig
from troubleshooter.libraries.forensics import Place, stem
from troubleshooter.machine import LiveMachine, Machine, RootMachine
from troubleshooter.model import PRESENT, Claim, Request
from troubleshooter.pipeline import check
from troubleshooter.probes import libraries
from troubleshooter.recording import RecordedMachine, RecordingMachine

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the loader of Linux is not here")
WITH_GCC = pytest.mark.skipif(
    GCC is None or not sys.platform.startswith("linux"), reason="there is no gcc to build ELF"
)
REAL = os.environ.get("TROUBLESHOOTER_TORCH_PYTHON", "")
WITH_TORCH = pytest.mark.skipif(not REAL, reason="TROUBLESHOOTER_TORCH_PYTHON names no interpreter with a real torch")

SITE = "opt/venv/lib/python3.11/site-packages"


class Tree:
    """An environment of torch's shape under a folder, with its own CUDA libraries, and whatever lies outside it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.site = root / SITE
        self.torch = self.site / "torch" / "lib"
        self.variables: dict[str, str] = {}

    def nvidia(self, package: str, name: str, **parts: object) -> Path:
        return elf(self.site / "nvidia" / package / "lib" / name, **parts)  # type: ignore[arg-type]

    def finish(self, needs: Iterable[Path], **module: object) -> None:
        """torch's own files: the list of what it needs from elsewhere, and the module."""
        packages = sorted({path.parent.parent.name for path in (self.site / "nvidia").glob("*/lib")})
        folders = ":".join([*(f"$ORIGIN/../../nvidia/{one}/lib" for one in packages), "$ORIGIN"])
        parts = {"runpath": folders, **module}
        elf(self.torch / "libtorch_global_deps.so", needs=list(needs), runpath=str(parts["runpath"]))
        cuda = elf(self.torch / "libtorch_cuda.so", needs=list(needs), **parts)  # type: ignore[arg-type]
        elf(self.torch.parent / "_C.cpython-311-x86_64-linux-gnu.so", needs=[cuda], runpath="$ORIGIN/lib")

    def machine(self) -> RootMachine:
        (self.root / ".environment.json").write_text(json.dumps(self.variables))
        return RootMachine(self.root)


def told(machine: Machine, name: str = "") -> dict[str, object]:
    """Facts of the library of this name; those of the host without one."""
    subject = f"library:{name}" if name else "host"
    return {
        one.name: one.value if one.state == PRESENT else one.state
        for one in libraries.probe(machine)
        if isinstance(one, Claim) and one.subject == subject
    }


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "root")


# --- trees with one fault each

OLD, NEW = ["__nvJitLinkCreate_12_1"], ["__nvJitLinkCreate_12_1", "__nvJitLinkComplete_12_4"]


def with_cusparse(tree: Tree) -> tuple[Path, Path]:
    version = "libnvJitLink.so.12"
    jit = tree.nvidia("nvjitlink", "libnvJitLink.so.12", versions={version: NEW})
    sparse = tree.nvidia(
        "cusparse",
        "libcusparse.so.12",
        defines=["cusparseCreate"],
        uses=["__nvJitLinkComplete_12_4"],
        needs=[jit],
        runpath="$ORIGIN/../../nvjitlink/lib:$ORIGIN",
    )
    tree.finish([sparse])
    return jit, sparse


@WITH_GCC
def test_an_environment_that_fits_together_has_no_trouble(tree):
    with_cusparse(tree)
    found = told(tree.machine())
    assert found["libraries.troubled"] == "absent"
    assert found["libraries.followed"] == 5


@WITH_GCC
def test_the_nvjitlink_of_a_toolkit_on_the_library_path_is_named_with_the_variable(tree):
    with_cusparse(tree)
    elf(tree.root / "usr/local/cuda-12.1/lib64/libnvJitLink.so.12", versions={"libnvJitLink.so.12": OLD})
    tree.variables["LD_LIBRARY_PATH"] = "/nowhere:/usr/local/cuda-12.1/lib64"
    found = told(tree.machine(), "libnvJitLink.so.12")
    assert found["library.shadowed_by"] == "/usr/local/cuda-12.1/lib64/libnvJitLink.so.12"
    assert found["library.lacking_file"] == "/usr/local/cuda-12.1/lib64/libnvJitLink.so.12"
    assert found["library.missing_symbol"] == "__nvJitLinkComplete_12_4"
    assert found["library.needed_by"] == f"/{SITE}/nvidia/cusparse/lib/libcusparse.so.12"
    assert found["library.shadow_variable"] == "LD_LIBRARY_PATH"
    assert found["library.shadow_folder"] == "/usr/local/cuda-12.1/lib64"
    assert found["library.own_file"] == f"/{SITE}/nvidia/nvjitlink/lib/libnvJitLink.so.12"
    assert found["library.family"] == "nvJitLink"
    assert found["library.missing"] is False


@WITH_GCC
def test_a_package_of_another_version_in_the_environment_itself_is_named(tree):
    jit, _ = with_cusparse(tree)
    jit.unlink()
    elf(jit, versions={"libnvJitLink.so.12": OLD})
    found = told(tree.machine(), "libnvJitLink.so.12")
    assert found["library.lacking_file"] == f"/{SITE}/nvidia/nvjitlink/lib/libnvJitLink.so.12"
    assert found["library.missing_symbol"] == "__nvJitLinkComplete_12_4"
    assert (found["library.shadowed_by"], found["library.shadow_variable"]) == ("absent", "absent")


@WITH_GCC
def test_a_cublaslt_that_is_preloaded_is_named_with_the_variable(tree):
    lt = tree.nvidia("cublas", "libcublasLt.so.11", versions={"libcublasLt.so.11": ["cublasLtHSHMatmulAlgoInit"]})
    blas = tree.nvidia(
        "cublas", "libcublas.so.11", uses=["cublasLtHSHMatmulAlgoInit"], needs=[lt], runpath="$ORIGIN", defines=["x"]
    )
    tree.finish([blas, lt])
    elf(tree.root / "opt/old/libcublasLt.so.11", versions={"libcublasLt.so.11": ["cublasLtCreate"]})
    tree.variables["LD_PRELOAD"] = "/opt/old/libcublasLt.so.11"
    found = told(tree.machine(), "libcublasLt.so.11")
    assert found["library.shadow_variable"] == "LD_PRELOAD"
    assert found["library.shadowed_by"] == "/opt/old/libcublasLt.so.11"
    assert found["library.missing_symbol"] == "cublasLtHSHMatmulAlgoInit"
    assert found["library.needed_by"] == f"/{SITE}/nvidia/cublas/lib/libcublas.so.11"


@WITH_GCC
@pytest.mark.parametrize(("version", "part"), [("8", "libcudnn_cnn_infer.so.8"), ("9", "libcudnn_cnn.so.9")])
def test_a_part_of_cudnn_that_comes_from_elsewhere_is_named_though_nothing_lists_it(tree, version, part):
    head = tree.nvidia("cudnn", f"libcudnn.so.{version}", defines=["cudnnCreate"], runpath="$ORIGIN")
    tree.nvidia("cudnn", part, defines=["cudnnConv"])
    tree.finish([head], uses=["cudnnCreate"])
    elf(tree.root / "usr/lib/cudnn/lib" / part, defines=["cudnnConv"])
    tree.variables["LD_LIBRARY_PATH"] = "/usr/lib/cudnn/lib"
    found = told(tree.machine(), part)
    assert found["library.shadowed_by"] == f"/usr/lib/cudnn/lib/{part}"
    assert found["library.shadow_variable"] == "LD_LIBRARY_PATH"
    assert found["library.needed_by"] == f"/{SITE}/nvidia/cudnn/lib/libcudnn.so.{version}"


@WITH_GCC
def test_a_cudnn_8_where_torch_was_built_for_9_is_missing_by_name(tree):
    wanted = elf(tree.root.parent / "build/libcudnn.so.9", defines=["cudnnCreate"])
    tree.nvidia("cudnn", "libcudnn.so.8", defines=["cudnnCreate"])
    tree.finish([wanted])
    found = told(tree.machine(), "libcudnn.so.9")
    assert found["library.missing"] is True
    assert found["library.needed_by"] == f"/{SITE}/torch/lib/libtorch_global_deps.so"
    assert found["library.own_file"] == "absent"


@WITH_GCC
def test_an_nccl_without_a_symbol_of_torch_is_found_though_nccl_has_no_versions(tree):
    nccl = tree.nvidia("nccl", "libnccl.so.2", defines=["ncclSend"])
    tree.finish([nccl], uses=["ncclCommRegister", "Py_GetVersion", "cudaGetDevice"])
    found = told(tree.machine(), "libnccl.so.2")
    assert found["library.missing_symbol"] == "ncclCommRegister"
    assert found["library.lacking_file"] == f"/{SITE}/nvidia/nccl/lib/libnccl.so.2"
    assert found["library.needed_by"] == f"/{SITE}/torch/lib/libtorch_cuda.so"


@WITH_GCC
def test_condas_library_that_comes_by_the_rpath_of_its_python_is_named_with_that_file(tree):
    # pip's torch in a conda environment: the interpreter's RPATH is inherited by what has no RUNPATH of its own.
    conda = tree.root / "opt/conda"
    tree.site = conda / "lib/python3.11/site-packages"
    tree.torch = tree.site / "torch/lib"
    rt = tree.nvidia("cuda_runtime", "libcudart.so.12", versions={"libcudart.so.12": ["cudaMallocAsync"]})
    tree.finish([rt], runpath="", uses=["cudaMallocAsync"])
    elf(conda / "lib/libcudart.so.12", versions={"libcudart.so.12": ["cudaMalloc"]})
    elf(conda / "bin/python3", rpath="$ORIGIN/../lib")
    tree.variables["CONDA_PREFIX"] = "/opt/conda"
    found = told(tree.machine(), "libcudart.so.12")
    assert found["library.shadowed_by"] == "/opt/conda/lib/libcudart.so.12"
    assert found["library.shadow_variable"] == "RPATH of /opt/conda/bin/python3"
    assert found["library.shadow_folder"] == "$ORIGIN/../lib"
    assert found["library.missing_symbol"] == "cudaMallocAsync"


@WITH_GCC
def test_a_file_that_is_cut_short_is_taken_and_named(tree):
    jit, _ = with_cusparse(tree)
    jit.write_bytes(jit.read_bytes()[:5000])
    found = told(tree.machine(), "libnvJitLink.so.12")
    assert found["library.damaged_file"] == f"/{SITE}/nvidia/nvjitlink/lib/libnvJitLink.so.12"
    assert found["library.damage"] == "the file is cut short"


@WITH_GCC
def test_torch_preloads_what_the_loader_does_not_find(tree):
    # The folders of the headers lead nowhere; torch loads the nvidia packages' files by path, and all is well.
    jit = tree.nvidia("nvjitlink", "libnvJitLink.so.12", defines=["nvJitLinkVersion"])
    tree.finish([jit], runpath="$ORIGIN/nowhere:$ORIGIN")
    assert told(tree.machine())["libraries.troubled"] == "absent"


@WITH_GCC
def test_a_library_path_that_names_the_environments_own_folder_shadows_nothing(tree):
    with_cusparse(tree)
    (tree.root / "shortcut").symlink_to(f"/{SITE}/nvidia/nvjitlink")
    tree.variables["LD_LIBRARY_PATH"] = "/shortcut/lib"
    assert told(tree.machine())["libraries.troubled"] == "absent"


@WITH_GCC
def test_a_file_for_another_processor_is_passed_over(tree):
    jit, _ = with_cusparse(tree)
    other = tree.root / "usr/local/cuda/lib64/libnvJitLink.so.12"
    other.parent.mkdir(parents=True)
    data = bytearray(jit.read_bytes())
    data[18:20] = (0xB7 if data[18] != 0xB7 else 0x3E).to_bytes(2, "little")
    other.write_bytes(data)
    tree.variables["LD_LIBRARY_PATH"] = "/usr/local/cuda/lib64"
    assert told(tree.machine())["libraries.troubled"] == "absent"


@WITH_GCC
def test_a_recording_of_a_tree_says_what_the_tree_said(tree):
    with_cusparse(tree)
    elf(tree.root / "usr/local/cuda-12.1/lib64/libnvJitLink.so.12", versions={"libnvJitLink.so.12": OLD})
    tree.variables["LD_LIBRARY_PATH"] = "/usr/local/cuda-12.1/lib64"
    tree.variables["VIRTUAL_ENV"] = "/opt/venv"
    recording = RecordingMachine(tree.machine())
    live = list(libraries.probe(recording))
    kept = json.loads(json.dumps(recording.recording(["LD_LIBRARY_PATH", "VIRTUAL_ENV"])))
    assert list(libraries.probe(RecordedMachine(kept))) == live
    assert len(live) > 10


def test_where_a_recording_does_not_say_nothing_is_missing():
    site = "/opt/venv/lib/python3.11/site-packages"
    machine = RecordedMachine(
        {
            "environment": {"VIRTUAL_ENV": "/opt/venv"},
            "listings": {
                "/opt/venv/lib": ["python3.11"],
                f"{site}/torch/lib": ["libtorch_global_deps.so"],
                f"{site}/torch": ["lib"],
            },
            "libraries": {
                f"{site}/torch/lib/libtorch_global_deps.so": {
                    "format": "elf", "machine": "EM_X86_64", "needed": ["libcudart.so.12"], "runpath": ["$ORIGIN"],
                },
            },
        }
    )  # fmt: skip
    found = told(machine)
    assert found["libraries.troubled"] == "unknown"


# --- against the loader itself


def files_of(machine: Machine) -> libraries._MachineFiles:
    return libraries._MachineFiles(machine)


def as_ldd_says(path: str, **variables: str) -> dict[str, str]:
    """By name, the file with its links resolved; "" for "not found"."""
    said = subprocess.run(
        ["ldd", path], capture_output=True, text=True, env=environment(**variables), check=False
    ).stdout
    found = {}
    for line in said.splitlines():
        if one := re.match(r"\s+(\S+) => (not found|\S+)", line):
            found[one[1]] = os.path.realpath(one[2]) if "/" in one[2] else ""
    return found


def as_we_say(path: str, **variables: str) -> dict[str, str]:
    machine = LiveMachine()
    machine.environ = environment(**variables)
    process = linux.Process(files_of(machine), libraries.around_linux(machine))
    process.open(path)
    found = {}
    for one in process.taken.values():
        if not one.name.startswith("ld-linux"):  # ldd names the loader itself by its path
            found.setdefault(one.name, os.path.realpath(one.path) if one.path else "")
    return found


@WITH_TORCH
@LINUX
def test_for_every_library_of_a_real_torch_we_say_what_ldd_says(tmp_path):
    code = "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    folder = Path(subprocess.run([REAL, "-c", code], capture_output=True, text=True, check=True).stdout.strip())
    paths = sorted({*folder.glob("lib/*.so*"), *folder.glob("_C*.so"), *folder.glob("../nvidia/*/lib/*.so*")})
    assert len(paths) > 5
    # A second time with another libgomp and libc10 in front.
    for variables in ({}, {"LD_LIBRARY_PATH": f"{tmp_path}::/usr/lib32"}):
        if variables:
            for name in ("libgomp.so.1", "libc10.so"):
                (tmp_path / name).write_bytes((folder / "lib" / name).read_bytes())
        for path in paths:
            ours, theirs = as_we_say(str(path), **variables), as_ldd_says(str(path), **variables)
            assert {name: ours.get(name) for name in theirs} == theirs, path
            assert set(ours) <= set(theirs), path


@WITH_TORCH
@LINUX
def test_the_files_that_a_real_import_loads_are_those_we_name():
    said = subprocess.run(
        [REAL, "-c", "import torch"], capture_output=True, text=True, env=environment(LD_DEBUG="libs"), check=True
    ).stderr
    initialised = {os.path.realpath(one) for one in re.findall(r"calling init: (/\S+)", said)}
    machine = LiveMachine()
    machine.environ = environment()
    code = "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    folder = subprocess.run([REAL, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    place = Place(folder, (os.path.dirname(folder),), REAL)
    findings = libraries.examine_linux(files_of(machine), libraries.around_linux(machine), place)
    ours = {os.path.realpath(one.path) for one in findings.taken if one.path}
    assert findings.troubles == ()
    assert ours <= initialised | {os.path.realpath(one) for one in ours if "/ld-linux" in one}
    in_torch = {one for one in initialised if one.startswith(os.path.realpath(folder) + "/lib/")}
    asked_later = {one for one in in_torch if "libtorch_global_deps" in one}
    assert in_torch - asked_later <= ours


@WITH_GCC
def test_the_loader_itself_stumbles_over_the_symbol_that_we_name(tree):
    jit, sparse = with_cusparse(tree)
    other = elf(tree.root / "cuda/libnvJitLink.so.12", versions={"libnvJitLink.so.12": OLD})
    variables = {"LD_LIBRARY_PATH": str(other.parent)}
    code = f"import ctypes; ctypes.CDLL({str(sparse)!r})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(**variables), check=False
    )
    machine = LiveMachine()
    machine.environ = environment(**variables)
    place = Place(str(tree.torch.parent), (str(tree.site),), sys.executable)
    found = {one.name: one.value for one in libraries.look_at(machine, place) if one.subject.startswith("library:")}
    assert found["library.missing_symbol"] == "__nvJitLinkComplete_12_4"
    assert str(found["library.missing_symbol"]) in done.stderr
    assert str(found["library.lacking_file"]) == str(other)
    assert as_we_say(str(sparse), **variables)["libnvJitLink.so.12"] == str(other)
    assert as_ldd_says(str(sparse), **variables)["libnvJitLink.so.12"] == str(other)
    assert as_we_say(str(sparse))["libnvJitLink.so.12"] == os.path.realpath(jit)


@WITH_GCC
@pytest.mark.parametrize("tag", ["runpath", "rpath"])
def test_rpath_comes_before_the_library_path_and_runpath_after_it(tmp_path, tag):
    own = elf(tmp_path / "own/libinner.so.1", defines=["inner"])
    middle = elf(tmp_path / "own/libmiddle.so.1", defines=["middle"], needs=[own])
    top = elf(tmp_path / "top.so", needs=[middle], **{tag: "$ORIGIN/own"})
    for name in ("libinner.so.1", "libmiddle.so.1"):
        elf(tmp_path / "other" / name, defines=["inner", "middle"])
    # RPATH is inherited by what the library loads; RUNPATH is not, and so inner is found nowhere without a variable.
    for variables in ({}, {"LD_LIBRARY_PATH": str(tmp_path / "other")}, {"LD_LIBRARY_PATH": str(tmp_path / "own")}):
        assert as_we_say(str(top), **variables) == as_ldd_says(str(top), **variables)


@WITH_GCC
def test_a_folder_that_is_named_relatively_counts_from_where_the_program_starts(tmp_path, monkeypatch):
    inner = elf(tmp_path / "here/libinner.so.1", defines=["inner"])
    top = elf(tmp_path / "top.so", needs=[inner])
    monkeypatch.chdir(tmp_path)
    variables = {"LD_LIBRARY_PATH": "here", "PWD": str(tmp_path)}
    assert as_we_say(str(top), **variables) == as_ldd_says(str(top), **variables)


@LINUX
@pytest.mark.skipif(not os.path.exists("/etc/ld.so.cache"), reason="this system has no /etc/ld.so.cache")
def test_the_cache_is_read_as_ldconfig_prints_it():
    ldconfig = next((one for one in ("/sbin/ldconfig", "/usr/sbin/ldconfig") if os.path.exists(one)), "")
    if not ldconfig:
        pytest.skip("there is no ldconfig")
    printed = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=True).stdout
    cache = read_cache(Path("/etc/ld.so.cache").read_bytes())
    assert cache == read_ldconfig(printed)
    assert cache


def test_what_is_no_cache_is_none():
    for data in (b"", b"ld.so-1.7.0\0", b"glibc-ld.so.cache1.1" + b"\xff" * 100, os.urandom(4000)):
        assert read_cache(data) is None


# --- hostile files


@WITH_GCC
def test_a_library_cut_at_any_length_is_a_value_and_takes_no_time(tree, tmp_path):
    _, sparse = with_cusparse(tree)
    data = sparse.read_bytes()
    began = time.monotonic()
    endings = set()
    for length in [*range(0, 400, 7), *range(400, len(data), 997)]:
        path = tmp_path / "cut.so"
        path.write_bytes(data[:length])
        endings.add(read_library(str(path), str(path)).ending)
        read_symbols(str(path), str(path))
    assert endings <= {"failed", "ok"}
    assert read_library("/x", str(tmp_path / "cut.so")).ending in ("failed", "ok")
    assert time.monotonic() - began < 10


@WITH_GCC
def test_a_library_with_any_byte_turned_over_is_a_value_and_takes_no_time(tree, tmp_path):
    _, sparse = with_cusparse(tree)
    data = sparse.read_bytes()
    path = tmp_path / "turned.so"
    slowest = 0.0
    for place in [*range(0, 1024, 5), *range(1024, len(data), 211)]:
        turned = bytearray(data)
        turned[place] ^= 0xFF
        path.write_bytes(turned)
        began = time.monotonic()
        assert isinstance(read_library(str(path), str(path)), Library)
        read_symbols(str(path), str(path))
        slowest = max(slowest, time.monotonic() - began)
    assert slowest < 2


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the file is empty"),
        (b"\x7fELF", "cut short|cannot be read"),
        (b"MZ", "cannot be read"),
        (b"version https://git-lfs.github.com/spec/v1\n", "neither an ELF nor a PE"),
        (b"\x7fELF\x02\x01\x01" + b"\xff" * 200, "cut short|cannot be read|too many"),
    ],
)
def test_what_is_no_library_says_why(tmp_path, data, reason):
    path = tmp_path / "libx.so"
    path.write_bytes(data)
    found = read_library("/on/the/machine/libx.so", str(path))
    assert (found.ending, found.path) == ("failed", "/on/the/machine/libx.so")
    assert re.search(reason, found.reason)


def test_a_folder_a_pipe_and_a_missing_file_are_values(tmp_path):
    assert read_library("/x", str(tmp_path)).ending == "failed"
    assert read_library("/x", str(tmp_path / "no")).ending == "missing"
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        assert read_library("/x", str(tmp_path / "pipe")).ending == "failed"


@LINUX
def test_the_c_library_has_the_versions_that_the_interpreter_asks_for():
    interpreter = read_library(sys.executable, sys.executable)
    assert interpreter.ok
    libc = ctypes.CDLL("libc.so.6")
    libc.gnu_get_libc_version.restype = ctypes.c_char_p
    cache = read_cache(Path("/etc/ld.so.cache").read_bytes()) or {}
    path = next(iter(cache.get("libc.so.6", ())), "")
    if not path:
        pytest.skip("the cache has no libc")
    found = read_library(path, path)
    newest = "GLIBC_" + ".".join(libc.gnu_get_libc_version().decode().split(".")[:2])
    assert found.soname == "libc.so.6"
    assert "GLIBC_2.17" in found.has_versions or newest in found.has_versions
    symbols = read_symbols(path, path)
    assert "malloc" in symbols.defined
    assert "gnu_get_libc_version" in symbols.defined


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("libnvJitLink.so.12", "nvJitLink"),
        ("libcudnn_cnn_infer.so.8", "cudnn_cnn_infer"),
        ("cudnn_ops64_9.dll", "cudnn_ops"),
        ("cublasLt64_12.dll", "cublasLt"),
        ("nvJitLink_120_0.dll", "nvJitLink"),
        ("cudart64_110.dll", "cudart"),
        ("libstdc++.so.6", "stdc++"),
        ("VCRUNTIME140_1.dll", "VCRUNTIME140_1"),
        ("libomp140.x86_64.dll", "omp140.x86_64"),
        ("zlibwapi.dll", "zlibwapi"),
    ],
)
def test_the_family_of_a_library_is_in_its_name(name, family):
    assert stem(name) == family


# --- from the tree to the diagnosis


def nvjitlink_by_variable(tree):
    with_cusparse(tree)
    elf(tree.root / "usr/local/cuda-12.1/lib64/libnvJitLink.so.12", versions={"libnvJitLink.so.12": OLD})
    tree.variables["LD_LIBRARY_PATH"] = "/usr/local/cuda-12.1/lib64"
    return "nvjitlink-mismatch", "LD_LIBRARY_PATH", "/usr/local/cuda-12.1/lib64/libnvJitLink.so.12"


def nvjitlink_by_conda(tree):
    conda = tree.root / "opt/conda"
    tree.site = conda / "lib/python3.11/site-packages"
    tree.torch = tree.site / "torch/lib"
    jit = tree.nvidia("nvjitlink", "libnvJitLink.so.12", versions={"libnvJitLink.so.12": NEW})
    sparse = tree.nvidia("cusparse", "libcusparse.so.12", uses=["__nvJitLinkComplete_12_4"], needs=[jit])
    tree.finish([sparse], runpath="")
    elf(conda / "lib/libnvJitLink.so.12", versions={"libnvJitLink.so.12": OLD})
    elf(conda / "bin/python3", rpath="$ORIGIN/../lib")
    tree.variables["CONDA_PREFIX"] = "/opt/conda"
    return "nvjitlink-mismatch", "RPATH of /opt/conda/bin/python3", "/opt/conda/lib/libnvJitLink.so.12"


def cublas_by_preload(tree):
    lt = tree.nvidia("cublas", "libcublasLt.so.11", versions={"libcublasLt.so.11": ["cublasLtHSHMatmulAlgoInit"]})
    blas = tree.nvidia(
        "cublas", "libcublas.so.11", uses=["cublasLtHSHMatmulAlgoInit"], needs=[lt], runpath="$ORIGIN", defines=["x"]
    )
    tree.finish([blas, lt])
    elf(tree.root / "opt/old/libcublasLt.so.11", versions={"libcublasLt.so.11": ["cublasLtCreate"]})
    tree.variables["LD_PRELOAD"] = "/opt/old/libcublasLt.so.11"
    return "cublas-mismatch", "LD_PRELOAD", "/opt/old/libcublasLt.so.11"


def cudnn_by_variable(tree):
    dnn = tree.nvidia("cudnn", "libcudnn.so.8", versions={"libcudnn.so.8": ["cudnnCreate", "cudnnBackendExecute"]})
    tree.finish([dnn], uses=["cudnnBackendExecute"])
    elf(tree.root / "opt/cudnn/lib/libcudnn.so.8", versions={"libcudnn.so.8": ["cudnnCreate"]})
    tree.variables["LD_LIBRARY_PATH"] = "/opt/cudnn/lib"
    # The variable is the cause, and the mismatch what it brings about.
    return "library-path-pollution", "LD_LIBRARY_PATH", "/opt/cudnn/lib/libcudnn.so.8"


def cudnn_of_another_generation(tree):
    wanted = elf(tree.root.parent / "build/libcudnn.so.9", defines=["cudnnCreate"])
    tree.nvidia("cudnn", "libcudnn.so.8", defines=["cudnnCreate"])
    tree.finish([wanted])
    return "cudnn-missing", "libcudnn.so.9", f"/{SITE}/torch/lib/libtorch_global_deps.so"


def nccl_of_an_older_package(tree):
    nccl = tree.nvidia("nccl", "libnccl.so.2", defines=["ncclSend"])
    tree.finish([nccl], uses=["ncclCommRegister"])
    return "nccl-mismatch", "ncclCommRegister", f"/{SITE}/nvidia/nccl/lib/libnccl.so.2"


def damaged_by_a_broken_download(tree):
    jit, _ = with_cusparse(tree)
    jit.write_bytes(jit.read_bytes()[:5000])
    return "torch-install-broken", "cut short", f"/{SITE}/nvidia/nvjitlink/lib/libnvJitLink.so.12"


@WITH_GCC
@pytest.mark.parametrize(
    "break_it",
    [
        nvjitlink_by_variable,
        nvjitlink_by_conda,
        cublas_by_preload,
        cudnn_by_variable,
        cudnn_of_another_generation,
        nccl_of_an_older_package,
        damaged_by_a_broken_download,
    ],
    ids=lambda one: one.__name__,
)
def test_the_first_diagnosis_names_the_file_and_what_led_to_it(tree, knowledge, break_it):
    first, cause, file = break_it(tree)
    report = check(Request(confirm="no", engine="python"), knowledge, tree.machine())
    assert [(one.id, one.confidence > 0.5) for one in report.diagnoses][:1] == [(first, True)]
    counted = " ".join(one.because for one in report.diagnoses[0].evidence if one.supports)
    assert cause in counted
    assert file in counted

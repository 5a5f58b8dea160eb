"""Import torch step by step and ask it what it sees. It may crash, hang, exit or print at any point.

Steps: import-torch, loaded-libraries, read-version, is-available, device-count, list-archs, cuda-init, then device for each GPU.
With the argument MODE (quick or full) the tests of `gpu_tests.py` follow in the same process, after the line "tests":
importing torch is the longest part of them. Further arguments: the tests for a torch that sees a GPU, those for one that
sees none, and the seconds that they may take in all (0: any).
Imports nothing itself but what is built into the interpreter, as `channel.py` explains.
"""

import os
import sys

TELLING = (
    "c10", "cublas", "cuda", "cudnn", "cufft", "cufile", "cupti", "curand", "cusolver", "cusparse", "gcc_s", "gomp",
    "iomp", "libomp", "mkl", "msvcp", "nccl", "npp", "nvfatbin", "nvidia", "nvjitlink", "nvjpeg", "nvml", "nvperf",
    "nvrtc", "nvshmem", "nvtoolsext", "nvtx", "openblas", "shm", "stdc++", "torch", "vcomp", "vcruntime", "zlibwapi",
)  # fmt: skip
MOST_LIBRARIES = 200


def main(channel, arguments):
    done, _ = channel.step("import-torch", lambda: {"file": text(getattr(load(), "__file__", None))})
    # After a failure too: what was loaded until then may be the cause.
    channel.step("loaded-libraries", lambda: {"files": loaded_libraries(channel)})
    if not done:
        return
    torch = sys.modules["torch"]

    _, version = channel.step("read-version", lambda: read_version(torch))
    _, sees = channel.step("is-available", lambda: {"available": need(channel, torch, "cuda.is_available")() is True})
    _, count = channel.step("device-count", lambda: {"count": int(need(channel, torch, "cuda.device_count")())})
    channel.step("list-archs", lambda: {"archs": list_archs(channel, torch)})
    channel.step("cuda-init", lambda: initialise(channel, torch, version or {}))
    for index in range(min((count or {}).get("count", 0), 64)):
        channel.step("device", lambda index=index: about(channel, torch, index), device=index)
    if arguments:
        channel.border("tests")
        mode, with_a_gpu, without, seconds = arguments
        tests = channel.script("gpu_tests.py")
        asked = with_a_gpu if (sees or {}).get("available") else without
        tests["run_tests"](channel, torch, mode, asked.split(","), (), float(seconds) or None)


def load():
    import torch

    # A torch that removes or replaces itself in sys.modules is whatever the import statement gives.
    sys.modules["torch"] = torch
    return torch


def need(channel, torch, path):
    """The attribute at a dotted path below torch; a torch that lacks it skips the step."""
    found = torch
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise channel.Skipped("this torch has no %s" % path)
    return found


def text(value):
    return None if value is None else str(value)


def loaded_libraries(channel):
    """The files of this process whose names say that they are of CUDA, torch, OpenMP or the C++ runtime."""
    if os.name == "nt":
        paths = loaded_modules(channel.from_stdlib("ctypes"))
    else:
        paths = mapped_files(channel)
    names = [(path.replace("\\", "/").rsplit("/", 1)[-1].lower(), path) for path in paths]
    return [path for name, path in names if any(part in name for part in TELLING)][:MOST_LIBRARIES]


def mapped_files(channel):
    try:
        with open("/proc/self/maps", "rb") as file:
            lines = file.read(1 << 23).splitlines()
    except (IOError, OSError):
        raise channel.Skipped("there is no /proc/self/maps")
    found = {}
    for line in lines:
        path = line[line.find(b"/") :] if b"/" in line else b""
        # A file whose code is mapped is loaded; data files are mapped without the right to execute.
        if path and b"x" in line.split(b" ", 2)[1]:
            found[path.decode("utf-8", "replace")] = True
    return list(found)


def loaded_modules(ctypes):
    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    kernel.GetCurrentProcess.restype = ctypes.c_void_p
    size, handles = ctypes.c_uint32(0), (ctypes.c_void_p * 4096)()
    process = ctypes.c_void_p(kernel.GetCurrentProcess())
    if not kernel.K32EnumProcessModules(process, handles, ctypes.sizeof(handles), ctypes.byref(size)):
        raise OSError(ctypes.get_last_error(), "the process's modules cannot be listed")
    found = []
    for handle in handles[: min(len(handles), size.value // ctypes.sizeof(ctypes.c_void_p))]:
        path = ctypes.create_unicode_buffer(32768)
        if kernel.GetModuleFileNameW(ctypes.c_void_p(handle), path, len(path)):
            found.append(path.value)
    return found


def read_version(torch):
    """Versions as the imported module states them; "stated" lists those it states at all, be it as None."""
    module = getattr(torch, "version", None)
    values = {"version": text(getattr(torch, "__version__", None))}
    stated = []
    for name in ("cuda", "hip", "xpu", "git_version", "debug"):
        if hasattr(module, name):
            stated.append(name)
            values[name] = text(getattr(module, name))
    values["stated"] = stated
    return values


def list_archs(channel, torch):
    listed = [str(arch) for arch in need(channel, torch, "cuda.get_arch_list")()]
    if listed:
        return listed
    # Without a usable GPU the public function gives an empty list; the build knows its list all the same.
    flags = getattr(getattr(torch, "_C", None), "_cuda_getArchFlags", None)
    found = str((flags() if flags else None) or "").split()
    if not found:
        raise channel.Skipped("torch lists no architectures while it sees no GPU")
    return found


def initialise(channel, torch, version):
    if version.get("cuda") is None and version.get("hip") is None and "cuda" in version.get("stated", ()):
        raise channel.Skipped("this build has no CUDA to initialise")
    need(channel, torch, "cuda.init")()
    return {}


def about(channel, torch, index):
    values = {}
    name = getattr(torch.cuda, "get_device_name", None)
    if name:
        values["name"] = str(name(index))
    capability = getattr(torch.cuda, "get_device_capability", None)
    if capability:
        major, minor = capability(index)
        values["capability"] = "%d.%d" % (major, minor)
    # Not its memory: torch counts what a context may use, nvidia-smi what the card has, and the two never agree.
    if not values:
        raise channel.Skipped("this torch says nothing of its devices")
    return values

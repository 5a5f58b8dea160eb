"""Reports on an environment: torch.utils.collect_env and vLLM's form of it, those of MMCV and detectron2, of
Transformers, Accelerate, Lightning, Ultralytics, ComfyUI and SD.Next, and xFormers' remark on what it was built for.

They are lines of a name and a value; what differs is how they are set out. Each line is read by itself, so that one
that is missing, cut off or quoted takes no other with it.
"""

import re
from collections.abc import Callable, Iterator

from ..model import Claim, Source, absent, present
from .lines import Gate, at, lines_of
from .versions_told import (
    NOT_THERE,
    PACKAGES,
    flag,
    os_of_platform,
    package,
    torch_cuda,
    torch_tag,
    torch_version,
    version,
)

# "Is CUDA available: True", "- PyTorch version (GPU?): 2.0.0+cu117 (True)", "  * CUDA_HOME = /usr/local/cuda"
_MARK = re.compile(r"[:=]")
_AROUND = " \t*#|-\u2022`"
# detectron2 sets names and values in two columns.
_COLUMNS = Gate(
    r"^(PyTorch|Python|GPU available|CUDA_HOME|torchvision|sys\.platform|numpy|NVCC|CUDA compiler) {2,}(\S.*)$", "  "
)
_GPU_LINE = Gate(
    r"^[\s*\-]{0,8}(?:GPU models and configuration: *)?GPU ([\d,]{1,40})\s*(?::| "
    r"{2,})\s*(\S.{2,80}?)\s*(?:\(arch=(\d+\.\d)\))?\s*$",
    "GPU ",
)
_LISTED = Gate(r"^\s*\[(pip3?|conda)\]\s+([\w.-]+)(?:==|\s+)(\S+)(?:\s+(\S+))?(?:\s+(\S+))?", "[pip", "[conda")
_BUILT_FOR = Gate(r"(PyTorch|Python)\s+\S+(?: with CUDA (?:\d{3,5}|None))? \(you have ([^()\s]+)\)", "you have")
_BANNERS = (
    # Ultralytics YOLOv8.0.20 🚀 Python-3.9.2 torch-2.0.1+cu118 CUDA:0 (NVIDIA GeForce RTX 3090, 24259MiB)
    Gate(
        r"(?:Python-(?P<python>\d+\.\d+(?:\.\d+)?) )?\btorch[- ](?P<torch>\d+\.\d+[\w.+]*) (?:CPU|CUDA:\d)",
        "torch-",
        "torch ",
    ),
    # Torch 2.1.2+cu118 | Python 3.10.11 on Windows
    Gate(r"\bTorch (?P<torch>\d+\.\d+\.\d+\+(?:cu\d+|cpu|rocm[\d.]+|xpu))", "Torch "),
    Gate(r"\bPyTorch (?P<torch>\d+\.\d+\.\d+(?:\+\w+)?)\b(?! with CUDA)", "PyTorch "),
    Gate(
        r"\bPython (?P<python>\d\.\d{1,2}\.\d+)(?: on (?P<os>Windows|Linux|Darwin)\b|"
        r"[ |]+\(?(?:default|main|tags)| \|Anaconda)",
        "Python ",
    ),
)
_LONGEST_KEY = 50
_CONDITIONS = "<>=~!^"
_OF_TORCH = ("cuda used to build pytorch", "torch version cuda")
_DEVICE = Gate(
    r"\b(?:Device: |CUDA:)(?:cuda:)?(\d{1,2}) ?\(?((?:NVIDIA|GeForce|Tesla|Quadro|"
    r"GRID|TITAN)[^:,()]{2,60}?)(?: :|,|\)|$)",
    "evice",
    "CUDA:",
)
_LOGICAL = Gate(
    r"device: (\d{1,3}), name: ([^,]{3,60}), pci bus id: [^,]{3,20}, compute capability: (\d+\.\d)", "pci bus id"
)


def read_collect_env(text: str, source: Source) -> Iterator[Claim]:
    names: dict[int, str] = {}
    cpu_only = re.search(r"ROCM used to build PyTorch: *\d|\+rocm|\+xpu|XPU available: True", text) is None
    installers: list[str] = []
    for number, line in enumerate(lines_of(text)):
        here = at(source, number)
        if found := _GPU_LINE.match(line):
            for index in found[1].split(","):
                if index.isdigit() and int(index) < 1024 and "UUID" not in line:
                    name = found[2].strip()
                    names[int(index)] = name
                    yield present("gpu.name", name, here, f"gpu:{int(index)}")
                    if found[3]:
                        yield present("gpu.capability", found[3], here, f"gpu:{int(index)}")
            continue
        if found := _LISTED.match(line):
            yield from _listed(found, here, installers)
            continue
        if columns := _COLUMNS.match(line):
            key, value = columns[1], columns[2]
        elif (mark := _MARK.search(line)) and not line.startswith("==", mark.start()):
            key, value = line[: mark.start()].strip(_AROUND), line[mark.end() :].lstrip(":= \t").strip(" \t`|")
        else:
            key = value = ""
        plain = _plain(key) if 0 < len(key) <= _LONGEST_KEY else ""
        # What a package asks for is not what is there: "Python version: >=3.8".
        if plain and value[:1] in _CONDITIONS and value:
            continue
        if plain in _OF_TORCH:
            yield from torch_cuda(value, here, else_cpu=cpu_only)
            continue
        if plain and (reader := _KEYS.get(plain)):
            yield from reader(value, here)
            continue
        yield from _banners(line, here)
    if names and "GPU models and configuration" in text:
        yield present("gpu.count", len(names), source)
    if installers:
        yield present("torch.installers", tuple(dict.fromkeys(installers)), source)


def _plain(key: str) -> str:
    return re.sub(r"[^a-z0-9]+", " ", key.lower()).strip()


def _listed(found: re.Match[str], source: Source, installers: list[str]) -> Iterator[Claim]:
    manager, name, number, build, channel = found.groups()
    from_pip = manager.startswith("pip") or channel == "pypi" or (build or "").startswith("pypi")
    if name.lower() in ("torch", "pytorch"):
        installers.append("pip" if from_pip else "conda")
        if not from_pip and build and (tag := re.match(r"(?:py[\d.]+_)?(cpu|cuda)", build)):
            yield present("torch.build", tag[1], source)
    yield from package(name, number, source)


def _banners(line: str, source: Source) -> Iterator[Claim]:
    for found in _BUILT_FOR.finditer(line):
        if found[1] == "PyTorch":
            yield from torch_version(found[2], source)
        else:
            yield from version("python.version", found[2], source)
    if "you have" in line:
        return
    for pattern in _BANNERS:
        banner = pattern.search(line)
        if not banner:
            continue
        said = banner.groupdict()
        if said.get("torch"):
            yield from torch_version(said["torch"] or "", source)
        if said.get("python"):
            yield present("python.version", str(said["python"]), source)
        if said.get("os"):
            yield from os_of_platform(str(said["os"]), source)
    if device := _DEVICE.search(line) or _LOGICAL.search(line):
        subject = f"gpu:{int(device[1])}"
        yield present("gpu.name", device[2].strip(), source, subject)
        if device.re.groups > 2:
            yield present("gpu.capability", device[3], source, subject)


def _torch(value: str, source: Source) -> Iterator[Claim]:
    if value.lower() in ("n/a", "not installed"):
        yield absent("torch.version", source, "the report says that there is none")
    yield from torch_version(value, source)
    # Transformers: 2.0.0+cu117 (True)
    if found := re.search(r"\((True|False)\)\s*$", value):
        yield from flag("torch.cuda_available", found[1], source)


def _rocm(value: str, source: Source) -> Iterator[Claim]:
    if found := re.match(r"\d+\.\d+[\d.]*", value):
        yield present("torch.hip", found[0], source)
        yield present("torch.build", "rocm", source)


def _python(value: str, source: Source) -> Iterator[Claim]:
    yield from version("python.version", value, source)
    if bits := re.search(r"\((32|64)-bit", value):
        yield present("python.bits", int(bits[1]), source)
    if "Anaconda" in value or "conda-forge" in value:
        yield present("python.environment", "conda", source)


def _os(value: str, source: Source) -> Iterator[Claim]:
    if value.lower() in NOT_THERE:
        return
    yield present("os.release", re.sub(r"\s*\((?:x86_64|aarch64|arm64)\)$", "", value), source)
    if "windows" in value.lower():
        yield present("os.family", "windows", source)
    elif value.lower().startswith("mac"):
        yield present("os.family", "macos", source)


def _driver(value: str, source: Source) -> Iterator[Claim]:
    if found := re.match(r"\d{3}\.\d+(?:\.\d+)?", value):
        yield present("driver.version", found[0], source)
        yield present("driver.branch", found[0].split(".", 1)[0], source)
        yield present("driver.installed", True, source)


def _toolkit(value: str, source: Source) -> Iterator[Claim]:
    if found := re.search(r"(?:release |^V?)(\d+\.\d+)", value):
        yield present("nvcc.version", found[1], source)


def _glibc(value: str, source: Source) -> Iterator[Claim]:
    if found := re.search(r"glibc-?(\d\.\d+)", value):
        yield present("os.glibc", found[1], source)


def _versioned(fact: str) -> Callable[[str, Source], Iterator[Claim]]:
    return lambda value, source: version(fact, value, source)


def _available(value: str, source: Source) -> Iterator[Claim]:
    # Lightning: True (cuda), used: True
    return flag("torch.cuda_available", value.split(" ", maxsplit=1)[0].strip(","), source)


def _variable(name: str) -> Callable[[str, Source], Iterator[Claim]]:
    def read(value: str, source: Source) -> Iterator[Claim]:
        if value and value.lower() not in ("none", "n/a", "not available"):
            yield present(f"env.{name}", value, source)

    return read


def _command_line_torch(value: str, source: Source) -> Iterator[Claim]:
    yield from torch_version(value, source)
    if found := re.search(r"\b(cpu|cu\d{2,3})\b", value):
        yield from torch_tag(found[1], source)


_KEYS: dict[str, Callable[[str, Source], Iterator[Claim]]] = {
    "pytorch version": _torch,
    "pytorch version gpu": _torch,
    "pytorch": _torch,
    "torch": _torch,
    "torch version": _command_line_torch,
    "pytorch version cuda": _torch,
    "rocm used to build pytorch": _rocm,
    "os": _os,
    "libc version": _glibc,
    "python version": _python,
    "python": _python,
    "python platform": os_of_platform,
    "platform": os_of_platform,
    "sys platform": os_of_platform,
    "is cuda available": _available,
    "cuda available": _available,
    "gpu available": _available,
    "torch cuda available": _available,
    "pytorch cuda available": _available,
    "cuda runtime version": _toolkit,
    "nvcc": _toolkit,
    "cuda compiler": _toolkit,
    "nvidia driver version": _driver,
    "driver version": _driver,
    "cuda home": _variable("CUDA_HOME"),
    "vllm version": _versioned("vllm.version"),
    "tensorflow version": _versioned("tensorflow.version"),
    "tensorflow version gpu": _versioned("tensorflow.version"),
    "tf version version": _versioned("tensorflow.version"),
    "numpy version": _versioned("numpy.version"),
    "xformers version": _versioned("xformers.version"),
    **{name.replace("-", " "): _versioned(fact) for name, fact in PACKAGES.items() if name not in ("tf", "pip")},
}

"""What a value printed for a version, a build or a flag states, whoever printed it: shared by the readers of reports,
of answers at a prompt and of lists of packages.
"""

import re
from collections.abc import Iterator

from ..model import Claim, Source, absent, present

_TAG = re.compile(r"\+(cpu|cu\d{2,3}|rocm[\d.]+|xpu)\b")
_VERSION = re.compile(r"\d+(?:\.\d+)+(?:\.?(?:a|b|rc|dev|post)\d+)*(?:\+[\w.]+)?")
NOT_THERE = ("none", "n/a", "not installed", "could not collect", "no", "")

PACKAGES = {
    "torchvision": "torchvision.version",
    "torchaudio": "torchaudio.version",
    "numpy": "numpy.version",
    "triton": "triton.version",
    "pytorch-triton": "triton.version",
    "triton-windows": "triton.version",
    "tensorflow": "tensorflow.version",
    "tensorflow-gpu": "tensorflow.version",
    "tf": "tensorflow.version",
    "vllm": "vllm.version",
    "xformers": "xformers.version",
    "flash-attn": "flash_attn.version",
    "bitsandbytes": "bitsandbytes.version",
    "mkl": "mkl.version",
    "pip": "pip.version",
}
"""Packages whose version is a fact, by their name in a list of packages (lower case, with hyphens)."""


def torch_version(text: str, source: Source) -> Iterator[Claim]:
    """`2.5.1+cu124`, and what its tag tells of the build. A version without a tag tells nothing of it."""
    found = _VERSION.match(text.strip().strip("'\"`"))
    if not found:
        return
    yield present("torch.version", found[0], source)
    if tag := _TAG.search(found[0]):
        yield from torch_tag(tag[1], source)


def torch_tag(tag: str, source: Source) -> Iterator[Claim]:
    yield present("torch.tag", tag, source)
    kind = "cuda" if tag.startswith("cu") else re.sub(r"[\d.]+$", "", tag)
    yield present("torch.build", kind, source)
    digits = tag[2:]
    if kind == "cuda" and digits.isdigit() and len(digits) >= 2:
        yield present("torch.cuda", f"{digits[:-1]}.{digits[-1]}", source)


def torch_cuda(text: str, source: Source, *, else_cpu: bool = False) -> Iterator[Claim]:
    """torch.version.cuda: a version, or None where the build has no CUDA: a build for the CPU, or for another
    vendor's GPUs if the text speaks of those (`else_cpu` says that it does not).
    """
    value = text.strip().strip("'\"`")
    if found := re.match(r"\d+\.\d+", value):
        yield present("torch.cuda", found[0], source)
        yield present("torch.build", "cuda", source)
    elif value.lower() in ("none", "could not collect"):
        yield absent("torch.cuda", source, "torch.version.cuda is None")
        if else_cpu:
            yield present("torch.build", "cpu", source)


def flag(name: str, text: str, source: Source) -> Iterator[Claim]:
    value = text.strip().strip("'\"`.,").lower()
    if value in ("true", "yes", "false", "no"):
        yield present(name, value in ("true", "yes"), source)


def version(name: str, text: str, source: Source) -> Iterator[Claim]:
    if found := _VERSION.search(text):
        yield present(name, found[0], source)


def package(name: str, text: str, source: Source) -> Iterator[Claim]:
    """One line of a list of packages. NVIDIA's own are named by what they hold: nvidia-cudnn-cu12."""
    plain = re.sub(r"[-_.]+", "-", name.lower())
    if plain in ("torch", "pytorch"):
        yield from torch_version(text, source)
    elif fact := PACKAGES.get(plain):
        yield from version(fact, text, source)
    elif plain.startswith("nvidia-cudnn-cu"):
        yield from version("cudnn.version", text, source)
    elif plain.startswith("nvidia-nccl-cu"):
        yield from version("nccl.version", text, source)


def os_of_platform(text: str, source: Source) -> Iterator[Claim]:
    """`Linux-5.15.167.4-microsoft-standard-WSL2-x86_64-with-glibc2.35`, `Windows-10-10.0.22631-SP0`, `macOS-14.5`."""
    value = text.strip()
    low = value.lower()
    if low.startswith("linux"):
        wsl = "microsoft" in low
        yield present("os.family", "wsl" if wsl else "linux", source)
        if wsl:
            yield present("wsl.version", 2 if "wsl2" in low or "standard" in low else 1, source)
        if kernel := re.match(
            r"linux[- ](?:\S+ )?(\d+\.\d+\S*?)(?:-(?:x86_64|aarch64|arm64|ppc64le|with)\b|[ ]|$)", low
        ):
            yield present("os.kernel", kernel[1], source)
    elif low.startswith(("windows", "microsoft windows", "win32")):
        yield present("os.family", "windows", source)
    elif low.startswith(("macos", "darwin", "mac os")):
        yield present("os.family", "macos", source)
    if machine := re.search(r"\b(x86_64|aarch64|arm64|amd64|ppc64le)\b", value, re.IGNORECASE):
        yield present("os.architecture", machine[1], source)
    if glibc := re.search(r"glibc-?(\d\.\d+)", low):
        yield present("os.glibc", glibc[1], source)


def cudnn_number(text: str) -> str:
    """torch.backends.cudnn.version(): 8902 is 8.9.2, 90100 is 9.1.0."""
    if not re.fullmatch(r"\d{4,6}", text):
        return ""
    number = int(text)
    if number >= 90000:
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    return f"{number // 1000}.{number // 100 % 10}.{number % 100}"

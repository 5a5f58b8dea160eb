"""`--set NAME=VALUE`: what a person says of the machine. Free text is understood as far as it goes."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from ..model import HOST, Claim, FactSpec, Source, absent, present, unknown
from ..versions import order

_VERSION = re.compile(r"\d+(?:\.\d+)+[\w.+]*|\d{2,4}\b")
_TORCH = re.compile(
    r"(\d+\.\d+(?:\.\d+)?(?:\.?(?:dev|a|b|rc)\d+)?)(?:[+ (-]*(cpu|cu\d{2,3}|rocm[\d.]*|xpu)\b)?", re.IGNORECASE
)
_NOT_THERE = re.compile(r"(?i)\s*(none|no|not installed|absent|missing|n/?a|-)\s*")
# "2x RTX 3090", "RTX 3090 x2"; the X of "RTX 4060" and "MX150" counts nothing.
_COUNT = re.compile(r"^\s*(\d{1,4})\s*[x×*]\s*|(?<=[\s)])[x×*]\s*(\d{1,4})\s*$", re.IGNORECASE)
_GPU_WORD = re.compile(
    r"(?i)\b(rtx|gtx|geforce|tesla|quadro|titan|nvidia|orin|xavier|[agvplhbtk]\d{1,4}[a-z]{0,3}|gb?h?\d{2,3}|mx\d{3}|k\d{1,4}m?|\d{3,4}(?:\s?ti)?)\b"
)
_MOST_GPUS = 1024
_FAMILIES = ("linux", "windows", "wsl", "macos")


def read_hints(
    hints: Iterable[tuple[str, str]], catalogue: Mapping[str, FactSpec]
) -> tuple[tuple[Claim, ...], tuple[str, ...]]:
    """Claims, and a remark for every hint that was not understood. `NAME=` is absent, `NAME=?` unknown."""
    claims: list[Claim] = []
    remarks: list[str] = []
    for name, value in hints:
        source = Source("set", "set", f"{name}={value}")
        found = list(_one(name.strip(), value.strip(), catalogue, source))
        if not found:
            remarks.append(f"--set {name}={value} was not understood and is left out")
        claims += found
    return tuple(claims), tuple(remarks)


def _one(name: str, value: str, catalogue: Mapping[str, FactSpec], source: Source) -> Iterator[Claim]:
    if short := SHORT.get(name):
        yield from short(value, source)
        return
    fact, _, subject = name.partition("@")
    spec = catalogue.get(fact)
    if spec is None:
        return
    subject = subject or (HOST if spec.subject == HOST else f"{spec.subject}:0")
    if value in ("", "?"):
        yield absent(fact, source, subject=subject) if value == "" else unknown(fact, "set by hand", source, subject)
    elif spec.type == "flag":
        if value.lower() in ("true", "yes", "1", "false", "no", "0"):
            yield present(fact, value.lower() in ("true", "yes", "1"), source, subject)
    elif spec.type in ("texts", "versions"):
        yield present(fact, tuple(part.strip() for part in value.split(",")), source, subject)
    elif (spec.type != "version" or order(value)) and (not spec.one_of or value in spec.one_of):
        yield present(fact, value, source, subject)


def _state(fact: str, value: str, source: Source) -> Claim | None:
    if value == "?":
        return unknown(fact, "set by hand", source)
    return absent(fact, source) if not value or _NOT_THERE.fullmatch(value) else None


def _version(fact: str) -> Callable[[str, Source], Iterator[Claim]]:
    def read(value: str, source: Source) -> Iterator[Claim]:
        if state := _state(fact, value, source):
            yield state
        elif found := _VERSION.search(value):
            yield present(fact, found[0].rstrip("."), source)

    return read


def _os(value: str, source: Source) -> Iterator[Claim]:
    family = value.lower()
    if family == "container":
        yield present("os.family", "linux", source)
        yield present("container.kind", "container", source)
    elif family in _FAMILIES:
        yield present("os.family", family, source)
        if family == "wsl":
            yield present("wsl.version", 2, source) if "1" not in value else present("wsl.version", 1, source)


def _driver(value: str, source: Source) -> Iterator[Claim]:
    if state := _state("driver.version", value, source):
        yield state
        if value and value != "?":
            yield present("driver.installed", False, source)
        return
    if found := re.search(r"\d{3}(?:\.\d+)*", value):
        yield present("driver.version", found[0], source)
    if "wsl" in value.lower():
        yield present("os.family", "wsl", source)


def _torch(value: str, source: Source) -> Iterator[Claim]:
    if state := _state("torch.version", value, source):
        yield state
        return
    found = _TORCH.search(value)
    tag = (found[2] or "").lower() if found else ""
    if not tag and (said := re.search(r"(?i)\b(cpu|cu\d{3}|rocm[\d.]*|xpu)\b", value)):
        tag = said[1].lower()
    if found:
        yield present("torch.version", f"{found[1]}+{tag}" if tag else found[1], source)
    if tag:
        yield present("torch.tag", tag, source)


def _gpu(value: str, source: Source) -> Iterator[Claim]:
    """`2x RTX 3090`, `RTX 3090, GTX 1080`, `A100 80GB`."""
    if value == "?":
        return
    if not value or _NOT_THERE.fullmatch(value):
        yield present("gpu.count", 0, source)
        return
    names: list[str] = []
    for part in re.split(r"[,;+/]|\band\b", re.sub(r"\([^()]*\)", " ", value)):
        counted = _COUNT.search(part)
        count = int(counted[1] or counted[2]) if counted else 1
        name = _COUNT.sub(" ", part).strip()
        if name and _GPU_WORD.search(name):
            names += [name] * min(count, _MOST_GPUS)
    for index, name in enumerate(names[:_MOST_GPUS]):
        yield present("gpu.name", name, source, f"gpu:{index}")
    if names:
        yield present("gpu.count", len(names), source)


def _text(fact: str) -> Callable[[str, Source], Iterator[Claim]]:
    def read(value: str, source: Source) -> Iterator[Claim]:
        yield _state(fact, value, source) or present(fact, value, source)

    return read


SHORT: dict[str, Callable[[str, Source], Iterator[Claim]]] = {
    "os": _os,
    "gpu": _gpu,
    "driver": _driver,
    "driver_cuda": _version("driver.cuda_version"),
    "torch": _torch,
    "torch_cuda": _version("torch.cuda"),
    "python": _version("python.version"),
    "nvcc": _version("nvcc.version"),
    "cudnn": _version("cudnn.version"),
    "nccl": _version("nccl.version"),
    "glibc": _version("os.glibc"),
    "os_release": _text("os.release"),
    "tensorflow": _version("tensorflow.version"),
    "vllm": _version("vllm.version"),
}

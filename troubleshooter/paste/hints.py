"""`--set NAME=VALUE`: what a person says of the machine. Free text is understood as far as it goes."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from ..model import HOST, Claim, FactSpec, Source, absent, present, unknown
from ..outputs.versions_told import cudnn_number
from ..versions import order

_VERSION = re.compile(r"\d+(?:\.\d+)+[\w.+]*|\d{2,4}\b")
_TORCH = re.compile(
    r"(\d+\.\d+(?:\.\d+)?(?:\.?(?:dev|a|b|rc)\d+)?)(?:[+ (-]*(cpu|cu\d{2,3}|rocm[\d.]*|xpu)\b)?", re.IGNORECASE
)
_NOT_THERE = re.compile(
    r"(?i)\s*(?:none|no|not (?:installed|found|there|available|set)|absent|missing|n/?a|nothing|uninstalled|-)\s*"
)
# "2x RTX 3090", "RTX 3090 x 4", "4 x A100": the sign stands apart from letters, for GTX 1080 is no thousand cards.
_COUNT = re.compile(r"^\s*(\d{1,4})\s?[x×*](?![a-z])\s*|(?<![a-z])\s+[x×*]\s?(\d{1,4})\s*$", re.IGNORECASE)
_COUNT_WORD = re.compile(r"(?i)^\s*(two|dual|three|four|eight|single|one|2|3|4|8)\s+(?=[a-z]{1,12}\s?-?\w*\d)")
_WORDS = {"two": 2, "dual": 2, "three": 3, "four": 4, "eight": 8, "single": 1, "one": 1}
_GPU_WORD = re.compile(
    r"(?i)\b(?:rtx|gtx|gt|geforce|tesla|quadro|titan|nvidia|grid|jetson|orin|xavier|thor|dgx|[agvplhbtk]\d{1,4}[a-z]{0,3}|"
    r"gb?h?\d{2,3}|mx\s?\d{3}|k\d{1,4}m?|[1-5]0\d0(?:\s?ti)?(?:\s?super)?)\b|\b[gr]tx\d{3,4}"
)
_OTHER_VENDORS = (
    ("AMD", re.compile(r"(?ai)\b(?:amd|radeon|rx\s?\d{3,4}|vega|instinct|mi\d{2,3}x?|firepro|zluda|rocm)\b")),
    ("Intel", re.compile(r"(?ai)\b(?:intel|uhd|iris|arc)\b")),
    ("Apple", re.compile(r"(?i)\b(?:apple|m[1-5](?:\s?(?:pro|max|ultra))?)\b")),
)
_MEMORY = re.compile(r"(?i)[\s-]*\b(\d{1,3})\s?(?:gib|gb|g)\b(?:\s?(?:vram|memory))?")
_GENERATION = re.compile(r"(?i)\b(kepler|maxwell|pascal|volta|turing|ampere|ada|hopper|blackwell)\b")
_MOST_GPUS = 1024
_DISTRIBUTIONS = re.compile(
    r"(?i)\b(?:ubuntu|debian|fedora|centos|rhel|red ?hat|rocky|alma(?:linux)?|arch|manjaro|mint|pop!?_?os|suse|"
    r"gentoo|nixos|"
    r"kali|amazon linux|linux|unraid|proxmox)\b"
)


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


def _version(fact: str, read_number: Callable[[str], str] = str) -> Callable[[str, Source], Iterator[Claim]]:
    """`read_number` makes a version of a number that is written in another way."""

    def read(value: str, source: Source) -> Iterator[Claim]:
        if state := _state(fact, value, source):
            yield state
            return
        version = read_number(value)
        if found := _VERSION.search(version) or re.search(r"\b\d{1,4}\b", version):
            yield present(fact, found[0].rstrip("."), source)

    return read


def _of_cuda(value: str) -> str:
    """11.8 out of `V11.8.89`, `cu118`, `CUDA 11.8`, `release 11.8, V11.8.89`."""
    if tag := re.search(r"(?i)\bcu(\d{2,3})\b", value):
        return f"{tag[1][:-1]}.{tag[1][-1]}"
    found = re.search(r"(\d{1,2}\.\d{1,2})", value)
    return found[1] if found else value


def _of_cudnn(value: str) -> str:
    """torch.backends.cudnn.version() is a number: 8902 is 8.9.2, 90100 is 9.1.0."""
    found = re.search(r"\b\d{4,6}\b", value)
    return cudnn_number(found[0]) if found and "." not in value else value.replace("v", " ").replace("V", " ")


def _python(value: str, source: Source) -> Iterator[Claim]:
    if state := _state("python.version", value, source):
        yield state
        return
    if tag := re.search(r"\b(?:cp|py)?(3)(\d{1,2})\b(?!\.|[ -]?bit)", value):
        yield present("python.version", f"3.{tag[2]}", source)
    elif found := re.search(r"\d(?:\.\d+){1,2}", value):
        yield present("python.version", found[0], source)
    if bits := re.search(r"\b(32|64)[ -]?bit", value):
        yield present("python.bits", int(bits[1]), source)
    for word, kind in (("conda", "conda"), ("venv", "venv"), ("embedded", "embedded"), ("system", "system")):
        if word in value.lower():
            yield present("python.environment", kind, source)
            break


def _os(value: str, source: Source) -> Iterator[Claim]:
    """A family, or what people say of their system: `Windows 11`, `WSL2 (Ubuntu)`, `docker on Ubuntu 22.04`."""
    low = value.lower()
    if low in ("?", "unknown"):
        yield unknown("os.family", "set by hand", source)
        return
    if inside := re.search(r"\b(docker|podman|kubernetes|k8s|pod|singularity|apptainer|lxc|container)\b", low):
        yield present("os.family", "linux", source)
        kind = {"k8s": "kubernetes", "pod": "kubernetes", "apptainer": "singularity"}.get(inside[1], inside[1])
        yield present("container.kind", kind, source)
    elif "wsl" in low:
        yield present("os.family", "wsl", source)
        yield present("wsl.version", 1 if re.search(r"wsl ?1\b", low) else 2, source)
    elif re.search(r"\bwin(?:dows|\d{1,2}|32|64)?\b", low):
        yield present("os.family", "windows", source)
    elif re.search(r"\b(?:mac\s?os|mac|os ?x|darwin)", low):
        yield present("os.family", "macos", source)
    elif _DISTRIBUTIONS.search(low):
        yield present("os.family", "linux", source)
    else:
        return
    if re.search(r"\d", value) and not re.fullmatch(r"(?i)wsl ?[12]", value.strip()):
        yield present("os.release", value, source)


def _os_release(value: str, source: Source) -> Iterator[Claim]:
    yield _state("os.release", value, source) or present("os.release", value, source)
    if value and value != "?" and "wsl" in value.lower():
        yield present("os.family", "wsl", source)


def _driver(value: str, source: Source) -> Iterator[Claim]:
    if state := _state("driver.version", value, source):
        yield state
        if value and value != "?":
            yield present("driver.installed", False, source)
        return
    low = value.lower()
    if re.search(r"not loaded|won'?t load|does not load", low):
        yield present("driver.loaded", False, source)
    if found := re.search(r"(?<![\d.])\d{3}\.\d{2,3}(?:\.\d{2})?|(?<![\d.])\d{3}(?![\d.])", value):
        yield present("driver.version", found[0], source)
    if cuda := re.search(r"(?i)cuda[ :=]*(\d{1,2}\.\d)", value):
        yield present("driver.cuda_version", cuda[1], source)
    if flavour := re.search(r"\b(open|proprietary)\b", low):
        yield present("driver.flavour", flavour[1], source)
    if "wsl" in low:
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
    elif cuda := re.search(r"(?i)cuda(?:toolkit)?[ =:-]*(\d{1,2}\.\d)", value):
        yield present("torch.cuda", cuda[1], source)


def _torch_cuda(value: str, source: Source) -> Iterator[Claim]:
    yield from _version("torch.cuda", _of_cuda)(value, source)
    if value.strip().lower() in ("none", "cpu"):
        yield present("torch.build", "cpu", source)


def _gpu(value: str, source: Source) -> Iterator[Claim]:
    """`2x RTX 3090`, `RTX 3090, GTX 1080`, `A100 80GB (MIG)`, `Tesla T4 and A10`, `AMD RX 6700 XT`."""
    if value == "?":
        return
    if not value or _NOT_THERE.fullmatch(value):
        yield present("gpu.count", 0, source)
        return
    names: list[str] = []
    others: list[str] = []
    aside = " ".join(re.findall(r"\(([^()]*)\)", value))
    for part in re.split(r"[,;+&]|\s/\s|\band\b", re.sub(r"\([^()]*\)", " ", value)):
        counted = _COUNT.search(part)
        worded = _COUNT_WORD.match(part)
        count = int(counted[1] or counted[2]) if counted else 1
        if worded and not counted:
            count = _WORDS.get(worded[1].lower(), 0) or int(worded[1])
        text = _COUNT_WORD.sub(" ", _COUNT.sub(" ", part)).strip()
        vendor = next((name for name, pattern in _OTHER_VENDORS if pattern.search(text)), "")
        if vendor:
            others.append(vendor)
        elif text and _GPU_WORD.search(text):
            names += [text] * min(count, _MOST_GPUS)
    if others:
        yield present("pci.other_gpus", tuple(dict.fromkeys(others)), source)
        if not names:
            yield present("gpu.count", 0, source)
            yield present("pci.nvidia_count", 0, source)
    for index, name in enumerate(names[:_MOST_GPUS]):
        yield from _card(name, f"{name} {aside}", source, f"gpu:{index}")
    if names and not re.search(r"(?i)\b(?:second|third|first|one of|other)\b", aside):
        yield present("gpu.count", len(names), source)


def _card(name: str, all_of_it: str, source: Source, subject: str) -> Iterator[Claim]:
    memory = _MEMORY.search(name)
    # "RTX 3090 24GB" says more than the product's name, "V100-PCIE-16GB" is the name.
    plain = name[: memory.start()] if memory and memory.end() == len(name) and "-" not in name else name
    plain = re.sub(r"(?i)\b([gr]tx|gt|mx)\s?(\d{3,4})", r"\1 \2", plain)
    plain = re.sub(
        r"(?i)^(\d)(0\d0)", lambda found: f"{'GTX' if found[1] == '1' else 'RTX'} {found[1]}{found[2]}", plain
    )
    yield present("gpu.name", re.sub(r"(?i)(?<=\d)\s?ti\b", " Ti", plain), source, subject)
    if memory:
        yield present("gpu.memory_mib", int(memory[1]) * 1024, source, subject)
    if generation := _GENERATION.search(all_of_it):
        yield present("gpu.architecture", generation[1].title(), source, subject)
    if re.search(r"\bMIG\b", all_of_it):
        yield present("gpu.mig", True, source, subject)


SHORT: dict[str, Callable[[str, Source], Iterator[Claim]]] = {
    "os": _os,
    "gpu": _gpu,
    "driver": _driver,
    "driver_cuda": _version("driver.cuda_version", _of_cuda),
    "torch": _torch,
    "torch_cuda": _torch_cuda,
    "python": _python,
    "nvcc": _version("nvcc.version", _of_cuda),
    "cudnn": _version("cudnn.version", _of_cudnn),
    "nccl": _version("nccl.version"),
    "glibc": _version("os.glibc"),
    "os_release": _os_release,
    "tensorflow": _version("tensorflow.version"),
    "vllm": _version("vllm.version"),
}

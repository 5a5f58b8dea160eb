"""What went on around an error: work that came to its end, a CPU that was asked for, a build, the first error of a
chain, the processes that were started.
"""

from collections.abc import Iterator

from ..model import Claim, Source, present
from .lines import Gate, at, lines_of

# 100%|██████████| 30/30 [00:05<00:00,  5.41it/s]     (and Keras') 1875/1875 [=====] - 3s 2ms/step
_BAR = Gate(r"(?<!\d)100%\|[^|]{1,200}\|\s*(\d{1,9})/\1\b|(?<![\d/])(\d{2,9})/\2 \[=+\]", "100%|", "] - ")
_TOTALS = Gate(
    r"(?i)\bepoch[ :\[]*(\d{1,6}) ?/ ?\1\b.{0,40}\b(?:done|finished|complete|saved|"
    r"loss|written)|\bPrompt executed in [\d.]+ ?s|\bInit COMPLETE\b|\bTest PASSED\b|"
    r"\bResult = PASS\b",
    "poch",
    "EPOCH",
    "xecuted",
    "COMPLETE",
    "PASS",
)
_ON_GPU = Gate(
    r"device='cuda(?::\d+)?'\)\s*$|\bCreated device /job:\S+ with \d+ MB memory|device_type='GPU'",
    "='cuda",
    "Created device",
    "='GPU",
)
_CPU_ASKED = Gate(
    r"(?:--(?:use-)?device[= ]|(?<!map_location=)\bdevice ?= ?(?:torch\.device\()?[\"'])cpu\b|"
    r"--(?:use-)?cpu(?:-only)?\b|--no-?cuda\b|--skip-torch-cuda-test|-d cpu\b|\bCUDA_VISIBLE_DEVICES=(?:\"\"|"
    r"''|-1)?\s",
    "cpu",
    "-cuda",
    "torch-cuda",
    "CUDA_VISIBLE_DEVICES=",
)
_BUILD = Gate(
    r"\bsetup\.py\b.{0,60}\b(?:install|build\w*|develop|bdist_wheel|egg_info)\b|\bninja: "
    r"|\[\d+/\d+\] (?:\S*nvcc|\S*c\+\+|\S*g\+\+|\S*cl(?:\.exe)?) |"
    r"\bBuilding wheels? for \S+|\bPreparing metadata \(|\bGetting requirements to "
    r"build wheel|\bsubprocess-exited-with-error|"
    r"\brunning build_ext\b|\bCMake Error\b|^make(?:\[\d+\])?: |\bbuilding '[\w.]+' "
    r"extension|\bpython setup\.py|Command errored out with exit status|pip-(?:req-build|"
    r"install)-\w+",
    "setup.py",
    "ninja",
    "] /",
    "] c++",
    "] g++",
    "] nvcc",
    "] cl",
    "building",
    "Building",
    "Preparing metadata",
    "Getting requirements",
    "subprocess-exited",
    "build_ext",
    "CMake",
    "make",
    "Command errored",
    "pip-req",
    "pip-install",
)
_ENDINGS = ("Error", "Exception", "Interrupt", "Exit", "NotFound", "Failed")
_CHAINED = ("The above exception was the direct cause", "During handling of the above exception")


def read_context(text: str, source: Source) -> Iterator[Claim]:
    lines = lines_of(text)
    for fact, pattern in (
        ("text.finished_progress", _BAR),
        ("text.finished_work", _TOTALS),
        ("text.explicit_cpu", _CPU_ASKED),
        ("text.is_build", _BUILD),
        ("text.gpu_was_used", _ON_GPU),
    ):
        if not pattern.near(text):
            continue
        number = next((number for number, line in enumerate(lines) if line and pattern.search(line)), -1)
        if number >= 0:
            yield present(fact, True, at(source, number))
    yield from _errors(lines, source)
    yield from _broken_import_in_build(lines, source)


def _errors(lines: list[str], source: Source) -> Iterator[Claim]:
    """The first exception of a chain is the one that the others came of; the last is what the program ended with."""
    raised = [(number, error) for number, line in enumerate(lines) if ":" in line and (error := _raised(line))]
    if not raised:
        return
    (first, (kind, says)), (last, (last_kind, _)) = raised[0], raised[-1]
    yield present("text.first_error", f"{kind}: {says}"[:300], at(source, first))
    yield present("text.first_error_type", kind.rsplit(".", 1)[-1], at(source, first))
    yield present("text.last_error_type", last_kind.rsplit(".", 1)[-1], at(source, last))
    if any(words in line for line in lines for words in _CHAINED):
        yield present("text.chained_errors", True, source)
    if kind in ("ImportError", "OSError", "ModuleNotFoundError"):
        yield present("text.import_error_root", says[:300], at(source, first))


def _raised(line: str) -> tuple[str, str] | None:
    """(class, message) of the last line of a traceback; pytest sets an E before it."""
    kind, _, says = line.strip().removeprefix("E  ").strip().partition(":")
    if not kind.endswith(_ENDINGS) or not kind.replace(".", "").replace("_", "").isalnum():
        return None
    return (kind, says.strip()) if kind.rsplit(".", 1)[-1][:1].isupper() else None


def _broken_import_in_build(lines: list[str], source: Source) -> Iterator[Claim]:
    """setup.py imports torch, and that is where the build ends: the build itself was never tried."""
    for number, line in enumerate(lines[:-1]):
        if ('setup.py", line ' in line or 'File "<string>", line ' in line) and lines[number + 1].strip().startswith(
            ("import torch", "from torch")
        ):
            yield present("text.build_imports_torch", True, at(source, number))
            return

"""What went on around an error: work that came to its end, a CPU that was asked for, a build, the first error of a
chain, the processes that were started.
"""

import re
from collections.abc import Iterator

from ..model import Claim, Source, present
from .lines import at, lines_of

# 100%|██████████| 30/30 [00:05<00:00,  5.41it/s]     (and Keras') 1875/1875 [=====] - 3s 2ms/step
_BAR = re.compile(r"(?<!\d)100%\|[^|]{1,200}\|\s*(\d{1,9})/\1\b|(?<![\d/])(\d{2,9})/\2 \[=+\]")
_TOTALS = re.compile(
    r"(?i)\bepoch[ :\[]*(\d{1,6}) ?/ ?\1\b.{0,40}\b(?:done|finished|complete|saved|"
    r"loss|written)|\bPrompt executed in [\d.]+ ?s|\bInit COMPLETE\b|\bTest PASSED\b|"
    r"\bResult = PASS\b"
)
_ON_GPU = re.compile(r"device='cuda(?::\d+)?'\)\s*$|\bCreated device /job:\S+ with \d+ MB memory|device_type='GPU'")
_CPU_ASKED = re.compile(
    r"(?:--(?:use-)?device[= ]|(?<!map_location=)\bdevice ?= ?(?:torch\.device\()?[\"'])cpu\b|"
    r"--(?:use-)?cpu(?:-only)?\b|--no-?cuda\b|--skip-torch-cuda-test|-d cpu\b|\bCUDA_VISIBLE_DEVICES=(?:\"\"|"
    r"''|-1)?\s"
)
_BUILD = re.compile(
    r"\bsetup\.py\b.{0,60}\b(?:install|build\w*|develop|bdist_wheel|egg_info)\b|\bninja: "
    r"|\[\d+/\d+\] (?:\S*nvcc|\S*c\+\+|\S*g\+\+|\S*cl(?:\.exe)?) |"
    r"\bBuilding wheels? for \S+|\bPreparing metadata \(|\bGetting requirements to "
    r"build wheel|\bsubprocess-exited-with-error|"
    r"\brunning build_ext\b|\bCMake Error\b|^make(?:\[\d+\])?: |\bbuilding '[\w.]+' "
    r"extension|\bpython setup\.py|Command errored out with exit status|pip-(?:req-build|"
    r"install)-\w+"
)
_RAISED = re.compile(
    r"^(?:E\s{2,})?(?P<error>(?:[A-Za-z_][\w]*\.){0,6}[A-Z]\w*(?:Error|Exception|"
    r"Interrupt|Exit|NotFound|Failed)): ?(?P<says>.*)$"
)
_CHAINED = re.compile(r"The above exception was the direct cause|During handling of the above exception")
_SETUP_IMPORT = re.compile(r"File \"[^\"]*setup\.py\", line \d+|File \"<string>\", line \d+")
_IMPORTS_TORCH = re.compile(r"^\s+(?:import torch\b|from torch\b)")


def read_context(text: str, source: Source) -> Iterator[Claim]:
    lines = lines_of(text)
    for fact, pattern in (
        ("text.finished_progress", _BAR),
        ("text.finished_work", _TOTALS),
        ("text.explicit_cpu", _CPU_ASKED),
        ("text.is_build", _BUILD),
        ("text.gpu_was_used", _ON_GPU),
    ):
        number = next((number for number, line in enumerate(lines) if line and pattern.search(line)), -1)
        if number >= 0:
            yield present(fact, True, at(source, number))
    yield from _errors(lines, source)
    yield from _broken_import_in_build(lines, source)


def _errors(lines: list[str], source: Source) -> Iterator[Claim]:
    """The first exception of a chain is the one that the others came of; the last is what the program ended with."""
    raised = [
        (number, found) for number, line in enumerate(lines) if ":" in line and (found := _RAISED.match(line.strip()))
    ]
    if not raised:
        return
    first, last = raised[0], raised[-1]
    yield present("text.first_error", first[1][0][:300], at(source, first[0]))
    yield present("text.first_error_type", first[1]["error"].rsplit(".", 1)[-1], at(source, first[0]))
    yield present("text.last_error_type", last[1]["error"].rsplit(".", 1)[-1], at(source, last[0]))
    chained = any(_CHAINED.search(line) for line in lines)
    if chained:
        yield present("text.chained_errors", True, source)
    if first[1]["error"] in ("ImportError", "OSError", "ModuleNotFoundError"):
        yield present("text.import_error_root", first[1]["says"][:300], at(source, first[0]))


def _broken_import_in_build(lines: list[str], source: Source) -> Iterator[Claim]:
    """setup.py imports torch, and that is where the build ends: the build itself was never tried."""
    for number, line in enumerate(lines[:-1]):
        if _SETUP_IMPORT.search(line) and _IMPORTS_TORCH.match(lines[number + 1]):
            yield present("text.build_imports_torch", True, at(source, number))
            return

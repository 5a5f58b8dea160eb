"""Messages that name a GPU and its compute capability: torch's on its builds, vLLM's on data types, Lightning's."""

import re
from collections.abc import Iterator

from ..model import Claim, Source, present
from .lines import Gate, at, lines_of
from .versions_told import torch_version

# NVIDIA GeForce RTX 5060 Ti with CUDA capability sm_120 is not compatible with the current PyTorch installation.
_WITH_ARCH = Gate(
    r"(?P<name>(?:NVIDIA |Tesla |GeForce |Quadro |GRID |TITAN )[\w /().-]{2,60}?) "
    r"with CUDA capability sm_(?P<major>\d{1,2})(?P<minor>\d)[af]?\b",
    "capability sm_",
)
# Found GPU0 NVIDIA GB10 which is of cuda capability 12.1.    … which is of compute capability (CC) 6.1.
_FOUND = Gate(
    r"Found GPU ?(?P<index>\d{1,3}) (?P<name>\S.{2,60}?) which is of (?:cuda|compute) "
    r"capability (?:\(CC\) )?(?P<capability>\d{1,2}\.\d)",
    "Found GPU",
)
# Your Quadro P6000 GPU has compute capability 6.1.
_YOUR = Gate(r"Your (?P<name>\S.{2,60}?) GPU has compute capability (?P<capability>\d{1,2}\.\d)", "GPU has compute")
_TENSOR_CORES = Gate(r"You are using a CUDA device \('(?P<name>[^']{3,60})'\) that has Tensor Cores", "Tensor Cores")
_SUPPORTS = Gate(r"supports CUDA capabilities (?P<archs>(?:(?:sm|compute)_\d{2,3}[af]?[ ,.]*){1,40})", "supports CUDA")
_LIST = Gate(r"(?i)arch_?\s?list\b.{0,40}?(?P<archs>\[[^\]]{4,400}\])", "list")
_INSTALLED = Gate(r"Your installed torch==(\S+)", "Your installed")


def read_gpus_named(text: str, source: Source) -> Iterator[Claim]:
    for number, line in enumerate(lines_of(text)):
        here = at(source, number)
        for pattern in (_WITH_ARCH, _FOUND, _YOUR, _TENSOR_CORES):
            if not (found := pattern.search(line)):
                continue
            said = found.groupdict()
            subject = f"gpu:{int(said.get('index') or 0)}"
            yield present("gpu.name", said["name"].strip(), here, subject)
            if "major" in said:
                yield present("gpu.capability", f"{said['major']}.{said['minor']}", here, subject)
            elif "capability" in said:
                yield present("gpu.capability", said["capability"], here, subject)
        for pattern in (_SUPPORTS, _LIST):
            if found := pattern.search(line):
                archs = tuple(re.findall(r"\b(?:sm|compute)_\d{2,3}[af]?\b", found["archs"]))
                if archs:
                    yield present("torch.archs", archs, here)
        if found := _INSTALLED.search(line):
            yield from torch_version(found[1], here)

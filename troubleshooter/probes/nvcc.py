"""The CUDA compiler on PATH."""

from collections.abc import Iterator

from ..machine import Machine
from ..model import Claim, absent, present, unknown
from ..outputs.nvcc import read_nvcc

NAME = "nvcc"
FACTS = ("nvcc.version", "nvcc.path")


def probe(machine: Machine) -> Iterator[Claim]:
    answer = machine.run(["nvcc", "--version"], 10)
    if answer.missing:
        for name in FACTS:
            yield absent(name, answer.source, answer.reason)
        return
    if answer.ending == "unknown":
        for name in FACTS:
            yield unknown(name, answer.reason, answer.source)
        return
    yield present("nvcc.path", answer.program, answer.source)
    if answer.ok:
        yield from read_nvcc(answer.text, answer.source)
    else:
        yield unknown("nvcc.version", f"nvcc --version: {answer.reason}", answer.source)

"""What nvidia-smi says, and how it ended: it may be missing, fail, or hang with the driver."""

from collections.abc import Iterator

from ..machine import Answer, Machine
from ..model import Claim, Source, Transcript, absent, present, unknown
from ..outputs.nvidia_smi import read_nvidia_smi, read_query
from .driver import SMI_PLACES

NAME = "nvidia_smi"
FACTS = (
    "nvidia_smi.ending",
    "driver.version",
    "driver.cuda_version",
    "gpu.count",
    "gpu.name",
    "gpu.capability",
    "gpu.memory_mib",
    "gpu.memory_used_mib",
    "gpu.mig",
    "gpu.compute_mode",
)
SECONDS = 15
"""nvidia-smi takes 0.1 s on a machine with one card, some seconds where eight wake up first."""

# Drivers since 2020 lay it into System32, older ones into a folder that is not on PATH.
_WINDOWS_PLACES = (
    "C:\\Windows\\System32\\nvidia-smi.exe",
    "C:\\Program Files\\NVIDIA Corporation\\NVSMI\\nvidia-smi.exe",
)


def probe(machine: Machine) -> Iterator[Claim | Transcript]:
    program = _program(machine)
    answer = machine.run([program, "-q", "-x"], SECONDS)
    if answer.ending in ("failed", "crashed", "unknown") and not answer.text.lstrip().startswith("<?xml"):
        answer = machine.run([program], SECONDS)
    source = Source("probe", "nvidia-smi", " ".join(("nvidia-smi", *answer.argv[1:])))
    if answer.ending == "unknown":
        yield unknown("nvidia_smi.ending", answer.reason, source)
        return
    ending = "empty" if answer.ok and not answer.text.strip() else answer.ending
    ending = "timed-out" if ending == "hung" else ending
    yield present("nvidia_smi.ending", ending, source)._replace(reason=answer.reason)
    claims = list(read_nvidia_smi(answer.text, source))
    yield from claims
    # Its own words are judged by the signatures: all where it failed or said nothing known, else only the warnings.
    if not answer.ok or not any(claim.name == "driver.version" for claim in claims):
        yield from _transcript(answer.text + "\n" + answer.errors, source)
    else:
        yield from _transcript(answer.errors, source)
    if machine.platform == "darwin" and answer.missing:
        for name in FACTS[1:]:
            yield absent(name, source, "no NVIDIA GPU works under macOS")
    elif not answer.ok:
        stated = {claim.name for claim in claims}
        for name in FACTS[1:]:
            if name not in stated:
                yield unknown(name, f"nvidia-smi does not say: {answer.reason}", source)
    if answer.ok:
        yield from _capabilities(machine, program)


def _program(machine: Machine) -> str:
    """Its name if PATH finds it, else the first of the usual places: services and sudo come with a short PATH."""
    if machine.which("nvidia-smi"):
        return "nvidia-smi"
    places = _WINDOWS_PLACES if machine.platform == "win32" else SMI_PLACES if machine.kind == "live" else ()
    return next((place for place in places if machine.stat(place).ok), "nvidia-smi")


def _capabilities(machine: Machine, program: str) -> Iterator[Claim]:
    """-q has no compute capability; this query knows it since R510."""
    answer: Answer = machine.run([program, "--query-gpu=index,compute_cap", "--format=csv"], SECONDS)
    source = Source("probe", "nvidia-smi", "nvidia-smi --query-gpu=index,compute_cap --format=csv")
    if answer.ok and answer.text.lstrip().startswith("index, compute_cap"):
        yield from (claim for claim in read_query(answer.text.lstrip(), source) if claim.name == "gpu.capability")


def _transcript(text: str, source: Source) -> Iterator[Transcript]:
    if text.strip():
        yield Transcript(text, source)

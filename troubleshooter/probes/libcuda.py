"""Whether CUDA itself can be started: nvidia-smi may be in best health while it cannot."""

from collections.abc import Iterator

from ..machine import OWN, Machine
from ..model import Claim, Source, absent, present, unknown
from ..outputs.libcuda import read_libcuda

NAME = "libcuda"
FACTS = (
    "libcuda.ending",
    "libcuda.path",
    "libcuda.error",
    "libcuda.cuda_version",
    "cuda.init_code",
    "cuda.init_error",
    "cuda.device_count",
)
SECONDS = 25
"""Starting CUDA takes a second with one card, ten and more where eight wake up first."""
PROGRAM = f"{OWN}libcuda"
# The question is what the driver can do; that a variable hides devices is told by the variables themselves.
_UNHIDDEN = {"CUDA_VISIBLE_DEVICES": None}


def probe(machine: Machine) -> Iterator[Claim]:
    source = Source("probe", "process", "cuInit in a process of its own")
    if machine.platform == "darwin":
        for name in FACTS:
            yield absent(name, source, "no NVIDIA GPU works under macOS")
        return
    answer = machine.run([PROGRAM], SECONDS, env=_UNHIDDEN)
    if answer.ending in ("unknown", "missing", "denied"):
        for name in FACTS:
            yield unknown(name, answer.reason, source)
        return
    claims = list(read_libcuda(answer.text, source))
    told = {claim.name: claim.value for claim in claims}
    ending, reason = answer.ending, answer.reason
    if answer.ok and told.get("libcuda.error"):
        ending, reason = "not-loaded", str(told["libcuda.error"])
    elif answer.ok:
        ending = "failed" if told.get("cuda.init_code") else "ok"
    yield present("libcuda.ending", "timed-out" if ending == "hung" else ending, source)._replace(reason=reason)
    yield from claims
    if ending == "not-loaded":
        for name in ("libcuda.cuda_version", "cuda.init_code", "cuda.init_error", "cuda.device_count"):
            yield absent(name, source, "there is no libcuda to ask")

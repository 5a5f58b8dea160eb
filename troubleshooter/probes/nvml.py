"""The driver's management library, asked in a process of its own: the same source as nvidia-smi's, and it says more."""

from collections.abc import Iterator

from ..machine import OWN, Machine
from ..model import Claim, Source, absent, present, unknown
from ..outputs.nvml import read_nvml

NAME = "nvml"
FACTS = (
    "nvml.ending",
    "nvml.code",
    "gpu.processes",
    "gpu.pci_address",
    "gpu.mig_devices",
    "gpu.persistence",
    "gpu.ecc",
    "gpu.ecc_uncorrected",
    "gpu.row_remap_failed",
    "gpu.row_remap_pending",
    "gpu.throttled_by",
    "gpu.pcie_width",
    "gpu.pcie_width_max",
    "gpu.pcie_generation",
    "gpu.pcie_generation_max",
    "gpu.fabric_state",
)
SECONDS = 15
PROGRAM = f"{OWN}nvml"


def probe(machine: Machine) -> Iterator[Claim]:
    source = Source("probe", "nvml", "NVML")
    if machine.platform == "darwin":
        for name in FACTS:
            yield absent(name, source, "no NVIDIA GPU works under macOS")
        return
    answer = machine.run([PROGRAM], SECONDS)
    if answer.ending in ("unknown", "missing", "denied"):
        for name in FACTS:
            yield unknown(name, answer.reason, source)
        return
    claims = list(read_nvml(answer.text, source))
    code = next((claim for claim in claims if claim.name == "nvml.code"), None)
    if not answer.ok:
        yield present("nvml.ending", "timed-out" if answer.ending == "hung" else answer.ending, source)._replace(
            reason=answer.reason
        )
    elif code is None or code.value is None:
        yield present("nvml.ending", "not-loaded", source)._replace(reason=code.reason if code else "it said nothing")
    else:
        yield present("nvml.ending", "failed" if code.value else "ok", source)._replace(reason=code.reason)
    if reason := answer.reason or (code.reason if code and code.value != 0 else ""):
        stated = {claim.name for claim in claims}
        for name in FACTS[2:]:
            if name not in stated:
                yield unknown(name, f"NVML does not say: {reason}", source)
    # What is in use changes from one moment to the next: beside nvidia-smi's figure ours would read as a disagreement.
    heard = machine.which("nvidia-smi")
    yield from (claim for claim in claims if not (heard and claim.name == "gpu.memory_used_mib"))

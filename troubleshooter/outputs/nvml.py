"""What our script `ask_nvml` prints: NVML's return codes and numbers, by the names of the catalogue."""

from collections.abc import Iterator, Mapping
from typing import Any

from ..model import Claim, Source, absent, present, unknown
from ..text import clean
from .json_lines import numbers, read_json_lines

# The names of enumerations in nvml.h, as nvidia-smi prints them.
_COMPUTE_MODES = {0: "Default", 1: "Exclusive_Thread", 2: "Prohibited", 3: "Exclusive_Process"}
_FABRIC_STATES = {0: "not-supported", 1: "not-started", 2: "in-progress", 3: "completed"}
# Without 0x1, an idle card, which holds nothing back.
_THROTTLE_REASONS = (
    (0x2, "application-clocks"),
    (0x4, "power-cap"),
    (0x8, "hardware-slowdown"),
    (0x10, "sync-boost"),
    (0x20, "software-thermal"),
    (0x40, "hardware-thermal"),
    (0x80, "power-brake"),
    (0x100, "display-clocks"),
)
_MIB = 1024 * 1024
_MORE_THAN_ASKED_FOR = 7
_LINK_NUMBERS = ("pcie_width", "pcie_width_max", "pcie_generation", "pcie_generation_max", "ecc_uncorrected")


def read_nvml(text: str, source: Source) -> Iterator[Claim]:
    for answer in read_json_lines(text):
        code, values = answer.get("code"), numbers(answer.get("values"))
        match answer.get("ask"), code:
            case "load", None:
                if error := str(answer.get("error") or ""):
                    yield absent("nvml.code", source, error)
            case "init", int():
                yield present("nvml.code", code, source)._replace(reason=str(answer.get("text", "")))
            case "driver", 0:
                version = clean(str(answer.get("text", "")))
                yield present("driver.version", version, source)
                yield present("driver.branch", version.split(".", 1)[0], source)
            case "cuda", 0 if values:
                yield present("driver.cuda_version", f"{values[0] // 1000}.{values[0] % 1000 // 10}", source)
            case "count", 0 if values:
                yield present("gpu.count", values[0], source)
            case str(), int() if isinstance(answer.get("gpu"), int):
                yield from _about_gpu(answer, code, values, source, f"gpu:{answer['gpu']}")


def _about_gpu(
    answer: Mapping[str, Any], code: int, values: tuple[int, ...], source: Source, gpu: str
) -> Iterator[Claim]:
    ask = answer["ask"]
    if ask == "handle" and code:
        yield unknown("gpu.name", f"NVML gives no access to it: {answer.get('text', '')}", source, gpu)
    elif ask == "processes" and code in (0, _MORE_THAN_ASKED_FOR) and values:
        yield present("gpu.processes", values[0], source, gpu)
    elif code:
        return
    elif ask == "name":
        yield present("gpu.name", clean(str(answer.get("text", ""))), source, gpu)
    elif ask == "pci":
        address = (answer.get("values") or [""])[0]
        yield present("gpu.pci_address", str(address).lower(), source, gpu)
    elif not values:
        return
    elif ask == "capability":
        yield present("gpu.capability", ".".join(map(str, values[:2])), source, gpu)
    elif ask == "memory" and len(values) == 2:
        yield present("gpu.memory_mib", values[0] // _MIB, source, gpu)
        yield present("gpu.memory_used_mib", values[1] // _MIB, source, gpu)
    elif ask == "mig":
        yield present("gpu.mig", values[0] == 1, source, gpu)
    elif ask == "mig_devices":
        yield present("gpu.mig_devices", values[0], source, gpu)
    elif ask == "compute_mode" and values[0] in _COMPUTE_MODES:
        yield present("gpu.compute_mode", _COMPUTE_MODES[values[0]], source, gpu)
    elif ask == "persistence":
        yield present("gpu.persistence", values[0] == 1, source, gpu)
    elif ask == "ecc":
        yield present("gpu.ecc", values[0] == 1, source, gpu)
    elif ask == "remapped_rows" and len(values) == 4:
        yield present("gpu.row_remap_failed", values[3] != 0, source, gpu)
        yield present("gpu.row_remap_pending", values[2] != 0, source, gpu)
    elif ask == "throttle":
        if reasons := tuple(name for bit, name in _THROTTLE_REASONS if values[0] & bit):
            yield present("gpu.throttled_by", reasons, source, gpu)
        else:
            yield absent("gpu.throttled_by", source, "nothing holds its clocks back", gpu)
    elif ask == "fabric" and values[0] in _FABRIC_STATES:
        yield present("gpu.fabric_state", _FABRIC_STATES[values[0]], source, gpu)
    elif ask in _LINK_NUMBERS:
        yield present(f"gpu.{ask}", values[0], source, gpu)

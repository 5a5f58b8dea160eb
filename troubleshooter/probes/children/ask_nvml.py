"""Asks NVML about the driver and every GPU; prints what it answers, one JSON object a line.

Runs in a process of its own, since NVML can hang or die with the driver. The answers are raw: return codes and numbers
as NVML gives them (nvml.h); `outputs/nvml.py` knows what they are called.
"""

import ctypes
import json
import sys
from typing import Any

LIBRARY = "nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1"
LONG = ctypes.c_ulonglong
MOST_GPUS = 64
MOST_MIG_DEVICES = 8


class MemoryV2(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint), ("total", LONG), ("reserved", LONG), ("free", LONG), ("used", LONG)]


class MemoryV1(ctypes.Structure):
    _fields_ = [("total", LONG), ("free", LONG), ("used", LONG)]


class PciInfo(ctypes.Structure):
    _fields_ = [
        ("legacy", ctypes.c_char * 16),
        ("numbers", ctypes.c_uint * 5),
        ("address", ctypes.c_char * 32),
    ]


class FabricInfo(ctypes.Structure):
    _fields_ = [
        ("cluster", ctypes.c_ubyte * 16),
        ("status", ctypes.c_int),
        ("clique", ctypes.c_uint),
        ("state", ctypes.c_ubyte),
    ]


# What is asked of each GPU: our word, NVML's function, how many unsigned numbers it fills.
NUMBERS = (
    ("capability", "nvmlDeviceGetCudaComputeCapability", 2),
    ("mig", "nvmlDeviceGetMigMode", 2),
    ("compute_mode", "nvmlDeviceGetComputeMode", 1),
    ("persistence", "nvmlDeviceGetPersistenceMode", 1),
    ("ecc", "nvmlDeviceGetEccMode", 2),
    ("remapped_rows", "nvmlDeviceGetRemappedRows", 4),
    ("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth", 1),
    ("pcie_width_max", "nvmlDeviceGetMaxPcieLinkWidth", 1),
    ("pcie_generation", "nvmlDeviceGetCurrPcieLinkGeneration", 1),
    ("pcie_generation_max", "nvmlDeviceGetMaxPcieLinkGeneration", 1),
)


def say(**answer: object) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def main() -> None:
    try:
        nvml = ctypes.CDLL(LIBRARY)
    except OSError as error:
        say(ask="load", error=str(error))
        return
    say(ask="load", error="")
    code = nvml.nvmlInit_v2()
    say(ask="init", code=code, text=words(nvml, code))
    if code:
        return
    text = ctypes.create_string_buffer(96)
    code = nvml.nvmlSystemGetDriverVersion(text, 96)
    say(ask="driver", code=code, text=text.value.decode("utf-8", "replace"))
    number = ctypes.c_int()
    if cuda := getattr(nvml, "nvmlSystemGetCudaDriverVersion_v2", None):
        code = cuda(ctypes.byref(number))
        say(ask="cuda", code=code, values=[number.value])
    count = ctypes.c_uint()
    code = nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    say(ask="count", code=code, values=[count.value])
    for index in range(0 if code else min(count.value, MOST_GPUS)):
        about_gpu(nvml, index)
    nvml.nvmlShutdown()
    say(ask="end")


def words(nvml: Any, code: int) -> str:
    nvml.nvmlErrorString.restype = ctypes.c_char_p
    return (nvml.nvmlErrorString(code) or b"").decode("utf-8", "replace")


def about_gpu(nvml: Any, index: int) -> None:
    device = ctypes.c_void_p()
    code = nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(device))
    say(gpu=index, ask="handle", code=code, text=words(nvml, code) if code else "")
    if code:
        return
    text = ctypes.create_string_buffer(96)
    code = nvml.nvmlDeviceGetName(device, text, 96)
    say(gpu=index, ask="name", code=code, text=text.value.decode("utf-8", "replace"))
    for ask, function, count in NUMBERS:
        numbers = [ctypes.c_uint() for _ in range(count)]
        answer(
            nvml,
            index,
            ask,
            function,
            device,
            *map(ctypes.byref, numbers),
            values=lambda n=numbers: [x.value for x in n],
        )
    memory, old = MemoryV2(), MemoryV1()
    memory.version = ctypes.sizeof(memory) | 2 << 24
    if not answer(
        nvml, index, "memory", "nvmlDeviceGetMemoryInfo_v2", device, ctypes.byref(memory),
        values=lambda: [memory.total, memory.used],
    ):  # fmt: skip
        answer(
            nvml, index, "memory", "nvmlDeviceGetMemoryInfo", device, ctypes.byref(old),
            values=lambda: [old.total, old.used],
        )  # fmt: skip
    long = LONG()
    # 1: not corrected, 0: since the driver was loaded.
    answer(nvml, index, "ecc_uncorrected", "nvmlDeviceGetTotalEccErrors", device, 1, 0, ctypes.byref(long),
           values=lambda: [long.value])  # fmt: skip
    answer(nvml, index, "throttle", "nvmlDeviceGetCurrentClocksThrottleReasons", device, ctypes.byref(long),
           values=lambda: [long.value])  # fmt: skip
    pci = PciInfo()
    answer(nvml, index, "pci", "nvmlDeviceGetPciInfo_v3", device, ctypes.byref(pci),
           values=lambda: [pci.address.decode("ascii", "replace")])  # fmt: skip
    fabric = FabricInfo()
    answer(nvml, index, "fabric", "nvmlDeviceGetGpuFabricInfo", device, ctypes.byref(fabric),
           values=lambda: [fabric.state])  # fmt: skip
    # Asked with no room for the list, it says how long the list is: 0 none, 7 some.
    listed = ctypes.c_uint(0)
    answer(
        nvml, index, "processes", "nvmlDeviceGetComputeRunningProcesses_v3", device, ctypes.byref(listed), None,
        values=lambda: [listed.value],
    )  # fmt: skip
    instance_of = getattr(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", None)
    if instance_of is not None:
        instances = [
            number
            for number in range(MOST_MIG_DEVICES)
            if instance_of(device, ctypes.c_uint(number), ctypes.byref(ctypes.c_void_p())) == 0
        ]
        say(gpu=index, ask="mig_devices", code=0, values=[len(instances)])


def answer(nvml: Any, index: int, ask: str, function: str, *arguments: Any, values: Any) -> bool:
    """Whether NVML knows the function; what it said is printed then."""
    called = getattr(nvml, function, None)
    if called is None:
        return False
    code = called(*arguments)
    say(gpu=index, ask=ask, code=code, values=values())
    return True


if __name__ == "__main__":
    main()

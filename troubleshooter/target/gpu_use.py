"""Who else uses a GPU, asked of NVML, and how much of its memory a test may therefore take.

Looks only; no setting is touched. Functions for the other scripts of this folder: ctypes comes from the caller.
"""

import os

MIB = 1 << 20
GIB = 1 << 30

# What an idle card shows as used: little where NVML tells the driver's own reserve apart, the reserve where it does not.
_IDLE_MIB = 256
_IDLE_WITH_RESERVE_MIB = 1024
# The context and the libraries of a torch that is at work.
_OWN_CONTEXT_MIB = 1536
_MOST_PROCESSES = 256


def cuda_library(ctypes):
    """The driver's CUDA library; raises OSError where there is none."""
    # Its functions follow the calling convention of Windows there.
    return ctypes.WinDLL("nvcuda.dll") if os.name == "nt" else ctypes.CDLL("libcuda.so.1")


def bus_id(ctypes, cuda, index):
    """The PCI address of the GPU that CUDA calls `index`, in bytes; empty where it is not told. CUDA is started."""
    device = ctypes.c_int()
    text = ctypes.create_string_buffer(64)
    if cuda.cuDeviceGet(ctypes.byref(device), index) or cuda.cuDeviceGetPCIBusId(text, 64, device):
        return b""
    return text.value


def users(ctypes, address, ours=0):
    """What uses the GPU at a PCI address beside us, in words; empty: nothing; None: NVML cannot say.

    `ours` is 1 if this process has a context on it. Container engines hide the processes of others and number ours
    otherwise, so memory in use counts too, and one process without a name we know is ours.
    """
    try:
        nvml = ctypes.CDLL("nvml.dll" if os.name == "nt" else "libnvidia-ml.so.1")
        if not address or nvml.nvmlInit_v2():
            return None
    except (OSError, AttributeError):
        return None
    try:
        device = ctypes.c_void_p()
        if nvml.nvmlDeviceGetHandleByPciBusId_v2(address, ctypes.byref(device)):
            return None
        return _users(ctypes, nvml, device, ours)
    except AttributeError:
        return None
    finally:
        nvml.nvmlShutdown()


def _users(ctypes, nvml, device, ours):
    found = []
    computing, drawing = (_processes(ctypes, nvml, device, kind) for kind in ("Compute", "Graphics"))
    used, idle = _used_mib(ctypes, nvml, device)
    # Without a list of processes the memory in use has to tell, where the driver's own reserve is told apart.
    if used is None or (computing is None and idle != _IDLE_MIB):
        return None
    others = (computing or set()) | (drawing or set())
    if os.getpid() in others:
        others.discard(os.getpid())
    elif ours and others:
        others.pop()
    if others:
        found.append("1 other process" if len(others) == 1 else "%d other processes" % len(others))
    active = ctypes.c_uint()
    if nvml.nvmlDeviceGetDisplayActive(device, ctypes.byref(active)) == 0 and active.value:
        found.append("a display")
    if used > idle + ours * _OWN_CONTEXT_MIB and not others:
        found.append("%d MiB that something holds" % used)
    return found


def _processes(ctypes, nvml, device, kind):
    class Process(ctypes.Structure):
        _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("instances", ctypes.c_uint * 2)]

    class OldProcess(ctypes.Structure):
        _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong)]

    for ending, layout in (("_v3", Process), ("_v2", Process), ("", OldProcess)):
        ask = getattr(nvml, "nvmlDeviceGet%sRunningProcesses%s" % (kind, ending), None)
        if ask is not None:
            count, listed = ctypes.c_uint(_MOST_PROCESSES), (layout * _MOST_PROCESSES)()
            if ask(device, ctypes.byref(count), listed):
                return None
            return set(int(one.pid) for one in listed[: count.value])
    return None


def _used_mib(ctypes, nvml, device):
    """(MiB in use, MiB that are in use on an idle card); None for what cannot be told."""

    class Memory(ctypes.Structure):
        _fields_ = [("version", ctypes.c_uint)] + [
            (name, ctypes.c_ulonglong) for name in ("total", "reserved", "free", "used")
        ]

    class OldMemory(ctypes.Structure):
        _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]

    memory, old = Memory(), OldMemory()
    memory.version = ctypes.sizeof(memory) | 2 << 24
    ask = getattr(nvml, "nvmlDeviceGetMemoryInfo_v2", None)
    if ask is not None and ask(device, ctypes.byref(memory)) == 0:
        return memory.used // MIB, _IDLE_MIB
    if nvml.nvmlDeviceGetMemoryInfo(device, ctypes.byref(old)) == 0:
        return old.used // MIB, _IDLE_WITH_RESERVE_MIB
    return None, 0


def borrowed(integrated, tcc):
    """Why memory that is free is not all ours to take; empty where it is the card's own."""
    if integrated:
        return "the GPU shares the memory of the machine"
    if (os.name == "nt" and not tcc) or os.path.exists("/dev/dxg"):
        return "Windows manages the GPU's memory"
    return ""


def most_bytes(mode, free, total, who, borrowing=""):
    """How much of `free` bytes a test may take. `who` is what `users` says, `borrowing` what `borrowed` says."""
    if mode != "full":
        alone = who is not None and not who and not borrowing
        return free // 2 if alone else min(GIB, free // 2)
    if borrowing:
        return free // 2
    # Others may want more while the test runs; an idle card keeps room for a command of the driver.
    return max(0, free - (total // 20 if who or who is None else 64 * MIB))


def refusal(mode, who, agreed):
    """Why the whole card is not tested without consent; empty if it may be."""
    if mode != "full" or agreed or who == []:
        return ""
    by = (
        "whether something else uses the GPU cannot be told"
        if who is None
        else "the GPU is used by " + " and ".join(who)
    )
    return by + "; a test of the whole card asks first"

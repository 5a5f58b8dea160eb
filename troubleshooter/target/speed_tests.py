"""How fast a GPU is: rates of arithmetic, memory, copies and launches, and how the card was while it worked.

Each rate is the best of a few short windows; "steadiness" is the worst window against the best, the one figure that a card
of which no table knows anything can be held to. What the driver says of clocks, power and links is asked while kernels are
queued: on an idle card it means nothing.
"""

import os
import sys

kit = sys.modules["troubleshooter_kit"]
MIB = kit.MIB


def window(mode):
    return 0.015 if mode == "quick" else 0.3


# --- the driver's own words (NVML), by ctypes: nothing is changed, only asked


def under_load(torch, index):
    """Figures of the card at this moment, each left out where the driver does not tell it."""
    try:
        return ask_nvml(torch, index)
    except Exception:
        return {}


def ask_nvml(torch, index):
    import ctypes

    nvml, handle = handle_of(ctypes, torch, index)
    found = {}

    def number(name, call, *before, **also):
        value = (also.get("kind") or ctypes.c_uint)()
        try:
            code = getattr(nvml, call)(handle, *(before + (ctypes.byref(value),)))
        except AttributeError:  # an older driver lacks this call
            return
        if code == 0:
            found[name] = value.value / also["over"] if "over" in also else value.value

    number("load_clock_mhz", "nvmlDeviceGetClockInfo", 1)
    number("clock_mhz_max", "nvmlDeviceGetMaxClockInfo", 1)
    number("load_memory_clock_mhz", "nvmlDeviceGetClockInfo", 2)
    number("memory_clock_mhz_max", "nvmlDeviceGetMaxClockInfo", 2)
    number("load_power_w", "nvmlDeviceGetPowerUsage", over=1000.0)
    number("power_limit_w", "nvmlDeviceGetEnforcedPowerLimit", over=1000.0)
    number("power_limit_w_default", "nvmlDeviceGetPowerManagementDefaultLimit", over=1000.0)
    number("load_temperature_c", "nvmlDeviceGetTemperature", 0)
    number("load_pstate", "nvmlDeviceGetPerformanceState")
    number("load_pcie_width", "nvmlDeviceGetCurrPcieLinkWidth")
    number("pcie_width_max", "nvmlDeviceGetMaxPcieLinkWidth")
    number("load_pcie_generation", "nvmlDeviceGetCurrPcieLinkGeneration")
    number("pcie_generation_max", "nvmlDeviceGetMaxPcieLinkGeneration")
    number("throttle_mask", "nvmlDeviceGetCurrentClocksThrottleReasons", kind=ctypes.c_ulonglong)
    number("ecc_uncorrected", "nvmlDeviceGetTotalEccErrors", 1, 0, kind=ctypes.c_ulonglong)
    mask = found.pop("throttle_mask", None)
    if mask is not None:
        names = ((0x4, "power-cap"), (0x8, "hardware-slowdown"), (0x20, "software-thermal"))
        names += ((0x40, "hardware-thermal"), (0x80, "power-brake"))
        found["load_throttled_by"] = [name for bit, name in names if mask & bit]
    others = processes_beside_us(ctypes, nvml, handle)
    if others is not None:
        found["other_processes"] = others
    return found


def handle_of(ctypes, torch, index):
    """(library, handle) of the card that torch calls `index`; torch's numbers are not NVML's."""
    nvml = ctypes.CDLL("nvml.dll" if os.name == "nt" else "libnvidia-ml.so.1")
    cuda = ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    if nvml.nvmlInit_v2() != 0:
        raise OSError("NVML does not start")
    address = ctypes.create_string_buffer(32)
    if cuda.cuDeviceGetPCIBusId(address, 32, index) != 0:
        raise OSError("the card has no address")
    handle = ctypes.c_void_p()
    if nvml.nvmlDeviceGetHandleByPciBusId_v2(address, ctypes.byref(handle)) != 0:
        raise OSError("NVML does not know this card")
    return nvml, handle


def processes_beside_us(ctypes, nvml, handle):
    """How many other processes compute on the card; None where that cannot be asked, or is not told apart from us."""

    class Process(ctypes.Structure):
        _fields_ = [("pid", ctypes.c_uint), ("memory", ctypes.c_ulonglong), ("a", ctypes.c_uint), ("b", ctypes.c_uint)]

    count, listed = ctypes.c_uint(64), (Process * 64)()
    for call in ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"):
        try:
            code = getattr(nvml, call)(handle, ctypes.byref(count), listed)
        except AttributeError:
            continue
        if code != 0:
            return None
        # In a container the numbers are those of the host, and ours is among them all the same.
        return max(0, min(count.value, 64) - 1)
    return None


def busy_while_asked(torch, index, work):
    """What the driver says while `work` is in the queue, some twentieths of a second of it."""
    calls = max(1, min(300, int(0.06 / kit.seconds_of(torch, index, work, 1))))
    for _ in range(calls):
        work()
    found = under_load(torch, index)
    kit.wait_for(torch, index)
    return found


# --- arithmetic


def product(torch, index, name, size):
    """(a call without arguments that multiplies two matrices of that size, floating-point operations of a call)."""
    kind = kit.dtype_of(torch, name)
    device = kit.device_of(index)
    left = torch.randn(size, size, device=device).to(kind)
    right = torch.randn(size, size, device=device).to(kind)
    if name == "float8":
        one = torch.ones((), device=device)
        turned = right.t()
        work = lambda: torch._scaled_mm(left, turned, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    else:
        out = torch.empty(size, size, device=device, dtype=kind)
        work = lambda: torch.matmul(left, right, out=out)
    return work, 2.0 * size**3


def largest_size(torch, index, name, mode):
    """The size whose product, by the rate of a small one, takes no too long time, and whose matrices fit in memory."""
    work, operations = product(torch, index, name, 1024)
    work()
    kit.wait_for(torch, index)
    rate = operations / kit.seconds_of(torch, index, work, 3)
    # A small product runs far below what the card can do, hence the long times.
    longest = 0.03 if mode == "quick" else 0.2
    room = kit.free_memory(torch, index) // 4
    if mode == "quick":
        room = min(room, 512 * MIB)
    element = {"float64": 8, "float32": 4, "tf32": 4}.get(name, 2)
    sizes = (2048, 4096, 8192)
    fits = [size for size in sizes if 2.0 * size**3 / rate <= longest and 3 * element * size * size <= room]
    return max(fits or [1024])


def speed_matmul(torch, index, mode):
    kit.need(torch, "randn", "matmul", "cuda.Event")
    measured, busiest = {}, None
    # The fastest units first, before the power limit holds the clocks back.
    order = ("bfloat16", "float16", "tf32", "float32", "float8", "float64")
    for name in sorted(kit.number_types(torch, index), key=order.index):
        if mode == "quick" and name in ("float8", "float64"):
            continue  # matrices in float64 would take more than a quick test may
        with kit.Precision(torch, name == "tf32"):
            try:
                size = largest_size(torch, index, name, mode)
                work, operations = product(torch, index, name, size)
                best, worst = kit.rate_of(torch, index, work, operations, window(mode))
            except TypeError:  # another version of the call for float8, which is not public
                continue
            label = kit.label_of(name)
            measured[label + "_tflops"] = round(best / 1e12, 2)
            measured["steadiness"] = round(min(measured.get("steadiness", 1.0), worst / best), 3)
            busiest = busiest or work
            if mode == "full" and kit.free_memory(torch, index) > 4 * 12 * 10000 * 10000:
                work, operations = product(torch, index, name, 10000)
                best, _ = kit.rate_of(torch, index, work, operations, 0.1, 1)
                measured["%s_10000_ms" % label] = round(operations / best * 1e3, 3)
        del work
    measured.update(busy_while_asked(torch, index, busiest))
    return measured, {}


def speed_conv(torch, index, mode):
    """A convolution of 1,024 channels with a 3 x 3 kernel, of the batch that fits."""
    kit.need(torch, "nn.functional.conv2d", "cuda.Event")
    device, measured = kit.device_of(index), {}
    batch = 16 if kit.free_memory(torch, index) > 4 << 30 else 2
    for name in kit.number_types(torch, index):
        if name in ("float8", "float64"):
            continue
        kind = kit.dtype_of(torch, name)
        order = torch.contiguous_format if name == "float32" else torch.channels_last
        with kit.Precision(torch, name == "tf32"):
            data = torch.randn(batch, 1024, 56, 56, device=device).to(kind).contiguous(memory_format=order)
            weight = torch.randn(1024, 1024, 3, 3, device=device).to(kind).contiguous(memory_format=order)
            work = lambda data=data, weight=weight: torch.nn.functional.conv2d(data, weight, None, 1, 1)
            operations = 2.0 * batch * 56 * 56 * 1024 * 1024 * 9
            best, worst = kit.rate_of(torch, index, work, operations, window(mode))
        label = kit.label_of(name)
        measured[label + "_tflops"] = round(best / 1e12, 2)
        measured[label + "_ms"] = round(operations / best * 1e3, 3)
        measured["steadiness"] = round(min(measured.get("steadiness", 1.0), worst / best), 3)
        if name == "float16":
            measured.update(busy_while_asked(torch, index, work))
    return measured, {}


def speed_rnn(torch, index, mode):
    """An LSTM of 1,024 x 5 layers, 128 steps of a batch of 64: bound by launches, so its rate is no sign of health."""
    kit.need(torch, "nn.LSTM", "cuda.Event")
    device, measured = kit.device_of(index), {}
    for name in kit.number_types(torch, index):
        if name in ("float8", "float64"):
            continue
        kind = kit.dtype_of(torch, name)
        with torch.no_grad(), kit.Precision(torch, name == "tf32"):
            layers = torch.nn.LSTM(1024, 1024, num_layers=5).to(device=device, dtype=kind)
            data = torch.randn(128, 64, 1024, device=device).to(kind)
            best, worst = kit.rate_of(torch, index, lambda: layers(data), 1.0, window(mode))
        measured["%s_ms" % kit.label_of(name)] = round(1e3 / best, 3)
        measured["steadiness"] = round(min(measured.get("steadiness", 1.0), worst / best), 3)
    return measured, {}


# --- memory and copies


def speed_memory(torch, index, mode):
    kit.need(torch, "empty", "int64", "cuda.Event")
    free = kit.free_memory(torch, index)
    size = min(free // 4, (512 if mode == "quick" else 4096) * MIB) // MIB * MIB
    if size < 64 * MIB:
        raise kit.Skipped("%d MiB of the GPU's memory are free; the test needs 256" % (free // MIB))
    device, measured = kit.device_of(index), {"tested_mib": size // MIB}
    first = torch.empty(size // 8, dtype=torch.int64, device=device)
    second = torch.empty(size // 8, dtype=torch.int64, device=device)
    for name, work, moved in (
        ("write", lambda: first.fill_(7), size),
        ("copy", lambda: second.copy_(first), 2 * size),
        ("read", lambda: torch.aminmax(first) if hasattr(torch, "aminmax") else first.sum(), size),
    ):
        best, worst = kit.rate_of(torch, index, work, moved, window(mode))
        measured[name + "_gb_per_s"] = round(best / 1e9, 1)
        measured["steadiness"] = round(min(measured.get("steadiness", 1.0), worst / best), 3)
    measured.update(busy_while_asked(torch, index, lambda: second.copy_(first)))
    return measured, {}


def speed_copy(torch, index, mode):
    kit.need(torch, "empty", "uint8", "cuda.Event")
    free = kit.free_memory(torch, index)
    size = min(free // 4, (64 if mode == "quick" else 512) * MIB) // MIB * MIB
    if size < 16 * MIB:
        raise kit.Skipped("%d MiB of the GPU's memory are free; the test needs 64" % (free // MIB))
    measured = {"tested_mib": size // MIB}
    there = torch.empty(size, dtype=torch.uint8, device=kit.device_of(index))
    for kind in ("pinned", "pageable"):
        try:
            here = torch.empty(size, dtype=torch.uint8, pin_memory=kind == "pinned").fill_(1)
        except RuntimeError as error:  # a limit on locked memory
            measured["not_pinned"] = str(error).splitlines()[0]
            continue
        for name, work in (
            ("to_gpu", lambda: there.copy_(here, non_blocking=True)),
            ("from_gpu", lambda: here.copy_(there, non_blocking=True)),
        ):
            best, worst = kit.rate_of(torch, index, work, size, window(mode), 2)
            measured["%s_%s_gb_per_s" % (kind, name)] = round(best / 1e9, 2)
            if kind == "pinned":
                measured["steadiness"] = round(min(measured.get("steadiness", 1.0), worst / best), 3)
        if kind == "pinned":
            measured.update(busy_while_asked(torch, index, lambda: there.copy_(here, non_blocking=True)))
    return measured, {}


def speed_launch(torch, index, mode):
    """Microseconds of the host for a kernel that does nothing to speak of, and for one whose result it waits for."""
    import time

    kit.need(torch, "zeros", "cuda.synchronize")
    small = torch.zeros(1, device=kit.device_of(index))
    measured = {}
    for name, calls, work in (("launch", 2000, lambda: small.add_(1)), ("round_trip", 300, lambda: small.item())):
        work()
        times = []
        for _ in range(3):
            kit.wait_for(torch, index)
            began = time.time()
            for _ in range(calls):
                work()
            kit.wait_for(torch, index)
            times.append((time.time() - began) / calls)
        measured[name + "_us"] = round(min(times) * 1e6, 2)
    return measured, {}


TESTS = {
    "speed.matmul": speed_matmul,
    "speed.memory": speed_memory,
    "speed.copy": speed_copy,
    "speed.conv": speed_conv,
    "speed.rnn": speed_rnn,
    "speed.launch": speed_launch,
}

"""What the scripts of tests share. They find it as sys.modules["troubleshooter_kit"], put there by `gpu_tests.py`.

A test is a function of (torch, index of a GPU or None, mode) and gives (measured, expected). Units stand in the names of
the figures. Whether a figure is good enough is not judged here: the tables of bounds do that, on the other side.
"""

import os
import time

MIB = 1 << 20


class Skipped(Exception):
    """The test cannot be done here; the text says why."""


class Failed(Exception):
    """The test was done and its result is wrong, whatever any table says."""

    def __init__(self, reason, measured, expected):
        Exception.__init__(self, reason)
        self.measured = measured
        self.expected = expected


def need(torch, *paths):
    for path in paths:
        found = torch
        for name in path.split("."):
            try:
                found = getattr(found, name)
            except AttributeError:
                raise Skipped("this torch has no %s" % path)
    return found


def free_memory(torch, index):
    """Bytes that the driver has free on the device."""
    ask = getattr(torch.cuda, "mem_get_info", None)
    if ask:
        return int(ask(index)[0])
    # torch 1.10 has the bare call of the runtime only.
    need(torch, "cuda.cudart")
    return int(torch.cuda.cudart().cudaMemGetInfo(index)[0])


def capability(torch, index):
    """(major, minor); (0, 0) on the CPU and where torch does not say."""
    if index is None or not hasattr(torch.cuda, "get_device_capability"):
        return 0, 0
    return tuple(torch.cuda.get_device_capability(index))[:2]


def device_of(index):
    return "cpu" if index is None else "cuda:%d" % index


def wait_for(torch, index):
    if index is not None:
        torch.cuda.synchronize(index)


def number_types(torch, index):
    """Names of the number types that this torch can multiply on this device, the plain one first."""
    names = ["float32"]
    hip = bool(getattr(getattr(torch, "version", None), "hip", None))
    major, minor = capability(torch, index)
    if hasattr(torch, "float16") and index is not None:
        names.append("float16")
    ask = getattr(torch.cuda, "is_bf16_supported", None)
    # Cards below 8.0 emulate bfloat16 at best; AMD's numbering is another, so their build is asked.
    if hasattr(torch, "bfloat16") and (index is None or (ask and (major >= 8 or hip) and ask())):
        names.append("bfloat16")
    settings = getattr(getattr(torch.backends, "cuda", None), "matmul", None)
    if index is not None and major >= 8 and not hip and hasattr(settings, "allow_tf32"):
        names.append("tf32")
    if index is not None and (major, minor) >= (8, 9) and not hip:
        if hasattr(torch, "_scaled_mm") and hasattr(torch, "float8_e4m3fn"):
            names.append("float8")
    if hasattr(torch, "float64"):
        names.append("float64")
    return names


def dtype_of(torch, name):
    return torch.float32 if name == "tf32" else getattr(torch, "float8_e4m3fn" if name == "float8" else name)


def label_of(name):
    """The name under which an error is reported: products in float32 are TF32 where the environment forces that."""
    forced = (os.environ.get("NVIDIA_TF32_OVERRIDE"), os.environ.get("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"))
    return "tf32" if name == "float32" and "1" in forced else name


class Precision:
    """Within it, float32 is multiplied exactly, or rounded to TF32, in products, convolutions and cells of RNNs alike."""

    def __init__(self, torch, tf32=False):
        backends = getattr(torch, "backends", None)
        self.tf32 = tf32
        self.settings = [getattr(getattr(backends, "cuda", None), "matmul", None), getattr(backends, "cudnn", None)]
        self.before = []

    def __enter__(self):
        for settings in self.settings:
            try:
                before = getattr(settings, "allow_tf32", None)
                if before is not None:
                    settings.allow_tf32 = self.tf32
            except RuntimeError:  # a sitecustomize used the newer form of this setting, which forbids the older one
                before = None
                for each in (settings, getattr(settings, "conv", None), getattr(settings, "rnn", None)):
                    if hasattr(each, "fp32_precision"):
                        each.fp32_precision = "tf32" if self.tf32 else "ieee"
            self.before.append(before)

    def __exit__(self, *ignored):
        for settings, before in zip(self.settings, self.before):
            if before is not None:
                settings.allow_tf32 = before


def relative_error(torch, got, wanted):
    """The larger of two: the error of the whole (norms), and of the worst element against the largest wanted one."""
    got, wanted = got.detach().cpu().to(torch.float64), wanted.detach().cpu().to(torch.float64)
    if got.shape != wanted.shape:
        return float("inf")
    off = (got - wanted).abs()
    whole = float(off.pow(2).sum().sqrt()) / max(float(wanted.pow(2).sum().sqrt()), 1e-300)
    worst = float(off.max()) / max(float(wanted.abs().max()), 1e-300)
    # Written so that NaN stays NaN.
    return whole if whole != whole or whole > worst else worst


def note_worst(measured, key, error):
    """Keep the larger figure under this key; NaN is larger than any."""
    before = measured.get(key)
    if before is None or error != error or error > before:
        measured[key] = error


def seconds_of(torch, index, work, calls):
    """Seconds per call on the device, between two events of its stream; on the CPU by the clock."""
    if index is None:
        began = time.time()
        for _ in range(calls):
            work()
        return max((time.time() - began) / calls, 1e-9)
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    first.record()
    for _ in range(calls):
        work()
    last.record()
    last.synchronize()
    return max(first.elapsed_time(last) / 1e3 / calls, 1e-9)


def rate_of(torch, index, work, amount, seconds=0.05, windows=3):
    """(best, worst) amount per second over windows that each take about `seconds`, after a warm-up."""
    work()
    wait_for(torch, index)
    calls = max(1, min(2000, int(seconds / seconds_of(torch, index, work, 1))))
    took = [seconds_of(torch, index, work, calls) for _ in range(windows)]
    return amount / min(took), amount / max(took)

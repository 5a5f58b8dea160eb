"""Figures of the memory tests on a real card: speed beside what writing alone reaches, coverage, planted faults, manners.

    python benchmarks/memory.py [--torch PYTHON] [--out FILE]

Takes the whole card for about two minutes; refuses if something else uses it. PYTHON has a torch that sees the card.
"""

import argparse
import ctypes
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from troubleshooter.target import driver_tests, gpu_use

TARGET = Path(driver_tests.__file__).parent
SCRIPT = TARGET / "driver_tests.py"
MIB = 1 << 20

# One thread for each of 128 blocks, each walking over a part of its own with one word at a time: how an old and widely
# used tester of GPU memory asks the card. Arguments: start, words of a part, ignored, report.
ONE_THREAD_A_BLOCK = """
.visible .entry slow_write(.param .u64 a_start, .param .u64 a_words, .param .u64 a_none, .param .u64 a_report)
{
.reg .pred p;
.reg .b32 block;
.reg .b64 start, words, wide, offset, end;
ld.param.u64 start, [a_start];
ld.param.u64 words, [a_words];
cvta.to.global.u64 start, start;
mov.u32 block, %ctaid.x;
cvt.u64.u32 wide, block;
shl.b64 words, words, 3;
mul.lo.u64 offset, wide, words;
add.u64 start, start, offset;
add.u64 end, start, words;
AGAIN:
st.global.u64 [start], start;
add.u64 start, start, 8;
setp.lt.u64 p, start, end;
@p bra AGAIN;
ret;
}
"""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--torch", default=sys.executable)
    arguments.add_argument("--out")
    given = arguments.parse_args()
    driver = driver_tests.Driver(ctypes, gpu_use.cuda_library(ctypes))
    driver("cuInit", 0)
    address = gpu_use.bus_id(ctypes, driver.library, 0)
    if who := gpu_use.users(ctypes, address):
        sys.exit(f"the card is used by {' and '.join(who)}")
    if who is None:  # then consent is asked for, and this is called by who gives it
        os.environ["TROUBLESHOOTER_WHOLE_CARD"] = "yes"
    figures: dict[str, Any] = {"users": who}
    parts: tuple[tuple[str, Callable[[], Any]], ...] = (
        # First what starts processes: no context of ours stands in their way then.
        ("processes", processes),
        ("interrupts", lambda: interrupts(driver, address)),
        ("torch", lambda: of_torch(given.torch)),
        ("driver", lambda: dict(by_vectors(driver))),
        ("planted", lambda: planted(driver)),
        ("clean_runs", lambda: clean_runs(driver)),
        ("one_thread_a_block", lambda: one_thread_a_block(driver)),
        ("beside_a_hog", lambda: beside_a_hog(driver)),
    )
    for name, work in parts:
        try:
            figures[name] = work()
        except Exception as error:  # the other figures are wanted all the same
            figures[name] = f"{type(error).__name__}: {error}"
        print(name, json.dumps(figures[name], indent=1), flush=True)
    if given.out:
        Path(given.out).write_text(json.dumps(figures, indent=1) + "\n")


class Card:
    """A context with our kernels on the first GPU."""

    def __init__(self, driver: Any, vectors: int = driver_tests.VECTORS, more: str = "") -> None:
        began = time.monotonic()
        self.gpu = driver_tests.Gpu(driver, driver.number("cuDeviceGet", 0))
        self.context_seconds = round(time.monotonic() - began, 3)
        began = time.monotonic()
        self.gpu.load(driver_tests.ptx(vectors) + more)
        self.compile_seconds = round(time.monotonic() - began, 3)

    def __enter__(self) -> Any:
        return self.gpu

    def __exit__(self, *error: object) -> None:
        self.gpu.close()


def whole(gpu: Any) -> int:
    free, total = gpu.free_and_total()
    return gpu_use.most_bytes("full", free, total, [])


def by_vectors(driver: Any) -> Iterator[tuple[str, Any]]:
    """The whole card with each number of 16-byte vectors a thread, the shipped one last."""
    for vectors in (1, 2, 4, driver_tests.VECTORS):
        driver_tests.BLOCK_BYTES = driver_tests.THREADS * vectors * 16
        card = Card(driver, vectors)
        with card as gpu:
            measured = [driver_tests.examine_memory(gpu, whole(gpu))[0] for _ in range(3)]
            best = dict(min(measured, key=lambda one: one["seconds"]))
            best.update(memset_gb_per_s=memset_speed(gpu), context_seconds=card.context_seconds)
            best["compile_seconds"] = card.compile_seconds
            best["share_of_write"] = round(best["gb_per_s"] / best["write_gb_per_s"], 3)
            best["share_of_memset"] = round(best["gb_per_s"] / best["memset_gb_per_s"], 3)
            yield f"{vectors} vectors a thread", best


def memset_speed(gpu: Any) -> float:
    """GB/s of the driver's own way to fill 16 GiB."""
    chunks = driver_tests.chunks_of(gpu, 16 << 30)
    try:
        marks = [gpu.mark()]
        for _ in range(3):
            for address, size in chunks:
                gpu.driver("cuMemsetD32_v2", ctypes.c_uint64(address), 0, ctypes.c_size_t(size // 4))
            marks.append(gpu.mark())
        gpu.wait(marks[-1])
        seconds = min(gpu.seconds(first, last) for first, last in itertools.pairwise(marks[1:]))
        return round(sum(size for _, size in chunks) / seconds / 1e9, 1)
    finally:
        for address, _ in chunks:
            gpu.release(address)


def planted(driver: Any, rounds: int = 10) -> dict[str, Any]:
    """Bits flipped at random places of the whole card between writing and reading, in random patterns."""
    chooser = random.Random(6)
    planted_bits = found_bits = false = 0
    began = time.monotonic()
    with Card(driver) as gpu:
        for _ in range(rounds):
            chunks = driver_tests.chunks_of(gpu, whole(gpu))
            wanted = set()

            def between(name: str, chunks: Any, wanted: Any = wanted) -> None:
                for _ in range(2):
                    start, size = chooser.choice(chunks)
                    place, bit = start + 8 * chooser.randrange(size // 8), chooser.randrange(64)
                    byte = gpu.download(place + bit // 8, 1)[0] ^ 1 << bit % 8
                    gpu.upload(place + bit // 8, bytes([byte]))
                    wanted.add((name, place, 1 << bit))

            try:
                _, judged = driver_tests.run_patterns(gpu, chunks, between)
            finally:
                for address, _ in chunks:
                    gpu.release(address)
            # What is flipped before the turn comes back right after it, and is judged by the turn itself.
            got = {(name, at, read ^ right) for name, one in judged for at, read, right in one["records"]}
            planted_bits += len(wanted)
            found_bits += len(wanted & got)
            false += len({(at, bit) for _, at, bit in got} - {(at, bit) for _, at, bit in wanted})
    took = time.monotonic() - began
    return {
        "planted": planted_bits,
        "found_and_located": found_bits,
        "elsewhere": false,
        "found_per_second": round(found_bits / took, 1),
    }


def clean_runs(driver: Any, rounds: int = 10) -> dict[str, Any]:
    with Card(driver) as gpu:
        measured = []
        for _ in range(rounds):
            try:
                measured.append(driver_tests.examine_memory(gpu, whole(gpu))[0])
            except driver_tests.Failed as failure:
                measured.append(failure.measured)
    speeds = [one["gb_per_s"] for one in measured]
    return {"false_alarms": sum(one["wrong_words"] > 0 for one in measured), "gb_per_s": [min(speeds), max(speeds)]}


def one_thread_a_block(driver: Any) -> dict[str, float]:
    """GB/s of writing 2 GiB so, in the run of the other figures."""
    with Card(driver, more=ONE_THREAD_A_BLOCK) as gpu:
        size, blocks = 2 << 30, 128
        start = gpu.allocate(size)
        own, driver_tests.THREADS = driver_tests.THREADS, 1
        try:
            marks = [gpu.mark()]
            gpu.launch("slow_write", blocks, start, size // 8 // blocks, 0, 0)
            marks.append(gpu.mark())
            gpu.wait(marks[1])
        finally:
            driver_tests.THREADS = own
        return {"write_gb_per_s": round(size / gpu.seconds(*marks) / 1e9, 1)}


def run(*arguments: str) -> tuple[float, list[Any]]:
    began = time.monotonic()
    done = subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.strip()]
    return time.monotonic() - began, [one for one in lines if one["event"] == "after"]


def processes() -> dict[str, Any]:
    """Whole processes from their start to their end, with the steps of the last."""
    figures: dict[str, Any] = {}
    for mode in ("--quick", "--full"):
        runs = [run(mode) for _ in range(3)]
        figures[mode] = {
            "seconds": [round(took, 2) for took, _ in runs],
            "tests": {one["test"]: [one["outcome"], one["took"], one["measured"]] for one in runs[-1][1]},
        }
    return figures


def used_mib(address: bytes) -> int:
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    nvml.nvmlInit_v2()
    device = ctypes.c_void_p()
    nvml.nvmlDeviceGetHandleByPciBusId_v2(address, ctypes.byref(device))
    used, _ = gpu_use._used_mib(ctypes, nvml, device)
    return int(used)


def interrupts(driver: Any, address: bytes) -> dict[str, Any]:
    """Seconds from a signal to the memory being free again, in the middle of a test of the whole card."""
    figures: dict[str, Any] = {}
    total = ctypes.c_size_t()
    driver("cuDeviceTotalMem_v2", ctypes.byref(total), driver.number("cuDeviceGet", 0))
    most = total.value // MIB * 9 // 10
    for name, number in (("SIGINT", signal.SIGINT), ("SIGKILL", signal.SIGKILL)):
        took = []
        for _ in range(3):
            command = [sys.executable, str(SCRIPT), "--full"]
            with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
                limit = time.monotonic() + 20
                while used_mib(address) < most and time.monotonic() < limit:
                    time.sleep(0.002)
                time.sleep(0.15)
                began = time.monotonic()
                process.send_signal(number)
                while used_mib(address) > 2_000 and time.monotonic() < limit:
                    time.sleep(0.002)
                took.append(round(time.monotonic() - began, 3))
        figures[name] = took
    return figures


def beside_a_hog(driver: Any) -> dict[str, Any]:
    """A process holds 60 % of the card, and what it holds is unharmed after a quick test beside it."""
    with Card(driver) as gpu:
        free, _ = gpu.free_and_total()
        chunks = driver_tests.chunks_of(gpu, free * 6 // 10)
        for start, size in chunks:
            gpu.launch("write_plain", size // driver_tests.BLOCK_BYTES, start, 0, driver_tests.ALL, 0)
        gpu.wait(gpu.mark())
        took, quick = run("--quick")
        _, full = run("--full")
        report = gpu.allocate(driver_tests.REPORT_BYTES)
        gpu.clear(report, driver_tests.REPORT_BYTES)
        for start, size in chunks:
            gpu.launch("check_plain", size // driver_tests.BLOCK_BYTES, start, 0, driver_tests.ALL, report)
        gpu.wait(gpu.mark())
        harmed = driver_tests.read_report(gpu.download(report, driver_tests.REPORT_BYTES))["wrong_words"]
    return {
        "seconds": round(took, 2),
        "quick": {one["test"]: [one["outcome"], one["measured"].get("tested_mib")] for one in quick},
        "full_without_consent": {one["test"]: [one["outcome"], one["reason"]] for one in full},
        "words_of_the_other_harmed": harmed,
    }


TORCH = """
import json, os, sys, types
folder = sys.argv[1]
def part(script):
    module = types.ModuleType("troubleshooter_" + script[:-3])
    module.__file__ = os.path.join(folder, script)
    sys.modules[module.__name__] = module
    exec(compile(open(module.__file__, "rb").read(), module.__file__, "exec"), module.__dict__)
    return module
import torch
kit, memory = part("kit.py"), part("memory_tests.py")
figures = {"torch": torch.__version__}
def done(name, mode):
    try:
        measured = memory.TESTS[name](torch, 0, mode)[0]
        outcome = "passed"
    except kit.Skipped as why:
        measured, outcome = {"reason": str(why)}, "skipped"
    except kit.Failed as why:
        measured, outcome = dict(why.measured, reason=str(why)), "failed"
    torch.cuda.empty_cache()
    figures["%s %s" % (name, mode)] = [outcome, measured]
torch.zeros(1, device="cuda")
for mode in ("quick", "full", "full"):
    for name in memory.TESTS:
        done(name, mode)
# Faults planted between writing and reading.
def stuck(pattern, chunks):
    chunks[-1][-1, -1] |= 1 << 40
def once(pattern, chunks, left=[1]):
    if pattern == "random" and left:
        left.pop()
        chunks[0][0, 12345] ^= 1
for fault in (stuck, once):
    measured = memory.pattern_figures(torch, 0, 32 << 30, between=fault)
    figures["planted " + fault.__name__] = measured
    torch.cuda.empty_cache()
figures["planted copy"] = memory.copy_figures(torch, 0, 64 << 20, between=lambda data: data[7:8].bitwise_xor_(1))
print(json.dumps(figures))
"""


def of_torch(python: str) -> Any:
    done = subprocess.run([python, "-c", TORCH, str(TARGET)], capture_output=True, text=True, check=False)
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else done.stderr[-2000:]


if __name__ == "__main__":
    main()

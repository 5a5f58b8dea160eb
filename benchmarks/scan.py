"""How fast a large log of many ranks is read, as a multiple of ripgrep with our own patterns: python benchmarks/scan.py

Writes a log of --size MB (seeded) into a temporary folder and removes it again. Every figure is of a process of its own
on one core (the last on two), in one run: processor seconds as well as seconds, since other work may share the machine.
The engines must give the same claims. `--record` adds the figures to RESULTS.md.
"""

import argparse
import json
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

RESULTS = Path(__file__).with_name("RESULTS.md")
BAR = "\u2588"
ENGINES = ("python", "re2", "hyperscan")
LIMITS = {"python": 0.03, "re2": 0.75, "hyperscan": 3.0}
TWO_CORES = 1.7
ERRORS = (
    "RuntimeError: CUDA error: an illegal memory access was encountered",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.02 GiB is free.",
    "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1970, unhandled system error, NCCL version 2.20.5",
    "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.",
)


def lines(rng: random.Random, count: int) -> Iterator[str]:
    """A healthy run on eight ranks: steps, NCCL, metrics, progress bars."""
    for _ in range(count):
        rank, kind = rng.randrange(8), rng.random()
        at = f"2026-03-01 12:{rng.randrange(60):02}:{rng.randrange(60):02},{rng.randrange(1000):03}"
        if kind < 0.45:
            yield (
                f"[rank{rank}]: {at} INFO trainer.py:{rng.randrange(400)} step {rng.randrange(10**6)} "
                f"loss {rng.random() * 5:.4f} lr {rng.random() * 1e-3:.3e} tokens/s {rng.randrange(20000)}"
            )
        elif kind < 0.6:
            yield (
                f"node{rank // 4}:{10000 + rank}:{20000 + rank} [{rank % 4}] NCCL INFO Channel {rng.randrange(32):02}/32 : "
                f"{rank}[{rng.randrange(8)}] -> {(rank + 1) % 8}[{rng.randrange(8)}] via P2P/CUMEM"
            )
        elif kind < 0.8:
            yield json.dumps({"rank": rank, "step": rng.randrange(10**6), "loss": rng.random(), "mem_gb": rng.random()})
        elif kind < 0.9:
            done = rng.randrange(900)
            yield "".join(
                f"\rEpoch {rank}: {step // 10:2}%|{BAR * (step // 100):<10}| {step}/1000 [00:{step % 60:02}<00:09, {rng.random() * 9:.2f}it/s]"
                for step in range(done, done + rng.randrange(2, 12))
            )
        else:
            yield f"[rank{rank}]: {at} DEBUG data/loader.py:{rng.randrange(300)} worker {rng.randrange(16)} fetched {rng.randrange(10**5)}"


def failure(rng: random.Random) -> str:
    told = (
        "Traceback (most recent call last):",
        '  File "/work/train.py", line 88, in <module>',
        "    main()",
        '  File "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1553, in _wrapped_call_impl',
        rng.choice(ERRORS),
    )
    rank = rng.randrange(8)
    return "".join(f"[rank{rank}]: {line}\n" for line in told)


def write_log(path: str, size: int) -> None:
    rng = random.Random(7)
    pool = ["".join(f"{line}\n" for line in lines(rng, 20000)).encode() for _ in range(8)]
    written = 0
    with open(path, "wb") as file:
        while written < size:
            written += file.write(rng.choice(pool)) + file.write(failure(rng).encode())


READ = """\
import hashlib, json, resource, sys
from troubleshooter.knowledge import load
from troubleshooter.knowledge.cache import own_folder
from troubleshooter.paste import read_paste
knowledge = load()
start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
remarks = []
with open(sys.argv[1], "rb") as file:
    claims = read_paste([(sys.argv[1], file)], knowledge.signatures, remarks.append, engine=sys.argv[2], cache=own_folder)
grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start) / 1024
told = [claim for claim in claims if claim.value is not False]
print(json.dumps([hashlib.sha256(repr(sorted(map(repr, told))).encode()).hexdigest(), len(told), grown, remarks]))
"""


def measured(command: list[str], cores: int) -> tuple[float, float, str]:
    """Seconds, processor seconds, and what it printed."""
    pinned = ["taskset", "-c", ",".join(map(str, range(cores)))] if shutil.which("taskset") else []
    before, start = os.times(), time.perf_counter()
    done = subprocess.run([*pinned, *command], capture_output=True, text=True, check=False)
    took, after = time.perf_counter() - start, os.times()
    busy = after.children_user + after.children_system - before.children_user - before.children_system
    return took, busy, done.stdout


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--size", type=int, default=2000, help="MB")
    options.add_argument("--record", action="store_true", help="add the figures to RESULTS.md")
    given = options.parse_args()
    figures: list[str] = []

    def tell(row: str) -> None:
        figures.append(row)
        print(row, flush=True)

    missed: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        path, patterns = os.path.join(folder, "ranks.log"), os.path.join(folder, "patterns.txt")
        write_log(path, given.size * 1_000_000)
        size = os.path.getsize(path) / 1e6
        listed = subprocess.run(
            [sys.executable, "-m", "troubleshooter", "rules", "list", "--patterns"], capture_output=True, check=True
        )
        Path(patterns).write_bytes(listed.stdout)
        base = 0.0
        if shutil.which("rg"):
            took, base, printed = measured(["rg", "-j1", "--no-unicode", "-c", "-f", patterns, path], 1)
            tell(
                f"| `rg -j1 --no-unicode -f` ({printed.strip()} lines) | {size / took:.1f} | {size / base:.1f} | 1 | - |"
            )
        told: dict[str, str] = {}
        single: dict[str, float] = {}
        for engine in ENGINES:
            for cores in (1, 2) if engine != "python" or given.size <= 500 else (1,):
                if cores == 1 and engine == "hyperscan":
                    measured([sys.executable, "-c", READ, path, engine], 1)  # compiles, once for a knowledge base
                took, busy, printed = measured([sys.executable, "-c", READ, path, engine], cores)
                digest, count, grown, remarks = json.loads(printed)
                if not any(f"by {engine})" in remark for remark in remarks):
                    tell(f"| {engine} | not installed | | | |")
                    break
                told[f"{engine}, {cores}"] = digest
                ratio = (
                    f"{base / busy:.2f}"
                    if base and cores == 1
                    else f"{single[engine] / took:.2f} x one core"
                    if cores > 1
                    else "-"
                )
                tell(
                    f"| {engine}, {cores} core{'s'[: cores - 1]}, {count} claims | {size / took:.1f} | {size / busy:.1f} | {ratio} | +{grown:.0f} |"
                )
                if cores > 1 and single[engine] / took < TWO_CORES:
                    missed.append(f"two cores with {engine}")
                if cores == 1:
                    single[engine] = took
                    missed += [engine] if base and base / busy < LIMITS[engine] else []
                missed += [f"memory of {engine}"] if grown > 64 else []
        if len(set(told.values())) > 1:
            missed.append(f"the same claims: {told}")
    if missed:
        print(f"missed: {', '.join(missed)}", file=sys.stderr)
    if given.record:
        day = datetime.now(tz=timezone.utc).date().isoformat()
        machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(f"\n## Huge logs ({day}; {machine}; `python benchmarks/scan.py --size {given.size}`)\n\n")
            file.write(
                "| what | MB/s | MB per processor second | ratio to rg (processor time) | memory, MB |\n|---|---|---|---|---|\n"
            )
            file.write("\n".join(figures) + "\n")
    return bool(missed)


if __name__ == "__main__":
    raise SystemExit(main())

"""Figures of the tests on a real card: time of quick runs beside the import, false alarms, speed against a bare loop.

    python benchmarks/gpu.py [--torch PYTHON] [--out FOLDER] [--runs 10] [--faults]

PYTHON has a torch that sees the card. FOLDER gets the raw outputs. With --faults the tests of tests/gpu run twice as well
(they plant faults in software). Takes about five minutes of an H200 in all, the whole card for some seconds of them.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "troubleshooter" / "target"

BARE_LOOP = """
import json, sys, time, torch
path = sys.argv[1]
tests = {"__name__": "gpu_tests", "__file__": path}
exec(compile(open(path, "rb").read(), path, "exec"), tests)
tests["part"]("kit.py")
speed = tests["part"]("speed_tests.py")
size = 8192
left, right = (torch.randn(size, size, device="cuda").bfloat16() for _ in range(2))
out = torch.empty_like(left)
def bare():
    for _ in range(3):
        torch.matmul(left, right, out=out)
    torch.cuda.synchronize()
    best = 0.0
    for _ in range(5):
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        for _ in range(20):
            torch.matmul(left, right, out=out)
        last.record(); last.synchronize()
        best = max(best, 2.0 * size**3 * 20 / (first.elapsed_time(last) / 1e3) / 1e12)
    return best
kit = sys.modules["troubleshooter_kit"]
work, operations = speed.product(torch, 0, "bfloat16", size)
pairs = []
for _ in range(5):
    # The power limit holds the clocks of a card back that was busy: each begins on a rested one.
    time.sleep(0.7)
    loop = bare()
    time.sleep(0.7)
    ours = kit.rate_of(torch, 0, work, operations, 0.03)[0] / 1e12
    time.sleep(0.7)
    whole = speed.speed_matmul(torch, 0, "quick")[0]["bfloat16_tflops"]
    pairs.append([round(ours, 1), whole, round(loop, 1), round(ours / loop, 3), round(whole / loop, 3)])
print(json.dumps(pairs))
"""


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--torch", default=sys.executable)
    words.add_argument("--out", type=Path, default=Path("gpu-figures"))
    words.add_argument("--runs", type=int, default=10)
    words.add_argument("--faults", action="store_true")
    options = words.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    figures: dict[str, Any] = {}

    def note(name: str, value: Any) -> None:
        figures[name] = value
        print(f"{name}: {json.dumps(value)}", flush=True)
        (options.out / "figures.json").write_text(json.dumps(figures, indent=1))

    imports = [seconds_of([options.torch, "-c", "import torch"])[0] for _ in range(3)]
    note("import torch, s", [round(one, 2) for one in imports])
    quick(options, note, statistics.median(imports))
    done = subprocess.run(
        [options.torch, "-c", BARE_LOOP, str(TARGET / "gpu_tests.py")], capture_output=True, text=True, check=False
    )
    lines = done.stdout.splitlines()
    note(
        "bf16 product, TFLOP/s: our loop, the whole test, a bare loop; ratios of the first two to the last",
        json.loads(lines[-1]) if lines else done.stderr[-2000:],
    )
    took, full = seconds_of([*OURS, "confirm", "--full", "--yes", "--python", options.torch, "--format", "json"])
    (options.out / "receipt-full.json").write_text(full)
    note("confirm --full, s", round(took, 1))
    receipt = json.loads(full)
    note("confirm --full, outcomes", {f"{one['test']}@{one['subject']}": one["outcome"] for one in receipt["tests"]})
    note("confirm --full, reasons", {one["test"]: one["reason"] for one in receipt["tests"] if one["reason"]})
    for form in ("text", "markdown"):
        _, text = seconds_of([*OURS, "confirm", "--python", options.torch, "--format", form])
        (options.out / f"receipt.{'md' if form == 'markdown' else 'txt'}").write_text(text)
    for turn in (1, 2) if options.faults else ():
        took, text = seconds_of(
            [sys.executable, "-m", "pytest", "-m", "gpu", "tests/gpu", "-q", "-rA", "-s", "-p", "no:cacheprovider"],
            TROUBLESHOOTER_TORCH_PYTHON=options.torch,
        )
        (options.out / f"faults-{turn}.txt").write_text(text)
        note(f"planted faults, turn {turn}", [text.splitlines()[-1] if text else "", round(took, 1)])


OURS = (sys.executable, "-m", "troubleshooter")


def quick(options: argparse.Namespace, note: Any, imported: float) -> None:
    times, rows, alarms = [], [], []
    for turn in range(options.runs):
        took, text = seconds_of([*OURS, "check", "--python", options.torch, "--format", "json"])
        report = json.loads(text)
        if turn == options.runs - 1:
            (options.out / "check.json").write_text(text)
        times.append(round(took, 2))
        rows.append({one["test"]: one["measured"].get("seconds_in_all") for one in report["tests"]})
        alarms += [[turn, one["test"], one["reason"]] for one in report["tests"] if one["outcome"] == "failed"]
        if report["verdict"] != "healthy":
            alarms.append([turn, report["verdict"], report["summary"]])
    note("check, s", times)
    note("check less the median import, s", [round(one - imported, 2) for one in times])
    note("false alarms", alarms)
    note("skipped", {one["test"]: one["reason"] for one in report["tests"] if one["outcome"] == "skipped"})
    note("seconds of each test, median", {name: median([row.get(name) for row in rows]) for name in rows[0]})
    for test in report["tests"]:
        figures = {name: value for name, value in test["measured"].items() if name not in ("archs", "name")}
        note(f"measured {test['test']}", figures)


def median(values: list[Any]) -> float:
    numbers = [float(one) for one in values if one is not None]
    return round(statistics.median(numbers), 3) if numbers else 0.0


def seconds_of(command: list[str], **env: str) -> tuple[float, str]:
    """(wall seconds, standard output; what else it printed goes through to ours)."""
    began = time.monotonic()
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
            **env,
        },
    )
    return time.monotonic() - began, done.stdout


if __name__ == "__main__":
    main()

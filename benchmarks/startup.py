"""How long a cold `troubleshoot log` takes, as a multiple of `python -c pass`: python benchmarks/startup.py --python ENV/bin/python

ENV is a clean virtual environment with the built wheel in it. Every round runs each command once, in turn, so that all
share what else the machine does; the ratio is that of the medians. `--record` adds the figures to RESULTS.md.
Then, in this process: how many texts a second `diagnose_text` reads with the knowledge loaded once.
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

RESULTS = Path(__file__).with_name("RESULTS.md")
LIMITS = {"plain": 5.0, "json": 5.0, "rich": 9.0, "read-only home": 5.0}

PASTE = """\
Traceback (most recent call last):
  File "/home/someone/train.py", line 41, in <module>
    main()
  File "/home/someone/train.py", line 33, in main
    model = Net().to("cuda")
  File "/home/someone/venv/lib/python3.10/site-packages/torch/nn/modules/module.py", line 1160, in to
    return self._apply(convert)
  File "/home/someone/venv/lib/python3.10/site-packages/torch/nn/modules/module.py", line 810, in _apply
    module._apply(fn)
  File "/home/someone/venv/lib/python3.10/site-packages/torch/nn/modules/module.py", line 833, in _apply
    param_applied = fn(param)
  File "/home/someone/venv/lib/python3.10/site-packages/torch/nn/modules/module.py", line 1158, in convert
    return t.to(device, dtype if t.is_floating_point() or t.is_complex() else None, non_blocking)
  File "/home/someone/venv/lib/python3.10/site-packages/torch/cuda/__init__.py", line 247, in _lazy_init
    torch._C._cuda_init()
RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver.
srun: error: node01: task 0: Exited with exit code 1
[rank0] exiting
make: *** [Makefile:12: train] Error 1
Done in 12.3 s
"""

KNOWLEDGE = """\
import sys, time
from troubleshooter import cli, pipeline
start = time.perf_counter()
from troubleshooter.knowledge import load
load()
print((time.perf_counter() - start) * 1000, "yaml" in sys.modules)
"""

TEXTS = """\
import sys, time
from troubleshooter.knowledge import load
from troubleshooter.model import Request
from troubleshooter.pipeline import diagnose_text
knowledge, data = load(), open(sys.argv[1], "rb").read()
best = 0.0
for _ in range(5):
    start = time.perf_counter()
    for number in range(100):
        diagnose_text(Request(((str(number), data),), engine=sys.argv[2]), knowledge)
    best = max(best, 100 / (time.perf_counter() - start))
print(best)
"""


def cold(command: list[str], environment: dict[str, str], terminal: bool = False) -> float:
    """Seconds from the start to the end of a program."""
    if not terminal:
        start = time.perf_counter()
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        return time.perf_counter() - start
    import pty

    ours, theirs = pty.openpty()
    start = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
    os.close(theirs)
    try:
        while os.read(ours, 65536):
            pass
    except OSError:  # how a pseudo-terminal says that nobody has it open any more
        pass
    process.wait()
    took = time.perf_counter() - start
    os.close(ours)
    return took


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--python", default=sys.executable, help="that of a clean environment with the wheel")
    options.add_argument("--rounds", type=int, default=21)
    options.add_argument("--record", action="store_true", help="add the figures to RESULTS.md")
    given = options.parse_args()
    python = given.python
    command = str(Path(python).with_name("troubleshoot"))
    with tempfile.TemporaryDirectory() as folder:
        paste = os.path.join(folder, "paste.txt")
        Path(paste).write_text(PASTE, encoding="utf-8")
        # A home that is a file cannot be written to by anybody, not even by root.
        usual = {**os.environ, "TERM": "xterm-256color"}
        no_home = {**usual, "HOME": paste, "XDG_CACHE_HOME": f"{paste}/cache"}
        log = [command, "log", paste]
        runs: dict[str, Callable[[], float]] = {
            "pass": lambda: cold([python, "-c", "pass"], usual),
            "plain": lambda: cold(log, usual),
            "json": lambda: cold([*log, "--format", "json"], usual),
            "read-only home": lambda: cold(log, no_home),
        }
        if sys.platform != "win32":
            runs["rich"] = lambda: cold(log, usual, terminal=True)
        took: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(given.rounds):
            for name, run in runs.items():
                took[name].append(run())
        loads = [_answer(python, KNOWLEDGE) for _ in range(given.rounds)]
        texts = {engine: _texts_a_second(python, paste, engine) for engine in ("python", "durable")}

    base = statistics.median(took["pass"])
    figures = [f"pass {base * 1000:.1f} ms"]
    missed = []
    for name, limit in LIMITS.items():
        if name in took:
            ratio = statistics.median(took[name]) / base
            figures.append(f"{name} {ratio:.2f}x (limit {limit:g}x)")
            missed += [name] if ratio > limit else []
    knowledge = min(float(answer[0]) for answer in loads)  # in ms, so free of what else the machine did
    with_yaml = any(answer[1] == "True" for answer in loads)
    figures.append(f"knowledge {knowledge:.1f} ms (limit 15 ms), YAML {'' if with_yaml else 'not '}imported")
    missed += ["knowledge"] if knowledge > 15 or with_yaml else []
    figures += [f"{rate:.0f} texts a second ({engine})" for engine, rate in texts.items() if rate]
    print("\n".join(figures))
    if missed:
        print(f"missed: {', '.join(missed)}", file=sys.stderr)
    if given.record:
        _record(figures, "with [durable]" if texts["durable"] else "without [durable]")
    return bool(missed)


def _answer(python: str, code: str, *arguments: str) -> list[str]:
    done = subprocess.run([python, "-I", "-c", code, *arguments], capture_output=True, text=True, check=False)
    return done.stdout.split() or ["nan", "?"]


def _texts_a_second(python: str, paste: str, engine: str) -> float:
    """0 where the engine is not installed."""
    answer = _answer(python, TEXTS, paste, engine)[0]
    return 0.0 if answer == "nan" else float(answer)


def _record(figures: list[str], environment: str) -> None:
    day = datetime.now(tz=timezone.utc).date().isoformat()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(f"\n## `benchmarks/startup.py` {environment} ({day}; {machine})\n\n{'; '.join(figures)}\n")


if __name__ == "__main__":
    raise SystemExit(main())

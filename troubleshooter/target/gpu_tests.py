"""Tests that prove what a torch can do, in the target Python: arguments are a mode, names of tests, and what to leave out.

    gpu_tests.py MODE TEST,TEST… [TEST@DEVICE,…] [SECONDS]

MODE is quick or full. What stands in the third argument was done by an earlier process and is not repeated. SECONDS is
how long a quick run may take in all; a test that is not begun by then is skipped. A test ends as passed, failed or
skipped, with what was measured; whether the figures are good enough is judged by who reads them. A device that answered
with an error of CUDA answers every later call with it, so the process ends then and a fresh one does the rest.

Imports modules that are built into the interpreter and nothing else, as `channel.py` explains.
"""

import os
import sys
import time

MIB = 1 << 20
FOLDER = os.path.dirname(os.path.abspath(__file__))
PARTS = {
    "cpu": "torch_tests.py",
    "torch": "torch_tests.py",
    "memory": "memory_tests.py",
    "speed": "speed_tests.py",
    "multi": "multi_tests.py",
    "env": "env_tests.py",
}
"""The script that holds the tests whose names begin so."""
FIRST = ("torch.init", "torch.arch")
"""Where one of these fails on a GPU, no other test of torch can do better there."""
WITHOUT_A_GPU = ("cpu",)
OF_ALL_GPUS = ("multi", "env")


def part(script):
    """A script of this folder as a module; tests find what they share in "troubleshooter_kit"."""
    name = "troubleshooter_" + script[:-3]
    if name not in sys.modules:
        module = type(sys)(name)
        module.__file__ = os.path.join(FOLDER, script)
        sys.modules[name] = module
        with open(module.__file__, "rb") as file:
            exec(compile(file.read(), module.__file__, "exec"), module.__dict__)
    return sys.modules[name]


def test_of(name):
    """The function of a test."""
    part("kit.py")
    return part(PARTS[name.split(".")[0]]).TESTS[name]


def no_memory(error):
    return type(error).__name__ == "OutOfMemoryError" or "out of memory" in str(error).lower()


def others_hold_it(torch, index):
    """Why there was no memory, if it was not this process that took it."""
    try:
        free, total = torch.cuda.mem_get_info(index)
    except Exception as error:
        return "the GPU has no memory for even a first context: %s" % error if no_memory(error) else ""
    if free < total // 4 or free < 1024 * MIB:
        return "%d of %d MiB of the GPU's memory are free; other processes hold the rest" % (free // MIB, total // MIB)
    return ""


def attempt(torch, test, index, mode):
    """One test to an end: (outcome, measured, expected, reason, exception or None)."""
    try:
        measured, expected = test_of(test)(torch, index, mode)
    except BaseException as error:
        kit = part("kit.py")
        if isinstance(error, kit.Skipped):
            return "skipped", {}, {}, str(error), None
        if isinstance(error, kit.Failed):
            return "failed", error.measured, error.expected, str(error), None
        if index is not None and no_memory(error):
            free_all(torch)
            held = others_hold_it(torch, index)
            if held:
                return "skipped", {}, {}, held, None
        return "failed", {}, {}, "", error
    return "passed", measured, expected, "", None


def free_all(torch):
    try:
        torch.cuda.empty_cache()
    except BaseException:
        pass


def main(channel, arguments):
    if not arguments or arguments[0].startswith("-"):
        channel.say("usage", text=__doc__)
        return
    asked = arguments[1].split(",") if len(arguments) > 1 else ["torch.init", "torch.matmul", "cpu.tensor"]
    done = set(arguments[2].split(",")) if len(arguments) > 2 else set()
    seconds = float(arguments[3]) or None if len(arguments) > 3 else None
    imported, _ = channel.step("import-torch", lambda: __import__("torch") and None)
    if imported:
        run_tests(channel, sys.modules["torch"], arguments[0], asked, done, seconds)


def run_tests(channel, torch, mode, asked, done=(), seconds=None):
    """Each test on each GPU, until one leaves its GPU in a state in which it answers no more."""
    began_all = time.time()
    broken = {}
    for test in asked:
        for index in subjects(torch, test):
            if "%s@%s" % (test, "cpu" if index is None else index) in done:
                continue
            why_not = broken.get(index, "")
            if seconds is not None and time.time() - began_all > seconds:
                why_not = "the %.3g s of a quick run were over; --full does it" % seconds
            if why_not:
                channel.say("after", step="test", test=test, device=index, outcome="skipped", reason=why_not)
                continue
            channel.say("before", step="test", test=test, device=index)
            began = time.time()
            outcome, measured, expected, reason, error = attempt(torch, test, index, mode)
            told = {} if error is None else {"error": channel.describe(error)}
            free_all(torch)
            channel.say(
                "after",
                step="test",
                test=test,
                device=index,
                outcome=outcome,
                measured=measured,
                expected=expected,
                reason=reason,
                took=round(time.time() - began, 3),
                **told,
            )
            if error is not None and index is not None:
                return
            if outcome == "failed" and test in FIRST:
                broken[index] = "%s failed on this GPU" % test


def subjects(torch, test):
    """Indices of the GPUs that a test is for; None where it speaks of the whole machine."""
    group = test.split(".")[0]
    return [None] if group in WITHOUT_A_GPU or group in OF_ALL_GPUS else devices(torch)


def devices(torch):
    """Indices of the GPUs; the first one where torch counts none, so that the tests can fail on it."""
    try:
        return list(range(max(1, min(64, int(torch.cuda.device_count())))))
    except Exception:
        return [0]


if __name__ == "__main__":
    # By hand: python gpu_tests.py quick torch.matmul
    names = {"__name__": "channel"}
    with open(os.path.join(FOLDER, "channel.py"), "rb") as source:
        exec(compile(source.read(), os.path.join(FOLDER, "channel.py"), "exec"), names)
    sys.path[0] = os.getcwd()
    names["run"]("", os.path.abspath(__file__), sys.argv[1:])

"""Faults planted in software on a real card: each must be found and rightly named. Nothing of the card is changed."""

import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from troubleshooter import confirm
from troubleshooter.judge import judge
from troubleshooter.knowledge import load
from troubleshooter.machine import LiveMachine
from troubleshooter.model import Fact, Source

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parent.parent.parent
TARGET = ROOT / "troubleshooter" / "target"
GOOD = {"torch.import": "ok", "torch.cuda_available": True, "torch.build": "cuda"}
needs_gcc = pytest.mark.skipif(not shutil.which("gcc"), reason="there is no gcc")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="built for Linux")


@pytest.fixture(scope="module")
def python():
    named = os.environ.get("TROUBLESHOOTER_TORCH_PYTHON")
    if not named:
        pytest.skip("TROUBLESHOOTER_TORCH_PYTHON names no interpreter with a torch that sees a GPU")
    return named


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    """No memory of other tests: neither the state folder's nor the kernel's, whose log keeps each planted fault."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("dmesg", "journalctl"):
        (programs / name).write_text('#!/bin/sh\necho "$0: Operation not permitted" >&2\nexit 1\n')
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")


def troubleshoot(*words, text="", **env):
    """(exit code, report) of our command line."""
    done = subprocess.run(
        [sys.executable, "-m", "troubleshooter", *words, "--format", "json"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), env.pop("PYTHONPATH", "")]).rstrip(":"), **env},
    )
    assert done.stdout, done.stderr[-3000:]
    return done.returncode, json.loads(done.stdout)


def named_first(report):
    return report["diagnoses"][0]["id"] if report["diagnoses"] else ""


def outcomes(report):
    return {one["test"]: one["outcome"] for one in report["tests"]}


def in_torch(python, code, *, env=None, seconds=120):
    """A script in the target with the tests at hand; (exit code, last line, everything on stderr)."""
    head = (
        f"path = {str(TARGET / 'gpu_tests.py')!r}\n"
        "tests = {'__name__': 'gpu_tests', '__file__': path}\n"
        "exec(compile(open(path, 'rb').read(), path, 'exec'), tests)\n"
        "import json, os, torch\npart, attempt = tests['part'], tests['attempt']\nkit = part('kit.py')\n"
    )
    done = subprocess.run(
        [python, "-c", head + code],
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
        env={**os.environ, **(env or {})},
    )
    return done.returncode, (done.stdout.splitlines() or [""])[-1], done.stderr


def run_tests(python, *only, mode="quick"):
    facts = tuple(Fact(name, "host", "present", value, Source("target", "target")) for name, value in GOOD.items())
    results = confirm.run_tests(LiveMachine(), python, mode, facts, only=only, seconds=120)
    return {one.test: one for one in judge(results, facts, load().tables)}


# --- computing


def test_one_wrong_element_in_a_product_of_the_card_fails_the_test(python):
    code = """
right = torch.matmul
def wrong(left, other, **also):
    product = right(left, other, **also)
    if product.is_cuda and product.dtype == torch.float32 and product.shape == (129, 65):
        product[77, 3] += 30
    return product
torch.matmul = wrong
print(json.dumps(attempt(torch, "torch.matmul", 0, "quick")[1]))
"""
    _, printed, errors = in_torch(python, code)
    assert printed, errors
    assert json.loads(printed)["error_float32"] > 1e-2
    assert json.loads(printed)["error_float64"] < 1e-14


AFTER_IMPORT = """
import builtins, sys
_import, _done = builtins.__import__, []
def _patched(name, *rest, **also):
    module = _import(name, *rest, **also)
    torch = sys.modules.get("torch")
    if not _done and torch is not None and hasattr(torch, "compile") and hasattr(torch.nn.functional, "conv2d"):
        _done.append(1)
        plant(torch)
    return module
builtins.__import__ = _patched
"""


def planted(folder, plant):
    (folder / "sitecustomize.py").write_text(plant + AFTER_IMPORT)
    return str(folder)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("torch.zeros(3, device='cuda')[torch.tensor([99], device='cuda')]; torch.cuda.synchronize()", "assert"),
        ("__import__('os').kill(__import__('os').getpid(), 11)", "died by SIGSEGV"),
        ("__import__('time').sleep(999)", "hung"),
    ],
)
def test_an_assert_a_crash_and_a_hang_cost_one_test_and_no_other(python, tmp_path, monkeypatch, body, words):
    plant = (
        f"def plant(torch):\n    def broken(*given, **also):\n        {body}\n    torch.nn.functional.conv2d = broken\n"
    )
    monkeypatch.setenv("PYTHONPATH", planted(tmp_path, plant))
    facts = tuple(Fact(name, "host", "present", value, Source("target", "target")) for name, value in GOOD.items())
    results = confirm.run_tests(
        LiveMachine(), python, "full", facts, only=("torch.init", "torch.conv", "torch.fft"), alive_limit=8
    )
    found = {one.test: one for one in results}
    assert {test: one.outcome for test, one in found.items()} == {
        "torch.init": "passed",
        "torch.conv": "failed",
        "torch.fft": "passed",
    }
    assert words in found["torch.conv"].reason + str(found["torch.conv"].measured.get("error"))


ILLEGAL = """
import ctypes
torch.zeros(1, device="cuda")
library = ctypes.CDLL("libcuda.so.1")
ptx = b'''.version 6.0
.target sm_50
.address_size 64
.visible .entry bad() { .reg .b64 a; mov.u64 a, 16; st.global.u32 [a], 1; ret; }
'''
module, function = ctypes.c_void_p(), ctypes.c_void_p()
assert library.cuModuleLoadData(ctypes.byref(module), ptx) == 0
assert library.cuModuleGetFunction(ctypes.byref(function), module, b"bad") == 0
library.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None)
torch.cuda.synchronize()
"""
FORKED = """
torch.zeros(1, device="cuda")
import multiprocessing
def work():
    torch.zeros(1, device="cuda")
process = multiprocessing.get_context("fork").Process(target=work)
process.start(); process.join()
"""
ASSERT = "torch.zeros(3, device='cuda')[torch.tensor([99], device='cuda')]; torch.cuda.synchronize()"


@pytest.mark.parametrize(
    ("code", "diagnosis"),
    [(ASSERT, "device-side-assert"), (ILLEGAL, "illegal-memory-access"), (FORKED, "cuda-init-in-fork")],
)
def test_what_torch_prints_of_a_fault_names_its_cause(python, code, diagnosis):
    _, _, errors = in_torch(python, code)
    _, report = troubleshoot("log", "-", text=errors)
    assert named_first(report) == diagnosis, errors[-2000:]


def test_two_ranks_of_nccl_on_one_card_are_named(python):
    code = """
try:
    part("multi_tests.py").together([0, 0], "nccl", 1000)
except kit.Failed as failure:
    print(json.dumps([str(failure), failure.measured["error"]]))
"""
    _, printed, errors = in_torch(python, code)
    assert printed, errors
    reason, said = json.loads(printed)
    assert "died" in reason
    _, report = troubleshoot("log", "-", text=said)
    assert named_first(report) == "nccl-duplicate-gpu", said[-2000:]


@on_linux
def test_a_full_shared_memory_fails_the_workers_and_is_named(python):
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("a small /dev/shm of our own needs root and unshare")
    code = "print(json.dumps(str(attempt(torch, 'env.dataloader', None, 'quick')[4])))"
    head = Path(TARGET / "gpu_tests.py")
    script = (
        f"path = {str(head)!r}; tests = {{'__name__': 'g', '__file__': path}}\n"
        "exec(compile(open(path, 'rb').read(), path, 'exec'), tests)\n"
        "import json, torch; attempt = tests['attempt']\n" + code
    )
    mount = 'mount -t tmpfs -o size=9m none /dev/shm && exec "$0" -c "$1"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", mount, python, script], capture_output=True, text=True, check=False, timeout=120
    )
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"no mounts here: {done.stderr[:200]}")
    said = json.loads(done.stdout.splitlines()[-1]) + "\n" + done.stderr
    assert "None" not in said[:4]
    _, report = troubleshoot("log", "-", text=said)
    assert named_first(report) == "shm-too-small", said[-2000:]


# --- the whole command


@pytest.fixture
def healthy(python):
    return troubleshoot("check", "--python", python)


def test_a_healthy_machine_is_healthy(healthy):
    code, report = healthy
    assert (report["verdict"], code) == ("healthy", 0), [one for one in report["tests"] if one["outcome"] == "failed"]
    assert "failed" not in outcomes(report).values()


def test_a_hidden_card_is_found_and_the_receipt_says_resolved_afterwards(python):
    _, report = troubleshoot("check", "--python", python, CUDA_VISIBLE_DEVICES="-1")
    assert named_first(report) == "cuda-visible-devices-wrong"
    _, receipt = troubleshoot("confirm", "--python", python)
    assert receipt["change"]["word"] == "resolved"
    assert receipt["change"]["before"] == ["cuda-visible-devices-wrong"]


def built(folder, name, source, *options):
    (folder / f"{name}.c").write_text(source)
    command = ["gcc", "-shared", "-fPIC", "-o", str(folder / name), str(folder / f"{name}.c"), *options]
    subprocess.run(command, check=True, capture_output=True)


def real_library(name):
    listed = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    for line in listed.splitlines():
        if name in line and "x86-64" in line:
            return line.rsplit("=> ", 1)[1].strip()
    return ""


def shim(folder, name, ours):
    """A library of that name which passes every call on to the real one, but for the functions defined in `ours`."""
    real = real_library(name)
    assert real, f"the real {name} was not found"
    listed = subprocess.run(["nm", "-D", "--defined-only", real], capture_output=True, text=True, check=True).stdout
    exported = [line.split() for line in listed.splitlines()]
    names = [word[2].split("@")[0] for word in exported if len(word) == 3 and word[1] in "TtWi"]
    passed_on = [one for one in dict.fromkeys(names) if not re.search(rf"\b{one}\(", ours) and one[0] != "_"]
    jumps = "".join(
        f'__asm__(".text\\n.globl {one}\\n.type {one},@function\\n{one}: jmp *(slots+{8 * place})(%rip)\\n");\n'
        for place, one in enumerate(passed_on)
    )
    listed_in_c = ", ".join(f'"{one}"' for one in passed_on)
    source = f"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
__attribute__((visibility("hidden"))) void *slots[{len(passed_on) + 1}];
static const char *names[] = {{{listed_in_c}}};
static void *real;
__attribute__((constructor)) static void start(void) {{
  real = dlopen("{os.path.realpath(real)}", RTLD_NOW);
  for (unsigned i = 0; i < sizeof names / sizeof *names; i++) slots[i] = dlsym(real, names[i]);
}}
{jumps}
{ours}
"""
    built(folder, name, source, f"-Wl,-soname,{name}", "-ldl")


OLD_CUDA = """
int cuDriverGetVersion(int *version) { *version = 12020; return 0; }
typedef int (*get_v2)(const char *, void **, int, unsigned long long, int *);
int cuGetProcAddress_v2(const char *name, void **found, int version, unsigned long long flags, int *status) {
  void *ours = !strcmp(name, "cuDriverGetVersion") ? (void *)cuDriverGetVersion
             : !strcmp(name, "cuGetProcAddress") && version >= 12000 ? (void *)cuGetProcAddress_v2 : 0;
  if (ours) { *found = ours; if (status) *status = 0; return 0; }
  return ((get_v2)dlsym(real, "cuGetProcAddress_v2"))(name, found, version, flags, status);
}
"""
OLD_NVML = """
int nvmlSystemGetDriverVersion(char *text, unsigned size) { strncpy(text, "535.54.03", size); return 0; }
int nvmlSystemGetCudaDriverVersion(int *version) { *version = 12020; return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 12020; return 0; }
"""


@needs_gcc
@on_linux
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the shim's jumps are those of x86-64")
def test_an_old_driver_is_the_first_diagnosis_and_the_receipt_says_resolved_without_it(python, healthy, tmp_path):
    torch_cuda = next(one["value"] for one in healthy[1]["facts"] if one["name"] == "torch.cuda")
    if int(str(torch_cuda).split(".")[0]) < 13:
        pytest.skip("this torch works with the driver that the shim plays")
    shim(tmp_path, "libcuda.so.1", OLD_CUDA)
    shim(tmp_path, "libnvidia-ml.so.1", OLD_NVML)
    _, report = troubleshoot("check", "--python", python, LD_LIBRARY_PATH=str(tmp_path))
    assert named_first(report) == "driver-too-old-for-cuda", json.dumps(report["diagnoses"])[:3000]
    _, receipt = troubleshoot("confirm", "--python", python)
    assert receipt["change"]["word"] == "resolved"


@needs_gcc
@on_linux
def test_a_library_that_shadows_torchs_own_is_found_and_gone_afterwards(python, healthy, tmp_path):
    torch_cuda = next(one["value"] for one in healthy[1]["facts"] if one["name"] == "torch.cuda")
    major = str(torch_cuda).split(".")[0]
    built(tmp_path, f"libnvJitLink.so.{major}", "int nothing_of_use;\n", f"-Wl,-soname,libnvJitLink.so.{major}")
    _, report = troubleshoot("check", "--python", python, LD_LIBRARY_PATH=str(tmp_path))
    if report["verdict"] == "healthy":
        pytest.skip("this torch finds its own libraries first")
    assert named_first(report) in ("nvjitlink-mismatch", "library-path-pollution")
    _, receipt = troubleshoot("confirm", "--python", python)
    assert receipt["change"]["word"] == "resolved"


# --- manners

HOG = """
import sys, time, torch
free, total = torch.cuda.mem_get_info(0)
held = torch.ones(int(total * 0.6) // 4, device="cuda")
torch.cuda.synchronize()
print("holding", flush=True)
sys.stdin.readline()
print("kept" if float(held[::4096].min()) == 1.0 == float(held[::4096].max()) else "spoilt", flush=True)
"""


@pytest.fixture
def hog(python):
    with subprocess.Popen([python, "-c", HOG], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().strip() == "holding"
        yield process
        process.kill()


def test_a_process_that_holds_most_of_the_card_neither_fails_the_quick_tests_nor_is_failed_by_them(python, hog):
    code, report = troubleshoot("check", "--python", python)
    assert "failed" not in outcomes(report).values(), [one for one in report["tests"] if one["outcome"] == "failed"]
    assert outcomes(report)["torch.matmul"] == "passed"
    hog.stdin.write("\n")
    hog.stdin.flush()
    assert hog.stdout.readline().strip() == "kept"


def test_the_whole_card_is_not_taken_from_another_process_without_consent(python, hog):
    _, receipt = troubleshoot("confirm", "--python", python, "--full", "--only", "memory.patterns", "driver.memory")
    assert set(outcomes(receipt).values()) == {"skipped"}


def used_mib():
    done = subprocess.run(
        ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", "0"],
        capture_output=True,
        text=True,
        check=False,
    )
    return int(done.stdout.split()[0])


@on_linux
def test_an_interrupt_frees_the_card_within_a_second(python):
    before = used_mib()
    process = subprocess.Popen(
        [sys.executable, "-m", "troubleshooter", "confirm", "--full", "--yes", "--python", python],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
    )
    until = time.monotonic() + 60
    while used_mib() < before + 4096 and time.monotonic() < until:
        time.sleep(0.05)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=10) == 130
    ended = time.monotonic() - began
    while used_mib() > before + 512 and time.monotonic() < began + 10:
        time.sleep(0.02)
    freed = time.monotonic() - began
    print(f"ended after {ended:.2f} s, freed after {freed:.2f} s")
    # nvidia-smi itself takes a good part of it.
    assert freed <= 1.5

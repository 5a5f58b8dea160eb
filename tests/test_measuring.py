"""The tests themselves, on the CPU of a real torch: what they measure when all is well, and when something is wrong."""

import importlib.util
import json
import os
import subprocess
from pathlib import Path

import pytest

from troubleshooter.confirm import run_tests
from troubleshooter.judge import judge
from troubleshooter.knowledge import load
from troubleshooter.machine import LiveMachine
from troubleshooter.model import Fact, Source, TestResult

TARGET = Path(importlib.util.find_spec("troubleshooter").origin).parent / "target"
CPU = {"torch.import": "ok", "torch.cuda_available": False, "torch.build": "cpu"}


@pytest.fixture(scope="module")
def real():
    python = os.environ.get("TROUBLESHOOTER_TORCH_PYTHON")
    if not python:
        pytest.skip("TROUBLESHOOTER_TORCH_PYTHON names no interpreter with a real torch")
    return python


@pytest.fixture(scope="module")
def tables():
    return load().tables


def in_real_torch(real, code, seconds=120):
    """What `code` prints as its last line, as JSON, in the real torch; `part` gives a script of the tests."""
    head = (
        f"path = {str(TARGET / 'gpu_tests.py')!r}\n"
        "tests = {'__name__': 'gpu_tests', '__file__': path}\n"
        "exec(compile(open(path, 'rb').read(), path, 'exec'), tests)\n"
        "import json, torch\n"
        "part, attempt = tests['part'], tests['attempt']\n"
        "kit = part('kit.py')\n"
    )
    done = subprocess.run([real, "-c", head + code], capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def judged(test, measured, tables, subject="gpu:0", gpu=""):
    facts = [Fact("gpu.name", subject, "present", gpu, Source("probe", "nvml"))] if gpu else []
    (result,) = judge([TestResult(test, subject, "passed", measured, {})], facts, tables)
    return result


# --- what a healthy torch gives


ON_THE_CPU = ("torch.conv", "torch.rnn", "torch.fft", "torch.reduce", "torch.autograd", "env.dataloader", "env.spawn")


@pytest.fixture(scope="module")
def healthy(real):
    code = f"""
found = {{}}
for test in {ON_THE_CPU!r}:
    outcome, measured, expected, reason, error = attempt(torch, test, None, "quick")
    found[test] = [outcome, measured, reason or repr(error)]
print(json.dumps(found))
"""
    return in_real_torch(real, code)


@pytest.mark.parametrize("test", ON_THE_CPU)
def test_a_healthy_torch_is_within_every_bound(healthy, tables, test):
    outcome, measured, reason = healthy[test]
    assert outcome == "passed", reason
    result = judged(test, measured, tables)
    assert (result.outcome, result.reason) == ("passed", "")
    assert result.expected, "nothing was judged"


def test_a_real_torch_passes_the_test_of_the_cpu(real, tables, tmp_path):
    facts = tuple(Fact(name, "host", "present", value, Source("target", "target")) for name, value in CPU.items())
    results = judge(run_tests(LiveMachine(), real, "quick", facts, cwd=str(tmp_path)), facts, tables)
    (result,) = [one for one in results if one.test == "cpu.tensor"]
    assert result.outcome == "passed"
    assert 0 < result.measured["error_float32"] <= result.expected["error_float32_at_most"]


def test_products_of_every_number_type_are_within_their_bounds(real, tables):
    code = """
products, found = part("torch_tests.py"), {}
for name in kit.number_types(torch, None):
    kit.note_worst(found, "error_" + name, products.product_error(torch, "cpu", name, 129, 257, 65))
    kit.note_worst(found, "error_" + name, products.batched_error(torch, "cpu", name))
    found["error_%s_large" % name], same = products.projected_error(torch, "cpu", name, 512)
    found["repeats_differ"] = found.get("repeats_differ", 0) + (not same)
print(json.dumps(found))
"""
    measured = in_real_torch(real, code)
    assert {"error_float32", "error_bfloat16", "error_float64", "error_float32_large"} <= set(measured)
    assert judged("torch.matmul", measured, tables).outcome == "passed"


# --- what is wrong is seen


@pytest.mark.parametrize("spoil", ["1.01", "float('nan')", "float('inf')"])
def test_one_wrong_element_in_a_product_fails_the_test(real, tables, spoil):
    code = f"""
right, products = torch.matmul, part("torch_tests.py")
def wrong(left, other, **also):
    product = right(left, other, **also)
    if product.dtype != torch.float64:
        product.view(-1)[product.abs().argmax()] *= {spoil}
    return product
torch.matmul = wrong
print(json.dumps({{"error_float32": str(products.product_error(torch, "cpu", "float32", 129, 257, 65))}}))
"""
    text = in_real_torch(real, code)["error_float32"]
    # As the channel brings it: NaN and infinity are texts.
    measured = {"error_float32": text if text in ("nan", "inf") else float(text)}
    result = judged("torch.matmul", measured, tables)
    assert result.outcome == "failed"
    assert result.reason.startswith("error_float32 is ")


def test_wrong_layers_reductions_and_gradients_fail_their_tests(real, tables):
    code = """
found = {}
def spoilt(owner, name, test, change):
    right = getattr(owner, name)
    setattr(owner, name, lambda *given, **also: change(right(*given, **also)))
    outcome, measured, _, reason, error = attempt(torch, test, None, "quick")
    setattr(owner, name, right)
    found[name] = [test, measured, reason or repr(error)]
def louder(result):
    return result * 1.001 if result.dtype == torch.float32 else result
spoilt(torch.nn.functional, "conv2d", "torch.conv", louder)
spoilt(torch.fft, "fft", "torch.fft", lambda result: result * 1.001 if result.dtype == torch.complex64 else result)
spoilt(torch, "relu", "torch.autograd", lambda result: result)
spoilt(torch, "cumsum", "torch.reduce", lambda result, calls=[]: calls.append(1) or result + (len(calls) == 1))
spoilt(torch.nn.functional, "layer_norm", "torch.autograd", louder)
print(json.dumps(found))
"""
    found = in_real_torch(real, code)
    outcomes = {name: judged(test, measured, tables).outcome for name, (test, measured, _) in found.items()}
    assert outcomes == {
        "conv2d": "failed",
        "fft": "failed",
        "relu": "passed",
        "cumsum": "failed",
        "layer_norm": "failed",
    }
    assert found["cumsum"][1]["wrong"] == ["cumsum-of-integers"]


def test_a_test_that_torch_cannot_do_is_skipped_and_one_that_raises_has_failed(real):
    code = """
del torch.cumsum
skipped = attempt(torch, "torch.reduce", None, "quick")
def broken(*given): raise RuntimeError("CUDA error: an illegal memory access was encountered")
torch.nn.functional.conv2d = broken
failed = attempt(torch, "torch.conv", None, "quick")
print(json.dumps([skipped[0], skipped[3], failed[0], str(failed[4])]))
"""
    assert in_real_torch(real, code) == [
        "skipped",
        "this torch has no cumsum",
        "failed",
        "CUDA error: an illegal memory access was encountered",
    ]


# --- several processes together, on the CPU


def test_processes_that_add_up_rightly_pass(real):
    code = "print(json.dumps(part('multi_tests.py').together([-1, -1, -1], 'gloo', 1000)[0]))"
    assert in_real_torch(real, code)["ranks"] == 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("float(2 ** rank)|float(2 ** rank) if rank != 1 else 0.0", "the part of rank 1 is missing in it"),
        ("dist.all_reduce(data)|dist.all_reduce(data); rank == 2 and data.sub_(1)", "the sum is wrong on rank 2"),
        ("dist.all_reduce(data)|rank == 1 and os.abort(); dist.all_reduce(data)", "rank 1 died"),
        ("dist.all_reduce(data)|rank == 0 and __import__('time').sleep(99); dist.all_reduce(data)", "did not end"),
    ],
)
def test_the_process_that_is_wrong_dies_or_hangs_is_named(real, change, words):
    before, after = change.split("|")
    seconds = 12 if words == "did not end" else 100
    code = f"""
tests = part("multi_tests.py")
try:
    tests.together([-1, -1, -1], "gloo", 1000, {seconds}, tests.RANK.replace({before!r}, {after!r}))
except kit.Failed as failure:
    print(json.dumps(str(failure)))
"""
    assert words in in_real_torch(real, code)


def test_a_copy_that_does_not_arrive_names_its_pair(real):
    code = """
tests = part("multi_tests.py")
sent = [torch.arange(1000) * 3 + n for n in range(3)]
right = torch.equal
healthy = tests.copies(torch, sent, lambda n: None)
torch.equal = lambda a, b: right(a, b) and int(b[0]) != 2
print(json.dumps([healthy["wrong"], tests.copies(torch, sent, lambda n: None)["wrong"]]))
"""
    assert in_real_torch(real, code) == [[], ["2-0", "2-1"]]


def test_access_between_pairs_in_one_direction_alone_is_named(real, tables):
    code = """
can = {(a, b): True for a in range(3) for b in range(3) if a != b}
can[1, 2] = False
can[0, 2] = can[2, 0] = False
print(json.dumps(part("multi_tests.py").peers(can)))
"""
    measured = in_real_torch(real, code)
    assert (measured["one_way"], measured["without"]) == (["2-1"], ["0-2"])
    assert judged("multi.peer", measured, tables, "host").outcome == "failed"


# --- rates


def test_rates_are_measured_on_the_cpu_too(real):
    code = """
speed, found = part("speed_tests.py"), {}
for name in ("float32", "bfloat16"):
    work, operations = speed.product(torch, None, name, 256)
    found[name] = kit.rate_of(torch, None, work, operations, 0.02)
print(json.dumps([found, speed.under_load(torch, 0)]))
"""
    rates, without_a_driver = in_real_torch(real, code)
    assert all(best >= worst > 0 for best, worst in rates.values())
    assert without_a_driver == {}

"""Running the tests of GPU and CPU: which are run, and what a crash, a hang or a wrong result becomes."""

import importlib.util
import os
import time
from pathlib import Path

import pytest
from fake_torch import attributes, make_target

from troubleshooter import confirm, model
from troubleshooter.machine import LiveMachine
from troubleshooter.model import ABSENT, Claim, Fact, Source, present, unknown
from troubleshooter.probes.python_target import probe_target

SOURCE = Source("target", "target")
HERE = Path(__file__).parent
GOOD = {"torch.import": "ok", "torch.cuda_available": True, "torch.build": "cuda"}
CPU = {"torch.import": "ok", "torch.cuda_available": False, "torch.build": "cpu"}
TWO = (("NVIDIA A100", (8, 0)), ("NVIDIA A100", (8, 0)))


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in ("PYTHONPATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_MODULE_LOADING"):
        monkeypatch.delenv(name, raising=False)


def facts(**stated):
    return tuple(Fact(name, "host", "present", value, SOURCE) for name, value in stated.items())


def run(python, tmp_path, known=GOOD, mode="quick", **limits):
    limits = {"seconds": 20, "alive_limit": 10, **limits}
    return confirm.run_tests(LiveMachine(), str(python), mode, facts(**known), cwd=str(tmp_path), **limits)


def outcomes(results):
    return {(one.test, one.subject): one.outcome for one in results}


def with_init(lines: str, devices=TWO) -> str:
    """A torch of attributes whose cuda.init does `lines`, and that counts in a file how often it was imported."""
    return attributes(devices=devices) + f"\n    @staticmethod\n    def init():\n        import os\n        {lines}\n"


# --- which tests


def test_a_torch_without_tensors_passes_what_it_can_and_skips_the_rest_with_the_reason(tmp_path):
    results = run(make_target(tmp_path / "venv"), tmp_path)
    assert outcomes(results) == {
        ("torch.init", "gpu:0"): "passed",
        ("torch.matmul", "gpu:0"): "skipped",
        ("memory.patterns", "gpu:0"): "skipped",
    }
    assert results[1].reason == "this torch has no randn"


def test_every_gpu_is_a_subject_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,2")
    results = run(make_target(tmp_path / "venv", attributes(devices=TWO)), tmp_path, only=("torch.init",))
    assert outcomes(results) == {("torch.init", "gpu:4"): "passed", ("torch.init", "gpu:2"): "passed"}


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({"torch.import": "crashed"}, "cannot be imported"),
        ({}, "not known"),
        ({**GOOD, "torch.cuda_available": False}, "sees no usable GPU"),
        (CPU, "for the CPU alone"),
        ({"torch.import": "ok"}, "whether torch sees a GPU is not known"),
    ],
)
def test_gpu_tests_that_make_no_sense_are_skipped_in_plain_words(tmp_path, known, words):
    results = run(make_target(tmp_path / "venv"), tmp_path, known)
    skipped = [one for one in results if one.test in confirm.GPU_TESTS]
    assert [one.outcome for one in skipped] == ["skipped"] * 3
    assert all(words in one.reason for one in skipped)


def test_without_a_gpu_the_cpu_is_tested(tmp_path):
    results = run(make_target(tmp_path / "venv"), tmp_path, CPU)
    assert ("cpu.tensor", "host") in outcomes(results)


def test_an_absent_torch_starts_no_process(tmp_path):
    known = (Fact("torch.import", "host", ABSENT, None, SOURCE),)
    results = confirm.run_tests(LiveMachine(), "/no/such/python", "quick", known)
    assert {one.reason for one in results} == {"torch is not installed in this Python"}


def test_the_mode_no_tests_nothing(tmp_path):
    assert run("python", tmp_path, mode="no") == ()


# --- what goes wrong


@pytest.mark.skipif(os.name == "nt", reason="signals are a matter of POSIX")
def test_a_crash_fails_its_test_and_a_fresh_process_does_the_rest(tmp_path):
    source = with_init("import ctypes; ctypes.string_at(0)")
    results = run(make_target(tmp_path / "venv", source), tmp_path)
    assert outcomes(results) == {
        (test, f"gpu:{index}"): "failed" if test == "torch.init" else "skipped"
        for test in confirm.GPU_TESTS
        for index in (0, 1)
    }
    assert results[0].reason == "the test died by SIGSEGV"
    assert "Segmentation fault" in results[0].measured["error"]


def test_an_exception_fails_its_test_with_its_first_line(tmp_path):
    source = with_init(r"raise RuntimeError('CUDA error: no kernel image\nCompile with TORCH_USE_CUDA_DSA')")
    results = run(make_target(tmp_path / "venv", source), tmp_path)
    failed = [one for one in results if one.outcome == "failed"]
    assert {one.test for one in failed} == {"torch.init"}
    assert {one.reason for one in failed} == {"RuntimeError: CUDA error: no kernel image"}
    assert len(results) == 6
    assert "TORCH_USE_CUDA_DSA" in confirm.test_transcripts(results)[0].text


def test_a_hang_fails_its_test_within_the_limit(tmp_path):
    source = with_init("import time; time.sleep(1000)", devices=TWO[:1])
    began = time.monotonic()
    results = run(make_target(tmp_path / "venv", source), tmp_path, alive_limit=1)
    assert time.monotonic() - began < 10
    assert outcomes(results)["torch.init", "gpu:0"] == "failed"
    assert "hung" in results[0].reason
    assert len(results) == 3


def test_memory_that_another_process_holds_is_no_failure(tmp_path):
    source = with_init("raise RuntimeError('CUDA error: out of memory')", devices=TWO[:1])
    source += "\n    @staticmethod\n    def mem_get_info(index):\n        return 100 << 20, 24 << 30\n"
    source += "\n    @staticmethod\n    def empty_cache(): pass\n"
    results = run(make_target(tmp_path / "venv", source), tmp_path)
    assert outcomes(results)["torch.init", "gpu:0"] == "skipped"
    assert results[0].reason == "100 of 24576 MiB of the GPU's memory are free; other processes hold the rest"


def test_memory_that_runs_out_on_an_empty_card_is_a_failure(tmp_path):
    source = with_init("raise RuntimeError('CUDA error: out of memory')", devices=TWO[:1])
    source += "\n    @staticmethod\n    def mem_get_info(index):\n        return 23 << 30, 24 << 30\n"
    assert outcomes(run(make_target(tmp_path / "venv", source), tmp_path))["torch.init", "gpu:0"] == "failed"


def test_a_torch_that_sees_no_gpu_after_all_fails_its_first_test(tmp_path):
    results = run(make_target(tmp_path / "venv", attributes(available=False)), tmp_path)
    assert outcomes(results)["torch.init", "gpu:0"] == "failed"
    assert "is_available() is False" in results[0].reason


def test_an_import_that_fails_in_the_process_of_the_tests_skips_them(tmp_path):
    results = run(make_target(tmp_path / "venv", "raise ImportError('gone')"), tmp_path)
    assert set(outcomes(results).values()) == {"skipped"}
    assert "gone" in results[0].reason


# --- in the process that imported torch


COUNTS_ITSELF = "import os\nwith open(os.environ['COUNTED'], 'a') as file:\n    file.write('imported\\n')\n"


def after_import(python, tmp_path, monkeypatch):
    """What the process of the import said, the results of all tests, and how often torch was imported for them."""
    counted = tmp_path / "counted"
    monkeypatch.setenv("COUNTED", str(counted))
    limits = {"seconds": 20, "alive_limit": 10, "cwd": str(tmp_path)}
    told = probe_target(LiveMachine(), str(python), confirm.tests_after_import("quick"), **limits)
    stated = {one.name: one for one in told.said if isinstance(one, Claim)}
    known = facts(**{name: stated[name].value for name in GOOD})
    results = confirm.run_tests(LiveMachine(), str(python), "quick", known, begun=told.tests, **limits)
    return told, results, len(counted.read_text().splitlines())


def test_torch_is_imported_once_for_what_it_tells_and_for_its_tests(tmp_path, monkeypatch):
    python = make_target(tmp_path / "venv", COUNTS_ITSELF + attributes(devices=TWO))
    told, results, imports = after_import(python, tmp_path, monkeypatch)
    assert imports == 1
    assert told.tests.script == "gpu_tests.py"
    assert outcomes(results) == {
        (test, f"gpu:{index}"): "passed" if test == "torch.init" else "skipped"
        for test in confirm.GPU_TESTS
        for index in (0, 1)
    }


@pytest.mark.skipif(os.name == "nt", reason="signals are a matter of POSIX")
def test_a_crash_in_a_test_takes_nothing_from_what_the_import_told(tmp_path, monkeypatch):
    dies = "cuda.calls = getattr(cuda, 'calls', 0) + 1; cuda.calls == 2 and os.kill(os.getpid(), 11)"
    python = make_target(tmp_path / "venv", COUNTS_ITSELF + with_init(dies, devices=TWO[:1]))
    told, results, imports = after_import(python, tmp_path, monkeypatch)
    stated = {one.name: one for one in told.said if isinstance(one, Claim)}
    assert stated["torch.import"].value == "ok"
    assert stated["torch.import_step"].state == ABSENT
    assert not any("Segmentation fault" in one.text for one in told.said if isinstance(one, model.Transcript))
    assert imports == 2  # a fresh process does the rest
    assert outcomes(results)["torch.init", "gpu:0"] == "failed"
    assert results[0].reason == "the test died by SIGSEGV"
    assert "Segmentation fault" in results[0].measured["error"]
    assert len(results) == 3


# --- claims


def test_results_become_claims_and_a_skipped_test_stays_unknown():
    results = (
        model.TestResult("torch.matmul", "gpu:0", "passed", {}, {}),
        model.TestResult("memory.patterns", "gpu:0", "failed", {}, {}, "3 rows"),
        model.TestResult("torch.init", "gpu:1", "skipped", {}, {}, "no memory"),
    )
    passed, failed, skipped = confirm.test_claims(results)
    assert passed == present("test.torch.matmul", "passed", passed.source, "gpu:0")
    assert (failed.value, failed.reason, failed.source.via) == ("failed", "3 rows", "process")
    assert skipped == unknown("test.torch.init", "no memory", skipped.source, "gpu:1")


# --- the tests themselves, on the CPU of a real torch


@pytest.fixture(scope="module")
def real():
    python = os.environ.get("TROUBLESHOOTER_TORCH_PYTHON")
    if not python:
        pytest.skip("TROUBLESHOOTER_TORCH_PYTHON names no interpreter with a real torch")
    return python


def in_real_torch(real, code):
    """What `code` prints in the real torch, with the tests at hand as `tests`."""
    import subprocess

    load = (
        "import importlib.util, torch\n"
        f"spec = importlib.util.spec_from_file_location('gpu_tests', {str(gpu_tests_file())!r})\n"
        "tests = importlib.util.module_from_spec(spec); spec.loader.exec_module(tests)\n"
    )
    done = subprocess.run([real, "-c", load + code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def gpu_tests_file():
    return Path(importlib.util.find_spec("troubleshooter").origin).parent / "target" / "gpu_tests.py"


def test_a_real_torch_passes_the_test_of_the_cpu(real, tmp_path):
    (result,) = [one for one in run(real, tmp_path, CPU, seconds=60, alive_limit=30) if one.test == "cpu.tensor"]
    assert result.outcome == "passed"
    assert 0 < result.measured["error_float32"] <= result.expected["error_float32_at_most"]


def test_products_of_all_number_types_are_within_their_bounds(real):
    code = """
for name in ("float32", "float16", "bfloat16"):
    assert tests.product_error(torch, "cpu", name, 129, 257, 65) <= tests.BOUNDS[name], name
    assert tests.projected_error(torch, "cpu", name, 512) <= tests.BOUNDS[name], name
"""
    in_real_torch(real, code)


def test_a_single_wrong_element_and_a_nan_are_seen_in_a_product(real):
    code = """
right = torch.matmul
for spoil in (1.01, float("nan"), float("inf")):
    def wrong(a, b, **also):
        product = right(a, b, **also)
        if product.dtype != torch.float64:
            product[77, 3] *= spoil
            product[product.abs().argmax() // product.shape[1]] *= spoil
        return product
    torch.matmul = wrong
    found = []
    tests.compare(found, {}, {}, "float32", tests.product_error(torch, "cpu", "float32", 129, 257, 65))
    assert len(found) == 1, spoil
"""
    in_real_torch(real, code)


def test_healthy_memory_gives_back_every_pattern(real):
    code = "print(tests.pattern_errors(torch, 'cpu', 8 << 20, row_bytes=1 << 20, chunk_bytes=3 << 20))"
    printed = in_real_torch(real, code)
    assert "'tested_mib': 8" in printed
    assert "'passes': 7" in printed
    assert "'wrong_rows': 0" in printed


def test_every_kind_of_bad_bit_is_found(real):
    code = """
def stuck_at_1(pattern, chunks): chunks[1][0, 5] |= 1 << 40
def stuck_at_0(pattern, chunks): chunks[0][2, 9] &= ~(1 << 3)
def flipped_once(pattern, chunks):
    if pattern == "address": chunks[2][1, -1] ^= 1
def wrong_address(pattern, chunks):
    if pattern == "address": chunks[0][0, 7] = chunks[0][1, 7]
for disturb in (stuck_at_1, stuck_at_0, flipped_once, wrong_address):
    found = tests.pattern_errors(torch, "cpu", 8 << 20, row_bytes=1 << 20, chunk_bytes=3 << 20, disturb=disturb)
    assert found["wrong_rows"] > 0, disturb
    print(disturb.__name__, *found["wrong_patterns"])
"""
    printed = in_real_torch(real, code).splitlines()
    assert printed[0].startswith("stuck_at_1 0x00")
    assert printed[1].startswith("stuck_at_0 0xff")
    assert printed[2:] == ["flipped_once address", "wrong_address address"]

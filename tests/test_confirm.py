"""Running the tests of GPU and CPU: which are run, and what a crash, a hang or a wrong result becomes."""

import os
import time
from pathlib import Path

import pytest
from fake_torch import attributes, make_target

from troubleshooter import confirm, model
from troubleshooter.knowledge import load
from troubleshooter.knowledge.read import TESTS
from troubleshooter.machine import LiveMachine
from troubleshooter.model import ABSENT, Claim, Fact, Source, present, unknown
from troubleshooter.pipeline import verdict
from troubleshooter.probes.python_target import probe_target
from troubleshooter.settle import settle

SOURCE = Source("target", "target")
HERE = Path(__file__).parent
GOOD = {"torch.import": "ok", "torch.cuda_available": True, "torch.build": "cuda"}
CPU = {"torch.import": "ok", "torch.cuda_available": False, "torch.build": "cpu"}
QUICK = [test for test in confirm.asked_for("quick") if test not in confirm.CPU_TESTS]
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


def per_gpu(init, count=2):
    """What a torch of attributes gives: only torch.init can be done, and multi.* speak of all GPUs at once."""
    expected = {}
    for test in QUICK:
        for index in range(count):
            subject = "host" if test.startswith("multi.") else f"gpu:{index}"
            expected[test, subject] = init if test == "torch.init" else "skipped"
    return expected


def with_init(lines: str, devices=TWO) -> str:
    """A torch of attributes whose cuda.init does `lines`, and that counts in a file how often it was imported."""
    return attributes(devices=devices) + f"\n    @staticmethod\n    def init():\n        import os\n        {lines}\n"


# --- which tests


def test_a_torch_without_tensors_passes_what_it_can_and_skips_the_rest_with_the_reason(tmp_path):
    results = run(make_target(tmp_path / "venv"), tmp_path)
    assert [one.test for one in results] == QUICK
    found = {one.test: one for one in results}
    assert (found["torch.init"].outcome, found["torch.init"].subject) == ("passed", "gpu:0")
    assert {one.outcome for one in results[1:]} == {"skipped"}
    assert found["torch.matmul"].reason == "this torch has no randn"
    assert found["multi.peer"].reason == "torch sees 1 GPU; the test needs two"


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
    assert [(one.test, one.outcome) for one in skipped] == [(test, "skipped") for test in QUICK]
    assert all(words in one.reason for one in skipped)


def test_without_a_gpu_the_cpu_is_tested(tmp_path):
    results = run(make_target(tmp_path / "venv"), tmp_path, CPU)
    assert ("cpu.tensor", "host") in outcomes(results)


def test_an_absent_torch_starts_no_process(tmp_path):
    known = (Fact("torch.import", "host", ABSENT, None, SOURCE),)
    results = confirm.run_tests(LiveMachine(), "/no/such/python", "quick", known)
    assert [one.test for one in results] == confirm.asked_for("quick")
    assert {one.reason for one in results} == {"torch is not installed in this Python"}


def test_the_mode_no_tests_nothing(tmp_path):
    assert run("python", tmp_path, mode="no") == ()


# --- what goes wrong


@pytest.mark.skipif(os.name == "nt", reason="signals are a matter of POSIX")
def test_a_crash_fails_its_test_and_a_fresh_process_does_the_rest(tmp_path):
    source = with_init("import ctypes; ctypes.string_at(0)")
    results = run(make_target(tmp_path / "venv", source), tmp_path)
    assert outcomes(results) == per_gpu(init="failed")
    assert results[0].reason == "the test died by SIGSEGV"
    assert {one.reason for one in results if one.test == "torch.conv"} == {"torch.init failed on this GPU"}
    assert "Segmentation fault" in results[0].measured["error"]


def test_an_exception_fails_its_test_with_its_first_line(tmp_path):
    source = with_init(r"raise RuntimeError('CUDA error: no kernel image\nCompile with TORCH_USE_CUDA_DSA')")
    results = run(make_target(tmp_path / "venv", source), tmp_path)
    failed = [one for one in results if one.outcome == "failed"]
    assert {one.test for one in failed} == {"torch.init"}
    assert {one.reason for one in failed} == {"RuntimeError: CUDA error: no kernel image"}
    assert outcomes(results) == per_gpu(init="failed")
    assert "TORCH_USE_CUDA_DSA" in confirm.test_transcripts(results)[0].text


def test_a_hang_fails_its_test_within_the_limit(tmp_path):
    source = with_init("import time; time.sleep(1000)", devices=TWO[:1])
    began = time.monotonic()
    results = run(make_target(tmp_path / "venv", source), tmp_path, alive_limit=1)
    assert time.monotonic() - began < 10
    assert outcomes(results)["torch.init", "gpu:0"] == "failed"
    assert "hung" in results[0].reason
    assert outcomes(results) == per_gpu(init="failed", count=1)


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


@pytest.mark.skipif(os.name == "nt", reason="signals are a matter of POSIX")
def test_after_three_deaths_the_rest_is_given_up(tmp_path):
    devices = tuple((f"NVIDIA A100 {number}", (8, 0)) for number in range(6))
    source = with_init("import ctypes; ctypes.string_at(0)", devices=devices)
    known = {**GOOD, "torch.device_count": 6}
    results = run(make_target(tmp_path / "venv", source), tmp_path, known, only=("torch.init", "torch.fft"))
    found = {(one.test, one.subject): one for one in results}
    assert [found["torch.init", f"gpu:{number}"].outcome for number in range(3)] == ["failed"] * 3
    assert {one.reason for one in results if one.outcome == "skipped"} == {
        "torch.init failed on this GPU",
        "3 processes of the tests died or hung before it",
    }
    assert len(results) == 12


def test_a_quick_run_begins_no_test_after_its_time(tmp_path):
    pause = confirm.QUICK_SECONDS + 0.5
    source = with_init(f"import time; time.sleep({pause})", devices=TWO[:1])
    results = run(make_target(tmp_path / "venv", source), tmp_path)
    assert [one.test for one in results] == QUICK
    assert outcomes(results)["torch.init", "gpu:0"] == "passed"
    assert {one.reason for one in results[1:]} == {
        f"the {confirm.QUICK_SECONDS:g} s of a quick run were over; --full does it"
    }
    assert run(make_target(tmp_path / "other", source), tmp_path, only=("torch.init", "torch.fft"), mode="full")[
        1
    ].reason.startswith("this torch has no fft")


def test_tests_are_named_singly_or_by_their_group():
    assert confirm.asked_for("quick", ("multi", "torch.init")) == [
        "torch.init",
        "multi.peer",
        "multi.copy",
        "multi.allreduce",
    ]
    assert set(confirm.asked_for("full")) > set(confirm.asked_for("quick"))
    assert {*confirm.asked_for("full"), *confirm.DRIVER} == set(TESTS)


def test_consent_to_the_whole_card_reaches_the_process_and_nothing_else_does(monkeypatch):
    monkeypatch.setenv("TROUBLESHOOTER_WHOLE_CARD", "yes")
    environ = dict(os.environ)
    assert confirm.environment_for_tests(environ, agreed=False)["TROUBLESHOOTER_WHOLE_CARD"] is None
    assert confirm.environment_for_tests(environ, agreed=True)["TROUBLESHOOTER_WHOLE_CARD"] == "yes"


def test_a_machine_on_which_a_test_failed_is_not_healthy_though_others_passed():
    def verdict_of(*pairs):
        tests = [model.TestResult(test, "gpu:0", outcome, {}, {}) for test, outcome in pairs]
        return verdict((), (), settle(confirm.test_claims(tests), load().facts))

    assert verdict_of(("torch.matmul", "passed")) == "healthy"
    assert verdict_of(("torch.matmul", "passed"), ("speed.copy", "failed")) == "inconclusive"
    assert verdict_of(("env.spawn", "passed"), ("driver.memory", "passed")) == "inconclusive"


# --- in the process that imported torch


COUNTS_ITSELF = "import os\nwith open(os.environ['COUNTED'], 'a') as file:\n    file.write('imported\\n')\n"


def after_import(python, tmp_path, monkeypatch):
    """What the process of the import said, the results of all tests, and how often torch was imported for them."""
    counted = tmp_path / "counted"
    monkeypatch.setenv("COUNTED", str(counted))
    limits = {"seconds": 20, "alive_limit": 10, "cwd": str(tmp_path)}
    told = probe_target(LiveMachine(), str(python), confirm.arguments_after_import("quick"), **limits)
    stated = {one.name: one for one in told.said if isinstance(one, Claim)}
    known = facts(**{name: stated[name].value for name in GOOD})
    results = confirm.run_tests(LiveMachine(), str(python), "quick", known, begun=told.tests, **limits)
    return told, results, len(counted.read_text().splitlines())


def test_torch_is_imported_once_for_what_it_tells_and_for_its_tests(tmp_path, monkeypatch):
    python = make_target(tmp_path / "venv", COUNTS_ITSELF + attributes(devices=TWO))
    told, results, imports = after_import(python, tmp_path, monkeypatch)
    assert imports == 1
    assert told.tests.script == "gpu_tests.py"
    assert outcomes(results) == per_gpu(init="passed")


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
    assert outcomes(results) == per_gpu(init="failed", count=1)


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

"""The tests of driver and card, on a card of our own: a libcuda that is built here and runs the very kernels."""

import ctypes
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import fake_cuda
import pytest

from troubleshooter import confirm, interpreter, whole_card
from troubleshooter.knowledge import load
from troubleshooter.machine import LiveMachine
from troubleshooter.model import Source, TestResult, present
from troubleshooter.pipeline import think, verdict
from troubleshooter.target import driver_tests, gpu_use

pytestmark = pytest.mark.skipif(not fake_cuda.GCC or sys.platform != "linux", reason="needs gcc and Linux")

MIB = 1 << 20
ALL = (1 << 64) - 1
FAULTS = (
    "CARDS MIB BUSY_MIB STUCK LOST WRONG_SUM ERROR HANG CRASH MODE LOG NVML PIDS DISPLAY USED_MIB NO_LIST OLD".split()  # fmt: skip
)


@pytest.fixture(scope="session")
def fake(tmp_path_factory):
    return fake_cuda.build(tmp_path_factory.mktemp("fake-cuda"), driver_tests.ptx())


@pytest.fixture(autouse=True)
def no_faults(monkeypatch):
    for name in FAULTS:
        monkeypatch.delenv("FAKE_" + name, raising=False)
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def gpu(fake):
    driver = driver_tests.Driver(ctypes, ctypes.CDLL(str(fake / "libcuda.so.1")))
    driver("cuInit", 0)
    found = driver_tests.Gpu(driver, 0)
    found.load(driver_tests.ptx())
    yield found
    found.close()


def run(fake, *arguments, seconds=20.0, alive_limit=10.0, **faults):
    """What the script reports when the card has these faults: {(test, subject): result}."""
    env = {"LD_LIBRARY_PATH": str(fake), **{"FAKE_" + name: str(value) for name, value in faults.items()}}
    done = interpreter.run_script(
        LiveMachine(), sys.executable, "driver_tests.py", arguments, seconds=seconds, alive_limit=alive_limit, env=env
    )
    return {(one.test, one.subject): one for one in confirm.results_of_recording([done._asdict()], {})}


def outcomes(results):
    return {test if subject == "host" else f"{test}@{subject}": one.outcome for (test, subject), one in results.items()}


# --- the kernels


def test_the_kernels_assemble_for_every_card_that_this_assembler_knows(tmp_path):
    assembler = os.environ.get("TROUBLESHOOTER_PTXAS") or shutil.which("ptxas")
    if not assembler:
        pytest.skip("there is no ptxas on PATH")
    source = tmp_path / "kernels.ptx"
    source.write_text(driver_tests.ptx())
    well = []
    for arch in ("sm_50", "sm_61", "sm_70", "sm_75", "sm_80", "sm_90", "sm_100", "sm_120"):
        command = [assembler, f"-arch={arch}", str(source), "-o", str(tmp_path / "kernels.cubin")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if "is not defined" not in done.stderr:
            assert done.returncode == 0, done.stderr
            well.append(arch)
    assert len(well) >= 3


def plain(address, first, second):
    return first ^ (address & second)


@pytest.mark.parametrize("first", [0, ALL, 0x5555555555555555])
@pytest.mark.parametrize("second", [0, ALL])
def test_a_plain_pattern_is_what_its_formula_says_in_every_word(gpu, first, second):
    size = 3 * driver_tests.BLOCK_BYTES
    start = gpu.allocate(size)
    gpu.launch("write_plain", 3, start, first, second, 0)
    got = struct.unpack(f"<{size // 8}Q", gpu.download(start, size))
    assert list(got) == [plain(start + 8 * n, first, second) for n in range(size // 8)]
    gpu.release(start)


def test_noise_repeats_nowhere_and_its_inverse_is_its_inverse(gpu):
    size = 64 * driver_tests.BLOCK_BYTES
    start = gpu.allocate(size)
    gpu.launch("write_noise", 64, start, driver_tests.SEED, 0, 0)
    words = struct.unpack(f"<{size // 8}Q", gpu.download(start, size))
    gpu.launch("write_noise", 64, start, driver_tests.SEED, ALL, 0)
    inverse = struct.unpack(f"<{size // 8}Q", gpu.download(start, size))
    gpu.release(start)
    assert len(set(words)) == len(words)
    assert [one ^ ALL for one in words] == list(inverse)
    ones = sum(word.bit_count() for word in words) / (64 * len(words))
    assert 0.49 < ones < 0.51


def test_turning_checks_and_leaves_the_inverse(gpu):
    size = 2 * driver_tests.BLOCK_BYTES
    start, report = gpu.allocate(size), gpu.allocate(driver_tests.REPORT_BYTES)
    gpu.launch("write_noise", 2, start, 7, 0, 0)
    gpu.launch("turn_noise", 2, start, 7, 0, report)
    assert driver_tests.read_report(gpu.download(report, driver_tests.REPORT_BYTES))["wrong_words"] == 0
    gpu.launch("check_noise", 2, start, 7, ALL, report)
    assert driver_tests.read_report(gpu.download(report, driver_tests.REPORT_BYTES))["wrong_words"] == 0
    gpu.launch("check_noise", 2, start, 7, 0, report)
    found = driver_tests.read_report(gpu.download(report, driver_tests.REPORT_BYTES))
    assert (found["wrong_words"], found["bits"]) == (size // 8, ALL)
    gpu.release(start)
    gpu.release(report)


def test_arithmetic_has_one_right_answer_for_each_lane(gpu):
    assert driver_tests.wrong_results(gpu, blocks=3) == 0

    def spoil(address):
        gpu.upload(address + 8 * 300, b"\x01")

    assert driver_tests.wrong_results(gpu, blocks=3, between=spoil) == 1


# --- planted faults


def flip(gpu, address, bit):
    byte = gpu.download(address + bit // 8, 1)[0] ^ (1 << bit % 8)
    gpu.upload(address + bit // 8, bytes([byte]))


@pytest.mark.parametrize("pattern", [name for name, *_ in driver_tests.PATTERNS] + ["random-inverted"])
def test_a_flipped_bit_is_found_in_every_pattern_and_located(gpu, pattern):
    chunks = driver_tests.chunks_of(gpu, 14 * MIB)
    assert [size // MIB for _, size in chunks] == [8, 4, 2]
    places = [(chunks[0][0], 0), (chunks[1][0] + 8 * 77, 63), (chunks[2][0] + chunks[2][1] - 8, 13)]

    def between(name, chunks):
        for address, bit in places if name == pattern else ():
            flip(gpu, address, bit)

    _, found = driver_tests.run_patterns(gpu, chunks, between)
    for address, _ in chunks:
        gpu.release(address)
    assert {name: one["wrong_words"] for name, one in found if one["wrong_words"]} == {pattern: 3}
    one = dict(found)[pattern]
    assert one["bits"] == 1 | 1 << 63 | 1 << 13
    assert {(address, got ^ wanted) for address, got, wanted in one["records"]} == {
        (address, 1 << bit) for address, bit in places
    }
    assert driver_tests.place_of(places[2][0], chunks) == 14 * MIB - 8


def test_healthy_memory_has_no_wrong_word(gpu):
    measured, expected = driver_tests.examine_memory(gpu, 16 * MIB)
    assert measured["wrong_words"] == expected["wrong_words"] == 0
    assert (measured["tested_mib"], measured["patterns"]) == (16, 8)


def test_more_wrong_words_than_records_are_counted_all(gpu):
    def between(name, chunks):
        if name == "address":
            gpu.upload(chunks[0][0] + 800, b"\xff" * 800)

    with pytest.raises(driver_tests.Failed) as failure:
        driver_tests.examine_memory(gpu, 4 * MIB, between=between)
    assert failure.value.measured["wrong_words"] == 100
    assert len(failure.value.measured["first_wrong"]) == driver_tests.RECORDS


def test_words_that_changed_places_are_found_by_their_addresses(gpu):
    def between(name, chunks):
        if name == "address":
            start = chunks[0][0]
            gpu.upload(start, gpu.download(start + MIB, 8))

    with pytest.raises(driver_tests.Failed) as failure:
        driver_tests.examine_memory(gpu, 4 * MIB, between=between)
    assert failure.value.measured["wrong_patterns"] == ["address"]


@pytest.mark.parametrize(("fault", "value"), [("STUCK", "1234567:5"), ("LOST", "1234567")])
def test_a_card_with_bad_memory_fails_with_the_place(fake, fault, value):
    result = run(fake, "--quick", **{fault: value})["driver.memory", "gpu:0"]
    assert result.outcome == "failed"
    assert "byte 1234560 of the tested memory" in result.reason
    assert result.measured["wrong_words"] >= 3


def test_a_card_that_computes_wrongly_fails(fake):
    result = run(fake, "--quick", WRONG_SUM=1)["driver.context", "gpu:0"]
    assert (result.outcome, result.reason) == ("failed", "the GPU computed 1 wrong results")


# --- what a driver can do


def test_a_healthy_card_passes(fake):
    assert outcomes(run(fake, "--quick", CARDS=2)) == {
        "driver.init": "passed",
        "driver.context@gpu:0": "passed",
        "driver.memory@gpu:0": "passed",
        "driver.context@gpu:1": "passed",
        "driver.memory@gpu:1": "passed",
    }


def test_no_driver_is_nothing_to_test(tmp_path):
    (tmp_path / "libcuda.so.1").write_text("not a library")
    result = run(tmp_path, "--quick")["driver.init", "host"]
    assert result.outcome == "skipped"
    assert "cannot be loaded" in result.reason


@pytest.mark.parametrize(
    ("code", "outcome", "words"),
    [(999, "failed", "CUDA_ERROR_UNKNOWN (999)"), (100, "skipped", "finds no GPU"), (802, "failed", "(802)")],
)
def test_a_driver_that_does_not_start_fails_and_nothing_else_is_tried(fake, code, outcome, words):
    results = run(fake, "--quick", ERROR=f"cuInit={code}")
    assert outcomes(results) == {"driver.init": outcome}
    assert words in results["driver.init", "host"].reason


def test_a_card_that_refuses_a_context_fails_by_the_name_of_the_error(fake):
    results = run(fake, "--quick", ERROR="cuCtxCreate_v2=46")
    assert outcomes(results) == {
        "driver.init": "passed",
        "driver.context@gpu:0": "failed",
        "driver.memory@gpu:0": "skipped",
    }
    assert results["driver.context", "gpu:0"].reason == "cuCtxCreate_v2: CUDA_ERROR_DEVICE_UNAVAILABLE (46)"


def test_no_memory_for_a_context_is_no_failure(fake):
    assert outcomes(run(fake, "--quick", ERROR="cuCtxCreate_v2=2"))["driver.context@gpu:0"] == "skipped"


def test_a_driver_without_its_compiler_passes_what_needs_none(fake):
    results = run(fake, "--quick", ERROR="cuModuleLoadData=221")
    assert results["driver.context", "gpu:0"].outcome == "passed"
    assert "JIT_COMPILER_NOT_FOUND" in str(results["driver.context", "gpu:0"].measured["not_tested"])
    assert results["driver.memory", "gpu:0"].outcome == "skipped"


def test_an_illegal_access_in_a_kernel_fails_its_test(fake):
    assert "(700)" in run(fake, "--quick", ERROR="cuEventQuery=700")["driver.context", "gpu:0"].reason


@pytest.mark.parametrize(("function", "test"), [("cuInit", "driver.init"), ("cuCtxCreate_v2", "driver.context")])
def test_a_driver_that_hangs_or_crashes_fails_the_test_in_which_it_did(fake, function, test):
    for fault, words in (("HANG", "hung"), ("CRASH", "SIGSEGV")):
        results = run(fake, "--quick", alive_limit=1.0, **{fault: function})
        (failed,) = [one for one in results.values() if one.outcome == "failed"]
        assert failed.test == test
        assert words in failed.reason


def test_a_card_that_admits_one_process_is_left_to_torch(fake):
    results = run(fake, "--quick", MODE=3)
    assert results["driver.context", "gpu:0"].outcome == "skipped"
    assert outcomes(run(fake, "--quick", "--alone", MODE=3))["driver.context@gpu:0"] == "passed"


# --- harm nobody


@pytest.mark.parametrize(
    ("mode", "free", "who", "borrowing", "most"),
    [
        ("quick", 80, [], "", 40),
        ("quick", 80, ["1 other process"], "", 1),
        ("quick", 80, None, "", 1),
        ("quick", 80, [], "Windows manages the GPU's memory", 1),
        ("quick", 1, ["a display"], "", 0.5),
        ("full", 80, [], "", 80 - 1 / 16),
        ("full", 60, ["1 other process"], "", 56),
        ("full", 60, None, "", 56),
        ("full", 60, [], "the GPU shares the memory of the machine", 30),
    ],
)
def test_a_test_takes_no_more_than_harms_nobody(mode, free, who, borrowing, most):
    gib = 1 << 30
    assert gpu_use.most_bytes(mode, free * gib, 80 * gib, who, borrowing) == most * gib


def in_process_users(fake, monkeypatch, ours=0, **faults):
    for name, value in faults.items():
        monkeypatch.setenv("FAKE_" + name, str(value))
    nvml = ctypes.CDLL(str(fake / "libnvidia-ml.so.1"))

    class Here:
        """ctypes that loads this NVML."""

        def __getattr__(self, name):
            return getattr(ctypes, name)

        def CDLL(self, name):  # noqa: N802 - the name that ctypes has
            return nvml

    return gpu_use.users(Here(), b"0000:01:00.0", ours=ours)


def test_our_own_process_is_no_other_even_under_a_strange_number(fake, monkeypatch):
    assert in_process_users(fake, monkeypatch, PIDS=os.getpid()) == []
    assert in_process_users(fake, monkeypatch, PIDS=4000000, ours=1) == []
    assert in_process_users(fake, monkeypatch, PIDS=f"{os.getpid()},4000000", ours=1) == ["1 other process"]
    assert in_process_users(fake, monkeypatch, PIDS="", DISPLAY=1) == ["a display"]
    assert in_process_users(fake, monkeypatch, DISPLAY=0, USED_MIB=900) == ["900 MiB that something holds"]
    assert in_process_users(fake, monkeypatch, USED_MIB=900, PIDS=os.getpid(), ours=1) == []
    assert in_process_users(fake, monkeypatch, NVML=999) is None


def test_without_a_list_of_processes_the_memory_in_use_tells_whether_a_card_is_idle(fake, monkeypatch):
    assert in_process_users(fake, monkeypatch, NO_LIST=3) == []
    assert in_process_users(fake, monkeypatch, USED_MIB=600) == ["600 MiB that something holds"]
    assert in_process_users(fake, monkeypatch, OLD=3) is None


def test_the_whole_card_is_tested_when_nothing_else_uses_it(fake):
    result = run(fake, "--full", MIB=256)["driver.memory", "gpu:0"]
    assert (result.outcome, result.measured["tested_mib"]) == ("passed", 192)


def test_the_whole_card_is_not_tested_without_consent_when_something_uses_it(fake):
    refused = run(fake, "--full", MIB=256, PIDS=4000000)["driver.memory", "gpu:0"]
    assert refused.outcome == "skipped"
    assert "used by 1 other process" in refused.reason
    agreed = run(fake, "--full", "--yes", MIB=256, PIDS=4000000)["driver.memory", "gpu:0"]
    assert (agreed.outcome, agreed.measured["tested_mib"]) == ("passed", 242)


def test_everything_is_given_back_and_no_setting_is_touched(fake, tmp_path):
    log = tmp_path / "calls"
    run(fake, "--quick", STUCK="100:1", LOG=log)
    calls = log.read_text().split()
    assert calls.count("cuMemAlloc_v2") == calls.count("cuMemFree_v2") > 3
    assert calls.count("cuCtxCreate_v2") == calls.count("cuCtxDestroy_v2") == 1
    assert not [one for one in calls if "Set" in one and not one.startswith("cuMemset")]
    assert "Set" not in Path(gpu_use.__file__).read_text()


@pytest.mark.skipif(os.name == "nt", reason="signals are a matter of POSIX")
def test_an_interrupt_ends_a_test_that_waits_for_the_card_within_a_second(fake, tmp_path):
    script, log = Path(driver_tests.__file__), tmp_path / "calls"
    faults = {"FAKE_ERROR": "cuEventQuery=600", "FAKE_LOG": str(log)}
    env = {**os.environ, "LD_LIBRARY_PATH": str(fake), **faults}
    with subprocess.Popen([sys.executable, str(script), "--full"], env=env, stdout=subprocess.DEVNULL) as process:
        limit = time.monotonic() + 30
        while "cuEventQuery" not in (log.read_text() if log.exists() else ""):
            assert time.monotonic() < limit
            time.sleep(0.02)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.wait(5)
        assert time.monotonic() - began < 1


# --- consent


def test_what_uses_each_card_is_told_without_touching_it(fake, monkeypatch, tmp_path):
    log = tmp_path / "calls"
    for name, value in {"LD_LIBRARY_PATH": fake, "FAKE_CARDS": 2, "FAKE_PIDS": "1,2", "FAKE_LOG": log}.items():
        monkeypatch.setenv(name, str(value))
    assert whole_card.who_uses(LiveMachine(), sys.executable) == {
        "gpu:0": ("2 other processes",),
        "gpu:1": ("2 other processes",),
    }
    assert "cuCtxCreate_v2" not in log.read_text()


@pytest.mark.parametrize(
    ("uses", "yes", "answer", "allowed"),
    [
        ({"gpu:0": ()}, False, None, True),
        ({"gpu:0": ("a display",)}, False, None, False),
        ({"gpu:0": ("a display",)}, True, None, True),
        ({"gpu:0": None}, False, None, False),
        ({"gpu:0": ("a display",)}, False, "yes", True),
        ({"gpu:0": ("a display",)}, False, "Y ", True),
        ({"gpu:0": ("a display",)}, False, "", False),
        ({"gpu:0": ("a display",)}, False, "nyes", False),
    ],
)
def test_the_whole_card_asks_first_when_it_is_in_use(uses, yes, answer, allowed):
    asked = []

    def ask(question):
        asked.append(question)
        return answer

    reason = whole_card.why_not(uses, yes=yes, ask=None if answer is None else ask)
    assert (reason == "") is allowed
    assert len(asked) == (0 if answer is None else 1)


# --- what the outcomes mean


NOT_LOADED = {"pci.nvidia_count": 1, "driver.installed": True, "driver.loaded": False}
SOURCE = Source("probe", "file")


@pytest.fixture(scope="module")
def knowledge():
    return load()


def after(knowledge, stated, *results):
    """Confidence by diagnosis, and the verdict, of these facts and results of tests."""
    tests = [
        TestResult(test, "host" if test == "driver.init" else "gpu:0", outcome, {}, {}) for test, outcome in results
    ]
    claims = [present(name, value, SOURCE) for name, value in stated.items()]
    thought = think([*claims, *confirm.test_claims(tests)], knowledge, "python")
    return {one.id: one.confidence for one in thought.diagnoses}, verdict(thought.diagnoses, (), thought.facts)


def test_the_start_of_the_driver_speaks_for_and_against_what_would_prevent_it(knowledge):
    plain, _ = after(knowledge, NOT_LOADED)
    failed, _ = after(knowledge, NOT_LOADED, ("driver.init", "failed"))
    passed, _ = after(knowledge, NOT_LOADED, ("driver.init", "passed"))
    assert failed["driver-not-loaded"] > plain["driver-not-loaded"] > passed["driver-not-loaded"] + 0.05


def test_memory_that_fails_without_torch_is_a_fault_of_the_hardware(knowledge):
    found, told = after(knowledge, {}, ("driver.init", "passed"), ("driver.memory", "failed"))
    assert found["gpu-hardware-fault"] >= 0.5
    assert told == "problem"


def test_a_driver_that_passes_proves_no_torch(knowledge):
    driver = [(test, "passed") for test in ("driver.init", "driver.context", "driver.memory")]
    assert after(knowledge, {}, *driver) == ({}, "inconclusive")
    assert after(knowledge, {}, *driver, ("torch.init", "passed")) == ({}, "healthy")

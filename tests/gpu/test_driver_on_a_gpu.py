"""The driver's tests on a real card, without torch: planted faults, coverage, speed."""

import ctypes
import subprocess
import sys

import pytest

from troubleshooter import confirm, interpreter
from troubleshooter.machine import LiveMachine
from troubleshooter.target import driver_tests, gpu_use

pytestmark = pytest.mark.gpu

MIB = 1 << 20


@pytest.fixture(scope="module")
def gpu():
    try:
        driver = driver_tests.Driver(ctypes, gpu_use.cuda_library(ctypes))
        driver("cuInit", 0)
    except (OSError, driver_tests.CudaError) as error:
        pytest.skip(f"no driver of CUDA: {error}")
    found = driver_tests.Gpu(driver, driver.number("cuDeviceGet", 0))
    found.load(driver_tests.ptx())
    yield found
    found.close()


def run(*arguments):
    done = interpreter.run_script(
        LiveMachine(), sys.executable, "driver_tests.py", arguments, seconds=60, alive_limit=30
    )
    return {one.test: one for one in confirm.results_of_recording([done._asdict()], {})}


def test_a_healthy_card_passes_in_time_and_within_the_limits_of_a_quick_test():
    results = run("--quick", "--device", "0")
    assert {test: one.outcome for test, one in results.items()} == {
        "driver.init": "passed",
        "driver.context": "passed",
        "driver.memory": "passed",
    }
    assert sum(float(one.measured["seconds_in_all"]) for one in results.values()) < 4
    assert results["driver.memory"].measured["share_of_total"] <= 0.5


def test_the_whole_card_is_covered_at_nearly_the_speed_of_writing():
    measured = run("--full", "--device", "0", "--yes")["driver.memory"].measured
    assert measured["share_of_total"] >= 0.93
    assert measured["gb_per_s"] >= 0.92 * measured["write_gb_per_s"]


@pytest.mark.parametrize("pattern", [name for name, *_ in driver_tests.PATTERNS] + ["random-inverted"])
def test_a_flipped_bit_is_found_in_every_pattern_and_located(gpu, pattern):
    free, _ = gpu.free_and_total()
    chunks = driver_tests.chunks_of(gpu, free // 2)
    place = chunks[-1][0] + chunks[-1][1] - 8

    def between(name, chunks):
        if name == pattern:
            gpu.upload(place, bytes([gpu.download(place, 1)[0] ^ 16]))

    try:
        _, found = driver_tests.run_patterns(gpu, chunks, between)
    finally:
        for address, _ in chunks:
            gpu.release(address)
    wrong = {name: one for name, one in found if one["wrong_words"]}
    assert list(wrong) == [pattern]
    assert [(at, got ^ wanted) for at, got, wanted in wrong[pattern]["records"]] == [(place, 16)]


def test_a_wrong_result_of_arithmetic_is_found(gpu):
    def spoil(address):
        gpu.upload(address + 80, bytes([gpu.download(address + 80, 1)[0] ^ 1]))

    assert driver_tests.wrong_results(gpu) == 0
    assert driver_tests.wrong_results(gpu, between=spoil) == 1


HOG = """
import ctypes, sys
sys.path.insert(0, sys.argv[1])
import driver_tests, gpu_use
driver = driver_tests.Driver(ctypes, gpu_use.cuda_library(ctypes))
driver("cuInit", 0)
gpu = driver_tests.Gpu(driver, driver.number("cuDeviceGet", 0))
free, _ = gpu.free_and_total()
held = driver_tests.chunks_of(gpu, free * 6 // 10)
print("holding", flush=True)
sys.stdin.read()
gpu.upload(held[0][0], b"still mine")
print("well" if gpu.download(held[0][0], 10) == b"still mine" else "harmed", flush=True)
"""


def test_a_process_that_holds_most_of_the_card_neither_fails_a_quick_test_nor_is_failed_by_it():
    command = [sys.executable, "-c", HOG, interpreter.SCRIPTS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as hog:
        assert hog.stdin is not None
        assert hog.stdout is not None
        assert hog.stdout.readline() == "holding\n"
        quick, full = run("--quick", "--device", "0"), run("--full", "--device", "0")
        hog.stdin.close()
        assert hog.stdout.readline() == "well\n"
    assert quick["driver.memory"].outcome == "passed"
    assert quick["driver.memory"].measured["tested_mib"] <= 1024
    assert full["driver.memory"].outcome == "skipped"

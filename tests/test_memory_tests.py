"""The tests of memory through torch: on the CPU of a real torch, and their limits without any."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

TARGET = Path(importlib.util.find_spec("troubleshooter").origin).parent / "target"
GIB = 1 << 30
# The scripts of torch's tests share one script, without which none of them runs.
LOAD = f"""
import importlib.util, torch
spec = importlib.util.spec_from_file_location('gpu_tests', {str(TARGET / "gpu_tests.py")!r})
scripts = importlib.util.module_from_spec(spec); spec.loader.exec_module(scripts)
kit, memory = scripts.part("kit.py"), scripts.part("memory_tests.py")
SMALL = dict(row_bytes=1 << 20, chunk_bytes=3 << 20)
def patterns(between=None):
    return memory.pattern_figures(torch, None, 8 << 20, between=between, **SMALL)
"""


@pytest.fixture(scope="module")
def real():
    python = os.environ.get("TROUBLESHOOTER_TORCH_PYTHON")
    if not python:
        pytest.skip("TROUBLESHOOTER_TORCH_PYTHON names no interpreter with a real torch")
    return python


def in_real_torch(real, code):
    """What `code` prints in the real torch, with the tests at hand as `memory`."""
    done = subprocess.run([real, "-c", LOAD + code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_healthy_memory_gives_back_every_pattern(real):
    printed = in_real_torch(real, "print(patterns())")
    assert "'tested_mib': 8, 'patterns': 6" in printed
    assert "'wrong_rows': 0}" in printed


def test_every_kind_of_bad_bit_is_found_and_located(real):
    code = """
def stuck_at_1(pattern, chunks): chunks[1][0, 5] |= 1 << 40
def stuck_at_0(pattern, chunks): chunks[0][2, 9] &= ~(1 << 3)
def flipped_in_noise(pattern, chunks):
    if pattern == "random": chunks[2][1, -1] ^= -(1 << 63)
def flipped_in_its_inverse(pattern, chunks):
    if pattern == "random-inverted": chunks[2][1, -1] ^= 1
def wrong_address(pattern, chunks):
    if pattern == "address": chunks[0][0, 7] = chunks[0][1, 7]
for spoil in (stuck_at_1, stuck_at_0, flipped_in_noise, flipped_in_its_inverse, wrong_address):
    found = patterns(spoil)
    first = found["first_wrong"][0]
    print(spoil.__name__, *found["wrong_patterns"], "|", first[first.index("(byte"):])
"""
    assert in_real_torch(real, code).splitlines() == [
        f"stuck_at_1 zeros 0xaa address | (byte {3 * 2**20 + 40} of the tested memory), bits 0x0000010000000000",
        f"stuck_at_0 ones 0xaa address random-inverted | (byte {2 * 2**20 + 72} of the tested memory), bits 0x0000000000000008",
        f"flipped_in_noise random-inverted | (byte {8 * 2**20 - 8} of the tested memory), bits 0x8000000000000000",
        f"flipped_in_its_inverse random-inverted | (byte {8 * 2**20 - 8} of the tested memory), bits 0x0000000000000001",
        "wrong_address address | (byte 56 of the tested memory), bits 0x0000000000020000",
    ]


def test_a_fault_that_does_not_come_back_is_told_with_its_row(real):
    code = """
once = [1]
def spoil(pattern, chunks):
    if pattern == "address" and once: once.pop(); chunks[2][1, -1] ^= 1
print(patterns(spoil)["first_wrong"])
"""
    printed = in_real_torch(real, code)
    assert f"address: bytes {7 * 2**20} to {8 * 2**20 - 1} of the tested memory" in printed
    assert "not again when it was repeated" in printed


def test_a_byte_that_a_copy_changes_is_found(real):
    code = """
print(memory.copy_figures(torch, None, 1 << 20)["wrong_ways"])
print(memory.copy_figures(torch, None, 1 << 20, between=lambda data: data[7:8].bitwise_xor_(1))["wrong_ways"])
"""
    assert in_real_torch(real, code).splitlines() == ["[]", "['pageable up', 'pageable up and down']"]


def test_a_piece_that_changes_while_its_neighbours_are_freed_is_found(real):
    code = """
print(memory.fragment(torch, None, 1 << 20)[:2])
def overlap(pieces): pieces[4][0] = 5
print(memory.fragment(torch, None, 1 << 20, between=overlap)[:2])
"""
    assert in_real_torch(real, code).splitlines() == ["(0, 0)", "(1, 0)"]


# --- harm nobody


@pytest.fixture(scope="module")
def memory():
    spec = importlib.util.spec_from_file_location("gpu_tests_without_torch", TARGET / "gpu_tests.py")
    scripts = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(scripts)
    kit, memory = scripts.part("kit.py"), scripts.part("memory_tests.py")
    yield SimpleNamespace(room=memory.room, Skipped=kit.Skipped, scratch=memory.SCRATCH_BYTES)
    for name in ("troubleshooter_kit", "troubleshooter_memory_tests"):
        sys.modules.pop(name, None)


def card(free, total=80 * GIB):
    return SimpleNamespace(
        cuda=SimpleNamespace(
            mem_get_info=lambda index: (free, total),
            get_device_properties=lambda index: SimpleNamespace(is_integrated=False),
        )
    )


def test_where_nobody_can_say_who_uses_the_card_a_quick_test_takes_a_gib(memory):
    assert memory.room(card(60 * GIB), 0, "quick") == (GIB, 80 * GIB)


def test_a_card_with_next_to_nothing_free_is_left_alone(memory):
    with pytest.raises(memory.Skipped, match="300 MiB of the GPU's memory are free"):
        memory.room(card(300 << 20), 0, "quick")


def test_the_whole_card_needs_consent_where_nobody_can_say_who_uses_it(memory, monkeypatch):
    monkeypatch.delenv("TROUBLESHOOTER_WHOLE_CARD", raising=False)
    with pytest.raises(memory.Skipped, match="cannot be told"):
        memory.room(card(60 * GIB), 0, "full")
    monkeypatch.setenv("TROUBLESHOOTER_WHOLE_CARD", "yes")
    assert memory.room(card(60 * GIB), 0, "full") == (56 * GIB - memory.scratch, 80 * GIB)

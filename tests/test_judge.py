"""Figures against bounds, bands and reasons: no GPU, no torch."""

import pytest

from troubleshooter.judge import judge
from troubleshooter.knowledge import load
from troubleshooter.knowledge.read import TESTS
from troubleshooter.model import Fact, Source, TestResult


@pytest.fixture(scope="module")
def tables():
    return load().tables


def judged(tables, test, measured, gpu="NVIDIA H200", outcome="passed"):
    facts = [Fact("gpu.name", "gpu:0", "present", gpu, Source("probe", "nvml"))]
    (result,) = judge([TestResult(test, "gpu:0", outcome, measured, {}, "")], facts, tables)
    return result


def test_bounds_speak_of_tests_that_exist_and_reasons_of_figures_with_a_sign(tables):
    assert {row["test"] for row in tables["test_bounds"].rows} <= set(TESTS)
    kinds = [{"at_most", "at_least", "is", "share"} & set(row) for row in tables["test_bounds"].rows]
    assert all(len(kind) == 1 for kind in kinds)
    columns = {"pcie"} | {column for row in tables["gpu_rates"].rows for column in row}
    assert {row["of"] for row in tables["test_bounds"].rows if "share" in row} <= columns


@pytest.mark.parametrize("value", ["nan", "inf", None, True, "3"])
def test_what_is_no_number_never_passes_a_bound(tables, value):
    assert judged(tables, "torch.matmul", {"error_float32": value}).outcome == "failed"


def test_an_error_at_its_bound_passes_and_one_above_it_fails(tables):
    assert judged(tables, "torch.matmul", {"error_float32": 3.2e-6}).outcome == "passed"
    above = judged(tables, "torch.matmul", {"error_float32": 3.3e-6})
    assert (above.outcome, above.reason) == ("failed", "error_float32 is 3.3e-06, at most 3.2e-06")
    assert above.expected == {"error_float32_at_most": 3.2e-6}


def test_what_failed_or_was_skipped_stays_as_it_is(tables):
    for outcome in ("failed", "skipped"):
        assert judged(tables, "torch.matmul", {"error_float32": 0.0}, outcome=outcome).outcome == outcome


def test_a_figure_without_a_bound_is_not_judged(tables):
    result = judged(tables, "speed.rnn", {"float32_ms": 1e9})
    assert (result.outcome, result.expected) == ("passed", {})


# --- bands of speed


HEALTHY = {"float32_tflops": 51.1, "tf32_tflops": 348.0, "float16_tflops": 743.0, "bfloat16_tflops": 774.0}


def test_the_rates_of_a_healthy_h200_are_within_its_bands(tables):
    result = judged(tables, "speed.matmul", {**HEALTHY, "steadiness": 0.97})
    assert (result.outcome, result.reason) == ("passed", "")
    assert result.expected["bfloat16_tflops_at_least"] == pytest.approx(0.33 * 989.4, abs=0.01)


def test_a_card_at_a_quarter_of_its_speed_fails_with_what_was_seen_under_load(tables):
    slow = {name: rate / 4 for name, rate in HEALTHY.items()}
    signs = {"load_throttled_by": ["hardware-thermal", "power-cap"], "load_temperature_c": 95, "other_processes": 0}
    result = judged(tables, "speed.matmul", {**slow, **signs})
    assert result.outcome == "failed"
    assert "the card is so hot (95 °C)" in result.reason
    assert "normal under load" in result.reason


def test_the_power_limit_under_load_is_no_fault(tables):
    assert judged(tables, "speed.matmul", {**HEALTHY, "load_throttled_by": ["power-cap"]}).outcome == "passed"


def test_another_process_on_the_card_makes_a_low_rate_say_nothing(tables):
    result = judged(tables, "speed.matmul", {"bfloat16_tflops": 100.0, "other_processes": 1})
    assert result.outcome == "skipped"
    assert "another process computes on this GPU" in result.reason


def test_a_lowered_power_limit_lowers_what_is_expected(tables):
    measured = {"bfloat16_tflops": 200.0, "power_limit_w": 350.0, "power_limit_w_default": 700.0}
    assert judged(tables, "speed.matmul", measured).outcome == "passed"
    assert judged(tables, "speed.matmul", {"bfloat16_tflops": 200.0}).outcome == "failed"


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("NVIDIA A100-SXM4-80GB", 1.0),
        ("NVIDIA A100-SXM4-80GB MIG 2g.20gb", 2 / 7),
        ("A100-SXM4-80GB MIG 1c.3g.40gb", 1 / 7),
    ],
)
def test_an_instance_of_a_divided_card_is_held_to_its_share(tables, name, share):
    result = judged(tables, "speed.matmul", {"bfloat16_tflops": 300.0}, gpu=name)
    assert result.expected["bfloat16_tflops_at_least"] == pytest.approx(0.33 * 312.0 * share, abs=0.01)


@pytest.mark.parametrize("name", ["NVIDIA GeForce RTX 3080 Laptop GPU", "NVIDIA Z9000", ""])
def test_a_card_that_no_table_knows_is_compared_with_itself_alone(tables, name):
    assert judged(tables, "speed.matmul", {"bfloat16_tflops": 0.1}, gpu=name).outcome == "passed"
    unsteady = judged(tables, "speed.matmul", {"bfloat16_tflops": 90.0, "steadiness": 0.3}, gpu=name)
    assert unsteady.outcome == "failed"


def test_the_name_that_torch_gives_counts_before_that_of_the_whole_card(tables):
    facts = [Fact("gpu.name", "gpu:0", "present", "NVIDIA A100-SXM4-80GB", Source("probe", "nvml"))]
    told = TestResult("torch.init", "gpu:0", "passed", {"name": "NVIDIA A100-SXM4-80GB MIG 1g.10gb"}, {})
    speed = TestResult("speed.matmul", "gpu:0", "passed", {"bfloat16_tflops": 20.0}, {})
    assert [one.outcome for one in judge([told, speed], facts, tables)] == ["passed", "passed"]


def test_copies_are_held_to_the_link_that_the_card_has(tables):
    link = {"load_pcie_width": 16, "load_pcie_generation": 5, "pcie_width_max": 16, "pcie_generation_max": 5}
    assert judged(tables, "speed.copy", {"pinned_to_gpu_gb_per_s": 55.4, **link}).outcome == "passed"
    assert judged(tables, "speed.copy", {"pinned_to_gpu_gb_per_s": 20.0, **link}).outcome == "failed"
    narrow = {**link, "load_pcie_width": 4}
    assert judged(tables, "speed.copy", {"pinned_to_gpu_gb_per_s": 13.0, **narrow}).outcome == "passed"
    slow = judged(tables, "speed.copy", {"pinned_to_gpu_gb_per_s": 3.0, **narrow})
    assert slow.outcome == "failed"
    assert "its link uses 4 of 16 lanes" in slow.reason


def test_slow_launches_are_the_processors_doing(tables):
    result = judged(tables, "speed.launch", {"launch_us": 400.0, "round_trip_us": 20.0})
    assert result.outcome == "failed"
    assert "the work of the processor" in result.reason

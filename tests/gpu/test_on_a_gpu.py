"""On a real card: TROUBLESHOOTER_TORCH_PYTHON names the interpreter with a torch that sees it."""

import os
import time

import pytest

from troubleshooter import confirm
from troubleshooter.judge import judge
from troubleshooter.knowledge import load
from troubleshooter.machine import LiveMachine
from troubleshooter.model import Claim, Fact, Source
from troubleshooter.probes.python_target import probe_target

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def python():
    named = os.environ.get("TROUBLESHOOTER_TORCH_PYTHON")
    if not named:
        pytest.skip("TROUBLESHOOTER_TORCH_PYTHON names no interpreter with a torch that sees a GPU")
    return named


@pytest.fixture(scope="module")
def found(python):
    said = [
        one for one in probe_target(LiveMachine(), python).said if isinstance(one, Claim) and one.state == "present"
    ]
    values = {one.name: one.value for one in said if one.source.via == "target"}
    if values.get("torch.cuda_available") is not True:
        pytest.skip("torch sees no GPU there")
    return values


def test_the_import_tells_build_architectures_and_card(found):
    assert found["torch.import"] == "ok"
    assert found["torch.build"] in ("cuda", "rocm")
    assert found["torch.archs"]
    assert found["gpu.name"]
    assert "torch.cuda_error" not in found


def test_a_healthy_card_passes_every_quick_test_in_time(python, found):
    facts = tuple(Fact(name, "host", "present", value, Source("target", "target")) for name, value in found.items())
    began = time.monotonic()
    results = confirm.run_tests(LiveMachine(), python, "quick", facts)
    took = time.monotonic() - began
    print([one._asdict() for one in results], took)
    assert {one.test for one in results} == set(confirm.asked_for("quick")) - set(confirm.CPU_TESTS)
    judged = judge(results, (), load().tables)
    assert [(one.test, one.reason) for one in judged if one.outcome == "failed"] == []
    assert {one.reason for one in judged if one.outcome == "skipped"} <= {
        f"the {confirm.QUICK_SECONDS:g} s of a quick run were over; --full does it",
        "torch sees 1 GPU; the test needs two",
    }
    gpu_work = sum(float(one.measured.get("seconds_in_all", 0.0)) for one in results)
    assert gpu_work <= 4

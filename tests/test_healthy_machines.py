"""Machines that work must not be called broken, nor those that are newer than every table."""

import json
from collections import Counter

import pytest
from machines import Machine, healthy_machines, newer_machines, pasted, recording

from troubleshooter.knowledge import load
from troubleshooter.model import Knowledge, Report, Request
from troubleshooter.pipeline import check, diagnose_text
from troubleshooter.recording import RecordedMachine, read_recording

KNOWLEDGE = load()


def report_on(machine: Machine, knowledge: Knowledge) -> Report:
    data = json.dumps(recording(machine)).encode()
    return check(Request(engine="python"), knowledge, RecordedMachine(read_recording(data, machine.name), machine.name))


def alarms(machine: Machine) -> list[tuple[str, str, float, list[str]]]:
    """Of its recording, and of what its owner would paste."""
    report = report_on(machine, KNOWLEDGE)
    text = diagnose_text(Request(texts=(("paste", pasted(machine).encode()),), engine="python"), KNOWLEDGE)
    told = [
        (machine.name, one.id, one.confidence, [evidence.because for evidence in one.evidence if evidence.supports])
        for one in (*report.diagnoses, *text.diagnoses)
        if one.confidence >= 0.5
    ]
    assert told or report.verdict == "healthy" or not machine.tested, machine.name
    return told


def test_a_sample_of_healthy_machines_raises_no_alarm() -> None:
    assert [alarm for machine in healthy_machines(60, seed=7) for alarm in alarms(machine)] == []


@pytest.mark.slow
def test_500_healthy_machines_raise_no_alarm() -> None:
    machines = list(healthy_machines(500))
    assert [alarm for machine in machines for alarm in alarms(machine)] == []
    kinds = Counter(machine.kind for machine in machines)
    assert min(kinds[kind] for kind in ("linux", "container", "wsl", "windows")) > 30
    generations = {machine.capability for machine in machines}
    assert {"3.7", "5.2", "6.1", "7.0", "7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0"} <= generations
    behind = [
        one
        for one in machines
        if tuple(map(int, one.driver_cuda.split("."))) < tuple(map(int, one.torch_cuda.split(".")))
    ]
    assert len(behind) > 30, "minor-version compatibility was not tried"


@pytest.mark.parametrize("machine", tuple(newer_machines()), ids=lambda machine: machine.name)
def test_what_is_newer_than_the_tables_raises_no_alarm(machine: Machine) -> None:
    assert alarms(machine) == []


def test_a_machine_tells_all_its_facts() -> None:
    """What the recordings leave unsaid would be untested: the parts that matter are read out of them again."""
    for machine in healthy_machines(12, seed=11):
        facts = {(fact.name, fact.subject): fact.value for fact in report_on(machine, KNOWLEDGE).facts}
        assert facts["driver.version", "host"] == machine.driver
        assert facts["gpu.count", "host"] == len(machine.gpus)
        assert facts["gpu.capability", "gpu:0"] == machine.capability
        assert facts["torch.version", "host"] == machine.torch
        assert facts["torch.cuda", "host"] == machine.torch_cuda
        assert facts["python.version", "host"] == machine.python
        assert facts["gpu.has_kernels", "gpu:0"] is True
        assert facts["torch.import", "host"] == "ok"

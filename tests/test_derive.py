"""What the tables say: rows of (given facts, expected facts)."""

import pytest

from troubleshooter.derive import derive
from troubleshooter.model import Knowledge, Source, Value, present
from troubleshooter.settle import Facts, settle

LINUX: dict[str, Value] = {"os.family": "linux", "os.architecture": "x86_64", "python.version": "3.11.9"}
WINDOWS: dict[str, Value] = {"os.family": "windows", "os.architecture": "AMD64", "python.version": "3.11.9"}


def derived(knowledge: Knowledge, given: dict[str, Value]) -> Facts:
    source = Source("set", "set")
    claims = [
        present(name, value, source, "gpu:0" if knowledge.facts[name].subject == "gpu" else "host")
        for name, value in given.items()
    ]
    return derive(settle(claims, knowledge.facts), knowledge.tables)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"torch.version": "2.5.1+cpu"}, {"torch.build": "cpu", "torch.tag": "cpu"}),
        ({"torch.version": "2.5.1+cu124"}, {"torch.build": "cuda", "torch.cuda": "12.4", "torch.tag": "cu124"}),
        ({"torch.version": "2.5.1+rocm6.2"}, {"torch.build": "rocm"}),
        ({"torch.version": "2.5.1"}, {"torch.build": None, "torch.cuda": None}),
        ({"torch.cuda": "12.4"}, {"torch.tag": "cu124"}),
        ({**LINUX, "torch.version": "2.5.1+cu124"}, {"torch.min_driver": "525.60.13", "torch.min_driver_cuda": "12.0"}),
        ({**WINDOWS, "torch.version": "2.5.1+cu124"}, {"torch.min_driver": "528.33"}),
        ({"os.family": "wsl", "torch.version": "2.5.1+cu118"}, {"torch.min_driver": "452.39"}),
        ({"torch.version": "2.5.1+cu118"}, {"torch.min_driver": None, "torch.min_driver_cuda": "11.0"}),
        ({**LINUX, "torch.version": "1.10.0+cu102"}, {"torch.min_driver": "440.33", "torch.min_driver_cuda": "10.2"}),
        ({**LINUX, "torch.version": "1.10.0"}, {"torch.least_driver": "440.33", "torch.min_driver": None}),
        ({**WINDOWS, "torch.version": "2.5.1"}, {"torch.least_driver": "452.39"}),
        ({**LINUX, "torch.version": "2.5.1+cu124"}, {"torch.least_driver": None}),
        # newer than the tables: unknown, never wrong
        ({**LINUX, "torch.version": "3.1.0+cu144"}, {"torch.min_driver": None, "torch.release_known": False}),
        ({"driver.version": "470.256.02"}, {"driver.branch": "470", "driver.cuda_version": "11.4"}),
        ({"driver.version": "572.61"}, {"driver.branch": "570", "driver.cuda_version": "12.8"}),
        ({"driver.version": "640.10"}, {"driver.branch": None, "driver.cuda_version": None}),
        ({"driver.version": "620.10"}, {"driver.branch": "620", "driver.cuda_version": None}),
        # what stands beside torch
        ({"torch.version": "2.5.1", "torchvision.version": "0.16.2"}, {"torchvision.fits": False}),
        ({"torch.version": "2.5.1", "torchvision.version": "0.20.0"}, {"torchvision.fits": None}),
        ({"torch.version": "2.5.1", "torch.tag": "cu124", "torchvision.version": "0.20.1+cpu"}, {"torchvision.fits": False}),
        ({"torch.version": "2.2.2", "numpy.version": "2.1.3"}, {"numpy.fits": False}),
        ({"torch.version": "2.17.0", "numpy.version": "2.1.3"}, {"numpy.fits": None}),
        ({"torch.version": "2.14.1", "triton.version": "3.8.1"}, {"triton.fits": True}),
        # what an installer was asked for
        ({"install.wanted": "2.0.1", "install.index_tag": "cu121"},
         {"install.exists": False, "install.tags": ("cu117", "cu118"), "install.tag_since": "2.1.0", "install.tag_until": None}),
        ({"install.wanted": "2.15.0", "install.index_tag": "cu130"}, {"install.exists": None}),
        ({"install.wanted": "1.13.1", "python.version": "3.12"}, {"install.python_too_new": True, "install.python_limit": "3.11"}),
        # building
        ({"nvcc.version": "12.1", "torch.cuda": "12.4", "tool.gcc": "13.2.0"},
         {"nvcc.fits_torch": True, "nvcc.newest_gcc": "12", "nvcc.takes_gcc": False}),
        ({"nvcc.version": "12.1", "toolkit.home_version": "13.0", "torch.cuda": "12.4", "tool.gcc": "13.2.0"},
         {"nvcc.fits_torch": False, "nvcc.takes_gcc": True}),
        ({"nvcc.version": "14.0", "tool.gcc": "18.1"}, {"nvcc.takes_gcc": None}),
    ],
)  # fmt: skip
def test_host_facts(knowledge: Knowledge, given: dict[str, Value], expected: dict[str, Value | None]) -> None:
    facts = derived(knowledge, given)
    assert {name: facts.value(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("name", "capability", "last"),
    [
        ("NVIDIA GeForce RTX 3090", "8.6", None),
        ("GeForce RTX 3090", "8.6", None),
        ("RTX 4090", "8.9", None),
        ("RTX 3080 Ti Laptop GPU", "8.6", None),
        ("NVIDIA H200", "9.0", None),
        ("NVIDIA A100-SXM4-80GB", "8.0", None),
        ("Tesla V100-SXM2-16GB", "7.0", "580"),
        ("Tesla K80", "3.7", "470"),
        ("GeForce GTX 1080 Ti", "6.1", "580"),
        ("NVIDIA GeForce RTX 5090", "12.0", None),
        ("Quadro RTX 5000", "7.5", None),
        ("Tesla V100", "7.0", "580"),
        ("RTX 6000 Ada", "8.9", None),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "8.0", None),
    ],
)
def test_a_gpu_by_its_name(knowledge: Knowledge, name: str, capability: str, last: str | None) -> None:
    facts = derived(knowledge, {"gpu.name": name})
    assert facts.value("gpu.capability", "gpu:0") == capability
    assert facts.value("gpu.last_driver", "gpu:0") == last


@pytest.mark.parametrize("name", ["second GPU", "RTX", "NVIDIA GeForce RTX 9090", "", "Radeon RX 7900", "NVIDIA"])
def test_a_name_that_no_table_has_stays_unknown(knowledge: Knowledge, name: str) -> None:
    assert derived(knowledge, {"gpu.name": name}).value("gpu.capability", "gpu:0") is None


@pytest.mark.parametrize(
    ("capability", "build", "runs", "newer", "older"),
    [
        ("12.0", {"torch.version": "2.5.1+cu124"}, False, True, False),
        ("12.0", {"torch.version": "2.7.0+cu128"}, True, False, False),
        ("8.6", {"torch.version": "2.5.1+cu124"}, True, False, False),
        ("8.9", {"torch.version": "2.5.1+cu124"}, True, False, False),
        ("6.1", {"torch.version": "2.5.1+cu124"}, True, False, False),
        ("7.0", {"torch.version": "2.14.1+cu130"}, False, False, True),
        ("10.3", {"torch.version": "2.9.0+cu130"}, True, False, False),
        ("8.7", {"torch.version": "2.5.1+cu124"}, False, False, False),
        ("9.0", {"torch.archs": ("sm_90a",)}, True, False, False),
        # without a tag it is PyPI's build, or one that others made for other GPUs
        ("7.0", {"torch.version": "2.8.0", "torch.cuda": "12.8"}, True, False, False),
        ("7.0", {"torch.version": "2.7.1", "torch.cuda": "12.8"}, None, None, None),
        ("7.0", {"torch.version": "2.6.0+dfsg", "torch.cuda": "12.4"}, None, None, None),
        ("12.0", {"torch.archs": ("sm_80", "compute_90")}, True, False, False),
        ("7.0", {"torch.archs": ("sm_75", "sm_80", "sm_90")}, False, False, True),
    ],
)
def test_which_gpu_runs_which_build(
    knowledge: Knowledge,
    capability: str,
    build: dict[str, Value],
    runs: bool | None,
    newer: bool | None,
    older: bool | None,
) -> None:
    facts = derived(knowledge, {**LINUX, "gpu.capability": capability, **build})
    assert facts.value("gpu.has_kernels", "gpu:0") is runs
    assert facts.value("gpu.newer_than_build", "gpu:0") is newer
    assert facts.value("gpu.older_than_build", "gpu:0") is older


@pytest.mark.parametrize(
    ("given", "torch", "tag"),
    [
        # S1: the installed release has a CUDA build for this driver
        ({**LINUX, "gpu.name": "RTX 3090", "driver.version": "535.183.01", "torch.version": "2.5.1+cpu"}, "2.5.1", "cu124"),
        # S2: driver 470 runs CUDA 11 builds only
        ({**LINUX, "gpu.name": "RTX 3090", "driver.version": "470.82.01", "torch.version": "2.5.1+cu124"}, "2.5.1", "cu118"),
        # S3: the installed release has no build for this GPU
        ({**LINUX, "gpu.name": "RTX 5090", "driver.version": "570.86.10", "torch.version": "2.5.1+cu124"}, "2.11.0", "cu128"),
        # S9: the newest line that serves Volta
        ({**LINUX, "gpu.name": "Tesla V100", "driver.version": "580.65.06", "torch.version": "2.12.0+cu130"}, "2.12.0", "cu126"),
        ({**LINUX, "python.version": "3.8.10", "gpu.name": "RTX 3090", "driver.version": "535.54.03"}, "2.4.1", "cu124"),
        ({**LINUX, "gpu.name": "RTX 3090", "driver.version": "390.87", "torch.version": "2.5.1+cu124"}, None, None),
        ({**LINUX, "driver.version": "535.54.03", "torch.version": "2.5.1+cpu"}, None, None),
        ({"os.family": "macos", "gpu.name": "RTX 3090", "driver.version": "535.54.03"}, None, None),
    ],
)  # fmt: skip
def test_the_build_to_install(
    knowledge: Knowledge, given: dict[str, Value], torch: str | None, tag: str | None
) -> None:
    facts = derived(knowledge, given)
    assert (facts.value("plan.torch"), facts.value("plan.tag")) == (torch, tag)


@pytest.mark.parametrize(
    ("given", "runs"),
    [
        ({"torch.version": "2.5.1+cu124", "gpu.name": "RTX 3090", "driver.version": "535.54.03"}, True),
        ({"torch.version": "2.5.1+cu124", "gpu.name": "RTX 3090", "driver.version": "470.82.01"}, False),
        ({"torch.version": "2.5.1+cu124", "gpu.name": "RTX 5090", "driver.version": "570.86.10"}, False),
        ({"torch.version": "2.5.1+cu124", "gpu.name": "RTX 3090"}, None),
        ({"torch.version": "2.5.1+cpu", "gpu.name": "RTX 3090", "driver.version": "535.54.03"}, False),
        ({"torch.version": "2.5.1+cpu"}, None),
        ({"torch.version": "2.5.1+cpu", "gpu.count": 0}, True),
        # a libcuda for forward compatibility
        ({"torch.version": "2.9.1+cu130", "gpu.name": "A100 80GB", "driver.version": "535.54.03", "torch.cuda_available": True}, True),
        ({"torch.version": "2.17.0+cu134", "gpu.name": "RTX 3090", "driver.version": "640.10"}, None),
    ],
)  # fmt: skip
def test_whether_the_installed_build_runs_here(
    knowledge: Knowledge, given: dict[str, Value], runs: bool | None
) -> None:
    assert derived(knowledge, {**LINUX, **given}).value("torch.runs_here") is runs


def test_a_derived_fact_names_what_it_rests_on(knowledge: Knowledge) -> None:
    facts = derived(knowledge, {**LINUX, "torch.version": "2.5.1+cu124"})
    fact = facts.fact("torch.min_driver")
    assert fact is not None
    assert fact.bases == ("torch.cuda@host",)
    assert "https://docs.nvidia.com" in fact.source.detail


def test_what_was_seen_is_never_overwritten(knowledge: Knowledge) -> None:
    facts = derived(knowledge, {"gpu.name": "RTX 3090", "gpu.capability": "9.9"})
    assert facts.value("gpu.capability", "gpu:0") == "9.9"

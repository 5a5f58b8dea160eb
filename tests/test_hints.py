"""What people write behind --set."""

import pytest

from troubleshooter.knowledge import load
from troubleshooter.paste.hints import read_hints

CATALOGUE = load().facts


def said(name: str, value: str) -> dict[str, object]:
    claims, remarks = read_hints([(name, value)], CATALOGUE)
    assert bool(claims) != bool(remarks)
    return {f"{claim.name}@{claim.subject}".removesuffix("@host"): claim.value for claim in claims}


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("2x RTX 3090", ["RTX 3090", "RTX 3090"]),
        ("RTX 3090 x 2", ["RTX 3090", "RTX 3090"]),
        ("GTX 1080 x2", ["GTX 1080", "GTX 1080"]),
        ("GeForce GTX 1080", ["GeForce GTX 1080"]),
        ("RTX 3070", ["RTX 3070"]),
        ("dual RTX 4090", ["RTX 4090", "RTX 4090"]),
        ("Quadro K2200, Tesla K40", ["Quadro K2200", "Tesla K40"]),
        ("Tesla T4 and A10", ["Tesla T4", "A10"]),
        ("GTX1060 6GB", ["GTX 1060"]),
        ("4090", ["RTX 4090"]),
        ("Tesla V100-PCIE-16GB", ["Tesla V100-PCIE-16GB"]),
    ],
)
def test_gpus_are_counted_and_named(value: str, names: list[str]) -> None:
    found = said("gpu", value)
    assert [found[f"gpu.name@gpu:{index}"] for index in range(len(names))] == names
    assert found["gpu.count"] == len(names)


def test_remarks_on_a_card_are_facts_of_their_own() -> None:
    assert said("gpu", "TITAN X (Pascal)")["gpu.architecture@gpu:0"] == "Pascal"
    assert said("gpu", "A100 (MIG 1g.5gb)")["gpu.mig@gpu:0"] is True
    assert said("gpu", "A100 40GB")["gpu.memory_mib@gpu:0"] == 40960
    assert "gpu.count" not in said("gpu", "GeForce GTX 1080 (second GPU)")


@pytest.mark.parametrize("value", ["AMD RX 6700 XT", "AMD显卡", "AMD (ZLUDA)", "Intel Arc A770", "Apple M2", "none"])
def test_no_card_of_nvidia_is_a_count_of_none(value: str) -> None:
    assert said("gpu", value)["gpu.count"] == 0


@pytest.mark.parametrize(
    ("name", "value", "fact", "meant"),
    [
        ("os", "Windows 11", "os.family", "windows"),
        ("os", "WSL2 (Ubuntu)", "os.family", "wsl"),
        ("os", "wsl1", "wsl.version", 1),
        ("os", "docker on Ubuntu 22.04", "container.kind", "docker"),
        ("os", "container", "os.family", "linux"),
        ("os", "Ubuntu 22.04", "os.family", "linux"),
        ("os", "mac", "os.family", "macos"),
        ("driver", "535 (WSL)", "os.family", "wsl"),
        ("driver", "535 (WSL)", "driver.version", "535"),
        ("driver", "GRID 16.2 (535.129.03)", "driver.version", "535.129.03"),
        ("driver", "none", "driver.installed", False),
        ("driver_cuda", "CUDA 12.4", "driver.cuda_version", "12.4"),
        ("torch", "2.0.1 CPU only", "torch.version", "2.0.1+cpu"),
        ("torch", "2.1 with CUDA 12.1", "torch.cuda", "12.1"),
        ("torch_cuda", "cu118", "torch.cuda", "11.8"),
        ("torch_cuda", "None", "torch.build", "cpu"),
        ("python", "cp312", "python.version", "3.12"),
        ("python", "3.10, 32-bit", "python.bits", 32),
        ("nvcc", "V11.8.89", "nvcc.version", "11.8"),
        ("nvcc", "not found", "nvcc.version", None),
        ("cudnn", "8902", "cudnn.version", "8.9.2"),
        ("cudnn", "90100", "cudnn.version", "9.1.0"),
        ("glibc", "2.17 (CentOS 7)", "os.glibc", "2.17"),
        ("os_release", "WSL2, Ubuntu 22.04", "os.family", "wsl"),
    ],
)
def test_free_text_is_understood_as_far_as_it_goes(name: str, value: str, fact: str, meant: object) -> None:
    assert said(name, value)[fact] == meant


def test_what_is_not_understood_is_told_and_no_error() -> None:
    claims, remarks = read_hints([("driver", "latest"), ("colour", "green")], CATALOGUE)
    assert claims == ()
    assert len(remarks) == 2

"""nvcc, os-release, the driver's version file and lspci."""

import pytest

from troubleshooter.model import UNKNOWN, Claim, Source
from troubleshooter.outputs.nvcc import read_nvcc
from troubleshooter.outputs.os_release import read_os_release
from troubleshooter.outputs.pci import read_lspci
from troubleshooter.outputs.proc_driver_version import read_proc_driver_version

SOURCE = Source("probe", "file")


def values(claims: list[Claim]) -> dict[str, object]:
    return {claim.name: claim.value for claim in claims}


@pytest.mark.parametrize("version", ["9.1", "12.10", "13.0"])
def test_nvcc_tells_its_release(version: str) -> None:
    text = f"nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release {version}, V{version}.88\n"
    assert values(list(read_nvcc(text, SOURCE))) == {"nvcc.version": version}


def test_nvcc_without_a_release_is_unknown() -> None:
    assert [claim.state for claim in read_nvcc("Segmentation fault", SOURCE)] == [UNKNOWN]


WORDINGS = [
    ("NVIDIA UNIX x86_64 Kernel Module  470.103.01  Thu Jan  6 12:10:04 UTC 2022", "470.103.01", "proprietary"),
    ("NVIDIA UNIX x86_64 Kernel Module 390.48 Thu Mar 22 00:42:57 PDT 2018", "390.48", "proprietary"),
    ("NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build   ", "580.159.04", "open"),
    ("NVIDIA UNIX Open Kernel Module for aarch64  540.4.0  Release Build  (a@b)  Tue Jan  7", "540.4.0", "open"),
    ("NVIDIA UNIX Open Kernel Module for x86_64\n  580.82.09  Release Build", "580.82.09", "open"),
]


@pytest.mark.parametrize(("wording", "version", "flavour"), WORDINGS)
def test_the_version_file_tells_version_and_flavour(wording: str, version: str, flavour: str) -> None:
    text = f"NVRM version: {wording}\nGCC version:  gcc version 13.2.0 (GCC)\n"
    found = values(list(read_proc_driver_version(text, SOURCE)))
    assert found["driver.kernel_version"] == version
    assert found["driver.flavour"] == flavour
    assert found["driver.loaded"] is True


def test_another_wording_is_unknown() -> None:
    assert [claim.state for claim in read_proc_driver_version("NVRM: hello", SOURCE)] == [UNKNOWN]


def test_os_release_is_read_with_and_without_quotes() -> None:
    text = 'NAME="Ubuntu"\nID=ubuntu\nVERSION_ID=\'24.04\'\nPRETTY_NAME="Ubuntu \\"24.04\\""\nBROKEN\n=x\n'
    assert values(list(read_os_release(text, SOURCE))) == {
        "os.distribution": "ubuntu",
        "os.distribution_version": "24.04",
        "os.release": 'Ubuntu "24.04"',
    }


def test_a_rolling_distribution_has_no_version() -> None:
    assert values(list(read_os_release("NAME=Arch\nID=arch\n", SOURCE))) == {
        "os.distribution": "arch",
        "os.release": "Arch",
    }


LSPCI = """\
00:02.0 VGA compatible controller [0300]: Intel Corporation UHD Graphics 630 [8086:3e92]
	Kernel driver in use: i915
01:00.0 VGA compatible controller [0300]: NVIDIA Corporation AD102 [GeForce RTX 4090] [10de:2684] (rev a1)
	Kernel driver in use: nouveau
01:00.1 Audio device [0403]: NVIDIA Corporation Device [10de:22ba] (rev a1)
	Kernel driver in use: snd_hda_intel
0000:41:00.0 0302: 10de:2335 (rev a1)
"""


def test_lspci_tells_controllers_and_who_drives_them() -> None:
    assert values(list(read_lspci(LSPCI, SOURCE))) == {
        "pci.nvidia_devices": ("01:00.0 10de:2684", "0000:41:00.0 10de:2335"),
        "pci.nvidia_count": 2,
        "pci.nvidia_kernel_drivers": ("nouveau",),
        "pci.other_gpus": ("Intel",),
    }

"""From a machine to claims: recordings and folders in, values out."""

import stat
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from troubleshooter.machine import LiveMachine, Machine, RootMachine
from troubleshooter.model import ABSENT, PRESENT, UNKNOWN, Claim, Source, Transcript, present
from troubleshooter.probes import (
    PROBES,
    Probe,
    container,
    device_nodes,
    driver,
    environment,
    nvcc,
    nvidia_smi,
    observe_each,
    observe_machine,
    pci,
    probes_of,
    system,
)
from troubleshooter.recording import RecordedMachine

TABLES = Path(__file__).parent / "outputs" / "nvidia_smi"
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")


def recorded(**parts: object) -> RecordedMachine:
    return RecordedMachine(parts)


def claims_of(probe: Probe, machine: Machine) -> list[Claim]:
    """What a probe says, its unknowns filled in."""
    return [one for one in observe_machine(machine, [probe]) if isinstance(one, Claim)]


def settled(probe: Probe, machine: Machine) -> dict[str, object]:
    """Values by name; the state where there is none. The first witness counts."""
    told: dict[str, object] = {}
    for claim in claims_of(probe, machine):
        told.setdefault(claim.name, claim.value if claim.state == PRESENT else claim.state)
    return told


def bus(*devices: tuple[str, str, str], driver_name: str = "") -> dict[str, object]:
    folder = "/sys/bus/pci/devices"
    files, links = {}, {}
    for number, (kind, vendor, device) in enumerate(devices):
        address = f"0000:{number:02x}:00.0"
        for part, value in (("class", kind), ("vendor", vendor), ("device", device)):
            files[f"{folder}/{address}/{part}"] = f"{value}\n"
        if driver_name:
            links[f"{folder}/{address}/driver"] = f"../../../bus/pci/drivers/{driver_name}"
    return {"files": files, "links": links}


H200 = ("0x030200", "0x10de", "0x2335")
IGPU = ("0x030000", "0x8086", "0x3e92")
NETWORK = ("0x020000", "0x10de", "0x1234")


# --- the runner


class Made:
    """A probe made for a test."""

    NAME = "made"
    FACTS: tuple[str, ...] = ("nvcc.version", "nvcc.path")

    def __init__(self, said: tuple[Claim, ...] = (), error: Exception | None = None, seconds: float = 0) -> None:
        self._said, self._error, self._seconds = said, error, seconds

    def probe(self, machine: Machine) -> Iterator[Claim | Transcript]:  # noqa: ARG002
        yield from self._said
        time.sleep(self._seconds)
        if self._error:
            raise self._error


SAID = (present("nvcc.version", "12.4", Source("probe", "command")),)


def test_a_probe_that_breaks_leaves_what_it_did_not_say_unknown() -> None:
    said = observe_machine(recorded(), [Made(SAID, ValueError("odd")), Made(SAID)])
    states = [(one.name, one.state, one.reason) for one in said if isinstance(one, Claim)]
    assert states[:2] == [
        ("nvcc.version", PRESENT, ""),
        ("nvcc.path", UNKNOWN, "the probe broke: ValueError: odd"),
    ]
    assert len(states) == 4


def test_a_probe_that_hangs_leaves_its_facts_unknown() -> None:
    began = time.monotonic()
    (observation,) = observe_each(recorded(), [Made(SAID, seconds=30)], seconds=0.3)
    assert time.monotonic() - began < 2
    path = observation.said[-1]
    assert isinstance(path, Claim)
    assert (path.state, path.reason) == (UNKNOWN, "the probe was not through after 0.3 s")


def test_probes_run_at_the_same_time() -> None:
    began = time.monotonic()
    observe_machine(recorded(), [Made(seconds=0.4) for _ in range(8)])
    assert time.monotonic() - began < 1.5


def test_every_probe_states_or_fills_all_its_facts_on_a_machine_that_says_nothing() -> None:
    for probe, observation in zip(probes_of("linux"), observe_each(recorded()), strict=True):
        stated = {one.name for one in observation.said if isinstance(one, Claim)}
        assert stated >= set(probe.FACTS)
        assert observation.seconds < 1


def test_every_fact_of_a_probe_is_in_the_catalogue() -> None:
    file = Path(__file__).parents[1] / "knowledge_base" / "facts.yaml"
    catalogue = yaml.safe_load(file.read_text(encoding="utf-8"))["facts"]
    assert {name for probe in PROBES for name in probe.FACTS} <= set(catalogue)


def test_this_machine_can_be_observed() -> None:
    observations = observe_each(LiveMachine())
    assert [observation.probe for observation in observations] == [probe.NAME for probe in probes_of("linux")]
    families = [one for one in observations[0].said if isinstance(one, Claim) and one.name == "os.family"]
    assert families[0].state == PRESENT
    running = {thread.name for thread in threading.enumerate()}
    assert not running & {f"probe-{probe.NAME}" for probe in PROBES}


# --- the system


@pytest.mark.parametrize(
    ("kernel", "family", "version"),
    [
        ("6.8.0-45-generic", "linux", ABSENT),
        ("5.15.153.1-microsoft-standard-WSL2", "wsl", 2),
        ("4.4.0-19041-Microsoft", "wsl", 1),
    ],
)
def test_the_kernel_tells_linux_from_wsl(kernel: str, family: str, version: object) -> None:
    found = settled(system, recorded(files={"/proc/sys/kernel/osrelease": kernel + "\n"}))
    assert (found["os.family"], found["wsl.version"], found["os.kernel"]) == (family, version, kernel)


@pytest.mark.parametrize(
    ("command", "glibc"),
    [
        ({"argv": "getconf GNU_LIBC_VERSION", "text": "glibc 2.35\n"}, "2.35"),
        ({"argv": "ldd --version", "text": "ldd (Ubuntu GLIBC 2.35-0ubuntu3.8) 2.35\nCopyright\n"}, "2.35"),
        ({"argv": "ldd --version", "text": "ldd (GNU libc) 2.17\n"}, "2.17"),
        ({"argv": "ldd --version", "code": 1, "errors": "musl libc (x86_64)\nVersion 1.2.4\n"}, ABSENT),
        ({"argv": "true"}, UNKNOWN),
    ],
)
def test_the_c_library_is_told_by_whoever_knows(command: dict[str, object], glibc: str) -> None:
    assert settled(system, recorded(commands=[command]))["os.glibc"] == glibc


def test_windows_is_told_by_numbers_whatever_its_language() -> None:
    machine = recorded(
        platform="win32",
        commands=[{"argv": ["cmd", "/d", "/c", "ver"], "text": "\r\nMicrosoft Windows [版本 10.0.22631.3447]\r\n"}],
        environment={"PROCESSOR_ARCHITECTURE": "AMD64"},
    )
    found = settled(system, machine)
    assert found["os.family"] == "windows"
    assert found["os.release"] == "Windows 11 (10.0.22631.3447)"
    assert found["os.architecture"] == "AMD64"
    assert found["os.glibc"] == ABSENT


def test_on_macos_no_gpu_and_no_driver_is_absent_and_not_unknown() -> None:
    machine = recorded(platform="darwin", missing=["nvidia-smi"])
    for probe in (pci, driver, nvidia_smi):
        states = {claim.name: claim.state for claim in claims_of(probe, machine) if claim.name != "nvidia_smi.ending"}
        assert set(states.values()) == {ABSENT}, probe.NAME


# --- containers


@pytest.mark.parametrize(
    ("parts", "kind"),
    [
        ({"files": {"/.dockerenv": ""}}, "docker"),
        ({"files": {"/run/.containerenv": ""}}, "podman"),
        ({"environment": {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "files": {"/.dockerenv": ""}}, "kubernetes"),
        ({"environment": {"APPTAINER_CONTAINER": "/x.sif"}}, "singularity"),
        ({"files": {"/proc/1/cgroup": "12:cpu:/docker/abc\n"}}, "docker"),
        ({"files": {"/proc/1/cgroup": "0::/kubepods.slice/x\n"}}, "kubernetes"),
        ({"environment": {"container": "lxc"}}, "lxc"),
        (
            {
                "files": {
                    "/proc/self/mountinfo": "1 0 0:5 / / rw - overlay overlay rw,upperdir=/var/lib/docker/overlay2/a\n"
                }
            },
            "docker",
        ),
        ({"files": {"/proc/self/mountinfo": "1 0 0:5 / / rw - overlay overlay rw,upperdir=/cow/upper\n"}}, ABSENT),
        ({"files": {"/proc/1/cgroup": "0::/init.scope\n"}}, ABSENT),
        ({"missing": ["/.dockerenv"]}, ABSENT),
        ({}, UNKNOWN),
        ({"platform": "win32"}, ABSENT),
    ],
)
def test_the_kind_of_container_is_told_by_its_marks(parts: dict[str, object], kind: str) -> None:
    assert settled(container, recorded(**parts))["container.kind"] == kind


# --- the bus


def test_the_bus_tells_nvidia_controllers_their_driver_and_the_others() -> None:
    found = settled(pci, recorded(**bus(IGPU, H200, NETWORK, driver_name="nouveau")))
    assert found == {
        "pci.nvidia_devices": ("0000:01:00.0 10de:2335",),
        "pci.nvidia_count": 1,
        "pci.nvidia_kernel_drivers": ("nouveau",),
        "pci.other_gpus": ("Intel",),
    }


def test_a_bus_that_was_read_and_has_none_is_absent() -> None:
    found = settled(pci, recorded(**bus(IGPU, NETWORK)))
    assert (found["pci.nvidia_devices"], found["pci.nvidia_count"], found["gpu.count"]) == (ABSENT, 0, 0)


@pytest.mark.parametrize(
    "parts",
    [
        {"missing": ["/sys"]},
        {"listings": {"/sys/bus/pci/devices": []}},
        {"listings": {"/sys/bus/pci/devices": {"ending": "denied", "reason": "Permission denied"}}},
        {"listings": {"/sys/bus/pci/devices": ["0000:00:00.0"]}},
    ],
)
def test_a_bus_that_could_not_be_read_is_unknown_with_the_reason(parts: dict[str, object]) -> None:
    claims = claims_of(pci, recorded(**parts))
    assert {claim.state for claim in claims} == {UNKNOWN}
    assert all(claim.reason for claim in claims)


def test_the_bus_of_wsl_proves_nothing() -> None:
    parts = bus(IGPU)
    files = {**parts["files"], "/proc/sys/kernel/osrelease": "5.15-microsoft-standard-WSL2"}  # type: ignore[dict-item]
    assert settled(pci, recorded(files=files))["pci.nvidia_devices"] == UNKNOWN


# --- the driver

VERSION_FILE = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun  6 22:20:39 UTC 2023\n"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"


def test_a_loaded_driver_tells_its_version_by_two_witnesses() -> None:
    machine = recorded(
        files={"/proc/driver/nvidia/version": VERSION_FILE, "/sys/module/nvidia/version": "535.54.03\n"},
        listings={LIBRARIES: ["libcuda.so.1", "libcuda.so.535.54.03", "libcuda.so.470.82.01"]},
        links={f"{LIBRARIES}/libcuda.so.1": "libcuda.so.535.54.03"},
        missing=["/sys/module/nouveau"],
    )
    claims = claims_of(driver, machine)
    versions = [(claim.value, claim.source.file) for claim in claims if claim.name == "driver.version"]
    assert versions == [("535.54.03", "/proc/driver/nvidia/version"), ("535.54.03", "/sys/module/nvidia/version")]
    found = settled(driver, machine)
    assert found["driver.loaded"] is True
    assert found["driver.installed"] is True
    assert found["driver.library_version"] == "535.54.03"
    assert found["driver.flavour"] == "proprietary"


def test_a_library_newer_than_the_module_shows_both_versions() -> None:
    machine = recorded(
        files={"/proc/driver/nvidia/version": VERSION_FILE},
        listings={"/usr/lib64": ["libnvidia-ml.so.1", "libnvidia-ml.so.550.54.15"]},
    )
    found = settled(driver, machine)
    assert (found["driver.kernel_version"], found["driver.library_version"]) == ("535.54.03", "550.54.15")


BARE: dict[str, object] = {
    "files": {"/proc/modules": "nouveau 2400256 1 - Live 0x0\next4 1 2 - Live 0x0\n"},
    "listings": {"/sys/module": ["nouveau", "ext4"], "/sys": ["module"], LIBRARIES: ["libc.so.6"]},
    "missing": ["/proc/driver/nvidia", "nvidia-smi", "/.dockerenv", "/run/.containerenv"],
}


def test_a_machine_without_a_driver_says_so() -> None:
    found = settled(driver, recorded(**BARE))
    assert found["driver.loaded"] is False
    assert found["driver.installed"] is False
    assert found["nouveau.loaded"] is True
    assert found["driver.kernel_version"] == ABSENT


def test_a_container_cannot_deny_what_its_host_has() -> None:
    found = settled(driver, recorded(**{**BARE, "environment": {"KUBERNETES_SERVICE_HOST": "x"}}))
    assert found["driver.loaded"] == UNKNOWN
    assert found["driver.installed"] == UNKNOWN


def test_a_module_on_disk_is_an_installed_driver_that_is_not_loaded() -> None:
    files = {**BARE["files"], "/proc/sys/kernel/osrelease": "6.8.0-45-generic\n"}  # type: ignore[dict-item]
    listings = {**BARE["listings"], "/lib/modules/6.8.0-45-generic/updates/dkms": ["nvidia.ko.zst"]}  # type: ignore[dict-item]
    found = settled(driver, recorded(**{**BARE, "files": files, "listings": listings}))
    assert (found["driver.installed"], found["driver.loaded"]) == (True, False)


def test_what_cannot_be_seen_is_unknown() -> None:
    assert set(settled(driver, recorded()).values()) == {UNKNOWN}


# --- device nodes


def test_nodes_that_this_user_may_not_open_are_named() -> None:
    machine = recorded(
        listings={"/dev": ["null", "nvidia0", "nvidiactl", "nvidia-caps", "nvidia1"]},
        stats={
            "/dev/nvidia0": {"kind": "char", "mode": "0660"},
            "/dev/nvidiactl": {"kind": "char", "mode": "0666"},
            "/dev/nvidia-caps": {"kind": "directory"},
            "/dev/nvidia1": {"kind": "file"},
        },
    )
    assert settled(device_nodes, machine) == {
        "device_nodes.nvidia": ("nvidia0", "nvidiactl"),
        "device_nodes.unreadable": ("nvidia0",),
        "device_nodes.uvm": False,
    }


def test_a_dev_folder_without_nodes_is_absent_and_an_unseen_one_unknown() -> None:
    assert settled(device_nodes, recorded(listings={"/dev": ["null"]}))["device_nodes.nvidia"] == ABSENT
    assert settled(device_nodes, recorded())["device_nodes.nvidia"] == UNKNOWN


# --- nvidia-smi


def smi(**answer: object) -> RecordedMachine:
    return recorded(commands=[{"argv": ["nvidia-smi"], **answer}])


@pytest.mark.parametrize(
    ("answer", "ending"),
    [
        ({"code": 9, "text": "NVIDIA-SMI has failed because it couldn't communicate"}, "failed"),
        ({"code": 127, "errors": "nvidia-smi: error while loading shared libraries"}, "failed"),
        ({"signal": "SIGSEGV"}, "crashed"),
        ({"ending": "timed-out", "reason": "it did not end within 15 s"}, "timed-out"),
        ({"ending": "missing"}, "missing"),
        ({"ending": "denied"}, "denied"),
        ({"text": " \n"}, "empty"),
    ],
)
def test_each_ending_of_nvidia_smi_is_told(answer: dict[str, object], ending: str) -> None:
    said = observe_machine(smi(**answer), [nvidia_smi])
    told = {one.name: one for one in said if isinstance(one, Claim)}
    assert told["nvidia_smi.ending"].value == ending
    assert told["driver.version"].state == UNKNOWN
    texts = [one.text for one in said if isinstance(one, Transcript)]
    assert any(str(answer.get("text") or answer.get("errors")) in text for text in texts) or not (
        answer.get("errors") or str(answer.get("text", "")).strip()
    )


def test_a_good_answer_tells_driver_cards_and_capability() -> None:
    query = "index, compute_cap\n0, 9.0\n"
    machine = recorded(
        commands=[
            {"argv": ["nvidia-smi", "-q", "-x"], "text": (TABLES / "580-h200.xml").read_text()},
            {"argv": ["nvidia-smi", "--query-gpu=index,compute_cap", "--format=csv"], "text": query},
        ]
    )
    found = settled(nvidia_smi, machine)
    assert found["driver.version"] == "580.159.04"
    assert found["gpu.capability"] == "9.0"
    assert found["gpu.name"] == "NVIDIA H200"
    assert not [one for one in observe_machine(machine, [nvidia_smi]) if isinstance(one, Transcript)]


def test_a_warning_beside_a_good_answer_is_kept_for_the_signatures() -> None:
    warning = "WARNING: infoROM is corrupted at gpu 0000:06:00.0"
    machine = smi(text=(TABLES / "610.txt").read_text(), errors=warning)
    assert [one.text for one in observe_machine(machine, [nvidia_smi]) if isinstance(one, Transcript)] == [warning]


def test_one_recorded_output_serves_every_call(tmp_path: Path) -> None:
    (tmp_path / ".commands").mkdir()
    (tmp_path / ".commands" / "nvidia-smi.txt").write_text((TABLES / "470-mig.txt").read_text())
    found = settled(nvidia_smi, RootMachine(tmp_path))
    assert (found["nvidia_smi.ending"], found["driver.version"], found["gpu.count"]) == ("ok", "470.82.01", 2)
    assert found["gpu.capability"] == UNKNOWN


@POSIX
def test_a_nvidia_smi_that_hangs_is_ended_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".commands").mkdir()
    script = tmp_path / ".commands" / "nvidia-smi"
    script.write_text("#!/bin/sh\nsleep 60\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(nvidia_smi, "SECONDS", 0.5)
    began = time.monotonic()
    claims = {claim.name: claim for claim in claims_of(nvidia_smi, RootMachine(tmp_path))}
    assert claims["nvidia_smi.ending"].value == "timed-out"
    assert "0.5 s" in claims["nvidia_smi.ending"].reason
    assert "0.5 s" in claims["driver.version"].reason
    assert time.monotonic() - began < 4


# --- variables


@pytest.mark.parametrize(
    ("value", "hides"),
    [
        (None, False),
        ("", True),
        ("  ", True),
        ("-1", True),
        ("-1,0", True),
        ("NoDevFiles", True),
        ("none", True),
        ('"0"', True),
        (",0", True),
        ("0", False),
        ("0,-1", False),
        ("1", False),
        ("2", True),
        ("GPU-8932f937", UNKNOWN),
        ("MIG-GPU-1/0/0", UNKNOWN),
    ],
)
def test_only_what_surely_hides_all_gpus_is_said_to(value: str | None, hides: object) -> None:
    variables = {} if value is None else {"CUDA_VISIBLE_DEVICES": value}
    machine = recorded(environment=variables, listings={"/proc/driver/nvidia/gpus": ["0000:01:00.0", "0000:02:00.0"]})
    found = settled(environment, machine)
    assert found["env.hides_all_gpus"] == hides
    assert found["env.CUDA_VISIBLE_DEVICES"] == (ABSENT if value is None else value)


def test_an_index_beyond_unseen_cards_is_unknown() -> None:
    assert settled(environment, recorded(environment={"CUDA_VISIBLE_DEVICES": "7"}))["env.hides_all_gpus"] == UNKNOWN


def test_folders_of_a_toolkit_are_found_by_what_they_hold() -> None:
    path = "/usr/local/nvidia/lib64:/opt/old:/usr/local/cuda-11.8/lib64:/gone/cuda/lib64::/opt/plain"
    machine = recorded(
        environment={"LD_LIBRARY_PATH": path},
        listings={
            "/usr/local/nvidia/lib64": ["libcuda.so.1"],
            "/opt/old": ["libcudnn_ops.so.8", "libcudart.so.11.0"],
            "/usr/local/cuda-11.8/lib64": [],
            "/opt/plain": ["libz.so.1"],
        },
        missing=["/gone"],
    )
    assert settled(environment, machine)["loader.cuda_folders"] == ("/opt/old", "/usr/local/cuda-11.8/lib64")


def test_escapes_in_a_variable_are_not_carried_on() -> None:
    assert settled(environment, recorded(environment={"CUDA_HOME": "/a\x1b[31mb\x00"}))["env.CUDA_HOME"] == "/ab"


# --- the toolkit


def test_nvcc_on_path_tells_its_release_and_place() -> None:
    command = {"argv": "nvcc --version", "program": "/usr/local/cuda/bin/nvcc", "text": "release 12.4, V12.4.131"}
    assert settled(nvcc, recorded(commands=[command])) == {
        "nvcc.path": "/usr/local/cuda/bin/nvcc",
        "nvcc.version": "12.4",
    }


@pytest.mark.parametrize(
    ("parts", "state"),
    [({"missing": ["nvcc"]}, ABSENT), ({}, UNKNOWN), ({"commands": [{"argv": "nvcc --version", "code": 1}]}, UNKNOWN)],
)
def test_no_nvcc_is_absent_and_a_broken_one_unknown(parts: dict[str, object], state: str) -> None:
    assert settled(nvcc, recorded(**parts))["nvcc.version"] == state

"""The probes that ask the driver's libraries, the kernel, the services, the toolkits and the settings."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_probes import bus, claims_of, recorded, settled

from troubleshooter.machine import OWN, LiveMachine, RootMachine
from troubleshooter.model import PRESENT, UNKNOWN, Claim, Transcript
from troubleshooter.probes import (
    PROBES,
    build_tools,
    container,
    device_nodes,
    environment,
    installer_settings,
    job,
    kernel,
    libcuda,
    nvml,
    observe_each,
    observe_machine,
    resources,
    services,
    toolkits,
    wsl,
)
from troubleshooter.probes.around_target import AroundTarget
from troubleshooter.probes.other_pythons import others_with_torch
from troubleshooter.recording import RecordedMachine

CHILDREN = Path(__file__).parent / "outputs" / "children"
PLAIN = ["/.dockerenv", "/run/.containerenv", "/.singularity.d"]
ON_A_HOST = {
    "files": {
        "/proc/sys/kernel/osrelease": "5.15.0-105-generic\n",
        "/proc/1/cgroup": "0::/init.scope\n",
        "/proc/self/mountinfo": "22 1 8:2 / / rw,relatime - ext4 /dev/sda2 rw\n",
    },
    "missing": PLAIN,
}


def host(**parts: object) -> RecordedMachine:
    files = {**ON_A_HOST["files"], **parts.pop("files", {})}
    missing = [*PLAIN, *parts.pop("missing", [])]
    return recorded(files=files, missing=missing, **parts)


def answering(name: str, text: str, **parts: object) -> RecordedMachine:
    return recorded(commands=[{"argv": [f"{OWN}{name}"], "text": text, **parts}], missing=["nvidia-smi"])


def lines(*answers: dict[str, object]) -> str:
    return "".join(json.dumps(answer) + "\n" for answer in answers)


def by_subject(machine: RecordedMachine) -> dict[tuple[str, str], object]:
    return {(one.subject, one.name): one.value for one in claims_of(nvml, machine) if one.state == PRESENT}


# --- NVML


def test_nvml_tells_of_driver_and_gpu_as_nvidia_smi_does() -> None:
    told = by_subject(answering("nvml", (CHILDREN / "580-h200-nvml.txt").read_text()))
    assert told["host", "nvml.ending"] == "ok"
    assert told["host", "driver.version"] == "580.159.04"
    assert told["host", "driver.cuda_version"] == "13.0"
    assert told["host", "gpu.count"] == 1
    assert told["gpu:0", "gpu.name"] == "NVIDIA H200"
    assert told["gpu:0", "gpu.capability"] == "9.0"
    assert told["gpu:0", "gpu.memory_mib"] == 143771
    assert told["gpu:0", "gpu.compute_mode"] == "Default"
    assert told["gpu:0", "gpu.mig"] is False
    assert told["gpu:0", "gpu.pcie_width"] == 16
    assert told["gpu:0", "gpu.fabric_state"] == "not-supported"
    assert told["gpu:0", "gpu.processes"] == 0
    assert ("gpu:0", "gpu.throttled_by") not in told


def test_memory_in_use_is_nvidia_smis_to_tell_where_it_is_there() -> None:
    text = (CHILDREN / "580-h200-nvml.txt").read_text()
    assert ("gpu:0", "gpu.memory_used_mib") in by_subject(answering("nvml", text))
    both = recorded(commands=[{"argv": [f"{OWN}nvml"], "text": text}, {"argv": ["nvidia-smi"], "text": "…"}])
    assert ("gpu:0", "gpu.memory_used_mib") not in by_subject(both)


def test_what_holds_the_clocks_back_is_named() -> None:
    text = lines({"ask": "init", "code": 0}, {"gpu": 1, "ask": "throttle", "code": 0, "values": [0x1 | 0x4 | 0x40]})
    assert by_subject(answering("nvml", text))["gpu:1", "gpu.throttled_by"] == ("power-cap", "hardware-thermal")


def test_a_nvml_that_cannot_be_started_gives_its_code_and_words() -> None:
    text = lines({"ask": "load", "error": ""}, {"ask": "init", "code": 18, "text": "Driver/library version mismatch"})
    told = settled(nvml, answering("nvml", text))
    assert (told["nvml.ending"], told["nvml.code"]) == ("failed", 18)
    reasons = {one.name: one.reason for one in claims_of(nvml, answering("nvml", text)) if one.state == UNKNOWN}
    assert reasons["gpu.processes"] == "NVML does not say: Driver/library version mismatch"


def test_a_nvml_that_dies_in_the_middle_keeps_what_it_said() -> None:
    whole = (CHILDREN / "580-h200-nvml.txt").read_text()
    machine = answering("nvml", whole[: whole.index('"mig"')], ending="crashed", signal="SIGSEGV", reason="it ended")
    told = settled(nvml, machine)
    assert told["nvml.ending"] == "crashed"
    assert told["gpu.count"] == 1
    assert told["gpu.mig_devices"] == UNKNOWN


@pytest.mark.parametrize(
    "text", ["", "no json\n", "[1, 2]\n", '{"ask": "count", "code": 0, "values": ["many"]}\n', '{"gpu": 0}\n' * 3]
)
def test_rubbish_from_the_child_is_no_answer(text: str) -> None:
    assert settled(nvml, answering("nvml", text))["gpu.processes"] == UNKNOWN
    assert settled(libcuda, answering("libcuda", text))["cuda.device_count"] == UNKNOWN


# --- libcuda


def test_cuda_that_starts_tells_its_devices() -> None:
    told = settled(libcuda, answering("libcuda", (CHILDREN / "580-h200-libcuda.txt").read_text()))
    assert told["libcuda.ending"] == "ok"
    assert told["libcuda.path"] == "/usr/local/nvidia/lib64/libcuda.so.580.159.04"
    assert told["libcuda.cuda_version"] == "13.0"
    assert (told["cuda.init_code"], told["cuda.device_count"]) == (0, 1)


def test_cuda_that_does_not_start_gives_code_and_name() -> None:
    text = lines(
        {"ask": "load", "error": "", "path": "/usr/lib/x86_64-linux-gnu/libcuda.so.535.183.01"},
        {"ask": "version", "code": 0, "value": 12020},
        {"ask": "starting"},
        {"ask": "init", "code": 802, "name": "CUDA_ERROR_SYSTEM_NOT_READY"},
    )
    told = settled(libcuda, answering("libcuda", text))
    assert (told["libcuda.ending"], told["cuda.init_error"]) == ("failed", "CUDA_ERROR_SYSTEM_NOT_READY")


def test_a_stub_has_a_code_and_no_name() -> None:
    text = lines({"ask": "load", "error": "", "path": "/x/stubs/libcuda.so"}, {"ask": "init", "code": 34, "name": ""})
    assert settled(libcuda, answering("libcuda", text))["cuda.init_error"] == "error 34"


def test_a_start_of_cuda_that_hangs_is_said_to_hang() -> None:
    text = lines({"ask": "load", "error": "", "path": "/x/libcuda.so.1"}, {"ask": "starting"})
    told = settled(libcuda, answering("libcuda", text, ending="timed-out", reason="it ran longer than 25 s"))
    assert (told["libcuda.ending"], told["cuda.init_code"]) == ("timed-out", UNKNOWN)


def test_without_libcuda_the_loaders_words_are_kept() -> None:
    words = "libcuda.so.1: cannot open shared object file: No such file or directory"
    told = settled(libcuda, answering("libcuda", lines({"ask": "load", "error": words})))
    assert (told["libcuda.ending"], told["libcuda.error"], told["libcuda.path"]) == ("not-loaded", words, "absent")


def test_the_children_answer_on_this_machine_whatever_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    machine = LiveMachine()
    for probe in (nvml, libcuda):
        told = settled(probe, machine)
        assert told[f"{probe.NAME}.ending"] in ("ok", "failed", "not-loaded")
    answer = machine.run([f"{OWN}libcuda"], 30)
    assert answer.argv == (f"{OWN}libcuda",)
    assert json.loads(answer.text.splitlines()[0])["ask"] == "load"


def test_a_folder_answers_for_the_children_by_their_names(tmp_path: Path) -> None:
    (tmp_path / ".commands").mkdir()
    (tmp_path / ".commands" / f"{OWN}nvml.txt").write_text(
        lines({"ask": "init", "code": 9, "text": "Driver Not Loaded"})
    )
    assert settled(nvml, RootMachine(tmp_path))["nvml.code"] == 9
    assert settled(libcuda, RootMachine(tmp_path))["libcuda.ending"] == UNKNOWN


# --- the kernel


SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


@pytest.mark.parametrize(("value", "expected"), [("\6\0\0\0\1", True), ("\6\0\0\0\0", False), ("", UNKNOWN)])
def test_secure_boot_is_the_last_byte_of_the_firmwares_variable(value: str, expected: object) -> None:
    assert settled(kernel, host(files={SECURE_BOOT: value}))["secure_boot.enabled"] == expected


def test_a_machine_without_uefi_has_no_secure_boot() -> None:
    assert settled(kernel, host(listings={"/sys/firmware": ["acpi", "dmi"]}))["secure_boot.enabled"] is False
    assert settled(kernel, host(listings={"/sys/firmware": []}))["secure_boot.enabled"] == UNKNOWN


MODULES = "/lib/modules/5.15.0-105-generic/modules.dep"


def test_a_module_counts_only_for_the_kernel_that_runs() -> None:
    built = host(files={MODULES: "kernel/drivers/char/nvram.ko:\nupdates/dkms/nvidia.ko.zst: kernel/drm.ko\n"})
    assert settled(kernel, built)["driver.module_built"] is True
    other = host(
        files={MODULES: "kernel/fs/nvidiafb.ko:\n"},
        listings={
            "/var/lib/dkms": ["nvidia", "zfs"],
            "/var/lib/dkms/nvidia": ["535.183.01", "kernel-5.15.0-101-generic-x86_64"],
            "/var/lib/dkms/nvidia/535.183.01": ["5.15.0-101-generic", "source"],
            "/var/lib/dkms/nvidia/535.183.01/5.15.0-101-generic": ["x86_64"],
        },
    )
    told = settled(kernel, other)
    assert told["driver.module_built"] is False
    assert told["driver.dkms"] == ("535.183.01 5.15.0-101-generic built",)


def test_settings_that_bar_modules_are_found_in_every_form() -> None:
    told = settled(
        kernel,
        host(
            files={
                "/etc/modprobe.d/a.conf": "# blacklist nvidia\nblacklist nouveau\noptions nouveau modeset=0\n",
                "/usr/lib/modprobe.d/b.conf": "options nvidia-uvm uvm_disable_hmm=1 uvm_ats_mode=0\n",
                "/etc/modprobe.d/readme.txt": "blacklist nvidia\n",
            }
        ),
    )
    assert (told["nouveau.blacklisted"], told["driver.blacklisted"]) == (True, False)
    assert "nvidia_uvm uvm_disable_hmm=1" in told["driver.module_options"]
    by_boot = host(files={"/proc/cmdline": "quiet modprobe.blacklist=nvidia,nvidia_drm\n"}, missing=["/etc/modprobe.d"])
    assert settled(kernel, by_boot)["driver.blacklisted"] is True
    never = host(files={"/etc/modprobe.d/c.conf": "install nouveau /bin/false\nalias nvidia off\n"})
    assert settled(kernel, never)["nouveau.blacklisted"] is True
    assert settled(kernel, never)["driver.blacklisted"] is True


LOG = """\
[    0.000000] Linux version 5.15.0-105-generic (buildd@host) #115-Ubuntu SMP
[    3.100000] NVRM: API mismatch: the client has the version 535.230.02, but
[    9.000000] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024
[    9.100000] systemd[1]: Started Something.
[  812.000000] NVRM: Xid (PCI:0000:65:00): 79, pid=1234, GPU has fallen off the bus.
[  813.000000] NVRM: Xid (PCI:0000:65:00): 45, pid=1234, Ch 00000008
[  813.000000] NVRM: Xid (PCI:0000:65:00): 45, pid=1234, Ch 00000009
"""


def log_of(machine: RecordedMachine) -> tuple[dict[str, object], str]:
    said = observe_machine(machine, [kernel])
    return settled(kernel, machine), "\n".join(one.text for one in said if isinstance(one, Transcript))


def test_the_kernels_log_is_read_from_the_last_loading_of_the_driver_on() -> None:
    told, text = log_of(host(commands=[{"argv": ["dmesg"], "text": LOG}]))
    assert told["kernel_log.readable"] is True
    assert told["kernel_log.xids"] == ("79", "45")
    assert told["kernel_log.xid_addresses"] == ("0000:65:00",)
    assert "fallen off the bus" in text
    assert "API mismatch" not in text
    assert "systemd" not in text


def test_a_log_without_complaints_is_said_to_have_none_if_it_is_whole() -> None:
    quiet = "".join(line + "\n" for line in LOG.splitlines() if "Xid" not in line and "API" not in line)
    assert log_of(host(commands=[{"argv": ["dmesg"], "text": quiet}]))[0]["kernel_log.gpu_error"] == "none"
    cut = quiet.split("\n", 1)[1]
    assert log_of(host(commands=[{"argv": ["dmesg"], "text": cut}]))[0]["kernel_log.gpu_error"] == UNKNOWN


def test_who_may_not_read_the_ring_is_told_so_after_the_journal_was_tried() -> None:
    denied = {"argv": ["dmesg"], "code": 1, "errors": "dmesg: read kernel buffer failed: Operation not permitted\n"}
    told, _ = log_of(host(commands=[denied], missing=["journalctl", "/var/log/dmesg"]))
    assert told["kernel_log.readable"] is False
    assert told["kernel_log.xids"] == UNKNOWN
    journal = {"argv": [*kernel._JOURNAL], "text": LOG}
    assert log_of(host(commands=[denied, journal]))[0]["kernel_log.xids"] == ("79", "45")


def test_a_container_does_not_speak_for_the_kernel_of_its_host() -> None:
    machine = recorded(
        files={"/.dockerenv": "", SECURE_BOOT: "\6\0\0\0\1", "/etc/modprobe.d/a.conf": "blacklist nvidia\n"}
    )
    told = settled(kernel, machine)
    assert told["secure_boot.enabled"] == UNKNOWN
    assert told["driver.blacklisted"] == UNKNOWN


# --- services


def test_nvswitches_and_their_service_are_found() -> None:
    parts = bus(("0x030200", "0x10de", "0x2335"), ("0x068000", "0x10de", "0x22a3"), ("0x068000", "0x8086", "0x1234"))
    running = {"/run/nvidia-fabricmanager/nv-fabricmanager.pid": "812\n", "/proc/812/comm": "nv-fabricmanage\n"}
    told = settled(services, host(files={**parts["files"], **running}, missing=["/usr/bin/nvidia-ctk"]))
    assert told["pci.nvswitch_count"] == 1
    assert told["fabric_manager.running"] is True
    assert told["container_toolkit.installed"] is False
    reused = {**running, "/proc/812/comm": "bash\n"}
    assert settled(services, host(files={**parts["files"], **reused}))["fabric_manager.running"] is False
    gone = host(files=parts["files"], listings={"/run": ["lock"]}, missing=["/run/nvidia-fabricmanager"])
    assert settled(services, gone)["fabric_manager.running"] is False
    assert settled(services, recorded(files=parts["files"]))["fabric_manager.running"] == UNKNOWN


def test_the_container_toolkit_is_seen_where_it_is_registered() -> None:
    runtime = '{"runtimes": {"nvidia": {"path": "nvidia-container-runtime", "args": []}}}'
    told = settled(
        services,
        host(files={"/etc/docker/daemon.json": runtime, "/etc/cdi/nvidia.yaml": "", "/usr/bin/nvidia-ctk": ""}),
    )
    assert told["container_toolkit.docker_runtime"] is True
    assert told["container_toolkit.cdi"] == ("/etc/cdi/nvidia.yaml",)
    assert told["container_toolkit.installed"] is True


# --- containers and nodes


def test_a_container_shows_what_the_runtime_brought_in() -> None:
    mounts = (
        "712 611 0:56 / / rw - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l\n"
        "812 712 259:1 /usr/bin/nvidia-smi /usr/bin/nvidia-smi ro - ext4 /dev/root rw\n"
        "813 712 0:5 /nvidia0 /dev/nvidia0 ro - devtmpfs udev rw\n"
    )
    files = {"/.dockerenv": "", "/proc/self/mountinfo": mounts, "/sys/fs/cgroup/devices/devices.list": "c 1:3 rwm\n"}
    told = settled(container, recorded(files=files))
    assert told["container.gpu_mounts"] == ("/usr/bin/nvidia-smi", "/dev/nvidia0")
    assert told["container.gpu_allowed"] is False
    allowed = {**files, "/sys/fs/cgroup/devices/devices.list": "c 1:3 rwm\nc 195:* rw\n"}
    assert settled(container, recorded(files=allowed))["container.gpu_allowed"] is True
    assert settled(container, host())["container.gpu_mounts"] == "absent"


def test_the_node_of_uvm_is_told_apart() -> None:
    nodes = {f"/dev/{name}": {"kind": "char", "mode": "0666"} for name in ("nvidia0", "nvidiactl")}
    machine = recorded(listings={"/dev": ["nvidia0", "nvidiactl"]}, stats=nodes)
    assert settled(device_nodes, machine)["device_nodes.uvm"] is False


# --- WSL


def test_a_linux_driver_inside_wsl_is_named() -> None:
    machine = recorded(
        files={
            "/proc/sys/kernel/osrelease": "5.15.153.1-microsoft-standard-WSL2\n",
            "/usr/lib/wsl/lib/libcuda.so.1": "",
            "/usr/lib/x86_64-linux-gnu/libcuda.so.535.183.01": "",
        },
        listings={
            "/var/lib/dpkg/info": ["libnvidia-compute-535:amd64.list", "libc6:amd64.list", "nvidia-driver-535.md5sums"]
        },
        stats={"/dev/dxg": {"kind": "char", "mode": "0666"}},
    )
    told = settled(wsl, machine)
    assert (told["wsl.libraries"], told["wsl.gpu_device"]) == (True, True)
    assert told["wsl.linux_driver"] == ("/usr/lib/x86_64-linux-gnu/libcuda.so.535.183.01", "libnvidia-compute-535")
    assert settled(wsl, host())["wsl.libraries"] == "absent"
    assert settled(wsl, recorded())["wsl.libraries"] == UNKNOWN


# --- toolkits and tools


def test_toolkits_side_by_side_are_told_apart_and_the_winner_named() -> None:
    machine = recorded(
        environment={"CUDA_HOME": "/usr/local/cuda-11.8", "PATH": "/usr/bin"},
        files={
            "/usr/local/cuda-12.4/version.json": '{"cuda": {"name": "CUDA SDK", "version": "12.4.1"}}',
            "/usr/local/cuda-12.4/bin/nvcc": "",
            "/usr/local/cuda-11.8/include/cuda.h": "#define CUDA_VERSION 11080\n",
            "/usr/local/cuda-11.8/bin/ptxas": "",
        },
        links={"/usr/local/cuda": "/etc/alternatives/cuda", "/etc/alternatives/cuda": "/usr/local/cuda-12.4"},
        listings={"/usr/local": ["bin", "cuda", "cuda-11.8", "cuda-12.4"], "/usr/local/cuda": ["bin", "version.json"],
                  "/usr/local/cuda-11.8/bin": ["ptxas"]},
    )  # fmt: skip
    told = settled(toolkits, machine)
    assert set(told["toolkit.versions"]) == {"11.8", "12.4.1"}
    assert (told["toolkit.home"], told["toolkit.home_from"]) == ("/usr/local/cuda-11.8", "CUDA_HOME")
    assert (told["toolkit.home_version"], told["toolkit.home_has_nvcc"]) == ("11.8", False)


def test_a_machine_without_a_toolkit_is_said_to_have_none() -> None:
    machine = recorded(listings={"/usr/local": ["bin"]}, missing=["/opt", "/usr/lib", "nvcc", "/usr/local/cuda"])
    assert settled(toolkits, machine)["toolkit.home"] == "absent"
    missing = recorded(
        missing=["/usr/local", "/opt", "/usr/lib", "nvcc", "/opt/conda"], environment={"CONDA_PREFIX": "/opt/conda"}
    )
    assert settled(toolkits, missing)["toolkit.folders"] == "absent"
    assert settled(toolkits, recorded())["toolkit.folders"] == UNKNOWN


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("gcc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0\nCopyright (C) 2021", "11.4.0"),
        ("gcc (GCC) 8.5.0 20210514 (Red Hat 8.5.0-18)", "8.5.0"),
        ("g++-12 (Debian 12.2.0-14) 12.2.0", "12.2.0"),
        ("Ubuntu clang version 14.0.0-1ubuntu1.1", "14.0.0"),
        ("cmake version 3.22.1\n\nCMake suite", "3.22.1"),
        ("1.11.1.git.kitware.jobserver-1\n", "1.11.1"),
        ("gcc: fatal error", UNKNOWN),
    ],
)
def test_versions_of_build_tools_are_read(line: str, version: str) -> None:
    machine = recorded(commands=[{"argv": ["gcc", "--version"], "text": line}], missing=["g++"])
    told = settled(build_tools, machine)
    assert (told["tool.gcc"], told["tool.g++"], told["tool.ninja"]) == (version, "absent", UNKNOWN)


# --- room and limits


def test_memory_limits_and_room_are_read() -> None:
    machine = recorded(
        files={
            "/proc/meminfo": "MemTotal:       16318508 kB\nMemAvailable:    8000000 kB\nSwapTotal:             0 kB\n",
            "/proc/self/limits": (
                "Limit                     Soft Limit           Hard Limit           Units     \n"
                "Max processes             63432                63432                processes \n"
                "Max open files            1024                 1048576              files     \n"
                "Max locked memory         unlimited            unlimited            bytes     \n"
            ),
            "/sys/fs/cgroup/memory.max": "2147483648\n",
        },
        stats={"/dev/shm": {"kind": "directory"}, "/tmp": {"kind": "directory"}},
        commands=[
            {
                "argv": ["df", "-Pk", "/dev/shm"],
                "text": "Filesystem 1024-blocks Used Available Capacity Mounted on\nshm 65536 1024 64512 2% /dev/shm\n",
            },
            {
                "argv": ["df", "-Pk", "/tmp"],
                "text": "Filesystem     1024-blocks Used Available Capacity Mounted on\n//server/my share 100 50 2048000 3% /mnt/a b\n",
            },
        ],
    )
    told = settled(resources, machine)
    assert (told["memory.total_mib"], told["memory.available_mib"], told["memory.swap_mib"]) == (15936, 7812, 0)
    assert told["memory.limit_mib"] == 2048
    assert (told["limit.open_files"], told["limit.locked_memory_kib"]) == (1024, "absent")
    assert (told["shm.size_mib"], told["shm.free_mib"]) == (64, 63)
    assert told["disk.temp_free_mib"] == 2000
    assert told["disk.cache_free_mib"] == UNKNOWN


def test_no_limit_of_the_control_group_is_said_to_be_none() -> None:
    for path, text in (
        ("/sys/fs/cgroup/memory.max", "max\n"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
    ):
        assert settled(resources, recorded(files={path: text}))["memory.limit_mib"] == "absent"


# --- jobs and clouds


@pytest.mark.parametrize(
    ("variables", "gpus"),
    [
        ({"SLURM_JOB_ID": "7"}, 0),
        ({"SLURM_JOB_ID": "7", "SLURM_GPUS_ON_NODE": "4"}, 4),
        ({"SLURM_JOB_ID": "7", "SLURM_GPUS_PER_NODE": "a100:2"}, 2),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0,3"}, 2),
        ({"SLURM_JOB_ID": "7", "SLURM_GPUS": "2"}, UNKNOWN),
        ({"PBS_JOBID": "7"}, UNKNOWN),
        ({}, "absent"),
    ],
)
def test_what_a_scheduler_gave_is_read_from_its_variables(variables: dict[str, str], gpus: object) -> None:
    assert settled(job, recorded(environment=variables))["job.gpus"] == gpus


def test_clouds_are_told_by_variables_or_by_the_firmware() -> None:
    assert settled(job, recorded(environment={"KAGGLE_KERNEL_RUN_TYPE": "Batch"}))["cloud.name"] == "kaggle"
    vendor = "/sys/class/dmi/id/sys_vendor"
    assert settled(job, recorded(files={vendor: "Amazon EC2\n"}))["cloud.name"] == "aws"
    laptop = {vendor: "Microsoft Corporation\n", "/sys/class/dmi/id/product_name": "Surface Laptop 5\n"}
    assert settled(job, recorded(files=laptop))["cloud.name"] == "absent"
    assert settled(job, recorded())["cloud.name"] == UNKNOWN


# --- variables and settings


def test_credentials_in_variables_are_not_kept() -> None:
    machine = recorded(
        environment={
            "HTTPS_PROXY": "http://anna:geheim@proxy.example:3128/?token=geheim",
            "http_proxy": "proxy.example:80",
            "PIP_INDEX_URL": "https://__token__:geheim@pypi.example/simple?key=geheim",
            "UV_PUBLISH_TOKEN": "geheim",
            "NVIDIA_API_KEY": "geheim",
            "UV_INDEX_TEAM_PASSWORD": "geheim",
            "NCCL_DEBUG": "INFO",
            "TORCH_CUDA_ARCH_LIST": "8.6",
        }
    )
    told = settled(environment, machine)
    assert told["env.HTTPS_PROXY"] == "http://proxy.example:3128"
    assert told["env.HTTP_PROXY"] == "proxy.example:80"
    assert "PIP_INDEX_URL=https://pypi.example/simple" in told["env.settings"]
    assert "NCCL_DEBUG=INFO" in told["env.settings"]
    assert told["env.TORCH_CUDA_ARCH_LIST"] == "8.6"
    pip = settled(installer_settings, machine)
    assert pip["pip.index_url"] == "https://pypi.example/simple"
    for value in (*told.values(), *pip.values()):
        assert "geheim" not in str(value)


def test_settings_of_the_installers_are_read_without_their_credentials() -> None:
    machine = recorded(
        environment={"HOME": "/home/a", "PWD": "/work/x", "CONDA_PREFIX": "/opt/conda/envs/t"},
        files={
            "/etc/pip.conf": "[global]\nindex-url = https://old.example/simple\n",
            "/home/a/.config/pip/pip.conf": (
                "[global]\n# index-url = https://no.example\nindex_url = https://u:geheim@mirror.example/simple\n"
                "extra-index-url =\n    https://a.example/simple\n    https://b.example/simple\n"
                "[install]\nconstraint: /etc/constraints.txt\n[list]\nformat = columns\n"
            ),
            "/work/x/pyproject.toml": '[tool.uv]\n[[tool.uv.index]]\nurl = "https://u:geheim@uv.example/simple"\ndefault = true\n[tool.uv.pip]\ntorch-backend = "cu128"\n',
            "/home/a/.condarc": "channels:\n  - conda-forge  # first\n  - https://u:geheim@conda.example/main\nssl_verify: true\n",
        },
    )  # fmt: skip
    told = settled(installer_settings, machine)
    assert told["pip.index_url"] == "https://mirror.example/simple"
    assert told["pip.extra_index_urls"] == ("https://a.example/simple", "https://b.example/simple")
    assert told["pip.constraints"] == ("/etc/constraints.txt",)
    assert told["uv.index_url"] == "https://uv.example/simple"
    assert told["uv.torch_backend"] == "cu128"
    assert told["conda.channels"] == ("conda-forge", "https://conda.example/main")
    assert "geheim" not in str(told)


def test_broken_settings_are_no_settings() -> None:
    files = {"/etc/uv/uv.toml": "index-url = \n[[[", "/etc/pip.conf": "\0\1[global\nindex-url"}
    told = settled(installer_settings, recorded(files=files))
    assert (told["uv.index_url"], told["pip.index_url"]) == ("absent", "absent")


# --- around the target


@pytest.mark.skipif(sys.platform == "win32", reason="builds the layout of a POSIX environment")
def test_headers_are_looked_for_with_the_interpreter_that_the_environment_was_made_from(tmp_path: Path) -> None:
    base, venv = tmp_path / "base", tmp_path / "venv"
    for folder in (base / "bin", venv / "bin", venv / "lib/python3.11/site-packages"):
        folder.mkdir(parents=True)
    (base / "bin/python3.11").write_text("")
    (venv / "bin/python").symlink_to(base / "bin/python3.11")
    (venv / "pyvenv.cfg").write_text(f"home = {base}/bin\nversion = 3.11.9\n")
    probe = AroundTarget(str(venv / "bin/python"))
    told = settled(probe, LiveMachine())
    assert told["python.headers"] is False
    assert int(str(told["disk.target_free_mib"])) > 0
    (base / "include/python3.11").mkdir(parents=True)
    (base / "include/python3.11/Python.h").write_text("")
    assert settled(probe, LiveMachine())["python.headers"] is True
    assert settled(AroundTarget(""), LiveMachine())["python.headers"] == UNKNOWN
    assert settled(probe, recorded())["python.headers"] == UNKNOWN


@pytest.mark.skipif(sys.platform == "win32", reason="builds the layout of a POSIX environment")
def test_interpreters_with_torch_are_found_where_each_manager_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, here = tmp_path / "home", tmp_path / "project"
    here.mkdir()

    def environment_at(folder: Path, torch: str) -> Path:
        site = folder / "lib/python3.11/site-packages"
        (folder / "bin").mkdir(parents=True)
        (folder / "bin/python").write_text("")
        if torch:
            (site / "torch").mkdir(parents=True)
            (site / "torch/version.py").write_text(f"__version__ = '{torch}'\n")
        else:
            site.mkdir(parents=True)
        return folder / "bin/python"

    expected = {
        environment_at(home / "miniconda3/envs/a", "2.1.0"): "2.1.0",
        environment_at(home / ".pyenv/versions/3.11.9", "2.2.0"): "2.2.0",
        environment_at(home / ".local/share/uv/tools/b", "2.3.0"): "2.3.0",
        environment_at(home / ".virtualenvs/c", "2.4.0"): "2.4.0",
        environment_at(here / "python_embeded", "2.5.0"): "2.5.0",
        environment_at(tmp_path / "kernel", "2.6.0"): "2.6.0",
        environment_at(tmp_path / "listed", "2.7.0"): "2.7.0",
    }
    environment_at(home / "miniconda3/envs/without", "")
    own = environment_at(here / ".venv", "2.9.0")
    spec = home / ".local/share/jupyter/kernels/k/kernel.json"
    spec.parent.mkdir(parents=True)
    spec.write_text(json.dumps({"argv": [str(tmp_path / "kernel/bin/python"), "-m", "ipykernel_launcher"]}))
    (spec.parent.parent / "broken").mkdir()
    (spec.parent.parent / "broken/kernel.json").write_text("[")
    (home / ".conda").mkdir()
    (home / ".conda/environments.txt").write_text(f"{tmp_path / 'listed'}\n{tmp_path / 'gone'}\n")
    monkeypatch.chdir(here)
    monkeypatch.setattr("os.environ", {"HOME": str(home), "PATH": "/nowhere"})
    found = others_with_torch(LiveMachine(), str(own), [str(here / ".venv/lib/python3.11/site-packages")])
    assert sorted(found) == sorted(f"{path} (torch {version})" for path, version in expected.items())


# --- all together


def test_no_probe_says_anything_of_a_machine_that_says_nothing() -> None:
    """Absent and False are answers: without a word from the machine there must be none."""
    for observation in observe_each(recorded(environment={}), PROBES):
        for claim in _claims(observation.said):
            said_by_platform = claim.name == "os.family"
            from_variables = claim.source.via == "environment"
            assert claim.state == UNKNOWN or said_by_platform or from_variables, claim


def _claims(said: tuple[Claim | Transcript, ...]) -> Iterator[Claim]:
    return (one for one in said if isinstance(one, Claim))

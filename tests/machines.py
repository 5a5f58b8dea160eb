"""Healthy machines, made by a seed, as recordings of raw answers: every source of one tells the same story.

Which build goes with which GPU, driver and Python is taken from `naive_tables`, not from the code under test.
"""

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from naive_tables import BRANCHES, GENERATIONS, MADE, RELEASES, Spot, cuda_of, naive, number, rows_of
from scenarios import TABLE

GPUS = [
    row
    for row in rows_of("gpus")
    if row["confirmed"] and row["segment"] != "jetson" and number(row["capability"]) >= number("3.7")
]
GCC = {
    "20.04": "9.4.0",
    "22.04": "11.4.0",
    "24.04": "13.3.0",
    "12": "12.2.0",
    "9.4": "11.4.1",
    "8.9": "8.5.0",
    "41": "14.2.1",
}
SYSTEMS = (
    ("ubuntu", "20.04", "Ubuntu 20.04.6 LTS", "2.31", "5.15.0-105-generic"),
    ("ubuntu", "22.04", "Ubuntu 22.04.4 LTS", "2.35", "6.8.0-40-generic"),
    ("ubuntu", "24.04", "Ubuntu 24.04.3 LTS", "2.39", "6.14.0-27-generic"),
    ("debian", "12", "Debian GNU/Linux 12 (bookworm)", "2.36", "6.1.0-25-amd64"),
    ("rocky", "9.4", "Rocky Linux 9.4 (Blue Onyx)", "2.34", "5.14.0-427.el9.x86_64"),
    ("rhel", "8.9", "Red Hat Enterprise Linux 8.9 (Ootpa)", "2.28", "4.18.0-513.el8.x86_64"),
    ("fedora", "41", "Fedora Linux 41 (Workstation Edition)", "2.40", "6.11.4-301.fc41.x86_64"),
)  # fmt: skip
NGC = (
    # release of the container, torch, CUDA, Python, codes of its torch
    ("23.10", "2.1.0a0+32f93b1", "12.2", "3.10.12", ("sm_52", "sm_60", "sm_61", "sm_70", "sm_72", "sm_75", "sm_80", "sm_86", "sm_87", "sm_90", "compute_90")),
    ("24.08", "2.5.0a0+872d972e41.nv24.08", "12.6", "3.10.12", ("sm_70", "sm_75", "sm_80", "sm_86", "sm_90", "compute_90")),
    ("24.12", "2.6.0a0+df5bbc09d1.nv24.12", "12.6", "3.12.3", ("sm_70", "sm_75", "sm_80", "sm_86", "sm_90", "compute_90")),
    ("25.03", "2.7.0a0+7c8ec84dab.nv25.03", "12.8", "3.12.3", ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120")),
    ("25.09", "2.9.0a0+50eac811a6.nv25.09", "13.0", "3.12.3", ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_103", "sm_110", "sm_120", "compute_120")),
)  # fmt: skip
DISTRIBUTION = (
    # Builds of others: conda-forge, the pytorch channel, Arch, Debian, a build from source.
    ("conda", "2.5.1", "12.6", "3.12.7", ("sm_50", "sm_60", "sm_61", "sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "compute_90"), "0.20.1"),
    ("conda", "2.7.1", "12.8", "3.12.11", ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120", "compute_120"), "0.22.0"),
    ("conda", "2.3.1", "12.1", "3.11.9", ("sm_50", "sm_60", "sm_61", "sm_70", "sm_75", "sm_80", "sm_86", "sm_37", "sm_90"), "0.18.1"),
    ("system", "2.9.1", "13.0", "3.13.7", ("sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_120", "compute_120"), "0.24.1"),
    ("system", "2.6.0+dfsg", "12.4", "3.13.5", ("sm_61", "sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "compute_90"), ""),
    ("venv", "2.8.0a0+gitba56102", "12.9", "3.12.9", ("sm_86", "sm_89", "sm_120"), ""),
)  # fmt: skip


class Machine(NamedTuple):
    """What a healthy machine is made of; `recording` turns it into answers."""

    name: str
    kind: str
    """linux, container, wsl, windows."""
    gpus: tuple[str, ...]
    capability: str
    memory_mib: int
    driver: str
    driver_cuda: str
    python: str
    environment: str
    """venv, conda, system."""
    torch: str
    torch_cuda: str
    archs: tuple[str, ...]
    packages: tuple[tuple[str, str], ...]
    system: tuple[str, str, str, str, str] = SYSTEMS[1]
    processor: str = "x86_64"
    nvcc: str = ""
    gcc: str = ""
    variables: tuple[tuple[str, str], ...] = ()
    tested: bool = True
    warnings: tuple[str, ...] = ()
    on_the_bus: bool = True


def healthy_machines(count: int, seed: int = 500) -> Iterator[Machine]:
    rng = random.Random(seed)  # noqa: S311 -- the same ones each time
    made = 0
    while made < count:
        kind = rng.choice(("linux", "linux", "linux", "container", "container", "wsl", "windows", "windows"))
        made_by = (
            rng.choice(("official",) * 6 + ("ngc", "distribution")) if kind in ("linux", "container") else "official"
        )
        machine = {"official": _official, "ngc": _ngc, "distribution": _distribution}[made_by](rng, kind, made)
        if machine is not None:
            made += 1
            yield machine


def _official(rng: random.Random, kind: str, index: int) -> Machine | None:
    # Every generation as often as any other, though some have few products.
    capability = rng.choice(sorted({row["capability"] for row in GPUS}))
    gpu = rng.choice([row for row in GPUS if row["capability"] == capability])
    release = rng.choice(RELEASES)
    tag = rng.choice([*release["cuda_builds"], *release["other_builds"]])
    family = {"container": "linux"}.get(kind, kind)
    processor = "aarch64" if capability in ("12.1", "11.0") else "x86_64"
    newest = release["windows_python_max"] if kind == "windows" else release["python_max"]
    minor = rng.randint(int(release["python_min"].split(".")[1]), int(newest.split(".")[1]))
    driver, driver_cuda = _driver(rng, capability, kind)
    spot = Spot(capability, driver, f"3.{minor}", family, "AMD64" if kind == "windows" else processor)
    made = MADE.get((release["release"], tag))
    if not driver or naive(spot, release, tag) not in ("runs", "partly") or made is None:
        return None
    system = rng.choice(
        [one for one in SYSTEMS if number(one[3]) >= number(made.get("glibc_min") or release["glibc_min"])]
    )
    column = "windows" if kind == "windows" else ("linux_aarch64" if processor == "aarch64" else "linux")
    default = release["pypi_default"].get("linux_aarch64" if processor == "aarch64" else "linux")
    local = "" if kind != "windows" and tag == default and rng.random() < 0.4 else f"+{tag}"
    packages = [("numpy", "2.1.3" if release["numpy2"]["windows" if kind == "windows" else "linux"] else "1.26.4")]
    if release["torchvision"]:
        packages.append(("torchvision", release["torchvision"] + local))
    if release["torchaudio"] and rng.random() < 0.5 and tag not in release.get("without_torchaudio", ()):
        packages.append(("torchaudio", release["torchaudio"] + local))
    if release["triton"] and kind != "windows":
        packages.append(("triton", release["triton"].lstrip("~=")))
    archs = [f"sm_{code}" for code in made[column]] + [f"compute_{code}" for code in made.get(f"{column}_ptx", ())]
    return _with_toolkit(
        rng,
        Machine(
            name=f"{index} {kind} {gpu['name']} driver {driver} torch {release['release']}{local} Python 3.{minor}",
            kind=kind,
            gpus=(gpu["name"],) * rng.choice((1, 1, 1, 2, 4, 8) if gpu["segment"] == "datacenter" else (1, 1, 1, 2)),
            capability=capability,
            memory_mib=int((gpu["memory_gb"] or 8) * 1024),
            driver=driver,
            driver_cuda=driver_cuda,
            python=f"3.{minor}.{rng.randint(1, 9)}",
            environment=rng.choice(("venv", "venv", "conda")),
            torch=release["release"] + local,
            torch_cuda=cuda_of(tag),
            archs=tuple(archs),
            packages=tuple(packages),
            system=system,
            processor=processor,
            variables=(("CUDA_VISIBLE_DEVICES", "0"),) if rng.random() < 0.2 else (),
            tested=rng.random() < 0.7,
        ),
    )


def _ngc(rng: random.Random, kind: str, index: int) -> Machine | None:
    container, torch, cuda, python, archs = rng.choice(NGC)
    gpu = rng.choice([row for row in GPUS if row["segment"] in ("datacenter", "workstation")])
    driver, driver_cuda = _driver(rng, gpu["capability"], "linux")
    if not driver or not _has_code(archs, gpu["capability"]):
        return None
    if not _starts(cuda, driver):
        # The container brings a libcuda of its own, which data-centre GPUs alone may use with an older driver.
        if gpu["segment"] != "datacenter" or number(driver) < number("450"):
            return None
        driver_cuda = cuda
    return Machine(
        name=f"{index} NGC {container} on {gpu['name']} driver {driver}",
        kind="container",
        gpus=(gpu["name"],) * rng.choice((1, 2, 8)),
        capability=gpu["capability"],
        memory_mib=int((gpu["memory_gb"] or 16) * 1024),
        driver=driver,
        driver_cuda=driver_cuda,
        python=python,
        environment="system",
        torch=torch,
        torch_cuda=cuda,
        archs=archs,
        packages=(("numpy", "1.26.4"), ("torchvision", "0.20.0a0"), ("triton", "3.0.0+dedb7bdf3")),
        system=SYSTEMS[2] if python.startswith("3.12") else SYSTEMS[1],
        nvcc=cuda,
        gcc="13.3.0" if python.startswith("3.12") else "11.4.0",
        variables=(
            ("LD_LIBRARY_PATH", "/usr/local/cuda/compat/lib:/usr/local/nvidia/lib:/usr/local/nvidia/lib64"),
            ("NVIDIA_VISIBLE_DEVICES", "all"),
            ("NVIDIA_DRIVER_CAPABILITIES", "compute,utility,video"),
            ("CUDA_HOME", "/usr/local/cuda"),
        ),
        tested=rng.random() < 0.5,
    )


def _distribution(rng: random.Random, kind: str, index: int) -> Machine | None:
    environment, torch, cuda, python, archs, torchvision = rng.choice(DISTRIBUTION)
    gpu = rng.choice(GPUS)
    driver, driver_cuda = _driver(rng, gpu["capability"], "linux")
    if not driver or not _others_run(archs, gpu["capability"], cuda, driver):
        return None
    packages = [("numpy", "2.2.4" if number(torch.partition("+")[0].replace("a0", "")) >= number("2.5") else "1.26.4")]
    if torchvision:
        packages.append(("torchvision", torchvision))
    return Machine(
        name=f"{index} {environment}'s torch {torch} on {gpu['name']} driver {driver}",
        kind=kind,
        gpus=(gpu["name"],),
        capability=gpu["capability"],
        memory_mib=int((gpu["memory_gb"] or 8) * 1024),
        driver=driver,
        driver_cuda=driver_cuda,
        python=python,
        environment=environment,
        torch=torch,
        torch_cuda=cuda,
        archs=archs,
        packages=tuple(packages),
        system=rng.choice(SYSTEMS[1:4]),
        tested=rng.random() < 0.5,
    )


def _driver(rng: random.Random, capability: str, kind: str) -> tuple[str, str]:
    """A driver that serves the generation, of any branch that does: with an old one only minor versions are compatible."""
    row = GENERATIONS.get(capability)
    if row is None:
        return "", ""
    first, last = int(row["first_driver"] or 580), int(row["last_driver"] or 9999)
    fitting = [
        branch for branch, known in BRANCHES.items() if first <= branch <= last and known["cuda"] and branch >= 450
    ]
    if not fitting:
        return "", ""
    branch = rng.choice(fitting)
    after = min((one for one in BRANCHES if one > branch), default=branch + 5)
    shown = min(branch + 3, after - 1) if kind in ("windows", "wsl") else branch
    number_ = f"{shown}.97" if kind in ("windows", "wsl") else f"{branch}.142.02"
    return number_, BRANCHES[branch]["cuda"]


def _others_run(archs: tuple[str, ...], capability: str, cuda: str, driver: str) -> bool:
    return _has_code(archs, capability) and _starts(cuda, driver)


def _has_code(archs: tuple[str, ...], capability: str) -> bool:
    """Machine code of the same major version; that for Jetson runs there alone."""
    major, minor = (int(part) for part in capability.split("."))
    codes = [int(code[3:]) for code in archs if code.startswith("sm_")]
    return any(code // 10 == major and code % 10 <= minor and code not in (72, 87, 110) for code in codes)


def _starts(cuda: str, driver: str) -> bool:
    """A driver for this CUDA, or for another minor version of it."""
    return number(driver) >= number("580" if cuda.startswith("13") else "525.60.13")


def _with_toolkit(rng: random.Random, machine: Machine) -> Machine:
    """Most people have no toolkit, or one of another version than torch's: neither matters for running."""
    if machine.kind == "container" or rng.random() < 0.6:
        return machine
    nvcc = rng.choice(("11.8", "12.1", "12.4", "12.6", "12.8", "13.0"))
    return machine._replace(nvcc=nvcc, gcc=GCC.get(machine.system[1], "11.4.0"))


def newer_machines() -> Iterator[Machine]:
    """Twenty that the tables cannot know: a newer torch, driver, GPU or Python; and the small ones with memory of the host."""
    archs = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "sm_130")
    plain = Machine(
        name="", kind="linux", gpus=("NVIDIA GeForce RTX 4090",), capability="8.9", memory_mib=24564, driver="640.21.03",
        driver_cuda="13.6", python="3.14.2", environment="venv", torch="2.17.0+cu134", torch_cuda="13.4", archs=archs,
        packages=(("numpy", "2.6.0"), ("torchvision", "0.32.0+cu134"), ("triton", "4.1.0")),
        system=("ubuntu", "28.04", "Ubuntu 28.04 LTS", "2.45", "7.9.0-12-generic"),
    )  # fmt: skip
    new_gpu = plain._replace(gpus=("NVIDIA GeForce RTX 6090",), capability="13.0", memory_mib=49152)
    spark = plain._replace(
        gpus=("NVIDIA GB10",), capability="12.1", memory_mib=122880, driver="580.95.05", driver_cuda="13.0", processor="aarch64",
        torch="2.9.0+cu130", torch_cuda="13.0", archs=("sm_80", "sm_90", "sm_100", "sm_110", "sm_120", "compute_120"),
        python="3.12.3", packages=(("numpy", "2.3.4"), ("torchvision", "0.24.0"), ("triton", "3.5.0")), system=SYSTEMS[2],
    )  # fmt: skip
    orin = plain._replace(
        gpus=("Orin (nvgpu)",), capability="8.7", memory_mib=62840, driver="540.4.0", driver_cuda="12.6", processor="aarch64",
        torch="2.5.0a0+872d972e41.nv24.08", torch_cuda="12.6", archs=("sm_87",), python="3.10.12", environment="system",
        packages=(("numpy", "1.26.4"), ("torchvision", "0.20.0a0+afc54f7")), system=SYSTEMS[1], on_the_bus=False, nvcc="12.6",
        gcc="11.4.0",
    )  # fmt: skip
    warning = (
        "Found GPU0 NVIDIA GB10 which is of cuda capability 12.1.\n    Minimum and Maximum cuda capability supported by "
        "this version of PyTorch is (8.0) - (12.0)"
    )
    every = (
        ("torch 2.17+cu134, driver 640", plain),
        ("capability 13.0", new_gpu),
        ("capability 13.0 with PTX", new_gpu._replace(archs=("sm_90", "sm_120", "compute_130"))),
        ("Python 3.16", plain._replace(python="3.16.0")),
        ("all new at once", new_gpu._replace(python="3.16.1", nvcc="14.0", gcc="18.1.0")),
        ("new torch on an old GPU", plain._replace(gpus=("Tesla T4",), capability="7.5", memory_mib=15360)),
        ("new torch, driver of today", plain._replace(driver="595.71.05", driver_cuda="13.2")),
        ("new driver, torch of today", plain._replace(torch="2.14.1+cu130", torch_cuda="13.0", packages=(("numpy", "2.4.0"), ("torchvision", "0.29.1")))),
        ("old torch, new driver", plain._replace(torch="2.1.2+cu118", torch_cuda="11.8", python="3.11.9", archs=("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"), packages=(("numpy", "1.26.4"), ("torchvision", "0.16.2+cu118"), ("triton", "2.1.0")))),
        ("CUDA 14", plain._replace(torch="3.0.0+cu140", torch_cuda="14.0", driver="700.10", driver_cuda="14.0")),
        ("Windows, all new", new_gpu._replace(kind="windows", driver="641.20", packages=(("numpy", "2.6.0"),))),
        ("WSL, all new", new_gpu._replace(kind="wsl", driver="641.20")),
        ("container, all new", new_gpu._replace(kind="container")),
        ("a nightly", plain._replace(torch="2.18.0.dev20270105+cu136", torch_cuda="13.6", packages=(("numpy", "2.6.0"), ("torchvision", "0.33.0.dev20270105+cu136")))),
        ("GB10", spark),
        ("GB10 with torch's warning", spark._replace(warnings=(warning,))),
        ("GB10 with torch of later", spark._replace(torch="2.17.0+cu134", torch_cuda="13.4", driver="640.21.03", driver_cuda="13.6", packages=())),
        ("Jetson Orin", orin),
        ("Jetson Orin without tests", orin._replace(tested=False)),
        ("Jetson Thor", orin._replace(gpus=("NVIDIA Thor",), capability="11.0", driver="580.00", driver_cuda="13.0", torch="2.9.0a0+50eac811a6.nv25.09", torch_cuda="13.0", archs=("sm_80", "sm_90", "sm_100", "sm_110", "sm_120", "compute_120"), python="3.12.3", system=SYSTEMS[2], nvcc="13.0", gcc="13.3.0")),
    )  # fmt: skip
    for name, machine in every:
        yield machine._replace(name=name)


def pasted(machine: Machine) -> str:
    """What its owner would paste into an issue: torch's report on the environment and the table of nvidia-smi."""
    windows = machine.kind == "windows"
    _, _, pretty, glibc, kernel = machine.system
    kernel = "5.15.153.1-microsoft-standard-WSL2" if machine.kind == "wsl" else kernel
    gpus = "\n".join(f"GPU {index}: {_shown(gpu)}" for index, gpu in enumerate(machine.gpus))
    packages = "\n".join(f"[pip3] {name}=={version}" for name, version in (*machine.packages, ("torch", machine.torch)))
    return f"""\
Collecting environment information...
PyTorch version: {machine.torch}
Is debug build: False
CUDA used to build PyTorch: {machine.torch_cuda}
ROCM used to build PyTorch: N/A

OS: {"Microsoft Windows 11 Pro (10.0.22631 64-bit)" if windows else f"{pretty} ({machine.processor})"}
GCC version: {f"(GCC) {machine.gcc}" if machine.gcc else "Could not collect"}
Clang version: Could not collect
CMake version: version 3.28.1
Libc version: {"N/A" if windows else f"glibc-{glibc}"}

Python version: {machine.python} (64-bit runtime)
Python platform: {"Windows-10-10.0.22631-SP0" if windows else f"Linux-{kernel}-{machine.processor}-with-glibc{glibc}"}
Is CUDA available: True
CUDA runtime version: {f"{machine.nvcc}.89" if machine.nvcc else "Could not collect"}
CUDA_MODULE_LOADING set to: LAZY
GPU models and configuration: {gpus}
Nvidia driver version: {machine.driver}
cuDNN version: Could not collect
HIP runtime version: N/A
MIOpen runtime version: N/A
Is XNNPACK available: True

Versions of relevant libraries:
{packages}
[conda] Could not collect

{TABLE.format(driver=machine.driver, cuda=machine.driver_cuda, gpu=_shown(machine.gpus[0])[:27])}"""


# --- answers --------------------------------------------------------------------------------------


def recording(machine: Machine) -> dict[str, Any]:
    return {
        "schema": "troubleshooter.recording/1",
        **(_windows(machine) if machine.kind == "windows" else _linux(machine)),
        "target": _target(machine),
    }


def _linux(machine: Machine) -> dict[str, Any]:
    distribution, version, pretty, glibc, kernel = machine.system
    wsl, container = machine.kind == "wsl", machine.kind == "container"
    kernel = "5.15.153.1-microsoft-standard-WSL2" if wsl else kernel
    folder = "/usr/lib/wsl/lib" if wsl else f"/usr/lib/{machine.processor}-linux-gnu"
    files: dict[str, Any] = {
        "/etc/os-release": f'ID={distribution}\nVERSION_ID="{version}"\nPRETTY_NAME="{pretty}"\n',
        "/proc/sys/kernel/osrelease": f"{kernel}\n",
        f"{folder}/libcuda.so.1": "",
        "/proc/meminfo": "MemTotal:       65536000 kB\nMemAvailable:   60000000 kB\nSwapTotal:       8388608 kB\nSwapFree:        8388608 kB\n",
    }
    stats: dict[str, Any] = {}
    listings: dict[str, Any] = {folder: ["libcuda.so.1"], "/sys/bus/pci/devices": []}
    missing = [
        "/sys/module/nouveau",
        "/run/.containerenv",
        "/.singularity.d",
        "/etc/modprobe.d",
        "/run/modprobe.d",
        "/usr/lib/modprobe.d",
        "/lib/modprobe.d",
    ]
    if container:
        stats["/.dockerenv"] = {"kind": "file", "mode": 0o755, "readable": True}
    else:
        missing.append("/.dockerenv")
    if wsl:
        stats["/dev/dxg"] = {
            "kind": "char",
            "mode": 0o666,
            "major": 10,
            "minor": 125,
            "readable": True,
            "writable": True,
        }
        listings["/dev"] = ["null", "dxg"]
        missing += ["/proc/driver/nvidia", "/sys/module/nvidia"]
    else:
        _linux_driver(machine, files, stats, listings)
    commands = [
        *_driver_programs(machine, f"{folder}/libcuda.so.1"),
        _answer(["getconf", "GNU_LIBC_VERSION"], f"glibc {glibc}\n"),
        _answer(["uname", "-m"], f"{machine.processor}\n"),
    ]
    programs = {
        "nvidia-smi": f"{folder}/nvidia-smi" if wsl else "/usr/bin/nvidia-smi",
        "python": "/opt/venv/bin/python",
    }
    if machine.nvcc:
        commands.append(_nvcc(machine.nvcc))
        programs["nvcc"] = "/usr/local/cuda/bin/nvcc"
    else:
        missing.append("nvcc")
    for tool in ("gcc", "g++"):
        if machine.gcc:
            commands.append(
                _answer(
                    [tool, "--version"],
                    f"{tool} ({distribution}) {machine.gcc}\nCopyright (C) Free Software Foundation, Inc.\n",
                )
            )
        else:
            missing.append(tool)
    return {
        "platform": "linux",
        "environment": {"PATH": "/usr/local/bin:/usr/bin:/bin", **dict(machine.variables)},
        "files": files, "stats": stats, "listings": listings, "missing": missing, "programs": programs, "commands": commands,
    }  # fmt: skip


def _linux_driver(machine: Machine, files: dict[str, Any], stats: dict[str, Any], listings: dict[str, Any]) -> None:
    flavour = "Open Kernel Module for aarch64" if machine.processor == "aarch64" else "x86_64 Kernel Module"
    files |= {
        "/proc/driver/nvidia/version": f"NVRM version: NVIDIA UNIX {flavour}  {machine.driver}  Release Build\nGCC version:  gcc version 12\n",
        "/sys/module/nvidia/version": f"{machine.driver}\n",
        "/proc/modules": "nvidia_uvm 1830912 0 - Live 0x0000000000000000 (PO)\nnvidia 56823808 1 - Live 0x0000000000000000 (PO)\n",
    }
    nodes = [*(f"nvidia{index}" for index in range(len(machine.gpus))), "nvidiactl", "nvidia-uvm"]
    for minor, node in enumerate(nodes):
        stats[f"/dev/{node}"] = {
            "kind": "char",
            "mode": 0o666,
            "major": 511 if "uvm" in node else 195,
            "minor": 255 if "ctl" in node else minor,
            "readable": True,
            "writable": True,
        }
    listings["/dev"] = ["null", "zero", *nodes]
    for index in range(len(machine.gpus) if machine.on_the_bus else 0):
        device = f"/sys/bus/pci/devices/0000:{index + 1:02x}:00.0"
        files |= {
            f"{device}/vendor": "0x10de\n",
            f"{device}/device": f"0x{0x2000 + index:04x}\n",
            f"{device}/class": "0x030200\n",
        }
        listings["/sys/bus/pci/devices"].append(f"0000:{index + 1:02x}:00.0")


def _windows(machine: Machine) -> dict[str, Any]:
    driver = _windows_number(machine.driver)
    display = "HKLM\\SYSTEM\\CurrentControlSet\\Control\\Class\\{4d36e968-e325-11ce-bfc1-08002be10318}"
    control = "HKLM\\SYSTEM\\CurrentControlSet\\Control"
    values = {
        "HKLM\\SOFTWARE\\Microsoft\\Windows NT\\CurrentVersion": {"ProductName": "Windows 10 Pro", "DisplayVersion": "23H2", "CurrentBuildNumber": "22631", "CurrentMajorVersionNumber": 10, "CurrentMinorVersionNumber": 0, "UBR": 3447},
        f"{control}\\FileSystem": {"LongPathsEnabled": 0},
        f"{control}\\Nls\\CodePage": {"ACP": "936", "OEMCP": "936"},
        f"{control}\\Session Manager\\Memory Management": {"PagingFiles": ["?:\\pagefile.sys"]},
        f"{control}\\GraphicsDrivers": {"DxgKrnlVersion": 1},
        "HKLM\\SOFTWARE\\Microsoft\\VisualStudio\\14.0\\VC\\Runtimes\\X64": {"Installed": 1, "Version": "v14.44.35211.00"},
    }  # fmt: skip
    registry: dict[str, Any] = {key: {"values": there} for key, there in values.items()}
    registry[display] = {"values": {"Class": "Display"}, "keys": [f"{index:04}" for index in range(len(machine.gpus))]}
    for index, gpu in enumerate(machine.gpus):
        registry[f"{display}\\{index:04}"] = {
            "values": {
                "DriverDesc": _shown(gpu),
                "ProviderName": "NVIDIA",
                "DriverVersion": driver,
                "MatchingDeviceId": "PCI\\VEN_10DE&DEV_2684",
            }
        }
    system32 = "C:\\Windows\\System32"
    missing = [f"{system32}\\zlibwapi.dll"]
    commands = _driver_programs(machine, f"{system32}\\nvcuda.dll")
    programs = {"python": "C:\\Users\\user\\venv\\Scripts\\python.exe", "nvidia-smi": f"{system32}\\nvidia-smi.exe"}
    if machine.nvcc:
        commands.append(_nvcc(machine.nvcc))
        programs["nvcc"] = f"C:\\Program Files\\NVIDIA GPU Computing Toolkit\\CUDA\\v{machine.nvcc}\\bin\\nvcc.exe"
    else:
        missing.append("nvcc")
    names = ("nvcuda.dll", "vcruntime140.dll", "vcruntime140_1.dll", "msvcp140.dll", "libomp140.x86_64.dll")
    return {
        "platform": "win32",
        "environment": {"SYSTEMROOT": "C:\\Windows", "PROCESSOR_ARCHITECTURE": "AMD64", "PATH": f"{system32};C:\\Windows", **dict(machine.variables)},
        "registry": registry,
        "stats": {f"{system32}\\{name}": {"kind": "file", "size": 1000} for name in names},
        "versions": {f"{system32}\\{name}": driver if name == "nvcuda.dll" else "14.44.35211.0" for name in names if "omp" not in name},
        "missing": missing, "programs": programs, "commands": commands,
    }  # fmt: skip


def _windows_number(driver: str) -> str:
    """32.0.15.6094 is how Windows writes 560.94."""
    digits = driver.replace(".", "")
    return f"32.0.1{digits[0]}.{digits[1:5]}"


def _driver_programs(machine: Machine, library: str) -> list[dict[str, Any]]:
    cuda = int(machine.driver_cuda.split(".")[0]) * 1000 + int(machine.driver_cuda.split(".")[1]) * 10
    major, minor = machine.capability.split(".")
    count = len(machine.gpus)
    lines = [
        '{"ask": "load", "error": ""}', '{"ask": "init", "code": 0, "text": "Success"}',
        f'{{"ask": "driver", "code": 0, "text": "{machine.driver}"}}', f'{{"ask": "cuda", "code": 0, "values": [{cuda}]}}',
        f'{{"ask": "count", "code": 0, "values": [{count}]}}',
    ]  # fmt: skip
    for index, gpu in enumerate(machine.gpus):
        answers = {
            "name": f'"text": "{_shown(gpu)}"',
            "capability": f'"values": [{major}, {minor}]',
            "compute_mode": '"values": [0]',
            "persistence": '"values": [0]',
            "memory": f'"values": [{machine.memory_mib * 1048576}, 1048576]',
            "processes": '"values": [0]',
            "pcie_width": '"values": [16]',
            "pcie_width_max": '"values": [16]',
            "throttle": '"values": [1]',
        }
        lines.append(f'{{"gpu": {index}, "ask": "handle", "code": 0, "text": ""}}')
        lines += [f'{{"gpu": {index}, "ask": "{name}", "code": 0, {value}}}' for name, value in answers.items()]
    lines.append('{"ask": "end"}')
    started = [
        f'{{"ask": "load", "error": "", "path": "{library}"}}'.replace("\\", "\\\\"), f'{{"ask": "version", "code": 0, "value": {cuda}}}',
        '{"ask": "starting"}', '{"ask": "init", "code": 0, "name": "CUDA_SUCCESS"}', f'{{"ask": "count", "code": 0, "value": {count}}}', '{"ask": "end"}',
    ]  # fmt: skip
    gpus = "".join(
        f'\t<gpu id="00000000:{index + 1:02x}:00.0">\n\t\t<product_name>{_shown(gpu)}</product_name>\n\t\t<compute_mode>Default</compute_mode>\n'
        f"\t\t<fb_memory_usage>\n\t\t\t<total>{machine.memory_mib} MiB</total>\n\t\t\t<used>1 MiB</used>\n\t\t</fb_memory_usage>\n\t</gpu>\n"
        for index, gpu in enumerate(machine.gpus)
    )
    xml = f'<?xml version="1.0" ?>\n<nvidia_smi_log>\n\t<driver_version>{machine.driver}</driver_version>\n\t<cuda_version>{machine.driver_cuda}</cuda_version>\n\t<attached_gpus>{count}</attached_gpus>\n{gpus}</nvidia_smi_log>\n'
    table = "index, compute_cap\n" + "".join(f"{index}, {machine.capability}\n" for index in range(count))
    return [
        _answer(["troubleshooter-ask-nvml"], "\n".join(lines) + "\n"),
        _answer(["troubleshooter-ask-libcuda"], "\n".join(started) + "\n"),
        _answer(["nvidia-smi", "-q", "-x"], xml),
        _answer(["nvidia-smi", "--query-gpu=index,compute_cap", "--format=csv"], table),
    ]


def _shown(gpu: str) -> str:
    return gpu if gpu.startswith(("NVIDIA", "Tesla", "Quadro", "Orin")) else f"NVIDIA {gpu}"


def _nvcc(version: str) -> dict[str, Any]:
    return _answer(
        ["nvcc", "--version"],
        f"nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release {version}, V{version}.89\nBuild cuda_{version}.r{version}/compiler.1_0\n",
    )


def _answer(argv: list[str], text: str) -> dict[str, Any]:
    return {"argv": argv, "program": argv[0], "ending": "ok", "code": 0, "text": text}


def _target(machine: Machine) -> dict[str, Any]:
    windows = machine.kind == "windows"
    short = ".".join(machine.python.split(".")[:2])
    prefix = "C:\\Users\\user\\venv" if windows else ("/usr" if machine.environment == "system" else "/opt/venv")
    site = f"{prefix}\\Lib\\site-packages" if windows else f"{prefix}/lib/python{short}/site-packages"
    mark = "\\" if windows else "/"
    python = f"{prefix}\\Scripts\\python.exe" if windows else f"{prefix}/bin/python"
    visible = 1 if dict(machine.variables).get("CUDA_VISIBLE_DEVICES") else len(machine.gpus)
    folder = f"{site}{mark}torch"
    started = {"event": "started", "version": machine.python}
    packages = [
        {"name": name, "version": version, "metadata": True, "folder": f"{site}{mark}{name}-{version}.dist-info", "installer": "conda" if machine.environment == "conda" else "pip"}
        for name, version in (("torch", machine.torch), *machine.packages)
    ]  # fmt: skip
    interpreter = {
        "version": machine.python, "bits": 64, "prefix": prefix, "environment": machine.environment, "roots": [site],
        "manager": "conda" if machine.environment == "conda" else "pip", "folder": prefix, "platform": "win32" if windows else "linux",
        "machine": "AMD64" if windows else machine.processor,
    }  # fmt: skip
    version = {"__version__": machine.torch, "cuda": machine.torch_cuda, "hip": None, "git_version": "abcdef0"}
    there = {
        "kind": "package",
        "origin": f"{folder}{mark}__init__.py",
        "folder": folder,
        "container": site,
        "compiled": True,
        "outside_roots": False,
        "version": version,
    }
    devices = [
        _after("device", {"name": _shown(gpu), "capability": machine.capability}, device=index)
        for index, gpu in enumerate(machine.gpus[:visible])
    ]
    imported = [
        started, _after("import-torch", {"file": f"{folder}{mark}__init__.py"}),
        _after("read-version", {"version": machine.torch, "cuda": machine.torch_cuda, "hip": None, "stated": ["cuda", "hip"]}),
        _after("is-available", {"available": True}), _after("device-count", {"count": visible}), _after("list-archs", {"archs": list(machine.archs)}),
        _after("cuda-init", {}, warnings=machine.warnings), *devices, {"event": "end"},
    ]  # fmt: skip
    runs: dict[str, Any] = {
        "inspection": _run("inspect_environment.py", python, [started, _after("interpreter", interpreter), _after("packages", {"packages": packages, "leftovers": []}), _after("torch", there), {"event": "end"}]),
        "import": _run("import_torch.py", python, imported),
    }  # fmt: skip
    if machine.tested:
        passed = [
            {"event": "after", "step": "test", "test": test, "device": index, "outcome": "passed", "measured": {}, "expected": {}, "reason": "", "took": 0.1}
            for index in range(visible)
            for test in ("torch.init", "torch.matmul")
        ]  # fmt: skip
        runs["tests"] = [_run("gpu_tests.py", python, [started, *passed, {"event": "end"}])]
    return runs


def _after(
    step: str, value: dict[str, Any], device: int | None = None, warnings: tuple[str, ...] = ()
) -> dict[str, Any]:
    event = {"event": "after", "step": step, "outcome": "ok", "took": 0.1, "warnings": list(warnings), "value": value}
    return event if device is None else {**event, "device": device}


def _run(script: str, python: str, events: list[dict[str, Any]]) -> dict[str, Any]:
    return {"python": python, "script": script, "ending": "ok", "code": 0, "signal": "", "events": events}

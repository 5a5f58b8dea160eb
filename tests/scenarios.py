"""Simulated installs: a recorded Linux tree with a fake nvidia-smi, and a real Python with a fake torch.

Every source of one scenario tells the same story: the PCI bus, the kernel module, the device nodes, nvidia-smi, torch.
"""

import json
from pathlib import Path
from typing import NamedTuple

from fake_torch import attributes, make_target

IDS = {"RTX 3090": "0x2204", "RTX 5090": "0x2b85", "Tesla V100-SXM2-16GB": "0x1db1", "A100-SXM4-40GB": "0x20b0"}
CAPABILITY = {"RTX 3090": (8, 6), "RTX 5090": (12, 0), "Tesla V100-SXM2-16GB": (7, 0), "A100-SXM4-40GB": (8, 0)}

TABLE = """\
Mon Nov 30 12:00:00 2026
+---------------------------------------------------------------------------------------+
| NVIDIA-SMI {driver:<22} Driver Version: {driver:<13} CUDA Version: {cuda:<8} |
|-----------------------------------------+----------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |
|                                         |                      |               MIG M. |
|=========================================+======================+======================|
|   0  {gpu:<27} Off | 00000000:01:00.0 Off |                  N/A |
| 30%   35C    P8              20W / 350W |      1MiB / 24576MiB |      0%      Default |
|                                         |                      |                  N/A |
+-----------------------------------------+----------------------+----------------------+
"""

MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.95\n"
NO_COMMUNICATION = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n\n"
)
NVJITLINK = (
    "/opt/venv/lib/python3.11/site-packages/torch/lib/../../nvidia/cusparse/lib/libcusparse.so.12: "
    "undefined symbol: __nvJitLinkComplete_12_4, version libnvJitLink.so.12"
)
NO_GPU_WARNING = (
    "CUDA initialization: The NVIDIA driver on your system is too old (found version 11040). Please update your GPU "
    "driver by downloading and installing a new version from the URL: http://www.nvidia.com/Download/index.aspx "
    "Alternatively, go to: https://pytorch.org to install a PyTorch version that has been compiled with your version "
    "of the CUDA driver. (Triggered internally at ../c10/cuda/CUDAFunctions.cpp:108.)"
)


class Scenario(NamedTuple):
    """`smi`: the whole output, or empty for the usual table; `smi_code` its exit code, -1 hangs."""

    name: str
    gpu: str = "RTX 3090"
    driver: str = "535.183.01"
    cuda: str = "12.2"
    module: str | None = ""
    """Version of the loaded kernel module; empty: that of the driver, None: not loaded."""
    smi: str = ""
    smi_code: int = 0
    smi_bytes: bytes = b""
    torch: str | None = None
    version: str = "2.5.1+cu124"
    torch_cuda: str | None = "12.4"
    environment: tuple[tuple[str, str], ...] = ()
    verdict: str = "problem"
    first: tuple[str, ...] = ()
    command: str = ""
    """Must stand in a step of the first diagnosis' first remedy."""
    text: str = ""
    """Must stand somewhere in the report."""


def failing_import(error: str) -> str:
    return f"raise ImportError({error!r})\n"


def unavailable(warning: str = "") -> str:
    source = attributes(available=False)
    if warning:
        source += (
            "\nimport warnings\ndef _available():\n"
            f"    warnings.warn({warning!r})\n    return False\n"
            "cuda.is_available = staticmethod(_available)\n"
        )
    return source


def seeing(gpu: str, archs: tuple[str, ...]) -> str:
    return attributes(True, archs, ((f"NVIDIA {gpu}", CAPABILITY[gpu]),))


UP_TO_HOPPER = ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90")
FROM_TURING = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")

SCENARIOS = (
    Scenario(
        "S1 CPU build",
        torch=unavailable(), version="2.5.1+cpu", torch_cuda=None,
        first=("torch-cpu-build",), command="torch==2.5.1+cu124",
    ),
    Scenario(
        "S2 driver too old",
        driver="470.82.01", cuda="11.4", torch=unavailable(NO_GPU_WARNING),
        first=("driver-too-old-for-cuda",), command="torch==2.5.1+cu118", text="525.60.13",
    ),
    Scenario(
        "S3 GPU newer than the build",
        gpu="RTX 5090", driver="570.124.06", cuda="12.8", torch=seeing("RTX 5090", UP_TO_HOPPER),
        first=("torch-arch-too-new",), command="--index-url https://download.pytorch.org/whl/cu128",
    ),
    Scenario(
        "S4 module and library differ",
        driver="580.95.05", module="580.65.06", smi=MISMATCH, smi_code=18, torch=unavailable(),
        first=("driver-library-mismatch",),
    ),
    Scenario(
        "S5 nvJitLink shadowed",
        torch=failing_import(NVJITLINK), environment=(("LD_LIBRARY_PATH", "/usr/local/cuda-12.1/lib64"),),
        first=("nvjitlink-mismatch",), command="LD_LIBRARY_PATH",
    ),
    Scenario(
        "S6 hidden by the variable",
        torch=unavailable(), environment=(("CUDA_VISIBLE_DEVICES", "-1"),),
        first=("cuda-visible-devices-wrong",), command="CUDA_VISIBLE_DEVICES",
    ),
    Scenario("S7 healthy, no nvcc", torch=seeing("RTX 3090", UP_TO_HOPPER), verdict="healthy"),
    Scenario(
        "S8 no devices were found",
        smi="No devices were found\n", smi_code=6, torch=unavailable(),
        first=("gsp-init-failed", "gpu-fell-off-bus", "driver-too-old-for-gpu", "mig-misconfigured",
               "kernel-module-flavour-wrong", "gpu-hardware-fault", "pci-bar-unassigned", "driver-dropped-gpu"),
        verdict="",
    ),
    Scenario(
        "S9 GPU dropped from the build",
        gpu="Tesla V100-SXM2-16GB", driver="580.65.06", cuda="13.0", version="2.11.0+cu128", torch_cuda="12.8",
        torch=seeing("Tesla V100-SXM2-16GB", FROM_TURING),
        first=("torch-arch-dropped",), command="cu126",
    ),
    Scenario(
        "S10 driver does not answer",
        module=None, smi=NO_COMMUNICATION, smi_code=9, torch=unavailable(),
        first=("driver-not-loaded", "secure-boot-blocks-driver", "nouveau-conflict"),
    ),
    Scenario(
        "S11 CPU build and GBK bytes",
        smi_bytes="警告：显示名称".encode("gbk"), torch=unavailable(), version="2.5.1+cpu", torch_cuda=None,
        first=("torch-cpu-build",), command="torch==2.5.1+cu124",
    ),
    Scenario(
        "S12 nvidia-smi hangs",
        smi_code=-1, torch=seeing("RTX 3090", UP_TO_HOPPER), verdict="healthy", text="nvidia-smi",
    ),
    Scenario(
        "S13 importing torch crashes",
        torch="import ctypes\nctypes.string_at(0)\n", first=("torch-install-broken",), text="SIGSEGV",
    ),
    Scenario("S14 minor-version compatibility", torch=seeing("RTX 3090", UP_TO_HOPPER), verdict="healthy"),
)  # fmt: skip


def build(scenario: Scenario, folder: Path) -> tuple[Path, str]:
    """The tree for --root and the interpreter for --python."""
    root = folder / "root"
    files = {
        "etc/os-release": 'ID=ubuntu\nVERSION_ID="22.04"\nPRETTY_NAME="Ubuntu 22.04.4 LTS"\n',
        "proc/sys/kernel/osrelease": "5.15.0-105-generic\n",
        "sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de\n",
        "sys/bus/pci/devices/0000:01:00.0/device": IDS[scenario.gpu] + "\n",
        "sys/bus/pci/devices/0000:01:00.0/class": "0x030000\n",
        "sys/bus/pci/devices/0000:00:1f.0/vendor": "0x8086\n",
        "sys/bus/pci/devices/0000:00:1f.0/device": "0x7a04\n",
        "sys/bus/pci/devices/0000:00:1f.0/class": "0x060100\n",
        f"usr/lib/x86_64-linux-gnu/libcuda.so.{scenario.driver}": "",
        "proc/modules": "ext4 811008 1 - Live 0x0000000000000000\n",
    }
    module = scenario.driver if scenario.module == "" else scenario.module
    manifest: dict[str, dict[str, object]] = {}
    if module:
        files["sys/module/nvidia/version"] = module + "\n"
        files["proc/driver/nvidia/version"] = (
            f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {module}  Sun May 12 19:39:15 UTC 2024\nGCC version:\n"
        )
        files["proc/modules"] += "nvidia 56823808 1 - Live 0x0000000000000000 (PO)\n"
        for minor, node in ((0, "nvidia0"), (255, "nvidiactl"), (0, "nvidia-uvm")):
            major = 195 if node != "nvidia-uvm" else 511
            manifest[f"dev/{node}"] = {"type": "char", "mode": "0666", "major": major, "minor": minor}
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / ".manifest.json").write_text(json.dumps(manifest))
    (root / ".environment.json").write_text(json.dumps({"PATH": "/usr/bin:/bin", **dict(scenario.environment)}))
    commands = root / ".commands"
    commands.mkdir()
    table = TABLE.format(driver=scenario.driver, cuda=scenario.cuda, gpu=f"NVIDIA {scenario.gpu}"[:27])
    output = scenario.smi_bytes + (scenario.smi or table).encode()
    (folder / "smi.out").write_bytes(output)
    smi = commands / "nvidia-smi"
    if scenario.smi_code < 0:
        smi.write_text("#!/bin/sh\nsleep 600 &\nsleep 600\n")
    else:
        smi.write_text(f"#!/bin/sh\ncat '{folder / 'smi.out'}'\nexit {scenario.smi_code}\n")
    smi.chmod(0o755)
    python = make_target(folder / "venv", scenario.torch, version=scenario.version, cuda=scenario.torch_cuda)
    return root, python

"""The environment variables that decide which GPUs and libraries a program sees."""

import re
from collections.abc import Iterator

from ..credentials import host_only, is_secret, without_credentials
from ..machine import Machine
from ..model import Claim, Source, absent, present, unknown
from ..text import clean

NAME = "environment"
VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTORCH_CUDA_ALLOC_CONF",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "NVIDIA_DRIVER_CAPABILITIES",
    "PYTHONNOUSERSITE",
    "PYTHONUSERBASE",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_NVML_BASED_CUDA_CHECK",
    "TORCH_CUDA_ARCH_LIST",
    "NCCL_SOCKET_IFNAME",
    "NCCL_IB_DISABLE",
    "NCCL_P2P_DISABLE",
    "OMP_NUM_THREADS",
    "KMP_DUPLICATE_LIB_OK",
    "MKL_THREADING_LAYER",
    "UV_TORCH_BACKEND",
    "CONDA_OVERRIDE_CUDA",
    "PATH",
)
PREFIXES = ("CUDA_", "NVIDIA_", "TORCH_", "TORCHINDUCTOR_", "PYTORCH_", "NCCL_", "OMP_", "KMP_", "MKL_", "CUDNN_",
            "CUBLAS_", "TRITON_", "PIP_", "UV_", "CONDA_")  # fmt: skip
"""Whose variables are listed in `env.settings`, though no rule reads them by name."""

PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")
FACTS = (
    *(f"env.{name}" for name in VARIABLES),
    *(f"env.{name}" for name in PROXIES),
    "env.settings",
    "env.hides_all_gpus",
    "loader.cuda_folders",
)

_TOOLKIT_LIBRARY = re.compile(
    r"lib(?:cudart|cublas|cublasLt|cudnn\w*|nccl|nvrtc|cusparse|cusolver|cufft|nvJitLink)\.so\b.*"
)


def probe(machine: Machine) -> Iterator[Claim]:
    for name in VARIABLES:
        value = machine.environ.get(name)
        source = Source("probe", "environment", name)
        if value is None:
            yield absent(f"env.{name}", source, "it is not set")
        else:
            yield present(f"env.{name}", without_credentials(clean(value)), source)
    for name in PROXIES:
        value = machine.environ.get(name) or machine.environ.get(name.lower())
        source = Source("probe", "environment", name)
        # The host is enough to see that there is one: its user and password are nobody's business.
        if value:
            yield present(f"env.{name}", host_only(clean(value)), source)
        else:
            yield absent(f"env.{name}", source, "it is not set")
    yield _settings(machine)
    yield _hides_all_gpus(machine)
    yield _cuda_folders(machine)


def _settings(machine: Machine) -> Claim:
    source = Source("probe", "environment", "variables of CUDA, torch and the installers")
    told = [
        f"{clean(name)}={'(not shown)' if is_secret(name) else without_credentials(clean(value))}"
        for name, value in sorted(machine.environ.items())
        if name.startswith(PREFIXES)
    ]
    if told:
        return present("env.settings", tuple(told[:200]), source)
    return absent("env.settings", source, "none is set")


def _hides_all_gpus(machine: Machine) -> Claim:
    """CUDA reads the list up to the first entry that names no device, and ignores the rest."""
    name, source = "env.hides_all_gpus", Source("probe", "environment", "CUDA_VISIBLE_DEVICES")
    value = machine.environ.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return present(name, False, source)
    first = value.split(",")[0].strip()
    if re.match(r"(?:GPU|MIG)-", first):
        return unknown(name, f"whether {first} names a GPU of this machine is not known", source)
    if not re.fullmatch(r"\+?\d{1,9}", first):
        return present(name, True, source)
    cards = machine.list("/proc/driver/nvidia/gpus")
    if int(first) == 0:
        return present(name, False, source)
    if not cards.ok or not cards.names:
        return unknown(name, f"whether there is a GPU {first} is not known", source)
    return present(name, int(first) >= len(cards.names), source)


def _cuda_folders(machine: Machine) -> Claim:
    name, source = "loader.cuda_folders", Source("probe", "environment", "LD_LIBRARY_PATH")
    found = []
    for folder in filter(None, machine.environ.get("LD_LIBRARY_PATH", "").split(":")):
        listing = machine.list(folder)
        named = bool(re.search(r"cuda|cudnn", folder, re.IGNORECASE))
        # A folder that is not there harms nobody, whatever its name.
        if any(map(_TOOLKIT_LIBRARY.fullmatch, listing.names)) or (named and not listing.missing):
            found.append(clean(folder))
    if found:
        return present(name, tuple(dict.fromkeys(found)), source)
    return absent(name, source, "no folder in LD_LIBRARY_PATH holds a CUDA toolkit's libraries")

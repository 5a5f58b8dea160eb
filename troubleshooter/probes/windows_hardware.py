"""Windows: the display adapters with their driver, and how much memory may be promised; by CIM or the registry."""

from collections.abc import Iterator

from ..machine import Machine, RegistryKey
from ..model import Claim, Source, unknown
from ..outputs.windows_display import Adapter, claims_of_adapters, read_cim

NAME = "windows_hardware"
FACTS = (
    "pci.nvidia_devices",
    "pci.nvidia_count",
    "pci.other_gpus",
    "driver.version",
    "driver.branch",
    "driver.loaded",
    "windows.display_problem",
    "windows.commit_limit_mib",
    "windows.commit_free_mib",
    "windows.page_file_mib",
)
SECONDS = 25
"""PowerShell with three questions takes 1 to 3 s; the first after a start of Windows several times that."""

# No double quotes inside: it travels as one argument of a command line.
QUERY = (
    "$ErrorActionPreference = 'SilentlyContinue'; "
    "[Console]::OutputEncoding = [Text.Encoding]::UTF8; "
    "$video = Get-CimInstance Win32_VideoController | "
    "Select-Object 'Name','AdapterCompatibility','DriverVersion','PNPDeviceID','ConfigManagerErrorCode'; "
    "$pci = Get-CimInstance Win32_PnPEntity -Filter 'PNPDeviceID LIKE ''PCI\\\\VEN_10DE%''' | "
    "Select-Object 'Name','PNPDeviceID','CompatibleID','ConfigManagerErrorCode'; "
    "$os = Get-CimInstance Win32_OperatingSystem | "
    "Select-Object 'TotalVirtualMemorySize','FreeVirtualMemory','SizeStoredInPagingFiles'; "
    "@{video = @($video); pci = @($pci); os = $os} | ConvertTo-Json -Depth 4 -Compress"
)
ARGUMENTS = ("-NoProfile", "-NonInteractive", "-Command", QUERY)
DISPLAY_CLASS = "HKLM\\SYSTEM\\CurrentControlSet\\Control\\Class\\{4d36e968-e325-11ce-bfc1-08002be10318}"


def probe(machine: Machine) -> Iterator[Claim]:
    if machine.platform != "win32":
        return
    answer = machine.run([_powershell(machine), *ARGUMENTS], SECONDS)
    source = Source("probe", "command", "PowerShell: Get-CimInstance Win32_VideoController and others")
    claims = list(read_cim(answer.text, source)) if answer.ok else []
    yield from claims
    if not any(claim.name == "pci.nvidia_devices" and claim.state != "unknown" for claim in claims):
        yield from _by_registry(machine)
    if not claims:
        for name in FACTS[-3:]:
            yield unknown(name, f"PowerShell did not say: {answer.reason or 'its answer is no JSON'}", source)


def _powershell(machine: Machine) -> str:
    if machine.which("powershell"):
        return "powershell"
    root = machine.environ.get("SYSTEMROOT") or machine.environ.get("SystemRoot") or "C:\\Windows"
    return f"{root}\\System32\\WindowsPowerShell\\v1.0\\powershell.exe"


def display_keys(machine: Machine) -> tuple[RegistryKey, ...]:
    """What Windows has noted for every display adapter it ever had a driver for, those taken out since included."""
    top = machine.registry(DISPLAY_CLASS)
    keys = (machine.registry(f"{DISPLAY_CLASS}\\{name}") for name in top.keys if name.isdigit())
    return tuple(key for key in keys if key.ok)


def _by_registry(machine: Machine) -> Iterator[Claim]:
    keys = display_keys(machine)
    adapters = [
        Adapter(
            key.text("DriverDesc"),
            key.text("ProviderName"),
            *_numbers(key.text("MatchingDeviceId")),
            key.text("DriverVersion"),
        )
        for key in keys
    ]
    source = Source("probe", "file", "registry (may name adapters that were taken out)", DISPLAY_CLASS)
    yield from claims_of_adapters(adapters, source, complete=False)


def _numbers(identity: str) -> tuple[str, str]:
    r"""pci\ven_10de&dev_2684&subsys_… as 10de, 2684."""
    lower = identity.lower()
    vendor, device = (lower.partition(word)[2][:4] if word in lower else "" for word in ("ven_", "dev_"))
    return vendor, device

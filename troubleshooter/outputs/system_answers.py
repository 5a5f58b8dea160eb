"""How systems call themselves: uname, systeminfo, ver, lsb_release, prompts, and the kernel's own lines."""

from collections.abc import Iterator

from ..model import Claim, Source, present
from .lines import Gate, at, lines_of

_UNAME = Gate(
    r"\bLinux (?P<host>\S+) (?P<kernel>\d+\.\d+\.\S+) #\S+.{0,120}?(?P<machine>x86_64|aarch64|ppc64le|armv7l)\b",
    "Linux ",
)
_DARWIN = Gate(r"\bDarwin \S+ (\d+\.\d+\.\d+) Darwin Kernel Version", "Darwin ")
_WINDOWS = Gate(
    r"\bMicrosoft Windows \[[^\]\d]{2,12} ?(\d+\.\d+\.\d+)[\d.]*\]|\(c\) Microsoft "
    r"Corporation\. All rights|Windows PowerShell\b",
    "Microsoft",
    "Windows PowerShell",
)
# systeminfo in several languages: the name is the second thing it prints, and Windows' own name is never translated.
_SYSTEMINFO = Gate(
    r"^\s*\S[^:\uff1a]{1,30}[:\uff1a]\s*(Microsoft Windows (?:\d{1,2}|Server)[^\r\n]{0,60})$", "Microsoft Windows"
)
_LSB = Gate(r"^\s*Description:\s+(\S.{2,60})$", "Description:")
_NAMED = Gate(
    r"\b(Ubuntu \d\d\.\d\d(?:\.\d)?(?: LTS)?|(?:Debian GNU/Linux|Debian|Fedora Linux|"
    r"CentOS(?: Linux| Stream)?|Rocky Linux|AlmaLinux|Linux Mint|Pop!_OS|openSUSE "
    r"Leap) \d{1,2}(?:\.\d{1,2})?)(?![\w.-]*\d)",
    "Ubuntu",
    "Debian",
    "Fedora",
    "CentOS",
    "Rocky",
    "Alma",
    "Mint",
    "Pop!",
    "openSUSE",
)
_CMD_PROMPT = Gate(r"^\s*(?:\([\w.+-]{1,40}\) ?)?(PS )?[A-Za-z]:\\[^<>|\"]{0,200}>", ":\\")
_SHELL_PROMPT = Gate(
    r"^\s*(?:\([\w.+-]{1,40}\) ?)?(?:\[\d+\] ?)?[\w.-]{1,32}@[\w.-]{1,64}:[~/][^$#\n]{0,120}[$#] ?", "@"
)
_CMD_ERRORS = Gate(
    r"is not recognized as (?:an internal or external command|the name of a cmdlet)|FullyQualifiedErrorId|"
    r"CategoryInfo +:|Press any key to continue|\[WinError \d+\]|\bat line:\d+ char:\d+|"
    r"LINK : fatal error LNK\d+|\.dll\b",
    "is not recognized",
    "Qualified",
    "CategoryInfo",
    "Press any key",
    "WinError",
    "at line:",
    "LNK",
    ".dll",
)
_WSL = Gate(
    r"microsoft-standard|/usr/lib/wsl/|\bWSL[12]?\b|/mnt/[a-z]/", "microsoft-standard", "/usr/lib/wsl/", "WSL", "/mnt/"
)
_LOADING = Gate(
    r"NVRM: loading NVIDIA UNIX (?P<open>Open )?(?:\S+ )?Kernel Module(?: for \S+)? +(?P<version>\d{3}\.\d[\d.]*)",
    "NVRM",
)
_XID = Gate(r"NVRM: Xid \((?:PCI:)?(?P<address>[0-9a-fA-F:.]{4,20})\): (?P<number>\d{1,4})\b", "Xid")
_VERSIONED_DRIVER = Gate(
    r"\bNVIDIA (?P<version>\d{3}\.\d{2,3}(?:\.\d{2})?) driver release|The (?P<legacy>\d{3}\.\d{2,3}(?:\.\d{2})?) "
    r"NVIDIA driver will ignore",
    "driver release",
    "will ignore",
)
_LIBRARY = Gate(r"\bNVML library version: (\d{3}\.\d[\d.]*)", "NVML library")
_NO_MODULE = Gate(
    r"/proc/driver/nvidia/version['\u2019]?: (?:No such file|\S.{0,40}?(?:\u6ca1\u6709|\u5b58\u5728))",
    "/proc/driver/nvidia/version",
)
_DRIVER_PAIR = Gate(
    r"\bUsing CUDA (\d+\.\d) driver version (\d{3}\.[\d.]+\d) with kernel driver version (\d{3}\.[\d.]+\d)",
    "Using CUDA",
)


def read_system_answers(text: str, source: Source) -> Iterator[Claim]:
    lines = lines_of(text)
    wsl = _WSL.search(text) is not None
    xids: dict[str, int] = {}
    prompts = {"windows": -1, "linux": -1}
    shell: Claim | None = None
    for number, line in enumerate(lines):
        here = at(source, number)
        if found := _UNAME.search(line):
            family = "wsl" if "microsoft" in found["kernel"].lower() else "linux"
            yield present("os.family", family, here)
            yield present("os.kernel", found["kernel"], here)
            yield present("os.architecture", found["machine"], here)
        elif _DARWIN.search(line):
            yield present("os.family", "macos", here)
        elif found := _SYSTEMINFO.match(line):
            yield present("os.family", "windows", here)
            yield present("os.release", found[1].strip(), here)
        elif _WINDOWS.search(line):
            prompts["windows"] = prompts["windows"] if prompts["windows"] >= 0 else number
        elif found := _LSB.match(line):
            yield present("os.release", found[1].strip(), here)
        elif typed := _CMD_PROMPT.match(line):
            prompts["windows"] = prompts["windows"] if prompts["windows"] >= 0 else number
            shell = shell or present("shell.name", "powershell" if typed[1] else "cmd", here)
        elif _CMD_ERRORS.search(line):
            prompts["windows"] = prompts["windows"] if prompts["windows"] >= 0 else number
        elif _SHELL_PROMPT.match(line):
            prompts["linux"] = prompts["linux"] if prompts["linux"] >= 0 else number
        if found := _NAMED.search(line):
            yield present("os.release", found[1], here)
        yield from _kernel_line(line, number, here, xids)
    if xids:
        yield present("kernel_log.xids", tuple(xids), at(source, next(iter(xids.values()))))
    if shell:
        yield shell
    if wsl:
        return
    if prompts["windows"] >= 0 and prompts["linux"] < 0:
        yield present("os.family", "windows", at(source, prompts["windows"]))
    elif prompts["windows"] >= 0 and _WINDOWS.search(text):
        # A shell of Linux in a window of Windows.
        yield present("os.family", "wsl", at(source, prompts["linux"]))


def _kernel_line(line: str, number: int, here: Source, xids: dict[str, int]) -> Iterator[Claim]:
    if "NVRM" in line:
        if found := _XID.search(line):
            xids.setdefault(found["number"], number)
        if found := _LOADING.search(line):
            yield present("driver.kernel_version", found["version"].rstrip("."), here)
            yield present("driver.version", found["version"].rstrip("."), here)
            yield present("driver.flavour", "open" if found["open"] else "proprietary", here)
    if found := _VERSIONED_DRIVER.search(line):
        yield present("driver.version", found["version"] or found["legacy"], here)
    if found := _LIBRARY.search(line):
        yield present("driver.library_version", found[1].rstrip("."), here)
    if _NO_MODULE.search(line):
        yield present("driver.loaded", False, here)
    if found := _DRIVER_PAIR.search(line):
        yield present("driver.kernel_version", found[3], here)
        yield present("driver.version", found[3], here)

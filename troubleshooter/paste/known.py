"""Known outputs inside a pasted text become the same claims as the probes' own."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from ..model import Claim, Source, Value
from .vocabulary import Vocabulary

Reader = Callable[[str, Source], Iterator[Claim]]

_MOST_VALUES = 8
"""Different values of one fact that are kept, the first ones: a log of a thousand runs has a thousand versions."""
_MOST_CLAIMS = 4000
_WHOLE = 300
"""Lines of a text that every reader sees as a whole. Of a longer one it sees what stands around its landmarks."""
_BEFORE, _AFTER, _LONGEST = 4, 60, 2000
_LARGEST_SHARE = 100_000
"""Lines of one text that one reader gets at most: a landmark may stand in each of a hundred million lines."""
LANDMARKS = (
    "nvidia-smi ", "driver version  ", "pytorch version:", "cuda used to build", "cuda compilation tools",
    "nvrm version:", "collecting environment information", "package    version", "troubleshooter.report/1",
    "troubleshooter.recording/", "ldd (", "packages in environment at",
)  # fmt: skip
"""Of these a large text is searched for known outputs; around signatures and at both ends it is read whole anyway."""
_FIRST_ONLY = ("text.", "oom.", "install.")
"""Of these the first value counts: they speak of the first error, message or install in a text."""


class KnownOutputs:
    """Hands pieces of text to the readers whose landmarks stand in them; keeps the first values of each fact."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], list[Claim]] = {}
        self._count = 0
        self._given: dict[tuple[str, str], int] = {}

    def feed(self, lines: list[tuple[int, str]], source: Source, *, again: bool = False) -> None:
        """`again` marks another reading of lines that were fed before: what it says takes the place of the first
        reading's values from the same lines.
        """
        text = "\n".join(line for _, line in lines)
        low = text.lower()
        words = Vocabulary(low)
        first, last = (lines[0][0], lines[-1][0]) if lines else (0, 0)
        said: list[Claim] = []
        for module, name, landmarks, after in _READERS:
            found = [landmark for landmark in landmarks if words.may_hold(landmark) and landmark in low]
            if not found:
                continue
            reader = _reader(module, name)
            piece, numbered = text, lines
            if len(lines) > _WHOLE:
                given = self._given.get((source.file, name), 0)
                numbered = _around(lines, low, found, after) if given < _LARGEST_SHARE else []
                self._given[source.file, name] = given + len(numbered)
                piece = "\n".join(line for _, line in numbered)
            if numbered:
                said += (_placed(claim, numbered) for claim in reader(piece, source._replace(line=1)))
        if again:
            for key in {(claim.name, claim.subject) for claim in said}:
                kept = self._kept.get(key, [])
                told = [(claim.state, claim.value) for claim in said if (claim.name, claim.subject) == key]
                if [(one.state, one.value) for one in kept] == told:
                    continue
                self._kept[key] = [
                    one for one in kept if one.source.file != source.file or not first <= one.source.line <= last
                ]
        for claim in said:
            self._keep(claim)

    def _keep(self, claim: Claim) -> None:
        kept = self._kept.setdefault((claim.name, claim.subject), [])
        if claim.name == "text.last_error_type":
            kept.clear()
        most = 1 if claim.name.startswith(_FIRST_ONLY) else _MOST_VALUES
        if self._count < _MOST_CLAIMS and len(kept) < most:
            same: tuple[str, Value | None] = claim.state, claim.value
            if not any((one.state, one.value) == same for one in kept):
                kept.append(claim)
                self._count += 1

    def absorb(self, claims: Iterable[Claim], before: int) -> None:
        """What was read of a later part of a text, that begins after `before` lines."""
        for claim in claims:
            self._keep(claim._replace(source=claim.source._replace(line=before + claim.source.line)))

    def claims(self) -> Iterator[Claim]:
        for kept in self._kept.values():
            yield from kept


def _around(lines: list[tuple[int, str]], low: str, landmarks: list[str], after: int) -> list[tuple[int, str]]:
    """The lines around those that hold a landmark; an empty one where others were left out."""
    starts = [0]
    for _, line in lines:
        starts.append(starts[-1] + len(line) + 1)
    wanted: set[int] = set()
    for landmark in landmarks:
        place = low.find(landmark)
        while place >= 0:
            index = bisect_right(starts, place) - 1
            wanted.update(range(max(0, index - _BEFORE), min(len(lines), index + after + 1)))
            place = low.find(landmark, starts[min(index + 1, len(lines))])
    chosen: list[tuple[int, str]] = []
    last = -1
    for index in sorted(wanted):
        if last >= 0 and index > last + 1:
            chosen.append((lines[last][0], ""))
        chosen.append(lines[index])
        last = index
    return chosen


def _placed(claim: Claim, lines: list[tuple[int, str]]) -> Claim:
    """A reader counts the lines of the piece that it was given."""
    index = min(max(claim.source.line, 1), len(lines)) - 1
    return claim._replace(source=claim.source._replace(line=lines[index][0]))


_PATHS = (
    "-packages",
    ":\\",
    "/home/",
    "/usr/",
    "/opt/",
    "/users/",
    "/mnt/",
    "/root/",
    "/data/",
    "/srv/",
    ".cpython-",
    ".cp3",
)
_VARIABLES = (
    "cuda_visible", "cuda_home", "cuda_path", "cuda_launch", "cuda_module", "cuda_device_order", "ld_library",
    "ld_preload",
    "nvidia_visible", "pythonpath", "pythonhome", "virtual_env", "conda_prefix", "alloc_conf",
)  # fmt: skip
_PLACES = (
    "nvidia-container", "docker", "kube", "podman", "singularity", "apptainer", "srun ", "sbatch", "scontrol", "slurm",
    "tres=", "oci runtime", "nvidia.com/gpu", "root@", "user@", "ubuntu@", "jovyan@", "app@", "nvidia release", "qsub",
    "bsub", "kaggle", "colab", "/content/", "#1 [", " => [", " => error", "forward compatib", "== pytorch",
    "driver was not detected", "failed to solve", "[pod/", "salloc", "squeue",
)  # fmt: skip
_SYSTEMS = (
    "linux ", "darwin", "microsoft", "windows", "description:", "ubuntu", "debian", "fedora", "centos", "rocky",
    "almalinux", "opensuse", "pop!_os", "winerror", " lnk", ".dll", "nvrm", "driver release", "will ignore",
    "nvml library", "driver/nvidia/version", "driver version", "categoryinfo", "press any key", ":\\", "not recognized",
    "at line:",
)  # fmt: skip
_HAPPENINGS = (
    "100%|", "[====", "epoch", "prompt executed", "init complete", "test passed", "result = pass", "='cuda", "='gpu",
    "created device", "cpu", "-cuda", "visible_devices", "setup.py", "ninja", "nvcc", "c++", "g++", "cl.exe",
    "building",
    "preparing metadata", "to build wheel", "subprocess-exited", "build_ext", "cmake error", "make", "errored out",
    "pip-req-build", "pip-install", "error:", "exception:", "interrupt:", "exit:", "notfound:", "failed:",
)  # fmt: skip
_SMI = (
    "nvidia-smi", "nvsmi log", "(uuid: gpu-", "<nvidia_smi_log", "no devices were found", "mib /", "compute mode",
    "slowdown", "driver_version", "used_gpu_memory", "remapping failure", "memory.total",
)  # fmt: skip
_REPORTS = (
    "version:", "version (", "version =", "version  ", "pytorch  ", "available:", "available  ",
    "platform", "you have", "gpu 0", "gpu models", "torch-", "torch 1", "torch 2", "torch 0",
    "torch:", "python 3", "python-3", "python:", "device:", "[pip", "[conda]", "cuda_home", "libc", "nvcc",
    "os:", "cuda:",
    "numpy:", "xformers:", "triton:",
)  # fmt: skip
_ANSWERS = (
    " -c ", ">>> ", "in [", "out[", "print(", "print (", "is_available", "+cu", "+cpu", "+rocm", "+xpu", "__version__",
    ".version", "sys.executable", "get_device", "arch_list", "device_count",
)  # fmt: skip
_LISTS = (
    "package ", "package(s)", "packages in env", "==",
    "name:", " @ ", " list", " freeze", "but you have", "broken requirements", "pip ", "__cuda",
    "__glibc", "platform :", "active env",
)  # fmt: skip
_INSTALLS = ("install", "requirement", ".whl", "+ torch", "index")
# (module, reader, lower-case texts of which one must occur, lines after such a text that belong to it). A module is
# imported where its landmark is seen: its patterns take milliseconds to compile.
_READERS: tuple[tuple[str, str, tuple[str, ...], int], ...] = (
    ("nvidia_smi", "read_pasted_nvidia_smi", _SMI, _LONGEST),
    ("nvcc", "read_nvcc", ("nvcc: nvidia", "cuda compilation tools"), _AFTER),
    ("collect_env", "read_collect_env", _REPORTS, _BEFORE),
    ("python_answers", "read_python_answers", _ANSWERS, _AFTER),
    ("packages", "read_packages", _LISTS, _AFTER),
    ("installs", "read_installs", _INSTALLS, _BEFORE),
    ("python_paths", "read_python_paths", _PATHS, 0),
    ("loader_answers", "read_loader_answers", ("=>", "calling init", "ldd ("), 0),
    ("shell_variables", "read_shell_variables", _VARIABLES, _BEFORE),
    ("out_of_memory", "read_out_of_memory", ("tried to allocate",), _BEFORE),
    ("pci", "read_lspci", ("10de:",), _BEFORE),
    ("proc_driver_version", "read_proc_driver_version", ("nvrm version:",), _BEFORE),
    (
        "gpus_named",
        "read_gpus_named",
        ("capability", "capabilities", "tensor cores", "arch_list", "arch list", "your installed torch"),
        0,
    ),
    ("os_release", "read_os_release", ("pretty_name=", "version_id="), _BEFORE),
    ("containers_and_jobs", "read_containers_and_jobs", _PLACES, 0),
    ("own_report", "read_own_report", ("troubleshooter.report/1",), _LONGEST),
    ("system_answers", "read_system_answers", _SYSTEMS, _BEFORE),
    ("context", "read_context", _HAPPENINGS, 1),
)


@lru_cache(maxsize=64)
def _reader(module: str, name: str) -> Reader:
    from importlib import import_module

    reader: Reader = getattr(import_module(f"..outputs.{module}", __package__), name)
    return reader

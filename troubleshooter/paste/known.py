"""Known outputs inside a pasted text become the same claims as the probes' own."""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import lru_cache

from ..model import Claim, Source, Value

Reader = Callable[[str, Source], Iterator[Claim]]

_MOST_VALUES = 8
"""Different values of one fact that are kept, the first ones: a log of a thousand runs has a thousand versions."""
_MOST_CLAIMS = 4000
_WHOLE = 300
"""Lines of a text that every reader sees as a whole. Of a longer one it sees what stands around its landmarks."""
_BEFORE, _AFTER, _LONGEST = 4, 60, 2000
_LARGEST_SHARE = 100_000
"""Lines of one text that one reader gets at most: a landmark may stand in each of a hundred million lines."""
_FIRST_ONLY = ("text.", "oom.", "install.")
"""Of these the first value counts: they speak of the first error, message or install in a text."""


class KnownOutputs:
    """Hands pieces of text to the readers whose landmarks stand in them; keeps the first values of each fact."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], list[Claim]] = {}
        self._count = 0
        self._given: dict[tuple[str, Reader], int] = {}

    def feed(self, lines: list[tuple[int, str]], source: Source, *, again: bool = False) -> None:
        """`again` marks another reading of lines that were fed before: what it says takes the place of the first
        reading's values from the same lines.
        """
        text = "\n".join(line for _, line in lines)
        low = text.lower()
        first, last = (lines[0][0], lines[-1][0]) if lines else (0, 0)
        said: list[Claim] = []
        for landmarks, reader, after in _readers():
            found = [landmark for landmark in landmarks if landmark in low]
            if not found:
                continue
            piece, numbered = text, lines
            if len(lines) > _WHOLE:
                given = self._given.get((source.file, reader), 0)
                numbered = _around(lines, low, found, after) if given < _LARGEST_SHARE else []
                self._given[source.file, reader] = given + len(numbered)
                piece = "\n".join(line for _, line in numbered)
            if numbered:
                said += (_placed(claim, numbered) for claim in reader(piece, source._replace(line=1)))
        if again:
            for key in {(claim.name, claim.subject) for claim in said}:
                kept = self._kept.get(key, [])
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


@lru_cache(maxsize=1)
def _readers() -> tuple[tuple[tuple[str, ...], Reader, int], ...]:
    """(lower-case texts of which one must occur, reader, lines after such a text that belong to it)."""
    from ..outputs.collect_env import read_collect_env
    from ..outputs.containers_and_jobs import read_containers_and_jobs
    from ..outputs.context import read_context
    from ..outputs.gpus_named import read_gpus_named
    from ..outputs.installs import read_installs
    from ..outputs.loader_answers import read_loader_answers
    from ..outputs.nvcc import read_nvcc
    from ..outputs.nvidia_smi import read_pasted_nvidia_smi
    from ..outputs.os_release import read_os_release
    from ..outputs.out_of_memory import read_out_of_memory
    from ..outputs.own_report import SCHEMA, read_own_report
    from ..outputs.packages import read_packages
    from ..outputs.pci import read_lspci
    from ..outputs.proc_driver_version import read_proc_driver_version
    from ..outputs.python_answers import read_python_answers
    from ..outputs.python_paths import read_python_paths
    from ..outputs.shell_variables import read_shell_variables
    from ..outputs.system_answers import read_system_answers

    smi = (
        "nvidia-smi", "nvsmi log", "(uuid: gpu-", "<nvidia_smi_log", "no devices were found", "mib /", "compute mode",
        "slowdown", "driver_version", "used_gpu_memory", "remapping failure", "memory.total",
    )  # fmt: skip
    paths = ("-packages", ":\\", "/home/", "/usr/", "/opt/", "/users/", "/mnt/", "/root/", "/data/", "/srv/")
    variables = (
        "cuda_", "ld_", "nvidia_visible", "pythonpath", "pythonhome", "virtual_env", "conda_prefix", "cuda_alloc",
    )  # fmt: skip
    places = (
        "nvidia-container", "docker", "kube", "podman", "singularity", "apptainer", "srun", "sbatch", "scontrol",
        "tres=", "oci runtime", "nvidia.com/gpu", "@", "nvidia release", "kaggle", "colab", "/content/",
        "slurm", "qsub", "bsub", "#1", " => ", "forward compatib",
    )  # fmt: skip
    systems = (
        "linux ", "darwin", "microsoft", "windows", "description:", "ubuntu", "debian", "fedora", "centos", "rocky",
        "almalinux", "opensuse", "pop!_os", ">", "@", "winerror", "lnk", ".dll", "nvrm", "driver release",
        "will ignore", "nvml library", "driver/nvidia/version", "driver version", "categoryinfo", "press any key",
    )  # fmt: skip
    happenings = (
        "100%|", "[====", "epoch", "prompt executed", "init complete", "test passed", "result = pass", "='cuda",
        "='gpu",
        "created device", "cpu", "-cuda", "visible_devices", "setup.py", "ninja", "nvcc", "c++", "g++", "cl.exe",
        "building", "preparing metadata", "to build wheel", "subprocess-exited", "build_ext", "cmake error", "make",
        "errored out", "pip-req-build", "pip-install", "error", "exception", "interrupt", "systemexit", "notfound",
        "failed:",
    )  # fmt: skip
    reports = (
        "torch",
        "cuda",
        "python",
        "platform",
        "libc",
        "os:",
        "driver version",
        "gpu ",
        "vllm",
        "xformers",
        "numpy",
    )
    return (
        (smi, read_pasted_nvidia_smi, _LONGEST),
        (("nvcc: nvidia", "cuda compilation tools"), read_nvcc, _AFTER),
        (reports, read_collect_env, _BEFORE),
        (("torch.", ".__version__", "sys.", "platform.", "+cu", "+cpu", "+rocm"), read_python_answers, _AFTER),
        (("torch", "numpy", "pip", "conda", "nvidia-", "__cuda", "tensorflow", "vllm"), read_packages, _AFTER),
        (("torch",), read_installs, _BEFORE),
        (paths, read_python_paths, 0),
        ((".so",), read_loader_answers, 0),
        (variables, read_shell_variables, _BEFORE),
        (("tried to allocate",), read_out_of_memory, _BEFORE),
        (("10de:",), read_lspci, _BEFORE),
        (("nvrm version:",), read_proc_driver_version, _BEFORE),
        (("capabilit", "tensor cores", "arch_list", "arch list", "your installed torch"), read_gpus_named, 0),
        (("pretty_name=", "version_id="), read_os_release, _BEFORE),
        (places, read_containers_and_jobs, 0),
        ((SCHEMA,), read_own_report, _LONGEST),
        (systems, read_system_answers, 0),
        (happenings, read_context, 1),
    )

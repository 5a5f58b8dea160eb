"""Known outputs inside a pasted text become the same claims as the probes' own."""

from collections.abc import Callable, Iterator
from functools import lru_cache

from ..model import Claim, Source, Value

Reader = Callable[[str, Source], Iterator[Claim]]

_MOST_VALUES = 8
"""Different values of one fact that are kept, the first ones: a log of a thousand runs has a thousand versions."""
_MOST_CLAIMS = 4000


class KnownOutputs:
    """Hands pieces of text to the readers whose landmarks stand in them; keeps the first values of each fact."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], list[Claim]] = {}
        self._count = 0

    def feed(self, lines: list[tuple[int, str]], source: Source, *, again: bool = False) -> None:
        """`again` marks another reading of lines that were fed before: what it says takes the place of the first
        reading's values from the same lines.
        """
        text = "\n".join(line for _, line in lines)
        low = text.lower()
        first, last = (lines[0][0], lines[-1][0]) if lines else (0, 0)
        said: list[Claim] = []
        for landmarks, reader in _readers():
            if not landmarks or any(landmark in low for landmark in landmarks):
                said += (_placed(claim, lines) for claim in reader(text, source._replace(line=1)))
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
        if self._count < _MOST_CLAIMS and len(kept) < _MOST_VALUES:
            same: tuple[str, Value | None] = claim.state, claim.value
            if not any((one.state, one.value) == same for one in kept):
                kept.append(claim)
                self._count += 1

    def claims(self) -> Iterator[Claim]:
        for kept in self._kept.values():
            yield from kept


def _placed(claim: Claim, lines: list[tuple[int, str]]) -> Claim:
    """A reader counts the lines of the piece that it was given."""
    index = min(max(claim.source.line, 1), len(lines)) - 1
    return claim._replace(source=claim.source._replace(line=lines[index][0]))


@lru_cache(maxsize=1)
def _readers() -> tuple[tuple[tuple[str, ...], Reader], ...]:
    """(lower-case texts of which one must occur, reader); no text: the reader looks at everything."""
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
    return (
        (smi, read_pasted_nvidia_smi),
        (("nvcc: nvidia", "cuda compilation tools"), read_nvcc),
        (("torch", "cuda", "python", "gpu"), read_collect_env),
        (("torch", ".__version__", "sys.", "platform."), read_python_answers),
        (("torch", "numpy", "pip", "conda", "nvidia-", "__cuda", "tensorflow", "vllm"), read_packages),
        (("torch",), read_installs),
        (paths, read_python_paths),
        ((".so",), read_loader_answers),
        (variables, read_shell_variables),
        (("tried to allocate",), read_out_of_memory),
        (("10de:",), read_lspci),
        (("nvrm version:",), read_proc_driver_version),
        (
            ("capability", "capabilities", "tensor cores", "arch_list", "arch list", "your installed torch"),
            read_gpus_named,
        ),
        (("pretty_name=", "version_id="), read_os_release),
        (places, read_containers_and_jobs),
        ((SCHEMA,), read_own_report),
        ((), read_system_answers),
        ((), read_context),
    )

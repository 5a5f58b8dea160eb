"""Whether a text comes from a container or from a scheduler's job: prompts, banners, and the words of docker,
nvidia-container-cli, kubectl, Singularity and Slurm.
"""

import re
from collections.abc import Iterator

from ..model import Claim, Source, present
from .lines import Gate, at, lines_of

# A container's host name is the start of its id, and its user is root.
_INSIDE = Gate(r"\b(?:root|jovyan|user|ubuntu|app)@[0-9a-f]{12}:", "root@", "jovyan@", "user@", "ubuntu@", "app@")
_KINDS = (
    ("kubernetes", Gate(
        r"\bkubectl\b|\bkubelet\b|nvidia\.com/gpu|\bPodSandbox|\[pod/|\bKubernetes\b|"
        r"kubepods|KUBERNETES_SERVICE_HOST",
        "kube", "nvidia.com/gpu", "PodSandbox", "[pod/", "Kubernetes", "KUBERNETES"
    )),
    ("podman", Gate(r"\bpodman (?:run|exec|build)\b|/run/\.containerenv|\blibpod\b",
        "podman", ".containerenv", "libpod")),
    ("singularity", Gate(r"\b(?:singularity|apptainer) (?:exec|run|shell)\b|Singularity>|Apptainer>",
        "ingularity", "pptainer")),
    ("docker", Gate(
        r"(?:^|[\s$#])(?:sudo )?(?:nvidia-)?docker(?:-compose)? (?:run|exec|compose|start|"
        r"container|build|logs)\b|^docker: Error|"
        r"\bError response from daemon|/\.dockerenv|/var/lib/docker/|\bdockerd\b|\bdocker-entrypoint|"
        r"^ => (?:ERROR )?\[|^#\d+ \[|failed to solve: ",
        "docker", "Error response", " => ", "failed to solve", "#"
    )),
    ("container", Gate(
                    r"nvidia-container-cli|nvidia-container-runtime|\bOCI runtime|NVIDIA Release "
            r"\d\d\.\d\d|== (?:PyTorch|TensorFlow|CUDA|Triton Inference Server) ==|"
        r"\bNOTE: CUDA Forward Compatibility mode|WARNING: The NVIDIA Driver was not detected",
        "nvidia-container", "OCI runtime", "NVIDIA Release", "== ", "Forward Compat", "Driver was not"
    )),
)  # fmt: skip
_SLURM = Gate(
    r"\bsrun\b|\bsbatch\b|\bsalloc\b|\bscontrol\b|\bsqueue\b|\bSLURM_[A-Z]+|\bslurmstepd\b|"
    r"slurm_script|(?:Req|Alloc)?TRES=",
    "srun",
    "sbatch",
    "salloc",
    "scontrol",
    "squeue",
    "SLURM_",
    "slurm",
    "TRES=",
)
_SCHEDULERS = (
    ("slurm", _SLURM),
    ("pbs", Gate(r"\bqsub\b|\bPBS_[A-Z]+", "qsub", "PBS_")),
    ("lsf", Gate(r"\bbsub\b|\bLSB_[A-Z]+", "bsub", "LSB_")),
    ("kubernetes", Gate(r"\bkubectl\b|nvidia\.com/gpu|\bkubelet\b", "kube", "nvidia.com/gpu")),
)
_TRES = Gate(r"\bAllocTRES=(\S*)|(?:^|\s)TRES=(\S*)", "TRES=")
_GRES_OF_TRES = re.compile(r"gres/gpu(?::[\w.-]+)?=(\d{1,4})")
_ASKED_GRES = Gate(
    r"--gres[= ]gpu(?::[A-Za-z][\w.-]*)?(?::(\d{1,4}))?|--gpus(?:-per-(?:node|task))?[= ](?:[\w.-]+:)?(\d{1,4})|"
    r"#SBATCH .*?--gres=gpu(?::[A-Za-z][\w.-]*)?(?::(\d{1,4}))?",
    "gres",
    "--gpus",
)
_DOCKER_RUN = Gate(
    r"(?:(?:docker|podman|nerdctl) (?:run|create)|(?:apptainer|singularity) (?:exec|run|shell))\b(?P<rest>.*)$",
    "docker",
    "podman",
    "nerdctl",
    "apptainer",
    "singularity",
)
_GPU_FLAG = re.compile(
    r"--gpus\b|--runtime[= ]nvidia|--nv(?:ccli)?\b|--device[= ](?:/dev/nvidia|nvidia\.com)|NVIDIA_VISIBLE_DEVICES"
)
_CLOUD = (
    ("colab", Gate(r"/usr/local/lib/python3\.\d+/dist-packages/google/colab|/content/|\bColab\b", "olab", "/content/")),
    ("kaggle", Gate(r"/kaggle/(?:working|input)|/opt/conda/lib/python3\.\d+/site-packages/kaggle", "kaggle")),
)


def read_containers_and_jobs(text: str, source: Source) -> Iterator[Claim]:
    lines = lines_of(text)
    yield from _container(text, lines, source)
    for name, pattern in _SCHEDULERS:
        number = _first(pattern, text, lines)
        if number >= 0:
            yield present("job.scheduler", name, at(source, number))
            break
    for name, pattern in _CLOUD:
        number = _first(pattern, text, lines)
        if number >= 0:
            yield present("cloud.name", name, at(source, number))
            break
    for number, line in enumerate(lines):
        here = at(source, number)
        if found := _TRES.search(line):
            gpus = _GRES_OF_TRES.findall(found[1] or found[2] or "")
            yield present("job.gpus", max(map(int, gpus), default=0), here)
        elif found := _ASKED_GRES.search(line):
            count = next((one for one in found.groups() if one), "1")
            yield present("job.gpus_asked", int(count), here)
        if found := _DOCKER_RUN.search(line):
            yield present("container.asks_for_gpus", _GPU_FLAG.search(found["rest"]) is not None, here)


def _container(text: str, lines: list[str], source: Source) -> Iterator[Claim]:
    number = _first(_INSIDE, text, lines)
    for name, pattern in _KINDS:
        seen = _first(pattern, text, lines)
        if seen >= 0:
            yield present("container.kind", name, at(source, seen))
            return
    if number >= 0:
        yield present("container.kind", "docker", at(source, number))


def _first(pattern: Gate, text: str, lines: list[str]) -> int:
    """The first line with it, -1 if there is none."""
    if not pattern.near(text):
        return -1
    return next((number for number, line in enumerate(lines) if pattern.search(line)), -1)

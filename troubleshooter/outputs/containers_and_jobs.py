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
    ("kubernetes", re.compile(
        r"\bkubectl\b|\bkubelet\b|nvidia\.com/gpu|\bPodSandbox|\[pod/|\bKubernetes\b|"
        r"kubepods|KUBERNETES_SERVICE_HOST"
    )),
    ("podman", re.compile(r"\bpodman (?:run|exec|build)\b|/run/\.containerenv|\blibpod\b")),
    ("singularity", re.compile(r"\b(?:singularity|apptainer) (?:exec|run|shell)\b|Singularity>|Apptainer>")),
    ("docker", re.compile(
        r"(?:^|[\s$#])(?:sudo )?(?:nvidia-)?docker(?:-compose)? (?:run|exec|compose|start|"
        r"container|build|logs)\b|^docker: Error|"
        r"\bError response from daemon|/\.dockerenv|/var/lib/docker/|\bdockerd\b|\bdocker-entrypoint|"
        r"^ => (?:ERROR )?\[|^#\d+ \[|failed to solve: "
    )),
    ("container", re.compile(
                    r"nvidia-container-cli|nvidia-container-runtime|\bOCI runtime|NVIDIA Release "
            r"\d\d\.\d\d|== (?:PyTorch|TensorFlow|CUDA|Triton Inference Server) ==|"
        r"\bNOTE: CUDA Forward Compatibility mode|WARNING: The NVIDIA Driver was not detected"
    )),
)  # fmt: skip
_SLURM = re.compile(
    r"\bsrun\b|\bsbatch\b|\bsalloc\b|\bscontrol\b|\bsqueue\b|\bSLURM_[A-Z]+|\bslurmstepd\b|"
    r"slurm_script|(?:Req|Alloc)?TRES="
)
_SCHEDULERS = (
    ("slurm", _SLURM),
    ("pbs", re.compile(r"\bqsub\b|\bPBS_[A-Z]+")),
    ("lsf", re.compile(r"\bbsub\b|\bLSB_[A-Z]+")),
    ("kubernetes", re.compile(r"\bkubectl\b|nvidia\.com/gpu|\bkubelet\b")),
)
_TRES = Gate(r"\bAllocTRES=(\S*)|(?:^|\s)TRES=(\S*)", "TRES=")
_GRES_OF_TRES = re.compile(r"gres/gpu(?::[\w.-]+)?=(\d{1,4})")
_ASKED_GRES = Gate(
    r"--gres[= ]gpu(?::[A-Za-z][\w.-]*)?(?::(\d{1,4}))?|--gpus(?:-per-(?:node|task))?[= ](?:[\w.-]+:)?(\d{1,4})|"
    r"#SBATCH .*?--gres=gpu(?::[A-Za-z][\w.-]*)?(?::(\d{1,4}))?",
    "gres",
    "--gpus",
)
_DOCKER_RUN = Gate(r"(?:docker|podman|nerdctl) (?:run|create)\b(?P<rest>.*)$", "docker", "podman", "nerdctl")
_GPU_FLAG = re.compile(r"--gpus\b|--runtime[= ]nvidia|--device[= ](?:/dev/nvidia|nvidia\.com)|NVIDIA_VISIBLE_DEVICES")
_CLOUD = (
    ("colab", re.compile(r"/usr/local/lib/python3\.\d+/dist-packages/google/colab|/content/|\bColab\b")),
    ("kaggle", re.compile(r"/kaggle/(?:working|input)|/opt/conda/lib/python3\.\d+/site-packages/kaggle")),
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


def _first(pattern: re.Pattern[str] | Gate, text: str, lines: list[str]) -> int:
    """The first line with it, -1 if there is none; most texts have none, and one search tells."""
    if not pattern.near(text) if isinstance(pattern, Gate) else "^" not in pattern.pattern and not pattern.search(text):
        return -1
    return next((number for number, line in enumerate(lines) if pattern.search(line)), -1)

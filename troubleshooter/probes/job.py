"""Whether this runs as a job of a scheduler or on rented hardware, and how many GPUs it was given."""

import re
from collections.abc import Iterator

from ..machine import Machine
from ..model import Claim, Source, absent, present, unknown

NAME = "job"
FACTS = ("job.scheduler", "job.gpus", "cloud.name")

_SCHEDULERS = (
    ("SLURM_JOB_ID", "slurm"),
    ("PBS_JOBID", "pbs"),
    ("LSB_JOBID", "lsf"),
    ("SGE_TASK_ID", "sge"),
    ("AWS_BATCH_JOB_ID", "aws-batch"),
    ("KUBERNETES_SERVICE_HOST", "kubernetes"),
)
# Slurm sets one of these in a job that has GPUs, according to its version and to how they were asked for.
_SLURM_NUMBER = ("SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE")
_SLURM_LIST = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "GPU_DEVICE_ORDINAL")
_SLURM_ASKED = ("SLURM_GPUS", "SLURM_GPUS_PER_TASK", "SLURM_JOB_GRES")
_CLOUD_VARIABLES = (
    ("COLAB_RELEASE_TAG", "colab"),
    ("COLAB_GPU", "colab"),
    ("KAGGLE_KERNEL_RUN_TYPE", "kaggle"),
    ("RUNPOD_POD_ID", "runpod"),
    ("VAST_CONTAINERLABEL", "vast"),
    ("PAPERSPACE_FQDN", "paperspace"),
    ("LIGHTNING_CLOUD_PROJECT_ID", "lightning"),
    ("SM_CURRENT_HOST", "sagemaker"),
    ("MODAL_TASK_ID", "modal"),
    ("CODESPACES", "codespaces"),
)
# What the firmware of virtual machines says of their maker.
_MAKERS = (("Amazon EC2", "aws"), ("Google", "gcp"), ("Microsoft Corporation", "azure"), ("Alibaba Cloud", "alibaba"))


def probe(machine: Machine) -> Iterator[Claim]:
    environ = machine.environ
    variable, scheduler = next((one for one in _SCHEDULERS if one[0] in environ), ("", ""))
    source = Source("probe", "environment", variable or "the variables of schedulers")
    if scheduler:
        yield present("job.scheduler", scheduler, source)
    else:
        yield absent("job.scheduler", source, "no variable of a scheduler is set")
    if scheduler == "slurm":
        yield _slurm_gpus(machine, source)
    elif scheduler:
        yield unknown("job.gpus", f"{scheduler} does not say it in a variable", source)
    else:
        yield absent("job.gpus", source, "this is no job of a scheduler")
    yield _cloud(machine)


def _slurm_gpus(machine: Machine, source: Source) -> Claim:
    environ = machine.environ
    for name in _SLURM_NUMBER:
        # 4, a100:4
        if found := re.search(r"(?:^|:)(\d{1,3})$", environ.get(name, "")):
            return present("job.gpus", int(found[1]), Source("probe", "environment", name))
    for name in _SLURM_LIST:
        if value := environ.get(name):
            return present("job.gpus", len(value.split(",")), Source("probe", "environment", name))
    if any(environ.get(name) for name in _SLURM_ASKED):
        return unknown("job.gpus", "GPUs were asked for, and how many came is not said", source)
    return present("job.gpus", 0, source)


def _cloud(machine: Machine) -> Claim:
    for variable, name in _CLOUD_VARIABLES:
        if variable in machine.environ:
            return present("cloud.name", name, Source("probe", "environment", variable))
    maker = machine.read("/sys/class/dmi/id/sys_vendor")
    model = machine.read("/sys/class/dmi/id/product_name")
    for word, name in _MAKERS:
        # Microsoft also makes laptops; its virtual machines are called just that.
        if maker.text.startswith(word) and (name != "azure" or model.text.strip() == "Virtual Machine"):
            return present("cloud.name", name, maker.source)
    if maker.ok:
        return absent("cloud.name", maker.source, "the firmware names no cloud")
    return unknown("cloud.name", maker.reason or "the firmware does not say", maker.source)

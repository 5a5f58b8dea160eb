"""Whether this is a container, and of which kind."""

import re
from collections.abc import Iterator

from ..machine import Machine
from ..model import Claim, Source, absent, present, unknown
from ..text import clean

NAME = "container"
FACTS = ("container.kind", "container.gpu_mounts", "container.gpu_allowed")

_CGROUP_WORDS = (
    ("kubepods", "kubernetes"),
    ("libpod", "podman"),
    ("docker", "docker"),
    ("/lxc", "lxc"),
    ("containerd", "container"),
)
_VARIABLE_WORDS = {
    "lxc": "lxc",
    "podman": "podman",
    "docker": "docker",
    "oci": "container",
    "systemd-nspawn": "container",
}


def probe(machine: Machine) -> Iterator[Claim]:
    kind, source, sure = container_kind(machine)
    if kind:
        yield present("container.kind", kind, source)
    elif sure:
        yield absent("container.kind", source, "nothing here speaks of a container")
    else:
        yield unknown("container.kind", "neither /proc nor the files at the root could be looked at", source)
    if kind:
        yield from _what_was_brought_in(machine)
    else:
        for name in FACTS[1:]:
            state = absent if sure else unknown
            yield state(
                name, reason="this is no container" if sure else "whether this is one is not known", source=source
            )


def _what_was_brought_in(machine: Machine) -> Iterator[Claim]:
    """The traces of the runtime that brings the driver in, and what the control group lets through."""
    mounts = machine.read("/proc/self/mountinfo")
    # 812 780 259:1 /usr/lib/x86_64-linux-gnu/libcuda.so.535.183.01 /usr/lib/x86_64-linux-gnu/libcuda.so.535.183.01 ro,…
    places = tuple(
        clean(fields[4])
        for line in mounts.text.splitlines()
        if len(fields := line.split()) > 4 and re.search(r"nvidia|libcuda\.so|/dev/dxg", fields[4])
    )
    if places:
        yield present("container.gpu_mounts", places[:50], mounts.source)
    elif mounts.ok:
        yield absent("container.gpu_mounts", mounts.source, "nothing of NVIDIA's is mounted into the container")
    # Control groups of the second version keep this in a program of the kernel, which nobody can read.
    rules = machine.read("/sys/fs/cgroup/devices/devices.list")
    if rules.ok:
        # "a *:* rwm" is everything; 195 is nvidia's number for its character devices.
        allowed = bool(re.search(r"^(?:a \*:\*|c (?:\*|195):\S+) r?w?m?$", rules.text, re.MULTILINE))
        yield present("container.gpu_allowed", allowed, rules.source)
    else:
        yield unknown("container.gpu_allowed", "the device rules of its control group cannot be read", rules.source)


def container_kind(machine: Machine) -> tuple[str, Source, bool]:
    """(kind or empty, where that was seen, whether an empty kind can be relied on)."""
    environ = machine.environ
    if machine.platform != "linux":
        return "", Source("probe", "environment", "the platform"), True
    if "KUBERNETES_SERVICE_HOST" in environ:
        return "kubernetes", Source("probe", "environment", "KUBERNETES_SERVICE_HOST"), True
    for name in ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER", "APPTAINER_NAME", "SINGULARITY_NAME"):
        if name in environ:
            return "singularity", Source("probe", "environment", name), True
    looked = False
    for path, kind in (("/run/.containerenv", "podman"), ("/.singularity.d", "singularity"), ("/.dockerenv", "docker")):
        stat = machine.stat(path)
        looked = looked or stat.missing
        if stat.ok:
            return kind, stat.source, True
    if said := _VARIABLE_WORDS.get(environ.get("container", "")):
        return said, Source("probe", "environment", "container"), True
    groups = machine.read("/proc/1/cgroup")
    for word, kind in _CGROUP_WORDS:
        if word in groups.text:
            return kind, groups.source, True
    mounts = machine.read("/proc/self/mountinfo")
    # 642 605 0:56 / / rw,relatime - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/…
    # A live system's root is an overlay as well, so the folder it lies in has to be an engine's.
    root = re.search(r"^\d+ \d+ \S+ \S+ / .* - (?:overlay|fuse-overlayfs|aufs) (.*)$", mounts.text, re.MULTILINE)
    if root and (engine := re.search(r"/(docker|containers|containerd|kubelet|lxc)/", root[1])):
        kind = {"docker": "docker", "containers": "podman", "lxc": "lxc", "kubelet": "kubernetes"}.get(
            engine[1], "container"
        )
        return kind, mounts.source, True
    return "", groups.source, looked or groups.ok or mounts.ok

"""Whether this is a container, and of which kind."""

import re
from collections.abc import Iterator

from ..machine import Machine
from ..model import Claim, Source, absent, present, unknown

NAME = "container"
FACTS = ("container.kind",)

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

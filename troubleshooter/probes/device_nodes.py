"""The /dev/nvidia* nodes, and whether this user may open them."""

import re
from collections.abc import Iterator

from ..machine import Machine
from ..model import Claim, absent, present, unknown
from .system import is_wsl

NAME = "device_nodes"
FACTS = ("device_nodes.nvidia", "device_nodes.unreadable", "device_nodes.uvm")

_NODE = re.compile(r"nvidia(?:\d+|ctl|-uvm|-uvm-tools|-modeset)")


def probe(machine: Machine) -> Iterator[Claim]:
    folder = machine.list("/dev")
    if machine.platform != "linux":
        doubt = "this system has no such nodes"
    elif not folder.ok:
        doubt = f"/dev could not be listed: {folder.reason}"
    else:
        doubt = ""
    nodes, closed = [], []
    for name in filter(_NODE.fullmatch, folder.names):
        node = machine.stat(f"/dev/{name}")
        if node.ok and node.kind == "char":
            nodes.append(name)
            if not (node.readable and node.writable):
                closed.append(name)
    if not nodes and not doubt and is_wsl(machine):
        doubt = "under WSL programs reach the GPU through /dev/dxg"
    if doubt:
        for fact in FACTS:
            yield unknown(fact, doubt, folder.source)
        return
    if nodes:
        yield present("device_nodes.nvidia", tuple(nodes), folder.source)
    else:
        yield absent("device_nodes.nvidia", folder.source, "/dev holds no character device called nvidia…")
    if closed:
        yield present("device_nodes.unreadable", tuple(closed), folder.source)
    else:
        yield absent(
            "device_nodes.unreadable", folder.source, "all that are there can be opened" if nodes else "there are none"
        )
    # CUDA needs this one beside the card's own; nvidia-smi does without.
    yield present("device_nodes.uvm", "nvidia-uvm" in nodes, folder.source)

"""Known outputs inside a pasted text become the same claims as the probes' own."""

from collections.abc import Callable, Iterator

from ..model import Claim, Source

Reader = Callable[[str, Source], Iterator[Claim]]


def read_known_outputs(text: str, source: Source) -> Iterator[Claim]:
    """Each reader runs where its landmark stands in the text; what it cannot read is no claim."""
    for landmark, reader in _readers():
        if landmark in text:
            yield from reader(text, source)


def _readers() -> tuple[tuple[str, Reader], ...]:
    from ..outputs.nvcc import read_nvcc
    from ..outputs.nvidia_smi import read_nvidia_smi

    return (("NVIDIA-SMI", read_nvidia_smi), ("nvcc: NVIDIA", read_nvcc), ("Cuda compilation tools", read_nvcc))

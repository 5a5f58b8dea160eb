"""Known outputs inside a pasted text become the same claims as the probes' own."""

from collections.abc import Callable, Iterator

from ..model import Claim, Source

Reader = Callable[[str, Source], Iterator[Claim]]


def read_known_outputs(text: str, source: Source) -> Iterator[Claim]:
    """Each reader runs where its landmark stands in the text; what it cannot read is no claim."""
    for landmark, reader in _READERS:
        if landmark in text:
            yield from reader()(text, source)


def _nvidia_smi() -> Reader:
    from ..outputs.nvidia_smi import read_nvidia_smi

    return read_nvidia_smi


def _nvcc() -> Reader:
    from ..outputs.nvcc import read_nvcc

    return read_nvcc


# A reader is imported where its landmark is seen: their patterns take milliseconds to compile.
_READERS: tuple[tuple[str, Callable[[], Reader]], ...] = (
    ("NVIDIA-SMI", _nvidia_smi),
    ("nvcc: NVIDIA", _nvcc),
    ("Cuda compilation tools", _nvcc),
)

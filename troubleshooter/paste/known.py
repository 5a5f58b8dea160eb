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
            if any(landmark in low for landmark in landmarks):
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
    """(lower-case texts of which one must occur, reader)."""
    from ..outputs.nvcc import read_nvcc
    from ..outputs.nvidia_smi import read_nvidia_smi

    return (
        (("nvidia-smi", "nvsmi log", "(uuid: gpu-", "<nvidia_smi_log"), read_nvidia_smi),
        (("nvcc: nvidia", "cuda compilation tools"), read_nvcc),
    )

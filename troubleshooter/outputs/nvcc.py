"""nvcc --version: which release of the CUDA compiler."""

import re
from collections.abc import Iterator

from ..model import Claim, Source, present, unknown
from .lines import at, line_of

# "Cuda compilation tools, release 13.0, V13.0.88"; the first figure is the toolkit's, as torch and rules know it.
_RELEASE = re.compile(r"\brelease (\d+\.\d+)")


def read_nvcc(text: str, source: Source) -> Iterator[Claim]:
    if found := _RELEASE.search(text):
        yield present("nvcc.version", found[1], at(source, line_of(text, found.start())))
    else:
        yield unknown("nvcc.version", "its answer has no release number", source)

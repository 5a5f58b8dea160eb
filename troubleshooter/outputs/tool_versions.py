"""The first lines of `--version` of the tools that build extensions."""

import re

# gcc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0 · g++-12 (GCC) 12.2.0 · Ubuntu clang version 14.0.0-1ubuntu1.1
# cmake version 3.22.1 · 1.11.1.git.kitware.jobserver-1
_CLANG = re.compile(r"\bclang version (\d+\.\d+(?:\.\d+)?)")
_LAST = re.compile(r"[ \t(](\d+\.\d+(?:\.\d+)?)(?:[ \t]\d{8})?(?: \([^()]*\))?[ \t]*$")
_FIRST = re.compile(r"(\d+\.\d+(?:\.\d+)*)")


def tool_version(text: str) -> str:
    """Empty if there is none. Of a compiler's line the last figure counts: the bracket is the distribution's."""
    line = text.lstrip().split("\n", 1)[0][:500]
    if found := _CLANG.search(line):
        return found[1]
    found = _LAST.search(line) or _FIRST.search(line)
    return found[1] if found else ""

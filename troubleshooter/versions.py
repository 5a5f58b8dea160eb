"""Reading and ordering versions: driver 580.159.04, CUDA 12.10, torch 2.9.0a0+git1234, GLIBC 2.32.

Versions are compared part by part as whole numbers, never as text or as floats. Not PEP 440: a driver is no Python
package, and NVIDIA's leading zeros ("525.60.13" against "525.60.3") must not matter.
"""

import re
from functools import cache, lru_cache

_PRE_RANK = {"dev": 0, "a": 1, "alpha": 1, "b": 2, "beta": 2, "rc": 3, "c": 3, "pre": 3, "preview": 3}
_FINAL = (9, 0)


@cache
def _release() -> re.Pattern[str]:
    """Compiled at the first version that is met, as the next: a text without versions need not wait for it."""
    return re.compile(r"\s*[vV]?(\d+(?:\.\d+)*)(.*)", re.DOTALL)


@cache
def _pre() -> re.Pattern[str]:
    return re.compile(r"[-._]?(dev|a|alpha|b|beta|rc|c|pre|preview)[-._]?(\d*)", re.IGNORECASE)


Order = tuple[tuple[int, ...], tuple[int, int]]


@lru_cache(maxsize=2048)
def order(text: str) -> Order | None:
    """A key that sorts versions, or None if `text` does not begin with a number.

    Trailing zeros do not count (12.0 equals 12), a pre-release comes before its release, and a local tag
    (+cu121) does not count: it names a build, not an order.
    """
    if not (found := _release().match(text)):
        return None
    # A release part of more than 18 digits is no version of anything; cut it so that absurd input stays cheap.
    numbers = [int(part[:18]) for part in found[1].split(".")[:16]]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    rest = found[2].split("+", 1)[0]
    pre = _pre().match(rest) if rest else None
    stage = (_PRE_RANK[pre[1].lower()], int(pre[2][:18] or 0)) if pre else _FINAL
    return tuple(numbers), stage


def same(left: str, right: str) -> bool:
    """Whether two texts name the same version; texts that are no versions are compared as they stand."""
    first, second = order(left), order(right)
    return left.strip() == right.strip() if first is None or second is None else first == second


def release(text: str) -> str:
    """`2.5.1` of `2.5.1+cu124`: the number without local tag and pre-release."""
    found = _release().match(text)
    return found[1] if found else ""


def local(text: str) -> str:
    """`cu124` of `2.5.1+cu124`; empty without a local tag."""
    return text.split("+", 1)[1].strip() if "+" in text else ""


def major(text: str) -> str:
    return release(text).split(".")[0]


def cuda_of_tag(tag: str) -> str:
    """`12.4` of `cu124`, `10.2` of `cu102`, `13.0` of `cu130`; empty for cpu, rocm and xpu tags."""
    found = re.fullmatch(r"cu(\d{1,2})(\d)(?:\..*)?", tag)
    return f"{int(found[1])}.{found[2]}" if found else ""

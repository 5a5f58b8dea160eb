"""/proc/meminfo and /proc/self/limits."""

import re


def memory_mib(text: str) -> dict[str, int]:
    """MemTotal:       16318508 kB → {"MemTotal": 15936}"""
    return {name: int(kib) // 1024 for name, kib in re.findall(r"^(\w+):[ \t]+(\d{1,15}) kB", text, re.MULTILINE)}


def soft_limit(text: str, name: str) -> str:
    """Max open files            1024                 1048576              files → 1024; empty if it is not there."""
    found = re.search(rf"^{re.escape(name)}[ \t]+(\d+|unlimited)[ \t]", text, re.MULTILINE)
    return found[1] if found else ""

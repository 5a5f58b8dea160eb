"""The files in which a CUDA toolkit says which one it is."""

import re


def toolkit_version(text: str) -> str:
    """From version.json (since 11.1), version.txt or include/cuda.h; empty if the text says nothing of it."""
    if text.lstrip().startswith("{"):
        # {"cuda": {"name": "CUDA SDK", "version": "12.4.1"}, …}
        found = re.search(r'"cuda"\s*:\s*\{[^{}]*?"version"\s*:\s*"(\d+\.\d+(?:\.\d+)?)"', text)
        return found[1] if found else ""
    # CUDA Version 10.2.89
    if found := re.search(r"^CUDA Version (\d+\.\d+(?:\.\d+)?)", text, re.MULTILINE):
        return found[1]
    # #define CUDA_VERSION 12040
    if found := re.search(r"^#define[ \t]+CUDA_VERSION[ \t]+(\d{4,6})\b", text, re.MULTILINE):
        return f"{int(found[1]) // 1000}.{int(found[1]) % 1000 // 10}"
    return ""

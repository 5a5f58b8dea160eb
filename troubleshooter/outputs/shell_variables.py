"""Variables as shells show and set them: `echo $X` and its answer, `export X=…`, `set X=…`, `$env:X = "…"`,
`X=… command`, lines of `env`, and os.environ in a program.
"""

import re
from collections.abc import Iterator

from ..model import Claim, Source, absent, present
from .lines import Gate, at, lines_of

_NAMES = (
    r"CUDA_VISIBLE_DEVICES|NVIDIA_VISIBLE_DEVICES|CUDA_DEVICE_ORDER|CUDA_HOME|CUDA_PATH|CUDA_LAUNCH_BLOCKING|"
    r"CUDA_MODULE_LOADING|LD_LIBRARY_PATH|LD_PRELOAD|PYTHONPATH|PYTHONHOME|PYTORCH_CUDA_ALLOC_CONF|"
    r"VIRTUAL_ENV|CONDA_PREFIX"
)
_ECHO = re.compile(
    (
        rf"(?:\b(?:echo|printenv|Write-Output|Get-Content)\s+[\"']?[$%]?(?:env:|\{{)?|"
        rf"[>$#]\s*\$env:)(?P<name>{_NAMES})[\"'}}%]*\s*$"
    ),
    re.IGNORECASE,
)
_SET = re.compile(
    rf"(?:^|[\s;&(\"'`]|\$env:|--env[= ]|-e )(?P<name>{_NAMES})(?P<mark>\s?=\s?|: )"
    r"(?P<value>\"[^\"\n]{0,900}\"|'[^'\n]{0,900}'|[^\s;&\"'`)\\]{0,900})"
)
_PYTHON = Gate(
    rf"environ(?:\.setdefault\(|\[)\s*[\"'](?P<name>{_NAMES})[\"']\s*(?:\]\s*=|,)\s*[\"'](?P<value>[^\"'\n]{{0,300}})[\"']",
    "environ",
)
_UNSET = Gate(rf"\b(?:unset|set -e|Remove-Item Env:)\s*(?P<name>{_NAMES})\b", "unset", "set -e", "Remove-Item")
_COMMAND = re.compile(r"\s+(?:python|torchrun|accelerate|\./|bash|sh\s|nvidia-smi)")
_ADVICE = re.compile(
    r"(?i)\b(?:consider|try|by|passing|setting|please|you can|could|should|need to|"
    r"either|hint|e\.g\.)\b[^=;&$#]{0,80}$"
)
_LITERAL = Gate(r"^\s*[$%].*[%}]?$", "$", "%")
_PROMPT = re.compile(r"^\s*(?:[$#%>] |\([\w.+-]{1,40}\) |[\w.-]+@[\w.-]+|PS [A-Z]:|[A-Z]:\\.*>|>>> )")


def read_shell_variables(text: str, source: Source) -> Iterator[Claim]:
    lines = lines_of(text)
    for number, line in enumerate(lines):
        here = at(source, number)
        if asked := _ECHO.search(line):
            name = asked["name"].upper()
            answer = lines[number + 1].strip() if number + 1 < len(lines) else None
            if answer is None:
                continue
            if not answer or _PROMPT.match(lines[number + 1]):
                # An answer that is empty is left out of a paste as often as not, so the next prompt may follow.
                yield absent(f"env.{name}", here, "echo prints nothing")
            elif not _LITERAL.match(answer):
                yield from _stated(name, answer, at(source, number + 1))
            continue
        if found := _PYTHON.search(line):
            yield from _stated(found["name"].upper(), found["value"], here)
            continue
        if found := _UNSET.search(line):
            continue
        for found in _SET.finditer(line):
            value = found["value"].strip("\"'")
            # "consider passing CUDA_LAUNCH_BLOCKING=1." is advice.
            if _ADVICE.search(line, 0, found.start("name")):
                continue
            # "CUDA_HOME: /usr" is a report's; a variable in a sentence ("set CUDA_HOME: …") has no value.
            if found["mark"].strip() == ":" and not value:
                continue
            # `X= command` sets it to nothing, `X=$Y` or a cut sentence does not tell.
            if not value and line[found.end() :].strip() and not _COMMAND.match(line, found.end()):
                continue
            if "..." in value or value.startswith(("<", "$", "%")) or (value == "" and found["mark"] != "="):
                continue
            yield from _stated(found["name"].upper(), value, here)


def _stated(name: str, value: str, source: Source) -> Iterator[Claim]:
    yield present(f"env.{name}", value, source)
    if name == "CUDA_VISIBLE_DEVICES":
        first = value.split(",", maxsplit=1)[0].strip()
        if not re.match(r"(?:GPU|MIG)-", first) and not re.fullmatch(r"\+?\d{1,9}", first):
            yield present("env.hides_all_gpus", True, source)
        elif first == "0":
            yield present("env.hides_all_gpus", False, source)
    elif name == "LD_LIBRARY_PATH":
        folders = [one for one in value.split(":") if re.search(r"cuda|cudnn", one, re.IGNORECASE)]
        if folders:
            yield present("loader.cuda_folders", tuple(dict.fromkeys(folders)), source)
        elif "$" not in value:
            yield absent("loader.cuda_folders", source, "no folder in LD_LIBRARY_PATH is named as CUDA's")

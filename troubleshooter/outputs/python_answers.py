"""Questions put to Python and its answers: `python -c "import torch; print(…)"`, the prompts of Python and IPython,
cells of a notebook, and what people write from memory (`torch.cuda.is_available() -> False`).
"""

import re
from collections.abc import Callable, Iterator

from ..model import Claim, Source, absent, present
from .lines import at, lines_of
from .versions_told import cudnn_number, flag, os_of_platform, package, torch_cuda, torch_version, version

Reading = Callable[[str, Source], Iterator[Claim]]

_COMMAND = re.compile(
    r"(?:^|[\s/\\])(?:python|py|ipython)[\w.]{0,8}(?:\.exe)?\s+(?:-[\w-]+\s+){0,4}-c\s+"
    r"(?P<quote>[\"'])(?P<code>.*)(?P=quote)"
)
_PROMPT = re.compile(r"^\s*(?:>>> ?|In ?\[\d+\]: ?|!)(?P<code>\S.*)$")
_OUT = re.compile(r"^\s*Out ?\[\d+\]: ?(?P<value>.*)$")
_ANY_PROMPT = re.compile(
    r"^\s*(?:>>>|\.\.\.|In ?\[\d+\]:|[$#%] |\(?[\w.+ -]{1,40}\)? ?[\w.@~:/\\ -]{1,80}[$#>%] "
    r"?|PS [A-Z]:\\|[A-Z]:\\[^>]{0,200}>)"
)
_BARE = re.compile(
    r"^\s*(?:import torch; ?)?(?:print ?\((?P<code>.*)\)|(?P<expression>(?:torch|tf|sys)\.[\w.]+(?:\([^()]*\))?))\s*$"
)
_TOLD = re.compile(
    r"(?P<expression>\b(?:torch|torchvision|torchaudio|tf|tensorflow|np|numpy|vllm)\.[\w.]+(?:\([^()]{0,40}\))?)`?"
    r"\s*(?:->|=>|=|:|\u2192|is|returns|gives|prints)\s*`?(?P<value>[('\"]?[\w.+-]+['\")]?)"
)
_PLAIN = re.compile(
    r"^\s*[('\"]{0,2}(?P<torch>\d+\.\d+\.\d+(?:\.?(?:a|b|rc|dev)\d+)?\+(?:cu\d{2,3}|cpu|rocm[\d.]+|xpu))['\"]?"
    r"(?:[ ,]+['\"]?(?P<cuda>\d{1,2}\.\d|None)['\"]?)?(?:[ ,]+(?P<available>True|"
    r"False))?(?:[ ,]+(?P<count>\d{1,2}))?[)]?\s*$"
)
_FAR = 14
"""Lines between a question and its answer at most: warnings come between."""
_NO_ANSWER = re.compile(
    r"Warning:|^\s{2,}\S|^\s*Traceback |^\S*(?:Error|Exception)\b|\.py:\d+|^\s*[\[(]?Triggered|"
    r"^\d{4}-\d\d-\d\d|^[WIE]\d{4} "
)


def _location(value: str, source: Source) -> Iterator[Claim]:
    if found := re.match(r"['\"]?(.+[/\\]torch)[/\\]__init__\.py", value):
        yield present("torch.location", found[1], source)


def _count(value: str, source: Source) -> Iterator[Claim]:
    if value.isdigit() and len(value) < 5:
        yield present("torch.device_count", int(value), source)


def _cudnn(value: str, source: Source) -> Iterator[Claim]:
    if told := cudnn_number(value):
        yield present("cudnn.version", told, source)


def _archs(value: str, source: Source) -> Iterator[Claim]:
    archs = tuple(re.findall(r"\b(?:sm|compute)_\d{2,3}[af]?\b", value))
    if archs:
        yield present("torch.archs", archs, source)
    elif value.replace(" ", "") == "[]":
        yield absent("torch.archs", source, "the list is empty")


def _nccl(value: str, source: Source) -> Iterator[Claim]:
    if found := re.match(r"\(?(\d{1,2}), ?(\d{1,2}), ?(\d{1,2})", value):
        yield present("nccl.version", ".".join(found.groups()), source)


def _executable(value: str, source: Source) -> Iterator[Claim]:
    path = value.strip("'\"")
    if "/" in path or "\\" in path:
        yield present("python.path", path.replace("\\\\", "\\"), source)


def _cuda(value: str, source: Source) -> Iterator[Claim]:
    return torch_cuda(value, source)


def _hip(value: str, source: Source) -> Iterator[Claim]:
    if found := re.match(r"['\"]?(\d+\.\d+[\d.]*)", value):
        yield present("torch.hip", found[1], source)
        yield present("torch.build", "rocm", source)


def _nothing(value: str, source: Source) -> Iterator[Claim]:
    del value, source
    yield from ()


def _of_package(name: str) -> Reading:
    return lambda value, source: package(name, value.strip("'\""), source)


def _flag(value: str, source: Source) -> Iterator[Claim]:
    return flag("torch.cuda_available", value, source)


def _python_version(value: str, source: Source) -> Iterator[Claim]:
    return version("python.version", value.strip("'\""), source)


def _platform(value: str, source: Source) -> Iterator[Claim]:
    return os_of_platform(value.strip("'\""), source)


_VERSION = r"['\"]?\d+\.\d+[\w.+]*['\"]?"
_FLAG = r"True|False"
_LIST = r"\[[^\[\]]{0,2000}\]"
_TUPLE = r"\([^()]{0,60}\)"
_ANY = r".{0,300}?"
# (the expression, how its answer looks, what it states)
_EXPRESSIONS: tuple[tuple[re.Pattern[str], str, Reading], ...] = tuple(
    (re.compile(pattern), shape, reading)
    for pattern, shape, reading in (
        (r"torch\.(?:__version__|version\.__version__)", _VERSION, torch_version),
        (r"torch\.version\.cuda", rf"{_VERSION}|None", _cuda),
        (r"torch\.version\.hip", rf"{_VERSION}|None", _hip),
        (r"torch\.cuda\.is_available\(\)", _FLAG, _flag),
        (r"torch\.cuda\.device_count\(\)", r"\d{1,4}", _count),
        (r"torch\.backends\.cudnn\.version\(\)", r"\d{4,6}|None", _cudnn),
        (r"torch\.cuda\.get_arch_list\(\)", _LIST, _archs),
        (r"torch\.cuda\.nccl\.version\(\)", _TUPLE, _nccl),
        (r"torch\.__file__", r"\S+", _location),
        (r"torch\.cuda\.get_device_name\([^()]{0,40}\)", r"['\"]?.{3,60}?['\"]?", _nothing),
        (r"torch\.cuda\.get_device_capability\([^()]{0,40}\)", _TUPLE, _nothing),
        (r"torchvision\.__version__", _VERSION, _of_package("torchvision")),
        (r"torchaudio\.__version__", _VERSION, _of_package("torchaudio")),
        (r"(?:numpy|np)\.__version__", _VERSION, _of_package("numpy")),
        (r"(?:tf|tensorflow)\.(?:__version__|version\.VERSION)", _VERSION, _of_package("tensorflow")),
        (r"(?:triton)\.__version__", _VERSION, _of_package("triton")),
        (r"vllm\.__version__", _VERSION, _of_package("vllm")),
        (r"xformers\.__version__", _VERSION, _of_package("xformers")),
        (r"sys\.executable", r"['\"]?\S.{0,250}?['\"]?", _executable),
        (r"sys\.version(?:\.split\(\)\[0\])?", r"['\"]?\d\.\d+.{0,160}", _python_version),
        (r"platform\.python_version\(\)", _VERSION, _python_version),
        (r"platform\.platform\(\)", r"\S+", _platform),
    )
)


def read_python_answers(text: str, source: Source) -> Iterator[Claim]:
    lines = lines_of(text)
    for number, line in enumerate(lines):
        if expressions := _question(line):
            yield from _answered(expressions, lines, number, source)
        elif found := _TOLD.search(line):
            if reading := _reading(found["expression"], found["value"]):
                yield from reading[1](found["value"].strip("'\"()"), at(source, number))
        elif found := _PLAIN.match(line):
            here = at(source, number)
            yield from torch_version(found["torch"], here)
            yield from torch_cuda(found["cuda"] or "", here)
            yield from flag("torch.cuda_available", found["available"] or "", here)
            yield from _count(found["count"] or "", here)


def _question(line: str) -> list[str]:
    """The expressions that a line asks for, empty if it asks for nothing."""
    found = _COMMAND.search(line) or _PROMPT.match(line)
    code = found["code"] if found else ""
    if not code:
        bare = _BARE.match(line)
        if not bare:
            return []
        code = bare["expression"] or f"print({bare['code']})"
    last = [part.strip() for part in _split(code, ";") if part.strip()]
    printed = [one for part in last if (one := re.match(r"print ?\((.*)\)$", part))]
    if printed:
        return [piece.strip() for one in printed for piece in _split(one[1], ",")]
    return [piece.strip() for piece in _split(last[-1], ",")] if last and _knows(last[-1]) else []


def _knows(code: str) -> bool:
    return any(pattern.search(code) for pattern, _, _ in _EXPRESSIONS)


def _split(code: str, mark: str) -> list[str]:
    """At marks that stand outside brackets and quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for index, one in enumerate(code):
        if quote:
            quote = "" if one == quote else quote
        elif one in "'\"":
            quote = one
        elif one in "([{":
            depth += 1
        elif one in ")]}":
            depth -= 1
        elif one == mark and depth <= 0:
            parts.append(code[start:index])
            start = index + 1
    return [*parts, code[start:]]


def _reading(expression: str, value: str = "") -> tuple[str, Reading] | None:
    for pattern, shape, reading in _EXPRESSIONS:
        if pattern.fullmatch(expression.strip()):
            if value and not re.fullmatch(shape, value.strip("()") if shape is not _TUPLE else value):
                return None
            return shape, reading
    return None


def _answered(expressions: list[str], lines: list[str], number: int, source: Source) -> Iterator[Claim]:
    """Claims of the first of the following lines that looks like the answer."""
    shapes: list[str] = []
    readings: list[tuple[str, Reading | None]] = []
    for expression in expressions:
        known = _reading(expression)
        literal = re.fullmatch(r"[fr]?(['\"])(.*)\1", expression)
        if literal and not expression.startswith("f"):
            shapes.append(re.escape(literal[2]))
            readings.append((expression, None))
        elif known:
            shapes.append(known[0])
            readings.append((expression, known[1]))
        else:
            shapes.append(_ANY)
            readings.append((expression, None))
    if not any(reading for _, reading in readings):
        return
    spaced = re.compile(r"\s*[(]?" + r"[ ,]+".join(f"({shape})" for shape in shapes) + r"[)]?\s*")
    alone = [re.compile(rf"\s*({shape})\s*") for shape in shapes]
    pending = list(range(len(shapes)))
    for offset, raw in enumerate(lines[number + 1 : number + 1 + _FAR], number + 1):
        out = _OUT.match(raw)
        line = out["value"] if out else raw
        if not out and _ANY_PROMPT.match(raw) and _question(raw):
            return
        if len(line) > 400:
            continue
        here = at(source, offset)
        if len(pending) == len(shapes) and (found := spaced.fullmatch(line)):
            for (expression, reading), value in zip(readings, found.groups(), strict=True):
                if reading is not None:
                    yield from _stated(expression, reading, value, here)
            return
        if pending and len(shapes) > 1 and (found := alone[pending[0]].fullmatch(line)):
            # Several prints answer on a line each.
            expression, reading = readings[pending.pop(0)]
            if reading is not None:
                yield from _stated(expression, reading, found[1], here)
            if not pending:
                return
        elif (
            not _NO_ANSWER.search(line)
            and line.strip()
            and not out
            and not re.match(r"\s*(?:\.\.\.|import |from )", line)
        ):
            return


def _stated(expression: str, reading: Reading, value: str, source: Source) -> Iterator[Claim]:
    device = re.search(
        r"get_device_(name|capability)\((?:torch\.cuda\.current_device\(\)|[^()\d]*(\d{0,3}))\)?", expression
    )
    if not device:
        yield from reading(value, source)
        return
    subject = f"gpu:{int(device[2] or 0)}"
    if device[1] == "name":
        yield present("gpu.name", value.strip("'\""), source, subject)
    elif found := re.match(r"\((\d{1,2}), ?(\d)\)", value):
        yield present("gpu.capability", f"{found[1]}.{found[2]}", source, subject)

"""The Python interface: what `from troubleshooter import …` gives. No state of its own; any number of threads may call.

Values are the frozen ones of `troubleshooter.model`; `as_json` gives the contract that `--format json` prints.
"""

import os
from collections.abc import Iterable, Mapping

from . import pipeline
from .knowledge import load
from .model import Knowledge, Report, Request

__all__ = ["as_json", "as_markdown", "as_text", "check", "diagnose_text", "load_knowledge"]


def load_knowledge(rules: Iterable[str | os.PathLike[str]] = (), language: str = "en") -> Knowledge:
    """The built-in knowledge, with folders of further `rules` on top, its texts in `language` as far as translated.

    A few milliseconds; load it once and give it to every call. Raises `errors.KnowledgeError` with every mistake of
    the folders.
    """
    from pathlib import Path

    return load([Path(folder) for folder in rules], language=language)


def diagnose_text(
    text: str | bytes,
    *,
    knowledge: Knowledge | None = None,
    hints: Mapping[str, str] | None = None,
    name: str = "text",
    engine: str = "python",
) -> Report:
    """What a pasted text says, as `troubleshoot log` does: looks at nothing else, and gives the same anywhere.

    `hints` are those of `--set`: {"gpu": "RTX 3090", "driver": "535"}. `engine`: python, durable or auto.
    """
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    request = Request(texts=((name, data),), hints=tuple((hints or {}).items()), engine=engine)
    return pipeline.diagnose_text(request, load() if knowledge is None else knowledge)


def check(
    *,
    python: str = "",
    knowledge: Knowledge | None = None,
    hints: Mapping[str, str] | None = None,
    snapshot: str | os.PathLike[str] | None = None,
    confirm: str = "quick",
    engine: str = "python",
) -> Report:
    """Look at this machine and the target `python` (a file, a name on PATH or an environment's folder; the active one
    if empty), or at the recording `snapshot`.

    `confirm`: no, quick or full. Takes seconds and starts other programs; never imports torch here. Raises
    `errors.UsageError` for a python or snapshot that is none.
    """
    from .machine import LiveMachine, Machine
    from .recording import load_recording

    machine: Machine = LiveMachine() if snapshot is None else load_recording(os.fspath(snapshot))
    request = Request(python=python, hints=tuple((hints or {}).items()), engine=engine, confirm=confirm)
    return pipeline.check(request, load() if knowledge is None else knowledge, machine)


def as_json(report: Report) -> str:
    """`troubleshooter.report/1` (docs/schema/report-1.json)."""
    from .report.json_report import report_json

    return report_json(report)


def as_text(report: Report, language: str = "en", width: int = 100) -> str:
    """As it is printed, without colour; lines of at most `width` columns but for commands."""
    from .report.text import plain, report_lines

    return plain(report_lines(report, language), width)


def as_markdown(report: Report, language: str = "en") -> str:
    """For issues. Names, addresses and secrets stay: `troubleshoot --format markdown` replaces them."""
    from .report.markdown import report_markdown

    return report_markdown(report, language)

"""Arguments, exit codes, and which words go where: the report to stdout, everything else to stderr."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from . import __version__
from .errors import TroubleshooterError, UsageError
from .model import Knowledge, Report, Request

EXIT_CODES = {"healthy": 0, "problem": 1, "inconclusive": 3}
USAGE, INTERNAL, INTERRUPTED = 2, 4, 130

_LARGEST_TEXT = 256 * 1024 * 1024


class _Help(argparse.HelpFormatter):
    """As wide as the terminal. Left to itself argparse imports shutil for that, with all compression libraries, and
    does so for every argument that is defined.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    try:
        return int(os.environ.get("COLUMNS") or os.get_terminal_size(1).columns) or 80
    except (ValueError, OSError):
        return 80


class _Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": _Help, **options})

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, f"see {self.prog} --help")


def parser(only: str = "") -> argparse.ArgumentParser:
    """All commands, or `only` the one that is going to be used: building the others costs a run milliseconds."""
    top = _Parser(
        prog="troubleshoot",
        description="Finds out why a GPU / PyTorch / CUDA installation does not work, and what to do about it.",
        epilog="Without a command: check. Exit codes: 0 healthy, 1 problem, 2 usage or rules, 3 inconclusive, "
        "4 internal error, 130 interrupted.",
    )
    top.add_argument("--version", action="version", version=f"troubleshoot {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser, prog=top.prog)
    for name, (says, add_arguments) in _COMMANDS.items():
        if only in ("", name):
            add_arguments(commands.add_parser(name, help=says))
    return top


def _add_check(check: argparse.ArgumentParser) -> None:
    check.add_argument(
        "--python", default="", metavar="PATH", help="the Python (or its environment's folder) to look at"
    )
    check.add_argument("--root", metavar="DIR", help="look at the machine kept in this folder instead of this one")
    check.add_argument("--log", action="append", default=[], metavar="FILE", help="an error log that belongs to it")
    tests = check.add_mutually_exclusive_group()
    tests.add_argument("--no-confirm", dest="confirm", action="store_const", const="no", help="run no tests")
    tests.add_argument("--quick", dest="confirm", action="store_const", const="quick", help="short tests (the default)")
    tests.add_argument("--full", dest="confirm", action="store_const", const="full", help="longer tests")
    check.set_defaults(confirm="quick", do=_check)
    _common(check)


def _add_log(log: argparse.ArgumentParser) -> None:
    log.add_argument("files", nargs="*", metavar="FILE", help="files; - or none is standard input")
    log.set_defaults(do=_log)
    _common(log)


def _add_rules(rules: argparse.ArgumentParser) -> None:
    kinds = rules.add_subparsers(dest="rules_command", metavar="COMMAND", required=True, parser_class=_Parser)
    rules_check = kinds.add_parser("check", help="load all rules and report every mistake with its place")
    rules_check.add_argument("--rules", action="append", default=[], metavar="DIR", help="a folder of further rules")
    rules_check.add_argument("--format", choices=("text", "json"), default="text")
    rules_check.set_defaults(do=_rules_check)


def _common(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", dest="hints", help="state a fact by hand"
    )
    command.add_argument("--rules", action="append", default=[], metavar="DIR", help="a folder of further rules")
    command.add_argument("--engine", choices=("auto", "durable", "python"), default="auto", help="the rule engine")
    command.add_argument("--format", choices=("text", "json"), default="text")
    command.add_argument("--lang", choices=("en", "zh"), default="en", help="language of the report")


_COMMANDS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
    "check": ("look at this machine and at the Python that runs torch (the default)", _add_check),
    "log": ("name the cause from a pasted error text alone", _add_log),
    "rules": ("rules of your own", _add_rules),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--format=json" in words or "--format json" in " ".join(words)
    try:
        return _run(words)
    except TroubleshooterError as error:
        _complain(error, as_json)
        return USAGE
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader went away; Python would complain once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return INTERRUPTED
    except Exception:
        _internal_error()
        return INTERNAL


def _run(words: list[str]) -> int:
    if not words or (words[0] not in _COMMANDS and words[0] not in ("-h", "--help", "--version")):
        words = ["check", *words]
    options = parser(words[0] if words[0] in _COMMANDS else "").parse_args(words)
    do: Callable[[argparse.Namespace], int] = options.do
    return do(options)


def _check(options: argparse.Namespace) -> int:
    from .machine import LiveMachine, RootMachine
    from .pipeline import check

    request = Request(
        texts=_texts(options.log) if options.log else (),
        python=options.python,
        hints=_hints(options.hints),
        engine=options.engine,
        confirm=options.confirm,
    )
    machine = RootMachine(options.root) if options.root else LiveMachine()
    return _print(check(request, _knowledge(options.rules), machine, _progress()), options)


def _log(options: argparse.Namespace) -> int:
    from .pipeline import diagnose_text

    request = Request(
        texts=_texts(options.files or ["-"]), hints=_hints(options.hints), engine=options.engine, look_at_machine=False
    )
    return _print(diagnose_text(request, _knowledge(options.rules)), options)


def _rules_check(options: argparse.Namespace) -> int:
    knowledge = _knowledge(options.rules, examples=True)
    if options.format == "json":
        import json

        counts = {"rules": len(knowledge.rules), "signatures": len(knowledge.signatures)}
        packs = [pack._asdict() for pack in knowledge.packs]
        found = {"schema": "troubleshooter.rules-check/1", "errors": [], **counts, "packs": packs}
        sys.stdout.write(json.dumps(found, indent=1) + "\n")
    else:
        print(
            f"{len(knowledge.rules)} rules, {len(knowledge.signatures)} signatures, "
            f"{len(knowledge.articles)} diagnoses: no mistakes."
        )
    return 0


def _knowledge(folders: Sequence[str], *, examples: bool = False) -> Knowledge:
    from .knowledge import load

    if not folders:
        return load(examples=examples)
    from pathlib import Path

    return load([Path(folder) for folder in folders], examples=examples)


def _hints(hints: Sequence[str]) -> tuple[tuple[str, str], ...]:
    split = [hint.partition("=") for hint in hints]
    for name, equals, _ in split:
        if not equals:
            raise UsageError(f"--set {name} has no value", "--set NAME=VALUE, NAME= for absent, NAME=? for unknown")
    return tuple((name, value) for name, _, value in split)


def _texts(files: Sequence[str]) -> tuple[tuple[str, bytes], ...]:
    """(name, bytes) of every file; `-` is standard input. Raises UsageError naming the one that cannot be read."""
    texts: list[tuple[str, bytes]] = []
    for name in files:
        try:
            if name == "-":
                if sys.stdin is None:
                    raise UsageError("there is no standard input to read")
                if sys.stdin.isatty():
                    end = "Ctrl-Z and Enter" if os.name == "nt" else "Ctrl-D"
                    print(f"Paste the error text, then press {end}:", file=sys.stderr)
                texts.append(("-", sys.stdin.buffer.read(_LARGEST_TEXT)))
            else:
                with open(name, "rb") as file:
                    texts.append((name, file.read(_LARGEST_TEXT)))
        except OSError as error:
            raise UsageError(f"{name} cannot be read: {error.strerror}") from error
    return tuple(texts)


def _progress() -> Callable[[str], None] | None:
    if not sys.stderr.isatty():
        return None

    def show(text: str) -> None:
        print(f"{text} …", file=sys.stderr)

    return show


def _print(report: Report, options: argparse.Namespace) -> int:
    if options.format == "json":
        from .report.json_report import report_json

        sys.stdout.write(report_json(report))
    else:
        _print_text(report, options.lang)
    sys.stdout.flush()
    return EXIT_CODES[report.verdict]


def _print_text(report: Report, language: str) -> None:
    from .report.text import plain, report_lines

    lines = report_lines(report, language)
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR"):
        from .report.terminal import print_terminal

        print_terminal(lines)
        return
    width = 100
    if sys.stdout.isatty():
        width = os.get_terminal_size(sys.stdout.fileno()).columns
    sys.stdout.write(plain(lines, width, sys.stdout.encoding or "ascii"))


def _complain(error: TroubleshooterError, as_json: bool) -> None:
    from .text import clean

    if as_json:
        from .report.json_report import errors_json

        sys.stdout.write(errors_json(error.problems))
        return
    for problem in error.problems:
        print(clean(str(problem)).replace("\n", " "), file=sys.stderr)


def _internal_error() -> None:
    """What a person can send to the authors: the traceback without their home folder and name."""
    import traceback

    text = traceback.format_exc()
    home = os.path.expanduser("~")
    if len(home) > 1:
        text = text.replace(home, "~")
    print(
        f"troubleshoot {__version__} failed, and that is its own fault, not your machine's.\n"
        f"The text below holds no names or addresses that it knows of; send it to the authors as it is.\n\n{text}",
        file=sys.stderr,
    )

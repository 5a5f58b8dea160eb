"""Arguments, exit codes, and which words go where: the report to stdout, everything else to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from . import __version__
from .errors import TroubleshooterError, UsageError, did_you_mean
from .model import Knowledge, Report, Request

if TYPE_CHECKING:
    import argparse

    from .machine import Machine
    from .model import Claim, Readable
    from .privacy import Identity
    from .report.text import Line

    Pasted = tuple[str, bytes | Readable]

EXIT_CODES = {"healthy": 0, "problem": 1, "inconclusive": 3}
USAGE, INTERNAL, INTERRUPTED = 2, 4, 130

_REPORTED = 0.5
_RECORDED = b'"troubleshooter.recording/'
_LARGEST_TEXT = 256 * 1024 * 1024
_MOST_HELD = 8 * 1024 * 1024
"""Bytes of a text: what is larger is read as a stream, where it is read once."""


def parser(only: str = "") -> argparse.ArgumentParser:
    """All commands, or `only` the one that is going to be used: building the others costs a run milliseconds."""
    from .arguments import Parser

    top = Parser(
        prog="troubleshoot",
        description="Finds out why a GPU / PyTorch / CUDA installation does not work, and what to do about it.",
        epilog="Without a command: check. Exit codes: 0 healthy, 1 problem, 2 usage or rules, 3 inconclusive, "
        "4 internal error, 130 interrupted.",
    )
    top.add_argument("--version", action="version", version=f"troubleshoot {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser, prog=top.prog)
    for name, (says, add_arguments) in _COMMANDS.items():
        if only in ("", name):
            add_arguments(commands.add_parser(name, help=says))
    return top


def _add_check(check: argparse.ArgumentParser) -> None:
    _machine(check)
    check.add_argument("--log", action="append", default=[], metavar="FILE", help="an error log that belongs to it")
    _tests(check)
    check.set_defaults(do=_check)
    _common(check)


def _add_confirm(confirm: argparse.ArgumentParser) -> None:
    confirm.add_argument(
        "--python", default="", metavar="PATH", help="the Python (or its environment's folder) to test"
    )
    confirm.add_argument(
        "--only", nargs="+", default=[], metavar="TEST", help="tests or groups of them: torch.matmul, speed"
    )
    _modes(confirm)
    confirm.set_defaults(do=_confirm, confirm="quick", root=None, snapshot=None)
    _common(confirm)


def _add_log(log: argparse.ArgumentParser) -> None:
    log.add_argument("files", nargs="*", metavar="FILE", help="files; - or none is standard input")
    log.add_argument("--clipboard", action="store_true", help="read what was copied")
    log.set_defaults(do=_log)
    _common(log)


def _add_run(run: argparse.ArgumentParser) -> None:
    run.usage = "troubleshoot run [--report FILE] [options] -- COMMAND…"
    run.description = "Runs the command as it would run without us. If it fails, what it printed is diagnosed "
    run.description += "together with this machine and with the Python that ran; the exit code stays the command's own."
    run.add_argument(
        "--report", metavar="FILE", help="write the report there, also of a command that went well (.json, .md or text)"
    )
    run.add_argument("--python", default="", metavar="PATH", help="the Python that the command runs, if we cannot tell")
    _tests(run)
    _knowledge_options(run)
    run.add_argument("--lang", choices=("en", "zh"), help="language of the report; without it that of the locale")
    run.set_defaults(do=_run_command, format="text", share=False)


def _add_snapshot(snapshot: argparse.ArgumentParser) -> None:
    snapshot.add_argument("-o", "--output", required=True, metavar="FILE", help="the file; - is standard output")
    _machine(snapshot)
    _tests(snapshot)
    snapshot.set_defaults(do=_snapshot)
    _knowledge_options(snapshot)


def _add_plan(plan: argparse.ArgumentParser) -> None:
    plan.add_argument(
        "--gpu", default="", metavar="NAME", help="for this GPU, or compute capability, and not this machine"
    )
    plan.add_argument("--driver", default="", metavar="V", help="with this NVIDIA driver")
    plan.add_argument("--python", default="", metavar="V", help="with this version of Python", dest="python_version")
    plan.add_argument("--os", default="", metavar="NAME", help="linux, windows, wsl or macos, and not this machine")
    plan.add_argument("--glibc", default="", metavar="V", help="with this C library")
    plan.add_argument("--torch", default="", metavar="V", help="ask for a release, or a build as 2.5.1+cu124")
    plan.add_argument("--python-path", default="", metavar="PATH", help="the Python to look at", dest="python")
    instead = plan.add_mutually_exclusive_group()
    instead.add_argument("--root", metavar="DIR", help="look at the machine kept in this folder")
    instead.add_argument("--snapshot", metavar="FILE", help="look at a recorded machine; - is standard input")
    plan.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="hints", help="state a fact")
    plan.add_argument("--format", choices=("text", "json"), default="text")
    plan.add_argument("--lang", choices=("en", "zh"), help="language of the plan; without it that of the locale")
    plan.set_defaults(do=_plan)


def _add_explain(explain: argparse.ArgumentParser) -> None:
    explain.add_argument("id", metavar="ID")
    explain.set_defaults(do=_explain)
    explain.add_argument("--rules", action="append", default=[], metavar="DIR", help="a folder of further rules")
    _form(explain)


def _add_why(why: argparse.ArgumentParser) -> None:
    why.add_argument("id", metavar="ID", help="of a diagnosis, or finding.NAME, note.NAME")
    why.set_defaults(do=_why)
    _of_what(why)


def _add_why_not(why_not: argparse.ArgumentParser) -> None:
    why_not.add_argument("id", metavar="ID", help="of a diagnosis, or finding.NAME, note.NAME")
    why_not.set_defaults(do=_why_not)
    _of_what(why_not)


def _add_what_if(what_if: argparse.ArgumentParser) -> None:
    what_if.add_argument("changes", nargs="+", metavar="NAME=VALUE", help="as --set takes them")
    what_if.set_defaults(do=_what_if)
    _of_what(what_if)


def _of_what(command: argparse.ArgumentParser) -> None:
    of = command.add_mutually_exclusive_group()
    of.add_argument("--report", metavar="FILE", help="a report in JSON; without it the last one")
    of.add_argument("--snapshot", metavar="FILE", help="a recording of a machine")
    command.add_argument("--log", action="append", default=[], metavar="FILE", help="an error log")
    _common(command)


def _add_collector(collector: argparse.ArgumentParser) -> None:
    collector.add_argument("-o", "--output", default="-", metavar="FILE", help="the file; - is standard output")
    collector.set_defaults(do=_collector)


def _add_completion(completion: argparse.ArgumentParser) -> None:
    completion.add_argument("shell", choices=("bash", "zsh", "tcsh"))
    completion.set_defaults(do=_completion)


def _add_rules(rules: argparse.ArgumentParser) -> None:
    import argparse

    from .arguments import Parser
    from .rules_commands import add_commands

    kinds = rules.add_subparsers(dest="rules_command", metavar="COMMAND", required=True, parser_class=Parser)
    rules_check = kinds.add_parser("check", help="load all rules and report every mistake with its place")
    rules_check.add_argument("--rules", action="append", default=[], metavar="DIR", help="a folder of further rules")
    rules_check.add_argument("--format", choices=("text", "json"), default="text")
    rules_check.add_argument("--today", metavar="DATE", help=argparse.SUPPRESS)
    rules_check.set_defaults(do=_rules)
    add_commands(kinds, _rules)
    rules_list = kinds.add_parser("list", help="the ids of all rules and of what they conclude")
    rules_list.add_argument(
        "--patterns", action="store_true", help="the error patterns instead, for rg -f or grep -P -f"
    )
    rules_list.add_argument("--rules", action="append", default=[], metavar="DIR", help="a folder of further rules")
    rules_list.set_defaults(do=_rules_list)


def _machine(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--python", default="", metavar="PATH", help="the Python (or its environment's folder) to look at"
    )
    instead = command.add_mutually_exclusive_group()
    instead.add_argument("--root", metavar="DIR", help="look at the machine kept in this folder instead of this one")
    instead.add_argument("--snapshot", metavar="FILE", help="look at a recorded machine instead; - is standard input")


def _tests(command: argparse.ArgumentParser) -> None:
    tests = _modes(command)
    tests.add_argument("--no-confirm", dest="confirm", action="store_const", const="no", help="run no tests")
    command.set_defaults(confirm="quick")


def _modes(command: argparse.ArgumentParser) -> argparse._MutuallyExclusiveGroup:
    tests = command.add_mutually_exclusive_group()
    tests.add_argument("--quick", dest="confirm", action="store_const", const="quick", help="short tests (the default)")
    tests.add_argument(
        "--full", dest="confirm", action="store_const", const="full", help="all tests, on the whole card"
    )
    command.add_argument("--yes", action="store_true", help="test the whole card although something else uses it")
    return tests


def _common(command: argparse.ArgumentParser) -> None:
    _knowledge_options(command)
    _form(command)
    command.add_argument(
        "--share", action="store_true", help="replace names, addresses and secrets (markdown always does)"
    )


def _knowledge_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", dest="hints", help="state a fact by hand"
    )
    command.add_argument("--rules", action="append", default=[], metavar="DIR", help="a folder of further rules")
    command.add_argument("--engine", choices=("auto", "durable", "python"), default="auto", help="the rule engine")


def _form(command: argparse.ArgumentParser) -> None:
    command.add_argument("--format", choices=("text", "json", "markdown"), default="text")
    command.add_argument(
        "--lang", choices=("en", "zh"), help="language of the report; without it that of the locale, and en for json"
    )


_COMMANDS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
    "check": ("look at this machine and at the Python that runs torch (the default)", _add_check),
    "confirm": ("run the tests on the GPU and print their receipt", _add_confirm),
    "log": ("name the cause from a pasted error text alone", _add_log),
    "run": ("run a command, and if it fails diagnose what it printed and this machine together", _add_run),
    "snapshot": ("write all answers of this machine to a file, without names and secrets", _add_snapshot),
    "plan": ("which build of torch to install here, which others run, and why the rest does not", _add_plan),
    "explain": ("all that is known of a diagnosis", _add_explain),
    "why": ("the whole proof of a diagnosis: facts, sources, rules, tables", _add_why),
    "why-not": ("the rules that come nearest to a diagnosis, and what each of them lacks", _add_why_not),
    "what-if": ("what other facts would change: what-if driver=580.65 torch=2.5.1+cu124", _add_what_if),
    "collector": ("write one Python file (3.6 and later) that collects answers on hosts without us", _add_collector),
    "completion": ("print what makes a shell complete our commands", _add_completion),
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
    told, argv = words, []
    if words[0] == "run" and "--" in words:
        told, argv = words[: words.index("--")], words[words.index("--") + 1 :]
    options = _plain_log(words) or parser(words[0] if words[0] in _COMMANDS else "").parse_args(told)
    options.argv = argv
    if getattr(options, "lang", "") is None:
        options.lang = "en" if options.format == "json" else _language_of_people()
    do: Callable[[argparse.Namespace], int] = options.do
    return do(options)


def _language_of_people() -> str:
    """That in which this computer talks to the person before it, if we have it."""
    named = next((found for name in ("LC_ALL", "LC_MESSAGES", "LANG") if (found := os.environ.get(name))), "")
    if named or sys.platform != "win32":
        return "zh" if named.lower().startswith("zh") else "en"
    import ctypes

    # The lower ten bits are the language without its country; 4 is Chinese.
    return "zh" if ctypes.windll.kernel32.GetUserDefaultUILanguage() & 0x3FF == 4 else "en"


def _plain_log(words: Sequence[str]) -> Any:
    """What `parser` makes of `log FILE… [--format FORM]`, or None for anything else.

    Most starts are of that kind, and a tenth of such a start would go into argparse.
    """
    if words[0] != "log":
        return None
    files = list(words[1:])
    form = "text"
    if len(files) > 2 and files[-2] == "--format" and files[-1] in ("text", "json"):
        form = files[-1]
        del files[-2:]
    if any(not name or (name[0] == "-" and name != "-") for name in files):
        return None
    from types import SimpleNamespace

    common: dict[str, Any] = {
        "clipboard": False,
        "hints": [],
        "rules": [],
        "engine": "auto",
        "lang": None,
        "share": False,
    }
    return SimpleNamespace(command="log", files=files, do=_log, format=form, **common)


def _check(options: argparse.Namespace) -> int:
    from .pipeline import check

    texts = _pasted(options.log, options) if options.log else ()
    machine = _machine_of(options)
    request = _request(options, texts)._replace(agreed=_agreed(options, machine))
    report = check(request, _knowledge(options.rules, options.lang), machine, _progress())
    if machine.kind == "live" and not texts:
        report = _compared(report, "last")
    return _print(report, options, texts)


def _confirm(options: argparse.Namespace) -> int:
    """Like a check that prints its tests; all of it is made neutral, as a receipt is for showing."""
    import time

    from .knowledge.read import TESTS
    from .pipeline import check
    from .privacy import redact
    from .report.receipt import receipt_json, receipt_lines

    groups = {test.split(".")[0] for test in TESTS}
    for name in options.only:
        if name not in TESTS and name not in groups:
            raise UsageError(f"there is no test {name!r}", did_you_mean(name, [*TESTS, *groups]))
    machine = _machine_of(options)
    request = _request(options, ())._replace(only=tuple(options.only), agreed=_agreed(options, machine))
    knowledge = _knowledge(options.rules, options.lang)
    report = _compared(check(request, knowledge, machine, _progress()), "problem")
    neutral, _ = redact(report, _identity())
    day = time.strftime("%Y-%m-%d")
    if options.format == "json":
        sys.stdout.write(receipt_json(neutral, day, options.confirm))
    else:
        _print_lines(receipt_lines(neutral, day, options.confirm, options.lang), options.format)
    return EXIT_CODES[report.verdict]


def _compared(report: Report, with_what: str) -> Report:
    """The report beside the last one of this Python, or beside the last that had a problem; kept for the next."""
    import time

    from .change import change_since, outline
    from .state import keep_last_check, last_checks

    python = report.target.python if report.target else ""
    before = last_checks().get(python, {})
    keep_last_check(python, outline(report, time.strftime("%Y-%m-%d")))
    return report._replace(change=change_since(before.get(with_what), report))


def _agreed(options: argparse.Namespace, machine: Machine) -> bool:
    """Whether a person wants the whole card to be tested although something else uses it."""
    if options.confirm != "full" or machine.kind != "live":
        return False
    if options.yes:
        return True
    from .whole_card import who_uses, why_not

    uses = who_uses(machine, sys.executable)
    on_a_terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    refused = why_not(uses, yes=False, ask=_asked if on_a_terminal else None)
    if refused:
        print(refused, file=sys.stderr)
    return not refused


def _asked(question: str) -> str:
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline()


def _log(options: argparse.Namespace) -> int:
    if getattr(options, "clipboard", False):
        from .clipboard import clipboard

        copied = ("clipboard", clipboard())
        texts: tuple[Pasted, ...] = (copied, *_pasted(options.files, options))
    else:
        texts = _pasted(options.files or ["-"], options)
    return _print(_read_texts(options, texts), options, texts)


def _run_command(options: argparse.Namespace) -> int:
    """The command's own exit code, whatever becomes of the report."""
    from contextlib import closing

    from .processes import Watch
    from .runner import end_like, run_command
    from .spool import Spool

    if not options.argv:
        raise UsageError("there is no command to run", "troubleshoot run -- python train.py")
    with closing(Spool()) as spool:
        watch = Watch()
        ran = run_command(options.argv, spool, watch.look)
        if ran.reason:
            print(f"troubleshoot: {ran.reason}", file=sys.stderr)
        elif options.report or (ran.code and not ran.by_the_user):
            from .launchers import interpreter_of
            from .machine import LiveMachine

            try:
                python = options.python or watch.python(interpreter_of(LiveMachine(), options.argv))
                _report_on_command(options, spool, python)
            except KeyboardInterrupt:
                print("\nInterrupted.", file=sys.stderr)
            except TroubleshooterError as error:
                _complain(error, as_json=False)
            except Exception:
                _internal_error()
    return end_like(ran)


def _report_on_command(options: argparse.Namespace, printed: Readable, python: str) -> None:
    from .pipeline import check
    from .report.json_report import report_json

    # What it printed has been seen by whoever ran it; all that is ours goes to stderr.
    print("\ntroubleshoot: looking for the cause …", file=sys.stderr)
    request = _request(options, (("what the command printed", printed),))._replace(python=python)
    report = check(request, _knowledge(options.rules, options.lang), _machine_of(options))
    whole = report_json(report)
    if not options.report:
        from .report.text import report_lines

        _print_lines(report_lines(report, options.lang), "text", sys.stderr)
    elif options.report.endswith(".json"):
        _write(options.report, whole.encode("ascii"))
    elif options.report.endswith(".md"):
        from .privacy import redact, replaced_in_words
        from .report.markdown import report_markdown

        neutral, counts = redact(report, _identity())
        _write(options.report, report_markdown(neutral, options.lang, replaced_in_words(counts)).encode())
    else:
        from .report.text import plain, report_lines

        _write(options.report, plain(report_lines(report, options.lang), 100).encode())
    if options.report:
        print(f"Verdict: {report.verdict}. Written: {options.report}", file=sys.stderr)
    from .state import keep_last_report

    keep_last_report(whole)


def _read_texts(options: argparse.Namespace, texts: Sequence[Pasted]) -> Report:
    """The report on texts; one that the collector or `snapshot` has written is a machine of its own."""
    from .pipeline import check, diagnose_text

    knowledge = _knowledge(options.rules, options.lang)
    recorded = [(name, data) for name, data in texts if isinstance(data, bytes) and _RECORDED in data[:200]]
    if not recorded:
        if not any(not isinstance(data, bytes) for _, data in texts) or not sys.stderr.isatty():
            return diagnose_text(_request(options, texts), knowledge)
        from contextlib import closing

        from .waiting import BytesRead

        with closing(BytesRead()) as watch:
            return diagnose_text(_request(options, texts), knowledge, watch)
    # Late: a recording needs everything that a machine needs, and a plain text starts without it.
    from .recording import RecordedMachine, read_recording

    if len(recorded) > 1:
        raise UsageError("more than one of the texts is a recording", "each is a machine of its own: one at a time")
    (name, data), rest = recorded[0], [one for one in texts if one not in recorded]
    machine = RecordedMachine(read_recording(data, name), name)
    return check(_request(options, rest)._replace(confirm="no"), knowledge, machine)


def _request(options: argparse.Namespace, texts: Sequence[Pasted]) -> Request:
    return Request(
        texts=tuple(texts),
        python=getattr(options, "python", ""),
        hints=_hints(options.hints),
        engine=options.engine,
        confirm=getattr(options, "confirm", "no"),
    )


def _machine_of(options: argparse.Namespace) -> Machine:
    if getattr(options, "snapshot", None):
        from .recording import RecordedMachine, read_recording

        ((name, data),) = _texts([options.snapshot])
        return RecordedMachine(read_recording(data, name), name)
    from .machine import LiveMachine, RootMachine

    return RootMachine(options.root) if getattr(options, "root", None) else LiveMachine()


def _snapshot(options: argparse.Namespace) -> int:
    """Write what this machine answers; the verdict out of the neutral recording is compared with the true one."""
    import json

    from .pipeline import check, record
    from .privacy import redact_recording, replaced_in_words
    from .recording import RecordedMachine, read_recording

    knowledge = _knowledge(options.rules)
    variables = [name.removeprefix("env.") for name in knowledge.facts if name.startswith("env.")]
    recording: Mapping[str, object]
    if options.snapshot:
        ((name, data),) = _texts([options.snapshot])
        recording = read_recording(data, name)
        report = check(_request(options, ()), knowledge, RecordedMachine(recording, name))
    else:
        recording, report = record(_request(options, ()), knowledge, _machine_of(options), variables, _progress())
    neutral, counts = redact_recording(recording, variables, _identity())
    data = (json.dumps(neutral, indent=1) + "\n").encode("ascii")
    _write(options.output, data)
    again = check(_request(options, ())._replace(python="", confirm="no"), knowledge, RecordedMachine(neutral))
    named = [[one.id for one in each.diagnoses if one.confidence >= _REPORTED] for each in (report, again)]
    print(f"Made neutral: {replaced_in_words(counts)}.", file=sys.stderr)
    if (report.verdict, named[0]) == (again.verdict, named[1]):
        print(f"Verdict: {report.verdict}. The recording gives the same.", file=sys.stderr)
    else:
        shown = [
            f"{each.verdict} ({', '.join(ids) or 'nothing'})" for each, ids in ((report, named[0]), (again, named[1]))
        ]
        print(f"This machine gives {shown[0]}, the recording {shown[1]}.", file=sys.stderr)
    if options.output != "-":
        print(f"Written: {options.output}. Look at it: troubleshoot check --snapshot {options.output}", file=sys.stderr)
    return 0


def _plan(options: argparse.Namespace) -> int:
    """0 where a build (the one asked for) runs, 1 where none does, 3 where the tables do not know.

    A GPU or a system that is named is another machine: this one is not looked at then.
    """
    from .builds import CANNOT, OPEN, RUNS
    from .pipeline import look
    from .plan import make_plan
    from .report.plan import plan_json, plan_lines

    knowledge = _knowledge((), options.lang)
    elsewhere = (options.gpu or options.os) and not (options.snapshot or options.root)
    machine = None if elsewhere else _machine_of(options)
    given = _plan_hints(options)
    request = Request(python=options.python, hints=(*given, *_hints(options.hints)))
    facts, remarks = look(request, knowledge, machine, _progress())
    for remark in remarks:
        for name, value in given:
            if f" {name}={value} " in remark:
                raise UsageError(
                    f"--{name} {value!r} was not understood", "RTX 4090, 8.9, 550.54.14, 3.12, linux, 2.35"
                )
        print(remark, file=sys.stderr)
    plan = make_plan(facts, knowledge, options.torch)
    if options.format == "json":
        sys.stdout.write(plan_json(plan))
    else:
        _print_lines(plan_lines(plan, options.lang), "text")
    if plan.asked:
        if plan.asked.existence.answer == "no":
            return EXIT_CODES["problem"]
        found = [one.status for one in plan.asked.builds] if plan.asked.existence.answer == "yes" else []
    else:
        found = [one.status for one in plan.builds]
    if any(status in (RUNS, OPEN) for status in found):
        return EXIT_CODES["healthy"]
    return EXIT_CODES["problem" if found and all(status == CANNOT for status in found) else "inconclusive"]


def _plan_hints(options: argparse.Namespace) -> tuple[tuple[str, str], ...]:
    import re

    # 8.9, sm_89; a bare 970 is a product.
    named = re.fullmatch(r"(?i)(?:sm_?(\d{1,2})|(?:cc|compute capability)?\s*(\d{1,2})\.)(\d)", options.gpu.strip())
    gpu = ("gpu.capability", f"{named[1] or named[2]}.{named[3]}") if named else ("gpu", options.gpu)
    given = (
        gpu,
        ("driver", options.driver),
        ("python", options.python_version),
        ("os", options.os),
        ("glibc", options.glibc),
    )
    return tuple((name, value) for name, value in given if value)


def _explain(options: argparse.Namespace) -> int:
    from .report.explain import article_lines

    knowledge = _knowledge(options.rules, options.lang)
    article = knowledge.articles.get(options.id)
    if article is None:
        rule = next((rule for rule in knowledge.rules if rule.id == options.id), None)
        hint = (
            f"that is a rule of {rule.diagnosis or rule.head}" if rule else did_you_mean(options.id, knowledge.articles)
        )
        raise UsageError(f"there is no diagnosis {options.id!r}", hint)
    rules = [rule for rule in knowledge.rules if rule.diagnosis == article.id]
    if options.format == "json":
        from .report.json_report import article_json

        sys.stdout.write(article_json(article, rules))
        return 0
    titles = {name: one.title for name, one in knowledge.articles.items()}
    _print_lines(article_lines(article, rules, titles, knowledge.actions, options.lang), options.format)
    return 0


def _why(options: argparse.Namespace) -> int:
    from .pipeline import think
    from .proof import names_of, prove
    from .report.explain import proof_lines
    from .report.json_report import proof_json

    knowledge = _knowledge(options.rules, options.lang)
    _named(options.id, names_of(knowledge))
    claims, name = _claims_told(options, knowledge)
    thought = think(claims, knowledge, options.engine)
    proofs = prove(options.id, thought.inference, thought.facts, thought.diagnoses, knowledge)
    if options.share or options.format == "markdown":
        from .privacy import redact

        proofs, _ = redact(proofs, _identity())
    if options.format == "json":
        sys.stdout.write(proof_json(options.id, proofs))
    elif proofs:
        _print_lines(proof_lines(proofs, options.lang), options.format)
    else:
        others = ", ".join(one.id for one in thought.diagnoses) or "nothing"
        print(f"{options.id} was not concluded in {name}; what was: {others}. why-not says what it lacks.")
    return 0 if proofs else 1


def _why_not(options: argparse.Namespace) -> int:
    from .counterfactual import why_not
    from .pipeline import think
    from .proof import names_of
    from .report.explain import why_not_lines
    from .report.json_report import why_not_json

    knowledge = _knowledge(options.rules, options.lang)
    _named(options.id, names_of(knowledge))
    claims, name = _claims_told(options, knowledge)
    thought = think(claims, knowledge, options.engine)
    found = thought.inference.conclusions
    concluded = any(one.name in (options.id, f"diagnosis.{options.id}") for one in found)
    near = why_not(options.id, thought.facts, found, knowledge)
    if options.share or options.format == "markdown":
        from .privacy import redact

        near, _ = redact(near, _identity())
    if options.format == "json":
        sys.stdout.write(why_not_json(options.id, concluded, near))
    else:
        if concluded:
            print(f"{options.id} was concluded in {name}: why shows how. What would add to it:")
        _print_lines(why_not_lines(near, knowledge, options.lang), options.format)
    return 0


def _what_if(options: argparse.Namespace) -> int:
    from .counterfactual import changes
    from .paste.hints import read_hints
    from .pipeline import think, verdict
    from .report.explain import what_if_lines
    from .report.json_report import what_if_json

    knowledge = _knowledge(options.rules, options.lang)
    claims, _ = _claims_told(options, knowledge)
    stated, unread = read_hints(_hints(options.changes), knowledge.facts)
    if unread:
        raise UsageError(unread[0].removeprefix("--set "), "NAME=VALUE with a fact of the catalogue or a short hint")
    thoughts = [think(some, knowledge, options.engine) for some in (claims, (*claims, *stated))]
    before, after = thoughts
    changed = changes(before.diagnoses, after.diagnoses)
    verdicts = (
        verdict(before.diagnoses, before.notes, before.facts),
        verdict(after.diagnoses, after.notes, after.facts),
    )
    if options.format == "json":
        sys.stdout.write(what_if_json(changed, verdicts))
    else:
        _print_lines(what_if_lines(changed, verdicts, options.lang), options.format)
    return 0


def _named(name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise UsageError(f"nothing is called {name!r}", did_you_mean(name, known))


def _claims_told(options: argparse.Namespace, knowledge: Knowledge) -> tuple[tuple[Claim, ...], str]:
    """What was observed, by the last report or what the options name, and the words for where that was."""
    from .pipeline import check
    from .report.json_report import claims_of_report, report_object

    name = options.report or "the last report"
    if options.snapshot:
        name = options.snapshot
        texts = _pasted(options.log, options) if options.log else ()
        told: object = report_object(check(_request(options, texts), knowledge, _machine_of(options)))
    elif options.log:
        name = "this text"
        told = report_object(_read_texts(options, _pasted(options.log, options)))
    else:
        told = _told(options.report)
    try:
        return tuple(claims_of_report(told if isinstance(told, dict) else {})), name
    except ValueError as error:
        raise UsageError(f"{name} is no report: {error}", "give one that --format json has written") from error


def _told(path: str | None) -> object:
    """The JSON value of a report: of a file, or of the last one that was printed."""
    import json

    from .state import last_report

    if path:
        ((name, data),) = _texts([path])
    else:
        name, data = "the last report", last_report() or b""
        if not data:
            raise UsageError("there is no last report", "run troubleshoot first, or give --log, --snapshot or --report")
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is not JSON: {error}") from error


def _collector(options: argparse.Namespace) -> int:
    from .collector import collector_source

    _write(options.output, collector_source().encode("ascii"))
    if options.output != "-":
        print(
            f"Written: {options.output}. Run it there: python3 {os.path.basename(options.output)} -o answers.json",
            file=sys.stderr,
        )
    return 0


def _completion(options: argparse.Namespace) -> int:
    try:
        import shtab
    except ImportError:
        hint = "pip install 'gpu-troubleshooter[completion]'"
        raise UsageError("completion needs the package shtab, which is not installed", hint) from None
    sys.stdout.write(shtab.complete(parser(), options.shell) + "\n")
    return 0


def _write(path: str, data: bytes) -> None:
    if path == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        return
    try:
        with open(path, "wb") as file:
            file.write(data)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error


def _identity() -> Identity:
    """Who and where we are: known words, to be replaced wherever they stand in what is shared."""
    import platform

    from .privacy import identity_of

    return identity_of({**os.environ, "HOME": os.path.expanduser("~")}, [platform.node()])


def _rules(options: argparse.Namespace) -> int:
    """A command for authors of rules; the words that it gives are printed, its exit code is ours."""
    from .rules_commands import DO

    told, code = DO[options.rules_command](options)
    if isinstance(told, str):
        sys.stdout.write(told)
    else:
        _print_lines(told, "text")
    return code


def _rules_list(options: argparse.Namespace) -> int:
    knowledge = _knowledge(options.rules)
    if options.patterns:
        from .portable import portable

        lines = [portable(one.pattern) for one in knowledge.signatures]
    else:
        lines = [f"{rule.id}  {rule.diagnosis or rule.concludes or rule.note}" for rule in knowledge.rules]
    _write_text("".join(f"{line}\n" for line in lines), sys.stdout)
    return 0


def _knowledge(folders: Sequence[str], language: str = "en", *, examples: bool = False) -> Knowledge:
    from .knowledge import load

    if not folders:
        return load(examples=examples, language=language)
    from pathlib import Path

    return load([Path(folder) for folder in folders], examples=examples, language=language)


def _hints(hints: Sequence[str]) -> tuple[tuple[str, str], ...]:
    split = [hint.partition("=") for hint in hints]
    for name, equals, _ in split:
        if not equals:
            raise UsageError(f"--set {name} has no value", "--set NAME=VALUE, NAME= for absent, NAME=? for unknown")
    return tuple((name, value) for name, _, value in split)


def _pasted(files: Sequence[str], options: argparse.Namespace) -> tuple[Pasted, ...]:
    """As `_texts`; but what is larger than need be held is a stream, unless the words in it are wanted again to make a
    report neutral.
    """
    if options.share or options.format == "markdown":
        return _texts(files)
    texts: list[Pasted] = []
    for name in files:
        ((_, data),) = _texts([name], _MOST_HELD)
        if len(data) < _MOST_HELD:
            texts.append((name, data))
        elif name == "-":
            from .paste.streams import joined

            texts.append((name, joined(data, sys.stdin.buffer)))
        else:
            # Read to its end, and closed with the process.
            texts.append((name, open(name, "rb")))  # noqa: SIM115
    return tuple(texts)


def _texts(files: Sequence[str], most: int = _LARGEST_TEXT) -> tuple[tuple[str, bytes], ...]:
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
                texts.append(("-", sys.stdin.buffer.read(most)))
            else:
                with open(name, "rb") as file:
                    texts.append((name, file.read(most)))
        except OSError as error:
            raise UsageError(f"{name} cannot be read: {error.strerror}") from error
    return tuple(texts)


def _progress() -> Callable[[str], None] | None:
    if not sys.stderr.isatty():
        return None

    def show(text: str) -> None:
        print(f"{text} …", file=sys.stderr)

    return show


def _print(report: Report, options: argparse.Namespace, texts: Sequence[Pasted]) -> int:
    from .report.json_report import report_json

    whole = report_json(report, indent=1 if options.format == "json" else None)
    replaced = ""
    if options.share or options.format == "markdown":
        from .paste import decode_paste
        from .privacy import redact, replaced_in_words

        report, counts = redact(
            report, _identity(), [decode_paste(data) for _, data in texts if isinstance(data, bytes)]
        )
        replaced = replaced_in_words(counts)
    if options.format == "json":
        sys.stdout.write(report_json(report) if replaced else whole)
    elif options.format == "markdown":
        from .report.markdown import report_markdown

        _write_text(report_markdown(report, options.lang, replaced), sys.stdout)
    else:
        from .report.text import report_lines

        _print_lines(report_lines(report, options.lang), "text")
    sys.stdout.flush()
    if options.share and options.format != "markdown":
        print(f"Made neutral: {replaced}.", file=sys.stderr)
    from .state import keep_last_report

    keep_last_report(whole)
    return EXIT_CODES[report.verdict]


def _print_lines(lines: Iterator[Line], form: str, to: TextIO | None = None) -> None:
    """`to` is stdout where it is not given."""
    from .report.text import plain

    stream = to or sys.stdout

    if form == "markdown":
        from .report.markdown import lines_markdown

        _write_text(lines_markdown(lines), stream)
        return
    if stream.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR"):
        from .report.terminal import print_terminal

        print_terminal(lines, stream)
        return
    width = 100
    if stream.isatty():
        width = os.get_terminal_size(stream.fileno()).columns
    _write_text(plain(lines, width, stream.encoding or "ascii"), stream)


def _write_text(text: str, stream: TextIO) -> None:
    """With whatever the terminal cannot show replaced."""
    encoding = stream.encoding or "ascii"
    stream.write(text.encode(encoding, "replace").decode(encoding))


def _complain(error: TroubleshooterError, as_json: bool) -> None:
    from .text import clean

    if as_json:
        from .report.json_report import errors_json

        sys.stdout.write(errors_json(error.problems))
        return
    for problem in error.problems:
        print(clean(str(problem)).replace("\n", " "), file=sys.stderr)


def _internal_error() -> None:
    """What a person can send to the authors: the traceback, made neutral."""
    import traceback

    from .privacy import redact, replaced_in_words

    text, counts = redact(traceback.format_exc(), _identity())
    print(
        f"troubleshoot {__version__} failed, and that is its own fault, not your machine's.\n"
        f"Names, addresses and secrets are replaced in the text below ({replaced_in_words(counts)}); "
        f"read it, and send it to the authors as it is.\n\n{text}",
        file=sys.stderr,
    )

"""What people read: the printed report, Markdown, an article, a proof; and the last report that `why` goes back to.

The printed reports stand in `snapshots/`; TROUBLESHOOTER_UPDATE_SNAPSHOTS=1 writes them anew, for a person to read.
"""

import json
import os
import re
import stat
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml

from troubleshooter.knowledge import load
from troubleshooter.model import HOST, Diagnosis, Evidence, Report, Request, Source
from troubleshooter.pipeline import check, diagnose_text, think
from troubleshooter.proof import names_of, prove
from troubleshooter.recording import RecordedMachine
from troubleshooter.report.explain import article_lines, proof_lines
from troubleshooter.report.json_report import article_json, claims_of_report, proof_json, report_object
from troubleshooter.report.markdown import code, fenced, lines_markdown, report_markdown, text
from troubleshooter.report.summary import summary
from troubleshooter.report.text import Line, columns_of, plain, report_lines, rows_of, worth_showing, wrap

HERE = Path(__file__).parent
SNAPSHOTS = HERE / "snapshots"
FIXTURES = sorted((HERE.parent / "fixtures").rglob("*.yaml"))
SCHEMAS = HERE.parent / "docs" / "schema"
KNOWLEDGE = load()
PRINTED = (
    ("driver-too-old-for-cuda/torch-warns-with-the-version-found", "en"),
    ("driver-too-old-for-cuda/torch-warns-with-the-version-found", "zh"),
    ("nvjitlink-mismatch/headers-name-file-and-variable", "en"),
    ("cuda-visible-devices-wrong/h200-minus-one", "en"),
    ("healthy/h200-in-a-container", "en"),
    ("healthy/gb10-warning", "en"),
    ("healthy/gb10-warning", "zh"),
)


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@cache
def report_on(path: Path, language: str = "en") -> Report:
    knowledge = KNOWLEDGE if language == "en" else load(language=language)
    fixture = yaml.load(path.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    hints = tuple((str(name), str(value)) for name, value in fixture.get("set", {}).items())
    texts = (("error.log", fixture["text"].encode()),) if "text" in fixture else ()
    request = Request(texts=texts, hints=hints, engine="python")
    if "recording" in fixture:
        return check(request, knowledge, RecordedMachine(fixture["recording"], "machine.json"))
    return diagnose_text(request, knowledge)


@pytest.mark.parametrize(("name", "language"), PRINTED, ids=lambda value: str(value).replace("/", "-"))
def test_the_printed_report_is_the_one_that_was_read_and_found_good(name: str, language: str) -> None:
    path = next(path for path in FIXTURES if name_of(path).startswith(name))
    printed = plain(report_lines(report_on(path, language), language), 80)
    kept = SNAPSHOTS / f"{name_of(path).replace('/', '--')}.{language}.txt"
    if os.environ.get("TROUBLESHOOTER_UPDATE_SNAPSHOTS"):
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(printed, encoding="utf-8")
    assert printed == kept.read_text(encoding="utf-8")


def test_no_row_of_chinese_begins_with_a_mark_that_closes_or_ends_with_one_that_opens() -> None:
    text = "驱动太旧，需要 525.60.13（Windows 528.33）：请更新。" * 6
    rows = [row for width in range(20, 60) for row in wrap(text, width)]
    assert all(columns_of(row) <= 60 for row in rows)
    assert not [row for row in rows if row[0] in "，。：；）" or row[-1] == "（"]
    assert "".join("".join(wrap(text, 40)).split()) == "".join(text.split())


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("path", FIXTURES, ids=name_of)
def test_no_row_is_wider_than_the_terminal_but_commands_and_single_words(path: Path, width: int) -> None:
    for language in ("en", "zh"):
        for line in report_lines(report_on(path, language), language):
            for row in rows_of(line, width):
                if line.style != "command" and " " in row.strip():
                    assert columns_of(row) <= width, row
                assert "^" not in row or "^" in line.text


@pytest.mark.parametrize("path", FIXTURES, ids=name_of)
def test_what_was_seen_is_what_counted_and_two_more(path: Path) -> None:
    for one in report_on(path).diagnoses:
        shown = worth_showing(one)
        counted = [evidence for evidence in one.evidence if evidence.supports and evidence.counted]
        assert [evidence for evidence in shown if evidence.counted] == counted
        assert len(shown) <= len(counted) + 2


def test_nothing_seen_and_no_test_run_is_said_as_it_is() -> None:
    report = check(Request(), KNOWLEDGE, RecordedMachine({}, "nothing"))
    assert summary(report) == "Nothing wrong was seen, and no test was run that would prove it"
    report = diagnose_text(Request(texts=(("x", b"hello"),)), KNOWLEDGE)
    assert summary(report) == "The text shows no fault that is known, and nothing that proves all is well"


def test_the_terminal_shows_the_same_rows_with_colour() -> None:
    code = (
        "import sys\nfrom troubleshooter.report.terminal import print_terminal\nfrom troubleshooter.report.text import Line\n"
        "print_terminal(iter([Line('A title', 'title'), Line('words [not markup] ' * 9, 'plain', 4), Line('pip install x', 'command', 9)]), sys.stdout)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "60", "FORCE_COLOR": "1"},
    )
    bare = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    assert bare != done.stdout
    lines = [Line("A title", "title"), Line("words [not markup] " * 9, "plain", 4), Line("pip install x", "command", 9)]
    assert [row.rstrip() for row in bare.splitlines()] == plain(iter(lines), 60).splitlines()


# --- Markdown


@pytest.mark.parametrize("path", FIXTURES, ids=name_of)
def test_markdown_begins_with_the_verdict_and_closes_its_fences(path: Path) -> None:
    report = report_on(path)
    for language in ("en", "zh"):
        rows = report_markdown(report, language, "2 user names").splitlines()
        assert rows[0].startswith("**Verdict: " if language == "en" else "**结论: ")
        assert sum(row.strip().startswith("```") for row in rows) % 2 == 0
    for one in report.diagnoses:
        assert f"`{one.id}`" in "\n".join(rows) or one.explained_by


def test_a_log_cannot_write_markdown_of_its_own() -> None:
    hostile = "# head <script>alert(1)</script> [x](http://evil) ![i](y) @someone #12 | a | `` ``` **b** _c_ snake_case\n- item"
    assert text(hostile) == (
        "\\# head &lt;script&gt;alert(1)&lt;/script&gt; \\[x\\](http://evil) !\\[i\\](y) &#64;someone &#35;12 \\| a \\| "
        "\\`\\` \\`\\`\\` \\*\\*b\\*\\* \\_c\\_ snake_case - item"
    )
    assert code("a ``` b` | c") == "```` a ``` b` ¦ c ````" or code("a ``` b` | c") == "````a ``` b` ¦ c````"
    assert fenced("x\n```\ny", "bash") == ["````bash", "x", "```", "y", "````"]
    evidence = Evidence("r", "built-in", hostile, True, "strong", (), (Source("text", "text", hostile, "a`b.log", 3),))
    one = Diagnosis("x-y", HOST, 0.9, "blocking", "driver", "common", hostile, hostile, (evidence,))
    report = report_on(FIXTURES[0])._replace(diagnoses=(one,), verdict="problem", remarks=(hostile,))
    markdown = report_markdown(report)
    assert "<script>" not in re.sub(r"(`+).*?\1", "", markdown)
    assert not re.search(r"(?<!\\)\[x\]", re.sub(r"(`+).*?\1", "", markdown))


# --- articles


@pytest.mark.parametrize("name", sorted(KNOWLEDGE.articles))
def test_every_article_can_be_explained_in_every_format(name: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    article = KNOWLEDGE.articles[name]
    rules = [rule for rule in KNOWLEDGE.rules if rule.diagnosis == name]
    told = json.loads(article_json(article, rules))
    jsonschema.validate(told, json.loads((SCHEMAS / "explain-1.json").read_text()))
    titles = {one.id: one.title for one in KNOWLEDGE.articles.values()}
    for language in ("en", "zh"):
        printed = plain(article_lines(article, rules, titles, KNOWLEDGE.actions, language), 80)
        for reference in article.references:
            assert reference.url in printed
        assert all(rule.id in printed.replace("\n", " ") for rule in rules)
    markdown = lines_markdown(article_lines(article, rules, titles, KNOWLEDGE.actions))
    assert markdown.startswith("## ")


# --- proofs


@pytest.mark.parametrize("path", FIXTURES, ids=name_of)
def test_a_report_that_is_read_back_gives_the_same_diagnoses_and_their_proofs(path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    report = report_on(path)
    told = json.loads(json.dumps(report_object(report)))
    again = think(claims_of_report(told), KNOWLEDGE, "python")
    listed = [(one.id, one.subject, one.confidence) for one in report.diagnoses]
    assert [(one.id, one.subject, one.confidence) for one in again.diagnoses] == listed
    for one in again.diagnoses:
        proofs = prove(one.id, again.inference, again.facts, again.diagnoses, KNOWLEDGE)
        assert (one.subject, one.confidence) in [(proof.subject, proof.confidence) for proof in proofs]
        for proof in proofs:
            assert proof.firings
            for firing in proof.firings:
                assert firing.at.file
                assert firing.grounds
        shown = json.loads(proof_json(one.id, proofs))
        jsonschema.validate(shown, json.loads((SCHEMAS / "why-1.json").read_text()))
        for ground in leaves(shown["proofs"]):
            assert ground["kind"] == "absence" or ground["sources"] or ground["state"] in ("absent", "unknown"), ground
        assert plain(proof_lines(proofs), 80)
        assert lines_markdown(proof_lines(proofs, "zh"))


def leaves(nodes: list[dict]) -> list[dict]:
    """The grounds on which everything rests in the end."""
    found = []
    for node in nodes:
        below = node.get("supports") or node.get("met_by") or node.get("from")
        found += leaves(below) if below else [node]
    return found


def test_a_proof_names_the_table_with_its_day_and_what_was_not_concluded() -> None:
    report = diagnose_text(
        Request(hints=(("driver", "470.82.01"), ("torch", "2.5.1+cu124"), ("os", "linux")), engine="python"), KNOWLEDGE
    )
    thought = think(claims_of_report(report_object(report)), KNOWLEDGE, "python")
    proofs = prove("driver-too-old-for-cuda", thought.inference, thought.facts, thought.diagnoses, KNOWLEDGE)
    printed = " ".join(plain(proof_lines(proofs), 80).split())
    assert "torch.min_driver = 525.60.13" in printed
    assert "table driver_minimums" in printed
    assert re.search(r"20\d\d-\d\d-\d\d", printed)
    assert "rules/driver/driver-too-old-for-cuda.yaml:" in printed
    assert prove("nvjitlink-mismatch", thought.inference, thought.facts, thought.diagnoses, KNOWLEDGE) == ()


def test_everything_that_a_rule_concludes_can_be_asked_about() -> None:
    names = names_of(KNOWLEDGE)
    assert set(KNOWLEDGE.articles) <= set(names)
    assert {rule.concludes for rule in KNOWLEDGE.rules if rule.concludes} <= set(names)


# --- the command line

INSUFFICIENT = "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version\n"


def run(*arguments: str, text: str = "", **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "troubleshooter", *arguments], input=text, capture_output=True, text=True, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip


def test_why_goes_back_to_the_last_report(tmp_path: Path) -> None:
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    assert run("why", "driver-too-old-for-cuda", **state).returncode == 2
    run("log", text=INSUFFICIENT, **state)
    done = run("why", "driver-too-old-for-cuda", **state)
    assert done.returncode == 0
    assert "rules/driver/driver-too-old-for-cuda.yaml" in done.stdout
    assert json.loads(run("why", "driver-too-old-for-cuda", "--format", "json", **state).stdout)["concluded"] is True
    other = run("why", "nouveau-conflict", **state)
    assert other.returncode == 1
    assert "driver-too-old-for-cuda" in other.stdout
    kept = tmp_path / "state" / "troubleshooter" / "last-report.json"
    assert json.loads(kept.read_text())["schema"] == "troubleshooter.report/1"
    if os.name != "nt":
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700


def test_why_of_a_text_and_of_a_report_in_a_file(tmp_path: Path) -> None:
    log, report = tmp_path / "error.log", tmp_path / "report.json"
    log.write_text(INSUFFICIENT)
    report.write_text(run("log", str(log), "--format", "json").stdout)
    answers = [
        json.loads(run("why", "driver-too-old-for-cuda", *source, "--format", "json").stdout)
        for source in (["--log", str(log)], ["--report", str(report)])
    ]
    assert answers[0] == answers[1]


@pytest.mark.parametrize("state", ["/proc/nowhere", "/dev/null", "/etc/passwd/x"])
def test_a_home_that_cannot_be_written_is_no_matter(state: str) -> None:
    done = run("log", text=INSUFFICIENT, XDG_STATE_HOME=state)
    assert done.returncode == 1
    assert done.stderr == ""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere platformdirs is asked itself")
def test_the_state_folder_is_the_one_of_platformdirs(monkeypatch: pytest.MonkeyPatch) -> None:
    import platformdirs

    from troubleshooter.state import last_report_path

    for value in ("", "/somewhere/state"):
        monkeypatch.setenv("XDG_STATE_HOME", value)
        expected = platformdirs.user_state_dir("troubleshooter", appauthor=False)
        assert last_report_path() == os.path.join(expected, "last-report.json")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explain", "driver-too-old-for-cud"], "driver-too-old-for-cuda"),
        (["explain", "cuda-says-driver-is-insufficient"], "a rule of driver-too-old-for-cuda"),
        (["why", "nvjitlink-mismach"], "nvjitlink-mismatch"),
        (["why", "nvjitlink-mismatch", "--report", "/etc/hostname"], "/etc/hostname"),
        (["explain"], "ID"),
    ],
)
def test_a_name_that_nobody_knows_is_one_clear_line(arguments: list[str], said: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert said in done.stderr
    told = json.loads(run(*arguments, "--format", "json").stdout)
    assert told["schema"] == "troubleshooter.error/1"


def test_completion_knows_the_commands_or_says_what_it_needs() -> None:
    done = run("completion", "bash")
    if done.returncode:
        assert done.returncode == 2
        assert "shtab" in done.stderr
    else:
        assert "snapshot" in done.stdout

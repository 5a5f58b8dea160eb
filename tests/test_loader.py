"""Mistakes in rule and knowledge files: each is reported at its line and column, with a way out, all at once."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from troubleshooter.errors import KnowledgeError, Problem
from troubleshooter.knowledge import load

GOOD_RULE = """\
diagnosis: torch-cpu-build
rules:
  - id: acme-cpu-build
    because: "{torch.build} is installed"
    when:
      - {fact: torch.build, is: cpu}
    evidence: strong
    examples:
      fires: [{torch.build: cpu}]
      quiet: [{torch.build: cuda}]
"""


def problems_of(folder: Path) -> list[Problem]:
    with pytest.raises(KnowledgeError) as caught:
        load([folder])
    return list(caught.value.problems)


def rule_with(old: str, new: str) -> str:
    assert old in GOOD_RULE
    return GOOD_RULE.replace(old, new)


def test_a_good_rule_of_ones_own_is_loaded_with_its_origin(tmp_path: Path) -> None:
    (tmp_path / "acme.yaml").write_text(GOOD_RULE)
    knowledge = load([tmp_path])
    rule = next(rule for rule in knowledge.rules if rule.id == "acme-cpu-build")
    assert rule.pack == tmp_path.name
    assert rule.at.file == f"{tmp_path}/acme.yaml"
    assert rule.at.line == 3
    assert [pack.name for pack in knowledge.packs] == ["built-in", tmp_path.name]


@pytest.mark.parametrize(
    ("old", "new", "line", "column", "message", "hint"),
    [
        ("torch.build, is", "torch.biuld, is", 6, 9, "unknown fact 'torch.biuld'", "did you mean 'torch.build'?"),
        ("is: cpu", "is: cup", 6, 9, "'cup' is none of its values", "cpu"),
        ("is: cpu", "equals: cpu", 6, 29, "unknown key 'equals'", ""),
        ("evidence: strong", "evidence: stong", 3, 5, "unknown strength 'stong'", "did you mean 'strong'?"),
        ("torch-cpu-build", "torch-cpu-biuld", 3, 5, "unknown diagnosis 'torch-cpu-biuld'", "torch-cpu-build"),
        ("id: acme-cpu-build", "id: Acme CPU", 3, 5, "is no id", "lower-case words"),
        ("    because:", "    becuase:", 3, 5, "'because' is missing", ""),
        ("evidence: strong", "evidence: strong\n    evidence: weak", 8, 5, "stands here twice", "line 7"),
        ("evidence: strong", "note: x\n    evidence: strong", 3, 5, "exactly one of", ""),
        (
            "{fact: torch.build, is: cpu}",
            "{fact: torch.cuda, below: 12.10}",
            6,
            35,
            "reads as the number 12.1",
            '"12.10"',
        ),
        ("{fact: torch.build, is: cpu}", "{fact: torch.build, below: cpu}", 6, 9, "which has no order", ""),
        (
            "{fact: torch.build, is: cpu}",
            "{fact: torch.build, state: gone}",
            6,
            9,
            "'state' cannot be 'gone'",
            "absent",
        ),
        ("{fact: torch.build, is: cpu}", "{no: finding.nobody}", 6, 9, "unknown finding 'finding.nobody'", ""),
        ("{torch.build} is", "{torch.tag} is", 3, 5, "which no condition of the rule uses", ""),
        (
            "fires: [{torch.build: cpu}]",
            "fires: [{torch.bild: cpu}]",
            9,
            15,
            "unknown fact 'torch.bild'",
            "torch.build",
        ),
        ("is: cpu}", "is: cpu", 6, 0, "not valid YAML", ""),
        ("is: cpu", "is: !!python/object:os.system cpu", 6, 33, "is not allowed here", ""),
        ("{fact: torch.build, is: cpu}", "{fact: torch.version, matches: '(?=x)2.5'}", 6, 9, "look-around", ""),
    ],
)
def test_a_mistake_is_named_at_its_place(
    tmp_path: Path, old: str, new: str, line: int, column: int, message: str, hint: str
) -> None:
    (tmp_path / "acme.yaml").write_text(rule_with(old, new))
    found = [problem for problem in problems_of(tmp_path) if message in problem.message or message in str(problem)]
    assert found, [str(problem) for problem in problems_of(tmp_path)]
    assert found[0].at.file.endswith("acme.yaml")
    if column:
        assert (found[0].at.line, found[0].at.column) == (line, column)
    assert hint in str(found[0])


def test_all_mistakes_of_all_files_come_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(rule_with("is: cpu", "is: 3"))
    (tmp_path / "b.yaml").write_text("rules: [\n")
    (tmp_path / "c.yaml").write_text(rule_with("rules:", "rulez:"))
    files = {Path(problem.at.file).name for problem in problems_of(tmp_path)}
    assert {"b.yaml", "c.yaml"} <= files


def test_an_alias_is_refused_so_that_no_file_can_explode(tmp_path: Path) -> None:
    (tmp_path / "bomb.yaml").write_text("a: &a [x, x]\nb: &b [*a, *a]\nrules: [*b, *b]\n")
    assert any("alias" in problem.message for problem in problems_of(tmp_path))


def test_a_deeply_nested_file_is_an_error_and_no_crash(tmp_path: Path) -> None:
    (tmp_path / "deep.yaml").write_text("rules: " + "[" * 5000 + "]" * 5000 + "\n")
    assert problems_of(tmp_path)


def test_a_file_that_is_not_utf8_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "gbk.yaml").write_bytes(b"# one\n# \xc4\xe3\xba\xc3\nrules: []\n")
    problem = problems_of(tmp_path)[0]
    assert (problem.at.line, "UTF-8" in problem.message) == (2, True)


def test_a_cycle_through_absence_is_an_error_that_names_its_rules(tmp_path: Path) -> None:
    rule = "  - {{id: {0}, because: x, when: [{{no: finding.{1}}}], concludes: finding.{0}}}\n"
    (tmp_path / "cycle.yaml").write_text("rules:\n" + rule.format("one", "two") + rule.format("two", "one"))
    text = " ".join(str(problem) for problem in problems_of(tmp_path))
    assert "one" in text
    assert "two" in text


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "troubleshooter", *arguments], capture_output=True, text=True, check=False
    )


def test_rules_check_prints_every_mistake_and_exits_with_2(tmp_path: Path) -> None:
    (tmp_path / "acme.yaml").write_text(rule_with("torch.build, is", "torch.biuld, is"))
    done = run("rules", "check", "--rules", str(tmp_path))
    assert done.returncode == 2
    assert done.stdout == ""
    assert f"{tmp_path}/acme.yaml:6:9: unknown fact 'torch.biuld'; did you mean 'torch.build'?" in done.stderr


def test_rules_check_speaks_json(tmp_path: Path) -> None:
    (tmp_path / "acme.yaml").write_text(rule_with("torch.build, is", "torch.biuld, is"))
    done = run("rules", "check", "--rules", str(tmp_path), "--format", "json")
    assert done.returncode == 2
    answer = json.loads(done.stdout)
    assert answer["schema"] == "troubleshooter.error/1"
    assert 6 in [error["line"] for error in answer["errors"]]
    good = run("rules", "check", "--format", "json")
    assert good.returncode == 0
    assert json.loads(good.stdout)["errors"] == []


def test_a_folder_of_rules_that_is_not_there_is_an_error() -> None:
    done = run("rules", "check", "--rules", "/nowhere/at/all")
    assert done.returncode == 2
    assert "/nowhere/at/all" in done.stderr


def test_a_broken_rule_stops_a_diagnosis_with_2(tmp_path: Path) -> None:
    (tmp_path / "acme.yaml").write_text("rules: 7\n")
    done = run("log", "--rules", str(tmp_path), "/dev/null")
    assert done.returncode == 2
    assert "acme.yaml:1:" in done.stderr


@pytest.mark.parametrize("loader", ["CSafeLoader", "SafeLoader"])
def test_yaml_reads_alike_with_and_without_its_c_library(loader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import yaml

    from troubleshooter.knowledge.yaml_marks import Mapping, Scalar, read_yaml_text

    monkeypatch.setattr(yaml, "CSafeLoader", getattr(yaml, loader, yaml.SafeLoader), raising=False)
    node, problems = read_yaml_text('no: 12.10\nyes: "12.10"\n', "x.yaml")
    assert problems == []
    assert isinstance(node, Mapping)
    values = [node.entries[key] for key in ("no", "yes")]
    assert [(one.value, one.quoted) for one in values if isinstance(one, Scalar)] == [(12.1, False), ("12.10", True)]

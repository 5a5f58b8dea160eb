"""`rules test` and `rules mutate`: what fails is told with its reason, and changes that no example notices are found."""

import json
from pathlib import Path

import jsonschema
import pytest

from troubleshooter.cli import main
from troubleshooter.errors import KnowledgeError, UsageError
from troubleshooter.examples import fires, truths
from troubleshooter.knowledge import load
from troubleshooter.knowledge.sources import read_sources
from troubleshooter.model import Condition, Example, FactRef, Rule
from troubleshooter.mutants import mutants_of, mutate, step
from troubleshooter.rule_tests import chosen, fired_by, read_fixtures, try_out

ROOT = Path(__file__).parent.parent
SCHEMAS = ROOT / "docs" / "schema"
KNOWLEDGE = load(examples=True)
BASE = load()

PACK = """\
diagnosis: torch-cpu-build
rules:
  - id: acme-cpu-build
    because: "{torch.build} is installed"
    when:
      - {fact: torch.build, is: cpu}
      - {fact: torch.version, below: "2.5"}
      - {fact: driver.version, at_least: {fact: torch.min_driver}}
    evidence: strong
    examples:
      fires: [{torch.build: cpu, torch.version: "2.6.0", driver.version: "570.26"}]
      quiet: [{torch.build: cpu, torch.version: "2.4.0", driver.version: "570.26", torch.min_driver: "525.60.13"}]
"""


def everything(name: str) -> bool:
    return bool(name)


def pack(folder: Path, **files: str):
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_yaml", ".yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return read_sources(ROOT, [folder], BASE)


def test_an_example_that_does_not_fire_is_told_with_condition_fact_and_value(tmp_path: Path, capsys) -> None:
    knowledge = pack(tmp_path, rules__x_yaml=PACK)
    outcome = try_out(knowledge, (), chosen(knowledge, ["acme-cpu-build"]))
    silent, loud = outcome.failures
    assert (silent.kind, silent.id, silent.at.line) == ("rule", "acme-cpu-build", 11)
    assert [(one.condition.fact, one.state, one.found) for one in silent.near[0].missing] == [
        ("torch.version", "otherwise", "2.6.0"),
        ("driver.version", "otherwise", "570.26"),
    ]
    assert "must stay quiet" in loud.says
    assert loud.at.line == 12
    assert main(["rules", "test", "acme-cpu-build", "--rules", str(tmp_path)]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "lacks: torch.version below 2.5" in shown
    assert "it is 2.6.0" in shown
    assert "2 examples of rules, 0 lines of signatures, 0 fixtures: 2 failed." in shown


def test_a_line_that_a_signature_misses_is_told_with_what_matches_it_instead(tmp_path: Path) -> None:
    text = """\
source: acme
signatures:
  - id: acme-no-gpu
    pattern: "Found no NVIDIA device"
    printed_by: {program: acme, source: "https://example.org"}
    examples:
      matches: ["RuntimeError: No CUDA GPUs are available", "Found no NVIDIA device"]
      ignores: ["so Found no NVIDIA device here"]
"""
    knowledge = pack(tmp_path, knowledge_base__signatures__acme_yaml=text)
    missed, hit = try_out(knowledge, (), chosen(knowledge, ["acme-no-gpu"])).failures
    assert "does not match 'RuntimeError: No CUDA GPUs are available'" in missed.says
    assert "none of 'found no nvidia device' is in it" in missed.says
    assert "no-cuda-gpus-available" in missed.fired
    assert "matches 'Found no NVIDIA device' in the look-alike" in hit.says


def test_a_fixture_that_fails_names_what_the_wanted_rules_lack_and_what_fired_instead(tmp_path: Path) -> None:
    fixture = """\
origin: made
text: |
  RuntimeError: The NVIDIA driver on your system is too old (found version 11040).
expect: {verdict: healthy, first: torch-cpu-build, never: [driver-too-old-for-cuda]}
"""
    knowledge = pack(tmp_path, fixtures__torch_cpu_build__x_yaml=fixture, rules__x_yaml=PACK)
    folder = (tmp_path / "fixtures" / "torch_cpu_build").rename(tmp_path / "fixtures" / "torch-cpu-build")
    fixtures = list(read_fixtures(tmp_path / "fixtures", "acme"))
    assert [one.folder for one in fixtures] == [folder.name]
    outcome = try_out(knowledge, fixtures, lambda name: name == "torch-cpu-build/x")
    (failure,) = outcome.failures
    assert failure.at.file == "acme/fixtures/torch-cpu-build/x.yaml"
    assert "the verdict is problem and not healthy" in failure.says
    assert "driver-too-old-for-cuda comes first and not torch-cpu-build" in failure.says
    assert "driver-too-old-for-cuda must not be named" in failure.says
    assert {near.rule.diagnosis for near in failure.near} == {"torch-cpu-build"}
    assert "torch-says-driver-is-too-old" in failure.fired


def test_a_fixture_of_the_healthy_that_is_accused_fails(tmp_path: Path) -> None:
    text = "text: 'RuntimeError: The NVIDIA driver on your system is too old (found version 11040).'\nexpect: {verdict: problem}\n"
    knowledge = pack(tmp_path, fixtures__healthy__x_yaml=text, rules__x_yaml=PACK)
    (failure,) = try_out(knowledge, read_fixtures(tmp_path / "fixtures"), lambda name: name == "healthy").failures
    assert "driver-too-old-for-cuda is named on a case in which nothing is wrong" in failure.says


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("expect: {verdict: problem}\n", "a fixture has a text"),
        ("text: x\n", "'expect' needs a verdict"),
        ("text: x\nexpect: {verdict: bad}\n", "'expect' needs a verdict"),
        ("txt: x\nset: {a: b}\nexpect: {verdict: problem}\n", "unknown key 'txt'"),
        ("text: x\nexpect: {verdict: problem, frist: y}\n", "unknown key 'frist'"),
        ("text: x\nrecording: y\nexpect: {verdict: problem}\n", "'recording' is a mapping"),
        ("- text\n", "a fixture is a mapping"),
        ("text: &a x\nabout: *a\n", "alias"),
    ],
)
def test_a_fixture_that_is_none_is_told_with_its_place(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(KnowledgeError) as caught:
        list(read_fixtures(tmp_path, "acme"))
    assert any(says in problem.message for problem in caught.value.problems), caught.value.problems
    assert all(problem.at.file == "acme/fixtures/x.yaml" for problem in caught.value.problems)


def test_every_fixture_of_ours_is_read_as_yaml_reads_it() -> None:
    import yaml

    read = {one.name: one for one in read_fixtures(ROOT / "fixtures")}
    assert len(read) > 400
    for name in list(read)[::25]:
        told = yaml.safe_load((ROOT / "fixtures" / f"{name}.yaml").read_text(encoding="utf-8"))
        assert told.get("text") == read[name].text
        assert told.get("recording") == read[name].recording
        assert told["expect"] == read[name].expect


def test_one_diagnosis_is_tried_alone_and_its_results_fit_the_schema(capsys) -> None:
    assert main(["rules", "test", "driver-too-old-for-cuda", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    jsonschema.validate(told, json.loads((SCHEMAS / "rules-test-1.json").read_text()))
    assert told["failures"] == []
    assert told["examples"] > 20
    assert told["fixtures"] > 3


def test_rules_that_no_fixture_fires_are_counted() -> None:
    fixtures = [one for one in read_fixtures(ROOT / "fixtures") if one.folder == "driver-too-old-for-cuda"]
    counts = fired_by(BASE, fixtures)
    assert set(counts) == {one.id for one in BASE.rules}
    assert 1 <= counts["torch-says-driver-is-too-old"] <= len(fixtures)
    assert counts["cpu-build-where-the-driver-lists-gpus"] == 0


def test_what_nobody_is_called_cannot_be_tried() -> None:
    with pytest.raises(UsageError, match="driver-too-old-for-cuda"):
        chosen(KNOWLEDGE, ["driver-too-old-for-cude"])


def test_truths_without_an_engine_are_those_of_the_engine() -> None:
    for rule in KNOWLEDGE.rules:
        for example in (*rule.fires, *rule.quiet):
            met = all(truth is True for truth in truths(rule.when, example, KNOWLEDGE.facts))
            assert met is fires(rule, example, KNOWLEDGE.rules, KNOWLEDGE.facts), (rule.id, example)


# --- mutants


def rule(*when: Condition, fires=(), quiet=()) -> Rule:
    examples = [tuple(Example(tuple(one.items())) for one in side) for side in (fires, quiet)]
    return Rule("x", when, "", diagnosis="d", evidence="weak", fires=examples[0], quiet=examples[1])


def survivors(one: Rule) -> list[tuple[str, str]]:
    return [(mutant.kind, mutant.rule.when[mutant.place].fact) for mutant in mutate([one], KNOWLEDGE.facts).survivors]


CPU, OLD = Condition("torch.build", "is", "cpu"), Condition("torch.version", "below", "2.5")


def test_a_condition_that_no_quiet_example_needs_is_found() -> None:
    fires = [{"torch.build": "cpu", "torch.version": "2.4"}]
    quiet = [{"torch.build": "cuda", "torch.version": "2.4"}, {"torch.build": "cpu", "torch.version": "2.5"}]
    assert survivors(rule(CPU, OLD, fires=fires, quiet=quiet)) == []
    assert survivors(rule(CPU, OLD, fires=fires, quiet=quiet[1:])) == [("dropped", "torch.build")]
    assert ("dropped", "torch.version") in survivors(rule(CPU, OLD, fires=fires, quiet=quiet[:1]))


@pytest.mark.parametrize(
    ("op", "inside", "outside"),
    [("below", "2.4", "2.5"), ("at_most", "2.5", "2.6"), ("above", "2.6", "2.5"), ("at_least", "2.5", "2.4")],
)
def test_a_bound_is_held_by_the_two_values_beside_it_alone(op: str, inside: str, outside: str) -> None:
    condition = OLD._replace(op=op)
    far_in, far_out = ("1.0", "9.0") if op in ("below", "at_most") else ("9.0", "1.0")
    beside = rule(condition, fires=[{"torch.version": inside}], quiet=[{"torch.version": outside}])
    assert survivors(beside) == []
    far = rule(condition, fires=[{"torch.version": far_in}], quiet=[{"torch.version": far_out}])
    assert {kind for kind, _ in survivors(far)} == {"edge", "moved-up", "moved-down"}


def test_a_bound_that_is_another_fact_is_held_by_equal_values() -> None:
    condition = Condition("driver.version", "below", FactRef("torch.min_driver"))
    fires = [{"driver.version": "470.82.01", "torch.min_driver": "525.60.13"}]
    far = [{"driver.version": "570.26", "torch.min_driver": "525.60.13"}]
    equal = [{"driver.version": "525.60.13", "torch.min_driver": "525.60.13"}]
    assert survivors(rule(condition, fires=fires, quiet=far)) == [("edge", "driver.version")]
    assert survivors(rule(condition, fires=fires, quiet=equal)) == []


def test_each_of_several_values_needs_an_example() -> None:
    condition = Condition("torch.build", "one_of", ("cpu", "rocm"))
    one = rule(condition, fires=[{"torch.build": "cpu"}], quiet=[{"torch.build": "cuda"}])
    assert survivors(one) == [("value-dropped", "torch.build")]
    both = rule(condition, fires=[{"torch.build": "cpu"}, {"torch.build": "rocm"}], quiet=[{"torch.build": "cuda"}])
    assert survivors(both) == []


def test_a_rule_without_examples_lets_every_change_pass() -> None:
    bare = rule(CPU, OLD)
    assert len(survivors(bare)) == len(list(mutants_of(bare)))


@pytest.mark.parametrize(
    ("version", "by", "moved"),
    [
        ("12.1", 1, "12.2"),
        ("12.1", -1, "12.0"),
        ("2.0", 1, "3.0"),
        ("2.0", -1, "1.0"),
        ("525.60.13", -1, "525.60.12"),
        ("470.82.01", 1, "470.82.02"),
        ("0.0", 1, ""),
    ],
)
def test_a_step_of_a_version(version: str, by: int, moved: str) -> None:
    assert step(version, by) == moved


def test_nine_in_ten_changes_of_our_rules_are_noticed_by_an_example() -> None:
    score = mutate(KNOWLEDGE.rules, KNOWLEDGE.facts)
    assert score.mutants > 3000
    caught, left = score.caught, [f"{one.rule.id}: {one.change}" for one in score.survivors[:20]]
    assert caught >= 0.9, left
    # Turning a condition round is noticed by any example that fires: the rest has to hold without that.
    of_weight = score.mutants - sum(mutant.kind == "negated" for one in KNOWLEDGE.rules for mutant in mutants_of(one))
    caught = 1 - len(score.survivors) / of_weight
    assert caught >= 0.9, left


def test_mutants_are_told_with_their_place(tmp_path: Path, capsys) -> None:
    (tmp_path / "x.yaml").write_text(PACK)
    assert main(["rules", "mutate", "acme-cpu-build", "--rules", str(tmp_path), "--format", "json"]) == 1
    told = json.loads(capsys.readouterr().out)
    jsonschema.validate(told, json.loads((SCHEMAS / "rules-mutate-1.json").read_text()))
    assert {"dropped", "edge"} <= {one["kind"] for one in told["survivors"]}
    assert {one["line"] for one in told["survivors"]} == {6, 7, 8}

"""The schemas for editors: all our files fit them, and what does not load mostly does not."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from troubleshooter.cli import main
from troubleshooter.knowledge import load
from troubleshooter.knowledge.schema import KINDS, schema

ROOT = Path(__file__).parent.parent
KNOWLEDGE = load()
FOLDERS = {
    "rules": ROOT / "rules",
    "article": ROOT / "knowledge_base" / "diagnoses",
    "signatures": ROOT / "knowledge_base" / "signatures",
    "table": ROOT / "knowledge_base" / "tables",
    "action": ROOT / "knowledge_base" / "actions",
    "fixture": ROOT / "fixtures",
}
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def validator(kind: str) -> jsonschema.Draft202012Validator:
    made = schema(kind, KNOWLEDGE)
    jsonschema.Draft202012Validator.check_schema(made)
    return jsonschema.Draft202012Validator(made)


@pytest.mark.parametrize("kind", KINDS)
def test_our_own_files_fit_the_schema(kind: str) -> None:
    check = validator(kind)
    paths = sorted(FOLDERS[kind].rglob("*.yaml"))
    paths = paths[::4] if kind in ("fixture", "rules") else paths
    assert paths
    for path in paths:
        told = yaml.load(path.read_text(encoding="utf-8"), LOADER)
        wrong = [f"{path.name} {list(one.absolute_path)}: {one.message[:200]}" for one in check.iter_errors(told)]
        assert wrong == []


GOOD = {
    "diagnosis": "torch-cpu-build",
    "rules": [
        {
            "id": "acme-x",
            "because": "x",
            "when": [{"fact": "torch.build", "is": "cpu"}],
            "evidence": "strong",
            "examples": {"fires": [{"torch.build": "cpu"}], "quiet": [{"torch.build": "cuda"}]},
        }
    ],
}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("id", "Acme X"),
        ("when", []),
        ("when", [{"fact": "torch.biuld", "is": "cpu"}]),
        ("when", [{"fact": "torch.build"}]),
        ("when", [{"fact": "torch.build", "is": "cpu", "is_not": "cuda"}]),
        ("when", [{"fact": "torch.build", "equals": "cpu"}]),
        ("when", [{"no": "torch.build"}]),
        ("when", [{"fact": "torch.version", "below": 2.5}]),
        ("evidence", "stong"),
        ("note", "x"),
        ("examples", {"fires": []}),
    ],
)
def test_a_mistake_in_a_rule_does_not_fit(key: str, value: object) -> None:
    check = validator("rules")
    assert check.is_valid(GOOD)
    assert not check.is_valid({**GOOD, "rules": [{**GOOD["rules"][0], key: value}]})


def test_the_schema_is_printed(capsys) -> None:
    assert main(["rules", "schema", "rules"]) == 0
    told = json.loads(capsys.readouterr().out)
    facts = {one.get("const"): one.get("description") for one in told["$defs"]["fact"]["anyOf"]}
    assert facts["driver.version"]
    assert main(["rules", "schema", "poem"]) == 2
    with pytest.raises(KeyError):
        schema("poem", KNOWLEDGE)

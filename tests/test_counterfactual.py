"""`why-not` and `what-if`: the nearest rules with all that they lack, and what a changed fact changes."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from test_report import FIXTURES, KNOWLEDGE, name_of, report_on

from troubleshooter.counterfactual import Changed, changes, why_not
from troubleshooter.model import Request, Source, present
from troubleshooter.paste.hints import read_hints
from troubleshooter.pipeline import check, diagnose_text, think
from troubleshooter.recording import RecordedMachine
from troubleshooter.report.explain import why_not_lines
from troubleshooter.report.json_report import claims_of_report, report_object, what_if_json, why_not_json

SCHEMAS = Path(__file__).parent.parent / "docs" / "schema"
HINTS = (("driver", "470.82.01"), ("torch", "2.5.1+cu124"), ("gpu", "RTX 3090"))
SOURCE = Source("probe", "file", "a test")


def stated(**facts: object) -> list:
    return [present(name.replace("__", "."), value, SOURCE) for name, value in facts.items()]


def test_the_nearest_rule_names_the_fact_that_differs_and_what_it_is_compared_with() -> None:
    thought = think(stated(os__family="linux", torch__cuda="12.4", driver__version="570.26"), KNOWLEDGE, "python")
    near = why_not("driver-too-old-for-cuda", thought.facts, thought.inference.conclusions, KNOWLEDGE)
    one = next(one for one in near if one.rule.id == "driver-below-minimum-of-torch")
    (lack,) = one.missing
    assert (lack.condition.fact, lack.state, lack.found, lack.wanted) == (
        "driver.version", "otherwise", "570.26", "525.60.13",
    )  # fmt: skip


def test_a_fact_that_nobody_stated_is_unknown_and_said_how_to_find_out() -> None:
    thought = think(stated(os__family="linux", torch__cuda="12.4"), KNOWLEDGE, "python")
    near = why_not("driver-too-old-for-cuda", thought.facts, thought.inference.conclusions, KNOWLEDGE)
    one = next(one for one in near if one.rule.id == "driver-below-minimum-of-torch")
    assert [(lack.condition.fact, lack.state) for lack in one.missing] == [("driver.version", "unknown")]
    shown = "\n".join(line.text for line in why_not_lines([one], KNOWLEDGE))
    assert "nvidia-smi" in shown


def test_a_rule_that_fired_is_not_among_those_that_did_not() -> None:
    thought = think(stated(os__family="linux", torch__cuda="12.4", driver__version="470.82"), KNOWLEDGE, "python")
    near = why_not("driver-too-old-for-cuda", thought.facts, thought.inference.conclusions, KNOWLEDGE, 100)
    assert near
    assert all(one.missing for one in near)
    assert "driver-below-minimum-of-torch" not in {one.rule.id for one in near}


@pytest.mark.parametrize("path", FIXTURES, ids=name_of)
def test_what_if_gives_what_a_run_with_that_fact_gives(path: Path) -> None:
    import yaml

    fixture = yaml.load(path.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    own = tuple((str(name), str(value)) for name, value in fixture.get("set", {}).items())
    texts = (("error.log", fixture["text"].encode()),) if "text" in fixture else ()
    request = Request(texts=texts, hints=(*own, *HINTS), engine="python")
    if "recording" in fixture:
        run = check(request, KNOWLEDGE, RecordedMachine(fixture["recording"], "machine.json"))
    else:
        run = diagnose_text(request, KNOWLEDGE)
    claims = tuple(claims_of_report(json.loads(json.dumps(report_object(report_on(path))))))
    after = think((*claims, *read_hints(HINTS, KNOWLEDGE.facts)[0]), KNOWLEDGE, "python")
    assert changes(run.diagnoses, after.diagnoses) == ()


def test_changes_name_what_came_what_went_and_what_moved() -> None:
    low = think(stated(os__family="linux", torch__cuda="12.4", driver__version="470.82"), KNOWLEDGE, "python")
    high = think(stated(os__family="linux", torch__cuda="12.4", driver__version="570.26"), KNOWLEDGE, "python")
    (gone,) = (one for one in changes(low.diagnoses, high.diagnoses) if one.id == "driver-too-old-for-cuda")
    assert (gone.before or 0) > 0.9
    assert gone.after is None
    assert changes(low.diagnoses, low.diagnoses) == ()


def test_the_json_of_both_keeps_its_contract() -> None:
    thought = think(stated(torch__build="cuda"), KNOWLEDGE, "python")
    near = why_not("driver-too-old-for-cuda", thought.facts, thought.inference.conclusions, KNOWLEDGE)
    for name, text in (
        ("why-not-1", why_not_json("driver-too-old-for-cuda", False, near)),
        ("what-if-1", what_if_json([Changed("torch-cpu-build", "host", None, 0.5)], ("healthy", "problem"))),
    ):
        jsonschema.validate(json.loads(text), json.loads((SCHEMAS / f"{name}.json").read_text()))


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["why-not", "driver-too-old-for-cuda"], 0, "The rules that come nearest"),
        (["why-not", "driver-too-old-for-cud"], 2, "driver-too-old-for-cuda"),
        (["what-if", "torch=2.5.1+cpu"], 0, "torch-cpu-build"),
        (["what-if", "nonsense=1"], 2, "not understood"),
        (["what-if", "nonsense"], 2, "has no value"),
    ],
)
def test_both_work_on_a_text(arguments: list[str], code: int, words: str, tmp_path: Path) -> None:
    log = tmp_path / "error.log"
    log.write_text("AssertionError: Torch not compiled with CUDA enabled\n")
    done = subprocess.run(
        [sys.executable, "-m", "troubleshooter", *arguments, "--log", str(log), "--lang", "en"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == code, done.stderr
    assert words in done.stdout + done.stderr

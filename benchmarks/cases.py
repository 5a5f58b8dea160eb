"""How well texts are diagnosed: rates over a file of cases, with the stated facts and with the text alone.

    python benchmarks/cases.py CASES.yaml [--failures]

A case has `input`, `os`, `facts`, `cause`, `also` and `id`. Printed are accepted and strict hits at rank 1, hits in the top 3,
false alarms, and calibration (ECE over ten bins, Brier score) of the first diagnosis and of all listed ones; the mean confidence
of the first where the text bears several readings and where it does not; and what is lost without rules (the signatures that hit
vote for the diagnoses whose rules name them, the base rate decides) and without chaining (no rule that asks for a finding).
"""

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import yaml

from troubleshooter.knowledge import load
from troubleshooter.model import Knowledge, Report, Request
from troubleshooter.pipeline import diagnose_text

Told = list[tuple[str, float]]


class Answer(NamedTuple):
    case: dict
    told: Told
    verdict: str

    @property
    def first(self) -> str:
        return self.told[0][0] if self.told else "none"

    @property
    def confidence(self) -> float:
        return self.told[0][1] if self.told else 0.0

    @property
    def accepted(self) -> bool:
        return self.first in self.wanted or ("none" in self.wanted and self.confidence < 0.5)

    @property
    def wanted(self) -> set[str]:
        return {self.case["cause"], *(self.case.get("also") or [])}


def report_on(case: dict, knowledge: Knowledge, with_facts: bool) -> Report:
    hints = []
    if with_facts:
        if case["os"] != "unknown":
            hints.append(("os", case["os"]))
        hints += [(name, str(value)) for name, value in (case.get("facts") or {}).items()]
    return diagnose_text(Request(texts=(("-", case["input"].encode()),), hints=tuple(hints)), knowledge)


def full(knowledge: Knowledge) -> Callable[[dict, bool], Answer]:
    def answer(case: dict, with_facts: bool) -> Answer:
        report = report_on(case, knowledge, with_facts)
        return Answer(case, [(one.id, one.confidence) for one in report.diagnoses], report.verdict)

    return answer


def signatures_alone(knowledge: Knowledge) -> Callable[[dict, bool], Answer]:
    """Every signature that hits votes for the diagnoses of which a rule names it; then the base rate decides."""
    votes: dict[str, set[str]] = {}
    for rule in knowledge.rules:
        for condition in rule.when:
            if rule.diagnosis and condition.fact.startswith("log.") and not rule.evidence.endswith("against"):
                votes.setdefault(condition.fact, set()).add(rule.diagnosis)
    bare = knowledge._replace(rules=())

    def answer(case: dict, with_facts: bool) -> Answer:
        report = report_on(case, bare, with_facts)
        count: dict[str, int] = {}
        for fact in report.facts:
            for diagnosis in votes.get(fact.name, ()):
                count[diagnosis] = count.get(diagnosis, 0) + 1
        rates = knowledge.strengths.base_rates
        order = sorted(count, key=lambda one: (-count[one], -rates[knowledge.articles[one].base_rate], one))
        return Answer(case, [(one, 0.5) for one in order], "")

    return answer


def accepted_rate(answers: Iterable[Answer]) -> float:
    faults = [one for one in answers if one.case["cause"] != "none"]
    return sum(one.accepted for one in faults) / len(faults)


def print_rates(title: str, answers: list[Answer], failures: bool) -> None:
    faults = [one for one in answers if one.case["cause"] != "none"]
    negatives = [one for one in answers if one.case["cause"] == "none"]
    alarms = [one for one in negatives if one.confidence >= 0.5]
    count = len(faults)
    hits = [one for one in faults if one.accepted]
    first = [(one.confidence, one.accepted) for one in faults if one.told]
    listed = [(confidence, name in one.wanted) for one in faults for name, confidence in one.told]
    several = [one.confidence for one in faults if one.case.get("also")]
    single = [one.confidence for one in faults if not one.case.get("also")]
    print(
        f"{title}: accepted {len(hits) / count:.1%}, strict {sum(o.first == o.case['cause'] for o in faults) / count:.1%}, "
        f"top 3 {sum(o.case['cause'] in [name for name, _ in o.told[:3]] for o in faults) / count:.1%} of {count}"
    )
    healthy = sum(one.verdict == "healthy" for one in negatives)
    print(f"  false alarms {len(alarms)}, healthy {healthy} of {len(negatives)}")
    print(
        f"  first: ECE {ece(first):.3f}, Brier {brier(first):.3f}; all listed: ECE {ece(listed):.3f}, Brier {brier(listed):.3f}; "
        f"hits at 0.5 or more {sum(o.confidence >= 0.5 for o in hits) / max(1, len(hits)):.1%}"
    )
    print(f"  mean first confidence: one reading {mean(single):.3f}, several readings {mean(several):.3f}")
    for one in faults if failures else ():
        if not one.accepted:
            shown = [(name, round(confidence, 2)) for name, confidence in one.told[:4]]
            print(f"  {one.case['id']} wants {one.case['cause']}: {shown}")
    for one in alarms if failures else ():
        print(f"  {one.case['id']} false alarm: {one.told[:3]}")


def mean(values: list[float]) -> float:
    return sum(values) / max(1, len(values))


def brier(sure: list[tuple[float, bool]]) -> float:
    return mean([(confidence - hit) ** 2 for confidence, hit in sure])


def ece(sure: list[tuple[float, bool]]) -> float:
    """Expected calibration error over ten bins of confidence."""
    bins: dict[int, list[tuple[float, bool]]] = {}
    for confidence, hit in sure:
        bins.setdefault(min(9, int(confidence * 10)), []).append((confidence, hit))
    return sum(
        abs(mean([c for c, _ in one]) - mean([float(h) for _, h in one])) * len(one) / len(sure)
        for one in bins.values()
    )


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("cases", type=Path)
    arguments.add_argument("--failures", action="store_true")
    options = arguments.parse_args()
    cases = yaml.load(options.cases.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    knowledge = load()
    chainless = knowledge._replace(
        rules=tuple(rule for rule in knowledge.rules if not any(one.fact.startswith("finding.") for one in rule.when))
    )
    for with_facts, title in ((True, "with facts"), (False, "text alone")):
        print_rates(title, [full(knowledge)(case, with_facts) for case in cases], options.failures)
        without = accepted_rate(signatures_alone(knowledge)(case, with_facts) for case in cases)
        flat = accepted_rate(full(chainless)(case, with_facts) for case in cases)
        print(f"  accepted without rules {without:.1%}, without chaining {flat:.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""How well texts are diagnosed: rates over a file of cases, with the stated facts and with the text alone.

    python benchmarks/cases.py CASES.yaml [--failures]

A case has `input`, `os`, `facts`, `cause`, `also` and `id`. Printed are accepted and strict hits at rank 1, hits in the top 3,
false alarms, and the calibration (ECE over ten bins, Brier score) of the first diagnosis.
"""

import argparse
import sys
from pathlib import Path

import yaml

from troubleshooter.knowledge import load
from troubleshooter.model import Report, Request
from troubleshooter.pipeline import diagnose_text


def diagnose(case: dict, knowledge, with_facts: bool) -> Report:
    hints = []
    if with_facts:
        if case["os"] != "unknown":
            hints.append(("os", case["os"]))
        hints += [(name, str(value)) for name, value in (case.get("facts") or {}).items()]
    return diagnose_text(Request(texts=(("-", case["input"].encode()),), hints=tuple(hints)), knowledge)


def score(cases: list[dict], knowledge, with_facts: bool, failures: bool) -> None:
    faults = [case for case in cases if case["cause"] != "none"]
    accepted = strict = top3 = alarms = healthy = 0
    sure: list[tuple[float, bool]] = []
    for case in cases:
        report = diagnose(case, knowledge, with_facts)
        told = [(one.id, one.confidence) for one in report.diagnoses]
        first, confidence = told[0] if told else ("none", 0.0)
        wanted = {case["cause"], *(case.get("also") or [])}
        if case["cause"] == "none":
            wrong = [one for one in told if one[1] >= 0.5]
            alarms += bool(wrong)
            healthy += report.verdict == "healthy"
            if wrong and failures:
                print(f"  {case['id']} false alarm {wrong}")
            continue
        hit = first in wanted or ("none" in wanted and confidence < 0.5)
        accepted += hit
        strict += first == case["cause"]
        top3 += case["cause"] in [name for name, _ in told[:3]]
        if told:
            sure.append((confidence, hit))
        if not hit and failures:
            print(f"  {case['id']} wants {case['cause']}: {[(name, round(c, 2)) for name, c in told[:4]]}")
    count, negatives = len(faults), len(cases) - len(faults)
    brier = sum((confidence - hit) ** 2 for confidence, hit in sure) / max(1, len(sure))
    print(
        f"{'with facts' if with_facts else 'text alone'}: accepted {accepted / count:.1%}, strict {strict / count:.1%}, "
        f"top 3 {top3 / count:.1%} of {count}; false alarms {alarms}, healthy {healthy} of {negatives}; "
        f"ECE {calibration(sure):.3f}, Brier {brier:.3f}"
    )


def calibration(sure: list[tuple[float, bool]]) -> float:
    """Expected calibration error over ten bins of confidence."""
    bins: dict[int, list[tuple[float, bool]]] = {}
    for confidence, hit in sure:
        bins.setdefault(min(9, int(confidence * 10)), []).append((confidence, hit))
    return sum(
        abs(sum(c for c, _ in one) / len(one) - sum(h for _, h in one) / len(one)) * len(one) / len(sure)
        for one in bins.values()
    )


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("cases", type=Path)
    arguments.add_argument("--failures", action="store_true")
    options = arguments.parse_args()
    cases = yaml.load(options.cases.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    knowledge = load()
    for with_facts in (True, False):
        score(cases, knowledge, with_facts, options.failures)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The one table of what a condition says: operator by operator, for every state of its operands, on both engines."""

import pytest
from oracle import durable_missing

from troubleshooter.engine import infer
from troubleshooter.errors import KnowledgeError
from troubleshooter.model import Condition, Fact, FactRef, FactSpec, Rule, Source

YES, NO, OPEN = "holds", "does not hold", "undecided"
ABSENT, UNKNOWN, UNSTATED = object(), object(), object()
SOURCE = Source("probe", "set")
LONG = "x" * 70_000

ENGINES = [
    "python",
    pytest.param("durable", marks=pytest.mark.skipif(bool(durable_missing()), reason=durable_missing())),
]

# type, value of the fact, operator, operand (in a list: the value of another fact), what follows
TABLE = [
    ("text", "cuda", "is", "cuda", YES),
    ("text", "cuda", "is", "cpu", NO),
    ("text", "cuda", "is", "CUDA", NO),
    ("text", "cuda", "is_not", "cpu", YES),
    ("text", "cuda", "is_not", "cuda", NO),
    ("text", "cuda", "one_of", ("cpu", "cuda"), YES),
    ("text", "cuda", "one_of", ("cpu", "rocm"), NO),
    ("text", "cuda", "one_of", (), NO),
    ("text", "libcudart.so.12", "matches", r"\.so\.\d+$", YES),
    ("text", "libcudart.so", "matches", r"\.so\.\d+$", NO),
    ("text", LONG + "end", "matches", "end", NO),
    ("text", "end" + LONG, "matches", "^end", YES),
    ("text", "a'b\"c\nd\x1b[0m\0ü", "is", "a'b\"c\nd\x1b[0m\0ü", YES),
    ("text", "cuda", "is", ["cuda"], YES),
    ("text", "cuda", "is", ["cpu"], NO),
    ("text", "10", "is", 10, OPEN),
    ("text", "b", "above", "a", OPEN),
    ("text", "cuda", "has", "c", OPEN),
    ("text", "cuda", "matches", "(", "refused"),
    ("text", "cuda", "matches", ["cuda"], "refused"),
    ("number", 2, "is", 2.0, YES),
    ("number", 2, "is", 3, NO),
    ("number", 2, "is_not", 3, YES),
    ("number", 2, "one_of", ("1", "2"), YES),
    ("number", 2, "one_of", ("1", "3"), NO),
    ("number", 2, "below", 3, YES),
    ("number", 3, "below", 3, NO),
    ("number", 3, "at_most", 3, YES),
    ("number", 4, "at_most", 3, NO),
    ("number", 4, "above", 3, YES),
    ("number", 3, "above", 3, NO),
    ("number", 3, "at_least", 3, YES),
    ("number", 1e20, "at_least", 3, YES),
    ("number", float("inf"), "above", 1e300, YES),
    ("number", float("nan"), "is", 3, OPEN),
    ("number", float("nan"), "is_not", 3, OPEN),
    ("number", float("nan"), "below", 3, OPEN),
    ("number", 10**40, "above", 10**39, YES),
    ("number", 2, "at_least", [2], YES),
    ("number", 2, "below", "3", OPEN),
    ("number", True, "is", 1, OPEN),
    ("number", 2, "matches", "2", OPEN),
    ("flag", True, "is", True, YES),
    ("flag", True, "is", False, NO),
    ("flag", False, "is", False, YES),
    ("flag", True, "is_not", False, YES),
    ("flag", True, "is", 1, OPEN),
    ("flag", True, "above", False, OPEN),
    ("version", "470.82.01", "below", "525.60.13", YES),
    ("version", "570.26", "below", "525.60.13", NO),
    ("version", "9.0", "below", "12.1", YES),
    ("version", "12.10", "above", "12.9", YES),
    ("version", "12.0", "is", "12", YES),
    ("version", "525.60.03", "is", "525.60.3", YES),
    ("version", "12.1", "is", "12.10", NO),
    ("version", "2.5.1+cu124", "is", "2.5.1", YES),
    ("version", "2.5.1", "is_not", "2.5.1+cpu", NO),
    ("version", "2.9.0a0+git1", "below", "2.9.0", YES),
    ("version", "12.1", "one_of", ("11.8", "12.1.0"), YES),
    ("version", "12.4", "one_of", ("11.8", "12.1.0"), NO),
    ("version", "12.4", "one_of", ("11.8", "nightly"), OPEN),
    ("version", "12.4", "at_least", ["12.4.0"], YES),
    ("version", "12.3", "at_least", ["12.4"], NO),
    ("version", "nightly", "below", "12.1", OPEN),
    ("version", "12.1", "below", "nightly", OPEN),
    ("version", "12.1", "below", ["nightly"], OPEN),
    ("version", "nightly", "is", "nightly", YES),
    ("version", "nightly", "is", "12.1", OPEN),
    ("version", "nightly", "is_not", "12.1", OPEN),
    ("version", "12.1", "matches", "^12", YES),
    ("version", "12.1", "is", 12.1, OPEN),
    ("texts", ("sm_75", "sm_90"), "has", "sm_90", YES),
    ("texts", ("sm_75", "sm_90"), "has", "sm_9", NO),
    ("texts", (), "has", "sm_90", NO),
    ("texts", ("sm_90",), "has", ["sm_90"], YES),
    ("texts", ("sm_90",), "has", ["sm_80"], NO),
    ("texts", ("a", "b"), "is", ("a", "b"), YES),
    ("texts", ("a", "b"), "is", ("b", "a"), NO),
    ("texts", ("a",), "has", ("a",), OPEN),
    ("versions", ("2.5.1+cu124", "2.4"), "has", "2.5.1", YES),
    ("versions", ("2.5", "2.4"), "has", "2.6", NO),
    ("versions", ("2.5", "main"), "has", "2.6", OPEN),
    ("versions", ("2.5", "2.4"), "is", ("2.5.0", "2.4.0"), YES),
    ("versions", ("2.5", "2.4"), "is_not", ("2.5",), YES),
    ("text", "cuda", "state", "present", YES),
    ("text", "cuda", "state", "absent", NO),
    ("text", "cuda", "state", "unknown", NO),
    ("text", ABSENT, "state", "present", NO),
    ("text", ABSENT, "state", "absent", YES),
    ("text", ABSENT, "state", "unknown", NO),
    ("text", "cuda", "no", None, "refused"),
    ("text", "cuda", "like", "cuda", "refused"),
]
for nothing in (UNKNOWN, UNSTATED):
    TABLE += [
        ("text", nothing, "state", "present", OPEN),
        ("text", nothing, "state", "absent", OPEN),
        ("text", nothing, "state", "unknown", YES),
    ]
for nothing in (ABSENT, UNKNOWN, UNSTATED):
    for type_, value, operator, operand in [
        ("text", "a", "is", "a"),
        ("text", "a", "is_not", "a"),
        ("text", "a", "one_of", ("a",)),
        ("text", "a", "matches", "a"),
        ("number", 1, "below", 2),
        ("version", "1", "at_least", "1"),
        ("flag", True, "is", False),
        ("texts", ("a",), "has", "b"),
    ]:
        TABLE.append((type_, nothing, operator, operand, OPEN))
        if operator not in {"one_of", "matches"}:
            TABLE.append((type_, value, operator, [nothing], OPEN))


def _fact(name: str, value: object, subject: str = "host") -> list[Fact]:
    if value is UNSTATED:
        return []
    if value is ABSENT or value is UNKNOWN:
        return [Fact(name, subject, "absent" if value is ABSENT else "unknown", None, SOURCE)]
    return [Fact(name, subject, "present", value, SOURCE)]


def _verdict(inference):
    return YES if inference.conclusions else OPEN if inference.possible else NO


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("subject", ["host", "gpu:0"])
@pytest.mark.parametrize(("type_", "value", "operator", "operand", "expected"), TABLE)
def test_a_condition_says_what_the_table_says(engine, subject, type_, value, operator, operand, expected):
    kind = subject.split(":")[0]
    other_type = "text" if type_ == "texts" else type_
    catalogue = {
        "here.fact": FactSpec("here.fact", type_, kind, ""),
        "here.other": FactSpec("here.other", other_type, "host", ""),
        "here.known": FactSpec("here.known", "flag", kind, ""),  # so that the GPU is there in every row
    }
    facts = [*_fact("here.fact", value, subject), *_fact("here.known", True, subject)]
    if isinstance(operand, list):
        facts += _fact("here.other", operand[0])
        operand = FactRef("here.other")
    rules = [Rule("r", (Condition("here.fact", operator, operand),), "", diagnosis="d")]
    if expected == "refused":
        with pytest.raises(KnowledgeError):
            infer(rules, facts, catalogue, engine)
        return
    assert _verdict(infer(rules, facts, catalogue, engine)) == expected


# the state of finding.x, what is asked of it, what follows
FINDINGS = [
    (YES, "present", YES),
    (YES, "absent", NO),
    (YES, "no", NO),
    (YES, "unknown", NO),
    (OPEN, "present", OPEN),
    (OPEN, "absent", OPEN),
    (OPEN, "no", OPEN),
    (OPEN, "unknown", YES),
    (NO, "present", NO),
    (NO, "absent", YES),
    (NO, "no", YES),
    (NO, "unknown", NO),
    ("no rule", "present", NO),
    ("no rule", "absent", YES),
    ("no rule", "no", YES),
    ("no rule", "unknown", NO),
]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("state", "asked", "expected"), FINDINGS)
def test_a_question_about_a_finding_says_what_the_table_says(engine, state, asked, expected):
    catalogue = {"a.flag": FactSpec("a.flag", "flag", "host", "")}
    facts = _fact("a.flag", {YES: True, NO: False}.get(state, UNKNOWN))
    finding = Rule("f", (Condition("a.flag", "is", True),), "", concludes="finding.x")
    condition = Condition("finding.x", "no", None) if asked == "no" else Condition("finding.x", "state", asked)
    rules = [Rule("r", (condition,), "", diagnosis="d"), *([finding] if state != "no rule" else [])]
    inference = infer(rules, facts, catalogue, engine)
    sure, possible = ({c.name for c in cs} for cs in (inference.conclusions, inference.possible))
    assert ("diagnosis.d" in sure, "diagnosis.d" in possible) == (expected == YES, expected == OPEN)


# the truth of two conditions, and of both
CONJUNCTIONS = [
    (YES, YES, YES),
    (YES, OPEN, OPEN),
    (OPEN, OPEN, OPEN),
    (YES, NO, NO),
    (OPEN, NO, NO),
    (NO, NO, NO),
]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("left", "right", "expected"), CONJUNCTIONS)
def test_two_conditions_hold_as_the_weaker_of_them(engine, left, right, expected):
    catalogue = {name: FactSpec(name, "flag", "host", "") for name in ("a.flag", "b.flag")}
    values = {YES: True, NO: False, OPEN: UNKNOWN}
    facts = _fact("a.flag", values[left]) + _fact("b.flag", values[right])
    rules = [Rule("r", (Condition("a.flag", "is", True), Condition("b.flag", "is", True)), "", diagnosis="d")]
    assert _verdict(infer(rules, facts, catalogue, engine)) == expected

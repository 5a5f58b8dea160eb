"""The engine: both back ends against a naive evaluator, against each other, and against hostile input."""

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from oracle import CATALOGUE, SOURCE, durable_missing, expected, flat, random_program

from troubleshooter import engine as engine_package
from troubleshooter.engine import check_program, infer
from troubleshooter.engine.indexed import Indexed
from troubleshooter.engine.port import EngineBroken, JoinRule, Pattern, Token
from troubleshooter.errors import KnowledgeError, UsageError
from troubleshooter.model import Condition, Fact, FactRef, FactSpec, Location, Rule

ROOT = Path(__file__).resolve().parents[1]
needs_durable = pytest.mark.skipif(bool(durable_missing()), reason=durable_missing())
ENGINES = ["python", pytest.param("durable", marks=needs_durable)]
both_engines = pytest.mark.parametrize("engine", ENGINES)


def fact(name, value, subject="host"):
    return Fact(name, subject, "absent" if value is None else "present", value, SOURCE)


def rule(id_, *when, concludes="", diagnosis="d"):
    return Rule(id_, when, "", concludes=concludes, diagnosis="" if concludes else diagnosis)


def on(name):
    return Condition(name, "is", True)


def there(finding):
    return Condition(finding, "state", "present")


def catalogue(**kinds):
    """Flags by name, with __ for the dot, and the kind of their subject."""
    return {n.replace("__", "."): FactSpec(n.replace("__", "."), "flag", kind, "") for n, kind in kinds.items()}


# --- against the oracle


def disagreements(seeds, engine):
    for seed in seeds:
        rules, facts = random_program(random.Random(seed))
        inference = infer(rules, facts, CATALOGUE, engine)
        if inference.engine != engine or flat(inference) != expected(rules, facts, CATALOGUE):
            yield seed


@both_engines
def test_six_hundred_random_programs_give_what_the_naive_evaluator_gives(engine):
    assert list(disagreements(range(600), engine)) == []


@pytest.mark.slow
@both_engines
def test_twenty_thousand_random_programs_give_what_the_naive_evaluator_gives(engine):
    assert list(disagreements(range(1_000_000, 1_020_000), engine)) == []


def test_the_random_programs_hold_what_they_are_meant_to_test():
    """A generator that makes nothing happen would agree with every engine."""
    seen = {key: 0 for key in ("sure", "possible", "chained", "absent", "unknown", "imaginary", "joined")}
    for seed in range(600):
        rules, facts = random_program(random.Random(seed))
        inference = infer(rules, facts, CATALOGUE, "python")
        sure, possible = flat(inference)
        seen["sure"] += len(sure)
        seen["possible"] += len(possible)
        for _, subject, id_, met_by in sure | possible:
            ids = [name for names in met_by for name in names]
            seen["chained"] += any(name.startswith("finding.") for name in ids)
            seen["absent"] += any(name.startswith("no:finding.") for name in ids)
            seen["imaginary"] += subject.endswith(":?")
            when = next(r for r in rules if r.id == id_).when
            seen["unknown"] += any(c.fact.startswith("finding.") and c.operand == "unknown" for c in when)
            seen["joined"] += len({name.split("@")[1] for name in ids}) > 2
    assert min(seen.values()) >= 20, seen


class Recorder:
    """A back end that keeps what it was asked for."""

    def __init__(self):
        self.calls = []

    def fire(self, rules, tokens):
        self.calls.append((list(rules), list(tokens)))
        return Indexed().fire(rules, tokens)


@both_engines
def test_leaving_out_what_is_undecided_changes_no_conclusion(engine):
    for seed in range(200):
        rules, facts = random_program(random.Random(seed))
        whole = infer(rules, facts, CATALOGUE, engine)
        assert infer(rules, facts, CATALOGUE, engine, undecided=False).conclusions == whole.conclusions, seed


def test_what_is_kept_of_a_program_is_never_used_for_another():
    """The same rules with another catalogue, and a list that has changed since."""
    facts = [fact("a", True), fact("a", True, "gpu:0")]
    rules = (rule("r", on("a")),)
    for kind, subject in (("host", "host"), ("gpu", "gpu:0"), ("host", "host")):
        (concluded,) = infer(rules, facts, catalogue(a=kind), "python").conclusions
        assert concluded.subject == subject
    growing = [rule("r", on("a"))]
    known = catalogue(a="host", b="host")
    assert len(infer(growing, facts, known, "python").conclusions) == 1
    growing.append(rule("s", on("a"), concludes="finding.s"))
    assert len(infer(growing, facts, known, "python").conclusions) == 2


@needs_durable
def test_both_back_ends_give_the_same_firings_from_the_same_recorded_tokens():
    from troubleshooter.engine.durable import Durable

    recorder, durable, compared = Recorder(), Durable(), 0
    for seed in range(200):
        rules, facts = random_program(random.Random(seed))
        engine_package._run(engine_package._plan(rules, CATALOGUE), engine_package._Facts(facts), recorder)
    for rules, tokens in recorder.calls:
        theirs, ours = durable.fire(rules, tokens), Indexed().fire(rules, tokens)
        assert sorted(theirs) == sorted(ours)
        assert len(set(ours)) == len(ours)
        compared += len(ours)
    assert compared > 500


def random_tokens(rng):
    """Programs at the port: several tokens of one pattern and subject too, which facts never make."""
    kinds = ("host", "gpu", "package")
    heads = {f"finding.f{n}": rng.choice(kinds) for n in range(4)}
    rules, tokens = [], []
    for n in range(rng.randrange(1, 8)):
        head = rng.choice(sorted(heads))
        used = [heads[head], *[rng.choice(kinds) for _ in range(rng.randrange(4))]]
        patterns = []
        for place, kind in enumerate(used):
            waits = rng.choice(["", "", *[h for h, k in heads.items() if k == kind]])
            patterns.append(Pattern(f"{n}/{place}", kind, waits))
            for count in range(rng.randrange(4)):
                subject = "host" if kind == "host" else f"{kind}:{rng.randrange(3)}"
                tokens.append(Token(f"{n}/{place}", (f"t{count}",), subject))
        rules.append(JoinRule(str(n), tuple(patterns), head, heads[head]))
    rng.shuffle(tokens)
    return rules, list(dict.fromkeys(tokens))


@needs_durable
def test_both_back_ends_give_the_same_firings_from_random_tokens():
    from troubleshooter.engine.durable import Durable

    durable = Durable()
    for seed in range(400):
        rules, tokens = random_tokens(random.Random(seed))
        assert sorted(durable.fire(rules, tokens)) == sorted(Indexed().fire(rules, tokens)), seed


# --- what a conclusion carries


@both_engines
def test_all_supports_are_kept_in_one_order(engine):
    names = catalogue(g__a="gpu", g__b="gpu", h__c="host")
    rules = [
        rule("by-b", on("g.b"), concludes="finding.x"),
        rule("by-a", on("g.a"), on("h.c"), concludes="finding.x"),
        rule("last", there("finding.x"), Condition("finding.y", "no", None)),
        rule("other", Condition("h.c", "is", False), concludes="finding.y"),
    ]
    facts = [fact(n, True, f"gpu:{k}") for k in (10, 2) for n in ("g.b", "g.a")] + [fact("h.c", True)]
    for given in (facts, facts[::-1]):
        inference = infer(rules, given, names, engine)
        assert [(c.name, c.subject) for c in inference.conclusions] == [
            ("diagnosis.d", "gpu:2"),
            ("diagnosis.d", "gpu:10"),
            ("finding.x", "gpu:2"),
            ("finding.x", "gpu:10"),
        ]
        assert [s.rule for s in inference.conclusions[2].supports] == ["by-b", "by-a"]
        assert inference.conclusions[2].supports[1].met_by == (("g.a@gpu:2",), ("h.c@host",))
        assert inference.conclusions[0].supports[0].met_by == (("finding.x@gpu:2",), ("no:finding.y@host",))
        assert inference.possible == ()


@both_engines
def test_conditions_on_one_kind_speak_of_the_same_subject(engine):
    names = catalogue(g__a="gpu", g__b="gpu")
    rules = [rule("both", on("g.a"), on("g.b"))]
    apart = [
        fact("g.a", True, "gpu:0"),
        fact("g.b", False, "gpu:0"),
        fact("g.a", False, "gpu:1"),
        fact("g.b", True, "gpu:1"),
    ]
    assert infer(rules, apart, names, engine).conclusions == ()
    together = [
        fact("g.a", True, "gpu:1"),
        fact("g.b", True, "gpu:1"),
        fact("g.a", True, "gpu:0"),
        fact("g.b", False, "gpu:0"),
    ]
    assert [c.subject for c in infer(rules, together, names, engine).conclusions] == ["gpu:1"]


@both_engines
def test_a_fact_about_a_gpu_is_compared_with_one_about_the_host_and_names_both(engine):
    names = {
        "gpu.first_driver": FactSpec("gpu.first_driver", "version", "gpu", ""),
        "driver.version": FactSpec("driver.version", "version", "host", ""),
    }
    rules = [rule("too-old", Condition("driver.version", "below", FactRef("gpu.first_driver")))]
    facts = [
        fact("driver.version", "535.54"),
        fact("gpu.first_driver", "570.0", "gpu:1"),
        fact("gpu.first_driver", "450.0", "gpu:0"),
    ]
    (conclusion,) = infer(rules, facts, names, engine).conclusions
    assert conclusion.subject == "gpu:1"
    assert conclusion.supports[0].met_by == (("driver.version@host", "gpu.first_driver@gpu:1"),)


@both_engines
def test_with_no_gpu_known_the_possible_conclusions_speak_of_an_imaginary_one(engine):
    rules = [rule("r", on("g.a"), on("h.c"))]
    inference = infer(rules, [fact("h.c", True)], catalogue(g__a="gpu", h__c="host"), engine)
    assert inference.conclusions == ()
    assert [(c.name, c.subject, c.supports[0].met_by) for c in inference.possible] == [
        ("diagnosis.d", "gpu:?", (("g.a@gpu:?",), ("h.c@host",)))
    ]


@both_engines
def test_a_conclusion_that_is_sure_by_one_rule_can_be_possible_by_another(engine):
    rules = [rule("sure", on("h.a")), rule("maybe", on("h.b"))]
    inference = infer(rules, [fact("h.a", True)], catalogue(h__a="host", h__b="host"), engine)
    assert [s.rule for s in inference.conclusions[0].supports] == ["sure"]
    assert [s.rule for s in inference.possible[0].supports] == ["maybe"]


@both_engines
def test_two_rules_of_one_id_from_two_packs_do_not_disturb_each_other(engine):
    rules = [rule("same", on("h.a"), diagnosis="x"), rule("same", on("h.b"), on("h.a"), diagnosis="y")]
    inference = infer(rules, [fact("h.a", True), fact("h.b", True)], catalogue(h__a="host", h__b="host"), engine)
    assert [c.name for c in inference.conclusions] == ["diagnosis.x", "diagnosis.y"]


@both_engines
def test_findings_may_follow_from_each_other_without_end(engine):
    rules = [
        rule("a", there("finding.b"), concludes="finding.a"),
        rule("b", there("finding.a"), concludes="finding.b"),
        rule("start", on("h.a"), concludes="finding.a"),
    ]
    inference = infer(rules, [fact("h.a", True)], catalogue(h__a="host"), engine)
    assert {(c.name, s.rule) for c in inference.conclusions for s in c.supports} == {
        ("finding.a", "start"),
        ("finding.a", "a"),
        ("finding.b", "b"),
    }
    assert infer(rules, [fact("h.a", False)], catalogue(h__a="host"), engine).conclusions == ()


@both_engines
@pytest.mark.parametrize("backwards", [False, True])
def test_a_chain_of_six_hundred_rules_runs_through_every_ruleset(engine, backwards):
    names = catalogue(g__a="gpu", h__b="host")
    rules = [rule("r0", on("g.a"), concludes="finding.f0")]
    for n in range(1, 600):
        rules.append(rule(f"r{n}", there(f"finding.f{n - 1}"), on("h.b"), on("g.a"), concludes=f"finding.f{n}"))
    if backwards:
        rules.reverse()
    facts = [fact("g.a", True, "gpu:0"), fact("g.a", True, "gpu:1"), fact("g.a", False, "gpu:2"), fact("h.b", True)]
    inference = infer(rules, facts, names, engine)
    assert inference.engine == engine
    assert {(c.name, c.subject) for c in inference.conclusions} == {
        (f"finding.f{n}", f"gpu:{gpu}") for n in range(600) for gpu in (0, 1)
    }


@both_engines
def test_absence_can_be_asked_for_a_hundred_strata_deep(engine):
    rules = [rule("r0", on("h.a"), concludes="finding.f0")]
    for n in range(1, 100):
        rules.append(rule(f"r{n}", Condition(f"finding.f{n - 1}", "no", None), concludes=f"finding.f{n}"))
    inference = infer(rules, [fact("h.a", False)], catalogue(h__a="host"), engine)
    assert {c.name for c in inference.conclusions} == {f"finding.f{n}" for n in range(1, 100, 2)}


@both_engines
def test_no_rules_and_no_facts_say_nothing(engine):
    assert infer([], [], {}, engine).conclusions == ()
    assert infer([rule("r", on("h.a"))], [], catalogue(h__a="host"), engine).conclusions == ()


# --- programs that cannot be


def messages(rules, names):
    return [str(problem) for problem in check_program(rules, names)]


def test_a_cycle_through_absence_is_a_load_error_that_names_its_rules():
    at = Location("rules/x.yaml", 7)
    rules = [
        rule("first", Condition("finding.c", "no", None, at), on("h.a"), concludes="finding.a"),
        rule("second", there("finding.a"), concludes="finding.b"),
        rule("third", there("finding.b"), concludes="finding.c"),
        rule("outside", there("finding.c")),
    ]
    (message,) = messages(rules, catalogue(h__a="host"))
    assert message.startswith("rules/x.yaml:7: ")
    assert "'first' -> 'third' -> 'second' -> 'first'" in message
    assert "outside" not in message
    with pytest.raises(KnowledgeError, match="wait for each other"):
        infer(rules, [], catalogue(h__a="host"), "python")


@pytest.mark.parametrize(
    "asked", [Condition("finding.a", "state", "unknown"), Condition("finding.a", "state", "absent")]
)
def test_a_finding_that_asks_for_its_own_absence_is_a_cycle(asked):
    (message,) = messages([rule("r", asked, concludes="finding.a")], {})
    assert "'r' -> 'r'" in message


def test_a_long_chain_does_not_exhaust_the_stack():
    rules = [rule(f"r{n}", there(f"finding.f{n + 1}"), concludes=f"finding.f{n}") for n in range(5000)]
    rules.append(rule("end", on("h.a"), concludes="finding.f5000"))
    assert messages(rules, catalogue(h__a="host")) == []


def test_a_finding_about_a_gpu_in_one_rule_and_the_host_in_another_is_refused():
    names = catalogue(g__a="gpu", h__a="host")
    (message,) = messages(
        [rule("r1", on("g.a"), concludes="finding.x"), rule("r2", on("h.a"), concludes="finding.x")], names
    )
    assert "'r2' concludes 'finding.x' about the host" in message
    assert "'r1' concludes it about one gpu" in message


def test_a_finding_takes_the_kind_of_the_finding_that_it_follows_from():
    names = catalogue(g__a="gpu", h__a="host")
    rules = [
        rule("up", there("finding.low"), on("h.a"), concludes="finding.high"),
        rule("low", on("g.a"), concludes="finding.low"),
        rule("round", there("finding.high"), concludes="finding.low"),
    ]
    assert messages(rules, names) == []


def test_a_condition_about_a_gpu_and_a_package_at_once_is_refused():
    names = catalogue(g__a="gpu", p__a="package")
    (message,) = messages([rule("r", Condition("g.a", "is", FactRef("p.a")))], names)
    assert "one gpu" in message
    assert "one package" in message


def test_a_finding_that_no_rule_concludes_is_named_with_the_nearest():
    rules = [rule("r1", on("h.a"), concludes="finding.driver-old"), rule("r2", there("finding.driver-odl"))]
    (message,) = messages(rules, catalogue(h__a="host"))
    assert "asks for 'finding.driver-odl', which no rule concludes; did you mean 'finding.driver-old'?" in message


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        (Condition("finding.x", "is", True), "a finding has no value"),
        (Condition("h.a", "is", FactRef("finding.x")), "a finding has no value"),
        (Condition("h.a", "no", None), "is not a finding"),
        (Condition("h.a", "belwo", 3), "did you mean 'below'?"),
        (Condition("h.a", "matches", "(a"), "no pattern"),
        (Condition("h.a", "matches", FactRef("h.b")), "no pattern"),
    ],
)
def test_a_condition_that_makes_no_sense_is_refused(condition, words):
    names = catalogue(h__a="host", h__b="host")
    rules = [rule("r", condition), rule("x", on("h.a"), concludes="finding.x")]
    assert any(words in message for message in messages(rules, names))


def test_a_rule_without_conditions_is_refused():
    assert (
        messages([rule("r")], {}) == ["rule 'r' has no conditions"] or "no conditions" in messages([rule("r")], {})[0]
    )


# --- which engine, and what if it fails


def test_an_engine_that_does_not_exist_is_a_usage_error():
    with pytest.raises(UsageError, match="did you mean 'python'"):
        infer([], [], {}, "pyton")


@needs_durable
def test_auto_takes_durable_where_it_can_and_says_why():
    inference = infer([rule("r", on("h.a"))], [], catalogue(h__a="host"))
    assert inference.engine == "durable"
    assert inference.engine_reason


@needs_durable
@pytest.mark.parametrize("engine", ["auto", "durable"])
@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ([rule(f"r{n}", on("h.a")) for n in range(1001)], "1000 rules"),
        ([rule("wide", *[on("h.a")] * 17)], "16 conditions"),
        ([rule("joined", *[on("g.a")] * 16)], "28 joins"),
    ],
)
def test_what_durable_cannot_do_safely_runs_in_python_with_the_reason(engine, rules, words):
    names = catalogue(h__a="host", g__a="gpu")
    inference = infer(rules, [fact("h.a", True), fact("g.a", True, "gpu:0")], names, engine)
    assert inference.engine == "python"
    assert words in inference.engine_reason
    assert len(inference.conclusions[0].supports) == len(rules)


@needs_durable
def test_the_widest_rule_that_durable_is_given_is_right():
    names = catalogue(h__a="host", g__a="gpu")
    wide = rule("wide", *[on("g.a")] * 14, on("h.a"))
    facts = [fact("h.a", True), *[fact("g.a", n % 2 == 0, f"gpu:{n}") for n in range(100)]]
    inference = infer([wide], facts, names, "durable")
    assert inference.engine == "durable"
    assert [c.subject for c in inference.conclusions] == [f"gpu:{n}" for n in range(0, 100, 2)]


@needs_durable
def test_a_back_end_refuses_what_is_outside_its_subset():
    from troubleshooter.engine.durable import Durable

    patterns = tuple(Pattern(f"0/{n}") for n in range(17))
    with pytest.raises(EngineBroken):
        Durable().fire([JoinRule("0", patterns, "finding.x")], [Token("0/0", ("a",))])


GOOD_START = """
import json
class error(Exception): pass
def create_ruleset(name, rules): return 1
def delete_state(handle, sid): pass
def delete_ruleset(handle): pass
def assert_facts(handle, messages):
    global given; given = json.loads(messages); return (0, 1)
def complete_and_start_action(handle, state): return None
def slot(n): return {"t0": {"id": given[n]["id"]}}
def start_action_for_state(handle, state): return ("{}", json.dumps({"end": slot(-1)}))
"""


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ("def assert_facts(handle, messages): return (311, 1)", "it answered 311"),
        (
            "def create_ruleset(name, rules): raise error('Could not create ruleset, error code: 108')",
            "error code: 108",
        ),
        ("def start_action_for_state(handle, state): return None", "sentinel did not fire"),
        ("def start_action_for_state(handle, state): return ('{}', '{nonsense')", "could not be read"),
        ("def start_action_for_state(handle, state): return ('{}', json.dumps({'r9': slot(0)}))", "does not exist"),
        ("def start_action_for_state(handle, state): return ('{}', json.dumps({'evil': slot(0)}))", "does not exist"),
        (
            "def start_action_for_state(handle, state): return ('{}', json.dumps({'r0': {'t0': {'id': '99'}}}))",
            "do not exist",
        ),
        (
            "def start_action_for_state(handle, state): return ('{}', json.dumps({'r1': slot(0)}))",
            "do not belong together",
        ),
        (
            (
                "def start_action_for_state(handle, state): return ('{}', json.dumps({'r0': slot(0)}))\n"
                "complete_and_start_action = lambda h, s: json.dumps({'r0': slot(0)})"
            ),
            "twice",
        ),
    ],
)
def test_a_library_that_misbehaves_is_replaced_by_python_and_the_report_says_so(tmp_path, broken, words):
    """The stand-in is the foreign C module, in a process of its own."""
    (tmp_path / "durable_rules_engine.py").write_text(GOOD_START + broken)
    answer = in_a_child(
        tmp_path,
        "rules = [Rule('r1', (Condition('h.a', 'is', True),), '', diagnosis='d'), Rule('r2', (Condition('h.a', 'is', True),), '', diagnosis='e')]\n"
        "names = {'h.a': FactSpec('h.a', 'flag', 'host', '')}\n"
        "facts = [Fact('h.a', 'host', 'present', True, Source('probe', 'set'))]\n"
        "i = infer(rules, facts, names, 'durable')\n"
        "print([c.name for c in i.conclusions], i.engine, i.engine_reason)",
    )
    assert answer.startswith("['diagnosis.d', 'diagnosis.e'] python durable-rules could not be relied on here")
    assert words in answer


def test_durable_asked_for_by_name_where_it_cannot_be_imported_is_a_usage_error(tmp_path):
    (tmp_path / "durable_rules_engine.py").write_text("raise ImportError('undefined symbol: PyEval_CallObject')")
    answer = in_a_child(
        tmp_path,
        "from troubleshooter.errors import UsageError\n"
        "i = infer([], [], {})\n"
        "print(i.engine, i.engine_reason)\n"
        "try: infer([], [], {}, 'durable')\n"
        "except UsageError as error: print(error, error.problems[0].hint)",
    )
    assert "python durable-rules is not installed or does not work with this Python" in answer
    assert "PyEval_CallObject" in answer
    assert "pip install gpu-troubleshooter[durable]" in answer


def in_a_child(folder, code):
    """What `code` prints in a fresh interpreter that looks for modules in `folder` first."""
    start = "from troubleshooter.engine import infer\nfrom troubleshooter.model import *\n"
    ended = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", start + code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT), str(ROOT / "tests")])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    return ended.stdout


# --- hostile input

EVIL = ['it\'s "quoted"', "two\nlines", "\x1b[31mred", "null\0byte", "日本語", "$and", "{}", "\ud800", "z" * 100_000]


def hostile_program():
    names = {
        "g.text": FactSpec("g.text", "text", "gpu", ""),
        "g.other": FactSpec("g.other", "text", "gpu", ""),
    }
    rules, facts = [], []
    for n, text in enumerate(EVIL):
        rules.append(
            rule(
                f"{text}-{n}",
                Condition("g.text", "is", text),
                Condition("g.other", "is", FactRef("g.text")),
                concludes=f"finding.{text}",
            )
        )
        rules.append(
            rule(text, there(f"finding.{text}"), Condition("g.text", "matches", "(?s)^.{0,80}"), diagnosis=text)
        )
        facts += [fact("g.text", text, f"gpu:{text}"), fact("g.other", text, f"gpu:{text}")]
    return rules, facts, names


@both_engines
def test_hostile_names_values_and_subjects_change_nothing(engine):
    rules, facts, names = hostile_program()
    inference = infer(rules, facts, names, engine)
    assert inference.engine == engine
    assert {(c.name, c.subject) for c in inference.conclusions} == {
        (f"{head}{text}", f"gpu:{text}") for text in EVIL for head in ("finding.", "diagnosis.")
    }


@needs_durable
def test_nothing_that_others_wrote_reaches_the_c_module(monkeypatch):
    from troubleshooter.engine import durable

    texts = []

    class Listening:
        def __getattr__(self, name):
            real = getattr(durable_rules_engine, name)
            if name == "error":
                return real
            return lambda *given: texts.extend(one for one in given if isinstance(one, str)) or real(*given)

    import durable_rules_engine

    monkeypatch.setattr(durable, "c_module", Listening())
    monkeypatch.setattr(engine_package, "_kept", [])
    rules, facts, names = hostile_program()
    assert infer(rules, facts, names, "durable").engine == "durable"
    words = set(re.findall(r'"([^"]*)"', " ".join(texts)))
    assert len(words) > 20
    assert [word for word in words if not re.fullmatch(r"[rst]?-?\d+(/\d+)?|p|s|_|id|all|end|\$and", word)] == []


@needs_durable
@pytest.mark.parametrize("shape", ["chain", "cross", "wide", "many"])
def test_a_hostile_rule_base_does_not_crash_durable_in_a_child_process(tmp_path, shape):
    """Shapes are all that a rule base can vary there; a crash would end the child with a signal."""
    code = {
        "chain": "rules = [join(n, ['gpu', 'gpu'], f'finding.f{n - 1}') for n in range(900)]",
        "cross": "rules = [join(n, ['gpu', 'package', 'library', 'host']) for n in range(3)]",
        "wide": "rules = [join(n, ['gpu'] * 14) for n in range(60)]",
        "many": "rules = [join(n, ['gpu', 'host', 'gpu']) for n in range(1000)]",
    }[shape]
    subjects = 16 if shape in {"cross", "wide"} else 3
    answer = in_a_child(
        tmp_path,
        "from troubleshooter.engine.durable import Durable\n"
        "from troubleshooter.engine.indexed import Indexed\n"
        "from troubleshooter.engine.port import *\n"
        "def join(n, kinds, waits=''):\n"
        "    slots = [Pattern(f'{n}/{i}', kind, waits if i == 1 and n else '') for i, kind in enumerate(kinds)]\n"
        "    return JoinRule(str(n), tuple(slots), f'finding.f{n}', kinds[0])\n"
        f"{code}\n"
        f"tokens = [Token(p.id, (p.id,), 'host' if p.kind == 'host' else f'{{p.kind}}:{{s}}') for r in rules for p in r.patterns if not p.waits_on for s in range(1 if p.kind == 'host' else {subjects})]\n"
        "engine = Durable()\n"
        "first, second, ours = (sorted(e.fire(rules, tokens)) for e in (engine, engine, Indexed()))\n"
        "print(len(ours), first == second == ours)",
    )
    count, same = answer.split()
    assert int(count) >= 900
    assert same == "True"


@needs_durable
def test_many_programs_in_one_process_leave_nothing_behind():
    """Compiled programs are freed with their state; the library leaks half a megabyte a program otherwise."""
    resource = pytest.importorskip("resource", reason="needs the memory figures of Unix")
    from troubleshooter.engine.durable import Durable

    def run(count):
        for n in range(count):
            rules = [JoinRule(str(n), (Pattern(f"{n}/0"), Pattern(f"{n}/1")), "finding.x")]
            assert len(durable.fire(rules, [Token(f"{n}/0", ("a",)), Token(f"{n}/1", ("b",))])) == 1

    durable = Durable()
    run(100)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run(400)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < (40_000_000 if sys.platform == "darwin" else 40_000)  # kilobytes on Linux; a leak would be 200 MB


@needs_durable
def test_rules_that_a_fact_has_ruled_out_do_not_count_against_the_limit_of_durable():
    names = {f"f{number}": "host" for number in range(1500)}
    rules = [
        Rule(f"r{number}", (Condition(f"f{number}", "is", True),), "", concludes=f"finding.c{number}")
        for number in range(1500)
    ]
    facts = [fact(f"f{number}", number < 10) for number in range(1500)]
    inference = infer(rules, facts, catalogue(**names), "auto")
    assert inference.engine == "durable"
    assert len(inference.conclusions) == 10

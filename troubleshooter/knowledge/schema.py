"""JSON Schema of the files that people write, for completion in editors. `read` and `check` decide what loads."""

from collections.abc import Callable
from typing import Any

from ..model import Knowledge
from .read import AREAS, OPERATORS, RISKS, SEVERITIES, STATES, TESTS

_Schema = dict[str, Any]

_TEXT: _Schema = {"type": "string"}
_FLAG: _Schema = {"type": "boolean"}
_DAY: _Schema = {
    "type": "string",
    "pattern": r"^20\d\d-\d\d-\d\d$",
    "description": "when somebody looked, YEAR-MONTH-DAY",
}
_ID: _Schema = {
    "type": "string",
    "pattern": r"^[a-z0-9]+(-[a-z0-9]+)*(\.[a-z0-9]+(-[a-z0-9]+)*)?$",
    "description": "lower-case words joined by hyphens",
}
_TEXTS: _Schema = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]}
_VERDICTS = ["problem", "healthy", "inconclusive"]


def _object(required: tuple[str, ...] = (), **properties: _Schema) -> _Schema:
    named = {name.replace("_set_env", "set-env"): schema for name, schema in properties.items()}
    return {"type": "object", "additionalProperties": False, "required": list(required), "properties": named}


def _list(items: _Schema, least: int = 0) -> _Schema:
    return {"type": "array", "items": items, "minItems": least}


def _map(values: _Schema) -> _Schema:
    return {"type": "object", "additionalProperties": values}


def _told(schema: _Schema, description: str) -> _Schema:
    return {**schema, "description": description}


def _facts(knowledge: Knowledge) -> _Schema:
    named = [{"const": name, "description": spec.meaning} for name, spec in knowledge.facts.items()]
    return {"anyOf": [*named, {"type": "string", "pattern": r"^(finding|log|env)\."}]}


def _condition(_: Knowledge) -> _Schema:
    """Facts and findings are described once a file, under `$defs`."""
    fact = {"$ref": "#/$defs/fact"}
    operand: _Schema = {
        "anyOf": [_TEXT, {"type": "integer"}, _FLAG, _object(("fact",), fact=fact), {"type": "array", "items": _TEXT}]
    }
    compared = {op: {"enum": list(STATES)} if op == "state" else operand for op in OPERATORS}
    return {
        "oneOf": [
            _object(("no",), no={"type": "string", "pattern": r"^finding\."}),
            {
                **_object(("fact",), fact=fact, **compared),
                "minProperties": 2,
                "maxProperties": 2,
                "description": "a fact and one comparison",
            },
        ]
    }


def _conditions() -> _Schema:
    return _list({"$ref": "#/$defs/condition"})


def _rules(knowledge: Knowledge) -> _Schema:
    example = _map({"type": ["string", "integer", "boolean", "array", "null"]})
    rule = _object(
        ("id", "because", "when", "examples"),
        id=_ID,
        because=_told(_TEXT, "what was seen; {fact} becomes the value of a fact of its conditions"),
        when=_told({**_conditions(), "minItems": 1}, "all must hold; 'or' is a second rule"),
        evidence={"enum": list(knowledge.strengths.evidence)},
        concludes={"type": "string", "pattern": r"^finding\."},
        note=_ID,
        examples=_object(("fires", "quiet"), fires=_list(example, 1), quiet=_list(example, 1)),
    )
    rule["oneOf"] = [{"required": [head]} for head in ("evidence", "concludes", "note")]
    return _object(("rules",), diagnosis={"$ref": "#/$defs/diagnosis"}, rules=_list(rule, 1))


def _article(knowledge: Knowledge) -> _Schema:
    tests = {"enum": list(TESTS)}
    step = _object(
        (),
        do={"enum": list(knowledge.actions)},
        _set_env=_map({"type": ["string", "null"]}),
        say=_TEXT,
        persist=_FLAG,
        when=_conditions(),
        unless=_conditions(),
        **{"with": _map(_TEXT)},
    )
    step["oneOf"] = [{"required": [what]} for what in ("do", "set-env", "say")]
    remedy = _object(
        ("id", "title", "risk", "steps"),
        id=_ID,
        title=_TEXT,
        risk={"enum": list(RISKS)},
        when=_conditions(),
        unless=_conditions(),
        steps=_list(step, 1),
    )
    strength = {"enum": list(knowledge.strengths.evidence)}
    return _object(
        ("id", "title", "area", "severity", "base_rate", "meaning", "remedies", "references"),
        id=_ID,
        title=_TEXT,
        area={"enum": list(AREAS)},
        severity={"enum": list(SEVERITIES)},
        base_rate={"enum": list(knowledge.strengths.base_rates)},
        meaning=_told(_TEXT, "what it means, in plain words"),
        not_to_confuse_with=_map(_TEXT),
        explains={"anyOf": [{"$ref": "#/$defs/diagnosis"}, _list({"$ref": "#/$defs/diagnosis"})]},
        remedies=_told(_list(remedy, 1), "the best one first"),
        confirm=_list(_object(("test", "shows"), test=tests, shows={"enum": ["passed", "failed"]}, strength=strength)),
        verify={"anyOf": [tests, _list(tests)]},
        references=_list(_object(("says", "url", "checked"), says=_TEXT, url=_TEXT, checked=_DAY), 1),
    )


def _signatures(knowledge: Knowledge) -> _Schema:
    signature = _object(
        ("id", "pattern", "printed_by", "examples"),
        id=_ID,
        pattern=_told(_TEXT, "RE2 syntax, within one line, with a literal of four characters or more"),
        lines={"type": "integer", "minimum": 1, "description": "over how many lines it may reach"},
        printed_by=_object(("program", "source"), program=_TEXT, since=_TEXT, until=_TEXT, source=_TEXT),
        facts=_told(_map(_TEXT), "a group of the pattern, or =text"),
        examples=_object(("matches",), matches=_TEXTS, ignores=_TEXTS),
    )
    signature["properties"]["facts"]["propertyNames"] = {"enum": list(knowledge.facts)}
    return _object(("signatures",), source=_TEXT, signatures=_list(signature, 1))


def _table(_: Knowledge) -> _Schema:
    return _object(
        ("table", "meaning", "source", "checked", "rows"),
        table=_TEXT,
        meaning=_TEXT,
        key=_TEXTS,
        source=_TEXT,
        checked=_DAY,
        rows=_list({"type": "object"}, 1),
    )


def _action(_: Knowledge) -> _Schema:
    form = _object(
        (),
        argv=_list(_TEXT, 1),
        commands=_list(_list(_TEXT, 1), 1),
        say=_TEXT,
        os=_TEXTS,
        distribution=_TEXTS,
        manager=_TEXTS,
        admin=_FLAG,
        reboot=_FLAG,
        undoable=_FLAG,
        when=_conditions(),
    )
    note = _object(("say",), say=_TEXT, manager=_TEXTS, when=_conditions(), unless=_conditions())
    return _object(("action", "meaning", "forms"), action=_ID, meaning=_TEXT, forms=_list(form, 1), notes=_list(note))


def _fixture(_: Knowledge) -> _Schema:
    names = {"$ref": "#/$defs/diagnosis"}
    share = {"type": "number", "minimum": 0, "maximum": 1}
    expect = _object(
        ("verdict",),
        verdict={"enum": _VERDICTS},
        first=names,
        never=_list(names),
        confidence=_object(("at_least",), at_least=share),
        remedies=_list(_ID),
    )
    return _object(
        ("expect",),
        origin=_told(_TEXT, "made, or the address of the report whose facts it rebuilds"),
        about=_TEXT,
        text=_TEXT,
        set=_told(_map({"type": ["string", "number", "boolean"]}), "facts as --set takes them"),
        recording=_told({"type": "object"}, "what troubleshoot snapshot writes"),
        expect=expect,
    )


KINDS: dict[str, Callable[[Knowledge], _Schema]] = {
    "rules": _rules,
    "article": _article,
    "signatures": _signatures,
    "table": _table,
    "action": _action,
    "fixture": _fixture,
}


def schema(kind: str, knowledge: Knowledge) -> _Schema:
    """That of one of `KINDS`, with the names that this knowledge has."""
    diagnosis = {
        "anyOf": [{"const": name, "description": one.title} for name, one in knowledge.articles.items()] + [_ID]
    }
    described = {"fact": _facts(knowledge), "condition": _condition(knowledge), "diagnosis": diagnosis}
    made = KINDS[kind](knowledge)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"troubleshooter: {kind}",
        **made,
        "$defs": described,
    }

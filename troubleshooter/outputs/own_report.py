"""Our own JSON report, pasted: its facts are the claims that another machine made."""

import json
from collections.abc import Iterator

from ..model import ABSENT, PRESENT, Claim, Source, Value

SCHEMA = "troubleshooter.report/1"
_LARGEST = 4 << 20


def read_own_report(text: str, source: Source) -> Iterator[Claim]:
    """Nothing is taken on trust: values are checked against the catalogue like those of any other text."""
    start = text.find("{")
    if start < 0 or len(text) > _LARGEST:
        return
    try:
        data, _ = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return
    facts = data.get("facts") if isinstance(data, dict) and data.get("schema") == SCHEMA else None
    for fact in facts if isinstance(facts, list) else ():
        if not isinstance(fact, dict):
            continue
        name, subject, state = (str(fact.get(key, "")) for key in ("name", "subject", "state"))
        value = fact.get("value")
        if name.startswith(("log.", "test.", "finding.")) or not name or len(subject) > 80:
            continue
        if state == ABSENT:
            yield Claim(name, subject or "host", ABSENT, None, source)
        elif state == PRESENT and (told := _value(value)) is not None:
            yield Claim(name, subject or "host", PRESENT, told, source)


def _value(value: object) -> Value | None:
    if isinstance(value, list):
        return tuple(str(one)[:4096] for one in value[:200])
    return value if isinstance(value, (str, int, float, bool)) else None

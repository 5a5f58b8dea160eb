"""Whether the figures that a test measured are good enough: by the tables of bounds, rates and reasons. Pure.

A test that failed by itself stays failed. A figure that no table knows is shown and not judged.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .derive import plain_name
from .model import PRESENT, Fact, Table, TestResult

Row = Mapping[str, Any]


def judge(results: Iterable[TestResult], facts: Iterable[Fact], tables: Mapping[str, Table]) -> tuple[TestResult, ...]:
    """The results with what was expected of their figures, and failed where a figure is out of its bounds."""
    given = tuple(results)
    names = {fact.subject: str(fact.value) for fact in facts if fact.name == "gpu.name" and fact.state == PRESENT}
    # An instance of a divided card is named by torch alone; nvidia-smi names the whole card.
    names.update({one.subject: str(one.measured["name"]) for one in given if one.measured.get("name")})
    return tuple(_judged(result, names.get(result.subject, ""), tables) for result in given)


def _judged(result: TestResult, gpu: str, tables: Mapping[str, Table]) -> TestResult:
    if result.outcome != "passed" or "test_bounds" not in tables:
        return result
    expected, wrong = dict(result.expected), []
    for row in tables["test_bounds"].rows:
        figure = str(row["figure"])
        if row["test"] != result.test or figure not in result.measured:
            continue
        measured = result.measured[figure]
        for key, bound in _bounds(row, result.measured, gpu, tables):
            expected[f"{figure}_{key}" if key != "is" else figure] = bound
            if not _holds(measured, key, bound):
                wrong.append(f"{figure} is {_shown(measured)}, {_WORDS[key]} {_shown(bound)}")
    judged = result._replace(expected=expected)
    if not wrong:
        return judged
    reasons, excused = _why_slow(result, tables)
    reason = "; ".join([*wrong, *reasons])
    if excused and result.test.startswith("speed."):
        return judged._replace(outcome="skipped", reason=reason)
    return judged._replace(outcome="failed", reason=reason)


_WORDS = {"at_most": "at most", "at_least": "at least", "is": "expected"}


def _bounds(
    row: Row, measured: Mapping[str, object], gpu: str, tables: Mapping[str, Table]
) -> Iterator[tuple[str, Any]]:
    for key in ("at_most", "at_least", "is"):
        if key in row:
            yield key, row[key]
    if "share" in row:
        full = _full_rate(str(row["of"]), measured, gpu, tables)
        if full is not None:
            yield "at_least", round(float(row["share"]) * full, 3)


def _holds(measured: object, key: str, bound: Any) -> bool:
    if key == "is":
        return bool(measured == bound)
    if isinstance(measured, bool) or not isinstance(measured, int | float):
        return False  # NaN and infinity arrive as texts
    return bool(measured <= bound) if key == "at_most" else bool(measured >= bound)


def _full_rate(of: str, measured: Mapping[str, object], gpu: str, tables: Mapping[str, Table]) -> float | None:
    """What this card can do on paper: a rate of its product, or of the link that it has. None where nobody knows."""
    if of == "pcie":
        lanes = measured.get("load_pcie_width")
        row = next(
            (one for one in tables["pcie_rates"].rows if one["generation"] == measured.get("load_pcie_generation")),
            None,
        )
        return float(str(row["gb_per_s_per_lane"])) * lanes if row and isinstance(lanes, int) else None
    # The whole name must be that of the product: "RTX 3080 Laptop GPU" is another card than "RTX 3080".
    name = plain_name(gpu.partition(" MIG ")[0])
    rows = tables["gpu_rates"].rows if name and "gpu_rates" in tables else ()
    row = next((one for one in rows if plain_name(str(one["name"])) == name), None)
    rate = row.get(of) if row else None
    if rate is None:
        return None
    return float(str(rate)) * _share_of_mig(gpu, of) * (1.0 if of.startswith("memory") else _share_of_power(measured))


def _share_of_mig(gpu: str, of: str) -> float:
    """An instance "MIG 2g.10gb" has two of seven slices of the processors, and at least two of eight of the memory;
    "MIG 1c.2g.10gb" has only one of the processors.
    """
    instance = re.search(r"\bMIG (?:(\d+)c\.)?(\d+)g\.", gpu)
    if instance is None:
        return 1.0
    return int(instance[2]) / 8 if of.startswith("memory") else int(instance[1] or instance[2]) / 7


def _share_of_power(measured: Mapping[str, object]) -> float:
    """A power limit that somebody lowered lowers what may be expected, at worst in proportion."""
    limit, default = measured.get("power_limit_w"), measured.get("power_limit_w_default")
    if isinstance(limit, int | float) and isinstance(default, int | float) and 0 < limit < default:
        return limit / default
    return 1.0


def _why_slow(result: TestResult, tables: Mapping[str, Table]) -> tuple[list[str], bool]:
    """(what was seen beside a low rate, whether one of it is no fault of this card)."""
    if not result.test.startswith("speed.") or "slow_because" not in tables:
        return [], False
    seen = [row for row in tables["slow_because"].rows if _applies(row, result)]
    shown = {name: _shown(value) for name, value in result.measured.items()}
    said = [re.sub(r"\{(\w+)\}", lambda found: shown.get(found[1], "?"), str(row["says"])) for row in seen]
    return said, any(row.get("excuses") for row in seen)


def _applies(row: Row, result: TestResult) -> bool:
    if row.get("test", result.test) != result.test:
        return False
    if "figure" not in row:
        return True
    measured = result.measured.get(str(row["figure"]))
    if "has" in row:
        return isinstance(measured, list | tuple) and row["has"] in measured
    if isinstance(measured, bool) or not isinstance(measured, int | float):
        return False
    if "above" in row:
        return bool(measured > row["above"])
    other = result.measured.get(str(row["below"]))
    return isinstance(other, int | float) and bool(measured < float(row.get("share", 1)) * other)


def _shown(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)

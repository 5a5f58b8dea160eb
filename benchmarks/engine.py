"""How long the two back ends take on growing programs: python benchmarks/engine.py

Back ends alone (`fire` on tokens), then `infer` on the same programs. Half of the rules join two conditions about one
GPU, the others chain from a finding. The factor is durable against Python.
"""

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from troubleshooter.engine import infer
from troubleshooter.engine.indexed import Indexed
from troubleshooter.engine.port import JoinRule, Pattern, Token
from troubleshooter.model import Condition, Fact, FactSpec, Rule, Source

if TYPE_CHECKING:
    from troubleshooter.engine.port import Backend

SIZES = ((100, 100), (1_000, 1_000), (10_000, 1_000))


def tokens_and_rules(rules: int, tokens: int) -> tuple[list[JoinRule], list[Token]]:
    made, given = [], []
    for n in range(rules):
        left = Pattern(f"{n}/0", "gpu")
        right = Pattern(f"{n}/1", "gpu", f"finding.f{n - 1}" if n % 2 else "")
        made.append(JoinRule(str(n), (left, right), f"finding.f{n}", "gpu"))
        of_rule = [left] if n % 2 else [left, right]
        given += [Token(pattern.id, (f"fact@gpu:{n % 8}",), f"gpu:{(n - n % 2) % 8}") for pattern in of_rule]
    return made, given[:tokens]


def program(rules: int, facts: int) -> tuple[list[Rule], list[Fact], dict[str, FactSpec]]:
    source = Source("probe", "set")
    catalogue = {f"gpu.n{n}": FactSpec(f"gpu.n{n}", "number", "gpu", "") for n in range(facts // 2)}
    stated = [Fact(name, f"gpu:{gpu}", "present", 1, source) for name in catalogue for gpu in range(2)]
    made = []
    for n in range(rules):
        first = Condition(f"gpu.n{n % (facts // 2)}", "at_least", n % 2)
        chained = Condition(f"finding.f{n - 1}", "state", "present")
        made.append(Rule(f"r{n}", (first, chained if n % 2 else first), "", concludes=f"finding.f{n}"))
    return made, stated, catalogue


def seconds(work: Callable[[], object]) -> float:
    """The best of three."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def backends() -> "dict[str, Callable[[], Backend]]":
    found: dict[str, Callable[[], Backend]] = {"python": Indexed}
    try:
        from troubleshooter.engine import durable
    except ImportError as error:
        print(f"durable-rules cannot be imported: {error}")
    else:
        durable.RULE_LIMIT = max(rules for rules, _ in SIZES)  # to see what lies beyond it
        found["durable"] = durable.Durable
    return found


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    print(f"{'rules x tokens':>16} {'':8} {'first run':>10} {'next run':>10} {'factor':>7} {'firings':>8}")
    made = backends()
    for rules, tokens in SIZES:
        joins, given = tokens_and_rules(rules, tokens)
        base = 0.0
        for name, backend_of in made.items():
            backend = backend_of()
            start = time.perf_counter()
            firings = backend.fire(joins, given)
            first = time.perf_counter() - start
            again = seconds(partial(backend.fire, joins, given))
            base = base or again
            print(
                f"{f'{rules} x {tokens}':>16} {name:8} {first:10.4f} {again:10.4f} {again / base:7.1f} {len(firings):8}"
            )
    print(f"\n{'rules x facts':>16} {'infer':8} {'first run':>10} {'next run':>10} {'factor':>7}")
    for rules, facts in SIZES:
        all_rules, stated, catalogue = program(rules, facts)
        base = 0.0
        for name in made:
            start = time.perf_counter()
            infer(all_rules, stated, catalogue, name)
            first = time.perf_counter() - start
            again = seconds(partial(infer, all_rules, stated, catalogue, name))
            base = base or again
            print(f"{f'{rules} x {facts}':>16} {name:8} {first:10.4f} {again:10.4f} {again / base:7.1f}")


if __name__ == "__main__":
    main()

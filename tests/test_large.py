"""Large texts: the same hits whichever engine rejects the rest, and the same as of a small text."""

import io
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from disguises import DISGUISES

from troubleshooter.knowledge import load
from troubleshooter.model import Claim
from troubleshooter.paste import read_paste
from troubleshooter.paste.sieve import ENGINES

KNOWLEDGE = load()
FOLDER = Path(__file__).parent.parent / "fixtures"
LARGE = 64 * 1024
ERROR = b"RuntimeError: No CUDA GPUs are available"
SIGNATURE = "log.no-cuda-gpus-available"


def engines() -> Iterator[Any]:
    for engine in ENGINES:
        module = {"re2": "re2", "hyperscan": "hyperscan"}.get(engine)
        yield pytest.param(engine, marks=[] if module is None else [_needs(module)])


def _needs(module: str) -> pytest.MarkDecorator:
    from importlib.util import find_spec

    return pytest.mark.skipif(find_spec(module) is None, reason=f"{module} is not installed")


@cache
def compiled_here() -> str:
    import tempfile

    return tempfile.mkdtemp(prefix="troubleshooter-test-")


def claims_of(data: bytes, engine: str = "python", large: int = LARGE) -> list[Claim]:
    return list(
        read_paste([("log", io.BytesIO(data))], KNOWLEDGE.signatures, engine=engine, large=large, cache=compiled_here)
    )


def hits(claims: list[Claim]) -> set[tuple[str, int]]:
    return {(one.name, one.source.line) for one in claims if one.name.startswith("log.") and one.value is True}


def filler(number: int, lines: int) -> bytes:
    """Lines of a healthy run, with progress bars."""
    numbers = random.Random(number)
    told = (
        "[rank{r}]: 2026-03-01 12:00:{s:02d},118 INFO trainer.py:88 lr {x:.3e} grad_norm {x:.3f}\n",
        "\rEval: {s:3d}%|{bar:<10}| {s}/100 [00:01<00:09, 9.10it/s]\n",
        '{{"rank": {r}, "memory": {x:.2f}, "note": "caf\u00e9"}}\n',
    )
    return "".join(
        numbers.choice(told).format(
            r=numbers.randrange(8), s=numbers.randrange(60), x=numbers.random(), bar="\u2588" * numbers.randrange(10)
        )
        for _ in range(lines)
    ).encode()


@cache
def texts() -> tuple[str, ...]:
    found: list[str] = []
    for path in sorted(FOLDER.rglob("*.yaml")):
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        if isinstance(content, dict) and isinstance(content.get("text"), str):
            found.append(content["text"])
    return tuple(found)


def many(number: int, count: int) -> bytes:
    """Texts of fixtures in disguise, thousands of healthy lines apart."""
    numbers = random.Random(number)
    parts = [filler(number, 4000)]
    disguises = [one for one in DISGUISES if "utf" not in one.__name__]
    for text in numbers.sample(texts(), count):
        parts += [numbers.choice(disguises)(text), b"\n", filler(numbers.randrange(1000), 1500)]
    return b"".join([*parts, filler(number + 1, 4000)])


@pytest.mark.parametrize("number", range(3))
def test_all_engines_give_the_same_claims(number: int) -> None:
    data = many(number, 12)
    assert len(data) > 1 << 20
    of = {engine.values[0]: claims_of(data, str(engine.values[0])) for engine in engines() if not _is_skipped(engine)}
    assert len(hits(of["python"])) > 20
    for engine, claims in of.items():
        assert claims == of["python"], engine


def _is_skipped(engine: Any) -> bool:
    return any(mark.args[0] for mark in engine.marks)


@pytest.mark.parametrize("number", range(3))
def test_a_large_text_has_the_hits_of_small_ones(number: int) -> None:
    """But for what only joins of broken lines find, which are not made far from any other hit."""
    data = many(number, 12)
    small, large = hits(claims_of(data, large=1 << 40)), hits(claims_of(data))
    names = {name for name, _ in small}
    assert {name for name, _ in large} <= names
    assert len(names - {name for name, _ in large}) <= len(names) // 50, names - {name for name, _ in large}

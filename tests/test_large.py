"""Large texts: the same hits whichever engine rejects the rest, and the same as of a small text."""

import io
import random
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from disguises import DISGUISES

from troubleshooter.knowledge import load
from troubleshooter.model import Claim
from troubleshooter.paste import read_paste
from troubleshooter.paste.large import plain, sieve_literals, sieve_patterns
from troubleshooter.paste.sieve import ENGINES, sieve_for
from troubleshooter.portable import portable, relaxed

KNOWLEDGE = load()
FOLDER = Path(__file__).parent.parent / "fixtures"
LARGE = 64 * 1024
ERROR = b"RuntimeError: No CUDA GPUs are available"
SIGNATURE = "log.no-cuda-gpus-available"


def engines() -> list[Any]:
    found = [pytest.param("python")]
    return found + [pytest.param(engine, marks=[_needs(engine)]) for engine in ENGINES if engine != "python"]


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


def test_a_hit_far_inside_has_its_line_number_and_is_counted() -> None:
    before, between = filler(1, 9000), filler(2, 9000)
    data = before + ERROR + b"\n" + (between + ERROR + b"\n") * 9
    found = [one for one in claims_of(data) if one.name == SIGNATURE]
    assert found[0].source.line == 9001
    assert "\u00d7 10, first here" in found[0].source.detail


@pytest.mark.parametrize(
    "wrapped",
    [
        b"\x1b[31mRuntimeError: No CUDA \x1b[1mGPUs\x1b[0m are available",
        b"[rank3]: RuntimeError: No CUDA GPUs are available",
        b"RuntimeError: No\0 CUDA GPUs are available",
        "RuntimeError: No\u00a0CUDA GPUs are available".encode(),
        b"\xd5\xd2\xb2\xbb\xb5\xbd RuntimeError: No CUDA GPUs are available",
        b"\r 10%| | 1/10 [00:01<00:09, 9.1it/s]\rRuntimeError: No CUDA GPUs are available\r",
    ],
)
@pytest.mark.parametrize("engine", engines())
def test_what_hides_a_message_hides_it_from_no_engine(wrapped: bytes, engine: str) -> None:
    data = filler(1, 9000) + wrapped + b"\n" + filler(2, 9000)
    assert (SIGNATURE, 9001) in hits(claims_of(data, engine))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_wide_encodings_are_read(encoding: str) -> None:
    data = (filler(1, 5000) + ERROR + b"\n" + filler(2, 5000)).decode().encode(encoding)
    assert (SIGNATURE, 5001) in hits(claims_of(data))


def test_a_message_in_the_middle_of_a_line_without_end_is_found_in_every_piece_of_it() -> None:
    line = b"x" * 3_000_000
    found = hits(claims_of(b"first\n" + line + ERROR + line + b"\nlast\n" + ERROR + b"\n"))
    assert {(SIGNATURE, 2), (SIGNATURE, 4)} <= found


def test_a_table_in_the_middle_is_read() -> None:
    table = b"PyTorch version: 2.1.0+cu121\nIs debug build: False\nCUDA used to build PyTorch: 12.1\n"
    claims = claims_of(filler(1, 9000) + table + filler(2, 9000))
    assert any(one.name == "torch.version" and one.value == "2.1.0+cu121" for one in claims)


@pytest.mark.parametrize("engine", engines())
def test_no_engine_rejects_what_a_signature_matches(engine: str) -> None:
    knowledge = load(examples=True)
    patterns = sieve_patterns(knowledge.signatures)
    sieve = sieve_for(sieve_literals(knowledge.signatures), lambda: patterns, only=engine, cache=compiled_here)
    assert sieve.engine == engine
    count = 0
    for position, signature in enumerate(knowledge.signatures):
        if signature.lines == 1:
            for text in signature.matches:
                count += 1
                assert position in sieve.present(plain(text.encode())), (signature.id, text)
    assert count > 500


@pytest.mark.parametrize("engine", engines())
def test_what_is_left_out_is_the_only_thing_no_longer_found(engine: str) -> None:
    patterns = [relaxed("alpha beta"), relaxed("gamma delta")]
    sieve = sieve_for([("alpha beta",), ("gamma delta",)], lambda: patterns, only=engine)
    less = sieve.without({0})
    assert less is not None
    text = b"alpha beta and gamma delta"
    assert (set(sieve.present(text)), set(less(text))) == ({0, 1}, {1})


def test_an_engine_that_cannot_read_the_patterns_gives_way_to_the_next() -> None:
    sieve = sieve_for([("alpha",)], lambda: ["(unclosed"])
    assert (sieve.engine, set(sieve.present(b"an alpha"))) == ("python", {0})


def test_a_damaged_database_is_compiled_again(tmp_path: Path) -> None:
    pytest.importorskip("hyperscan")
    for _ in range(2):
        sieve = sieve_for([("alpha",)], lambda: [relaxed("alpha")], only="hyperscan", cache=lambda: str(tmp_path))
        assert (sieve.engine, set(sieve.present(b"an alpha"))) == ("hyperscan", {0})
        (kept,) = tmp_path.iterdir()
        assert kept.stat().st_mode & 0o077 == 0
        kept.write_bytes(kept.read_bytes()[:-9])


def test_several_processes_give_what_one_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "big.log"
    path.write_bytes(many(7, 14))

    def claims() -> list[Claim]:
        with path.open("rb") as file:
            return list(read_paste([(str(path), file)], KNOWLEDGE.signatures, large=LARGE, segment=300_000))

    several = claims()
    monkeypatch.setattr("troubleshooter.paste.segments._processors", lambda: 1)
    assert claims() == several
    with path.open("rb") as file:
        whole = read_paste([(str(path), file)], KNOWLEDGE.signatures, large=LARGE)
    names = {name for name, _ in hits(several)}
    assert {name for name, _ in hits(list(whole))} <= names


def test_a_file_that_was_read_in_part_is_not_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "big.log"
    path.write_bytes(ERROR + b"\n" + filler(1, 9000))
    with path.open("rb") as file:
        file.readline()
        claims = read_paste([(str(path), file)], KNOWLEDGE.signatures, large=LARGE, segment=200_000)
    assert not hits(list(claims)) & {(SIGNATURE, 1)}


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"(?P<a>x{2,3})[^\n]{0,4}\.so$", "xx...so"),
        (r"(?i)nvcc['\u2019]?: not found", "NVCC\u2019: not found"),
        (r"^(?:Bus|bus) error\b", "bus error"),
        (r"[\u4e00-\u4eff]{1,3} CUDA\?", "\u4e2d\u4e2d CUDA?"),
        (r"a\.b\\c[^\w\n]d", "a.b\\c-d"),
    ],
)
def test_other_forms_of_a_pattern_match_what_it_matches(pattern: str, text: str) -> None:
    assert re.search(pattern, text)
    assert re.search(relaxed(pattern).encode(), text.encode())
    assert "(?P<" not in portable(pattern)
    assert "\n" not in portable(pattern)


def test_the_first_failing_rank_is_named() -> None:
    lines = b"[rank5]: Traceback (most recent call last):\n[rank5]: ValueError: no\n"
    remarks: list[str] = []
    data = filler(1, 3000) + lines + filler(2, 3000) + lines.replace(b"rank5", b"rank0") + filler(3, 3000)
    claims = read_paste([("log", data)], KNOWLEDGE.signatures, remarks.append, large=LARGE)
    (rank,) = [one for one in claims if one.name == "text.first_failing_rank"]
    assert (rank.value, rank.source.line) == (5, 3001)
    assert "rank 5 printed the first error, in line 3,001 of log; others followed it" in remarks


def test_a_million_different_errors_are_counted_to_a_limit_in_bounded_time() -> None:
    data = b"".join(b"RuntimeError: No CUDA GPUs are available in %d\n" % number for number in range(1_000_000))
    (first, *others) = [one for one in claims_of(data, "") if one.name == SIGNATURE]
    assert first.source.line == 1
    assert "and more, first here" in first.source.detail
    assert len(others) < 10

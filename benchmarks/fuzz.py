"""Random and mutated texts through decoding, cleaning, known outputs and signatures: python benchmarks/fuzz.py --inputs 100000

Every input must come back without an exception within a second. The same seed gives the same inputs; what fails is
printed as Python bytes. `--atheris` lets libFuzzer choose the inputs by what they reach, where atheris is installed.
"""

import argparse
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from troubleshooter.knowledge import load
from troubleshooter.paste import read_paste

FIXTURES = Path(__file__).parent.parent / "fixtures"
LONGEST = 1.0
"""Seconds that one input may take."""
PIECES = [
    b"\x1b[31m", b"\x1b]0;t\x07", b"\x1b", b"\r", b"\r\n", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"&lt;", b"&#x1b;", b"> ", b"```\n",
    b"[rank3]: ", b"(pid=1) ", b"#14 61.02 ", b"2026-03-01T12:00:00Z ", b"[  88.1] ", b"\xe2\x80\x9c", b"\xc3\xa2\xe2\x82\xac",
    b"99999999999999999999999", b"-1", b"1e999", b"0x", b"|" * 80, b"=" * 200, b" " * 300, b"a" * 500, b"\t" * 50, b"\n" * 50,
    b"+-----+\n", b"=>", b"==", b"{", b"[[", b"\\", b'"', b"'", b"%", b"\xd5\xd2\xb2\xbb\xb5\xbd", b"\xf0\x9f\x92\xa5", b"\xed\xa0\x80",
]  # fmt: skip


def seeds(literals: list[str]) -> list[bytes]:
    import yaml

    texts: list[bytes] = [literal.encode() for literal in literals]
    for path in sorted(FIXTURES.rglob("*.yaml")):
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        if isinstance(content, dict) and isinstance(content.get("text"), str):
            texts += [line.encode() for line in content["text"].split("\n") if line]
    return texts


def inputs(seed: int, count: int, lines: list[bytes]) -> Iterator[bytes]:
    rng = random.Random(seed)
    for _ in range(count):
        parts: list[bytes] = []
        for _ in range(rng.randrange(1, 7)):
            kind = rng.randrange(8)
            if kind < 5:
                line = bytearray(rng.choice(lines)[:600])
                for _ in range(rng.randrange(4) if line else 0):
                    at = rng.randrange(len(line) + 1)
                    what = rng.randrange(4)
                    if what == 0:
                        line[at:at] = rng.choice(PIECES)
                    elif what == 1:
                        del line[at : at + rng.randrange(1, 9)]
                    elif what == 2:
                        line[at:at] = rng.choice(lines)[: rng.randrange(40)]
                    else:
                        line[at : at + 1] = rng.randbytes(1)
                parts.append(bytes(line))
            elif kind < 7:
                parts.append(rng.choice(PIECES) * rng.randrange(1, 5))
            else:
                parts.append(rng.randbytes(rng.randrange(60)))
        text = rng.choice((b"\n", b"\n", b"\n", b"\r\n", b"\r", b"")).join(parts)
        how = rng.randrange(40)
        if how == 0:
            text = text.decode("utf-8", "replace").encode("utf-16")
        elif how == 1:
            text *= rng.randrange(2, 30)
        yield text


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--inputs", type=int, default=10_000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--atheris", action="store_true")
    given = options.parse_args()
    knowledge = load()
    signatures = tuple(knowledge.signatures)
    longest = 0.0
    failed = 0

    def one(data: bytes) -> None:
        nonlocal longest
        start = time.perf_counter()
        read_paste([("fuzz", data)], signatures)
        longest = max(longest, time.perf_counter() - start)

    if given.atheris:
        import atheris

        atheris.instrument_all()
        atheris.Setup(
            [sys.argv[0], f"-runs={given.inputs}", "-timeout=20", "-max_len=800", f"-seed={given.seed + 1}"], one
        )
        atheris.Fuzz()
        return 0
    began = time.perf_counter()
    lines = seeds([literal for signature in signatures for literal in signature.literals])
    for data in inputs(given.seed, given.inputs, lines):
        try:
            before = time.process_time()
            one(data)
            took = time.process_time() - before
        except Exception as error:
            failed += 1
            print(f"{type(error).__name__}: {error}\n  {data!r}", flush=True)
            continue
        if took > LONGEST:
            failed += 1
            print(f"{took:.2f} s\n  {data!r}", flush=True)
    took = time.perf_counter() - began
    print(f"{given.inputs:,} inputs, seed {given.seed}: {failed} failed, longest {longest:.2f} s, {took:.0f} s in all")
    return failed > 0


if __name__ == "__main__":
    raise SystemExit(main())

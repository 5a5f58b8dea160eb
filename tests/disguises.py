"""What happens to a text on its way to us: each function takes a pasted text and gives the bytes that arrive."""

import random
import re
import textwrap
from collections.abc import Callable

HEALTHY = [
    "epoch {n}: loss 0.{n:04d} lr 1.0e-04 throughput 1234.5 samples/s",
    "step {n} grad_norm 0.91 tokens_seen {n}000",
    "saved checkpoint to runs/exp/step_{n}.pt",
    "validation accuracy 0.8{n:03d}",
    "INFO dataloader: {n} batches prefetched",
]


def log_prefixes(text: str) -> bytes:
    lines = text.split("\n")
    return "\n".join(f"2025-03-14T07:12:{n % 60:02d}.118Z [rank3]: {line}" for n, line in enumerate(lines)).encode()


def container_prefixes(text: str) -> bytes:
    return "\n".join(f"trainer-1  | {line}" for line in text.split("\n")).encode()


def worker_prefixes(text: str) -> bytes:
    return "\n".join(f"(EngineCore_DP0 pid=151) {line}" for line in text.split("\n")).encode()


def cut_at_80(text: str) -> bytes:
    return "\n".join(
        piece for line in text.split("\n") for piece in ([line[i : i + 80] for i in range(0, len(line), 80)] or [""])
    ).encode()


def wrapped_at_80(text: str) -> bytes:
    return "\n".join(
        piece
        for line in text.split("\n")
        for piece in (textwrap.wrap(line, 80, drop_whitespace=True, break_on_hyphens=False) or [""])
    ).encode()


def colours(text: str) -> bytes:
    return "\n".join(f"\x1b[1;31m{line}\x1b[0m\x1b]0;title\x07" for line in text.split("\n")).encode()


def carriage_returns(text: str) -> bytes:
    return text.replace("\n", "\r\n").encode()


def quoted(text: str) -> bytes:
    return "\n".join(f"> {line}" for line in text.split("\n")).encode()


def utf_16(text: str) -> bytes:
    return text.encode("utf-16")


def utf_16_without_mark(text: str) -> bytes:
    return text.encode("utf-16-le")


def gbk(text: str) -> bytes:
    return ("用户粘贴的日志，程序运行错误\n" + text).encode("gb18030")


def fenced(text: str) -> bytes:
    return f"Here is what I get:\n```console\n{text}\n```\nAny idea?".encode()


def upper_case_paths(text: str) -> bytes:
    return re.sub(
        r"(?:/(?:home|opt|srv|data)/[\w.-]+)|[A-Za-z]:\\[\w.-]+", lambda found: found[0].upper(), text
    ).encode()


def in_a_long_log(text: str) -> bytes:
    chosen = random.Random(7)
    healthy = [chosen.choice(HEALTHY).format(n=n) for n in range(2000)]
    return "\n".join([*healthy[:1200], *text.split("\n"), *healthy[1200:]]).encode()


def in_html(text: str) -> bytes:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;").encode()


def typed_by_a_phone(text: str) -> bytes:
    return text.replace("'", "\u2019").replace('"', "\u201d").replace("--", "\u2014").encode()


DISGUISES: tuple[Callable[[str], bytes], ...] = (
    log_prefixes, container_prefixes, worker_prefixes, cut_at_80, wrapped_at_80, colours, carriage_returns, quoted, utf_16,
    utf_16_without_mark, gbk, fenced, upper_case_paths, in_a_long_log, in_html, typed_by_a_phone,
)  # fmt: skip

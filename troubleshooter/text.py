"""Bytes from anywhere to text, and text from anywhere to something a terminal can be trusted with."""

import re
from functools import cache

# An OSC, DCS, SOS, PM or APC string counts only with its end and within one line: one without must not hide what
# comes after it.
_ESCAPES = (
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROLS = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]+"


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Compiled at the first text that needs them, which few do: it takes a millisecond."""
    return re.compile(_ESCAPES), re.compile(_CONTROLS)


def decode(data: bytes) -> str:
    """UTF-16 where a byte order mark says so, else UTF-8, else the locale's encoding, else UTF-8 with replacements."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    import locale

    try:
        return data.decode(locale.getpreferredencoding(False))
    except (UnicodeDecodeError, LookupError):
        return data.decode("utf-8", "replace")


def clean(text: str) -> str:
    """The text without escape sequences, control characters (but newline and tab) and characters that turn the
    direction of writing; CRLF and a lone CR become a newline.

    Removing one sequence may bring the halves of another together; what is left of those is harmless, since the
    escape character itself is a control character and goes as well.
    """
    # Nothing that is to go counts as printable.
    if text.isprintable():
        return text
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    escapes, controls = _patterns()
    return controls.sub("", escapes.sub("", text))

"""What can go wrong, with its place and the way out. Rendering belongs to `report` and `cli`."""

from collections.abc import Iterable
from typing import NamedTuple

from .model import Location


class Problem(NamedTuple):
    """One mistake in a file or on the command line."""

    message: str
    at: Location
    hint: str = ""

    def __str__(self) -> str:
        place = ":".join(str(part) for part in self.at if part)
        text = f"{self.message}; {self.hint}" if self.hint else self.message
        return f"{place}: {text}" if place else text


class TroubleshooterError(Exception):
    """The person can mend this: exit code 2. Carries every problem found, not just the first."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class KnowledgeError(TroubleshooterError):
    """Rules or knowledge files that cannot be used."""


class UsageError(TroubleshooterError):
    """Arguments that make no sense, a file that is not there, a target that is no Python."""

    def __init__(self, message: str, hint: str = "", at: Location | None = None) -> None:
        super().__init__([Problem(message, at or Location(""), hint)])


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`did you mean 'driver.version'?`, or nothing where no known name is near."""
    import difflib  # two milliseconds, and needed only once something is wrong

    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else ""

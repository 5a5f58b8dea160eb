"""Our form of argparse: what is wrong with the arguments is a UsageError, and help is as wide as the terminal."""

import argparse
import os
from typing import Any, NoReturn

from .errors import UsageError


class _Help(argparse.HelpFormatter):
    """As wide as the terminal. Left to itself argparse imports shutil for that, with all compression libraries, and
    does so for every argument that is defined.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    try:
        return int(os.environ.get("COLUMNS") or os.get_terminal_size(1).columns) or 80
    except (ValueError, OSError):
        return 80


class Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": _Help, **options})

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, f"see {self.prog} --help")

"""Finds out why a GPU / PyTorch / CUDA installation does not work, and what to do about it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .interface import as_json, as_markdown, as_text, check, diagnose_text, load_knowledge

__version__ = "0.1.0"
__all__ = ["__version__", "as_json", "as_markdown", "as_text", "check", "diagnose_text", "load_knowledge"]


def __getattr__(name: str) -> object:
    # The command line starts without the interface, and each import counts there.
    if name in __all__:
        from . import interface

        return getattr(interface, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

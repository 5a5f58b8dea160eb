"""What is known, ready for a run: compiled if possible, from the YAML files if not, with a team's folders on top."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..model import Knowledge

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["load", "shipped_folder"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def shipped_folder() -> str:
    """The folder that holds `rules/` and `knowledge_base/`: inside an installed package, beside it in a checkout."""
    installed = os.path.join(_PACKAGE, "_shipped")
    return installed if os.path.isdir(installed) else os.path.dirname(_PACKAGE)


def load(
    extra: "Sequence[Path]" = (), built_in: "Path | None" = None, *, examples: bool = False, language: str = "en"
) -> Knowledge:
    """The built-in knowledge and that of `extra` folders, later ones added to earlier ones; its texts for people in
    `language`, as far as they are translated.

    The examples of built-in rules and signatures are there only with `examples` (or with a `built_in` folder): then all
    is read from YAML, otherwise only the extra folders are. Raises KnowledgeError with every problem of every file.
    """
    base = None
    if built_in is None and not examples:
        from .compiled import compiled_knowledge

        base = compiled_knowledge(shipped_folder(), language)
        if base is not None and not extra:
            return base
    from pathlib import Path

    from .sources import read_sources

    knowledge = read_sources(built_in or Path(shipped_folder()), extra, base)
    if language not in knowledge.translations:
        return knowledge
    from .translate import localized

    return localized(knowledge, knowledge.translations[language])

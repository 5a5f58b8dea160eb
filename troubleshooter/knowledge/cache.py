"""Where a checkout keeps its compiled knowledge: a folder of this user alone, one version of the sources per entry.

The name of an entry is taken from the names, sizes and times of all files that it depends on, so a change of any of
them makes another entry. Nothing is read from or written to a folder that another user could have written to, and
without such a folder the sources are read each time.
"""

import os
import stat
import sys
from collections.abc import Iterator

from ..model import Knowledge
from .compiled import CORE, FORMAT, read_compiled

_KEPT = 8
"""Entries: several checkouts may be in use at once, and each change makes a new one."""


def cached_knowledge(sources: str, language: str = "en") -> Knowledge | None:
    """The compiled knowledge of the folder `sources`, written first if need be; None if there is no place for it.

    Raises KnowledgeError for mistakes in the sources.
    """
    place = own_folder()
    if not place:
        return None
    entry = os.path.join(place, _key(sources))
    if os.path.isfile(os.path.join(entry, CORE)) and (found := read_compiled(entry, sources, language)):
        return found
    from pathlib import Path

    from .sources import read_sources
    from .translate import localized

    knowledge = read_sources(Path(sources))
    _keep(knowledge, place, entry)
    # As it will be read from now on, so that the first run is no different from the second.
    return read_compiled(entry, sources, language) or localized(knowledge, knowledge.translations.get(language, {}))


def own_folder() -> str:
    """Our folder in the user's cache, made if need be; empty where there can be none or it is not safe."""
    try:
        from platformdirs import user_cache_dir

        parent = user_cache_dir()
        folder = os.path.join(parent, "gpu-troubleshooter")
        if not os.path.isabs(parent):
            return ""
        if not os.path.isdir(folder):
            # As root in another user's home (sudo), nothing may be left that this user cannot remove.
            os.makedirs(parent, mode=0o700, exist_ok=True)
            if not _is_ours(parent):
                return ""
            os.mkdir(folder, 0o700)
        return folder if _is_ours(folder, alone=True) else ""
    except (OSError, ImportError):  # a checkout that is run without its dependencies has no cache, and works
        return ""


def _is_ours(folder: str, alone: bool = False) -> bool:
    """Whether it is a real folder of this user; `alone`: that nobody else may read or write."""
    found = os.lstat(folder)
    if sys.platform == "win32":  # the profile's access list does what owner and mode do elsewhere
        return stat.S_ISDIR(found.st_mode)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not (alone and found.st_mode & 0o077)


def _key(sources: str) -> str:
    from hashlib import sha256

    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    seen = [FORMAT, sources]
    for folder in (os.path.join(sources, "rules"), os.path.join(sources, "knowledge_base"), package):
        seen += _states(folder)
    return sha256("\n".join(seen).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _states(folder: str) -> Iterator[str]:
    """Name, size and time of every YAML file and Python module below a folder, in one order."""
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False):
                yield from _states(entry.path)
            elif entry.name.endswith((".yaml", ".py")):
                found = entry.stat()
                yield f"{entry.path}\0{found.st_size}\0{found.st_mtime_ns}"


def _keep(knowledge: Knowledge, place: str, entry: str) -> None:
    """Write an entry whole or not at all; a full disk or a read-only one is no reason to fail."""
    import shutil
    import tempfile

    from .compile import write_compiled

    try:
        made = tempfile.mkdtemp(prefix="new.", dir=place)
    except OSError:
        return
    try:
        write_compiled(knowledge, made)
        if os.path.isdir(entry) and read_compiled(entry, "") is None:
            shutil.rmtree(entry)
        os.rename(made, entry)  # fails where another process was faster: then its entry serves
        entries = sorted((found.stat().st_mtime, found.path) for found in os.scandir(place) if found.is_dir())
        for _, old in entries[:-_KEPT]:
            shutil.rmtree(old, ignore_errors=True)
    except OSError:
        shutil.rmtree(made, ignore_errors=True)

"""PE headers, read by pefile."""

import mmap
from typing import Any

from . import Library, Symbols, Wanted
from .reading import Unsound

_IMPORT, _EXPORT, _DELAY = 1, 0, 13
_MOST_SYMBOLS = 65_536
_LONGEST_NAME = 512


def headers(path: str, data: mmap.mmap) -> Library:
    """Raises an error of pefile for a file that is broken."""
    file = _file(data, symbols=False)
    return Library(
        path,
        "ok",
        format="pe",
        machine=f"0x{file.FILE_HEADER.Machine:04x}",
        bits=64 if file.OPTIONAL_HEADER.Magic == 0x20B else 32,
        soname=path.replace("\\", "/").rsplit("/", 1)[-1],
        needed=tuple(_text(entry.dll) for entry in getattr(file, "DIRECTORY_ENTRY_IMPORT", ())),
        delayed=tuple(_text(entry.dll) for entry in getattr(file, "DIRECTORY_ENTRY_DELAY_IMPORT", ())),
    )


def symbols(path: str, data: mmap.mmap) -> Symbols:
    """Raises as `headers` does. What is imported by number is left out."""
    file = _file(data, symbols=True)
    wanted = [
        Wanted(_text(one.name), file=_text(entry.dll))
        for entry in getattr(file, "DIRECTORY_ENTRY_IMPORT", ())
        for one in entry.imports
        if one.name and not one.name.startswith(b"?")
    ]
    exported = getattr(getattr(file, "DIRECTORY_ENTRY_EXPORT", None), "symbols", ())
    return Symbols(path, "ok", wanted=tuple(wanted), defined=frozenset(_text(one.name) for one in exported if one.name))


def _file(data: mmap.mmap, *, symbols: bool) -> Any:
    import pefile

    # It stops at 8192 imports; torch_python.dll has more.
    pefile.MAX_IMPORT_SYMBOLS = _MOST_SYMBOLS
    # fast_load: without it, all bytes of the file are counted, be they a gigabyte.
    file = pefile.PE(data=data, fast_load=True, max_symbol_exports=_MOST_SYMBOLS)
    file.parse_data_directories([_IMPORT, _DELAY, *([_EXPORT] if symbols else [])], import_dllnames_only=not symbols)
    for section in file.sections:
        if section.PointerToRawData + section.SizeOfRawData > len(data):
            raise Unsound("the file is cut short")
    return file


def _text(name: bytes) -> str:
    return name[:_LONGEST_NAME].decode("utf-8", "replace")

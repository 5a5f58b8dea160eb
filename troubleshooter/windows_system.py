"""Windows: the registry, and the version that a program or DLL states of itself. Values only; nothing here raises for
what it meets.
"""

import sys
from typing import TypeAlias

RegistryValue: TypeAlias = str | int | tuple[str, ...]
"""REG_SZ and REG_EXPAND_SZ (not expanded) are text, REG_DWORD and REG_QWORD numbers, REG_MULTI_SZ a tuple; anything
else is the hexadecimal text of its first 256 bytes."""

Told: TypeAlias = tuple[str, dict[str, RegistryValue], tuple[str, ...], str]
"""(ending, values, names of subkeys, reason) with the endings of `machine.Reading`."""

_MOST = 4096

if sys.platform == "win32":
    import ctypes
    import winreg
    from ctypes import wintypes

    _HIVES = {
        "HKLM": winreg.HKEY_LOCAL_MACHINE,
        "HKCU": winreg.HKEY_CURRENT_USER,
        "HKCR": winreg.HKEY_CLASSES_ROOT,
        "HKU": winreg.HKEY_USERS,
    }

    class _FixedInfo(ctypes.Structure):
        """VS_FIXEDFILEINFO, as far as the version goes."""

        _fields_ = (
            ("signature", wintypes.DWORD),
            ("structure", wintypes.DWORD),
            ("high", wintypes.DWORD),
            ("low", wintypes.DWORD),
        )

    def read_registry(path: str) -> Told:
        """One key, as 64-bit programs see it, without what lies below its subkeys."""
        hive, _, key = path.partition("\\")
        if hive.upper() not in _HIVES:
            return "failed", {}, (), f"{hive} is no hive"
        try:
            with winreg.OpenKey(_HIVES[hive.upper()], key, 0, winreg.KEY_READ | winreg.KEY_WOW64_64KEY) as opened:
                subkeys, values, _ = winreg.QueryInfoKey(opened)
                names = tuple(winreg.EnumKey(opened, number) for number in range(min(subkeys, _MOST)))
                found = (winreg.EnumValue(opened, number) for number in range(min(values, _MOST)))
                return "ok", {name: _value(value, kind) for name, value, kind in found}, names, ""
        except FileNotFoundError:
            return "missing", {}, (), "there is no such key"
        except PermissionError as error:
            return "denied", {}, (), error.strerror or "access is denied"
        except (OSError, ValueError) as error:
            return "failed", {}, (), str(error)

    def _value(value: object, kind: int) -> RegistryValue:
        if kind in (winreg.REG_SZ, winreg.REG_EXPAND_SZ):
            return str(value or "")
        if kind in (winreg.REG_DWORD, winreg.REG_QWORD):
            return value if isinstance(value, int) else 0
        if kind == winreg.REG_MULTI_SZ:
            return tuple(map(str, value)) if isinstance(value, list | tuple) else ()
        return value[:256].hex() if isinstance(value, bytes) else ""

    def read_file_version(path: str) -> tuple[str, str, str]:
        """(ending, version, reason) of a file's version resource: four numbers, 32.0.15.6094."""
        library = ctypes.WinDLL("version", use_last_error=True)
        library.GetFileVersionInfoSizeW.argtypes = (wintypes.LPCWSTR, wintypes.LPDWORD)
        library.GetFileVersionInfoSizeW.restype = wintypes.DWORD
        library.GetFileVersionInfoW.argtypes = (wintypes.LPCWSTR, wintypes.DWORD, wintypes.DWORD, wintypes.LPVOID)
        library.VerQueryValueW.argtypes = (
            wintypes.LPVOID,
            wintypes.LPCWSTR,
            ctypes.POINTER(wintypes.LPVOID),
            wintypes.LPDWORD,
        )
        if "\0" in path:
            return "failed", "", "the path holds a null character"
        size = library.GetFileVersionInfoSizeW(path, None)
        if not size:
            code = ctypes.get_last_error()
            if code in (2, 3, 15, 53, 67, 123, 161):  # no such file, folder, drive or name
                return "missing", "", ctypes.FormatError(code).strip()
            return ("denied" if code == 5 else "failed"), "", f"it states no version ({code})"
        data = ctypes.create_string_buffer(size)
        info, length = wintypes.LPVOID(), wintypes.DWORD()
        if (
            not library.GetFileVersionInfoW(path, 0, size, data)
            or not library.VerQueryValueW(data, "\\", ctypes.byref(info), ctypes.byref(length))
            or length.value < ctypes.sizeof(_FixedInfo)
            or not info.value
        ):
            return "failed", "", "its version resource cannot be read"
        fixed = _FixedInfo.from_address(info.value)
        numbers = (fixed.high >> 16, fixed.high & 0xFFFF, fixed.low >> 16, fixed.low & 0xFFFF)
        return "ok", ".".join(map(str, numbers)), ""

else:

    def read_registry(path: str) -> Told:  # noqa: ARG001  the same name on every system
        return "missing", {}, (), "this system has no registry"

    def read_file_version(path: str) -> tuple[str, str, str]:  # noqa: ARG001
        return "unknown", "", "version resources are read under Windows only"

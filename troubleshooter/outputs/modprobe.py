"""modprobe's settings and the kernel's command line: what they keep from being loaded, and with which options."""

import re
from collections.abc import Iterable

_BLACKLIST = re.compile(r"^[ \t]*blacklist[ \t]+(?P<name>[\w-]+)", re.MULTILINE)
# "install nouveau /bin/false" keeps it out as well; "alias nouveau off" likewise.
_INSTALL_NOTHING = re.compile(
    r"^[ \t]*(?:install[ \t]+(?P<name>[\w-]+)[ \t]+\S*/?(?:false|true)\b|alias[ \t]+(?P<alias>[\w-]+)[ \t]+off\b)",
    re.MULTILINE,
)
_OPTIONS = re.compile(r"^[ \t]*options[ \t]+(?P<name>[\w-]+)[ \t]+(?P<options>[^\n#]+)", re.MULTILINE)
_COMMAND_LINE = re.compile(r"(?:^|\s)(?:module_blacklist|modprobe\.blacklist|rd\.driver\.blacklist|rdblacklist)=(\S+)")


def blacklisted(text: str) -> set[str]:
    """Names of modules that a file of modprobe.d keeps from being loaded, with underscores."""
    found = {match["name"] for match in _BLACKLIST.finditer(text)}
    found |= {match["name"] or match["alias"] for match in _INSTALL_NOTHING.finditer(text)}
    return {name.replace("-", "_") for name in found}


def blacklisted_at_boot(command_line: str) -> set[str]:
    names = {name for match in _COMMAND_LINE.finditer(command_line) for name in match[1].split(",")}
    return {name.replace("-", "_") for name in names}


def options(text: str, modules: Iterable[str]) -> list[str]:
    """`module option=value` for each option of these modules."""
    wanted = set(modules)
    return [
        f"{match['name'].replace('-', '_')} {option}"
        for match in _OPTIONS.finditer(text)
        if match["name"].replace("-", "_") in wanted
        for option in match["options"].split()
    ]

"""Addresses without what only their owner may know. Imports nothing of ours."""

import re

# https://user:token@host/path, also without a user, also with a sign in the password that should have been encoded.
_USER = re.compile(r"(?P<scheme>\b[a-zA-Z][a-zA-Z0-9+.-]{1,20}://)[^/\s\"'?#]*@")
_SECRET_NAME = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|COOKIE|_PAT$|API_?KEY|_KEY$|KEY_ID", re.IGNORECASE)
_QUERY = re.compile(r"\?[^\s\"']*")
_HOST = re.compile(
    r"(?:(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]*)://)?(?:[^/\s]*@)?(?P<host>\[[0-9a-fA-F:.]+\]|[^/\s:@?#]+)(?P<port>:\d+)?"
)


def without_credentials(text: str) -> str:
    """Users, passwords and queries of addresses are cut out; the rest stays."""
    if "://" not in text:
        return text
    return _QUERY.sub("", _USER.sub(r"\g<scheme>", text))


def is_secret(variable: str) -> bool:
    """Whether a variable of this name is likely to hold a secret."""
    return bool(_SECRET_NAME.search(variable))


def host_only(address: str) -> str:
    """scheme://host:port of a proxy's address; empty if it is none."""
    found = _HOST.match(address.strip())
    if not found:
        return ""
    return (f"{found['scheme']}://" if found["scheme"] else "") + found["host"] + (found["port"] or "")

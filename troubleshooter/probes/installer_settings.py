"""Where pip, conda and uv were told to fetch packages from. Credentials in addresses are never kept."""

import posixpath
from collections.abc import Iterator

from ..credentials import without_credentials
from ..machine import Machine, Reading
from ..model import Claim, Source, absent, present, unknown
from ..outputs.installer_settings import Setting, read_condarc, read_pip_conf, read_uv_toml
from ..text import clean

NAME = "installer_settings"
FACTS = (
    "pip.index_url",
    "pip.extra_index_urls",
    "pip.constraints",
    "pip.no_index",
    "uv.index_url",
    "uv.extra_index_urls",
    "uv.torch_backend",
    "conda.channels",
    "installer.files",
)
_LIMIT = 256 * 1024


def probe(machine: Machine) -> Iterator[Claim]:
    if machine.platform == "win32":
        home = machine.environ.get("USERPROFILE", "")
        pip_places = [f"{machine.environ.get('APPDATA', '')}\\pip\\pip.ini", f"{home}\\pip\\pip.ini"]
        uv_places = [f"{machine.environ.get('APPDATA', '')}\\uv\\uv.toml"]
        conda_places = [f"{home}\\.condarc"]
        slash = "\\"
    else:
        home = machine.environ.get("HOME", "")
        config = machine.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
        # The later ones win, as with pip itself.
        pip_places = ["/etc/pip.conf", f"{home}/.pip/pip.conf", f"{config}/pip/pip.conf"]
        uv_places = ["/etc/uv/uv.toml", f"{config}/uv/uv.toml"]
        conda_places = ["/etc/conda/.condarc", "/opt/conda/.condarc", f"{home}/.condarc"]
        slash = "/"
    environ = machine.environ
    for prefix in filter(None, (environ.get("VIRTUAL_ENV"), environ.get("CONDA_PREFIX"))):
        pip_places.append(f"{prefix}{slash}pip.{'ini' if slash != '/' else 'conf'}")
        conda_places.append(f"{prefix}{slash}.condarc")
    if named := environ.get("PIP_CONFIG_FILE"):
        # os.devnull there turns all files off.
        pip_places = [] if named in ("/dev/null", "nul") else [*pip_places, named]
    if here := environ.get("PWD"):
        uv_places += [posixpath.join(here, "uv.toml"), posixpath.join(here, "pyproject.toml")]
    read: list[Reading] = []
    pip = list(_read(machine, pip_places, read))
    uv = list(_read(machine, uv_places, read))
    conda = list(_read(machine, conda_places, read))
    sure = any(reading.ok or reading.missing for reading in read)
    files = tuple(clean(reading.path) for reading in read if reading.ok)
    yield from _pip(machine, pip, sure)
    yield from _uv(machine, uv, sure)
    channels = [(s, source) for s, source in conda if s.name in ("channels", "default_channels")]
    yield from _texts("conda.channels", channels, sure)
    source = Source("probe", "file", "settings of pip, uv and conda")
    if files:
        yield present("installer.files", files, source)
    elif sure:
        yield absent("installer.files", source, "there are none in the usual places")


def _read(machine: Machine, places: list[str], read: list[Reading]) -> Iterator[tuple[Setting, Source]]:
    for place in dict.fromkeys(places):
        reading = machine.read(place, _LIMIT)
        name = place.replace("\\", "/").rsplit("/", 1)[-1]
        if name == "pyproject.toml":
            if "[tool.uv" not in reading.text:
                continue
            settings = read_uv_toml(reading.text, table="tool.uv")
        elif name == "uv.toml":
            settings = read_uv_toml(reading.text)
        elif name == ".condarc":
            settings = read_condarc(reading.text)
        else:
            settings = read_pip_conf(reading.text)
        read.append(reading)
        for setting in settings:
            yield Setting(setting.name, clean(setting.value)), reading.source


def _pip(machine: Machine, settings: list[tuple[Setting, Source]], sure: bool) -> Iterator[Claim]:
    yield from _last("pip.index_url", _variable(machine, "PIP_INDEX_URL") or _named(settings, "index-url"), sure)
    extra = _variable(machine, "PIP_EXTRA_INDEX_URL") or _named(settings, "extra-index-url")
    yield from _texts("pip.extra_index_urls", extra, sure)
    limits = _variable(machine, "PIP_CONSTRAINT") or _named(settings, "constraint")
    yield from _texts("pip.constraints", limits, sure)
    off = _variable(machine, "PIP_NO_INDEX") or _named(settings, "no-index")
    source = off[-1][1] if off else Source("probe", "file", "settings of pip")
    if off or sure:
        yield present("pip.no_index", bool(off) and off[-1][0].value.lower() in ("1", "true", "yes", "on"), source)


def _uv(machine: Machine, settings: list[tuple[Setting, Source]], sure: bool) -> Iterator[Claim]:
    index = (
        _variable(machine, "UV_DEFAULT_INDEX") or _variable(machine, "UV_INDEX_URL") or _named(settings, "index-url")
    )
    yield from _last("uv.index_url", index, sure)
    extra = (
        _variable(machine, "UV_INDEX")
        or _variable(machine, "UV_EXTRA_INDEX_URL")
        or _named(settings, "extra-index-url")
    )
    yield from _texts("uv.extra_index_urls", extra, sure)
    backend = _variable(machine, "UV_TORCH_BACKEND") or _named(settings, "torch-backend")
    yield from _last("uv.torch_backend", backend, sure)


def _named(settings: list[tuple[Setting, Source]], name: str) -> list[tuple[Setting, Source]]:
    return [(setting, source) for setting, source in settings if setting.name == name]


def _variable(machine: Machine, name: str) -> list[tuple[Setting, Source]]:
    """A variable goes before every file. Several values stand in one, parted by blanks."""
    source = Source("probe", "environment", name)
    values = clean(machine.environ.get(name, "")).split()
    return [(Setting(name, without_credentials(value)), source) for value in values]


def _last(name: str, found: list[tuple[Setting, Source]], sure: bool) -> Iterator[Claim]:
    if found:
        yield present(name, found[-1][0].value, found[-1][1])
    else:
        yield from _none(name, sure)


def _texts(name: str, found: list[tuple[Setting, Source]], sure: bool) -> Iterator[Claim]:
    if found:
        yield present(name, tuple(dict.fromkeys(setting.value for setting, _ in found))[:50], found[-1][1])
    else:
        yield from _none(name, sure)


def _none(name: str, sure: bool) -> Iterator[Claim]:
    source = Source("probe", "file", "settings of the installers")
    if sure:
        yield absent(name, source, "neither a variable nor a file sets it")
    else:
        yield unknown(name, "the files of settings could not be looked for", source)

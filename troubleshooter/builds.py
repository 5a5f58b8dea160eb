"""Which official builds of torch run on which machine, and why the others do not, as the tables have it.

Pure, and the only place that reads the tables of builds: `derive` states facts with it, `plan` lists all with it.
What is newer than the tables, or not confirmed in them, is never certain, neither way.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from .model import Table
from .versions import Order, cuda_of_tag, local, major, order, release, same

Row: TypeAlias = Mapping[str, object]
Tables: TypeAlias = Mapping[str, Table]

INDEX = "https://download.pytorch.org/whl/"
CPU = "cpu"

RUNS, OPEN, UNSURE, CANNOT = "runs", "open", "unsure", "cannot"
"""The answers on a build, from the best to the worst: it runs; it does if what is not known of the machine is so; the
tables do not know; it does not run."""

NOT_KNOWN_HERE = frozenset(
    ("system-not-known", "python-not-known", "glibc-not-known", "driver-not-known", "gpu-not-known")
)
NOT_KNOWN_TO_TABLES = frozenset(
    ("build-not-confirmed", "system-not-confirmed", "python-experimental", "driver-minimum-not-known", "ptx-only")
)
CAVEATS = frozenset(("cudnn-without-gpu",))
_NOT_SERVED = {"newer": "gpu-newer-than-build", "older": "gpu-older-than-build", "": "gpu-not-in-build"}
DRIVER_AND_GPU = frozenset(("driver-too-old-for-gpu", "driver-dropped-gpu"))
"""Reasons that no choice of a build can mend."""


class Place(NamedTuple):
    """What of a machine decides which builds run on it; empty is not known."""

    family: str = ""
    """linux, windows, wsl, macos."""
    processor: str = ""
    """As `uname -m` prints it."""
    capabilities: tuple[str, ...] = ()
    """Of its GPUs, each once."""
    without_gpu: bool = False
    """That there is no NVIDIA GPU is known."""
    driver: str = ""
    driver_cuda: str = ""
    """The newest CUDA that the driver supports."""
    python: str = ""
    python_bits: int = 0
    glibc: str = ""
    musl: bool = False

    @property
    def platform(self) -> str:
        """The column of the tables: linux, linux_aarch64, windows, macos."""
        if self.family in ("linux", "wsl"):
            return "linux_aarch64" if self.processor.lower() in ("aarch64", "arm64") else "linux"
        return self.family


class Reason(NamedTuple):
    """Why a build does not run, or on what that depends. The words for `id` are in report/plan_words.py."""

    id: str
    values: tuple[tuple[str, str | tuple[str, ...]], ...] = ()


class Build(NamedTuple):
    """An official build, and whether it runs on a machine."""

    torch: str
    tag: str
    status: str
    reasons: tuple[Reason, ...]
    torchvision: str
    """The release made for it; empty where none was."""
    torchaudio: str
    numpy: str
    """What NumPy it needs where not every one fits: `<2`."""

    @property
    def fits(self) -> bool:
        """As far as is known, with everything that belongs to it."""
        return self.status in (RUNS, OPEN) and not any(reason.id in CAVEATS for reason in self.reasons)

    @property
    def index_url(self) -> str:
        return f"{INDEX}{self.tag}"


def status_of(reasons: Collection[Reason]) -> str:
    ids = {reason.id for reason in reasons} - CAVEATS
    if ids - NOT_KNOWN_HERE - NOT_KNOWN_TO_TABLES:
        return CANNOT
    if ids & NOT_KNOWN_TO_TABLES:
        return UNSURE
    return OPEN if ids else RUNS


# --- builds ---------------------------------------------------------------------------------------


def builds(place: Place, tables: Tables, first: str = "", torchaudio: bool = False) -> Iterator[Build]:
    """Every build, the release `first` before the others, then the newest; within a release the newest CUDA first.

    With `torchaudio` builds whose index has it come before those of the same release that lack it.
    """
    releases = _newest_first(tables["torch_releases"])
    for row in sorted(releases, key=lambda row: not first or not same(str(row["release"]), first)):
        yield from builds_of(row, place, tables, torchaudio)


def builds_of(row: Row, place: Place, tables: Tables, torchaudio: bool = False) -> Iterator[Build]:
    """The builds of one release for CUDA; the one for processors where there is no NVIDIA GPU."""
    if place.without_gpu or place.family == "macos":
        yield judge(row, CPU, place, tables)
        return
    lacking = texts(row.get("without_torchaudio")) if torchaudio else ()
    tags = sorted(tags_of(row), key=_cuda_order, reverse=True)
    for tag in sorted(tags, key=lambda tag: tag in lacking):
        yield judge(row, tag, place, tables)


def best(found: Iterator[Build] | Sequence[Build], ignoring: Collection[str] = ()) -> Build | None:
    """The first that fits, else the first that runs with a caveat. Reasons named by `ignoring` do not count."""
    spare: Build | None = None
    for build in found:
        one = build
        if ignoring:
            left = tuple(reason for reason in build.reasons if reason.id not in ignoring)
            one = build._replace(status=status_of(left), reasons=left)
        if one.fits:
            return one
        if spare is None and one.status in (RUNS, OPEN):
            spare = one
    return spare


def judge(row: Row, tag: str, place: Place, tables: Tables) -> Build:
    """Whether the build `tag` of the release `row` runs on `place`, and every reason against it."""
    name = str(row["release"])
    reasons = [*_python(row, place), *_system(row, tag, place, tables)]
    if tag != CPU:
        reasons += _driver(tag, place, tables)
        reasons += _gpus(row, tag, place, tables)
    numpy2 = row.get("numpy2")
    column = "windows" if place.family == "windows" else "linux"
    return Build(
        torch=name,
        tag=tag,
        status=status_of(reasons),
        reasons=tuple(reasons),
        torchvision=str(row.get("torchvision") or ""),
        torchaudio="" if tag in texts(row.get("without_torchaudio")) else str(row.get("torchaudio") or ""),
        numpy="<2" if isinstance(numpy2, Mapping) and numpy2.get(column) is False else "",
    )


def tags_of(row: Row) -> tuple[str, ...]:
    """Builds for CUDA of a release, announced ones left out."""
    return (*texts(row.get("cuda_builds")), *texts(row.get("other_builds")))


def release_row(tables: Tables, wanted: str) -> Row | None:
    """The row of a release: of 2.5.1, 2.5.1+cu124; 2.5 is 2.5.0. None for a pre-release or a build of others."""
    if not (number := release(wanted)) or order(wanted) != order(number):
        return None
    wanted_order = _order(number)
    return next((row for row in tables["torch_releases"].rows if _order(str(row["release"])) == wanted_order), None)


def build_row(tables: Tables, wanted: str, tag: str) -> Row | None:
    """The row that says which GPUs a build has code for."""
    for row in tables["torch_builds"].rows:
        if row["tag"] == tag and wanted in texts(row["releases"]):
            return row
    return None


def official_row(tables: Tables, version: str, tag: str, platform: str) -> Row | None:
    """The row of an installed build. A version without a tag of its own (2.7.1 of CUDA 12.8) is the one that PyPI gives
    there, or one that others built, with other architectures: None.
    """
    row = release_row(tables, version)
    if row is None or not _is_official(version):
        return None
    default = row.get("pypi_default")
    if not local(version) and not (isinstance(default, Mapping) and default.get(platform) == tag):
        return None
    return build_row(tables, str(row["release"]), tag)


def _python(row: Row, place: Place) -> Iterator[Reason]:
    most = row.get("windows_python_max") if place.family == "windows" else None
    least, most = str(row["python_min"]), str(most or row["python_max"])
    if place.python_bits == 32:
        yield Reason("python-32-bit")
    if not place.python:
        yield Reason("python-not-known", (("least", least), ("most", most)))
        return
    short = _short(place.python)
    if not at_least(short, least):
        yield Reason("python-too-old", (("python", short), ("least", least)))
    elif short == row.get("python_experimental"):
        yield Reason("python-experimental", (("python", short), ("most", most)))
    elif not at_least(most, short):
        yield Reason("python-too-new", (("python", short), ("most", most)))


def _system(row: Row, tag: str, place: Place, tables: Tables) -> Iterator[Reason]:
    platform, name = place.platform, str(row["release"])
    if not platform:
        yield Reason("system-not-known")
        return
    if platform == "macos":
        if tag != CPU:
            yield Reason("no-cuda-on-macos")
        elif place.processor and place.processor not in texts(row.get("macos")):
            yield Reason("not-built-for-system", (("system", f"macOS {place.processor}"),))
        return
    made = build_row(tables, name, tag) if tag != CPU else None
    if platform != "windows":
        yield from _glibc(str((made or row).get("glibc_min") or row["glibc_min"]), place)
    if tag == CPU:
        return
    if made is None or not made.get("confirmed") or tag not in texts(row.get("cuda_builds")):
        yield Reason("build-not-confirmed")
    elif platform in texts(made.get("unconfirmed_on")):
        yield Reason("system-not-confirmed", (("system", platform),))
    if made is not None and made.get(platform) is None:
        # Which builds there are for Windows is known of every release; for ARM it is known of some.
        known = platform == "windows"
        yield Reason("not-built-for-system" if known else "system-not-confirmed", (("system", platform),))


def serves_python(wanted: str, place: Place, tables: Tables) -> Reason | None:
    """Why a release has no wheel for a Python; None where it has one or the tables do not know."""
    rows = _newest_first(tables["torch_releases"])
    row, number = release_row(tables, wanted), release(wanted)
    if row is None and number and not at_least(number, str(rows[-1]["release"])):
        # What is older than the table serves no Python that its oldest release does not.
        row, only = rows[-1], "python-too-new"
    elif row is None and number and not at_least(str(rows[0]["release"]), number):
        row, only = rows[0], "python-too-old"
    elif row is None or not place.python:
        return None
    else:
        only = ""
    found = next((one for one in _python(row, place) if one.id in ("python-too-old", "python-too-new")), None)
    return found if found and only in ("", found.id) else None


def _glibc(least: str, place: Place) -> Iterator[Reason]:
    if place.musl:
        yield Reason("musl", (("least", least),))
    elif not place.glibc:
        yield Reason("glibc-not-known", (("least", least),))
    elif not at_least(place.glibc, least):
        yield Reason("glibc-too-old", (("glibc", place.glibc), ("least", least)))


def _driver(tag: str, place: Place, tables: Tables) -> Iterator[Reason]:
    row = row_of_cuda(tables["driver_minimums"], cuda_of_tag(tag))
    if row is None:
        yield Reason("driver-minimum-not-known", (("cuda", cuda_of_tag(tag)),))
        return
    floor = least = str(row["linux" if place.family in ("linux", "") else "windows"])
    for capability in place.capabilities:
        generation = generation_of(tables, capability)
        if generation is None:
            continue
        last = generation.get("last_driver")
        first = str(generation.get("first_driver") or "")
        without = branch_after(str(last), tables) if last else ""
        if place.driver and without and at_least(place.driver, without):
            values = (("driver", place.driver), ("last", str(last)), ("capability", capability))
            yield Reason("driver-dropped-gpu", values)
        elif place.driver and first and not at_least(place.driver, first):
            values = (("driver", place.driver), ("least", first), ("capability", capability))
            yield Reason("driver-too-old-for-gpu", values)
        elif first and not at_least(least, first):
            least = first
    if place.driver:
        if not at_least(place.driver, floor):
            yield Reason("driver-too-old", (("driver", place.driver), ("least", floor)))
    elif place.driver_cuda:
        if not at_least(place.driver_cuda, cuda_of_row(row)):
            yield Reason("driver-cuda-too-old", (("cuda", place.driver_cuda), ("least", cuda_of_row(row))))
    else:
        yield Reason("driver-not-known", (("least", least),))


def _gpus(row: Row, tag: str, place: Place, tables: Tables) -> Iterator[Reason]:
    made = build_row(tables, str(row["release"]), tag)
    codes = codes_of(made, place.platform) if made else ()
    if not codes:
        return  # `_system` has said why
    if not place.capabilities:
        yield Reason("gpu-not-known", (("codes", codes),))
        return
    cuda = cuda_of_tag(tag)
    machine_code = tuple(code for code in codes if code.startswith("sm_"))
    for capability in place.capabilities:
        if any(runs_on(code, capability, cuda, tables) for code in machine_code):
            cudnn = row.get("cudnn")
            yield from _cudnn(str(cudnn.get(tag) or "") if isinstance(cudnn, Mapping) else "", capability, tables)
        elif any(runs_on(code, capability, cuda, tables) for code in codes):
            # The driver compiles PTX only of a CUDA that it supports itself, and NVIDIA's libraries may have none.
            supported = _cuda_of_driver(place, tables)
            if supported and not at_least(supported, cuda):
                yield Reason(
                    "ptx-needs-newer-driver", (("capability", capability), ("cuda", supported), ("least", cuda))
                )
            else:
                yield Reason("ptx-only", (("capability", capability),))
        else:
            yield Reason(_NOT_SERVED[beside(capability, machine_code)], (("capability", capability), ("codes", codes)))


def _cudnn(version: str, capability: str, tables: Tables) -> Iterator[Reason]:
    if not version or "cudnn" not in tables:
        return
    for line in tables["cudnn"].rows:
        below = line.get("below")
        if at_least(version, str(line["since"])) and not (below and at_least(version, str(below))):
            least = str(line["capability_min"])
            if line.get("confirmed") and not at_least(capability, least):
                yield Reason("cudnn-without-gpu", (("cudnn", version), ("capability", capability), ("least", least)))
            return


def beside(capability: str, codes: Sequence[str]) -> str:
    """`newer` or `older` for a GPU above or below all that code was made for; empty for one amid them."""
    numbers = sorted((own for code in codes if (own := _capability_of(code))), key=_order)
    if not numbers or not order(capability):
        return ""
    return (
        ""
        if at_least(numbers[-1], capability) and at_least(capability, numbers[0])
        else ("older" if at_least(numbers[-1], capability) else "newer")
    )


# --- a build that is asked for --------------------------------------------------------------------


class Existence(NamedTuple):
    """Whether an official build exists: yes, no or unknown, and what the tables have instead."""

    answer: str
    reason: Reason


def existence(wanted: str, tag: str, tables: Tables) -> Existence:
    """`wanted` is a release, with or without a local tag; an empty `tag` asks for the release alone."""
    table = tables["torch_releases"]
    number, row = release(wanted), release_row(tables, wanted)
    tag = tag or local(wanted)
    rows = _newest_first(table)
    having = [str(one["release"]) for one in reversed(rows) if tag in (*tags_of(one), *_rocm_tags(one))]
    if row is None:
        newest, oldest = str(rows[0]["release"]), str(rows[-1]["release"])
        if not number or order(wanted) != order(number):
            return Existence("unknown", Reason("no-release", (("torch", wanted),)))
        if not at_least(newest, number):
            return Existence("unknown", Reason("release-newer-than-tables", (("torch", number), ("newest", newest))))
        if not at_least(number, oldest):
            if having and having[0] != oldest:
                return _never(number, tag, (), having)
            return Existence("unknown", Reason("release-older-than-tables", (("torch", number), ("oldest", oldest))))
        near = tuple(str(one["release"]) for one in rows if same_line(str(one["release"]), number))
        return Existence("no", Reason("release-never-made", (("torch", number), ("near", near))))
    name = str(row["release"])
    if not tag or tag == CPU:
        return Existence("yes", Reason("release-exists", (("torch", name), ("tags", tags_of(row)))))
    tags = _rocm_tags(row) if tag.startswith("rocm") else tags_of(row)
    asked = _asked(name, tag, tags)
    if tag in (*texts(row.get("announced_builds")), *texts(row.get("other_builds"))) or not tags:
        return Existence("unknown", Reason("build-not-met", asked))
    if tag in tags:
        made = build_row(tables, name, tag)
        sure = tag.startswith("rocm") or (made is not None and bool(made.get("confirmed")))
        return Existence("yes" if sure else "unknown", Reason("build-exists" if sure else "build-not-met", asked))
    if having:
        return _never(name, tag, tags, having)
    highest = max(_cuda_order(one) for row in rows for one in tags_of(row))
    if not cuda_of_tag(tag) or _cuda_order(tag) > highest:
        return Existence("unknown", Reason("tag-not-known", asked))
    return Existence("no", Reason("build-never-made", asked))


def _rocm_tags(row: Row) -> tuple[str, ...]:
    return tuple(f"rocm{one}" for one in texts(row.get("rocm_builds")))


def _never(name: str, tag: str, tags: tuple[str, ...], having: Sequence[str]) -> Existence:
    """`having`: the releases that have the tag, the oldest first."""
    asked = _asked(name, tag, tags)
    if not at_least(name, having[0]):
        return Existence("no", Reason("build-begins-later", (*asked, ("since", having[0]))))
    if not at_least(having[-1], name):
        return Existence("no", Reason("build-ended-before", (*asked, ("until", having[-1]))))
    return Existence("no", Reason("build-never-made", asked))


def _asked(name: str, tag: str, tags: tuple[str, ...]) -> tuple[tuple[str, str | tuple[str, ...]], ...]:
    return (("torch", name), ("tag", tag), ("tags", tags))


# --- what belongs to a release --------------------------------------------------------------------

COMPANIONS = ("torchvision", "torchaudio", "numpy", "triton")

_OFFICIAL_TAGS = ("cu", "cpu", "rocm", "xpu")


def companion_fits(package: str, version: str, torch: str, family: str, tables: Tables) -> bool | None:
    """Whether `package` in `version` was made for that torch; None: it was built by others, or the tables do not know.

    A difference in the last number alone is left open: it breaks the requirement and mostly nothing else.
    """
    row, number = release_row(tables, torch), order(version)
    if row is None or number is None or not _is_official(torch):
        return None
    if package == "numpy":
        works = row.get("numpy2")
        column = "windows" if family == "windows" else "linux"
        if number[0][0] < 2:
            return True
        return None if number[0][0] > 2 or not isinstance(works, Mapping) else bool(works.get(column))
    if number != order(release(version)):
        return None
    if package == "triton":
        return _follows(version, str(row["triton"])) if row.get("triton") else None
    tag, torch_tag = local(version), local(torch)
    known = [str(one[package]) for one in tables["torch_releases"].rows if one.get(package)]
    if tag and torch_tag and tag != torch_tag:
        return False if _is_official(version) else None
    wanted = (str(row[package]), *texts(row.get(f"also_{package}"))) if row.get(package) else ()
    if any(same(release(version), one) for one in wanted):
        return True
    if not wanted or any(same_line(release(version), one) for one in wanted):
        return None
    return None if not any(at_least(one, release(version)) for one in known) else False


def _is_official(version: str) -> bool:
    """Whether a version's tag is one that the project itself gives: not NVIDIA's, not a distribution's."""
    return local(version).startswith(_OFFICIAL_TAGS) if local(version) else True


def _follows(version: str, required: str) -> bool | None:
    """Whether a version is the required one, or within `~=`; None where only its last number differs."""
    wanted = required.lstrip("~=")
    if same(version, wanted) or (
        required.startswith("~=") and same_line(version, wanted) and at_least(version, wanted)
    ):
        return True
    return None if same_line(version, wanted) else False


# --- building extensions --------------------------------------------------------------------------


def nvcc_row(tables: Tables, version: str) -> Row | None:
    short = _short(version)
    return next((row for row in tables["nvcc"].rows if same(str(row["cuda"]), short)), None) if short else None


def nvcc_targets(row: Row, capability: str) -> bool:
    """Whether that nvcc can make code for the very architecture of a GPU, which is what torch's builder asks for."""
    if targets := texts(row.get("targets")):
        return "".join(capability.split(".")) in targets
    return at_least(capability, str(row["capability_min"])) and at_least(str(row["capability_max"]), capability)


# --- drivers and GPUs -----------------------------------------------------------------------------


def row_of_cuda(table: Table, cuda: str) -> Row | None:
    """The row of this CUDA's major version, or of major.minor before CUDA 11; only confirmed ones."""
    for row in table.rows:
        named = str(row["cuda"])
        if row.get("confirmed") and (named == major(cuda) or same(named, cuda)):
            return row
    return None


def cuda_of_row(row: Row) -> str:
    """`12.0` of the row for all of CUDA 12."""
    named = str(row["cuda"])
    return named if "." in named else f"{named}.0"


def branch_of(version: str, table: Table) -> Row | None:
    """The newest branch that does not lie above the driver; none for a driver newer than the table.

    Windows drivers of a branch carry numbers from the branch up to just below the next one.
    """
    number = order(version)
    branches = sorted(table.rows, key=lambda row: _order(str(row["branch"])), reverse=True)
    # A driver number of the newest branch is known up to the spacing of branches (5); above it is a newer one.
    if number is None or not branches or number[0][0] > int(str(branches[0]["branch"])) + 4:
        return None
    return next((row for row in branches if _order(str(row["branch"])) <= number), None)


def branch_after(branch: str, tables: Tables) -> str:
    """The next branch of the table: the first whose drivers leave out a GPU that `branch` was the last for. Empty if
    the table ends there.
    """
    later = [str(row["branch"]) for row in tables["driver_branches"].rows if not at_least(branch, str(row["branch"]))]
    return min(later, key=_order, default="")


def _cuda_of_driver(place: Place, tables: Tables) -> str:
    """The newest CUDA that the driver supports; empty if neither it nor the branch is known."""
    if place.driver_cuda or not place.driver:
        return place.driver_cuda
    row = branch_of(place.driver, tables["driver_branches"])
    return str(row["cuda"]) if row and row.get("cuda") and row.get("confirmed") else ""


def generation_of(tables: Tables, capability: str) -> Row | None:
    for row in tables["gpu_generations"].rows:
        if row.get("confirmed") and same(str(row["capability"]), capability):
            return row
    return None


def codes_of(row: Row, platform: str) -> tuple[str, ...]:
    """`sm_80` and `compute_90` texts as torch.cuda.get_arch_list() prints them."""
    return (
        *(f"sm_{code}" for code in texts(row.get(platform))),
        *(f"compute_{code}" for code in texts(row.get(f"{platform}_ptx"))),
    )


def _digits(code: str) -> str:
    """`90` of sm_90, sm_90a and compute_90."""
    return "".join(character for character in code.partition("_")[2] if character.isdecimal())


def _capability_of(code: str) -> str:
    """`9.0` of sm_90a; empty for what names no architecture."""
    digits = _digits(code)
    return f"{digits[:-1]}.{digits[-1]}" if len(digits) > 1 else ""


def runs_on(code: str, capability: str, cuda: str, tables: Tables) -> bool:
    """Torch's own rule: machine code runs on its major version from its minor on; PTX on everything from it on."""
    digits, own = _digits(code), _capability_of(code)
    if not own or not order(capability):
        return False
    if code.startswith("compute"):
        return at_least(capability, own)
    rule = next((row for row in tables["code_runs_on"].rows if row["code"] == digits), None)
    if rule is not None and (only := texts(rule.get("only"))):
        return any(same(one, capability) for one in only)
    spared = texts(rule.get("except")) if rule else ()
    if rule and "except_from_cuda_13_2" in rule and cuda and at_least(cuda, "13.2"):
        spared = texts(rule["except_from_cuda_13_2"])
    least = str(rule["min"]) if rule and rule.get("min") else own
    fits = major(capability) == major(least) and at_least(capability, least)
    return fits and not any(same(one, capability) for one in spared)


# --- values ---------------------------------------------------------------------------------------


def texts(value: object) -> tuple[str, ...]:
    return tuple(str(one) for one in value) if isinstance(value, (tuple, list)) else ()


def at_least(version: str, floor: str) -> bool:
    left, right = order(version), order(floor)
    return left is not None and right is not None and left >= right


def same_line(left: str, right: str) -> bool:
    """2.5.0 and 2.5.1: alike but for the last number."""
    return _short(left) == _short(right)


def _short(version: str) -> str:
    """`3.11` of 3.11.9."""
    return ".".join(release(version).split(".")[:2])


def _order(text: str) -> Order:
    return order(text) or ((), (0, 0))


def _cuda_order(tag: str) -> Order:
    return _order(cuda_of_tag(tag))


def _newest_first(table: Table) -> list[Row]:
    rows = [row for row in table.rows if row.get("confirmed")]
    return sorted(rows, key=lambda row: _order(str(row["release"])), reverse=True)

"""What the compatibility tables say of the facts: new facts that name the facts and the table they rest on.

Pure. What is newer than the tables, or not confirmed in them, is left unknown. Nothing here overrides what was seen.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from .model import ABSENT, HOST, PRESENT, UNKNOWN, Fact, Source, Table, Value
from .settle import Facts
from .versions import Order, cuda_of_tag, local, major, order, release, same

Row: TypeAlias = Mapping[str, object]
Tables: TypeAlias = Mapping[str, Table]

INDEX = "https://download.pytorch.org/whl/"


def derive(facts: Facts, tables: Tables) -> Facts:
    """The facts and all that the tables add to them."""
    for step in _STEPS:
        facts = facts.adding(step(facts, tables))
    return facts


class _Given(NamedTuple):
    """A derived fact in the making: where it was read, and the ids of the facts that led there."""

    table: Table | None
    bases: tuple[str, ...]

    def fact(self, name: str, value: Value | None, subject: str = HOST, reason: str = "") -> Fact:
        detail = f"{self.table.meaning} ({self.table.source}, {self.table.checked})" if self.table else "worked out"
        source = Source("table", "table", detail, self.table.name if self.table else "")
        return Fact(name, subject, ABSENT if value is None else PRESENT, value, source, reason, bases=self.bases)


def _build(facts: Facts, _: Tables) -> Iterator[Fact]:
    """What the local tag of torch's version says: 2.5.1+cu124 was built for CUDA 12.4."""
    version = facts.text("torch.version")
    tag = facts.text("torch.tag") or local(version)
    if not tag:
        return
    given = _Given(None, ("torch.version@host",))
    kind = next((kind for kind in ("cpu", "rocm", "xpu") if tag.startswith(kind)), "")
    cuda = cuda_of_tag(tag)
    if not kind and not cuda:
        return
    yield given.fact("torch.tag", tag)
    yield given.fact("torch.build", kind or "cuda")
    if cuda:
        yield given.fact("torch.cuda", cuda)


def _tag(facts: Facts, _: Tables) -> Iterator[Fact]:
    """cu124 of CUDA 12.4: the build that torch itself names, where its version has no local tag."""
    if cuda := facts.text("torch.cuda"):
        numbers = (order(cuda) or ((), None))[0]
        minor = numbers[1] if len(numbers) > 1 else 0
        yield _Given(None, ("torch.cuda@host",)).fact("torch.tag", f"cu{major(cuda)}{minor}")


def _driver_floor(facts: Facts, tables: Tables) -> Iterator[Fact]:
    """Which driver the installed build starts on."""
    cuda, platform = facts.text("torch.cuda"), facts.text("os.family")
    if not cuda or facts.text("torch.build") not in ("", "cuda") or not (table := tables.get("driver_minimums")):
        return
    row = _row_of_cuda(table, cuda)
    if row is None:
        return
    given = _Given(table, ("torch.cuda@host",))
    if platform in ("linux", "windows", "wsl"):
        column = "linux" if platform == "linux" else "windows"
        yield given.fact("torch.min_driver", str(row[column]))
    yield given.fact("torch.min_driver_cuda", str(row["cuda"]) if "." in str(row["cuda"]) else f"{row['cuda']}.0")


def _row_of_cuda(table: Table, cuda: str) -> Row | None:
    """The row of this CUDA's major version, or of major.minor before CUDA 11; only confirmed ones."""
    for row in table.rows:
        named = str(row["cuda"])
        if row.get("confirmed") and (named == major(cuda) or same(named, cuda)):
            return row
    return None


def _driver_branch(facts: Facts, tables: Tables) -> Iterator[Fact]:
    version = facts.text("driver.version")
    if not version or not (table := tables.get("driver_branches")):
        return
    branch = _branch_of(version, table)
    given = _Given(table, ("driver.version@host",))
    if branch:
        yield given.fact("driver.branch", str(branch["branch"]))
        if branch.get("cuda") and branch.get("confirmed"):
            yield given.fact("driver.cuda_version", str(branch["cuda"]))


def _branch_of(version: str, table: Table) -> Row | None:
    """The newest branch that does not lie above the driver; none for a driver newer than the table.

    Windows drivers of a branch carry numbers from the branch up to just below the next one.
    """
    number = order(version)
    branches = sorted(table.rows, key=lambda row: order(str(row["branch"])) or ((), (0, 0)), reverse=True)
    if number is None or not branches or number[0][0] > _newest_known(branches):
        return None
    return next((row for row in branches if (order(str(row["branch"])) or number) <= number), None)


def _newest_known(branches: list[Row]) -> int:
    """A driver number of the newest branch is known up to the spacing of branches (5); above it is a newer one."""
    return int(str(branches[0]["branch"])) + 4


def _gpus(facts: Facts, tables: Tables) -> Iterator[Fact]:
    """Capability by product name, generation and driver branches by capability."""
    gpus = facts.subjects("gpu")
    if not gpus:
        return
    named, generations = tables.get("gpus"), tables.get("gpu_generations")
    for gpu in gpus:
        capability = facts.text("gpu.capability", gpu)
        bases = (f"gpu.capability@{gpu}",)
        if not capability and named and (row := _row_of_gpu(named, facts.text("gpu.name", gpu))):
            capability = str(row["capability"])
            bases = (f"gpu.name@{gpu}",)
            yield _Given(named, bases).fact("gpu.capability", capability, gpu)
        if not capability or not generations:
            continue
        for row in generations.rows:
            if same(str(row["capability"]), capability) and row.get("confirmed"):
                given = _Given(generations, bases)
                yield given.fact("gpu.architecture", str(row["architecture"]), gpu)
                if first := row.get("first_driver"):
                    yield given.fact("gpu.first_driver", str(first), gpu)
                last = row.get("last_driver")
                yield given.fact("gpu.last_driver", str(last) if last else None, gpu)


def _row_of_gpu(table: Table, name: str) -> Row | None:
    """The product, with NVIDIA's brand words, memory size and form factor left out of the comparison."""
    wanted = plain_name(name)
    if not wanted:
        return None
    rows = [(row, plain_name(str(row["name"]))) for row in table.rows if row.get("confirmed")]
    exact = [row for row, plain in rows if plain == wanted]
    # "V100" and "RTX 6000 Ada" leave words out: every product that begins so, if all agree.
    longer = [row for row, plain in rows if plain.startswith(f"{wanted} ")]
    # "A100-SXM4-80GB MIG 1g.10gb" has words that no product has: the longest product that begins the name.
    shorter = [(len(plain), row) for row, plain in rows if wanted.startswith(f"{plain} ")]
    found = exact or longer or [row for length, row in shorter if length == max(length for length, _ in shorter)]
    capabilities = {str(row["capability"]) for row in found}
    return found[0] if len(capabilities) == 1 else None


def plain_name(name: str) -> str:
    words = name.lower().replace("(r)", " ").replace("-", " ").replace("_", " ").split()
    return " ".join(word for word in words if word not in ("nvidia", "geforce", "tesla", "quadro", "graphics"))


def _kernels(facts: Facts, tables: Tables) -> Iterator[Fact]:
    """Whether the installed build has code for each GPU: by its own list of architectures, else by the table's."""
    if not facts.subjects("gpu"):
        return
    archs = facts.value("torch.archs")
    base, table = "torch.archs@host", tables.get("code_runs_on")
    codes: list[str]
    if isinstance(archs, tuple) and archs:
        codes = list(archs)
    else:
        row = _row_of_build(tables, release(facts.text("torch.version")), facts.text("torch.tag"))
        codes = _codes(row, _platform(facts)) if row else []
        base, table = "torch.version@host", tables.get("torch_builds")
    if not codes or table is None:
        return
    highest = max((_code_order(code) for code in codes), default=None)
    lowest = min((_code_order(code) for code in codes), default=None)
    for gpu in facts.subjects("gpu"):
        capability = order(facts.text("gpu.capability", gpu))
        if capability is None or highest is None or lowest is None:
            continue
        given = _Given(table, (base, f"gpu.capability@{gpu}"))
        runs = any(
            _runs_on(code, facts.text("gpu.capability", gpu), facts.text("torch.cuda"), tables) for code in codes
        )
        yield given.fact("gpu.has_kernels", runs, gpu)
        yield given.fact("gpu.newer_than_build", not runs and capability[0] > highest, gpu)
        yield given.fact("gpu.older_than_build", not runs and capability[0] < lowest, gpu)


def _codes(row: Row, platform: str) -> list[str]:
    """`sm_80` and `compute_90` texts as torch.cuda.get_arch_list() prints them."""
    return [f"sm_{code}" for code in _texts(row.get(platform))] + [
        f"compute_{code}" for code in _texts(row.get(f"{platform}_ptx"))
    ]


def _texts(value: object) -> tuple[str, ...]:
    return tuple(str(one) for one in value) if isinstance(value, (tuple, list)) else ()


def _digits(code: str) -> str:
    """`90` of sm_90, sm_90a and compute_90."""
    return "".join(character for character in code.partition("_")[2] if character.isdecimal())


def _code_order(code: str) -> tuple[int, ...]:
    digits = _digits(code)
    return (int(digits[:-1]), int(digits[-1])) if len(digits) > 1 else (0,)


def _runs_on(code: str, capability: str, cuda: str, tables: Tables) -> bool:
    """Torch's own rule: machine code runs on its major version from its minor on; PTX on everything from it on."""
    digits, wanted = _digits(code), order(capability)
    if len(digits) < 2 or wanted is None:
        return False
    number = ((*_code_order(code),), (9, 0))
    if code.startswith("compute"):
        return _stripped(number) <= wanted
    rule = next((row for row in tables["code_runs_on"].rows if row["code"] == digits), None)
    if rule is not None and (only := _texts(rule.get("only"))):
        return any(same(one, capability) for one in only)
    spared = _texts(rule.get("except")) if rule else ()
    since = order(cuda)
    if rule and "except_from_cuda_13_2" in rule and since is not None and since >= ((13, 2), (9, 0)):
        spared = _texts(rule["except_from_cuda_13_2"])
    minimum = str(rule["min"]) if rule and rule.get("min") else f"{digits[:-1]}.{digits[-1]}"
    least = order(minimum)
    fits = least is not None and least[0][0] == wanted[0][0] and least <= wanted
    return fits and not any(same(one, capability) for one in spared)


def _stripped(number: Order) -> Order:
    parts = number[0]
    return (parts[:-1] if len(parts) > 1 and parts[-1] == 0 else parts), number[1]


def _platform(facts: Facts) -> str:
    """The column of the build tables: linux, linux_aarch64, windows; empty where there are no CUDA builds."""
    family, machine = facts.text("os.family"), facts.text("os.architecture").lower()
    if family in ("linux", "wsl"):
        return "linux_aarch64" if machine in ("aarch64", "arm64") else "linux"
    return family if family == "windows" else ""


def _row_of_build(tables: Tables, wanted: str, tag: str) -> Row | None:
    if not wanted or not tag or not (table := tables.get("torch_builds")):
        return None
    for row in table.rows:
        if row.get("confirmed") and row["tag"] == tag and wanted in _texts(row["releases"]):
            return row
    return None


def _release(facts: Facts, tables: Tables) -> Iterator[Fact]:
    version = facts.text("torch.version")
    if version and (table := tables.get("torch_releases")):
        known = any(row["release"] == release(version) for row in table.rows)
        yield _Given(table, ("torch.version@host",)).fact("torch.release_known", known)


def _plan(facts: Facts, tables: Tables) -> Iterator[Fact]:
    """The build to install: of the installed release if one fits these GPUs and this driver, else the newest that does.

    Without knowing the GPUs nothing is planned: a build that starts and has no code for the card helps nobody.
    """
    platform = _platform(facts)
    gpus = [gpu for gpu in facts.subjects("gpu") if facts.text("gpu.capability", gpu)]
    if not platform or not gpus:
        return
    releases, builds, minimums = (tables.get(name) for name in ("torch_releases", "torch_builds", "driver_minimums"))
    if not releases or not builds or not minimums:
        return
    capabilities = [facts.text("gpu.capability", gpu) for gpu in gpus]
    driver, python = facts.text("driver.version"), facts.text("python.version")
    bases = tuple(
        found.id
        for name in ("driver.version", "python.version", "torch.version")
        if (found := facts.fact(name)) and found.state != UNKNOWN
    ) + tuple(f"gpu.capability@{gpu}" for gpu in gpus)

    def fits(row: Row, tag: str) -> bool:
        build = next(
            (one for one in builds.rows if one["tag"] == tag and row["release"] in _texts(one["releases"])), None
        )
        if build is None or not build.get("confirmed"):
            return False
        # PTX is left out: it needs the toolkit's own driver and minutes at every first start.
        codes = [code for code in _codes(build, platform) if code.startswith("sm_")]
        cuda = cuda_of_tag(tag)
        if not all(any(_runs_on(code, one, cuda, tables) for code in codes) for one in capabilities):
            return False
        floor = _row_of_cuda(minimums, cuda)
        column = "linux" if facts.text("os.family") == "linux" else "windows"
        return not driver or (floor is not None and _at_least(driver, str(floor[column])))

    def best_tag(row: Row) -> str:
        tags = [str(tag) for tag in _texts(row["cuda_builds"]) if fits(row, str(tag))]
        return max(tags, key=lambda tag: order(cuda_of_tag(tag)) or ((), (0, 0)), default="")

    usable = [row for row in releases.rows if row.get("confirmed") and _serves_python(row, python, platform)]
    usable.sort(key=lambda row: order(str(row["release"])) or ((), (0, 0)), reverse=True)
    installed = release(facts.text("torch.version"))
    usable.sort(key=lambda row: row["release"] != installed)  # stable: the installed release first, then the newest
    for row in usable:
        if tag := best_tag(row):
            given = _Given(releases, bases)
            yield given.fact("plan.torch", str(row["release"]))
            yield given.fact("plan.tag", tag)
            yield given.fact("plan.index_url", f"{INDEX}{tag}")
            for package in ("torchvision", "torchaudio"):
                fitting = row.get(package)
                yield given.fact(f"plan.{package}", str(fitting) if fitting else None)
            return


def _at_least(version: str, floor: str) -> bool:
    left, right = order(version), order(floor)
    return left is not None and right is not None and left >= right


def _serves_python(row: Row, python: str, platform: str) -> bool:
    if not python:
        return True
    highest = str(row.get("windows_python_max" if platform == "windows" else "python_max") or row["python_max"])
    short = ".".join(python.split(".")[:2])
    return _at_least(short, str(row["python_min"])) and _at_least(highest, short)


_STEPS: tuple[Callable[[Facts, Tables], Iterator[Fact]], ...] = (
    _build,
    _tag,
    _driver_branch,
    _driver_floor,
    _gpus,
    _kernels,
    _release,
    _plan,
)

"""What the compatibility tables say of the facts: new facts that name the facts and the table they rest on.

Pure. What is newer than the tables, or not confirmed in them, is left unknown. Nothing here overrides what was seen.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from . import builds
from .builds import Place, Row, Tables, at_least, texts
from .model import ABSENT, HOST, PRESENT, UNKNOWN, Fact, Source, Table, Value
from .settle import Facts
from .versions import cuda_of_tag, local, major, order, release


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
    row = builds.row_of_cuda(table, cuda)
    if row is None:
        return
    given = _Given(table, ("torch.cuda@host",))
    if platform in ("linux", "windows", "wsl"):
        column = "linux" if platform == "linux" else "windows"
        yield given.fact("torch.min_driver", str(row[column]))
    yield given.fact("torch.min_driver_cuda", builds.cuda_of_row(row))


def _least_driver(facts: Facts, tables: Tables) -> Iterator[Fact]:
    """The oldest driver that any CUDA build of this release starts on, where nothing tells which build it is."""
    version, platform = facts.text("torch.version"), facts.text("os.family")
    table, known = tables.get("driver_minimums"), platform in ("linux", "windows", "wsl")
    if not version or not known or not table or "torch_releases" not in tables or facts.text("torch.tag"):
        return
    if local(version) or not (row := builds.release_row(tables, version)):
        return
    floors = [builds.row_of_cuda(table, cuda_of_tag(tag)) for tag in texts(row["cuda_builds"])]
    drivers = [str(floor["linux" if platform == "linux" else "windows"]) for floor in floors if floor]
    if drivers and len(drivers) == len(floors):
        least = min(drivers, key=lambda one: order(one) or ((), (0, 0)))
        yield _Given(table, ("torch.version@host",)).fact("torch.least_driver", least)


def _driver_cuda(facts: Facts, tables: Tables) -> Iterator[Fact]:  # noqa: ARG001  every step has this shape
    """The driver tells its CUDA as 1000 times the major number and 10 times the minor one."""
    number = facts.value("driver.cuda_number")
    if isinstance(number, int) and not isinstance(number, bool) and number >= 1000:
        version = f"{number // 1000}.{number % 1000 // 10}"
        yield _Given(None, ("driver.cuda_number@host",)).fact("driver.cuda_version", version)


def _driver_branch(facts: Facts, tables: Tables) -> Iterator[Fact]:
    version = facts.text("driver.version")
    if not version or not (table := tables.get("driver_branches")):
        return
    branch = builds.branch_of(version, table)
    given = _Given(table, ("driver.version@host",))
    if branch:
        yield given.fact("driver.branch", str(branch["branch"]))
        if branch.get("cuda") and branch.get("confirmed"):
            yield given.fact("driver.cuda_version", str(branch["cuda"]))


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
        if generation := builds.generation_of(tables, capability):
            given = _Given(generations, bases)
            yield given.fact("gpu.architecture", str(generation["architecture"]), gpu)
            if first := generation.get("first_driver"):
                yield given.fact("gpu.first_driver", str(first), gpu)
            last = generation.get("last_driver")
            yield given.fact("gpu.last_driver", str(last) if last else None, gpu)
            yield given.fact(
                "gpu.dropped_with", (builds.branch_after(str(last), tables) or None) if last else None, gpu
            )


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


def place_of(facts: Facts) -> Place:
    """What decides which builds run here."""
    glibc = facts.fact("os.glibc")
    bits = facts.value("python.bits")
    on_the_bus = facts.value("pci.nvidia_count")
    capabilities = (facts.text("gpu.capability", gpu) for gpu in facts.subjects("gpu"))
    return Place(
        family=facts.text("os.family"),
        processor=facts.text("os.architecture"),
        capabilities=tuple(dict.fromkeys(filter(None, capabilities))),
        without_gpu=facts.value("gpu.count") == 0 and not on_the_bus,
        driver=facts.text("driver.version"),
        driver_cuda=facts.text("driver.cuda_version"),
        python=facts.text("python.version"),
        python_bits=int(bits) if isinstance(bits, (int, float)) else 0,
        glibc=facts.text("os.glibc"),
        musl=facts.text("os.family") in ("linux", "wsl") and glibc is not None and glibc.state == ABSENT,
    )


def _kernels(facts: Facts, tables: Tables) -> Iterator[Fact]:
    """Whether the installed build has code for each GPU: by its own list of architectures, else by the table's."""
    if not facts.subjects("gpu"):
        return
    codes = texts(facts.value("torch.archs"))
    base, table = "torch.archs@host", tables.get("code_runs_on")
    if not codes:
        platform = place_of(facts).platform
        row = builds.official_row(tables, facts.text("torch.version"), facts.text("torch.tag"), platform)
        codes = builds.codes_of(row, platform) if row and row.get("confirmed") else ()
        base, table = "torch.version@host", tables.get("torch_builds")
    if not codes or table is None:
        return
    for gpu in facts.subjects("gpu"):
        if not order(capability := facts.text("gpu.capability", gpu)):
            continue
        given = _Given(table, (base, f"gpu.capability@{gpu}"))
        runs = any(builds.runs_on(code, capability, facts.text("torch.cuda"), tables) for code in codes)
        stands = "" if runs else builds.beside(capability, codes)
        yield given.fact("gpu.has_kernels", runs, gpu)
        yield given.fact("gpu.newer_than_build", stands == "newer", gpu)
        yield given.fact("gpu.older_than_build", stands == "older", gpu)


def _runs_here(facts: Facts, _: Tables) -> Iterator[Fact]:
    """Whether the installed build has code for every GPU and starts on the driver; one for the processor where there is
    no GPU.

    That CUDA has started outranks the table: a libcuda for forward compatibility may stand before the driver's.
    """
    gpus, build = facts.subjects("gpu"), facts.text("torch.build")
    if not facts.text("torch.version") or (not gpus and (build != builds.CPU or not place_of(facts).without_gpu)):
        return
    if build in ("", "cuda"):
        serve = [facts.value("gpu.has_kernels", gpu) for gpu in gpus]
        driver, least = facts.text("driver.version"), facts.text("torch.min_driver")
        starts = facts.value("torch.cuda_available") is True or (at_least(driver, least) if driver and least else None)
        answers = (*serve, starts)
        named = [fact for name in _DECIDES if (fact := facts.fact(name)) and fact.state != UNKNOWN]
        bases = (*(f"gpu.has_kernels@{gpu}" for gpu in gpus), *(fact.id for fact in named))
    else:
        answers, bases = (not gpus,), ("torch.build@host",)
    if False in answers or all(answers):
        yield _Given(None, bases).fact("torch.runs_here", False not in answers)


_DECIDES = ("driver.version", "torch.min_driver", "torch.cuda_available")


def _release(facts: Facts, tables: Tables) -> Iterator[Fact]:
    """Whether the release is known, and whether what stands beside it was made for it."""
    version = facts.text("torch.version")
    table = tables.get("torch_releases")
    if not version or table is None:
        return
    known = any(row["release"] == release(version) for row in table.rows)
    yield _Given(table, ("torch.version@host",)).fact("torch.release_known", known)
    tagged = version if local(version) or not facts.text("torch.tag") else f"{version}+{facts.text('torch.tag')}"
    for package in builds.COMPANIONS:
        if number := facts.text(f"{package}.version"):
            fits = builds.companion_fits(package, number, tagged, facts.text("os.family"), tables)
            if fits is not None:
                yield _Given(table, ("torch.version@host", f"{package}.version@host")).fact(f"{package}.fits", fits)


def _asked(facts: Facts, tables: Tables) -> Iterator[Fact]:
    """Whether the build that an installer was asked for exists, and whether its release has wheels for this Python."""
    wanted, tag = release(facts.text("install.wanted")), facts.text("install.index_tag")
    if not wanted or not (table := tables.get("torch_releases")):
        return
    if reason := builds.serves_python(wanted, place_of(facts), tables):
        given = _Given(table, ("install.wanted@host", "python.version@host"))
        too_new = reason.id == "python-too-new"
        yield given.fact("install.python_too_new" if too_new else "install.python_too_old", True)
        yield given.fact("install.python_limit", str(dict(reason.values)["most" if too_new else "least"]))
    if tag:
        found = builds.existence(wanted, tag, tables)
        given = _Given(table, ("install.wanted@host", "install.index_tag@host"))
        if found.answer != "unknown":
            yield given.fact("install.exists", found.answer == "yes")
        values = dict(found.reason.values)
        for name, key in (("install.tags", "tags"), ("install.tag_since", "since"), ("install.tag_until", "until")):
            if value := values.get(key):
                yield given.fact(name, value)


def _building(facts: Facts, tables: Tables) -> Iterator[Fact]:
    """Whether nvcc, the host's compiler, torch and the GPUs fit for building an extension."""
    version = facts.text("toolkit.home_version") or facts.text("nvcc.version")
    base = "toolkit.home_version@host" if facts.text("toolkit.home_version") else "nvcc.version@host"
    if not version or not (table := tables.get("nvcc")):
        return
    if cuda := facts.text("torch.cuda"):
        # Torch's builder refuses another major version and warns of another minor one.
        yield _Given(None, (base, "torch.cuda@host")).fact("nvcc.fits_torch", major(version) == major(cuda))
    row = builds.nvcc_row(tables, version)
    if row is None or not row.get("confirmed"):
        return
    given = _Given(table, (base,))
    for compiler, key in (("gcc", "gcc_max"), ("clang", "clang_max")):
        yield given.fact(f"nvcc.newest_{compiler}", str(row[key]))
        if found := facts.text(f"tool.{compiler}"):
            fits = at_least(str(row[key]), major(found))
            yield _Given(table, (base, f"tool.{compiler}@host")).fact(f"nvcc.takes_{compiler}", fits)
    for gpu in facts.subjects("gpu"):
        if order(capability := facts.text("gpu.capability", gpu)):
            known = builds.nvcc_targets(row, capability)
            yield _Given(table, (base, f"gpu.capability@{gpu}")).fact("gpu.known_to_nvcc", known, gpu)


def _plan(facts: Facts, tables: Tables) -> Iterator[Fact]:
    """The build to install: of the installed release if one fits these GPUs and this driver, else the newest that does.

    Without knowing the GPUs nothing is planned: a build that starts and has no code for the card helps nobody. That the
    driver does not serve the card is another matter: it has to be changed first, and the build is right afterwards.
    """
    place = place_of(facts)
    table = tables.get("torch_releases")
    if place.platform not in ("linux", "linux_aarch64", "windows") or not place.capabilities or table is None:
        return
    wants_audio = bool(facts.text("torchaudio.version"))
    possible = builds.builds(place, tables, release(facts.text("torch.version")), wants_audio)
    build = builds.best(possible, ignoring=builds.DRIVER_AND_GPU)
    if build is None:
        return
    bases = tuple(
        found.id
        for name in ("driver.version", "python.version", "torch.version")
        if (found := facts.fact(name)) and found.state != UNKNOWN
    ) + tuple(f"gpu.capability@{gpu}" for gpu in facts.subjects("gpu") if facts.text("gpu.capability", gpu))
    yield from plan_facts(build, table, bases)
    yield _Given(table, bases).fact("plan.fits_driver", bool(place.driver or place.driver_cuda))


def plan_facts(build: builds.Build, table: Table | None = None, bases: tuple[str, ...] = ()) -> Iterator[Fact]:
    """What the templates of actions say of a build that is to be installed."""
    given = _Given(table, bases)
    yield given.fact("plan.torch", build.torch)
    yield given.fact("plan.tag", build.tag)
    yield given.fact("plan.index_url", build.index_url)
    yield given.fact("plan.torchvision", build.torchvision or None)
    yield given.fact("plan.torchaudio", build.torchaudio or None)


_STEPS: tuple[Callable[[Facts, Tables], Iterator[Fact]], ...] = (
    _build,
    _tag,
    _driver_branch,
    _driver_cuda,
    _driver_floor,
    _least_driver,
    _gpus,
    _kernels,
    _runs_here,
    _release,
    _asked,
    _building,
    _plan,
)

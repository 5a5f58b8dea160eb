"""What to install here: the best build of torch, the others that run, and why the rest does not. Pure."""

from collections.abc import Iterator
from typing import NamedTuple

from .builds import (
    CANNOT,
    COMPANIONS,
    CPU,
    DRIVER_AND_GPU,
    Build,
    Existence,
    Place,
    Reason,
    Tables,
    at_least,
    best,
    branch_of,
    builds,
    existence,
    generation_of,
    release_row,
    row_of_cuda,
)
from .derive import place_of, plan_facts
from .model import Knowledge, Step, StepSpec
from .prescribe import steps_of
from .settle import Facts
from .versions import cuda_of_tag, local, order, release

_DRIVER = DRIVER_AND_GPU | {"driver-too-old", "driver-cuda-too-old", "ptx-needs-newer-driver"}
"""Reasons that go away with another driver."""


class Asked(NamedTuple):
    """The build, or the release, that was asked for by name."""

    torch: str
    tag: str
    existence: Existence
    builds: tuple[Build, ...]


class Installed(NamedTuple):
    """The torch that is there. `runs`: it has code for every GPU and starts on the driver; None is not known."""

    torch: str
    runs: bool | None
    reasons: tuple[Reason, ...]
    companions: tuple[tuple[str, str, bool | None], ...]
    """Package, version, whether it was made for this torch."""


class Building(NamedTuple):
    """The toolkit that torch's builder of extensions would take, and what does not fit it."""

    toolkit: str
    reasons: tuple[Reason, ...]


class Plan(NamedTuple):
    place: Place
    gpus: tuple[tuple[str, str, str], ...]
    """Subject, name, compute capability."""
    remarks: tuple[Reason, ...]
    """What is not known here, or to the tables."""
    asked: Asked | None
    installed: Installed | None
    best: Build | None
    steps: tuple[Step, ...]
    """Of the best build: the commands that install it."""
    after_driver: Build | None
    """The best build once the driver is another one; None where there is a best build, or no driver would help."""
    driver_needed: tuple[str, str]
    """Oldest and newest branch that would do for that; empty where there is no bound."""
    builds: tuple[Build, ...]
    building: Building | None
    tables: tuple[tuple[str, str, str], ...]
    """Name, source and day of the tables that were asked."""


def make_plan(facts: Facts, knowledge: Knowledge, asked: str = "") -> Plan:
    """`asked`: a release (2.5.1) or a build (2.5.1+cu124) of torch, or nothing."""
    tables = knowledge.tables
    place = place_of(facts)
    first = release(asked) or release(facts.text("torch.version"))
    found = tuple(builds(place, tables, first, torchaudio=bool(facts.text("torchaudio.version"))))
    chosen = best(_asked_first(found, asked))
    after = best(found, ignoring=_DRIVER) if chosen is None else None
    newest_first = tuple(sorted(found, key=lambda build: order(build.torch) or ((), (0, 0)), reverse=True))
    return Plan(
        place=place,
        gpus=tuple(
            (gpu, facts.text("gpu.name", gpu), facts.text("gpu.capability", gpu)) for gpu in facts.subjects("gpu")
        ),
        remarks=tuple(_remarks(place, facts, tables, found)),
        asked=_asked(asked, found, tables) if asked else None,
        installed=_installed(facts),
        best=chosen,
        steps=install_steps(chosen, facts, knowledge) if chosen else (),
        after_driver=after,
        driver_needed=_driver_needed(after, place, tables) if after else ("", ""),
        builds=newest_first,
        building=_building(facts),
        tables=tuple((name, tables[name].source, tables[name].checked) for name in _TABLES if name in tables),
    )


_TABLES = ("torch_releases", "torch_builds", "code_runs_on", "driver_minimums", "gpu_generations", "cudnn")


def _asked_first(found: tuple[Build, ...], asked: str) -> tuple[Build, ...]:
    tag = local(asked)
    return (
        tuple(sorted(found, key=lambda one: not (one.tag == tag and order(one.torch) == order(asked))))
        if tag
        else found
    )


def install_steps(build: Build, facts: Facts, knowledge: Knowledge) -> tuple[Step, ...]:
    """The commands that install a build into the Python that was looked at, or into the one that is called python."""
    bare = Facts({name: there for name, there in facts.by_name.items() if not name.startswith("plan.")}, facts.silent)
    action = "install-processor-build" if build.tag == CPU else "install-build"
    python = facts.text("python.path") or "python"
    return steps_of(StepSpec(action, (("python", python),)), bare.adding(plan_facts(build)), knowledge)


def _asked(asked: str, found: tuple[Build, ...], tables: Tables) -> Asked:
    number, tag = release(asked), local(asked)
    row = release_row(tables, asked)
    name = str(row["release"]) if row else number
    of_it = tuple(one for one in found if one.torch == name and tag in ("", one.tag))
    return Asked(name or asked, tag, existence(asked, tag, tables), of_it)


def _installed(facts: Facts) -> Installed | None:
    """By what is known of the build itself: it may come from others than the project."""
    version = facts.text("torch.version")
    if not version:
        return None
    reasons: list[Reason] = []
    known: list[bool] = []
    gpus = facts.subjects("gpu")
    for gpu in gpus:
        serves = facts.value("gpu.has_kernels", gpu)
        if isinstance(serves, bool):
            known.append(serves)
        if serves is False:
            stands = "newer" if facts.value("gpu.newer_than_build", gpu) else ""
            stands = stands or ("older" if facts.value("gpu.older_than_build", gpu) else "")
            name = {"newer": "gpu-newer-than-build", "older": "gpu-older-than-build", "": "gpu-not-in-build"}[stands]
            codes = facts.value("torch.archs")
            values = (
                ("capability", facts.text("gpu.capability", gpu)),
                ("codes", codes if isinstance(codes, tuple) else ()),
            )
            reasons.append(Reason(name, values))
    driver, least = facts.text("driver.version"), facts.text("torch.min_driver")
    started = facts.value("torch.cuda_available") is True
    if started or (driver and least):
        # That CUDA has started outranks the table: a libcuda for forward compatibility may stand before the driver's.
        known.append(started or at_least(driver, least))
        if not known[-1]:
            reasons.append(Reason("driver-too-old", (("driver", driver), ("least", least))))
    if facts.text("torch.build") == CPU:
        known.append(not gpus)
        if gpus:
            reasons.append(Reason("cpu-build"))
    complete = bool(known) and len(known) == len(gpus) + 1
    companions = []
    for package in COMPANIONS:
        if number := facts.text(f"{package}.version"):
            fits = facts.value(f"{package}.fits")
            companions.append((package, number, fits if isinstance(fits, bool) else None))
    runs = False if reasons else (True if complete else None)
    return Installed(version, runs, tuple(reasons), tuple(companions))


def _building(facts: Facts) -> Building | None:
    toolkit = facts.text("toolkit.home_version") or facts.text("nvcc.version")
    if not toolkit:
        return None
    reasons = []
    if facts.value("nvcc.fits_torch") is False:
        reasons.append(Reason("nvcc-of-another-cuda", (("nvcc", toolkit), ("cuda", facts.text("torch.cuda")))))
    for compiler in ("gcc", "clang"):
        if facts.value(f"nvcc.takes_{compiler}") is False:
            values = (
                ("compiler", f"{compiler} {facts.text(f'tool.{compiler}')}"),
                ("nvcc", toolkit),
                ("most", facts.text(f"nvcc.newest_{compiler}")),
            )
            reasons.append(Reason("nvcc-refuses-compiler", values))
    for gpu in facts.subjects("gpu"):
        if facts.value("gpu.known_to_nvcc", gpu) is False:
            capability = facts.text("gpu.capability", gpu)
            reasons.append(Reason("nvcc-without-gpu", (("nvcc", toolkit), ("capability", capability))))
    return Building(toolkit, tuple(dict.fromkeys(reasons)))


def _remarks(place: Place, facts: Facts, tables: Tables, found: tuple[Build, ...]) -> Iterator[Reason]:
    newest = {
        "python": max((str(row["python_max"]) for row in tables["torch_releases"].rows), key=_order),
        "capability": max((str(row["capability"]) for row in tables["gpu_generations"].rows), key=_order),
        "branch": max((str(row["branch"]) for row in tables["driver_branches"].rows), key=_order),
    }
    if place.without_gpu and place.family != "macos":
        yield Reason("no-nvidia-gpu")
    if place.family == "macos":
        yield Reason("no-cuda-on-macos")
    for gpu in facts.subjects("gpu"):
        if not facts.text("gpu.capability", gpu):
            yield Reason("gpu-not-in-tables", (("gpu", facts.text("gpu.name", gpu) or gpu),))
    for capability in place.capabilities:
        if not at_least(newest["capability"], capability):
            values = (("capability", capability), ("newest", newest["capability"]))
            yield Reason("capability-newer-than-tables", values)
        elif capability in _integrated(tables):
            yield Reason("jetson", (("capability", capability),))
    if (
        place.driver
        and branch_of(place.driver, tables["driver_branches"]) is None
        and at_least(place.driver, newest["branch"])
    ):
        yield Reason("driver-newer-than-tables", (("driver", place.driver), ("newest", newest["branch"])))
    short = ".".join(release(place.python).split(".")[:2])
    if short and not at_least(newest["python"], short):
        yield Reason("python-newer-than-tables", (("python", short), ("newest", newest["python"])))
    if len(place.capabilities) > 1 and all(one.status == CANNOT for one in found):
        yield Reason("no-build-serves-all", (("capabilities", place.capabilities),))


def _integrated(tables: Tables) -> tuple[str, ...]:
    """Capabilities of Jetson modules; a GPU of their kind gets its driver and its builds with JetPack."""
    return tuple(str(row["capability"]) for row in tables["gpus"].rows if row.get("segment") == "jetson")


def _driver_needed(build: Build, place: Place, tables: Tables) -> tuple[str, str]:
    """Oldest and newest driver that serves the GPUs and starts the build."""
    row = row_of_cuda(tables["driver_minimums"], cuda_of_tag(build.tag))
    least = str(row["linux" if place.family == "linux" else "windows"]) if row else ""
    most = ""
    for capability in place.capabilities:
        generation = generation_of(tables, capability)
        first = str(generation.get("first_driver") or "") if generation else ""
        last = str(generation.get("last_driver") or "") if generation else ""
        if first and not at_least(least, first):
            least = first
        if last and (not most or not at_least(last, most)):
            most = last
    return least, most


def _order(text: str) -> tuple[int, ...]:
    return (order(text) or ((0,), None))[0]

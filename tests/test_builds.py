"""Which builds run where: against a second, naive reading of the same tables, and by cases that people know."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from naive_tables import RELEASES, Spot, best_of, every_spot, naive

from troubleshooter.builds import (
    OPEN,
    RUNS,
    UNSURE,
    Build,
    Place,
    best,
    builds,
    companion_fits,
    existence,
    nvcc_row,
    nvcc_targets,
    serves_python,
)
from troubleshooter.model import Knowledge


def place(spot: Spot) -> Place:
    return Place(spot.family, spot.processor, (spot.capability,), False, spot.driver, "", spot.python, 64, "2.39")


def answer(build: Build) -> str:
    return "partly" if build.status == RUNS and not build.fits else build.status


def differences(spots: Iterator[Spot], knowledge: Knowledge) -> tuple[list[object], int]:
    tables = {name: knowledge.tables[name] for name in knowledge.tables}
    wrong: list[object] = []
    count = 0
    for spot in spots:
        found = list(builds(place(spot), tables))
        ours = {(one.torch, one.tag): answer(one) for one in found}
        theirs = {
            (release["release"], tag): naive(spot, release, tag)
            for release in RELEASES
            for tag in [*release["cuda_builds"], *release["other_builds"]]
        }
        count += len(theirs)
        wrong += [
            (spot, build, ours.get(build), theirs.get(build))
            for build in ours.keys() | theirs.keys()
            if ours.get(build) != theirs.get(build)
        ]
        chosen = best(found)
        chosen_by_hand = best_of(theirs)
        if (chosen and (chosen.torch, chosen.tag)) != chosen_by_hand:
            wrong.append((spot, chosen, chosen_by_hand))
    return wrong, count


def test_the_builds_that_run_are_those_of_a_naive_reading_of_the_tables(knowledge: Knowledge) -> None:
    spots = random.Random(5).sample(list(every_spot()), 250)  # noqa: S311 -- the same ones each time
    wrong, count = differences(iter(spots), knowledge)
    assert wrong[:5] == []
    assert count == 25_000


@pytest.mark.slow
def test_on_every_combination_they_are_those_of_a_naive_reading(knowledge: Knowledge) -> None:
    wrong, count = differences(every_spot(), knowledge)
    assert wrong[:5] == []
    assert count == 100 * 26 * 32 * 11 * 4


def test_where_nothing_is_known_of_a_machine_no_build_is_sure_and_none_is_ruled_out_but_by_the_tables(
    knowledge: Knowledge,
) -> None:
    found = list(builds(Place("linux", "x86_64"), knowledge.tables))
    assert {one.status for one in found} == {OPEN, UNSURE}
    assert all(one.reasons for one in found)


def test_on_macos_and_without_a_gpu_it_is_the_build_for_the_processor(knowledge: Knowledge) -> None:
    intel = best(builds(Place("macos", "x86_64", python="3.11"), knowledge.tables))
    assert intel is not None
    assert (intel.torch, intel.tag) == ("2.2.2", "cpu")
    bare = best(builds(Place("linux", "x86_64", without_gpu=True, python="3.9", glibc="2.31"), knowledge.tables))
    assert bare is not None
    assert (bare.torch, bare.tag) == ("2.8.0", "cpu")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"python": "3.9"}, "python-too-old"),
        ({"python": "3.16"}, "python-too-new"),
        ({"python_bits": 32}, "python-32-bit"),
        ({"glibc": "2.27"}, "glibc-too-old"),
        ({"glibc": "", "musl": True}, "musl"),
        ({"driver": "535.54.03"}, "driver-too-old"),
        ({"driver": "", "driver_cuda": "12.2"}, "driver-cuda-too-old"),
        ({"driver": ""}, "driver-not-known"),
        ({"capabilities": ()}, "gpu-not-known"),
        ({"capabilities": ("6.1",)}, "gpu-older-than-build"),
        ({"capabilities": ("6.1",), "driver": "595.45.04"}, "driver-dropped-gpu"),
        ({"capabilities": ("13.0",)}, "gpu-newer-than-build"),
        ({"capabilities": ("10.1",)}, "gpu-not-in-build"),
        ({"capabilities": ("12.1",), "driver": "575.10"}, "driver-too-old-for-gpu"),
        ({"family": ""}, "system-not-known"),
        ({"family": "macos"}, "no-cuda-on-macos"),
    ],
)  # fmt: skip
def test_each_reason_against_a_build_is_named(knowledge: Knowledge, changed: dict[str, Any], reason: str) -> None:
    from troubleshooter.builds import judge, release_row

    row = release_row(knowledge.tables, "2.14.1")
    assert row is not None
    good = Place("linux", "x86_64", ("8.9",), False, "580.95.05", "", "3.12", 64, "2.35")
    assert judge(row, "cu130", good, knowledge.tables).reasons == ()
    found = judge(row, "cu130", good._replace(**changed), knowledge.tables)
    assert reason in [one.id for one in found.reasons]


@pytest.mark.parametrize(
    ("wanted", "answered", "reason", "values"),
    [
        ("2.0.1+cu121", "no", "build-begins-later", {"tags": ("cu117", "cu118"), "since": "2.1.0"}),
        ("2.0.1+cu117", "yes", "build-exists", {}),
        ("2.9.0+cu121", "no", "build-ended-before", {"until": "2.5.1"}),
        ("2.6.0+cu121", "no", "build-ended-before", {"until": "2.5.1"}),
        ("2.5.1+cu125", "no", "build-never-made", {"tags": ("cu118", "cu121", "cu124")}),
        ("2.9.0+cu129", "no", "build-never-made", {}),
        ("2.13.0+cu129", "unknown", "build-not-met", {}),
        ("2.15.0+cu130", "unknown", "build-not-met", {}),
        ("2.15.0+cu134", "unknown", "build-not-met", {}),
        ("2.14.1+cu134", "unknown", "tag-not-known", {}),
        ("2.17.0+cu134", "unknown", "release-newer-than-tables", {"newest": "2.15.0"}),
        ("1.8.1+cu111", "unknown", "release-older-than-tables", {"oldest": "1.10.0"}),
        ("1.8.1+cu118", "no", "build-begins-later", {"since": "2.0.0"}),
        ("2.5.7", "no", "release-never-made", {"near": ("2.5.1", "2.5.0")}),
        ("2.5", "yes", "release-exists", {"torch": "2.5.0"}),
        ("2.5.1+cpu", "yes", "release-exists", {}),
        ("2.6.0a0+df5bbc09d1.nv24.12", "unknown", "no-release", {}),
        ("nonsense", "unknown", "no-release", {}),
        ("2.5.1+rocm6.2", "yes", "build-exists", {}),
        ("2.4.1+rocm6.2", "no", "build-begins-later", {"since": "2.5.0"}),
        ("2.15.0+rocm7.2", "unknown", "build-not-met", {}),
    ],
)  # fmt: skip
def test_whether_an_asked_for_build_exists(
    knowledge: Knowledge, wanted: str, answered: str, reason: str, values: dict[str, object]
) -> None:
    found = existence(wanted, "", knowledge.tables)
    assert (found.answer, found.reason.id) == (answered, reason)
    assert {name: dict(found.reason.values)[name] for name in values} == values


@pytest.mark.parametrize(
    ("package", "version", "torch", "fits"),
    [
        ("torchvision", "0.20.1", "2.5.1+cu124", True),
        ("torchvision", "0.20.1+cu124", "2.5.1+cu124", True),
        ("torchvision", "0.20.1+cu118", "2.5.1+cu124", False),
        ("torchvision", "0.20.0", "2.5.1", None),  # only the last number differs
        ("torchvision", "0.16.0", "2.5.1", False),
        ("torchvision", "0.29.2", "2.14.0", True),
        ("torchvision", "0.35.0", "2.15.0", None),  # newer than the tables
        ("torchvision", "0.20.0a0", "2.5.0a0+872d972e41.nv24.08", None),
        ("torchaudio", "2.5.1", "2.5.1", True),
        ("torchaudio", "2.11.0", "2.14.1", True),
        ("torchaudio", "2.1.0", "2.5.1", False),
        ("numpy", "2.1.3", "2.2.2", False),
        ("numpy", "1.26.4", "2.2.2", True),
        ("numpy", "2.1.3", "2.5.1", True),
        ("numpy", "3.0.0", "2.15.0", None),
        ("triton", "3.1.0", "2.5.1", True),
        ("triton", "3.8.4", "2.14.1", True),
        ("triton", "3.0.0", "2.5.1", False),
        ("torchvision", "0.20.1", "2.17.0", None),
        ("torchvision", "0.21.0", "2.6.0+dfsg", None),
    ],
)  # fmt: skip
def test_whether_a_package_was_made_for_this_torch(
    knowledge: Knowledge, package: str, version: str, torch: str, fits: bool | None
) -> None:
    assert companion_fits(package, version, torch, "linux", knowledge.tables) is fits


def test_numpy_2_on_windows_came_later(knowledge: Knowledge) -> None:
    assert companion_fits("numpy", "2.0.0", "2.4.0", "windows", knowledge.tables) is False
    assert companion_fits("numpy", "2.0.0", "2.4.0", "linux", knowledge.tables) is True


@pytest.mark.parametrize(
    ("wanted", "python", "reason"),
    [
        ("1.13.1", "3.12", "python-too-new"),
        ("2.9.0", "3.9", "python-too-old"),
        ("1.7.1", "3.11", "python-too-new"),
        ("1.7.1", "3.6", None),
        ("2.20.0", "3.8", "python-too-old"),
        ("2.20.0", "3.16", None),
        ("2.5.1", "3.11", None),
        ("2.13.0", "3.15", None),
    ],
)  # fmt: skip
def test_whether_a_release_has_wheels_for_a_python(
    knowledge: Knowledge, wanted: str, python: str, reason: str | None
) -> None:
    found = serves_python(wanted, Place("linux", python=python), knowledge.tables)
    assert (found.id if found else None) == reason


@pytest.mark.parametrize(
    ("nvcc", "capability", "known"),
    [("12.4", "8.9", True), ("12.4", "12.0", False), ("13.0", "7.0", False), ("12.9", "10.3", True), ("12.8", "10.3", False), ("11.0", "8.6", False)],
)  # fmt: skip
def test_which_gpu_an_nvcc_makes_code_for(knowledge: Knowledge, nvcc: str, capability: str, known: bool) -> None:
    row = nvcc_row(knowledge.tables, nvcc)
    assert row is not None
    assert nvcc_targets(row, capability) is known

"""The tables read a second time, without any code of the package: one question after the other, straight from the files."""

import itertools
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

TABLES = Path(__file__).parent.parent / "knowledge_base" / "tables"


def rows_of(name: str) -> list[dict[str, Any]]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load((TABLES / f"{name}.yaml").read_text(encoding="utf-8"), loader)["rows"]  # noqa: S506 -- a safe one


RELEASES = rows_of("torch_releases")
MADE = {(release, row["tag"]): row for row in rows_of("torch_builds") for release in row["releases"]}
CODE = {row["code"]: row for row in rows_of("code_runs_on")}
MINIMUMS = {row["cuda"]: row for row in rows_of("driver_minimums")}
BRANCHES = {int(row["branch"]): row for row in rows_of("driver_branches")}
GENERATIONS = {row["capability"]: row for row in rows_of("gpu_generations")}
CUDNN = rows_of("cudnn")

CAPABILITIES = [*GENERATIONS, "5.3", "6.2", "7.2", "8.7", "13.0"]
DRIVERS = [f"{branch}.99" for branch in BRANCHES] + ["640.10", "384.81"]
PYTHONS = [f"3.{minor}" for minor in range(6, 17)]
SYSTEMS = [("linux", "x86_64"), ("linux", "aarch64"), ("wsl", "x86_64"), ("windows", "AMD64")]


class Spot(NamedTuple):
    capability: str
    driver: str
    python: str
    family: str
    processor: str


@cache
def number(text: str) -> tuple[int, ...]:
    parts = [int(part) for part in text.split(".")]
    return tuple(parts + [0] * (4 - len(parts)))


def cuda_of(tag: str) -> str:
    return f"{int(tag[2:-1])}.{tag[-1]}"


@cache
def machine_code_runs(code: str, capability: str, cuda: str) -> bool:
    row = CODE.get(code, {"min": f"{code[:-1]}.{code[-1]}"})
    if "only" in row:
        return capability in row["only"]
    left_out = row.get("except", [])
    if number(cuda) >= number("13.2") and "except_from_cuda_13_2" in row:
        left_out = row["except_from_cuda_13_2"]
    one_major = capability.split(".", maxsplit=1)[0] == row["min"].split(".")[0]
    return one_major and number(capability) >= number(row["min"]) and capability not in left_out


def naive(spot: Spot, release: dict[str, Any], tag: str) -> str:
    """runs, partly, unsure or cannot."""
    cannot, unsure, partly = [], [], False
    windows = spot.family == "windows"
    column = "windows" if windows else ("linux_aarch64" if spot.processor == "aarch64" else "linux")
    cuda = cuda_of(tag)
    # Python
    newest = release["windows_python_max"] if windows else release["python_max"]
    cannot.append(number(spot.python) < number(release["python_min"]))
    if number(spot.python) > number(newest):
        experiment = spot.python == release.get("python_experimental")
        unsure.append(experiment)
        cannot.append(not experiment)
    # the build
    made = MADE.get((release["release"], tag))
    unsure.append(made is None or not made["confirmed"] or tag in release["other_builds"])
    codes, ptx = [], []
    if made is not None:
        unsure.append(column in made.get("unconfirmed_on", []))
        codes, ptx = made.get(column) or [], made.get(f"{column}_ptx") or []
        cannot.append(not codes and windows)
        unsure.append(not codes and not windows)
    # the GPU
    if codes:
        if any(machine_code_runs(code, spot.capability, cuda) for code in codes):
            cudnn = release["cudnn"].get(tag)
            for line in CUDNN if cudnn else []:
                if number(line["since"]) <= number(cudnn) and (
                    not line["below"] or number(cudnn) < number(line["below"])
                ):
                    partly = number(spot.capability) < number(line["capability_min"])
        elif any(number(spot.capability) >= number(f"{code[:-1]}.{code[-1]}") for code in ptx):
            branch = BRANCHES.get(int(spot.driver.split(".")[0]))
            own = branch["cuda"] if branch and branch["confirmed"] else None
            too_old = own is not None and number(own) < number(cuda)
            cannot.append(too_old)
            unsure.append(not too_old)
        else:
            cannot.append(True)
    # the driver
    floor = MINIMUMS.get(cuda.split(".")[0]) or MINIMUMS[cuda]
    cannot.append(number(spot.driver) < number(floor["linux" if spot.family == "linux" else "windows"]))
    generation = GENERATIONS.get(spot.capability)
    if generation:
        if generation["first_driver"]:
            cannot.append(number(spot.driver) < number(generation["first_driver"]))
        if generation["last_driver"]:
            dropped_with = min(branch for branch in BRANCHES if branch > int(generation["last_driver"]))
            cannot.append(number(spot.driver) >= (dropped_with, 0, 0, 0))
    if any(cannot):
        return "cannot"
    return "unsure" if any(unsure) else ("partly" if partly else "runs")


def best_of(answers: dict[tuple[str, str], str]) -> tuple[str, str] | None:
    for wanted in ("runs", "partly"):
        if found := [build for build, answer in answers.items() if answer == wanted]:
            return max(found, key=lambda build: (number(build[0]), number(cuda_of(build[1]))))
    return None


def every_spot() -> Iterator[Spot]:
    for capability, driver, python, system in itertools.product(CAPABILITIES, DRIVERS, PYTHONS, SYSTEMS):
        yield Spot(capability, driver, python, *system)

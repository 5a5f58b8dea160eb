"""A plan as lines for people, and as the JSON contract `troubleshooter.plan/1`."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..builds import CANNOT, CAVEATS, NOT_KNOWN_HERE, OPEN, RUNS, UNSURE, Build, Reason
from ..plan import Plan
from ..text import clean
from .json_report import step_object
from .plan_words import plan_words_for
from .text import Line

SCHEMA = "troubleshooter.plan/1"

_MOST_CODES = 4
_NAMES = ("torchvision", "torchaudio")


def plan_lines(plan: Plan, language: str = "en") -> Iterator[Line]:
    words = plan_words_for(language)
    yield Line(f"{words['for']}: {clean('; '.join(_place(plan, words)))}", "dim")
    for remark in plan.remarks:
        yield Line(says(remark, words), "heading")
    if plan.asked:
        sentences = [says(plan.asked.existence.reason, words)]
        sentences += [f"{_name(one)}: {_verdict(one, words)}" for one in plan.asked.builds]
        yield Line("")
        yield Line(f"{words['asked']}: {clean(sentences[0])}", "title", hang=2)
        for sentence in sentences[1:]:
            yield Line(f"- {clean(sentence)}", indent=2, hang=2)
    yield from _installed(plan, words)
    yield Line("")
    yield from _best(plan, words)
    others = [one for one in plan.builds if one != plan.best]
    fitting = [one for one in others if one.fits]
    yield from _grouped("runs_if" if any(one.status == OPEN for one in fitting) else "runs", fitting, words)
    for name, status in (("caveat", (RUNS, OPEN)), ("unsure", (UNSURE,)), ("cannot", (CANNOT,))):
        yield from _grouped(name, [one for one in others if one.status in status and not one.fits], words)
    if plan.building:
        yield Line("")
        yield Line(words["building"], "heading")
        said = [says(reason, words) for reason in plan.building.reasons]
        for sentence in said or [words["building_fits"].format(toolkit=plan.building.toolkit)]:
            yield Line(f"- {clean(sentence)}", indent=2, hang=2)
    days = sorted({day for _, _, day in plan.tables})
    yield Line("")
    yield Line(f"{words['tables']} {', '.join(days)}", "dim")


def says(reason: Reason, words: Mapping[str, str]) -> str:
    """The sentence of a reason in one language."""
    values = {name: _shown(name, value, words) for name, value in reason.values}
    return words[reason.id].format(**values)


def _shown(name: str, value: str | tuple[str, ...], words: Mapping[str, str]) -> str:
    if isinstance(value, str):
        return value
    if name == "codes":
        machine_code = [code for code in value if code.startswith("sm_")]
        return f"{machine_code[0]} … {machine_code[-1]}" if len(machine_code) > _MOST_CODES else ", ".join(value)
    return words["and"].join(filter(None, (", ".join(value[:-1]), *value[-1:])))


def _place(plan: Plan, words: Mapping[str, str]) -> Iterator[str]:
    place, unknown = plan.place, words["not_known"]
    if place.without_gpu:
        yield words["no_gpu"]
    elif not plan.gpus:
        yield f"{words['gpu']} {unknown}"
    for _, name, capability in plan.gpus:
        yield f"{name or words['gpu']} ({words['capability']} {capability or unknown})"
    if place.driver or not place.driver_cuda:
        yield f"{words['driver']} {place.driver or unknown}"
    else:
        yield f"{words['driver_cuda']} {place.driver_cuda}"
    yield f"Python {place.python or unknown}"
    yield " ".join(filter(None, (place.family or unknown, place.processor)))
    if place.platform.startswith("linux"):
        yield "musl" if place.musl else f"glibc {place.glibc or unknown}"


def _installed(plan: Plan, words: Mapping[str, str]) -> Iterator[Line]:
    there = plan.installed
    if there is None:
        return
    answer = {True: "installed_runs", False: "installed_cannot", None: "installed_open"}[there.runs]
    why = f": {'; '.join(says(reason, words) for reason in there.reasons)}" if there.reasons else ""
    yield Line("")
    yield Line(clean(f"{words['installed']}: torch {there.torch}, {words[answer]}{why}"), hang=2)
    for package, version, fits in there.companions:
        answer = {True: "fits", False: "fits_not", None: "fits_open"}[fits]
        yield Line(clean(f"- {package} {version}: {words[answer]}"), indent=2, hang=2)


def _best(plan: Plan, words: Mapping[str, str]) -> Iterator[Line]:
    build = plan.best or plan.after_driver
    if plan.best is None:
        unsure = any(one.status == UNSURE for one in plan.builds)
        yield Line(words["none_sure" if unsure else "none"], "bad")
    if build is None:
        return
    heading = words["best"]
    if plan.best is None:
        least, most = plan.driver_needed
        driver = words["driver_between" if most else "driver_from"].format(least=least, most=most)
        heading = f"{words['after_driver']} ({driver})"
    beside = ", ".join(f"{name} {getattr(build, name)}" for name in _NAMES if getattr(build, name))
    beside = f" {words['with']} {beside}" if beside else ""
    yield Line(f"{heading}: torch {_name(build)}{beside}", "good")
    for step in plan.steps:
        if step.say:
            yield Line(clean(step.say), indent=2)
        for row in step.shell_text.split("\n") if step.shell_text else ():
            yield Line(clean(row), "command", 4)
    if build.numpy:
        yield Line(words["numpy"], indent=2)
    for reason in build.reasons if plan.best else ():
        sentence = says(reason, words)
        yield Line(clean(sentence if reason.id in CAVEATS else f"{words['if']} {sentence}"), indent=2, hang=2)


def _grouped(heading: str, found: Sequence[Build], words: Mapping[str, str]) -> Iterator[Line]:
    """Builds that share all their reasons stand together, the reasons below them."""
    if not found:
        return
    groups: dict[tuple[str, ...], list[Build]] = {}
    for build in found:
        telling = [one for one in build.reasons if build.status != CANNOT or one.id not in NOT_KNOWN_HERE]
        sentences = [says(reason, words) for reason in telling]
        groups.setdefault(tuple(dict.fromkeys(sentences)), []).append(build)
    yield Line("")
    yield Line(words[heading], "heading")
    for shared, members in groups.items():
        yield Line(_names(members), indent=2)
        for sentence in shared:
            yield Line(f"- {clean(sentence)}", "dim", 4, 2)


def _names(found: Iterable[Build]) -> str:
    """`2.14.1 (cu132, cu130), 2.13.0 (cu126)`."""
    tags: dict[str, list[str]] = {}
    for build in found:
        tags.setdefault(build.torch, []).append(build.tag)
    return ", ".join(f"{torch} ({', '.join(named)})" for torch, named in tags.items())


def _name(build: Build) -> str:
    return f"{build.torch}+{build.tag}"


def _verdict(build: Build, words: Mapping[str, str]) -> str:
    why = "; ".join(says(reason, words) for reason in build.reasons)
    answer = words[f"{build.status}_here"]
    return f"{answer}: {why}" if why and build.status != OPEN else f"{answer} {why}".strip()


# --- the contract ---------------------------------------------------------------------------------


def plan_json(plan: Plan) -> str:
    """ASCII only, so that the bytes do not depend on the locale. Sentences are English; ids never change."""
    place = plan.place
    found = {
        "schema": SCHEMA,
        "machine": {
            "os": place.family,
            "processor": place.processor,
            "gpus": [{"subject": gpu, "name": name, "capability": cc} for gpu, name, cc in plan.gpus],
            "without_gpu": place.without_gpu,
            "driver": place.driver,
            "driver_cuda": place.driver_cuda,
            "python": place.python,
            "glibc": place.glibc,
            "musl": place.musl,
        },
        "remarks": [_reason(one) for one in plan.remarks],
        "asked": plan.asked
        and {
            "torch": plan.asked.torch,
            "tag": plan.asked.tag,
            "exists": plan.asked.existence.answer,
            "reason": _reason(plan.asked.existence.reason),
            "builds": [_build(one) for one in plan.asked.builds],
        },
        "installed": plan.installed
        and {
            "torch": plan.installed.torch,
            "runs": plan.installed.runs,
            "reasons": [_reason(one) for one in plan.installed.reasons],
            "companions": [
                {"package": package, "version": version, "fits": fits}
                for package, version, fits in plan.installed.companions
            ],
        },
        "best": plan.best and {**_build(plan.best), "steps": [step_object(step) for step in plan.steps]},
        "after_driver": plan.after_driver
        and {
            **_build(plan.after_driver),
            "driver_from": plan.driver_needed[0],
            "driver_up_to_branch": plan.driver_needed[1],
        },
        "builds": [_build(one) for one in plan.builds],
        "building": plan.building
        and {"toolkit": plan.building.toolkit, "reasons": [_reason(one) for one in plan.building.reasons]},
        "tables": [{"name": name, "source": source, "checked": day} for name, source, day in plan.tables],
    }
    return json.dumps(found, indent=1, ensure_ascii=True) + "\n"


def _build(build: Build) -> dict[str, object]:
    return {
        "torch": build.torch,
        "tag": build.tag,
        "status": build.status,
        "reasons": [_reason(one) for one in build.reasons],
        "torchvision": build.torchvision or None,
        "torchaudio": build.torchaudio or None,
        "numpy": build.numpy or None,
        "index_url": build.index_url,
    }


def _reason(reason: Reason) -> dict[str, object]:
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in reason.values}
    return {"id": reason.id, "values": values, "says": clean(says(reason, plan_words_for("en")))}

"""The Python that runs torch: what lies in it, and how `import torch` goes there.

It may crash, hang or print rubbish; what comes back are claims, and the texts it printed for the signatures to judge.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .. import versions
from ..errors import UsageError
from ..interpreter import (
    ScriptRun,
    environment_of_children,
    gpu_subject,
    interpreters_in,
    recorded_run,
    run_parts,
)
from ..machine import Machine, at_the_same_time
from ..model import Claim, Source, Transcript, Value, absent, present, unknown
from ..text import clean
from .libraries import place_of, start_looking
from .other_pythons import others_with_torch

NAME = "python-target"

PYTHON_FACTS = (
    "python.path",
    "python.version",
    "python.bits",
    "python.prefix",
    "python.environment",
    "python.manager",
    "python.ending",
)
BESIDE_TORCH = {
    "torchvision.version": ("torchvision",),
    "torchaudio.version": ("torchaudio",),
    "numpy.version": ("numpy",),
    "triton.version": ("triton", "triton-windows", "pytorch-triton"),
}
TORCH_FACTS = (
    "torch.version",
    "torch.location",
    "torch.tag",
    "torch.build",
    "torch.cuda",
    "torch.hip",
)
IMPORT_FACTS = (
    "torch.import",
    "torch.import_step",
    "torch.import_error",
    "torch.import_signal",
    "torch.import_slow",
    "torch.archs",
    "torch.cuda_available",
    "torch.device_count",
    "torch.cuda_error",
    "torch.loaded_libraries",
)
FACTS = (
    *PYTHON_FACTS,
    *TORCH_FACTS,
    "torch.distributions",
    "torch.leftovers",
    "torch.shadowed_by",
    *BESIDE_TORCH,
    *IMPORT_FACTS,
    "python.others_with_torch",
    "troubleshooter.name_conflict",
)

SLOW = 30.0
"""Seconds of `import torch` from which it is called slow."""
_TRANSCRIPT = 128 * 1024

Said = Iterator[Claim | Transcript]


# --- which Python

_PORTABLE = ("python_embeded", "python_embedded")
"""Where portable programs keep their Python; the first is how ComfyUI spells it. Names that any download may have, such
as `python`, are left out: what is found here is run."""


def find_target(machine: Machine, python: str = "") -> str:
    """The interpreter to look at: `python`, else the active environment's, else the first on PATH; "" if none.

    `python` is a file, a name on PATH, or the folder of a venv or conda environment. Raises UsageError if it is no
    Python. A machine that is a folder or a recording has no interpreter of its own that could be run.
    """
    if python:
        return _given(machine, python)
    if machine.kind != "live":
        return ""
    candidates = []
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if folder := machine.environ.get(variable):
            candidates += [path for path in interpreters_in(folder) if os.path.isfile(path)][:1]
    candidates += _portable() if machine.platform == "win32" else []
    candidates += [path for name in ("python", "python3", "py") if (path := machine.which(name))]
    found = next((path for path in candidates if _is_python(machine, path)), "")
    return _behind(machine, found) if machine.platform == "win32" else found


def _portable() -> list[str]:
    """The interpreter of a portable program (ComfyUI and others) whose folder, or a folder in it, we stand in."""
    try:
        here = os.getcwd()
    except OSError:
        return []
    folders = [os.path.join(top, name) for top in (here, os.path.dirname(here)) for name in _PORTABLE]
    return [path for folder in folders if os.path.isfile(path := os.path.join(folder, "python.exe"))]


def _behind(machine: Machine, path: str) -> str:
    """The interpreter that the launcher `py`, or a batch file of pyenv, starts: theirs is not the one to install with,
    and a batch file does not pass arguments on as they are.
    """
    if not path or (path.lower().endswith(".exe") and os.path.basename(path).lower() not in ("py.exe", "pyw.exe")):
        return path
    answer = machine.run([path, "-c", "import sys;print(sys.executable)"], 20, english=False, here=True)
    told = answer.text.strip().splitlines()[-1:] or [""]
    return told[0] if answer.ok and os.path.isfile(told[0]) else path


def _given(machine: Machine, python: str) -> str:
    path = os.path.expanduser(python)
    if not os.path.dirname(path) and not os.path.exists(path):
        import shutil

        if not (found := shutil.which(path)):
            raise UsageError(f"there is no {python!r} on PATH", "--python takes the path of a Python interpreter")
        path = found
    path = os.path.abspath(path)  # not realpath: the interpreter of a venv is a link, and the link makes the venv
    if os.path.isdir(path):
        inside = next((one for one in interpreters_in(path) if os.path.isfile(one)), "")
        if not inside:
            raise UsageError(
                f"{python} is a folder without a Python interpreter in it", "--python takes an interpreter"
            )
        path = inside
    if not os.path.exists(path):
        raise UsageError(f"there is no file {python}", "--python takes the path of a Python interpreter")
    if not os.access(path, os.X_OK):
        raise UsageError(f"{python} may not be run by this user", "--python takes the path of a Python interpreter")
    if not _is_python(machine, path):
        raise UsageError(f"{python} is no Python interpreter", "it does not answer to --version as a Python does")
    return path


def _is_python(machine: Machine, path: str) -> bool:
    # The one question that is safe to ask of any program, and that a Python answers before it can fail at anything.
    answer = machine.run([path, "--version"], 10, english=False, here=True)
    if answer.ending in ("timed-out", "hung", "crashed"):
        return re.match(r"(python|pypy)[\d.]*(\.exe)?$", os.path.basename(path).lower()) is not None
    return re.search(r"^Python \d+\.\d+", answer.text + "\n" + answer.errors, re.MULTILINE) is not None


# --- asking it


class TargetSaid(NamedTuple):
    """What the target tells, and how the tests went that it did after the import; None where it came to none."""

    said: tuple[Claim | Transcript, ...]
    tests: ScriptRun | None = None


def probe_target(
    machine: Machine,
    python: str,
    tests: Sequence[str] = (),
    *,
    seconds: float = 180.0,
    alive_limit: float = 30.0,
    slow: float = SLOW,
    cwd: str | None = None,
    agreed: bool = False,
) -> TargetSaid:
    """All that the target Python tells of its files and, at the same time, of `import torch`.

    `tests`: the arguments that let the process of the import go on with tests. `seconds` limits each of the two
    processes; `alive_limit` is how long one may give no sign of life. `agreed` is for the tests: the whole memory may
    be tested although something else uses the GPU.
    """
    if not python:
        return TargetSaid(tuple(_no_target(machine)))
    env = environment_of_children(machine.environ)
    if tests:
        env["TROUBLESHOOTER_WHOLE_CARD"] = "yes" if agreed else None

    def ask(script: str, arguments: Sequence[str] = ()) -> tuple[ScriptRun, ...]:
        return run_parts(machine, python, script, arguments, seconds=seconds, alive_limit=alive_limit, env=env, cwd=cwd)

    def inspect() -> tuple[ScriptRun, Callable[[], tuple[Claim, ...]]]:
        (inspection,) = ask("inspect_environment.py")
        return inspection, _libraries(machine, python, inspection)

    (inspection, read_libraries), parts = at_the_same_time(inspect, lambda: ask("import_torch.py", tests))
    said = list(claims_of_target(inspection, parts[0], machine.environ, slow))
    said += _others(machine, python, inspection)
    said += read_libraries()
    return TargetSaid(tuple(said), parts[1] if len(parts) > 1 else None)


def _libraries(machine: Machine, python: str, inspection: ScriptRun) -> Callable[[], tuple[Claim, ...]]:
    """Follow the loader through torch's libraries while the target imports them."""
    place = place_of(_value(inspection.after("interpreter")), _value(inspection.after("torch")), python)
    # The interpreter that was named runs on this computer, whatever folder or recording is looked at beside it.
    return start_looking(machine, place) if place and machine.kind == "live" else tuple


def claims_of_target(
    inspection: ScriptRun, imported: ScriptRun | None, environ: Mapping[str, str], slow: float = SLOW
) -> Said:
    """What the two scripts say; `imported` is None where it was not tried. Pure."""
    yield from _of_inspection(inspection)
    if imported is None or not imported.events or has_no_torch(inspection):
        run = imported or inspection
        for name in IMPORT_FACTS:
            if has_no_torch(inspection):
                yield absent(name, _files(run), "torch is not installed in this Python")
            else:
                yield unknown(name, f"the interpreter itself {run.how_it_died()}", _files(run))
    else:
        yield from _of_import(imported, environ, slow)


def claims_of_recording(record: Mapping[str, Any], environ: Mapping[str, str]) -> Said:
    """The same from a recording's `target`: `{inspection: run, import: run}`, where a run is as `recorded_run` says."""
    imported = record.get("import")
    inspection = recorded_run(record.get("inspection") or {})
    yield from claims_of_target(inspection, recorded_run(imported) if imported else None, environ)


def has_no_torch(inspection: ScriptRun) -> bool:
    """The inspection went well and found neither a module nor a distribution called torch."""
    place, packages = inspection.after("torch"), inspection.after("packages")
    if place is None or packages is None or packages.get("outcome") != "ok":
        return False
    return _value(place).get("kind") == "none" and not _versions(packages, ("torch",))


def _no_target(machine: Machine) -> Said:
    if machine.kind == "live":
        reason = "no Python was found: none is on PATH, and no environment is active"
    else:
        reason = "the Python of another machine cannot be run here"
    source = Source("target", "target")
    for name in FACTS:
        if name == "python.path" and machine.kind == "live":
            yield absent(name, source, reason)
        else:
            yield unknown(name, reason, source)


# --- what the inspection says


def _of_inspection(run: ScriptRun) -> Said:
    source = _files(run)
    started = next((event for event in run.events if event.get("event") == "started"), {})
    facts = _value(run.after("interpreter"))
    why = _why_incomplete(run)
    yield present("python.path", run.python, source)
    yield present("python.ending", _python_ending(run), source)._replace(reason=why)
    stated = {**started, **facts}
    for key in ("version", "bits", "prefix", "environment", "manager"):
        if key in stated:
            yield present(f"python.{key}", stated[key], source)
        else:
            yield unknown(f"python.{key}", why, source)
    if run.errors.strip():
        yield _transcript(run.errors, run, "what the interpreter printed at its start")
    yield from _of_packages(run.after("packages"), source, why)
    yield from _of_torch_files(run, source, why)


def _of_packages(event: Mapping[str, Any] | None, source: Source, why: str) -> Said:
    value = _value(event)
    if "packages" not in value:
        for name in (*BESIDE_TORCH, "torch.distributions", "torch.leftovers", "troubleshooter.name_conflict"):
            yield unknown(name, why, source)
        return
    for name, packages in BESIDE_TORCH.items():
        if found := _versions(event, packages):
            yield present(name, found[0][0], source._replace(file=found[0][1]))
        else:
            yield absent(name, source, f"{packages[0]} is not installed in this Python")
    yield _texts("torch.distributions", [version for version, _ in _versions(event, ("torch",))], source)
    leftovers = [path for path in value.get("leftovers", ()) if os.path.basename(str(path)).startswith("~orch")]
    yield _texts("torch.leftovers", leftovers, source)
    yield present("troubleshooter.name_conflict", bool(_versions(event, ("troubleshooter",))), source)


def _of_torch_files(run: ScriptRun, source: Source, why: str) -> Said:
    event = run.after("torch")
    place = _value(event)
    installed = _versions(run.after("packages"), ("torch",))
    of_metadata = [
        present("torch.version", version, source._replace(file=folder, detail="metadata of the distribution"))
        for version, folder in installed[:1]
    ]
    if "kind" not in place:
        yield from of_metadata
        for name in (*TORCH_FACTS, "torch.shadowed_by"):
            yield unknown(name, why, source)
        return
    if place["kind"] == "none" and not installed:
        for name in TORCH_FACTS:
            yield absent(name, source, "torch is not installed in this Python")
        yield absent("torch.shadowed_by", source)
        return

    shadow = _shadow(run, place, bool(installed))
    yield present("torch.shadowed_by", shadow, source) if shadow else absent("torch.shadowed_by", source)
    location = str(place.get("folder") or next(iter(place.get("folders") or ()), ""))
    if location:
        yield present("torch.location", location, source)
    else:
        yield unknown("torch.location", str(place.get("reason") or "nothing says where torch would come from"), source)
    stated = place.get("version") or {}
    if stated.get("__version__"):
        file = os.path.join(location, "version.py")
        yield from _of_version(stated["__version__"], stated, source._replace(file=file, detail="torch/version.py"))
    # After version.py: the metadata of wheels from PyPI lacks the local tag.
    yield from of_metadata


def _shadow(run: ScriptRun, place: Mapping[str, Any], installed: bool) -> str:
    """What stands before, or instead of, an installed torch; empty for a torch that is one."""
    folder = str(_value(run.after("interpreter")).get("folder", ""))
    if place["kind"] == "namespace":
        own = [path for path in place.get("folders", ()) if folder and os.path.dirname(str(path)) == folder]
        return str(own[0]) if own else ""
    if not place.get("outside_roots") or place.get("compiled"):
        return ""
    if place["kind"] == "module" or installed or place.get("container") == folder:
        return str(place.get("origin", ""))
    return ""


def _of_version(version: str, stated: Mapping[str, Any], source: Source) -> Said:
    """Version, tag, build, CUDA and ROCm from what one witness states."""
    yield present("torch.version", version, source)
    tag = versions.local(version)
    yield present("torch.tag", tag, source) if tag else absent("torch.tag", source, "the version has no local tag")
    build = _build(tag, stated)
    if build:
        yield present("torch.build", build, source)
    else:
        yield unknown("torch.build", "neither version.cuda nor the tag of the version tells", source)
    for key in ("cuda", "hip"):
        if stated.get(key):
            yield present(f"torch.{key}", str(stated[key]), source)
        elif key in stated or build:
            yield absent(f"torch.{key}", source, f"torch.version.{key} is None")
        else:
            yield unknown(f"torch.{key}", f"this torch has no version.{key}", source)


def _build(tag: str, stated: Mapping[str, Any]) -> str:
    if stated.get("hip"):
        return "rocm"
    if stated.get("cuda"):
        return "cuda"
    for head, build in (("cu1", "cuda"), ("cu9", "cuda"), ("cpu", "cpu"), ("rocm", "rocm"), ("xpu", "xpu")):
        if tag.startswith(head):
            return build
    if stated.get("xpu"):
        return "xpu"
    return "cpu" if "cuda" in stated else ""


# --- what the import says


def _of_import(run: ScriptRun, environ: Mapping[str, str], slow: float) -> Said:
    source = Source("target", "target", "import torch", run.python)
    done = run.after("import-torch")
    ending, step, error = _how_import_ended(run)
    yield present("torch.import", ending, source)
    yield present("torch.import_step", step, source) if step else absent("torch.import_step", source)
    yield present("torch.import_error", error, source) if error else absent("torch.import_error", source)
    yield present("torch.import_signal", run.signal, source) if run.signal else absent("torch.import_signal", source)
    took = float(done["took"]) if done else run.seconds
    if took > slow or done is not None:
        yield present("torch.import_slow", took > slow, source)
    else:
        yield unknown("torch.import_slow", "the import did not come to an end", source)

    yield from _transcripts(run)
    yield _loaded_libraries(run, source)
    died = f"import torch {run.how_it_died()}" if ending != "ok" else f"the step {step} {run.how_it_died()}"
    if ending != "ok":
        for name in ("torch.archs", "torch.cuda_available", "torch.device_count", "torch.cuda_error"):
            yield unknown(name, _clip(error) or died, source)
        return
    stated = _value(run.after("read-version"))
    named = {key: stated.get(key) for key in stated.get("stated", ())}
    if stated.get("version"):
        yield from _of_version(stated["version"], named, source)
    if file := _value(done).get("file"):
        yield present("torch.location", os.path.dirname(str(file)), source)
    yield from _of_step(run.after("is-available"), "available", "torch.cuda_available", source, died)
    yield from _of_step(run.after("device-count"), "count", "torch.device_count", source, died)
    no_gpu_code = _build(versions.local(str(stated.get("version"))), named) in ("cpu", "xpu")
    archs = _value(run.after("list-archs")).get("archs")
    if archs or no_gpu_code:
        yield _texts("torch.archs", archs or [], source)
    else:
        yield unknown("torch.archs", _why_not(run.after("list-archs"), died), source)
    if no_gpu_code:
        yield absent("torch.cuda_error", source, "this build has no CUDA to initialise")
    else:
        yield _cuda_error(run, source, died)
    yield from _of_devices(run, environ, source)


def _how_import_ended(run: ScriptRun) -> tuple[str, str, str]:
    """(ending, step that ended badly, last line of what it said); the two latter empty where all went well."""
    done = run.after("import-torch")
    if done is None:
        if run.ending in ("hung", "timed-out"):
            return "hung", "import-torch", run.reason
        if run.ending == "crashed":
            return "crashed", "import-torch", _abort_line(run.errors) or run.how_it_died()
        if broken := next((event for event in run.events if event.get("event") == "broken"), None):
            return "failed", "start", _line(broken)
        return "exited", "import-torch", _abort_line(run.errors) or run.how_it_died()
    if done.get("outcome") != "ok":
        exited = (done.get("error") or {}).get("type") == "SystemExit"
        return "exited" if exited else "failed", "import-torch", _line(done)
    version = run.after("read-version")
    if version and not _value(done).get("file") and not _value(version).get("version"):
        return "failed", "import-torch", "the torch that is found is a folder without __init__.py, no package"
    unfinished = run.unfinished
    if unfinished and not run.complete:
        return "ok", str(unfinished.get("step")), _abort_line(run.errors) or run.how_it_died()
    return "ok", "", ""


def _of_step(event: Mapping[str, Any] | None, key: str, name: str, source: Source, died: str) -> Said:
    value = _value(event).get(key)
    if isinstance(value, bool | int):
        yield present(name, value, source)
    else:
        yield unknown(name, _why_not(event, died), source)


def _loaded_libraries(run: ScriptRun, source: Source) -> Claim:
    event = run.after("loaded-libraries")
    files = _value(event).get("files")
    if not isinstance(files, list):
        return unknown("torch.loaded_libraries", _why_not(event, "the import did not come to an end"), source)
    return _texts("torch.loaded_libraries", files, source)


def _cuda_error(run: ScriptRun, source: Source, died: str) -> Claim:
    event = run.after("cuda-init")
    warned = []
    for step in ("is-available", "device-count", "cuda-init"):
        warned += [_clip(text) for text in (run.after(step) or {}).get("warnings", ())]
    if event is None:
        return unknown("torch.cuda_error", died, source)
    if event.get("outcome") == "failed":
        return present("torch.cuda_error", "; ".join([_line(event), *warned])[:4000], source)
    if event.get("outcome") == "ok":
        return absent("torch.cuda_error", source, "CUDA was initialised")
    if warned and _value(run.after("is-available")).get("available") is not True:
        return present("torch.cuda_error", "; ".join(warned)[:4000], source)
    return unknown("torch.cuda_error", _why_not(event, died), source)


def _of_devices(run: ScriptRun, environ: Mapping[str, str], source: Source) -> Said:
    for event in run.events:
        index = event.get("device")
        if event.get("event") != "after" or event.get("step") != "device" or not isinstance(index, int):
            continue
        subject = gpu_subject(index, environ)
        for key in ("name", "capability"):
            if key in _value(event):
                yield present(f"gpu.{key}", _clip(_value(event)[key]), source, subject)


def _transcripts(run: ScriptRun) -> Said:
    if run.errors.strip():
        yield _transcript(run.errors, run, "printed during import torch")
    for event in run.events:
        where = f"step {event.get('step', event.get('event'))}"
        error = event.get("error") or {}
        if text := error.get("traceback") or error.get("message"):
            yield _transcript(str(text), run, where)
        if warned := event.get("warnings"):
            yield _transcript("\n".join(map(str, warned)), run, f"warnings of {where}")


# --- other interpreters


def _others(machine: Machine, python: str, inspection: ScriptRun) -> Said:
    name = "python.others_with_torch"
    source = Source("probe", "file", "torch in other interpreters' folders")
    if machine.kind != "live":
        yield unknown(name, "only the interpreter that was named is looked at", source)
        return
    roots = _value(inspection.after("interpreter")).get("roots", ())
    yield _texts(name, others_with_torch(machine, python, map(str, roots)), source)


# --- small change


def _files(run: ScriptRun) -> Source:
    return Source("target", "file", "files of the interpreter", run.python)


def _value(event: Mapping[str, Any] | None) -> Mapping[str, Any]:
    value = (event or {}).get("value")
    return value if isinstance(value, dict) else {}


def _versions(event: Mapping[str, Any] | None, names: tuple[str, ...]) -> list[tuple[str, str]]:
    """(version, folder) of the distributions with one of these names, in the order of sys.path."""
    return [
        (clean(str(package["version"])), str(package["folder"]))
        for package in _value(event).get("packages", ())
        if package.get("name") in names and package.get("version")
    ]


def _texts(name: str, values: list[str], source: Source) -> Claim:
    texts: Value = tuple(clean(str(value)) for value in values)
    return present(name, texts, source) if values else absent(name, source)


def _transcript(text: str, run: ScriptRun, detail: str) -> Transcript:
    if len(text) > _TRANSCRIPT:
        half = _TRANSCRIPT // 2
        text = f"{text[:half]}\n[…]\n{text[-half:]}"
    return Transcript(text, Source("target", "target", detail, run.python))


def _clip(text: object) -> str:
    return clean(str(text))[:1000]


def _line(event: Mapping[str, Any]) -> str:
    """Type and first line of an exception's message: what follows in CUDA's is advice that is always the same."""
    return _clip((event.get("error") or {}).get("line", ""))


def _abort_line(errors: str) -> str:
    """The last line before the dump of faulthandler, or that dump's head if nothing else was printed."""
    before, dump, _ = errors.partition("Fatal Python error:")
    lines = [line for line in before.splitlines() if line.strip()]
    if lines:
        return _clip(lines[-1].strip())
    head = errors[len(before) :].splitlines()
    return _clip(head[0]) if dump and head else ""


def _why_not(event: Mapping[str, Any] | None, died: str) -> str:
    if event is None:
        return died
    return _clip(event.get("reason") or "") or _line(event) or "the step gave no value"


def _why_incomplete(run: ScriptRun) -> str:
    if run.complete and not any(event.get("outcome") == "failed" for event in run.events):
        return ""
    for event in run.events:
        if event.get("error"):
            return _line(event)
    return _abort_line(run.errors) or f"the inspection {run.how_it_died()}"


def _python_ending(run: ScriptRun) -> str:
    if run.ending == "crashed":
        return "crashed"
    if run.ending in ("hung", "timed-out"):
        return "timed-out"
    if run.ending in ("missing", "denied"):
        return "missing"
    return "ok" if run.complete and run.after("torch") and not _why_incomplete(run) else "failed"

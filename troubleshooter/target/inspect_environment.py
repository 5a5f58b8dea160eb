"""What this Python is and which packages lie in it: files and their names only; torch is never imported.

Reads *.dist-info folders itself: `importlib.metadata` is missing before Python 3.8 and stops at the broken folders
that are looked for here.
"""

import os
import sys

HEAD = 65536
WANTED = {
    "apex", "bitsandbytes", "causal-conv1d", "cupy", "deepspeed", "fastai", "flash-attn", "jax", "jaxlib", "keras",
    "mkl", "mamba-ssm", "intel-openmp", "numpy", "onnxruntime", "onnxruntime-gpu", "peft", "pytorch-lightning",
    "pytorch-triton", "tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tensorrt", "transformers", "accelerate",
    "triton", "triton-windows", "vllm", "xformers", "troubleshooter", "gpu-troubleshooter",
}  # fmt: skip
WANTED_HEADS = ("torch", "nvidia-", "cuda-", "triton-", "cupy-")


def main(channel, arguments):
    modules = {name: channel.from_stdlib(name) for name in ("ast", "importlib.util", "re", "site", "sysconfig")}
    roots = find_roots(modules)
    for name, work in (
        ("interpreter", lambda: interpreter(modules, roots)),
        ("packages", lambda: packages(modules, roots)),
        ("torch", lambda: torch_files(modules, roots)),
    ):
        channel.step(name, work)


def find_roots(modules):
    """Folders that hold installed packages and are on sys.path, in its order."""
    known = []
    for ask in (
        lambda: [modules["sysconfig"].get_path("purelib"), modules["sysconfig"].get_path("platlib")],
        lambda: list(modules["site"].getsitepackages()),
        lambda: [modules["site"].getusersitepackages()],
    ):
        try:
            known.extend(ask())
        except Exception:  # site of an old virtualenv lacks these functions
            pass
    known = {os.path.normcase(os.path.abspath(path)) for path in known if path}
    roots = []
    for path in sys.path:
        full = absolute(path)
        name = os.path.basename(full)
        if os.path.isdir(full) and full not in roots:
            if os.path.normcase(full) in known or name in ("site-packages", "dist-packages"):
                roots.append(full)
    return roots


def absolute(path):
    """The path made absolute, where the working folder still exists."""
    try:
        return os.path.abspath(path or os.curdir)
    except OSError:
        return path


def interpreter(modules, roots):
    prefix, base = sys.prefix, getattr(sys, "base_prefix", sys.prefix)
    config = read_config(prefix)
    conda = os.path.isdir(os.path.join(prefix, "conda-meta"))
    folder = os.path.dirname(sys.executable or "")
    isolated = "python%d%d._pth" % sys.version_info[:2]
    if conda:
        kind = "conda"
    elif config or prefix != base or hasattr(sys, "real_prefix"):
        kind = "venv"
    elif not sys.executable or os.path.exists(os.path.join(folder, isolated)):
        kind = "embedded"
    else:
        kind = "system"
    try:
        machine = os.uname().machine
    except AttributeError:
        machine = os.environ.get("PROCESSOR_ARCHITECTURE", "")
    return {
        "version": "%d.%d.%d" % sys.version_info[:3],
        "full_version": sys.version,
        "implementation": sys.implementation.name,
        "executable": sys.executable,
        "prefix": prefix,
        "base_prefix": base,
        "bits": 64 if sys.maxsize > 2**32 else 32,
        "platform": sys.platform,
        "machine": machine,
        "environment": kind,
        "manager": manager(prefix, config, conda),
        "roots": roots,
        "folder": absolute(""),
        "path": list(sys.path)[:200],
        "conda_packages": conda_packages(prefix) if conda else [],
    }


def manager(prefix, config, conda):
    parts = prefix.replace("\\", "/").split("/")
    if ".pixi" in parts or os.path.exists(os.path.join(prefix, "conda-meta", "pixi")):
        return "pixi"
    if conda:
        return conda_program(prefix)
    if "uv" in config:
        return "uv"
    # Poetry keeps its environments in a folder of that name, or as .venv beside its lock file.
    if "pypoetry" in parts or (
        parts[-1] == ".venv" and os.path.exists(os.path.join(os.path.dirname(prefix), "poetry.lock"))
    ):
        return "poetry"
    return "pip"


def conda_program(prefix):
    """conda, mamba or micromamba: who changed the environment last, by the history that each of them keeps."""
    import re

    found = re.findall(
        r"^# cmd: .*?\b(micromamba|mamba|conda)(?:\.exe|-script\.py)?[\"']? ",
        read(os.path.join(prefix, "conda-meta", "history")),
        re.MULTILINE,
    )
    return found[-1] if found else "conda"


def read_config(prefix):
    """The keys of pyvenv.cfg; empty outside a venv."""
    found = {}
    for line in read(os.path.join(prefix, "pyvenv.cfg")).splitlines():
        key, sign, value = line.partition("=")
        if sign:
            found[key.strip().lower()] = value.strip()
    return found


def conda_packages(prefix):
    wanted = ("pytorch", "libtorch", "torch", "cuda", "cudnn", "nccl", "numpy", "mkl", "intel-openmp", "triton")
    return sorted(
        name[:-5]
        for name in names_in(os.path.join(prefix, "conda-meta"))
        if name.endswith(".json") and name.startswith(wanted)
    )[:200]


def packages(modules, roots):
    """Distributions of interest, and what an interrupted pip left ("~orch")."""
    found, leftovers = [], []
    for root in roots:
        for entry in names_in(root):
            if entry.startswith("~"):
                leftovers.append(os.path.join(root, entry))
                continue
            lower = entry.lower()
            if not lower.endswith((".dist-info", ".egg-info", ".egg")):
                continue
            stem = entry[: entry.rindex(".")]
            name, _, version = stem.partition("-")
            if not is_wanted(normal(modules, name)):
                continue
            folder = os.path.join(root, entry)
            head = metadata_head(folder)
            found.append(
                {
                    "name": normal(modules, head.get("name") or name),
                    # An .egg-info name goes on with the Python it was made for: torch-1.0-py3.6.
                    "version": head.get("version") or modules["re"].sub(r"-py\d.*$", "", version),
                    "metadata": bool(head),
                    "folder": folder,
                    "installer": read(os.path.join(folder, "INSTALLER")).strip()[:40],
                }
            )
    return {"packages": found[:1000], "leftovers": leftovers[:50]}


def is_wanted(name):
    return name in WANTED or name.startswith(WANTED_HEADS)


def normal(modules, name):
    return modules["re"].sub(r"[-_.]+", "-", name).lower()


def metadata_head(folder):
    """Name and Version of a METADATA or PKG-INFO file; empty if there is none to read."""
    text = ""
    if os.path.isfile(folder):
        text = read(folder)
    else:
        for name in ("METADATA", "PKG-INFO", os.path.join("EGG-INFO", "PKG-INFO")):
            text = text or read(os.path.join(folder, name))
    found = {}
    for line in text.splitlines():
        if not line.strip():
            break
        key, sign, value = line.partition(":")
        if sign and key.lower() in ("name", "version"):
            found.setdefault(key.lower(), value.strip()[:200])
    return found


def torch_files(modules, roots):
    """Where `import torch` would come from, and what its version.py says as text."""
    try:
        spec = modules["importlib.util"].find_spec("torch")
    except BaseException as error:
        return {"kind": "error", "reason": "%s: %s" % (type(error).__name__, error)}
    if spec is None:
        return {"kind": "none"}
    places = [str(place) for place in (spec.submodule_search_locations or ())][:20]
    origin = spec.origin if isinstance(spec.origin, str) and os.path.exists(spec.origin) else None
    if origin is None:
        return {"kind": "namespace", "folders": places}
    folder = os.path.dirname(os.path.abspath(origin))
    held_by = folder if spec.submodule_search_locations is None else os.path.dirname(folder)
    return {
        "kind": "module" if spec.submodule_search_locations is None else "package",
        "origin": origin,
        "folder": folder,
        # Installed packages come from a site folder; anything that is found before it shadows them.
        "container": held_by,
        "compiled": any(name.startswith("_C.") for name in names_in(folder)),
        "outside_roots": os.path.normcase(held_by) not in {os.path.normcase(root) for root in roots},
        "version": read_version(modules, os.path.join(folder, "version.py")),
    }


def read_version(modules, path):
    """The constants that version.py assigns; a value that is no constant is left out."""
    ast = modules["ast"]
    try:
        body = ast.parse(read(path)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found = {}
    for statement in body:
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, getattr(ast, "AnnAssign", ())) and statement.value is not None:
            targets = [statement.target]
        else:
            continue
        try:
            value = ast.literal_eval(statement.value)
        except (ValueError, TypeError, RecursionError, MemoryError):
            continue
        for target in targets:
            if isinstance(target, ast.Name) and target.id in ("__version__", "cuda", "hip", "xpu", "git_version"):
                found[target.id] = None if value is None else str(value)
    return found


def names_in(folder):
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read(HEAD).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""

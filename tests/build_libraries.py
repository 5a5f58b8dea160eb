"""Builds small shared libraries for tests: ELF with gcc, PE with mingw; nothing of it is ever committed."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

GCC = shutil.which("gcc")
MINGW = shutil.which("x86_64-w64-mingw32-gcc")


def elf(
    path: Path,
    *,
    soname: str = "",
    defines: Sequence[str] = (),
    versions: Mapping[str, Sequence[str]] | None = None,
    uses: Sequence[str] = (),
    needs: Sequence[Path] = (),
    runpath: str = "",
    rpath: str = "",
) -> Path:
    """A library without the C library. `versions` gives symbols by their version; `needs` are files to link with."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Beside the temporary folder of the test, never in the tree that is looked at.
    work = path.parent / f".{path.name}.build"
    work.mkdir()
    symbols = [*defines, *(one for group in (versions or {}).values() for one in group)]
    lines = [f"void {one}(void) {{}}" for one in symbols]
    lines += [f"extern void {one}(void);" for one in uses]
    lines.append(
        "void *uses_of_%s[] = {%s};" % (abs(hash(path)), ", ".join(["0", *(f"(void *){one}" for one in uses)]))
    )
    (work / "code.c").write_text("\n".join(lines) + "\n")
    command = [str(GCC), "-shared", "-fPIC", "-nostdlib", "-o", str(path), str(work / "code.c"), "-Wl,--no-as-needed"]
    command += ["-Wl,--allow-shlib-undefined", f"-Wl,-soname,{soname or path.name}"]
    if versions:
        nodes, before = [], ""
        for name, group in versions.items():
            nodes.append(f"{name} {{ global: {' '.join(one + ';' for one in group)} }}{before};")
            before = f" {name}"
        (work / "versions.map").write_text("\n".join(nodes) + "\n")
        command.append(f"-Wl,--version-script={work / 'versions.map'}")
    command += [str(one) for one in needs]
    if runpath:
        command += ["-Wl,--enable-new-dtags", f"-Wl,-rpath,{runpath}"]
    if rpath:
        command += ["-Wl,--disable-new-dtags", f"-Wl,-rpath,{rpath}"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    shutil.rmtree(work)
    return path


def dll(
    path: Path,
    *,
    defines: Sequence[str] = (),
    uses: Mapping[str, Sequence[str]] | None = None,
) -> Path:
    """A DLL that exports `defines` and imports `uses`: symbols by the DLL that they are asked of."""
    compiler = str(MINGW)
    path.parent.mkdir(parents=True, exist_ok=True)
    work = path.parent / f".{path.name}.build"
    work.mkdir()
    lines = [f"__declspec(dllexport) int {one}(void) {{ return 1; }}" for one in defines]
    imported = []
    for number, (library, symbols) in enumerate((uses or {}).items()):
        definition = work / f"stub{number}.def"
        definition.write_text(f"LIBRARY {library}\nEXPORTS\n" + "".join(f"  {one}\n" for one in symbols))
        archive = work / f"libstub{number}.a"
        subprocess.run(
            [compiler.replace("gcc", "dlltool"), "-d", str(definition), "-l", str(archive)],
            check=True,
            capture_output=True,
        )
        imported.append(str(archive))
        lines += [f"__declspec(dllimport) int {one}(void);" for one in symbols]
    asked = [one for symbols in (uses or {}).values() for one in symbols]
    lines.append("int asked(void) { return 0 %s; }" % "".join(f"+ {one}()" for one in asked))
    lines.append("int __stdcall DllMainCRTStartup(void *a, unsigned b, void *c) { return 1; }")
    (work / "code.c").write_text("\n".join(lines) + "\n")
    subprocess.run(
        [
            compiler,
            "-shared",
            "-nostdlib",
            "-Wl,-e,DllMainCRTStartup",
            "-o",
            str(path),
            str(work / "code.c"),
            *imported,
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    shutil.rmtree(work)
    return path


def environment(**variables: str) -> dict[str, str]:
    return {**{name: value for name, value in os.environ.items() if not name.startswith("LD_")}, **variables}

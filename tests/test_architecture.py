"""Imports point downwards, and the costly or dangerous libraries are imported in one place each."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "troubleshooter"

LAYERS = [
    ["model", "text", "credentials"],
    ["errors", "versions", "privacy", "literals", "processes", "shells", "portable"],
    ["windows_job", "windows_system", "outputs", "libraries", "builds"],
    ["commands", "spool"],
    ["machine", "runner"],
    ["interpreter", "settle"],
    ["recording", "launchers"],
    ["probes", "paste", "derive", "engine", "confirm", "whole_card", "apply"],
    ["examples", "rank", "knowledge", "judge"],
    ["prescribe", "ask", "proof", "counterfactual", "change", "mutants"],
    ["plan"],
    ["pipeline"],
    ["rule_tests"],
    ["report", "state", "collector", "arguments", "clipboard", "waiting"],
    ["interface", "rules_commands"],
    ["cli"],
    ["__main__"],
]
HEIGHT = {name: level for level, names in enumerate(LAYERS) for name in names}

ALLOWED = {
    "durable_rules_engine": {"engine/durable.py"},
    "durable": set(),
    "yaml": {"knowledge/yaml_marks.py"},
    "rich": {"report/terminal.py"},
    "pynvml": {"probes/"},
    "torch": {"target/"},
    "subprocess": {"commands.py", "runner.py", "target/collect.py", "target/multi_tests.py"},
    "dataclasses": set(),
    "re2": {"paste/sieve.py"},
    "hyperscan": {"paste/sieve.py"},
    "elftools": {"libraries/elf.py"},
    "pefile": {"libraries/pe.py"},
}


def modules() -> list[Path]:
    return [path for path in sorted(PACKAGE.rglob("*.py")) if "target" not in path.parts]


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_from_us(path: Path) -> Iterator[str]:
    depth = len(path.relative_to(PACKAGE).parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == depth:
            if node.module:
                yield node.module.split(".")[0]
            else:
                yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("troubleshooter"):
            yield (node.module or "").split(".")[1]


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_downwards(path: Path) -> None:
    here = part_of(path)
    if here == "__init__":
        return
    for name in imported_from_us(path):
        if name in ("__version__", here):
            continue
        assert HEIGHT[name] < HEIGHT[here], f"{here} must not import {name}"


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_costly_and_dangerous_libraries_have_one_place(path: Path) -> None:
    place = path.relative_to(PACKAGE).as_posix()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        for name in names:
            allowed = ALLOWED.get(name.split(".")[0])
            if allowed is not None and not _only_for_types(tree, node):
                assert any(place.startswith(one) for one in allowed), f"{place} must not import {name}"


def _only_for_types(tree: ast.AST, wanted: ast.AST) -> bool:
    return any(
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
        and any(wanted is inner for inner in ast.walk(node))
        for node in ast.walk(tree)
    )


def test_only_the_command_line_prints() -> None:
    for path in modules():
        if part_of(path) in ("cli", "__main__"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
            assert not called, f"{path.name} prints"


def test_a_diagnosis_of_text_leaves_the_heavy_libraries_alone(tmp_path: Path) -> None:
    text = tmp_path / "log.txt"
    text.write_text("CUDA driver version is insufficient for CUDA runtime version\n")
    code = (
        "import sys\nfrom troubleshooter.cli import main\nmain(['log', sys.argv[1]])\n"
        "print([name for name in ('torch', 'rich', 'subprocess', 'pynvml', 'dataclasses') if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(text)], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"

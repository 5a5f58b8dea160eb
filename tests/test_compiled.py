"""Compiled knowledge says what the YAML files say, costs no YAML, and is never trusted further than it is whole."""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from test_cases import FIXTURES, name_of, read
from test_loader import GOOD_RULE

from troubleshooter.errors import KnowledgeError
from troubleshooter.knowledge import cache, compiled, load
from troubleshooter.knowledge.compile import write_compiled
from troubleshooter.knowledge.sources import read_sources
from troubleshooter.model import Knowledge, Location, Report, Request
from troubleshooter.pipeline import check, diagnose_text
from troubleshooter.recording import RecordedMachine
from troubleshooter.report.json_report import report_json

ROOT = Path(__file__).resolve().parents[1]
FROM_YAML = read_sources(ROOT)
PASTE = "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update it.\n"
GPU = (("gpu", "RTX 3090"), ("driver", "470.82"), ("os", "linux"), ("torch", "2.5.1+cu124"))
"""Hints under which tables, articles and actions are all read."""

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="owner and mode are POSIX's")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "compiled"
    made.mkdir()
    write_compiled(FROM_YAML, str(made))
    return made


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A checkout of its own."""
    copy = tmp_path / "checkout"
    for name in ("rules", "knowledge_base"):
        shutil.copytree(ROOT / name, copy / name)
    return copy


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    parent = tmp_path / "cache"
    parent.mkdir(mode=0o700)
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda: str(parent))
    return parent / "gpu-troubleshooter"


@pytest.fixture
def installed(tmp_path: Path, folder: Path) -> Path:
    """What a wheel leaves in site-packages."""
    package = tmp_path / "site" / "troubleshooter"
    shutil.copytree(ROOT / "troubleshooter", package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("rules", "knowledge_base"):
        shutil.copytree(ROOT / name, package / "_shipped" / name)
    shutil.copytree(folder, package / "_shipped" / "compiled")
    return package.parent


def place(at: Location) -> Location:
    return at._replace(column=0)


def left_out(knowledge: Knowledge) -> Knowledge:
    """Without what the compiled form does not keep: examples, columns, and the places of single conditions."""

    def conditions(found):
        return tuple(one._replace(at=Location("")) for one in found)

    def circumstances(one):
        return one._replace(when=conditions(one.when), unless=conditions(one.unless))

    return knowledge._replace(
        facts={name: spec._replace(at=place(spec.at)) for name, spec in knowledge.facts.items()},
        rules=tuple(
            rule._replace(when=conditions(rule.when), fires=(), quiet=(), at=place(rule.at)) for rule in knowledge.rules
        ),
        signatures=tuple(one._replace(matches=(), ignores=(), at=place(one.at)) for one in knowledge.signatures),
        tables={name: table._replace(at=place(table.at)) for name, table in knowledge.tables.items()},
        articles={
            name: article._replace(
                at=place(article.at),
                remedies=tuple(
                    circumstances(remedy)._replace(
                        at=place(remedy.at), steps=tuple(circumstances(step) for step in remedy.steps)
                    )
                    for remedy in article.remedies
                ),
            )
            for name, article in knowledge.articles.items()
        },
        actions={
            name: action._replace(
                at=place(action.at),
                forms=tuple(form._replace(when=conditions(form.when)) for form in action.forms),
                notes=tuple(circumstances(note) for note in action.notes),
            )
            for name, action in knowledge.actions.items()
        },
        base_rates=None,
        rule_by_id=None,
        translations={},
    )


def read_whole(folder: Path) -> Knowledge:
    knowledge = compiled.read_compiled(str(folder), "nowhere")
    assert knowledge is not None
    return knowledge


def report_on(knowledge: Knowledge, text: str = PASTE, hints: tuple[tuple[str, str], ...] = GPU) -> str:
    request = Request(texts=(("paste", text.encode()),), hints=hints, engine="python")
    return report_json(timeless(diagnose_text(request, knowledge)))


def timeless(report: Report) -> Report:
    return report._replace(took_seconds=0.0)


def run_log(code: str, text: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    usual = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_CACHE_HOME", "PYTHONPATH")}
    return subprocess.run(
        [sys.executable, *options, "-c", code],
        input=text,
        env={**usual, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_compiled_and_read_again_it_is_the_same_knowledge(folder: Path) -> None:
    ours, theirs = left_out(read_whole(folder)), left_out(FROM_YAML)
    for name in Knowledge._fields:
        assert getattr(ours, name) == getattr(theirs, name), name
    assert [type(row) for table in ours.tables.values() for row in table.rows] == [
        type(row) for table in theirs.tables.values() for row in table.rows
    ]


def test_the_same_knowledge_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    again.mkdir()
    write_compiled(read_sources(ROOT), str(again))
    assert {one.name: one.read_bytes() for one in folder.iterdir()} == {
        one.name: one.read_bytes() for one in again.iterdir()
    }


def test_every_fixture_gets_the_same_report_from_both_forms(folder: Path) -> None:
    forms = (read_whole(folder), FROM_YAML)
    for path in FIXTURES:
        fixture = read(path)
        texts = ((path.name, fixture["text"].encode()),) if "text" in fixture else ()
        hints = tuple((str(name), str(value)) for name, value in fixture.get("set", {}).items())
        request = Request(texts=texts, hints=hints, engine="python", confirm="no")
        answers = []
        for knowledge in forms:
            if "recording" in fixture:
                report = check(request, knowledge, RecordedMachine(fixture["recording"], path.name))
            else:
                report = diagnose_text(request, knowledge)
            answers.append(report_json(timeless(report)))
        assert answers[0] == answers[1], name_of(path)


def test_a_run_reads_the_articles_of_its_diagnoses_only(folder: Path) -> None:
    for file in folder.glob("article.*"):
        if "driver-too-old-for-cuda" not in file.name:
            file.unlink()
    for file in folder.glob("table.*"):
        file.unlink()
    assert '"driver-too-old-for-cuda"' in report_on(read_whole(folder), hints=())


# --- damage


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def age(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b"troubleshooter-knowledge/4", b"troubleshooter-knowledge/0", 1))


def of_another_build(file: Path) -> None:
    head, rest = file.read_bytes().split(b"\n", 1)
    name, _, checksum = head.split(b" ")
    file.write_bytes(b" ".join((name, b"sha256:0", checksum)) + b"\n" + rest)


def empty(file: Path) -> None:
    file.write_bytes(b"")


def nonsense(file: Path) -> None:
    file.write_bytes(bytes(range(256)) * 100)


DAMAGES = [cut, flip, age, empty, nonsense, Path.unlink]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_core_is_no_knowledge(folder: Path, damage: Callable[[Path], None]) -> None:
    damage(folder / compiled.CORE)
    assert compiled.read_compiled(str(folder), "nowhere") is None


@pytest.mark.parametrize("damage", [*DAMAGES, of_another_build])
def test_what_a_damaged_file_should_say_is_read_from_yaml(folder: Path, damage: Callable[[Path], None]) -> None:
    expected = report_on(FROM_YAML)
    for file in folder.iterdir():
        if file.name != compiled.CORE:
            damage(file)
    knowledge = compiled.read_compiled(str(folder), str(ROOT))
    assert knowledge is not None
    assert report_on(knowledge) == expected


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_installed_copy_with_a_damaged_core_still_answers(installed: Path, damage: Callable[[Path], None]) -> None:
    damage(installed / "troubleshooter" / "_shipped" / "compiled" / compiled.CORE)
    done = run_log(LOG, PASTE, "-P" if sys.version_info >= (3, 11) else "-B", PYTHONPATH=str(installed))
    assert "driver-too-old-for-cuda" in done.stdout, done.stderr


# --- an installed copy

LOG = """\
import sys
from troubleshooter.cli import main
code = main(["log", "--format", "json"])
heavy = ("yaml", "rich", "platformdirs", "pathlib", "hashlib", "subprocess", "shutil", "threading", "difflib")
print([name for name in heavy if name in sys.modules], code, file=sys.stderr)
"""


def test_an_installed_copy_needs_no_yaml_and_nothing_else_that_is_heavy(installed: Path) -> None:
    # Without site-packages: YAML cannot even be imported.
    done = run_log(f"import sys; sys.path.insert(0, {str(installed)!r})\n{LOG}", PASTE, "-I", "-S")
    assert done.stderr.strip() == "[] 1"
    assert '"driver-too-old-for-cuda"' in done.stdout


@pytest.mark.parametrize("home", ["", "a file", "missing"])
def test_an_installed_copy_writes_nothing_and_needs_no_home(installed: Path, tmp_path: Path, home: str) -> None:
    (tmp_path / "file").touch()
    homes = {"": "", "a file": str(tmp_path / "file"), "missing": str(tmp_path / "missing")}
    before = sorted(tmp_path.rglob("*"))
    code = f"import sys; sys.path.insert(0, {str(installed)!r})\n{LOG}"
    done = run_log(code, PASTE, "-B", "-S", HOME=homes[home])
    assert done.stderr.strip() == "[] 1"
    assert sorted(tmp_path.rglob("*")) == before


def test_the_wheel_carries_the_compiled_knowledge(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="the wheel is built with hatchling")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        wheel.extractall(tmp_path / "site")
    shipped = tmp_path / "site" / "troubleshooter" / "_shipped"
    assert left_out(read_whole(shipped / "compiled")) == left_out(FROM_YAML)
    assert (shipped / "rules").is_dir()


# --- a checkout


def entries(own_cache: Path) -> set[str]:
    return {one.name for one in own_cache.iterdir()}


def test_a_checkout_compiles_once_and_again_after_a_change(sources: Path, own_cache: Path) -> None:
    first = cache.cached_knowledge(str(sources))
    assert first is not None
    made = entries(own_cache)
    assert len(made) == 1
    again = cache.cached_knowledge(str(sources))
    assert again is not None
    assert left_out(again) == left_out(first)
    assert entries(own_cache) == made
    article = sources / "knowledge_base" / "diagnoses" / "torch-cpu-build.yaml"
    article.write_text(article.read_text(encoding="utf-8").replace("title: ", "title: Changed. ", 1), encoding="utf-8")
    changed = cache.cached_knowledge(str(sources))
    assert changed is not None
    assert changed.articles["torch-cpu-build"].title.startswith("Changed.")
    assert len(entries(own_cache)) == 2


def test_the_cache_keeps_a_few_entries_only(sources: Path, own_cache: Path) -> None:
    cache.cached_knowledge(str(sources))
    for number in range(12):
        (own_cache / f"old{number}").mkdir()
        os.utime(own_cache / f"old{number}", (number, number))
    (sources / "rules" / "new.yaml").write_text("rules: []\n")
    cache.cached_knowledge(str(sources))
    assert len(entries(own_cache)) == 8


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_cache_is_made_anew(sources: Path, own_cache: Path, damage: Callable[[Path], None]) -> None:
    cache.cached_knowledge(str(sources))
    (entry,) = own_cache.iterdir()
    damage(entry / compiled.CORE)
    again = cache.cached_knowledge(str(sources))
    assert again is not None
    assert left_out(again) == left_out(FROM_YAML)
    assert compiled.read_compiled(str(entry), str(sources)) is not None


def test_mistakes_in_a_checkout_are_reported_and_not_kept(sources: Path, own_cache: Path) -> None:
    (sources / "rules" / "wrong.yaml").write_text("rules:\n  - id: x\n")
    with pytest.raises(KnowledgeError):
        cache.cached_knowledge(str(sources))
    assert not own_cache.exists() or not entries(own_cache)


@posix_only
def test_the_cache_is_its_owners_alone(sources: Path, own_cache: Path) -> None:
    cache.cached_knowledge(str(sources))
    assert own_cache.stat().st_mode & 0o777 == 0o700
    assert next(own_cache.iterdir()).stat().st_mode & 0o077 == 0
    for mode in (0o770, 0o707, 0o755):
        own_cache.chmod(mode)
        assert cache.cached_knowledge(str(sources)) is None


@posix_only
def test_a_cache_that_is_a_link_is_not_used(sources: Path, own_cache: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    own_cache.symlink_to(elsewhere)
    assert cache.cached_knowledge(str(sources)) is None
    assert not list(elsewhere.iterdir())


@posix_only
@pytest.mark.parametrize("of_another", ["parent", "folder"])
def test_a_cache_of_another_user_is_not_used(
    sources: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch, of_another: str
) -> None:
    if of_another == "folder":
        own_cache.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: own_cache.parent.stat().st_uid + 1)
    assert cache.cached_knowledge(str(sources)) is None
    assert not own_cache.exists() or not entries(own_cache)


def test_without_a_place_for_a_cache_a_checkout_reads_its_yaml(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run_log(LOG, PASTE, HOME=str(tmp_path / "file"), XDG_CACHE_HOME=str(tmp_path / "file"), PYTHONPATH=str(ROOT))
    assert '"driver-too-old-for-cuda"' in done.stdout, done.stderr


# --- a team's own folders


def test_a_folder_on_top_of_compiled_knowledge_gives_what_all_of_it_read_from_yaml_gives(
    folder: Path, tmp_path: Path
) -> None:
    pack = tmp_path / "acme"
    pack.mkdir()
    (pack / "acme.yaml").write_text(GOOD_RULE)
    on_top = read_sources(ROOT, [pack], read_whole(folder))
    assert left_out(on_top) == left_out(read_sources(ROOT, [pack]))
    assert on_top.digest not in ("", FROM_YAML.digest)


def test_mistakes_of_a_folder_are_all_reported_on_top_of_compiled_knowledge(folder: Path, tmp_path: Path) -> None:
    pack = tmp_path / "acme"
    pack.mkdir()
    (pack / "acme.yaml").write_text(GOOD_RULE.replace("is: cpu}", "is: cup}").replace("strong", "stong"))
    (pack / "double.yaml").write_text(GOOD_RULE)
    problems = []
    for base in (None, read_whole(folder)):
        with pytest.raises(KnowledgeError) as caught:
            read_sources(ROOT, [pack], base)
        problems.append(caught.value.problems)
    assert problems[0] == problems[1]
    assert len(problems[0]) == 3


def test_examples_are_there_for_those_who_ask(own_cache: Path) -> None:
    assert not any(rule.fires for rule in load().rules)
    assert all(rule.fires for rule in load(examples=True).rules)

"""Texts in another language: complete, true to the English ones, and the same compiled and from YAML."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_compiled import left_out

from troubleshooter.errors import KnowledgeError
from troubleshooter.knowledge.compile import write_compiled
from troubleshooter.knowledge.compiled import read_compiled
from troubleshooter.knowledge.sources import read_sources
from troubleshooter.knowledge.translate import differences, localized, texts_of

ROOT = Path(__file__).resolve().parents[1]
FROM_YAML = read_sources(ROOT)
ZH = FROM_YAML.translations["zh"]
TEXTS = set(texts_of(FROM_YAML))
HAN = re.compile("[\u4e00-\u9fff]")


def test_every_text_for_people_is_translated_into_chinese() -> None:
    assert sorted(TEXTS - set(ZH)) == []


def test_no_translation_is_left_of_a_text_that_is_gone() -> None:
    assert sorted(set(ZH) - TEXTS) == []


def test_every_chinese_text_is_chinese() -> None:
    assert [english for english, text in ZH.items() if not HAN.search(text)] == []


@pytest.mark.parametrize(
    ("translated", "says"),
    [
        ("驱动 {driver.version} 太旧, 需要 525.60.13: `nvidia-smi`", ""),
        ("驱动太旧, 需要 525.60.13: `nvidia-smi`", "lacks the placeholders {driver.version}"),
        ("驱动 {driver.version} 太旧, 需要 525.60: `nvidia-smi`", "lacks the numbers 525.60.13"),
        ("驱动 {driver.version} 太旧, 需要 525.60.13 或 580: `nvidia-smi`", "adds the numbers 580"),
        ("驱动 {driver.version} 太旧, 需要 525.60.13", "lacks the commands `nvidia-smi`"),
    ],
)
def test_a_translation_keeps_placeholders_numbers_and_commands(translated: str, says: str) -> None:
    english = "The driver {driver.version} is too old, 525.60.13 is needed: `nvidia-smi`"
    found = "; ".join(differences(english, translated))
    assert says in found if says else not found


def test_a_translation_that_changes_a_number_is_reported_at_its_place(tmp_path: Path) -> None:
    folder = tmp_path / "knowledge_base" / "translations" / "zh"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text('translations:\n  "needs 525": "需要 535"\n', encoding="utf-8")
    with pytest.raises(KnowledgeError) as caught:
        read_sources(ROOT, [tmp_path])
    places = {(problem.at.line, problem.message) for problem in caught.value.problems}
    assert (2, "the translation lacks the numbers 525") in places


def test_compiled_knowledge_speaks_chinese_as_the_sources_do(tmp_path: Path) -> None:
    write_compiled(FROM_YAML, str(tmp_path))
    compiled = read_compiled(str(tmp_path), "nowhere", "zh")
    assert compiled is not None
    whole = compiled._replace(
        facts=dict(compiled.facts),
        rules=tuple(compiled.rules),
        signatures=tuple(compiled.signatures),
        tables=dict(compiled.tables),
        articles=dict(compiled.articles),
        actions=dict(compiled.actions),
    )
    assert left_out(whole) == left_out(localized(FROM_YAML, ZH))


def test_a_language_that_nobody_wrote_is_english(tmp_path: Path) -> None:
    write_compiled(FROM_YAML, str(tmp_path))
    compiled = read_compiled(str(tmp_path), "nowhere", "xx")
    assert compiled is not None
    assert compiled.articles["torch-cpu-build"].title == FROM_YAML.articles["torch-cpu-build"].title


@pytest.mark.parametrize(
    ("variables", "arguments", "chinese"),
    [
        ({"LANG": "zh_CN.UTF-8"}, [], True),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "zh_TW.UTF-8"}, [], True),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, [], False),
        ({"LANG": "zh_CN.UTF-8"}, ["--lang", "en"], False),
        ({"LANG": "zh_CN.UTF-8"}, ["--format", "json"], False),
        ({"LANG": "C"}, ["--format", "json", "--lang", "zh"], True),
    ],
)
def test_the_locale_chooses_the_language_of_a_report_for_people(
    variables: dict[str, str], arguments: list[str], chinese: bool
) -> None:
    plain = {name: value for name, value in os.environ.items() if name not in ("LANG", "LC_ALL", "LC_MESSAGES")}
    done = subprocess.run(
        [sys.executable, "-m", "troubleshooter", "log", *arguments],
        input="CUDA driver version is insufficient for CUDA runtime version\n",
        env={**plain, **variables, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert bool(HAN.search(done.stdout) or "\\u" in done.stdout) is chinese

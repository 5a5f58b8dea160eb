"""The pages of the knowledge base: committed as they are made today, whole, and without a link into nothing."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from troubleshooter.cli import main
from troubleshooter.knowledge import load
from troubleshooter.report.pages import pages

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "diagnoses"
KNOWLEDGE = load()
PAGES = pages(KNOWLEDGE)


def test_the_committed_pages_are_those_of_the_knowledge() -> None:
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    stale = sorted(name for name in {*there, *PAGES} if there.get(name) != PAGES.get(name))
    assert stale == [], "troubleshoot rules docs -o docs/diagnoses"


def test_there_is_a_page_for_every_diagnosis_with_what_a_reader_looks_for() -> None:
    for name, article in KNOWLEDGE.articles.items():
        page = PAGES[f"{name}.md"]
        assert f"`{name}`" in page
        for remedy in article.remedies:
            assert any(line.startswith("### ") and line.endswith(")") for line in page.splitlines()), remedy.id
        for reference in article.references:
            assert f"]({reference.url}) (checked {reference.checked})" in page
        for other, _ in article.not_to_confuse_with:
            assert f"[{other}]({other}.md)" in page
        assert f"({name}.md)" in PAGES["index.md"]


def test_every_link_between_pages_leads_somewhere() -> None:
    headings = {re.sub(r"^## ", "", line) for line in PAGES["actions.md"].splitlines() if line.startswith("## ")}
    for name, page in PAGES.items():
        for target in re.findall(r"\]\((?!https?:)([^)]*)\)", page):
            file, _, place = target.partition("#")
            assert file in PAGES, f"{name}: {target}"
            assert not place or place in headings, f"{name}: {target}"


def test_what_a_command_leaves_out_where_nobody_knows_stands_in_brackets() -> None:
    assert "[torchvision=={plan.torchvision}+{plan.tag}]" in PAGES["actions.md"]
    assert not re.search(r"\{[^{}\s]*[|*][^{}\s]*\}", PAGES["actions.md"])


def test_pages_can_be_written_in_chinese() -> None:
    made = pages(load(language="zh"), "zh")
    assert set(made) == set(PAGES)
    assert all(re.search("[\u4e00-\u9fff]", page) for page in made.values())


def test_pages_of_what_is_gone_go_and_the_pages_of_others_stay(tmp_path: Path, capsys) -> None:
    (tmp_path / "notes.md").write_text("# Mine\n\n`notes` of mine\n")
    (tmp_path / "old-cause.md").write_text("# Old\n\n`old-cause` · driver · x\n")
    assert main(["rules", "docs", "-o", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {*PAGES, "notes.md"}
    assert "1 taken away" in capsys.readouterr().out


@pytest.mark.slow
def test_the_site_is_built_without_a_network(tmp_path: Path) -> None:
    pytest.importorskip("material")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)], cwd=ROOT, check=True
    )
    page = (tmp_path / "diagnoses" / "torch-cpu-build.html").read_text(encoding="utf-8")
    assert re.findall(r"""<(?:script|link)[^>]*(?:src|href)=["'](https?:[^"']*)""", page) == []

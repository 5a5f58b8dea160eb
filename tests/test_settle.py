import pytest

from troubleshooter.model import FactSpec, Source, absent, present, unknown
from troubleshooter.settle import settle

CATALOGUE = {
    "driver.version": FactSpec("driver.version", "version", "host", "", trust=("set", "nvidia-smi", "file", "text")),
    "gpu.name": FactSpec("gpu.name", "text", "gpu", ""),
    "gpu.count": FactSpec("gpu.count", "number", "host", ""),
    "torch.cuda_available": FactSpec("torch.cuda_available", "flag", "host", ""),
    "torch.build": FactSpec("torch.build", "text", "host", "", one_of=("cuda", "cpu")),
    "torch.archs": FactSpec("torch.archs", "texts", "host", ""),
    "disagrees": FactSpec("disagrees", "texts", "host", ""),
}


def via(name: str) -> Source:
    return Source("probe", name)


def test_the_most_trusted_witness_is_heard_and_the_others_stay_visible() -> None:
    facts = settle(
        [present("driver.version", "570.26", via("file")), present("driver.version", "580.65.06", via("nvidia-smi"))],
        CATALOGUE,
    )
    fact = facts.fact("driver.version")
    assert fact is not None
    assert fact.value == "580.65.06"
    assert [claim.value for claim in fact.claims] == ["570.26", "580.65.06"]
    assert facts.value("disagrees") == ("driver.version",)


def test_what_one_source_knows_outranks_what_a_better_one_could_not_see() -> None:
    facts = settle(
        [unknown("driver.version", "timed out", via("nvidia-smi")), present("driver.version", "570.26", via("file"))],
        CATALOGUE,
    )
    assert facts.value("driver.version") == "570.26"
    assert facts.value("disagrees") is None


def test_there_and_not_there_is_a_disagreement() -> None:
    facts = settle([present("gpu.count", 2, via("file")), absent("gpu.count", via("text"))], CATALOGUE)
    assert facts.value("disagrees") == ("gpu.count",)


@pytest.mark.parametrize(
    ("one", "other", "disagree"),
    [
        ("580.159.04", "580.159", False),
        ("12", "12.0", False),
        ("580.159.04", "580.95.05", True),
        ("580.65", "580.159.04", True),
    ],
)
def test_a_shortened_version_is_no_disagreement(one: str, other: str, disagree: bool) -> None:
    facts = settle(
        [present("driver.version", one, via("file")), present("driver.version", other, via("nvidia-smi"))], CATALOGUE
    )
    assert (facts.value("disagrees") is not None) is disagree


def test_each_gpu_has_facts_of_its_own() -> None:
    facts = settle(
        [present("gpu.name", "A", via("file"), "gpu:0"), present("gpu.name", "B", via("file"), "gpu:10"),
         present("gpu.name", "C", via("file"), "gpu:2")],
        CATALOGUE,
    )  # fmt: skip
    assert facts.subjects("gpu") == ("gpu:0", "gpu:2", "gpu:10")
    assert facts.value("gpu.name", "gpu:10") == "B"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("torch.cuda_available", "yes"),
        ("gpu.count", "many"),
        ("gpu.count", "1e999"),
        ("gpu.count", "9" * 5000),
        ("gpu.count", True),
        ("torch.build", "vulkan"),
        ("nobody.knows.this", "x"),
    ],
)
def test_a_claim_that_does_not_fit_the_catalogue_is_left_out(name: str, value: str) -> None:
    assert settle([present(name, value, via("file"))], CATALOGUE).all() == ()


def test_values_take_the_type_of_the_catalogue() -> None:
    facts = settle([present("gpu.count", "8", via("text")), present("torch.archs", "sm_90", via("text"))], CATALOGUE)
    assert facts.value("gpu.count") == 8
    assert facts.value("torch.archs") == ("sm_90",)


def test_an_endless_text_is_cut() -> None:
    name = settle([present("gpu.name", "x" * 10_000_000, via("text"), "gpu:0")], CATALOGUE).text("gpu.name", "gpu:0")
    assert len(name) == 4096

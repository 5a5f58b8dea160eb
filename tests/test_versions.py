import pytest

from troubleshooter.versions import cuda_of_tag, local, major, order, release, same


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("9.0", "12.1"),
        ("12.1", "12.10"),
        ("470.82.01", "525.60.13"),
        ("525.60.3", "525.60.13"),
        ("580.65.06", "580.159.04"),
        ("2.9.0a0+git1234", "2.9.0"),
        ("2.5.0.dev20240901", "2.5.0"),
        ("2.5.0rc1", "2.5.0"),
        ("2.5.0rc1", "2.5.0rc2"),
        ("1.10.0", "2.0.0"),
        ("2.1", "2.1.2"),
        ("560", "560.94"),
    ],
)
def test_versions_are_ordered_part_by_part_as_numbers(older: str, newer: str) -> None:
    first, second = order(older), order(newer)
    assert first is not None
    assert second is not None
    assert first < second


@pytest.mark.parametrize(
    ("left", "right"), [("12", "12.0"), ("2.5.1+cu124", "2.5.1"), ("v1.2", "1.2.0"), ("525.60.13", "525.060.13")]
)
def test_zeros_at_the_end_and_local_tags_do_not_count(left: str, right: str) -> None:
    assert same(left, right)


@pytest.mark.parametrize("text", ["", "nightly", "N/A", "[Not Supported]"])
def test_text_without_a_number_has_no_order(text: str) -> None:
    assert order(text) is None


def test_an_absurdly_long_number_stays_cheap() -> None:
    assert order("9" * 1_000_000 + ".1") is not None


def test_the_parts_of_a_version() -> None:
    assert release("2.5.1+cu124") == "2.5.1"
    assert local("2.5.1+cu124") == "cu124"
    assert local("2.5.1") == ""
    assert major("13.0.2") == "13"


@pytest.mark.parametrize(
    ("tag", "cuda"),
    [
        ("cu124", "12.4"),
        ("cu102", "10.2"),
        ("cu92", "9.2"),
        ("cu130", "13.0"),
        ("cpu", ""),
        ("rocm6.2", ""),
        ("xpu", ""),
    ],
)
def test_the_cuda_of_a_build_tag(tag: str, cuda: str) -> None:
    assert cuda_of_tag(tag) == cuda

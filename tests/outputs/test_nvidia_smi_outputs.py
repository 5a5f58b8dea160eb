"""Every form and generation of nvidia-smi's output gives the same claims."""

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from troubleshooter.model import UNKNOWN, Claim, Source
from troubleshooter.outputs import nvidia_smi

FOLDER = Path(__file__).with_name("nvidia_smi")
SOURCE = Source("probe", "nvidia-smi")


def text_of(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def said(text: str, source: Source = SOURCE) -> list[Claim]:
    return list(nvidia_smi.read_nvidia_smi(text, source))


def values(claims: list[Claim]) -> dict[tuple[str, str], object]:
    return {(claim.name, claim.subject): claim.value for claim in claims}


HEADERS = [
    ("390-two-cards.txt", "390.30", None),
    ("418.txt", "418.87.01", "10.1"),
    ("470-mig.txt", "470.82.01", None),
    ("535-wsl.txt", "536.40", "12.2"),
    ("551-windows.txt", "551.61", "12.4"),
    ("580-h200.txt", "580.159.04", "13.0"),
    ("580-h200.xml", "580.159.04", "13.0"),
    ("580-h200-q.txt", "580.159.04", "13.0"),
    ("580-h200-version.txt", "580.159.04", "13.0"),
    ("610.txt", "610.43.02", "13.3"),
    ("610.xml", "610.43.02", "13.3"),
]


@pytest.mark.parametrize(("name", "driver", "cuda"), HEADERS)
def test_each_generation_tells_its_driver_and_its_cuda(name: str, driver: str, cuda: str | None) -> None:
    found = values(said(text_of(name)))
    assert found["driver.version", "host"] == driver
    assert found.get(("driver.cuda_version", "host")) == cuda
    assert found["driver.branch", "host"] == driver.partition(".")[0]


CARDS = [
    ("390-two-cards.txt", [("Tesla K80", 12206, 0, None, "Default"), (None, 11175, 1490, None, "Exclusive_Process")]),
    ("418.txt", [(None, 16130, 11, None, "Default")]),
    ("470-mig.txt", [("Tesla T4", 15109, 0, None, "Prohibited"), ("A100-SXM4-40GB", 40536, 25, True, "Default")]),
    ("535-wsl.txt", [("NVIDIA GeForce RTX 3090", 24576, 944, None, "Default")]),
    ("551-windows.txt", [("NVIDIA GeForce RTX 4070", 12282, 1033, None, "Default")]),
    ("580-h200.txt", [("NVIDIA H200", 143771, 0, False, "Default")]),
    ("580-h200.xml", [("NVIDIA H200", 143771, 0, False, "Default")]),
    ("580-h200-q.txt", [("NVIDIA H200", 143771, 0, False, "Default")]),
    ("610.txt", [("NVIDIA B200", 183359, 0, False, "Default")] * 2),
    ("610.xml", [("NVIDIA B200", 183359, None, None, "Exclusive_Process")]),
]


@pytest.mark.parametrize(("name", "cards"), CARDS)
def test_each_generation_tells_its_cards(name: str, cards: list[tuple[object, ...]]) -> None:
    found = values(said(text_of(name)))
    facts = ("gpu.name", "gpu.memory_mib", "gpu.memory_used_mib", "gpu.mig", "gpu.compute_mode")
    assert found["gpu.count", "host"] == len(cards)
    for index, card in enumerate(cards):
        assert tuple(found.get((fact, f"gpu:{index}")) for fact in facts) == card


def test_a_name_that_the_table_cuts_is_unknown_and_not_wrong() -> None:
    name = next(claim for claim in said(text_of("418.txt")) if claim.name == "gpu.name")
    assert name.state == UNKNOWN
    assert "Tesla V100-SXM2..." in name.reason


def test_the_tool_of_wsl_has_a_version_of_its_own() -> None:
    assert values(said(text_of("535-wsl.txt")))["driver.library_version", "host"] == "535.54.06"


def test_the_list_tells_names_and_mig() -> None:
    found = values(said(text_of("580-h200-list.txt")))
    assert found == {("gpu.name", "gpu:0"): "NVIDIA H200", ("gpu.count", "host"): 1}
    text = (
        "GPU 0: A100-SXM4-40GB (UUID: GPU-0)\n  MIG 1g.5gb      Device  0: (UUID: MIG-0)\nGPU 1: A100 (UUID: GPU-1)\n"
    )
    found = values(said(text))
    assert found["gpu.mig", "gpu:0"] is True
    assert ("gpu.mig", "gpu:1") not in found
    assert found["gpu.count", "host"] == 2


def test_the_query_tells_the_capability() -> None:
    found = values(list(nvidia_smi.read_query(text_of("580-h200-query.csv"), SOURCE)))
    assert found["gpu.capability", "gpu:0"] == "9.0"
    assert found["gpu.memory_mib", "gpu:0"] == 143771
    assert found["driver.version", "host"] == "580.159.04"
    without_head = nvidia_smi.read_query("1, 8.6\n0, 8.9\n", SOURCE, ["index", "compute_cap"])
    assert values(list(without_head))["gpu.capability", "gpu:1"] == "8.6"


def test_the_query_tells_the_link_and_what_holds_the_clocks_back() -> None:
    text = (
        "index, pcie.link.gen.current, pcie.link.width.current, pcie.link.width.max, clocks_event_reasons.hw_slowdown\n"
        "0, 1, 16, 16, Not Active\n1, 4, 1, 16, Active\n"
    )
    found = values(list(nvidia_smi.read_query(text, SOURCE)))
    assert found["gpu.pcie_width", "gpu:1"] == 1
    assert found["gpu.pcie_width_max", "gpu:1"] == 16
    assert found["gpu.throttled_by", "gpu:1"] == ("hardware-slowdown",)
    assert ("gpu.throttled_by", "gpu:0") not in found


@pytest.mark.parametrize(
    ("bits", "names"),
    [
        ("0x0000000000000001", None),  # idle
        ("0x0000000000000044", ("power-cap", "hardware-thermal")),
        ("[N/A]", None),
    ],
)
def test_the_bits_of_the_query_are_what_holds_the_clocks_back(bits: str, names: tuple[str, ...] | None) -> None:
    found = values(list(nvidia_smi.read_query(f"index, clocks_throttle_reasons.active\n0, {bits}\n", SOURCE)))
    assert found.get(("gpu.throttled_by", "gpu:0")) == names


def test_a_field_that_the_card_does_not_tell_is_unknown() -> None:
    claims = list(nvidia_smi.read_query("index, name, memory.total [MiB]\n0, [Unknown Error], [N/A]\n", SOURCE))
    assert {claim.state for claim in claims if claim.subject == "gpu:0"} == {UNKNOWN}


@pytest.mark.parametrize("text", ["No devices were found\n", "\r\nNo devices were found"])
def test_no_devices_is_a_count_of_none(text: str) -> None:
    assert values(said(text)) == {("gpu.count", "host"): 0}


def test_a_table_that_is_cut_off_tells_no_count() -> None:
    cut = "\n".join(text_of("610.txt").splitlines()[:9])
    found = values(said(cut))
    assert found["gpu.name", "gpu:0"] == "NVIDIA B200"
    assert ("gpu.count", "host") not in found


def test_pasted_claims_carry_the_line_they_stood_on() -> None:
    text = "$ nvidia-smi\n" + text_of("610.txt")
    lines = {claim.name + claim.subject: claim.source.line for claim in said(text, Source("text", "text", line=10))}
    assert lines["driver.versionhost"] == 12
    assert lines["gpu.namegpu:1"] == 22


@pytest.mark.parametrize("name", [name for name, _, _ in HEADERS])
def test_bytes_of_another_code_page_do_not_spoil_it(name: str) -> None:
    raw = (FOLDER / name).read_bytes()
    broken = b"\xd7\xcf\xc6\xfa\xce\xe5 \xff\xfe\x00\n" + raw.replace(b"Default", b"Def\xc4\xac\xc8\xcf")
    driver = next(value for known, value, _ in HEADERS if known == name)
    assert values(said(broken.decode("utf-8", "replace")))["driver.version", "host"] == driver


@pytest.mark.parametrize(
    "text",
    [
        '<!DOCTYPE x [<!ENTITY a "b"><!ENTITY c "&a;&a;">]><nvidia_smi_log><driver_version>&c;</driver_version></nvidia_smi_log>',
        "<nvidia_smi_log><driver_version>580.1</driver_version>",
        "<nvidia_smi_log><gpu></nvidia_smi_log>",
    ],
)
def test_xml_that_cannot_be_trusted_is_unknown(text: str) -> None:
    assert [(claim.name, claim.state) for claim in said(text)] == [("driver.version", UNKNOWN)]


@pytest.mark.parametrize("text", ["", "hello", "| NVIDIA-SMI", "nvidia-smi: command not found", "+---+\n" * 50])
def test_text_of_something_else_says_nothing(text: str) -> None:
    assert said(text) == []


@pytest.mark.parametrize(
    "line", ["|   0  " + "x " * 500_000, "| " * 500_000, " " * 1_000_000 + ":", "GPU 0: " + "x" * 1_000_000]
)
def test_an_absurd_line_costs_no_time(line: str) -> None:
    began = time.monotonic()
    for start in ("", text_of("610.txt"), "==============NVSMI LOG==============\n"):
        said(start + line)
    assert time.monotonic() - began < 1


@given(st.data())
def test_no_damage_to_an_output_is_a_fault(data: st.DataObject) -> None:
    text = text_of(data.draw(st.sampled_from([name for name, _, _ in HEADERS])))
    start, length = data.draw(st.integers(0, len(text))), data.draw(st.integers(0, 400))
    for claim in said(text[:start] + data.draw(st.text(max_size=20)) + text[start + length :]):
        assert claim.name.startswith(("driver.", "gpu."))

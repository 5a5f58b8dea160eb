"""Windows on any system: recorded answers in, claims out. Real interpreters under wine are in test_on_wine.py."""

import json

import pytest

from troubleshooter.derive import derive
from troubleshooter.machine import LiveMachine, Machine, RegistryKey
from troubleshooter.model import ABSENT, PRESENT, UNKNOWN, Claim, Diagnosis, Source, Step, present
from troubleshooter.outputs.py_launcher import read_py_launcher
from troubleshooter.outputs.windows_display import driver_of_windows, read_cim
from troubleshooter.prescribe import prescribe
from troubleshooter.probes import (
    PROBES,
    Probe,
    observe_machine,
    probes_of,
    system,
    windows_hardware,
    windows_libraries,
    windows_python,
    windows_settings,
)
from troubleshooter.recording import RecordedMachine, RecordingMachine
from troubleshooter.settle import settle
from troubleshooter.shells import quoted, setting

WINDOWS_PROBES = (windows_hardware, windows_settings, windows_libraries, windows_python)
HERE = Source("probe", "command")
S32 = "C:\\Windows\\System32"
CONTROL = "HKLM\\SYSTEM\\CurrentControlSet\\Control"
CLASS = windows_hardware.DISPLAY_CLASS


def windows(**parts: object) -> RecordedMachine:
    return RecordedMachine({"platform": "win32", "environment": {"SYSTEMROOT": "C:\\Windows"}, **parts})


def settled(probe: Probe, machine: Machine) -> dict[str, object]:
    told: dict[str, object] = {}
    for claim in observe_machine(machine, [probe]):
        if isinstance(claim, Claim):
            told.setdefault(claim.name, claim.value if claim.state == PRESENT else claim.state)
    return told


def values(claims) -> dict[str, object]:
    return {one.name: one.value if one.state == PRESENT else one.state for one in claims}


# --- NVIDIA's number out of Windows' number


@pytest.mark.parametrize(
    ("counted", "driver"),
    [
        ("32.0.15.6094", "560.94"),
        ("32.0.15.7652", "576.52"),
        ("32.0.15.8088", "580.88"),
        ("32.0.15.6603", "566.03"),
        ("31.0.15.3640", "536.40"),
        ("31.0.15.5161", "551.61"),
        ("31.0.15.1694", "516.94"),
        ("30.0.15.1179", "511.79"),
        ("30.0.14.7212", "472.12"),
        ("30.0.14.9613", "496.13"),
        ("27.21.14.5671", "456.71"),
        ("27.21.14.6140", "461.40"),
        ("26.21.14.4250", "442.50"),
        ("25.21.14.1701", "417.01"),
        ("24.21.13.9811", "398.11"),
        ("23.21.13.9135", "391.35"),
        ("21.21.13.7654", "376.54"),
        ("10.18.13.6881", "368.81"),
        ("9.18.13.4144", "341.44"),
        ("8.17.12.9573", "295.73"),
        ("32.0.15.0005", "500.05"),
        ("32.0.15.5", "500.05"),
        (" 32.0.15.6094 ", "560.94"),
    ],
)
def test_windows_counts_drivers_otherwise(counted: str, driver: str) -> None:
    assert driver_of_windows(counted) == driver


@pytest.mark.parametrize(
    "counted", ["", "560.94", "32.0.15", "32.0.15.6094.1", "a.b.c.d", "32.0.15.60941", "10.0.0.1", "３２.0.15.6094", "32.0..6094"]
)  # fmt: skip
def test_what_is_no_drivers_number_gives_none(counted: str) -> None:
    assert driver_of_windows(counted) == ""


# --- display adapters


def cim(*video: dict[str, object], pci: list[object] | None = None, os: object = None) -> str:
    return json.dumps({"video": list(video), "pci": pci or [], "os": os})


def adapter(
    name="NVIDIA GeForce RTX 4090", provider="NVIDIA", version="32.0.15.6094", where="10DE&DEV_2684", problem=0
):
    identity = f"PCI\\VEN_{where}&SUBSYS_88E21043&REV_A1\\4&1FC990D7&0&0019"
    return {"Name": name, "AdapterCompatibility": provider, "DriverVersion": version, "PNPDeviceID": identity, "ConfigManagerErrorCode": problem}  # fmt: skip


INTEL = adapter("Intel(R) UHD Graphics 770", "Intel Corporation", "31.0.101.4502", "8086&DEV_4680")
BASIC = adapter("Microsoft Basic Display Adapter", "(Standard display types)", "10.0.22621.3672")


def test_cim_names_the_card_and_its_driver() -> None:
    told = values(read_cim(cim(INTEL, adapter()), HERE))
    assert told == {
        "pci.nvidia_devices": ("10de:2684 NVIDIA GeForce RTX 4090",),
        "pci.nvidia_count": 1,
        "pci.other_gpus": ("Intel",),
        "driver.version": "560.94",
        "driver.branch": "560",
        "driver.loaded": True,
        "windows.display_problem": ABSENT,
    }


def test_a_card_with_microsofts_driver_has_no_driver_of_nvidia() -> None:
    told = values(read_cim(cim(BASIC), HERE))
    assert told["pci.nvidia_count"] == 1
    assert "driver.version" not in told
    assert "driver.loaded" not in told


def test_a_card_without_any_driver_is_found_among_the_devices() -> None:
    device = {"Name": "3D Video Controller", "PNPDeviceID": "PCI\\VEN_10DE&DEV_2503&SUBSYS_1\\4", "CompatibleID": ["PCI\\VEN_10DE&CC_0302", "PCI\\CC_0302"], "ConfigManagerErrorCode": 28}  # fmt: skip
    sound = {**device, "Name": "High Definition Audio", "CompatibleID": ["PCI\\VEN_10DE&CC_0403"]}
    told = values(read_cim(cim(INTEL, pci=[device, sound]), HERE))
    assert told["pci.nvidia_devices"] == ("10de:2503 3D Video Controller",)
    assert told["windows.display_problem"] == 28


def test_a_share_of_a_gpu_in_a_virtual_machine_is_nvidias() -> None:
    told = values(read_cim(cim(adapter(where="1414&DEV_008E")), HERE))
    assert (told["pci.nvidia_count"], told["driver.version"]) == (1, "560.94")


def test_a_windows_without_nvidia_says_so() -> None:
    told = values(read_cim(cim(INTEL), HERE))
    assert (told["pci.nvidia_devices"], told["pci.nvidia_count"], told["gpu.count"]) == (ABSENT, 0, 0)


def test_memory_is_told_in_mib() -> None:
    told = values(read_cim(cim(INTEL, os={"TotalVirtualMemorySize": 2048, "FreeVirtualMemory": 1023, "SizeStoredInPagingFiles": 0}), HERE))  # fmt: skip
    assert told["windows.commit_limit_mib"] == 2
    assert (told["windows.commit_free_mib"], told["windows.page_file_mib"]) == (0, 0)


@pytest.mark.parametrize("text", ["", "Get-CimInstance : Access denied", "{", "[]", "null", '{"video": 3}', '{"video": [3, null]}', '{"video": [{"Name": 3, "PNPDeviceID": {}}], "pci": {}, "os": []}', "{" * 5000])  # fmt: skip
def test_any_answer_of_powershell_is_survived(text: str) -> None:
    assert all(isinstance(one, Claim) for one in read_cim(text, HERE))


def key(**values: object) -> dict[str, object]:
    return {"values": values}


BY_REGISTRY = {
    CLASS: {"values": {}, "keys": ["0000", "0001", "Properties"]},
    f"{CLASS}\\0000": key(
        DriverDesc="Intel",
        ProviderName="Intel Corporation",
        MatchingDeviceId="PCI\\VEN_8086&DEV_4680",
        DriverVersion="31.0.101.4502",
    ),  # fmt: skip
    f"{CLASS}\\0001": key(
        DriverDesc="NVIDIA GeForce GTX 1080",
        ProviderName="NVIDIA",
        MatchingDeviceId="pci\\ven_10de&dev_1b80",
        DriverVersion="31.0.15.3640",
    ),  # fmt: skip
}


def test_without_powershell_the_registry_names_the_driver() -> None:
    told = settled(windows_hardware, windows(registry=BY_REGISTRY, commands=[{"argv": ["powershell"], "ending": "missing"}]))  # fmt: skip
    assert told["pci.nvidia_devices"] == ("10de:1b80 NVIDIA GeForce GTX 1080",)
    assert told["driver.version"] == "536.40"
    # What was taken out still stands there, so it says nothing of what works now.
    assert told["driver.loaded"] == told["windows.display_problem"] == UNKNOWN


def test_a_registry_without_nvidia_is_no_proof() -> None:
    registry = {CLASS: {"values": {}, "keys": ["0000"]}, f"{CLASS}\\0000": BY_REGISTRY[f"{CLASS}\\0000"]}
    told = settled(windows_hardware, windows(registry=registry))
    assert told["pci.nvidia_devices"] == UNKNOWN
    assert "gpu.count" not in told


def test_a_recorded_powershell_is_asked_the_same_question() -> None:
    answer = {
        "argv": ["C:\\x\\powershell.exe", *windows_hardware.ARGUMENTS],
        "text": "WARNING: slow\n" + cim(adapter()),
    }
    assert settled(windows_hardware, windows(commands=[answer]))["driver.version"] == "560.94"


# --- settings


@pytest.mark.parametrize(
    ("files", "kind", "most"),
    [
        ([], "none", 0),
        ([""], "none", 0),
        (["?:\\pagefile.sys"], "system-managed", ABSENT),
        (["C:\\pagefile.sys 0 0"], "system-managed", ABSENT),
        (["c:\\pagefile.sys 800 2048"], "fixed", 2048),
        (["c:\\pagefile.sys 800 2048", "d:\\pagefile.sys 16 1000"], "fixed", 3048),
        (["c:\\pagefile.sys 800 2048", "d:\\pagefile.sys 0 0"], "system-managed", ABSENT),
    ],
)
def test_the_page_file_is_read(files: list[str], kind: str, most: object) -> None:
    registry = {f"{CONTROL}\\Session Manager\\Memory Management": key(PagingFiles=files)}
    told = settled(windows_settings, windows(registry=registry))
    assert (told["windows.page_file"], told["windows.page_file_max_mib"]) == (kind, most)


def test_settings_that_nobody_looked_at_are_unknown() -> None:
    assert set(settled(windows_settings, windows()).values()) == {UNKNOWN}


@pytest.mark.parametrize(
    ("variables", "shell"),
    [
        ({"PROMPT": "$P$G", "PSModulePath": "C:\\Windows\\System32\\WindowsPowerShell\\v1.0\\Modules"}, "cmd"),
        ({"PSModulePath": "C:\\Users\\jo\\Documents\\PowerShell\\Modules;C:\\Program Files\\PowerShell\\Modules"}, "powershell"),
        ({"PSModulePath": "C:\\Windows\\System32\\WindowsPowerShell\\v1.0\\Modules"}, UNKNOWN),
    ],
)  # fmt: skip
def test_the_shell_is_told_from_its_own_variables(variables: dict[str, str], shell: str) -> None:
    assert settled(windows_settings, windows(environment=variables))["shell.name"] == shell


def test_settings_are_read_from_the_registry() -> None:
    registry = {
        f"{CONTROL}\\FileSystem": key(LongPathsEnabled=1),
        f"{CONTROL}\\Nls\\CodePage": key(ACP="936"),
        f"{CONTROL}\\GraphicsDrivers": key(TdrDelay=60),
        "HKLM\\SOFTWARE\\Microsoft\\VisualStudio\\14.0\\VC\\Runtimes\\X64": {"ending": "missing"},
        "hklm\\software\\wow6432node\\microsoft\\visualstudio\\14.0\\vc\\runtimes\\x64": key(
            Installed=1, Version="v14.29.30139.00"
        ),  # fmt: skip
    }
    told = settled(windows_settings, windows(registry=registry))
    assert (told["windows.long_paths"], told["windows.code_page"]) == (True, 936)
    assert (told["windows.tdr_delay"], told["windows.tdr_level"]) == (60, ABSENT)
    assert told["windows.vc_runtime"] == "14.29.30139"


def test_a_runtime_that_is_not_installed_is_absent() -> None:
    missing = {"ending": "missing"}
    registry = {
        "HKLM\\SOFTWARE\\Microsoft\\VisualStudio\\14.0\\VC\\Runtimes\\X64": key(Installed=0, Version="v14.0.0.0"),
        "HKLM\\SOFTWARE\\WOW6432Node\\Microsoft\\VisualStudio\\14.0\\VC\\Runtimes\\X64": missing,
    }
    assert settled(windows_settings, windows(registry=registry))["windows.vc_runtime"] == ABSENT


@pytest.mark.parametrize(
    ("values", "release"),
    [
        ({"ProductName": "Windows 10 Pro", "DisplayVersion": "23H2", "CurrentBuildNumber": "22631", "UBR": 3447, "CurrentMajorVersionNumber": 10, "CurrentMinorVersionNumber": 0}, "Windows 11 Pro 23H2 (10.0.22631.3447)"),
        ({"ProductName": "Windows 10 Home", "DisplayVersion": "22H2", "CurrentBuildNumber": "19045", "UBR": 4291}, "Windows 10 Home 22H2 (10.0.19045.4291)"),
        ({"ProductName": "Windows Server 2025 Standard", "CurrentBuildNumber": "26100"}, "Windows Server 2025 Standard (10.0.26100)"),
        ({"ProductName": "Microsoft Windows 10", "CurrentBuildNumber": "18362"}, "Windows 10 (10.0.18362)"),
    ],
)  # fmt: skip
def test_the_release_of_windows_is_named(values: dict[str, object], release: str) -> None:
    registry = {"HKLM\\SOFTWARE\\Microsoft\\Windows NT\\CurrentVersion": key(**values)}
    told = settled(system, windows(registry=registry))
    assert told["os.release"] == release
    assert told["os.kernel"] == release.rpartition("(")[2].rstrip(")")


# --- DLLs


def test_dlls_are_looked_for_in_system32_and_on_path() -> None:
    machine = windows(
        environment={"SystemRoot": "C:\\Windows", "Path": 'C:\\Windows\\system32;"C:\\cuda\\bin";;C:\\gone', "CUDA_PATH": "C:\\cuda"},
        listings={"C:\\cuda\\bin": ["cudart64_12.dll", "cudnn64_8.dll", "ZLIBWAPI.dll", "nvcc.exe"]},
        stats={f"{S32}\\NVCUDA.DLL": {"size": 1}, f"{S32}\\msvcp140.dll": {"size": 1}},
        versions={f"{S32}\\nvcuda.dll": "32.0.15.6094", "c:/cuda/bin/cudart64_12.dll": "12.4.127.0"},
        missing=[f"{S32}\\vcruntime140_1.dll", f"{S32}\\libomp140.x86_64.dll", f"{S32}\\zlibwapi.dll", "C:\\gone"],
    )  # fmt: skip
    told = settled(windows_libraries, machine)
    assert (told["driver.installed"], told["driver.library_version"]) == (True, "560.94")
    assert told["windows.zlibwapi"] == "C:\\cuda\\bin\\ZLIBWAPI.dll"
    assert (told["windows.vcruntime140_1"], told["windows.libomp140"]) == (ABSENT, ABSENT)
    assert told["windows.msvcp140"] == UNKNOWN
    assert told["windows.toolkit_dlls"] == ("C:\\cuda\\bin\\cudart64_12.dll 12.4.127.0", "C:\\cuda\\bin\\cudnn64_8.dll")


def test_without_nvcuda_the_registry_may_still_know_a_driver() -> None:
    gone = {"missing": [f"{S32}\\nvcuda.dll"]}
    assert settled(windows_libraries, windows(**gone, registry=BY_REGISTRY))["driver.installed"] is True
    assert settled(windows_libraries, windows(**gone))["driver.installed"] is False
    assert settled(windows_libraries, windows())["driver.installed"] == UNKNOWN


# --- Pythons


NEW_LAUNCHER = """\
 -V:3.12 *        C:\\Users\\me\\AppData\\Local\\Programs\\Python\\Python312\\python.exe
 -V:3.10-32       C:\\Program Files (x86)\\Python310-32\\python.exe
 -V:Astral/CPython3.11.9 C:\\Users\\me\\uv\\python.exe
"""
OLD_LAUNCHER = """\
Installed Pythons found by C:\\WINDOWS\\py.exe Launcher for Windows
 -3.8-64        C:\\Python38\\python.exe *
 -3.7-32        C:\\Python37-32\\python.exe
"""


def test_the_launcher_lists_the_pythons() -> None:
    assert values(read_py_launcher(NEW_LAUNCHER, HERE))["windows.python_launcher"] == (
        "C:\\Users\\me\\AppData\\Local\\Programs\\Python\\Python312\\python.exe (3.12)",
        "C:\\Program Files (x86)\\Python310-32\\python.exe (3.10-32)",
        "C:\\Users\\me\\uv\\python.exe (Astral/CPython3.11.9)",
    )
    assert values(read_py_launcher(OLD_LAUNCHER, HERE))["windows.python_launcher"] == (
        "C:\\Python38\\python.exe (3.8-64)",
        "C:\\Python37-32\\python.exe (3.7-32)",
    )
    assert values(read_py_launcher("No installed Pythons found!", HERE)) == {"windows.python_launcher": ABSENT}


APPS = "C:\\Users\\me\\AppData\\Local\\Microsoft\\WindowsApps\\python.exe"


@pytest.mark.parametrize(
    ("path", "answer", "stub"),
    [
        (APPS, {"code": 9009, "errors": "Python was not found; run without arguments to install"}, APPS),
        (APPS, {"code": 9009, "text": "未找到 Python"}, APPS),
        (APPS, {"text": "Python 3.12.4\n"}, ABSENT),
        (APPS, {"ending": "unknown"}, UNKNOWN),
        ("C:\\Python312\\python.exe", {"text": "Python 3.12.4\n"}, ABSENT),
        ("", {"ending": "missing"}, ABSENT),
    ],
)
def test_the_placeholder_of_the_store_is_told_from_a_python(path: str, answer: dict, stub: str) -> None:
    machine = windows(programs={"python": path}, commands=[{"argv": [path or "python", "--version"], **answer}])
    assert settled(windows_python, machine)["windows.store_stub"] == stub


# --- the machine


def test_names_of_a_recorded_windows_are_alike_in_any_case_and_with_either_slash() -> None:
    machine = windows(
        files={"C:\\Users\\Me\\pip.ini": "x"},
        listings={"C:\\Tools": ["NVCC.exe"]},
        missing=["C:\\Gone", "cl"],
        commands=[{"argv": ["NVIDIA-SMI.exe", "-L"], "text": "GPU 0"}],
        registry={"HKLM\\Software\\X": {"values": {"A": ["x", "y"]}, "keys": ["B"]}},
    )
    assert machine.read("c:/users/me/PIP.INI").text == "x"
    assert machine.stat("C:\\TOOLS\\").kind == "directory"
    assert machine.stat("c:\\tools\\cl.exe").missing
    assert machine.read("C:\\GONE\\deep\\down").missing
    assert machine.list("C:\\Users").names == ("me",)
    assert machine.run(["C:\\Windows\\nvidia-smi.EXE", "-L"], 1).text == "GPU 0"
    assert machine.run(["CL.EXE"], 1).missing
    assert machine.registry("hklm\\SOFTWARE\\x").text("a") == "x\ny"
    assert machine.registry("HKLM\\Software\\Y").ending == "unknown"


def test_what_is_recorded_of_a_windows_answers_the_same_again() -> None:
    first = windows(registry=BY_REGISTRY, stats={f"{S32}\\nvcuda.dll": {}}, versions={f"{S32}\\nvcuda.dll": "32.0.15.6094"})  # fmt: skip
    asked = RecordingMachine(first)
    told = [settled(probe, asked) for probe in WINDOWS_PROBES]
    again = RecordedMachine(json.loads(json.dumps(asked.recording(["SYSTEMROOT"]))))
    assert [settled(probe, again) for probe in WINDOWS_PROBES] == told


@pytest.mark.skipif(LiveMachine().platform == "win32", reason="there it has one")
def test_a_machine_without_a_registry_says_so() -> None:
    assert LiveMachine().registry("HKLM\\SOFTWARE").missing
    assert LiveMachine().file_version("/bin/sh").ending == "unknown"
    assert not any(claim.name.startswith("windows.") for claim in observe_machine(RecordedMachine({})))


def test_numbers_and_texts_of_a_key() -> None:
    found = RegistryKey("HKLM\\X", "ok", {"One": 1, "Two": " 2 ", "Bad": "x", "List": ("a", "b")})
    assert (found.number("one"), found.number("TWO"), found.number("bad"), found.number("none")) == (1, 2, None, None)
    assert (found.text("list"), found.text("none")) == ("a\nb", "")


def test_each_system_has_its_probes() -> None:
    assert set(PROBES) - set(probes_of("linux")) == set(WINDOWS_PROBES)
    names = [probe.NAME for probe in probes_of("win32")]
    assert {"windows_hardware", "windows_libraries", "nvidia_smi", "system"} <= set(names)
    assert not {"pci", "driver", "device_nodes"} & set(names)


# --- PowerShell's own grammar


HOSTILE = (
    "a b",
    "a;Remove-Item C:\\ -Recurse",
    "$(calc)",
    "$env:PATH",
    "`n",
    "it's",
    "it’s",
    "‘x’",
    'say "x"',
    "“x”",
    "名字",
    "a&b",
    "a|b",
    "@(1)",
    "{x}",
    "#x",
    "--%",
    "%PATH%",
    "C:\\Program Files (x86)\\Python\\python.exe",
    "a\nb",
)


def parsed(text: str):
    tree_sitter = pytest.importorskip("tree_sitter")
    grammar = pytest.importorskip("tree_sitter_powershell")
    return tree_sitter.Parser(tree_sitter.Language(grammar.language())).parse(text.encode())


def nodes(node, kind: str) -> list[str]:
    found = [node.text.decode()] if node.type == kind else []
    return found + [text for child in node.children for text in nodes(child, kind)]


@pytest.mark.parametrize("name", HOSTILE)
def test_powershell_reads_a_hostile_name_as_one_literal(name: str) -> None:
    tree = parsed(quoted((name, "install", name), "powershell"))
    assert not tree.root_node.has_error
    assert len(nodes(tree.root_node, "command")) == 1
    literals = nodes(tree.root_node, "verbatim_string_characters")
    assert [unquoted(text) for text in literals] == [name, name]
    assert nodes(tree.root_node, "variable") == nodes(tree.root_node, "sub_expression") == []


def unquoted(literal: str) -> str:
    """What PowerShell makes of a literal: each pair of quotes, straight or curly, is one; a lone one ends it."""
    inside, marks, told, at = literal[1:-1], "'‘’‚‛", "", 0
    while at < len(inside):
        if inside[at] in marks:
            assert inside[at + 1 : at + 2] in tuple(marks), f"{literal} ends early"
            at += 1
        told += inside[at]
        at += 1
    return told


@pytest.mark.parametrize("value", HOSTILE)
def test_powershell_reads_a_setting_as_one_assignment(value: str) -> None:
    tree = parsed(setting("CUDA_VISIBLE_DEVICES", value, "powershell"))
    assert not tree.root_node.has_error
    assert len(nodes(tree.root_node, "assignment_expression")) == 1
    assert [unquoted(text) for text in nodes(tree.root_node, "verbatim_string_characters")] == [value]


def test_our_own_question_to_powershell_is_one_script_without_double_quotes() -> None:
    tree = parsed(windows_hardware.QUERY)
    assert not tree.root_node.has_error
    assert '"' not in windows_hardware.QUERY
    assert "'PNPDeviceID LIKE ''PCI\\\\VEN_10DE%'''" in windows_hardware.QUERY


def test_remedies_for_windows_are_powershell(knowledge) -> None:
    python = "C:\\Users\\Jo O'Neil & Söhne\\venv\\Scripts\\python.exe"
    stated = {
        "os.family": "windows", "os.architecture": "AMD64", "python.path": python, "python.version": "3.11.9",
        "python.manager": "pip", "torch.version": "2.5.1+cpu", "torch.build": "cpu", "driver.version": "560.94",
    }  # fmt: skip
    claims = [present(name, value, HERE) for name, value in stated.items()]
    claims.append(present("gpu.capability", "8.9", HERE, "gpu:0"))
    facts = derive(settle(claims, knowledge.facts), knowledge.tables)
    steps: list[Step] = []
    for article in knowledge.articles.values():
        found = Diagnosis(article.id, "host", 0.9, "blocking", article.area, "common", "", "", ())
        for one in prescribe([found], facts, knowledge):
            steps += [step for remedy in one.remedies for step in remedy.steps if step.shell_text]
    assert len(steps) > 3
    for step in steps:
        assert step.shell == "powershell"
        assert not parsed(step.shell_text).root_node.has_error, step.shell_text

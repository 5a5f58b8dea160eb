"""nvidia-smi in all its forms: the table, -q, -q -x, -L, --query-gpu as CSV, --version.

From R610 on "Driver Version" is worded "KMD Version" and "CUDA Version" "CUDA UMD Version"; the old names then stay
in -q for a while with a remark in place of a value, so the new ones are looked for first.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from ..model import Claim, Source, Value, absent, present, unknown
from .lines import at, line_of, lines_of

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_NUMBER = r"\d+\.\d[\d.]*"
_TABLE_HEAD = re.compile(
    r"\|[ \t]*NVIDIA-SMI[ \t]+(?P<tool>\S+)[ \t]+(?:Driver|KMD)[ \t]+Version:[ \t]*(?P<driver>\S+)"
    r"(?:[ \t]+CUDA(?:[ \t]+UMD)?[ \t]+Version:[ \t]*(?P<cuda>\S+))?"
)
# The name ends before the persistence mode (Linux) or the driver model (Windows), and the next cell begins with the
# bus id. Versions before R396 write the domain with four digits.
_TABLE_ROW = re.compile(
    r"\|[ \t]+(?P<index>\d{1,3})[ \t]+(?P<name>\S.*?)[ \t]+(?:On|Off|N/A|WDDM|TCC|MCDM|WDDM-TCC|ERR!)[ \t]*"
    r"\|[ \t]*(?:[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]|N/A|ERR!)[ \t]"
)
_MEMORY_CELL = re.compile(r"\|[ \t]*(\d+)[ \t]*MiB[ \t]*/[ \t]*(\d+)[ \t]*MiB[ \t]*\|([^|]*)\|")
_LAST_CELL = re.compile(r"\|[ \t]*(Enabled|Disabled)\*?[ \t]*\|[ \t]*$")
_NO_DEVICES = re.compile(r"^[ \t]*No devices were found[ \t]*$", re.MULTILINE)
_LIST_LINE = re.compile(r"^[ \t]*GPU (\d+): (.+?) \(UUID: GPU-", re.MULTILINE)
_LIST_MIG = re.compile(r"^[ \t]+MIG \S+[ \t]+Device[ \t]+\d+:")
_REPORT_LINE = re.compile(r"^([ \t]*)(\S.*?)[ \t]*(?:[ \t]:[ \t]*(.*?))?[ \t]*$")
_SAYS_NOTHING = re.compile(
    r"^\[?(?:N/A|Not Supported|Not Available|None|Unknown Error|Insufficient Permissions|GPU requires reset|"
    r"GPU is lost|ERR!?|Requested functionality has been deprecated)\]?$",
    re.IGNORECASE,
)
_MODES = {
    "default": "Default",
    "e. process": "Exclusive_Process",
    "e.process": "Exclusive_Process",
    "exclusive_process": "Exclusive_Process",
    "exclusive process": "Exclusive_Process",
    "prohibited": "Prohibited",
    "e. thread": "Exclusive_Thread",
    "exclusive_thread": "Exclusive_Thread",
}
_GENERATIONS = {"ada lovelace": "Ada"}


def read_nvidia_smi(text: str, source: Source) -> Iterator[Claim]:
    """Any of the forms, by its layout; nothing if it is none of them."""
    if "<nvidia_smi_log" in text:
        yield from read_xml(text, source)
    elif "NVSMI LOG" in text:
        yield from read_report(text, source)
    elif _TABLE_HEAD.search(text):
        yield from read_table(text, source)
    elif _LIST_LINE.search(text):
        yield from read_list(text, source)
    elif re.search(r"^[ \t]*NVIDIA-SMI version[ \t]*:", text, re.MULTILINE):
        yield from read_version(text, source)
    elif _NO_DEVICES.search(text):
        yield from _no_devices(text, source)


def read_table(text: str, source: Source) -> Iterator[Claim]:
    """The table that plain nvidia-smi prints."""
    lines = lines_of(text)
    for number, line in enumerate(lines):
        if head := _TABLE_HEAD.search(line):
            here = at(source, number)
            yield from _versions(here, head["driver"], head["cuda"] or "", head["tool"])
            lines = lines[number:]
            source = at(source, number)
            break
    rows: dict[int, tuple[int, str]] = {}
    last = 0
    for number, line in enumerate(lines):
        if re.match(r"\|[ \t]*Processes:|.*\|[ \t]*Processes:", line):
            break
        if (row := _TABLE_ROW.search(line)) and int(row["index"]) not in rows:
            rows[int(row["index"])] = number, row["name"]
            last = number
    for index, (number, name) in rows.items():
        subject, here = f"gpu:{index}", at(source, number)
        if name.endswith("..."):
            yield unknown("gpu.name", f"nvidia-smi's table cuts the name: {name}", here, subject)
        else:
            yield _stated("gpu.name", name, here, subject)
        yield from _rest_of_row(lines[number + 1 : number + 3], at(source, number + 1), subject)
    # A table without its lower edge may have lost rows.
    if rows and any(re.search(r"\+-{5,}", line) for line in lines[last + 1 :]):
        yield present("gpu.count", len(rows), at(source, last))
    elif not rows:
        yield from _no_devices(text, source)


def _rest_of_row(lines: list[str], source: Source, subject: str) -> Iterator[Claim]:
    if lines and (cells := _MEMORY_CELL.search(lines[0])):
        yield present("gpu.memory_used_mib", int(cells[1]), source, subject)
        yield present("gpu.memory_mib", int(cells[2]), source, subject)
        # "0%      Default", "N/A   E. Process": utilisation and mode
        if mode := _MODES.get(re.split(r"[ \t]{2,}", cells[3].strip())[-1].lower()):
            yield present("gpu.compute_mode", mode, source, subject)
    if len(lines) > 1 and (mig := _LAST_CELL.search(lines[1])):
        yield present("gpu.mig", mig[1] == "Enabled", at(source, 1), subject)


def read_list(text: str, source: Source) -> Iterator[Claim]:
    """The answer to nvidia-smi -L."""
    count = 0
    lines = lines_of(text)
    for number, line in enumerate(lines):
        if found := _LIST_LINE.match(line):
            count += 1
            subject, here = f"gpu:{found[1]}", at(source, number)
            yield present("gpu.name", found[2].strip(), here, subject)
            if number + 1 < len(lines) and _LIST_MIG.match(lines[number + 1]):
                yield present("gpu.mig", True, at(source, number + 1), subject)
    if count:
        yield present("gpu.count", count, source)
    else:
        yield from _no_devices(text, source)


def read_version(text: str, source: Source) -> Iterator[Claim]:
    """The answer to nvidia-smi --version. Its NVML version lacks the last part, so it is not used."""
    values = {
        key.strip().lower(): value.strip()
        for key, colon, value in (line.partition(":") for line in text.splitlines())
        if colon
    }
    driver = values.get("kmd version") or values.get("driver version", "")
    cuda = values.get("cuda umd version") or values.get("cuda version", "")
    yield from _versions(source, driver, cuda, values.get("nvidia-smi version", ""))


def read_query(text: str, source: Source, fields: Iterable[str] = ()) -> Iterator[Claim]:
    """CSV of nvidia-smi --query-gpu; `fields` names the columns where the text has no header."""
    rows = [[cell.strip() for cell in row] for row in csv.reader(lines_of(text), skipinitialspace=True) if row]
    columns = [name.split(" [")[0] for name in fields]
    if not columns and rows:
        columns = [name.split(" [")[0] for name in rows.pop(0)]
    count = 0
    for number, row in enumerate(rows):
        values = dict(zip(columns, row, strict=False))
        if len(row) != len(columns) or not values.get("index", str(number)).isdigit():
            continue
        count += 1
        subject, here = f"gpu:{int(values.get('index', number))}", at(source, number + (0 if fields else 1))
        if not number and "driver_version" in values:
            yield from _versions(here, values["driver_version"], "", "")
        yield from _details(
            here,
            subject,
            name=values.get("name", values.get("gpu_name", "")),
            capability=values.get("compute_cap", ""),
            total=values.get("memory.total", ""),
            used=values.get("memory.used", ""),
            mig=values.get("mig.mode.current", ""),
            mode=values.get("compute_mode", ""),
        )
        for column, fact in _LINK_COLUMNS.items():
            if values.get(column, "").isdigit():
                yield present(fact, int(values[column]), here, subject)
        slow = [
            _SLOWDOWN_COLUMNS[end] for end, value in _reasons(values) if value == "Active" and end in _SLOWDOWN_COLUMNS
        ]
        if slow:
            yield present("gpu.throttled_by", tuple(slow), here, subject)
    if count:
        yield present("gpu.count", count, source)
    else:
        yield from _no_devices(text, source)


def _reasons(values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What holds the clocks back, by the ends of the columns; `active` has all of it as bits (nvml.h)."""
    for column, value in values.items():
        if column.startswith(("clocks_throttle_reasons.", "clocks_event_reasons.")):
            yield column.partition(".")[2], value
            if column.endswith(".active") and re.fullmatch(r"0x[0-9a-fA-F]{1,16}", value):
                yield from ((name, "Active") for bit, name in _REASON_BITS.items() if int(value, 16) & bit)


def read_report(text: str, source: Source) -> Iterator[Claim]:
    """The answer to nvidia-smi -q: keys and values, nested by their indent."""
    heads: dict[str, str] = {}
    gpus: list[tuple[int, dict[str, str]]] = []
    path: list[tuple[int, str]] = []
    for number, line in enumerate(lines_of(text)):
        if not (found := _REPORT_LINE.match(line)):
            continue
        indent, key, value = len(found[1].expandtabs(4)), found[2], found[3]
        if re.match(r"GPU [0-9A-Fa-f]{4,8}:", line.strip()):
            gpus.append((number, {}))
            path = [(indent, "")]
            continue
        while path and path[-1][0] >= indent:
            path.pop()
        if value is None:
            path.append((indent, key))
        else:
            where = heads if not gpus else gpus[-1][1]
            where.setdefault("/".join([name for _, name in path if name] + [key]), value)
    yield from _versions(
        source,
        heads.get("KMD Version") or heads.get("Driver Version", ""),
        heads.get("CUDA UMD Version") or heads.get("CUDA Version", ""),
        "",
    )
    if heads.get("Attached GPUs", "").isdigit():
        yield present("gpu.count", int(heads["Attached GPUs"]), source)
    for index, (number, values) in enumerate(gpus):
        yield from _details(
            at(source, number),
            f"gpu:{index}",
            name=values.get("Product Name", ""),
            generation=values.get("Product Architecture", ""),
            total=values.get("FB Memory Usage/Total", ""),
            used=values.get("FB Memory Usage/Used", ""),
            mig=values.get("MIG Mode/Current", ""),
            mode=values.get("Compute Mode", ""),
        )


def read_xml(text: str, source: Source) -> Iterator[Claim]:
    """The answer to nvidia-smi -q -x, also where it is cut off or other lines stand around it."""
    from xml.etree import ElementTree  # noqa: ICN001  the name that people know

    start = text.find("<nvidia_smi_log")
    end = text.rfind("</nvidia_smi_log>")
    # Only the element itself is read: entities can be defined nowhere but before it.
    if start < 0 or end < start or "<!ENTITY" in text[:start].upper():
        yield unknown("driver.version", "nvidia-smi's XML is cut off or defines entities", source)
        return
    body = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]", "", text[start:end] + "</nvidia_smi_log>")
    try:
        log = ElementTree.fromstring(body)  # noqa: S314  no entities can be defined, see above
    except ElementTree.ParseError as error:
        yield unknown("driver.version", f"nvidia-smi's XML cannot be read: {error}", source)
        return
    here = at(source, line_of(text, start))
    yield from _versions(
        here,
        _inner(log, "kmd_version") or _inner(log, "driver_version"),
        _inner(log, "cuda_umd_version") or _inner(log, "cuda_version"),
        "",
    )
    gpus = log.findall("gpu")
    attached = _inner(log, "attached_gpus")
    if attached.isdigit():
        yield present("gpu.count", int(attached), here)
    for index, gpu in enumerate(gpus):
        yield from _details(
            here,
            f"gpu:{index}",
            name=_inner(gpu, "product_name"),
            generation=_inner(gpu, "product_architecture"),
            total=_inner(gpu, "fb_memory_usage/total"),
            used=_inner(gpu, "fb_memory_usage/used"),
            mig=_inner(gpu, "mig_mode/current_mig"),
            mode=_inner(gpu, "compute_mode"),
        )


def _inner(element: "Element", path: str) -> str:
    return (element.findtext(path) or "").strip()


def _versions(source: Source, driver: str, cuda: str, tool: str) -> Iterator[Claim]:
    if version := re.match(_NUMBER, driver):
        yield present("driver.version", version[0], source)
        yield present("driver.branch", version[0].split(".", 1)[0], source)
        yield present("driver.loaded", True, source)
    elif driver:
        yield unknown("driver.version", f"nvidia-smi shows {driver!r} in its place", source)
    if version := re.match(_NUMBER, tool):
        yield present("driver.library_version", version[0], source)
    if version := re.match(_NUMBER, cuda):
        yield present("driver.cuda_version", version[0], source)
    elif cuda:
        yield unknown("driver.cuda_version", f"nvidia-smi shows {cuda!r} in its place", source)


def _details(
    source: Source,
    subject: str,
    *,
    name: str = "",
    capability: str = "",
    generation: str = "",
    total: str = "",
    used: str = "",
    mig: str = "",
    mode: str = "",
) -> Iterator[Claim]:
    """Claims of one GPU; an empty text is a field that this form does not have."""
    if name:
        yield _stated("gpu.name", name, source, subject)
    if capability:
        yield _stated("gpu.capability", capability, source, subject)
    if generation:
        yield _stated("gpu.architecture", _GENERATIONS.get(generation.lower(), generation), source, subject)
    for fact, text in (("gpu.memory_mib", total), ("gpu.memory_used_mib", used)):
        if found := re.match(r"(\d+)(?: MiB)?$", text):
            yield present(fact, int(found[1]), source, subject)
        elif text:
            yield unknown(fact, f"nvidia-smi shows {text!r} in its place", source, subject)
    if mig.lower() in ("enabled", "disabled"):
        yield present("gpu.mig", mig.lower() == "enabled", source, subject)
    elif mig.strip("[]").upper() == "N/A":
        yield absent("gpu.mig", source, "this GPU has no MIG mode", subject)
    if mode.lower() in _MODES:
        yield present("gpu.compute_mode", _MODES[mode.lower()], source, subject)


def _stated(fact: str, value: Value, source: Source, subject: str) -> Claim:
    if _SAYS_NOTHING.match(str(value)):
        return unknown(fact, f"nvidia-smi shows {value!r} in its place", source, subject)
    return present(fact, value, source, subject)


def _no_devices(text: str, source: Source) -> Iterator[Claim]:
    if found := _NO_DEVICES.search(text):
        yield present("gpu.count", 0, at(source, line_of(text, found.start())))


# --- pasted text: any of the forms, cut, repeated, with other things around them ---------------------

_PROCESS_ROW = re.compile(
    r"\|[ \t]+(?P<gpu>\d{1,3})(?:[ \t]+(?:N/A|\d+)[ \t]+(?:N/A|\d+))?[ \t]+(?P<pid>\d{1,9})[ \t]+(?P<type>C\+G|"
    r"C|G|M\+C)[ \t]+"
    r"(?P<name>\S.*?)[ \t]+(?:(?P<size>\d+)MiB|N/A)[ \t]*\|"
)
_MIG_ROW = re.compile(r"\|[ \t]+(\d{1,3})[ \t]+\d{1,3}[ \t]+\d{1,3}[ \t]+\d{1,3}[ \t]+\|[ \t]+\d+MiB[ \t]*/")
_HEAD_LINE = re.compile(r"NVIDIA-SMI version[ \t]*:|NVSMI LOG")
_COLUMN_NAMES = frozenset(
    (
        "index",
        "name",
        "gpu_name",
        "uuid",
        "driver_version",
        "compute_cap",
        "memory.total",
        "memory.used",
        "memory.free",
        "compute_mode",
        "mig.mode.current",
        "utilization.gpu",
        "temperature.gpu",
        "pci.bus_id",
        "persistence_mode",
        "power.draw",
        "count",
    )
)
_FIELD = re.compile(r"[a-z]+(?:[._][a-z0-9_]+)*")
_FIELD_GROUPS = ("pcie.", "clocks", "memory.", "utilization.", "temperature.", "power.", "ecc.", "mig.", "pci.")
_LINK_COLUMNS = {
    "pcie.link.width.current": "gpu.pcie_width",
    "pcie.link.width.max": "gpu.pcie_width_max",
    "pcie.link.gen.current": "gpu.pcie_generation",
    "pcie.link.gen.gpucurrent": "gpu.pcie_generation",
    "pcie.link.gen.max": "gpu.pcie_generation_max",
}
_REASON_BITS = {
    0x04: "sw_power_cap",
    0x08: "hw_slowdown",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
}
_SLOWDOWN_COLUMNS = {
    "sw_power_cap": "power-cap",
    "hw_slowdown": "hardware-slowdown",
    "hw_thermal_slowdown": "hardware-thermal",
    "hw_power_brake_slowdown": "power-brake",
    "sw_thermal_slowdown": "software-thermal",
}
_APP_COLUMNS = frozenset(("pid", "process_name", "name", "used_memory", "used_gpu_memory", "gpu_uuid"))
_STATE_LINE = re.compile(r"^[ \t]*(?P<key>[A-Z][A-Za-z/() .]{2,48}?)[ \t]*:[ \t]*(?P<value>\S.{0,60}?)[ \t]*$")
_SLOWDOWNS = {
    "sw power cap": "power-cap",
    "hw slowdown": "hardware-slowdown",
    "hw thermal slowdown": "hardware-thermal",
    "hw power brake slowdown": "power-brake",
    "sw thermal slowdown": "software-thermal",
    "sync boost": "sync-boost",
}
_LONGEST_BLOCK = 400


def read_pasted_nvidia_smi(text: str, source: Source) -> Iterator[Claim]:
    lines = lines_of(text)
    heads = [number for number, line in enumerate(lines) if _TABLE_HEAD.search(line)]
    for start, end in zip(heads, [*heads[1:], len(lines)], strict=False):
        yield from read_table("\n".join(lines[start : min(end, start + _LONGEST_BLOCK)]), at(source, start))
    if not heads:
        # The upper part of a table is often cut off.
        for number, line in enumerate(lines):
            if row := _TABLE_ROW.search(line):
                subject = f"gpu:{int(row['index'])}"
                if not row["name"].endswith("..."):
                    yield _stated("gpu.name", row["name"], at(source, number), subject)
                yield from _rest_of_row(lines[number + 1 : number + 3], at(source, number + 1), subject)
    if "<nvidia_smi_log" in text:
        yield from read_xml(text, source)
    elif _LIST_LINE.search(text):
        yield from read_list(text, source)
    elif not heads:
        yield from _no_devices(text, source)
    for number, line in enumerate(lines):
        if _HEAD_LINE.search(line):
            block = "\n".join(lines[number : number + 4 * _LONGEST_BLOCK])
            yield from (read_report if "NVSMI LOG" in line else read_version)(block, at(source, number))
            break
    yield from _holders(lines, source)
    yield from _columns(lines, source)
    yield from _states(lines, source)


def _holders(lines: list[str], source: Source) -> Iterator[Claim]:
    """Who holds memory, from the table of processes and from --query-compute-apps."""
    holders: dict[int, list[str]] = {}
    first, migs, empty = 0, 0, -1
    for number, line in enumerate(lines):
        if row := _PROCESS_ROW.search(line):
            first = first or number
            size = f"{row['size']} MiB" if row["size"] else "an unknown size"
            holders.setdefault(int(row["gpu"]), []).append(f"{row['name']} (pid {row['pid']}): {size}")
        elif _MIG_ROW.search(line):
            migs += 1
        elif "No MIG devices found" in line:
            yield present("gpu.mig_devices", 0, at(source, number), "gpu:0")
        elif "No running processes found" in line:
            empty = number
    for gpu, held in holders.items():
        yield present("gpu.processes", len(held), at(source, first), f"gpu:{gpu}")
        yield present("gpu.memory_holders", tuple(held[:20]), at(source, first), f"gpu:{gpu}")
    if empty >= 0 and not holders:
        yield present("gpu.processes", 0, at(source, empty), "gpu:0")
    if migs:
        yield present("gpu.mig_devices", migs, source, "gpu:0")


def _columns(lines: list[str], source: Source) -> Iterator[Claim]:
    """CSV under its head: --query-gpu and --query-compute-apps."""
    for number, line in enumerate(lines):
        if "," not in line or not re.match(r"\s*[a-z]", line):
            continue
        names = [cell.strip().split(" [")[0] for cell in line.split(",")]
        rows = []
        for row in lines[number + 1 : number + 1 + _LONGEST_BLOCK]:
            if row.count(",") != line.count(","):
                break
            rows.append(row)
        if not rows or len(names) < 2:
            continue
        asked = all(_FIELD.fullmatch(name) for name in names) and any(name.startswith(_FIELD_GROUPS) for name in names)
        if asked or set(names) <= _COLUMN_NAMES:
            yield from read_query("\n".join([line, *rows]), at(source, number))
        elif "pid" in names and set(names) <= _APP_COLUMNS:
            held = []
            for row in rows:
                cells = dict(zip(names, (cell.strip() for cell in row.split(",")), strict=True))
                size = cells.get("used_gpu_memory", cells.get("used_memory", ""))
                held.append(f"{cells.get('process_name', cells.get('name', '?'))} (pid {cells['pid']}): {size}")
            here = at(source, number + 1)
            yield present("gpu.processes", len(held), here, "gpu:0")
            yield present("gpu.memory_holders", tuple(held[:20]), here, "gpu:0")


def _states(lines: list[str], source: Source) -> Iterator[Claim]:
    """Lines of a report of which only a part was asked for (-q -d PERFORMANCE): its head, and with it the number of
    the GPU, is missing.
    """
    slow: list[str] = []
    first = 0
    for number, line in enumerate(lines):
        if ":" not in line or not (found := _STATE_LINE.match(line)):
            continue
        key, value, here = found["key"].strip().lower(), found["value"], at(source, number)
        if key == "compute mode" and value.lower() in _MODES:
            yield present("gpu.compute_mode", _MODES[value.lower()], here, "gpu:0")
        elif key in _SLOWDOWNS and value == "Active":
            first = first or number
            slow.append(_SLOWDOWNS[key])
        elif key == "remapping failure occurred" and value in ("Yes", "No"):
            yield present("gpu.row_remap_failed", value == "Yes", here, "gpu:0")
    if slow:
        yield present("gpu.throttled_by", tuple(dict.fromkeys(slow)), at(source, first), "gpu:0")

"""Writes what this machine and its target Python answer as a fixture's recording: record_machine.py PYTHON > FILE.

Serial numbers, UUIDs and the host's name are made neutral; read the file before it is committed all the same.
"""

import json
import os
import platform
import re
import sys

from troubleshooter.confirm import GPU_TESTS
from troubleshooter.interpreter import ScriptRun, environment_of_children, run_script
from troubleshooter.machine import LiveMachine
from troubleshooter.probes import observe_machine
from troubleshooter.probes.python_target import has_no_torch
from troubleshooter.recording import RecordingMachine

VARIABLES = (
    "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH", "NVIDIA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER", "CUDA_MODULE_LOADING", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX",
)  # fmt: skip
NEUTRAL = (
    (re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "GPU-00000000-0000-0000-0000-000000000001"),
    (re.compile(r"(<serial>|<pdi>|<board_id>|<gpu_part_number>|<chassis_serial_number>)[^<]*"), r"\g<1>N/A"),
    (re.compile(re.escape(platform.node()) if len(platform.node()) > 3 else r"(?!)"), "host"),
)


def main(python: str) -> None:
    machine = RecordingMachine(LiveMachine())
    observe_machine(machine)
    env = environment_of_children(machine.environ)
    limits = {"seconds": 180.0, "alive_limit": 60.0, "env": env}
    inspection = run_script(machine, python, "inspect_environment.py", **limits)
    target: dict[str, object] = {"inspection": plain(inspection)}
    if not has_no_torch(inspection):
        target["import"] = plain(run_script(machine, python, "import_torch.py", **limits))
        target["tests"] = [plain(run_script(machine, python, "gpu_tests.py", ["quick", ",".join(GPU_TESTS)], **limits))]
    recording = machine.recording(VARIABLES)
    # The target's own answers stand under `target`; the commands that gave them are of no use to anybody.
    recording["commands"] = [answer for answer in recording["commands"] if answer["argv"][0] != python]
    if release := str(recording["files"].get("/proc/sys/kernel/osrelease", "")).strip():
        recording["files"]["/proc/sys/kernel/osrelease"] = release.split("-")[0] + "-generic\n"
    text = json.dumps({**recording, "target": target}, indent=1, ensure_ascii=False)
    text = text.replace(os.path.dirname(os.path.dirname(python)), "/opt/venv").replace(os.getcwd(), "/home/user")
    for pattern, neutral in NEUTRAL:
        text = pattern.sub(neutral, text)
    sys.stdout.write(text + "\n")


def plain(run: ScriptRun) -> dict[str, object]:
    return {**run._asdict(), "events": list(run.events)}


if __name__ == "__main__":
    main(sys.argv[1])

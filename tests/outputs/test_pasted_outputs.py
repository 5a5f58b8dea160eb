"""What people paste: reports, answers at prompts, lists of packages, paths, figures, shells, containers."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from troubleshooter.knowledge import load
from troubleshooter.model import ABSENT, Claim, Source
from troubleshooter.outputs.collect_env import read_collect_env
from troubleshooter.outputs.containers_and_jobs import read_containers_and_jobs
from troubleshooter.outputs.context import read_context
from troubleshooter.outputs.gpus_named import read_gpus_named
from troubleshooter.outputs.installs import read_installs
from troubleshooter.outputs.loader_answers import read_loader_answers
from troubleshooter.outputs.nvidia_smi import read_pasted_nvidia_smi
from troubleshooter.outputs.out_of_memory import read_out_of_memory
from troubleshooter.outputs.own_report import read_own_report
from troubleshooter.outputs.packages import read_packages
from troubleshooter.outputs.python_answers import read_python_answers
from troubleshooter.outputs.python_paths import read_python_paths
from troubleshooter.outputs.shell_variables import read_shell_variables
from troubleshooter.outputs.system_answers import read_system_answers

SOURCE = Source("text", "text", file="paste", line=1)
Reader = Callable[[str, Source], Iterator[Claim]]


def read(reader: Reader, text: str) -> dict[str, object]:
    """The first value of each fact; an absent one is None."""
    found: dict[str, object] = {}
    for claim in reader(text, SOURCE):
        found.setdefault(f"{claim.name}@{claim.subject}".removesuffix("@host"), claim.value)
    return found


REPORT = """\
PyTorch version: {torch}
Is debug build: False
CUDA used to build PyTorch: {cuda}
ROCM used to build PyTorch: {rocm}

OS: Ubuntu 22.04.5 LTS (x86_64)
Libc version: glibc-2.35
Python version: 3.10.12 (main, Nov  6 2024, 20:22:13) [GCC 11.4.0] (64-bit runtime)
Python platform: Linux-5.15.167.4-microsoft-standard-WSL2-x86_64-with-glibc2.35
Is CUDA available: {available}
CUDA runtime version: 12.1.105
GPU models and configuration:
GPU 0: NVIDIA GeForce RTX 4090
GPU 1: NVIDIA GeForce RTX 3090

Nvidia driver version: 551.86
[pip3] numpy==1.26.4
[pip3] torch==2.4.0
[conda] torchvision               0.19.0                   pypi_0    pypi
"""


def test_collect_env_is_read() -> None:
    found = read(read_collect_env, REPORT.format(torch="2.4.0+cu121", cuda="12.1", rocm="N/A", available="True"))
    assert found["torch.version"] == "2.4.0+cu121"
    assert found["torch.build"] == "cuda"
    assert found["os.family"] == "wsl"
    assert found["os.kernel"] == "5.15.167.4-microsoft-standard-wsl2"
    assert found["nvcc.version"] == "12.1"
    assert found["gpu.name@gpu:1"] == "NVIDIA GeForce RTX 3090"
    assert found["gpu.count"] == 2
    assert found["torch.cuda_available"] is True
    assert found["torchvision.version"] == "0.19.0"
    assert found["python.bits"] == 64


def test_no_cuda_and_no_rocm_is_a_build_for_the_cpu() -> None:
    found = read(
        read_collect_env, REPORT.format(torch="2.4.0", cuda="Could not collect", rocm="N/A", available="False")
    )
    assert found["torch.build"] == "cpu"
    assert (
        read(read_collect_env, REPORT.format(torch="2.4.0+rocm6.0", cuda="N/A", rocm="6.0.3", available="True"))[
            "torch.build"
        ]
        == "rocm"
    )


def test_a_report_where_torch_cannot_be_imported_says_nothing_of_its_build() -> None:
    found = read(read_collect_env, REPORT.format(torch="N/A", cuda="N/A", rocm="N/A", available="N/A"))
    assert found["torch.version"] is None
    assert "torch.build" not in found


@pytest.mark.parametrize(
    ("line", "fact", "value"),
    [
        ("sys.platform: linux", "os.family", "linux"),
        ("NVCC: Cuda compilation tools, release 11.3, V11.3.109", "nvcc.version", "11.3"),
        (
            "PyTorch                 1.9.0+cu111 @/opt/conda/lib/python3.8/site-packages/torch",
            "torch.version",
            "1.9.0+cu111",
        ),
        ("- PyTorch version (GPU?): 2.0.0+cu117 (True)", "torch.cuda_available", True),
        ("- `transformers` version: 4.28\n- Platform: Windows-10-10.0.22631-SP0", "os.family", "windows"),
        (
            "Ultralytics YOLOv8.0.20 🚀 Python-3.9.2 torch-2.0.1+cu118 CUDA:0 (NVIDIA GeForce RTX 3090, 24259MiB)",
            "torch.version",
            "2.0.1+cu118",
        ),
        ("YOLOv5 🚀 v5.0-86 torch 1.8.1 CPU", "torch.version", "1.8.1"),
        ("    PyTorch 2.2.1+cu121 with CUDA 1201 (you have 2.1.2+cpu)", "torch.build", "cpu"),
        ("    Python  3.10.11 (you have 3.10.6)", "python.version", "3.10.6"),
        ("pytorch version: 2.6.0+cu124", "torch.cuda", "12.4"),
        ("Device: cuda:0 NVIDIA GeForce RTX 4060 Ti : cudaMallocAsync", "gpu.name@gpu:0", "NVIDIA GeForce RTX 4060 Ti"),
        ("tf.version.VERSION = 2.15.0", "tensorflow.version", "2.15.0"),
        ("vLLM Version: 0.6.3.post1", "vllm.version", "0.6.3.post1"),
        ("GPU available: True (cuda), used: True", "torch.cuda_available", True),
    ],
)
def test_other_reports_are_read_line_by_line(line: str, fact: str, value: object) -> None:
    assert read(read_collect_env, line)[fact] == value


def test_what_a_package_asks_for_is_not_there() -> None:
    assert "python.version" not in read(read_collect_env, "Python version: >=3.8")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('$ python -c "import torch; print(torch.__version__, torch.cuda.is_available())"\n2.7.1+cu126 True',
         {"torch.version": "2.7.1+cu126", "torch.cuda_available": True}),
        (">>> torch.__version__, torch.version.cuda\n('2.9.1+cu128', '12.8')", {"torch.version": "2.9.1+cu128", "torch.cuda": "12.8"}),
        (">>> torch.cuda.get_device_name(0), torch.cuda.get_device_capability(0)\n('NVIDIA GeForce RTX 4070 Ti', (8, 9))",
         {"gpu.name@gpu:0": "NVIDIA GeForce RTX 4070 Ti", "gpu.capability@gpu:0": "8.9"}),
        ("In [2]: torch.version.cuda\nOut[2]: None", {"torch.cuda": None}),
        (">>> torch.cuda.is_available()\n/x/torch/cuda/__init__.py:138: UserWarning: bad (Triggered internally)\n  return x > 0\nFalse",
         {"torch.cuda_available": False}),
        ("torch.cuda.is_available() -> False", {"torch.cuda_available": False}),
        ("2.5.1+cu124 12.4 True", {"torch.version": "2.5.1+cu124", "torch.cuda": "12.4", "torch.cuda_available": True}),
        ("print(torch.backends.cudnn.version())\n90100", {"cudnn.version": "9.1.0"}),
        (">>> torch.cuda.get_arch_list()\n['sm_75', 'sm_90']", {"torch.archs": ("sm_75", "sm_90")}),
        ("python -c 'import sys; print(sys.executable)'\n/opt/venv/bin/python", {"python.path": "/opt/venv/bin/python"}),
        ('python -c "import torch; print(\'torch\', torch.__version__); print(torch.cuda.device_count())"\ntorch 2.1.0\n', {}),
    ],
)  # fmt: skip
def test_answers_of_python_are_read(text: str, expected: dict[str, object]) -> None:
    found = read(read_python_answers, text)
    assert {name: found[name] for name in expected} == expected


def test_a_question_without_an_answer_states_nothing() -> None:
    assert read(read_python_answers, ">>> torch.cuda.is_available()\n>>> import os\nTrue") == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Package    Version\n---------- -------\ntorch      2.4.0+cu121\nnvidia-cudnn-cu12 9.1.0.70\n",
         {"torch.version": "2.4.0+cu121", "cudnn.version": "9.1.0.70", "packages.cuda_majors": ("12",)}),
        ("$ pip list | grep torch\ntorch    1.9.1+cu111\ntorchvision 0.10.1", {"torch.version": "1.9.1+cu111", "torchvision.version": "0.10.1"}),
        ("torch==2.1.0+cpu\nnumpy==2.0.1", {"torch.build": "cpu", "numpy.version": "2.0.1", "torch.installers": ("pip",)}),
        ("# packages in environment at /opt/conda/envs/x:\n#\n# Name Version Build Channel\npytorch 2.1.0 py3.10_cuda12.1_cudnn8.9.2_0 pytorch\n",
         {"torch.build": "cuda", "torch.cuda": "12.1", "torch.installers": ("conda",), "python.prefix": "/opt/conda/envs/x"}),
        ("# Name Version Build Channel\npytorch 2.0.1 cpu_py310hdc00b08_0 defaults\ntorch 2.4.1 pypi_0 pypi\n",
         {"torch.build": "cpu", "torch.installers": ("conda", "pip")}),
        ("WARNING: Package(s) not found: torch", {"torch.version": None}),
        ("Name: torch\nVersion: 2.3.1+cu121\nLocation: d:\\x\\lib\\site-packages", {"torch.location": "d:\\x\\lib\\site-packages\\torch"}),
        ("torchaudio 2.1.0 has requirement torch==2.1.0, but you have torch 2.2.0.", {"torch.version": "2.2.0"}),
        ("pip 23.3.1 from /opt/x/site-packages/pip (python 3.12)", {"pip.version": "23.3.1", "pip.python": "3.12"}),
        ("  virtual packages : __cuda=12.4=0\n    __glibc=2.35=0\n  platform : win-32", {"driver.cuda_version": "12.4", "os.glibc": "2.35", "python.bits": 32}),
    ],
)  # fmt: skip
def test_lists_of_packages_are_read(text: str, expected: dict[str, object]) -> None:
    found = read(read_packages, text)
    assert {name: found[name] for name in expected} == expected


def test_an_install_tells_what_was_wanted_and_what_came() -> None:
    text = (
        "$ pip3 install torch==2.5.1 --index-url https://me:secret@download.pytorch.org/whl/cu118\n"
        "  Downloading torch-2.5.1%2Bcu118-cp311-cp311-linux_x86_64.whl (800 MB)\n"
        "Successfully installed filelock-3.13 torch-2.5.1+cu118 torchvision-0.20.1\n"
    )
    found = read(read_installs, text)
    assert found["install.wanted"] == "2.5.1"
    assert found["install.torch"] == "2.5.1+cu118"
    assert found["python.version"] == "3.11"
    assert found["text.install_succeeded"] is True
    assert found["install.indexes"] == ("https://download.pytorch.org/whl/cu118",)


def test_what_an_index_offers_is_counted() -> None:
    line = "ERROR: Could not find a version that satisfies the requirement torch==2.6.0 (from versions: 2.0.0+cu118, 2.4.1+cu118)"
    assert read(read_installs, line) == {
        "install.wanted": "2.6.0", "install.offers": 2, "install.newest_offer": "2.4.1+cu118", "install.oldest_offer": "2.0.0+cu118",
    }  # fmt: skip
    none = "ERROR: Could not find a version that satisfies the requirement torch (from versions: none)"
    assert read(read_installs, none)["install.offers"] == 0


@pytest.mark.parametrize(
    ("path", "prefix", "environment", "python", "family"),
    [
        (
            "/opt/conda/envs/moe/lib/python3.10/site-packages/torch/a.py",
            "/opt/conda/envs/moe",
            "conda",
            "3.10",
            "linux",
        ),
        ("/home/me/p/.venv/lib/python3.12/site-packages/torch/a.py", "/home/me/p/.venv", "venv", "3.12", "linux"),
        ("/usr/local/lib/python3.8/dist-packages/torch/a.py", "/usr/local", "system", "3.8", "linux"),
        ("D:\\anaconda3\\envs\\x\\Lib\\site-packages\\torch\\a.py", "D:\\anaconda3\\envs\\x", "conda", None, "windows"),
        (
            "C:\\My App [1]\\python_embeded\\Lib\\site-packages\\torch\\a.py",
            "C:\\My App [1]\\python_embeded",
            "embedded",
            None,
            "windows",
        ),
        ("/Users/me/py/lib/python3.9/site-packages/torch/a.py", "/Users/me/py", None, "3.9", "macos"),
        (
            "/mnt/c/Users/me/v/venv/lib/python3.9/site-packages/torch/a.py",
            "/mnt/c/Users/me/v/venv",
            "venv",
            "3.9",
            "wsl",
        ),
    ],
)
def test_paths_of_a_traceback_tell_the_environment(
    path: str, prefix: str, environment: str | None, python: str | None, family: str
) -> None:
    found = read(read_python_paths, f'  File "{path}", line 3, in <module>')
    assert found["python.prefix"] == prefix
    assert found.get("python.environment") == environment
    assert found.get("python.version") == python
    assert found["os.family"] == family
    assert str(found["torch.location"]).endswith("torch")


def test_two_folders_of_packages_in_one_traceback_are_counted() -> None:
    text = (
        '  File "D:\\miniconda\\envs\\asr\\lib\\site-packages\\a.py", line 6, in <module>\n'
        '  File "C:\\Users\\me\\AppData\\Roaming\\Python\\Python39\\site-packages\\torchaudio\\__init__.py", line 1, in <module>\n'
    )
    found = read(read_python_paths, text)
    assert found["text.site_packages_count"] == 2
    assert str(found["text.user_site"]).startswith("C:\\Users")
    assert found["python.version"] == "3.9"


OLD = (
    "CUDA out of memory. Tried to allocate 1.74 GiB (GPU 0; 15.77 GiB total capacity; 7.92 GiB already allocated; "
    "1.31 GiB free; 13.36 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try"
)
NEW = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 1 has a total capacity of 10.00 GiB of which "
    "100.00 MiB is free. Process 77 has 6.00 GiB memory in use. Including non-PyTorch memory, this process has 3.90 GiB memory in use. "
    "Of the allocated memory 3.00 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated."
)


def test_figures_of_memory_are_read_in_both_wordings() -> None:
    old, new = read(read_out_of_memory, OLD), read(read_out_of_memory, NEW)
    assert old["oom.request_mib"] == pytest.approx(1.74 * 1024)
    assert old["oom.unused_mib"] == pytest.approx((13.36 - 7.92) * 1024)
    assert old["oom.others_mib"] == pytest.approx((15.77 - 1.31 - 13.36) * 1024, abs=1)
    assert new["oom.others_mib"] == 6 * 1024
    assert new["oom.reserved_mib"] == 3584
    assert new["oom.gpu"] == 1
    assert new["oom.request_percent"] == 5.0


def test_figures_of_memory_survive_a_broken_line() -> None:
    broken = "\n".join(NEW[start : start + 80] for start in range(0, len(NEW), 80))
    assert read(read_out_of_memory, broken.replace("\n", " \n"))["oom.request_mib"] == 512


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$ echo $LD_LIBRARY_PATH\n/usr/local/cuda-12.2/lib64:/x", {"env.LD_LIBRARY_PATH": "/usr/local/cuda-12.2/lib64:/x", "loader.cuda_folders": ("/usr/local/cuda-12.2/lib64",)}),
        ("C:\\> echo %CUDA_PATH%\n%CUDA_PATH%", {}),
        ("$ echo $CUDA_HOME\n\n$ ls", {"env.CUDA_HOME": None}),
        ("export CUDA_VISIBLE_DEVICES=-1", {"env.CUDA_VISIBLE_DEVICES": "-1", "env.hides_all_gpus": True}),
        ('CUDA_VISIBLE_DEVICES="" python train.py', {"env.hides_all_gpus": True}),
        ('$env:CUDA_HOME = "C:\\CUDA"', {"env.CUDA_HOME": "C:\\CUDA"}),
        ('os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"', {"env.CUDA_VISIBLE_DEVICES": "0,1", "env.hides_all_gpus": False}),
        ("For debugging consider passing CUDA_LAUNCH_BLOCKING=1.", {}),
        ("changing env variable CUDA_VISIBLE_DEVICES after program start", {}),
    ],
)  # fmt: skip
def test_variables_are_read_from_shells(text: str, expected: dict[str, object]) -> None:
    found = read(read_shell_variables, text)
    assert {name: found[name] for name in expected} == expected
    assert bool(found) == bool(expected)


@pytest.mark.parametrize(
    ("text", "fact", "value"),
    [
        ("Linux box 5.15.0-91-generic #101-Ubuntu SMP x86_64 GNU/Linux", "os.kernel", "5.15.0-91-generic"),
        ("Linux b 5.15.167.4-microsoft-standard-WSL2 #1 SMP x86_64", "os.family", "wsl"),
        ("Betriebssystemname:            Microsoft Windows 11 Pro", "os.release", "Microsoft Windows 11 Pro"),
        ("PS C:\\x> python a.py", "os.family", "windows"),
        ("Microsoft Windows [Version 10.0.18362.900]\nme@LAPTOP:~$ nvidia-smi", "os.family", "wsl"),
        ("[    5.1] NVRM: Xid (PCI:0000:65:00): 79, pid=1, GPU has fallen off the bus.", "kernel_log.xids", ("79",)),
        (
            "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build",
            "driver.flavour",
            "open",
        ),
        ("NVML library version: 535.183", "driver.library_version", "535.183"),
        ("cat: /proc/driver/nvidia/version: No such file or directory", "driver.loaded", False),
    ],
)
def test_systems_are_recognised(text: str, fact: str, value: object) -> None:
    assert read(read_system_answers, text)[fact] == value


def test_a_compilers_version_is_no_release_of_the_system() -> None:
    assert "os.release" not in read(
        read_system_answers, "GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("root@4f2c19ab77d0:/# nvidia-smi", {"container.kind": "docker"}),
        ("$ docker run --rm img python a.py", {"container.kind": "docker", "container.asks_for_gpus": False}),
        ("$ docker run --gpus all img", {"container.asks_for_gpus": True}),
        ("$ apptainer exec torch.sif python a.py", {"container.asks_for_gpus": False}),
        ("$ singularity run --nv torch.sif", {"container.asks_for_gpus": True}),
        ("nvidia-container-cli: initialization error", {"container.kind": "container"}),
        ("kubectl describe pod x\n  nvidia.com/gpu: 1", {"container.kind": "kubernetes", "job.scheduler": "kubernetes"}),
        ("$ srun --gres=gpu:2 --pty bash\n   AllocTRES=cpu=1,mem=4G,node=1,billing=1", {"job.scheduler": "slurm", "job.gpus_asked": 2, "job.gpus": 0}),
        ("   AllocTRES=cpu=8,gres/gpu=4,gres/gpu:a100=4", {"job.gpus": 4}),
    ],
)  # fmt: skip
def test_containers_and_jobs_are_recognised(text: str, expected: dict[str, object]) -> None:
    found = read(read_containers_and_jobs, text)
    assert {name: found[name] for name in expected} == expected


def test_the_word_user_at_a_host_is_no_container() -> None:
    assert read(read_containers_and_jobs, "me@tower:~$ nvidia-smi") == {}


def test_ldd_names_what_is_missing_and_what_it_takes() -> None:
    text = "\tlibnvJitLink.so.12 => /usr/local/cuda-12.2/lib64/libnvJitLink.so.12 (0x00007f10)\n\tlibcudart.so.11.0 => not found\n\tlibm.so.6 => /lib/libm.so.6 (0x01)\n"
    assert read(read_loader_answers, text) == {
        "loader.not_found": ("libcudart.so.11.0",),
        "loader.taken": ("libnvJitLink.so.12 => /usr/local/cuda-12.2/lib64/libnvJitLink.so.12",),
    }


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("100%|██████████| 30/30 [00:05<00:00,  5.41it/s]", "text.finished_progress"),
        ("Prompt executed in 6.88 seconds", "text.finished_work"),
        ("$ python run.py --device cpu", "text.explicit_cpu"),
        ("  Preparing metadata (setup.py) ... error", "text.is_build"),
        ('  File "setup.py", line 4, in <module>\n    import torch\n', "text.build_imports_torch"),
        ("tensor(3., device='cuda:0')", "text.gpu_was_used"),
    ],
)
def test_what_went_on_around_an_error_is_noted(text: str, fact: str) -> None:
    assert read(read_context, text)[fact] is True


def test_a_bar_that_did_not_reach_its_end_is_not_finished() -> None:
    assert read(read_context, "steps:   4%|██▍      | 96/2400 [00:41<16:33,  2.32it/s]") == {}


def test_the_first_error_of_a_chain_is_its_root() -> None:
    text = (
        "ImportError: libcudart.so.11.0: cannot open shared object file\n\nDuring handling of the above exception, another exception "
        "occurred:\n\nRuntimeError: Failed to import x"
    )
    found = read(read_context, text)
    assert found["text.import_error_root"] == "libcudart.so.11.0: cannot open shared object file"
    assert found["text.last_error_type"] == "RuntimeError"
    assert found["text.chained_errors"] is True


def test_warnings_that_name_a_card_are_read() -> None:
    text = (
        "NVIDIA GeForce RTX 5060 Ti with CUDA capability sm_120 is not compatible with the current PyTorch installation.\n"
        "The current PyTorch install supports CUDA capabilities sm_80 sm_90 compute_37."
    )
    assert read(read_gpus_named, text) == {
        "gpu.name@gpu:0": "NVIDIA GeForce RTX 5060 Ti", "gpu.capability@gpu:0": "12.0", "torch.archs": ("sm_80", "sm_90", "compute_37"),
    }  # fmt: skip


TABLES = sorted((Path(__file__).parent / "nvidia_smi").glob("*.txt"))


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_pasted_nvidia_smi_is_read_amid_other_lines(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    alone, amid = (
        read(read_pasted_nvidia_smi, one) for one in (text, f"$ nvidia-smi\n{text}\n$ echo done: yes\ndone\n")
    )
    assert amid == alone
    assert alone


def test_who_holds_memory_is_read_from_the_table_of_processes() -> None:
    text = (
        "|    0   N/A  N/A      1234      C   /usr/bin/python3                10240MiB |\n"
        "|    0   N/A  N/A      2345      G   /usr/lib/xorg/Xorg                 120MiB |\n"
    )
    found = read(read_pasted_nvidia_smi, text)
    assert found["gpu.processes@gpu:0"] == 2
    assert found["gpu.memory_holders@gpu:0"] == (
        "/usr/bin/python3 (pid 1234): 10240 MiB",
        "/usr/lib/xorg/Xorg (pid 2345): 120 MiB",
    )


def test_parts_of_a_report_are_read_without_its_head() -> None:
    text = "    Clocks Event Reasons\n        HW Slowdown    : Active\n            HW Thermal Slowdown  : Active\n    Compute Mode  : Exclusive_Process\n"
    found = read(read_pasted_nvidia_smi, text)
    assert found["gpu.throttled_by@gpu:0"] == ("hardware-slowdown", "hardware-thermal")
    assert found["gpu.compute_mode@gpu:0"] == "Exclusive_Process"


def test_our_own_report_states_its_facts_again() -> None:
    text = '{"schema": "troubleshooter.report/1", "facts": [{"name": "driver.version", "subject": "host", "state": "present", "value": "535.1"}, {"name": "torch.version", "subject": "host", "state": "absent"}, {"name": "log.x", "state": "present", "value": true}]}'
    claims = list(read_own_report(f"$ cat report.json\n{text}\n", SOURCE))
    assert [(claim.name, claim.state, claim.value) for claim in claims] == [
        ("driver.version", "present", "535.1"), ("torch.version", ABSENT, None),
    ]  # fmt: skip


def test_the_new_facts_of_text_stand_in_the_catalogue() -> None:
    catalogue = load().facts
    for reader, text in (
        (read_out_of_memory, OLD),
        (read_context, "ImportError: x\nPrompt executed in 1 s"),
        (read_installs, "pip install torch==2.0"),
    ):
        for claim in reader(text, SOURCE):
            assert claim.name in catalogue

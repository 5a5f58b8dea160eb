"""What names a person, a machine or a secret becomes a stable neutral one, and the rest stays as it was.

Pure. Two passes over all strings of a value: the first learns names from the places that show what they are (a folder
under /home, a prompt, a line of NCCL, a variable), the second replaces them everywhere. The same original becomes the
same neutral text throughout, so that what belonged together still does, and a diagnosis comes out as before.

Variables, hosts in addresses of the web, and folders below a home are kept by lists of what is known to be harmless,
never by lists of what is not.
"""

import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

Whole = TypeVar("Whole")

SECRET = "<secret>"  # noqa: S105  what stands in its place


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


KEPT_VARIABLES = _words(
    "PATH PATHEXT LANG LC_ALL OS PROCESSOR_ARCHITECTURE PROCESSOR_ARCHITEW6432 SYSTEMROOT WINDIR PROGRAMFILES "
    "LD_LIBRARY_PATH LD_PRELOAD DYLD_LIBRARY_PATH PYTHONPATH PYTHONHOME PYTHONNOUSERSITE PYTHONUTF8 VIRTUAL_ENV "
    "CONDA_PREFIX CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER CUDA_HOME CUDA_PATH CUDA_ROOT "
    "CUDA_LAUNCH_BLOCKING CUDA_MODULE_LOADING CUDA_VERSION CUDA_CACHE_PATH CUDA_CACHE_DISABLE CUDA_FORCE_PTX_JIT "
    "CUDA_MPS_PIPE_DIRECTORY CUDNN_PATH NVIDIA_VISIBLE_DEVICES NVIDIA_DRIVER_CAPABILITIES NVIDIA_REQUIRE_CUDA "
    "NVIDIA_DISABLE_REQUIRE NVIDIA_TF32_OVERRIDE TORCH_CUDA_ARCH_LIST TORCH_HOME TORCH_USE_CUDA_DSA "
    "TORCH_CUDNN_V8_API_DISABLED TORCH_EXTENSIONS_DIR TORCHINDUCTOR_CACHE_DIR TRITON_CACHE_DIR TRITON_PTXAS_PATH "
    "PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF PYTORCH_NVML_BASED_CUDA_CHECK PYTORCH_NO_CUDA_MEMORY_CACHING "
    "NCCL_DEBUG NCCL_P2P_DISABLE NCCL_IB_DISABLE NCCL_SHM_DISABLE NCCL_SOCKET_IFNAME NCCL_ALGO NCCL_PROTO "
    "OMP_NUM_THREADS MKL_NUM_THREADS MKL_THREADING_LAYER MKL_SERVICE_FORCE_INTEL KMP_DUPLICATE_LIB_OK "
    "KMP_AFFINITY PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_FIND_LINKS PIP_CONSTRAINT PIP_NO_INDEX PIP_TRUSTED_HOST "
    "UV_INDEX_URL UV_DEFAULT_INDEX UV_INDEX UV_EXTRA_INDEX_URL UV_TORCH_BACKEND UV_FIND_LINKS CONDA_CHANNELS "
    "CONDA_OVERRIDE_CUDA CONDA_SUBDIR HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY SLURM_JOB_GPUS "
    "SLURM_GPUS_ON_NODE SLURM_STEP_GPUS WSL_DISTRO_NAME WSL_INTEROP RANK LOCAL_RANK "
    "SLURM_GPUS_PER_NODE GPU_DEVICE_ORDINAL SLURM_GPUS SLURM_GPUS_PER_TASK SLURM_JOB_GRES HOME USERPROFILE APPDATA "
    "LOCALAPPDATA TMPDIR TEMP TMP XDG_CONFIG_HOME XDG_DATA_HOME CONDA_EXE CONDA_ROOT PIP_CACHE_DIR PIP_CONFIG_FILE "
    "PYENV_ROOT WORKON_HOME UV_PYTHON_INSTALL_DIR JUPYTER_PATH PYTHONUSERBASE "
    "WORLD_SIZE HIP_VISIBLE_DEVICES HSA_OVERRIDE_GFX_VERSION XDG_SESSION_TYPE "
)
"""Variables that may stand in a recording, beside those that the catalogue has a fact `env.NAME` for. Their values
are made neutral like any other text. Compared without regard to case: proxies are written either way."""

_ONLY_THAT_IT_IS_SET = _words(
    "SLURM_JOB_ID PBS_JOBID LSB_JOBID SGE_TASK_ID AWS_BATCH_JOB_ID KUBERNETES_SERVICE_HOST COLAB_RELEASE_TAG COLAB_GPU "
    "KAGGLE_KERNEL_RUN_TYPE RUNPOD_POD_ID VAST_CONTAINERLABEL PAPERSPACE_FQDN LIGHTNING_CLOUD_PROJECT_ID "
    "SM_CURRENT_HOST MODAL_TASK_ID CODESPACES "
)
NOTED_VARIABLES = KEPT_VARIABLES | _ONLY_THAT_IT_IS_SET


class Identity(NamedTuple):
    """What the edge knows for sure of the person and the machine: replaced wherever it stands."""

    users: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    homes: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()


def identity_of(environ: Mapping[str, str], hosts: Iterable[str] = ()) -> Identity:
    """What an environment tells: the person's name, home, and the values that look like secrets."""
    variables = {name.upper(): value for name, value in environ.items()}
    users = [variables.get(name, "") for name in ("USER", "LOGNAME", "USERNAME", "SUDO_USER")]
    homes = [variables.get(name, "") for name in ("HOME", "USERPROFILE")]
    named = [variables.get(name, "") for name in ("HOSTNAME", "COMPUTERNAME", "USERDOMAIN", "SLURMD_NODENAME")]
    secrets = [
        value
        for name, value in variables.items()
        if name not in KEPT_VARIABLES
        and len(value) >= _SHORTEST_SECRET
        and (_SECRET_NAME.search(name) or _looks_random(value))
    ]
    return Identity(
        tuple(dict.fromkeys(filter(None, users))),
        tuple(dict.fromkeys(filter(None, [*hosts, *named]))),
        tuple(dict.fromkeys(home for home in homes if len(home) > 1)),
        tuple(dict.fromkeys(secrets)),
    )


def redact(
    value: Whole,
    identity: Identity = Identity(),  # noqa: B008  immutable
    learn_from: Iterable[str] = (),
) -> tuple[Whole, Mapping[str, int]]:
    """The value with neutral texts in all its strings, and how many of each kind were replaced.

    Takes texts, tuples (also named ones), lists and mappings; keys are texts like any other. `learn_from` are the
    texts that the value quotes: a name may be plain to see there, and stand alone in what was quoted.
    """
    redactor = _Redactor(identity)
    redactor.learn([value, *learn_from])
    return redactor.of(value), dict(sorted(redactor.counts.items()))


def redact_recording(
    recording: Mapping[str, Any],
    variables: Iterable[str] = (),
    identity: Identity = Identity(),  # noqa: B008
) -> tuple[dict[str, Any], Mapping[str, int]]:
    """A recording that can be shown: of the environment only what is allowed, everything else made neutral.

    `variables` are further names that may stay.
    """
    allowed = NOTED_VARIABLES | {name.upper() for name in variables}
    environment = recording.get("environment") or {}
    kept = {
        name: "1" if name.upper() in _ONLY_THAT_IT_IS_SET else text
        for name, text in environment.items()
        if name.upper() in allowed
    }
    redactor = _Redactor(identity)
    if left_out := len(environment) - len(kept):
        redactor.counts["variables left out"] = left_out
    redactor.learn(recording)
    listings = {
        redactor.of(folder): redactor.names_in(folder, names) if isinstance(names, list) else redactor.of(names)
        for folder, names in (recording.get("listings") or {}).items()
    }
    files = {
        redactor.of(path): "0\n" if _IDENTIFYING_FILE.search(path) else redactor.of(_of_use(path, text))
        for path, text in (recording.get("files") or {}).items()
    }
    rest = {
        key: redactor.of(value)
        for key, value in recording.items()
        if key not in ("environment", "listings", "files", "schema")
    }
    neutral = {
        "schema": recording.get("schema"),
        "environment": redactor.of(kept),
        "files": files,
        "listings": listings,
    }
    return {**neutral, **rest}, dict(sorted(redactor.counts.items()))


def _of_use(path: str, text: object) -> object:
    """Of a person's project only what says where its packages come from."""
    if not isinstance(text, str) or not path.replace("\\", "/").endswith("/pyproject.toml"):
        return text
    tables = re.split(r"(?m)^(?=\s*\[)", text)
    return "".join(table for table in tables if re.match(r"\s*\[\[?\s*tool\s*\.\s*(?:uv|pip|poetry\.source)\b", table))


def replaced_in_words(counts: Mapping[str, int]) -> str:
    """`2 addresses, 14 user names`, or that there was nothing."""
    return ", ".join(f"{count} {kind}" for kind, count in counts.items()) or "nothing"


# --- what is recognised


_SHORTEST_SECRET = 8
_LONGEST_NAME = 200
_SECRET_NAME = re.compile(
    r"(?i)(?:token|secret|passw(?:or)?d|passwd|passphrase|api_?key|apikey|access_?key(?:_?id)?|private_?key"
    r"|credentials?|_key|_auth|auth_?key|dsn|connection_?string)$"
)
_SEPARATOR = r"(?:\\{1,4}|/)"
_IDENTIFYING_FILE = re.compile(r"(?:serial|machine-id|product_uuid|boot_id|board_asset_tag)$")

_HOME = re.compile(
    rf"(?P<head>{_SEPARATOR}(?:home|Users|Documents and Settings){_SEPARATOR})"
    # A folder's name may hold blanks where a backslash or the end of a quoted path shows how far it goes.
    rf"(?P<user>[^\\/:*?\"<>|\r\n\t,;']{{1,64}}?(?=\\)|[^\s\\/:*?\"'<>|,;()\[\]{{}}=&$`]+)"
    rf"(?P<rest>(?:{_SEPARATOR}(?:[^\\/:*?\"<>|\r\n\t,;'()]{{1,80}}?(?=\\)|[^\s\\/:*?\"'<>|,;()\[\]{{}}&`]*))*)",
    re.IGNORECASE,
)
_ROOTS_HOME = re.compile(r"(?<![\w.])(?P<head>/root)(?P<rest>(?:/[^\s\\/:*?\"'<>|,;()\[\]{}&`]*)+)")
_QUOTED_PATH = re.compile(r"""(?P<quote>["'`])(?P<path>(?:[A-Za-z]:)?[\\/](?:(?!(?P=quote))[^\r\n:;,])*)(?P=quote)""")
_UNC = re.compile(
    r"(?<![\\\w:])(?P<head>\\\\(?:\\\\)?)(?P<host>[^\s\\/:*?\"'<>|]+)(?P<rest>(?:\\{1,2}[^\\/:*?\"'<>|\r\n\t ]+)*)"
)
_URL = re.compile(
    r"(?P<scheme>\b[a-zA-Z][a-zA-Z0-9+.-]{1,15}://)(?P<who>[^\s/:@\"'<>]{1,200}:(?!\d+/)[^\s\"'<>]{0,400}@|[^\s/\"'<>]{0,400}@)?(?P<host>\[[0-9a-fA-F:%.]+\]|[^\s/:?#\"'<>\\)\]},;]+)"
    r"(?P<port>:\d{1,5})?(?P<path>/[^\s?#\"'<>\\)\]},;]*)?(?P<query>[?#][^\s\"'<>\\)\]}]*)?"
)
_SCP = re.compile(r"(?<![\w/@])(?P<user>[\w.+-]{1,40})@(?P<host>[\w-]+(?:\.[\w-]+)*)(?P<path>:[~/\w][^\s\"'$#>]*)")
_PROMPT = re.compile(
    r"(?m)(?:^|[\s(\[])(?P<user>[^\W\d][\w.+-]{0,39})@(?P<host>[\w-]+(?:\.[\w-]+)*)(?=:[~/]|\s[~/]|[\s:][^\s\]]*\][$#%])"
)
_BUILT_BY = re.compile(r"\b(?:Linux version \S+|Release Build)\s+\((?P<user>[\w.+-]+)@(?P<host>[\w.-]+)\)")
_SSH = re.compile(r"\b(?:ssh|scp|sftp|rsync|mosh)\s(?:-\S+\s)*(?:(?P<user>[\w.+-]+)@)(?P<host>[\w.-]+)")
_EMAIL = re.compile(
    r"(?<![\w.+-])[\w.+-]{1,64}@(?!example\.com\b)(?:[\w-]+\.)+(?!so\b|dll\b|py\b|dylib\b)[^\W\d_]{2,24}\b(?![.\w(])"
)
_IPV4 = re.compile(r"(?<![\w.+-])(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){3}(?![\w+]|\.\d|-\w)")
_IPV6 = re.compile(
    r"(?<![\w:.])(?=[23][0-9a-f]{3}:|f[cd][0-9a-f]{2}:|fe[89ab][0-9a-f]:)(?:[0-9a-f]{1,4}:){1,7}(?::?[0-9a-f]{1,4}|:)"
    r"(?::[0-9a-f]{1,4})*(?![\w:])",
    re.IGNORECASE,
)
_MAC = re.compile(r"(?<![\w:-])[0-9a-f]{2}(?:([:-])[0-9a-f]{2})(?:\1[0-9a-f]{2}){4,18}(?![\w:-])", re.IGNORECASE)
_IB_GUID = re.compile(r"(?<![\w:])[0-9a-f]{4}(?::[0-9a-f]{4}){3}(?![\w:])", re.IGNORECASE)
_UUID = re.compile(r"(?i)(?<![\w-])((?:GPU|MIG|NVSwitch)-)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![\w])")
_SHORT_UUID = re.compile(r"(?<![\w-])((?:GPU|MIG)-)[0-9a-f]{3,8}(?:-[0-9a-f]{1,4}){0,3}(?![\w-])")
_SERIALS = (
    re.compile(r"(?i)(<(?:\w*serial\w*|pdi|gpu_?pdi|board_id|chassis_\w+|asset_tag)>\s*)([^<\s][^<]*)"),
    re.compile(r"(?i)(\b(?:\w+ )?serial ?(?:number|no\.?|#)?\s{0,40}[:=]\s*)([A-Z0-9][\w-]{5,39})\b"),
    re.compile(r"(?i)(\b(?:GPU )?(?:PDI|asset tag|product key)\s{0,40}[:=]\s*)([A-Z0-9][\w-]{5,39})\b"),
)
_FQDN = re.compile(
    r"(?<![\w.@/-])(?:[A-Za-z0-9](?:[\w-]{0,62})\.){1,6}(?:com|net|org|edu|gov|mil|de|cn|fr|jp|kr|eu|ch|uk"
    r"|local|localdomain|internal|intranet|corp|lan)(?![\w(-])(?!\.\w)"
)
_EC2 = re.compile(r"(?<![\w-])(?:ip-\d{1,3}(?:-\d{1,3}){3}|i-[0-9a-f]{8,17})(?![\w-])")
_ARN = re.compile(r"\barn:aws[\w-]*:[^\s\"']+")

_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]*(?:KEY|CERTIFICATE)[A-Z ]*-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)", re.DOTALL
)
_SHAPES = re.compile(
    r"(?<![\w])(?:hf_[A-Za-z0-9]{16,}|gh[opsur]_\w{16,}|github_pat_\w{16,}|glpat-[\w-]{12,}|sk-[\w-]{16,}|xox[abeprs]-[\w-]{8,}"
    r"|(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}|AIza[\w-]{20,}|ya29\.[\w-]{10,}|pypi-[\w-]{16,}|npm_\w{20,}|nvapi-[\w-]{16,}"
    r"|dckr_pat_[\w-]{16,}|r8_\w{20,}|wandb_v1_\w{16,}|eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"
    r"|ssh-(?:rsa|ed25519|dss) AAAA[\w+/=]+"
    r"|AAAAC3NzaC1[\w+/=]+|SHA256:[\w+/]{43}=?|sig=[\w%]{16,})"
)
_BEARER = re.compile(r"(?i)\b((?:bearer|basic|token)[ =:]+)(?=[\w.~+/-]{0,200}\d)([\w.~+/-]{12,}=*)")
_ASSIGNED = re.compile(
    r"(?i)(?P<name>(?:token|secret|passw(?:or)?d|passphrase|api[_-]?key|access[_-]?key(?:[_-]?id)?|private[_-]?key"
    r"|account[_-]?key|credentials?|_auth))(?P<is>[\"']?\s*(?:=|:\s)\s*|\s*:(?=[^\s:/\\]))"
    r"(?:(?P<quote>[\"'])(?P<quoted>[^\"'\r\n]{4,})|(?P<value>[^\s\"',;&<]{4,}))"
)
_OPTION = re.compile(
    r"(?i)(--?(?:token|password|passwd|api-key|secret|auth-token|access-key)[ =])(?P<value>[^\s\"'<]{4,})"
)
_NO_SECRET = re.compile(r"(?i)(?:none|null|true|false|unset|not set|yes|no|\*+|<.*>?|\$.*|[\d.]{1,7}|(?:\w+[.\[(]).*)$")
_RANDOM = re.compile(
    r"(?<![\w+/@.-])[A-Za-z0-9_-]{24,}={0,2}(?![\w+/@(-]|\.\w)|(?<![\w+/@.-])[A-Za-z0-9+/]{40}(?![\w+/@(-]|\.\w)"
)
_HEX = re.compile(r"(?<!sha256:)(?<!sha256=)(?<![\w/-])[0-9a-fA-F]{32,128}(?![\w-])")

_LEARN_USER = (
    re.compile(r"\b(?:USER|LOGNAME|USERNAME|SUDO_USER|SLURM_JOB_USER)[\"']?\s*[=:]\s*[\"']?([^\s\"',;}\\]+)"),
    re.compile(r"(?i)\buser ?name\s*[:=]\s*[\"']?([^\s\"',;}\\<]+)"),
)
_LEARN_HOST = (
    re.compile(
        r"\b(?:HOSTNAME|COMPUTERNAME|USERDOMAIN|SLURMD_NODENAME|MASTER_ADDR|SLURM_SUBMIT_HOST|SLURM_LAUNCH_NODE\w*)"
        r"[\"']?\s*[=:]\s*[\"']?([^\s\"',;}\\]+)"
    ),
    re.compile(
        r"(?mi)^[ \t]*(?:hostname|host name|host|node ?name|static hostname)[ \t]*[:=][ \t]*([\w.-]+)[ \t]*\r?$"
    ),
    re.compile(r"(?m)(?:^|[\s|\]])([A-Za-z0-9][\w.-]*):\d+:\d+ \[\d+\] NCCL "),
    re.compile(r"(?m)^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d ([\w.-]+) [\w./-]+(?:\[\d+\])?:"),
    re.compile(r"(?m)^\d{4}-\d\d-\d\dT[\d:.,+Z-]+ ([\w.-]+) [\w./-]+(?:\[\d+\])?:"),
    re.compile(r"(?m)^(?:srun|slurmstepd|salloc|sbatch): error: ([\w.-]+): "),
    re.compile(r"\*\*\* (?:JOB|STEP) \S+ ON ([\w.-]+) "),
    re.compile(r"\bLinux ([\w.-]+) \d+\.\d+\.\S+ (?:#\d|SMP)"),
    re.compile(
        r"\b(?:connect to|connection to|listening on|hostname)[ (\"'\[]+([A-Za-z][\w.-]*)[\])\"']*(?::|, ?)\d{2,5}\b"
    ),
)

# Names that say nothing of anybody, or words of the trade: replacing them would harm the text and hide nothing.
_NOBODY = _words(
    "user root admin administrator public default shared guest nobody ubuntu debian centos fedora runner "
    "jovyan vscode app build nixbld host localhost local none null unknown kernel linux windows container docker "
    "conda python torch pytorch cuda nvidia gpu cpu tensorflow nccl triton node worker master server test tests "
    "data work home users all driver the this error info warning systemd anaconda miniconda jupyter www mail file "
    "name value true false path lib library version device torchrun ipv4 ipv6 www-data daemon ec2-user wsl wsl$ "
    "wsl.localhost localhost.localdomain localhost4 localhost6 localhost.lan ip6-localhost "
)
_PUBLIC_HOSTS = _words(
    "pytorch.org pypi.org pythonhosted.org python.org nvidia.com nvcr.io github.com githubusercontent.com "
    "github.io gitlab.com anaconda.org anaconda.com conda.io huggingface.co hf-mirror.com docker.io docker.com "
    "quay.io ghcr.io kaggle.com google.com googleapis.com microsoft.com aka.ms ubuntu.com canonical.com "
    "launchpad.net debian.org redhat.com fedoraproject.org archlinux.org tensorflow.org numpy.org scipy.org "
    "stackoverflow.com readthedocs.io wikipedia.org amd.com intel.com apple.com pytorch-geometric.com pyg.org "
    "xformers.ai vllm.ai astral.sh jetson-ai-lab.dev tsinghua.edu.cn ustc.edu.cn sjtu.edu.cn aliyun.com "
    "aliyuncs.com douban.com tencent.com tencentyun.com huaweicloud.com bfsu.edu.cn nju.edu.cn prefix.dev "
    "paddlepaddle.org.cn gnu.org kernel.org mozilla.org cmake.org openai.com wandb.ai freedesktop.org "
    "opensuse.org rockylinux.org almalinux.org alpinelinux.org example.com "
)
_PATH_WORDS = _words(
    "simple whl pypi packages nightly stable legacy api v1 v2 main free r msys2 pro conda-forge pytorch nvidia "
    "cpu repository index root pip anaconda cloud channels pkgs "
)
# What may stand below a home without telling anything of its owner.
_HOME_WORDS = _words(
    ".venv venv env .env envs .virtualenvs virtualenvs .cache .local .config .conda .pyenv versions .ssh .nv "
    ".triton .docker .jupyter .ipython .pixi pixi .poetry pypoetry .uv uv .asdf .mamba appdata local roaming "
    "programs temp miniconda miniconda2 miniconda3 anaconda anaconda2 anaconda3 miniforge miniforge3 mambaforge "
    "micromamba conda bin lib lib64 lib32 libs include share src scripts dlls library site-packages dist-packages "
    "pkgs conda-meta opt usr etc var tmp build dist wheels pip cache http http-v2 hub checkpoints "
    "torch_extensions torch_inductor downloads desktop documents onedrive library frameworks microsoft "
    "windowsapps comfyui comfyui_windows_portable python_embeded stable-diffusion-webui "
    "stable-diffusion-webui-forge text-generation-webui kohya_ss invokeai vllm models custom_nodes jetbrains "
    "huggingface transformers datasets id_rsa id_ed25519 id_ecdsa known_hosts config authorized_keys "
    "requirements.txt pyproject.toml pip.conf pip.ini .condarc uv.toml environment.yml setup.py train.py main.py "
    "run.py app.py test.py webui.py launch.py inference.py demo.py model.py utils.py __init__.py user nvvm "
    "targets x86_64-linux x86_64-linux-gnu stubs extras cupti compute-sanitizer python3 python python.exe "
    "activate activate.bat activate.ps1 pytorch . "
)
_HOME_PATTERN = re.compile(
    r"(?i)python-?[\d.]*(?:\.exe)?|pip[\d.]*(?:\.exe)?|cuda[-_]?[\d.]*|cudnn[-_]?[\d.]*|cu\d{2,3}|py\d+|cp\d+|cpython-.*|\d[\d.]*"
    r"|~?orch(?:[-_.].*)?|torch(?:[-_.].*|vision.*|audio.*)?|nvidia[-_.\w]*|triton.*|numpy.*|name\d+(?:\.\w+)?"
    r"|lib[\w+.-]*\.(?:so|a|dylib)[\d.]*|[\w+.-]+\.(?:dll|pyd|whl|pth)|[\w+-]+\.cpython-.*\.so|_?c\..*so|\.\.?|"
)
_STDLIB = frozenset(f"{name}.py" for name in sys.stdlib_module_names)
# In the same line before a group of four numbers: they are a version and no address.
_VERSION_BEFORE = re.compile(
    r"(?i)(?:[=<>~!]=?|@|/v|\bv|[-_]cu\d\d|nvidia[\w-]*|cu(?:dnn|blas|fft|rand|solver|sparse|sparselt|pti|dart)[\w-]*|version\w*|release"
    r"|driver|nvcc|toolkit|build|package|wheel|dist-info|[\w-]+-cu\d\d)[\"']?[\s:(,=\"']*(?:is\s+|of\s+)?[vV]?$"
)
_ADDRESS_BEFORE = re.compile(
    r"(?i)(?:://|@|\binet6? |addr\w*[\s:=\"'(]*|\bip[\s:=\"'(]+|host\w*[\s:=\"'(]*"
    r"|eth\d+:|en\w\d\w*:|ib\d+:|bond\d+:|\bfrom |\bto |\bon |\bat )$"
)
_ADDRESS_AFTER = re.compile(r":\d{2,5}\b|<\d+>|/\d{1,2}\b|\]:\d")
_LOOPBACK = (
    "127.",
    "0.0.0.0",  # noqa: S104  read in texts, bound by nobody
    "255.",
    "169.254.169.254",
    "8.8.8.8",
    "1.1.1.1",
)


class _Redactor:
    """The names learned so far, and what each original has become. One per call; never shared."""

    def __init__(self, identity: Identity) -> None:
        self.counts: dict[str, int] = {}
        self._identity = identity
        self._became: dict[str, dict[str, str]] = {}
        self._users: dict[str, None] = {}
        self._hosts: dict[str, None] = {}
        self._versions: set[str] = set()
        self._names: re.Pattern[str] | None = None
        self._secrets: re.Pattern[str] | None = None
        self._homes: re.Pattern[str] | None = None
        self._texts: dict[str, str] = {}

    # --- first pass

    def learn(self, value: object) -> None:
        for name in self._identity.users:
            self._add(self._users, name)
        for name in self._identity.hosts:
            self._add_host(name)
        for text in _texts_of(value):
            self._learn_text(text)
        named = {name.casefold(): ("user", name) for name in self._users}
        named = {**{name.casefold(): ("host", name) for name in self._hosts}, **named}
        spelled = {form.casefold(): kind for kind in named.values() for form in _spellings(kind[1])}
        self._named = spelled
        longest = sorted(spelled, key=len, reverse=True)
        if longest:
            either = "|".join(map(re.escape, longest))
            self._names = re.compile(rf"(?<![^\W_])(?:{either})(?![^\W_])", re.IGNORECASE)
        secrets = sorted({form for one in self._identity.secrets for form in _spellings(one)}, key=len, reverse=True)
        if secrets:
            self._secrets = re.compile("|".join(map(re.escape, secrets)))
        # Homes in the usual place are known by it.
        homes = [home.rstrip("\\/") for home in self._identity.homes if not _HOME.search(home) and home != "/root"]
        forms = sorted({form for home in homes for form in _spellings(home)}, key=len, reverse=True)
        if forms:
            self._homes = re.compile(rf"(?:{'|'.join(map(re.escape, forms))})(?![^\W_])", re.IGNORECASE)

    def _learn_text(self, text: str) -> None:
        lowered = text.casefold()
        if any(word in lowered for word in ("home", "users", "documents and")):
            for found in _HOME.finditer(text):
                self._add(self._users, found["user"])
        if "@" in text:
            for pattern in (_PROMPT, _SSH, _BUILT_BY):
                for found in pattern.finditer(text):
                    self._add(self._users, found["user"] or "")
                    self._add_host(found["host"])
        for pattern in _LEARN_USER:
            for found in pattern.finditer(text):
                self._add(self._users, found[1])
        for pattern in _LEARN_HOST:
            for found in pattern.finditer(text):
                self._add_host(found[1])
        for found in _FQDN.finditer(text):
            if _is_private(found[0]):
                self._add_host(found[0])
        if "\\\\" in text:
            for found in _UNC.finditer(text):
                if "\\" in found["rest"]:
                    self._add_host(found["host"])
        for found in _IPV4.finditer(text):
            if _VERSION_BEFORE.search(text, max(0, found.start() - 60), found.start()):
                self._versions.add(found[0])

    def _add(self, names: dict[str, None], name: str) -> None:
        bare = name.strip().strip(".:")
        if len(bare) > 2 and bare.casefold() not in _NOBODY and not re.fullmatch(r"[\d.$%{}()*<>-]+", bare):
            names.setdefault(bare)

    def _add_host(self, name: str) -> None:
        name = name.strip("[]. ")
        if re.fullmatch(r"[\d.:a-fA-F]*:[\d.:a-fA-F]*|[\d.]+", name) or _is_public(name):
            return
        self._add(self._hosts, name)
        first, dot, _ = name.partition(".")
        # The short form of a full name is a word of its own only where it looks like one that was made up.
        if dot and len(first) > 3 and re.search(r"[\d-]", first):
            self._add(self._hosts, first)

    # --- second pass

    def of(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, tuple):
            parts = [self.of(part) for part in value]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        if isinstance(value, list):
            return [self.of(part) for part in value]
        if isinstance(value, Mapping):
            # The commit that torch was built from is no key of anybody's.
            return {self.of(key): part if key == "git_version" else self.of(part) for key, part in value.items()}
        return value

    def names_in(self, folder: str, names: Iterable[str]) -> list[str]:
        """The names of a folder's entries, as they read when a path leads to them."""
        start = folder.rstrip("/\\") + "/"
        return sorted({re.split(r"[\\/]", self.text(start + str(name)))[-1] for name in names})

    def text(self, text: str) -> str:
        if text not in self._texts:
            self._texts[text] = self._neutral(text) if text else text
        return self._texts[text]

    def _neutral(self, text: str) -> str:
        if self._secrets:
            text = self._secrets.sub(lambda _: self._count("secrets", SECRET), text)
        text = _PRIVATE_KEY.sub(lambda _: self._count("secrets", SECRET), text)
        text = _URL.sub(self._url, text)
        text = _SHAPES.sub(lambda _: self._count("secrets", SECRET), text)
        text = _BEARER.sub(lambda found: found[1] + self._count("secrets", SECRET), text)
        text = _ASSIGNED.sub(self._assigned, text)
        text = _OPTION.sub(lambda found: found[1] + self._count("secrets", SECRET), text)
        text = _ARN.sub(lambda _: self._count("secrets", SECRET), text)
        if self._homes:
            text = self._homes.sub(lambda found: self._home_of(found[0]), text)
        text = self._paths(text)
        if "\\\\" in text:
            text = _UNC.sub(self._unc, text)
        if "@" in text:
            text = _SCP.sub(self._scp, text)
            text = _EMAIL.sub(lambda found: self._neutral_one("e-mail addresses", found[0], "user{}@example.com"), text)
            text = _PROMPT.sub(self._prompt, text)
        text = _UUID.sub(self._uuid, text)
        text = _SHORT_UUID.sub(self._short_uuid, text)
        for pattern in _SERIALS:
            text = pattern.sub(self._serial, text)
        text = _MAC.sub(self._mac, text)
        text = _IB_GUID.sub(lambda found: self._neutral_one("addresses", found[0], "0000:0000:0000:{:04x}"), text)
        text = _IPV6.sub(lambda found: self._neutral_one("addresses", found[0], "fd00::{:x}"), text)
        text = _IPV4.sub(self._ipv4, text)
        text = _EC2.sub(lambda found: self._host(found[0]), text)
        text = _FQDN.sub(lambda found: self._host(found[0]) if _is_private(found[0]) else found[0], text)
        if self._names:
            text = self._names.sub(self._known_name, text)
        text = _HEX.sub(lambda found: found[0] if len(set(found[0])) < 4 else self._count("secrets", SECRET), text)
        return _RANDOM.sub(lambda found: self._count("secrets", SECRET) if _looks_random(found[0]) else found[0], text)

    def _count(self, kind: str, text: str) -> str:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        return text

    def _neutral_one(self, kind: str, original: str, pattern: str) -> str:
        """The neutral text that stands for an original, numbered in the order of their first appearance."""
        known = self._became.setdefault(f"{kind} {pattern}", {})
        key = original.casefold()
        if key in known.values():  # an earlier step wrote it
            return original
        if key not in known:
            known[key] = pattern.format(len(known) + 1)
        return self._count(kind, known[key])

    def _user(self, name: str) -> str:
        return name if name.casefold() in _NOBODY else self._numbered("user names", "user", name)

    def _host(self, name: str) -> str:
        if re.fullmatch(r"[0-9a-f]{12}", name):  # the id of a container: that it is one may decide
            return name if name.startswith("c0ffee") else self._neutral_one("container ids", name, "c0ffee{:06d}")
        return self._numbered("host names", "host", name.partition(".")[0] if _is_short_of(name, self._hosts) else name)

    def _numbered(self, kind: str, word: str, name: str) -> str:
        """`user`, `user2`, … by the order of their first appearance; other spellings of one name are the same."""
        known = self._became.setdefault(kind, {})
        key = unicodedata.normalize("NFC", name).casefold()
        if re.fullmatch(rf"{word}\d*", key):  # it is neutral already
            return name
        if key not in known:
            known[key] = f"{word}{len(known) + 1}" if known else word
        return self._count(kind, known[key])

    def _known_name(self, found: "re.Match[str]") -> str:
        kind, name = self._named.get(found[0].casefold(), ("user", found[0]))
        return self._user(name) if kind == "user" else self._host(name)

    def _home_of(self, home: str) -> str:
        self._count("home folders", "")
        drive = re.match(r"[A-Za-z]:", home)
        return f"{drive[0]}\\Users\\user" if drive else "/home/user"

    def _paths(self, text: str) -> str:
        if "/" not in text and "\\" not in text:
            return text
        if _WHOLE_PATH.fullmatch(text):
            return self._path(text)
        text = _QUOTED_PATH.sub(lambda found: f"{found['quote']}{self._path(found['path'])}{found['quote']}", text)
        text = _HOME.sub(self._home, text)
        return _ROOTS_HOME.sub(lambda found: found["head"] + self._below(found["rest"]), text)

    def _path(self, path: str) -> str:
        """A text that is nothing but a path, so blanks belong to it."""
        pieces = re.split(rf"({_SEPARATOR})", path)
        for place in range(0, len(pieces) - 2, 2):
            if pieces[place].casefold() in _HOME_FOLDERS and pieces[place + 2]:
                if pieces[place + 2].casefold() in _EVERYBODY:
                    return path
                head, user, rest = pieces[: place + 2], pieces[place + 2], pieces[place + 3 :]
                return "".join(head) + self._user(user) + self._below("".join(rest))
        return _ROOTS_HOME.sub(lambda found: found["head"] + self._below(found["rest"]), path)

    def _home(self, found: "re.Match[str]") -> str:
        if found["user"].casefold() in _EVERYBODY:
            return found[0]
        return found["head"] + self._user(found["user"]) + self._below(found["rest"])

    def _below(self, rest: str) -> str:
        pieces = re.split(rf"({_SEPARATOR})", rest)
        known = False
        for place in range(0, len(pieces), 2):
            piece = pieces[place]
            # What lies in an installed package is the same everywhere.
            known = known or pieces[place - 2 : place - 1] in (["site-packages"], ["dist-packages"], ["pkgs"])
            if not known:
                pieces[place] = self._component(piece)
        return "".join(pieces)

    def _component(self, name: str) -> str:
        lowered = name.casefold()
        short = len(name) <= _LONGEST_NAME
        if lowered in _HOME_WORDS or lowered in _STDLIB or (short and _HOME_PATTERN.fullmatch(name)):
            return name
        ending = re.search(r"\.[A-Za-z0-9]{1,5}$", name)
        return self._neutral_one("names of folders and files", name, "name{}" + (ending[0] if ending else ""))

    def _unc(self, found: "re.Match[str]") -> str:
        rest, host = found["rest"], found["host"]
        if not rest or host.casefold() in ("?", ".", "wsl$", "wsl.localhost"):
            return found[0]
        pieces = re.split(r"(\\+)", rest)
        for place in range(2, len(pieces), 2):
            if pieces[place].casefold() not in ("home", "users", "user"):
                pieces[place] = self._component(pieces[place])
        return found["head"] + self._host(host) + "".join(pieces)

    def _url(self, found: "re.Match[str]") -> str:
        host, path, query = found["host"], found["path"] or "", found["query"] or ""
        who = self._count("credentials in addresses", f"{SECRET}@") if found["who"] else ""
        if found["scheme"].casefold() == "file://":
            return found[0]
        bare = host.strip("[]").casefold()
        if bare in _NOBODY or bare.startswith((*_LOOPBACK, "<")) or bare == "::1" or _is_public(bare):
            neutral = host
        elif re.fullmatch(r"[\d.]+", bare):
            neutral = self._neutral_one("addresses", bare, "10.0.0.{}")
        elif ":" in bare:
            neutral = f"[{self._neutral_one('addresses', bare, 'fd00::{:x}')}]"
        else:
            neutral = self._host(host)
        if neutral != host:
            path = "/".join(
                piece
                if piece.casefold() in _PATH_WORDS or _HOME_PATTERN.fullmatch(piece) or _HOME_WORDS & {piece.casefold()}
                else self._component(piece)
                for piece in path.split("/")
            )
        if len(query) > _SHORTEST_SECRET and "=" in query:
            query = query[0] + self._count("secrets", SECRET)
        return found["scheme"] + who + neutral + (found["port"] or "") + path + query

    def _scp(self, found: "re.Match[str]") -> str:
        if found["host"].casefold().startswith(("glib", "cxxabi")) or "::" in found["path"]:
            return found[0]
        user, host = self._user(found["user"]), found["host"]
        neutral = host if _is_public(host) else self._host(host)
        head, path = found["path"][0], found["path"][1:]
        return f"{user}@{neutral}{head}" + "/".join(
            piece if piece in ("~", "", "home") else self._component(piece) for piece in path.split("/")
        )

    def _prompt(self, found: "re.Match[str]") -> str:
        whole, user, host = found[0], found["user"], found["host"]
        return whole[: found.start("user") - found.start()] + f"{self._user(user)}@{self._host(host)}"

    def _assigned(self, found: "re.Match[str]") -> str:
        value, quote = found["quoted"] or found["value"], found["quote"] or ""
        if _NO_SECRET.match(value) or len(value) < 6 or SECRET in value:
            return found[0]
        # "token: expected a name": plain words after a colon are prose.
        if ":" in found["is"] and not quote and value.isalpha() and value.islower():
            return found[0]
        return f"{found['name']}{found['is']}{quote}" + self._count("secrets", SECRET)

    def _uuid(self, found: "re.Match[str]") -> str:
        bare = found[0][len(found[1] or "") :]
        neutral = "00000000-0000-0000-0000-{:012d}"
        return (found[1] or "") + self._neutral_one("serial numbers and UUIDs", bare, neutral)

    def _short_uuid(self, found: "re.Match[str]") -> str:
        if not re.search(r"\d", found[0]) and len(found[0]) < 12:
            return found[0]
        return found[1] + self._count("serial numbers and UUIDs", "00000000")

    def _serial(self, found: "re.Match[str]") -> str:
        if re.match(r"(?i)n/?a\b|none\b|unknown\b|\[", found[2]) or not re.search(r"\d", found[2]):
            return found[0]
        return found[1] + self._neutral_one("serial numbers and UUIDs", found[2], "{:010d}")

    def _mac(self, found: "re.Match[str]") -> str:
        if set(found[0]) <= set("0:-") or set(found[0].casefold()) <= set("f:-"):
            return found[0]
        return self._neutral_one("addresses", found[0], "02:00:00:00:00:{:02x}")

    def _ipv4(self, found: "re.Match[str]") -> str:
        address, text = found[0], found.string
        if address.startswith(_LOOPBACK):
            return address
        after = _ADDRESS_AFTER.match(text, found.end())
        before = _ADDRESS_BEFORE.search(text, max(0, found.start() - 30), found.start())
        version = address in self._versions or (len(text) == len(address) and not address.startswith(_PRIVATE))
        if version and not after and not before:
            return address
        return self._neutral_one("addresses", address, "10.0.0.{}")


_PRIVATE = ("192.168.", *(f"172.{number}." for number in range(16, 32)))
_WHOLE_PATH = re.compile(r"(?:[A-Za-z]:)?[\\/][^:;\"'<>|\r\n\t,=]{1,1000}")
_HOME_FOLDERS = ("home", "users", "documents and settings")
_EVERYBODY = ("public", "default", "shared", "all users", "default user")


def _is_short_of(name: str, hosts: Iterable[str]) -> bool:
    """The first label of this full name is known as a host by itself."""
    first, dot, _ = name.partition(".")
    return bool(dot) and first in hosts


def _is_public(host: str) -> bool:
    bare = host.casefold().rstrip(".").partition(":")[0]
    return any(bare == public or bare.endswith(f".{public}") for public in _PUBLIC_HOSTS)


def _is_private(name: str) -> bool:
    """A full name of a host that is not everybody's; `threading.local` is none."""
    first = name.partition(".")[0].casefold()
    return not _is_public(name) and first not in _NOBODY and first not in sys.stdlib_module_names


def _looks_random(text: str) -> bool:
    """A key rather than a name: cases and digits change at every third character at least."""
    if text.startswith(("_Z", "?", "__")) or len(text) < 16:
        return False
    bare = [letter for letter in text if letter.isalnum()]
    kinds = ["d" if letter.isdigit() else "u" if letter.isupper() else "l" for letter in bare]
    if kinds.count("d") < 3 or not {"u", "l"} <= set(kinds):
        return False
    return sum(one != other for one, other in pairwise(kinds)) >= len(kinds) / 3


def _spellings(name: str) -> Iterator[str]:
    """The forms in which a name may stand: composed or not, escaped for JSON, in an address, twice escaped."""
    import json
    from urllib.parse import quote

    for form in {name, unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name)}:
        yield form
        yield json.dumps(form)[1:-1]
        yield quote(form)
        try:
            yield form.encode("utf-8").decode("latin-1")
        except UnicodeError:
            continue


def _texts_of(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            if isinstance(part, str) and key in ("HOSTNAME", "COMPUTERNAME", "USER", "LOGNAME", "USERNAME"):
                yield f"{key}={part}"
            yield from _texts_of(key)
            yield from _texts_of(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _texts_of(part)

"""What our script `ask_libcuda` prints: whether the driver's CUDA library loads and starts."""

from collections.abc import Iterator

from ..model import Claim, Source, absent, present
from ..text import clean
from .json_lines import read_json_lines


def read_libcuda(text: str, source: Source) -> Iterator[Claim]:
    for answer in read_json_lines(text):
        code, value = answer.get("code"), answer.get("value")
        match answer.get("ask"):
            case "load" if error := clean(str(answer.get("error") or "")):
                yield present("libcuda.error", error, source)
                yield absent("libcuda.path", source, error)
            case "load":
                yield absent("libcuda.error", source, "it was loaded")
                if path := clean(str(answer.get("path") or "")):
                    yield present("libcuda.path", path, source)
            case "version" if code == 0 and isinstance(value, int):
                yield present("libcuda.cuda_version", f"{value // 1000}.{value % 1000 // 10}", source)
            case "init" if isinstance(code, int):
                yield present("cuda.init_code", code, source)
                yield present("cuda.init_error", str(answer.get("name") or f"error {code}"), source)
            case "count" if code == 0 and isinstance(value, int):
                yield present("cuda.device_count", value, source)

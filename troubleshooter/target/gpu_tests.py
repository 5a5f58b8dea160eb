"""Tests that prove what a torch can do, in the target Python: arguments are a mode, names of tests, and what to leave out.

    gpu_tests.py MODE TEST,TEST… [TEST@DEVICE,…]

MODE is quick or full. What stands in the third argument was done by an earlier process and is not repeated. A test
ends as passed, failed or skipped, with what was measured and what was expected. A device that answered with an error
of CUDA answers every later call with it, so the process ends then and a fresh one does the rest.

Imports modules that are built into the interpreter and nothing else, as `channel.py` explains.
"""

import os
import sys
import time

MIB = 1 << 20

# The largest relative error of a product against float64, four times what a healthy H200 showed at 2048 x 2048 with
# inputs rounded from float32 (8e-7, 2.9e-4, 3.6e-4, 2.9e-3): room for other cards and orders of summation.
BOUNDS = {"float32": 3.2e-6, "tf32": 1.2e-3, "float16": 1.5e-3, "bfloat16": 1.2e-2, "float64": 1e-14}


class Skipped(Exception):
    """The test cannot be done here; the text says why."""


class Failed(Exception):
    """The test was done and its result is wrong."""

    def __init__(self, reason, measured, expected):
        Exception.__init__(self, reason)
        self.measured = measured
        self.expected = expected


def need(torch, *paths):
    for path in paths:
        found = torch
        for name in path.split("."):
            try:
                found = getattr(found, name)
            except AttributeError:
                raise Skipped("this torch has no %s" % path)


# --- the tests: (torch, device index or None, mode) -> (measured, expected); raise Skipped or Failed


def torch_init(torch, index, mode):
    need(torch, "cuda.is_available", "cuda.device_count")
    available, count = torch.cuda.is_available(), int(torch.cuda.device_count())
    measured = {"available": available is True, "device_count": count}
    expected = {"available": True, "device_count_at_least": 1}
    if available is not True or count < 1:
        raise Failed(
            "torch sees no GPU: is_available() is %s, device_count() is %d" % (available, count), measured, expected
        )
    if hasattr(torch.cuda, "init"):
        torch.cuda.init()
    if hasattr(torch.cuda, "get_device_name"):
        measured["name"] = str(torch.cuda.get_device_name(index))
    return measured, expected


def torch_matmul(torch, index, mode):
    need(torch, "randn", "manual_seed", "float32", "float64", "matmul", "cuda.synchronize")
    device = "cuda:%d" % index
    measured, expected = {}, {}
    wrong = []
    for name in number_types(torch, index):
        for rows, inner, columns in ((129, 257, 65), (1024, 1024, 1024)):
            compare(wrong, measured, expected, name, product_error(torch, device, name, rows, inner, columns))
    large = 4096 if mode == "quick" else 8192
    for name in number_types(torch, index):
        if free_memory(torch, index) > 32 * large * large:
            error = projected_error(torch, device, name, large)
            compare(wrong, measured, expected, name + "_large", error, name, inner=large)
    torch.cuda.synchronize(index)
    if wrong:
        raise Failed("wrong products: " + "; ".join(wrong), measured, expected)
    return measured, expected


def memory_patterns(torch, index, mode):
    need(torch, "empty", "full", "int64", "bitwise_xor", "arange", "cuda.synchronize", "cuda.empty_cache")
    free = free_memory(torch, index)
    size = min(free // 2, 1024 * MIB) if mode == "quick" else free // 2
    if size < 64 * MIB:
        raise Skipped("%d MiB of the GPU's memory are free; the test needs 128" % (free // MIB))
    torch.cuda.synchronize(index)
    began = time.time()
    measured = pattern_errors(torch, "cuda:%d" % index, size)
    measured["seconds"] = round(time.time() - began, 3)
    # Each pass writes all of it once and reads it at least once.
    moved = 2 * measured["passes"] * measured["tested_mib"] * MIB
    measured["gb_per_s"] = round(moved / max(time.time() - began, 1e-6) / 1e9, 1)
    expected = {"wrong_rows": 0}
    if measured["wrong_rows"] != 0:
        raise Failed(
            "memory gave back something else than was written, in %d rows of %d KiB (patterns: %s)"
            % (measured["wrong_rows"], measured["row_kib"], ", ".join(measured["wrong_patterns"])),
            measured,
            expected,
        )
    return measured, expected


def cpu_tensor(torch, index, mode):
    need(torch, "randn", "manual_seed", "float32", "float64", "tensor", "matmul")
    measured, expected, wrong = {}, {}, []
    left = [[(row * 7 + column * 3) % 11 - 5 for column in range(13)] for row in range(17)]
    right = [[(row * 5 + column * 2) % 13 - 6 for column in range(19)] for row in range(13)]
    exact = [[sum(a * b for a, b in zip(row, column)) for column in zip(*right)] for row in left]
    got = torch.matmul(torch.tensor(left, dtype=torch.float64), torch.tensor(right, dtype=torch.float64)).tolist()
    measured["integers_exact"] = got == exact
    expected["integers_exact"] = True
    if got != exact:
        wrong.append("a product of small whole numbers is not exact")
    compare(wrong, measured, expected, "float32", product_error(torch, "cpu", "float32", 257, 512, 129))
    if wrong:
        raise Failed("wrong products: " + "; ".join(wrong), measured, expected)
    return measured, expected


TESTS = {
    "torch.init": torch_init,
    "torch.matmul": torch_matmul,
    "memory.patterns": memory_patterns,
    "cpu.tensor": cpu_tensor,
}
ON_THE_CPU = ("cpu.tensor",)


# --- products


def number_types(torch, index):
    names = ["float32"]
    if hasattr(torch, "float16"):
        names.append("float16")
    ask = getattr(torch.cuda, "is_bf16_supported", None)
    major = torch.cuda.get_device_capability(index)[0] if hasattr(torch.cuda, "get_device_capability") else 0
    # Cards below 8.0 emulate bfloat16 at best; AMD's numbering is another, so their build is asked.
    if hasattr(torch, "bfloat16") and ask and (major >= 8 or getattr(torch.version, "hip", None)) and ask():
        names.append("bfloat16")
    return names


def bound_of(name):
    if name == "float32" and "1" in (
        os.environ.get("NVIDIA_TF32_OVERRIDE"),
        os.environ.get("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"),
    ):
        return BOUNDS["tf32"]
    return BOUNDS[name]


def compare(wrong, measured, expected, label, error, name=None, inner=2048):
    # Rounding errors of a sum grow with the root of its length.
    bound = bound_of(name or label) * max(1.0, (inner / 2048.0) ** 0.5)
    key = "error_" + label
    measured[key] = max(error, measured.get(key, 0.0)) if error == error else error
    expected[key + "_at_most"] = bound
    # Written so that NaN is wrong.
    if not error <= bound:
        wrong.append("%s is off by %.3g, %.3g is allowed" % (label, error, bound))


class Exact:
    """Within it, float32 products are not rounded to TF32."""

    def __init__(self, torch):
        self.settings = getattr(getattr(getattr(torch, "backends", None), "cuda", None), "matmul", None)

    def __enter__(self):
        try:
            self.before = getattr(self.settings, "allow_tf32", None)
            if self.before is not None:
                self.settings.allow_tf32 = False
        except RuntimeError:  # a sitecustomize has used the newer form of this setting, which forbids the older one
            self.before = None
            self.settings.fp32_precision = "ieee"

    def __exit__(self, *ignored):
        if self.before is not None:
            self.settings.allow_tf32 = self.before


def product_error(torch, device, name, rows, inner, columns):
    """The larger of two relative errors against the CPU in float64: of the whole (norms) and of the worst element."""
    kind = getattr(torch, name)
    torch.manual_seed(rows)
    left, right = torch.randn(rows, inner), torch.randn(inner, columns)
    with Exact(torch):
        got = torch.matmul(left.to(device).to(kind), right.to(device).to(kind)).cpu().to(torch.float64)
    left, right = left.to(kind).to(torch.float64), right.to(kind).to(torch.float64)
    wanted = torch.matmul(left, right)
    off = (got - wanted).abs()
    whole = float(off.pow(2).sum().sqrt()) / float(wanted.pow(2).sum().sqrt())
    worst = float(off.max()) / float(wanted.abs().max())
    return whole if whole != whole or whole > worst else worst


def projected_error(torch, device, name, size):
    """Relative error of a large product, seen through its action on one random vector (Freivalds), in float64."""
    kind = getattr(torch, name)
    torch.manual_seed(size)
    left = torch.randn(size, size, device=device).to(kind)
    right = torch.randn(size, size, device=device).to(kind)
    with Exact(torch):
        product = torch.matmul(left, right)
    vector = torch.randn(size, 1, device=device).to(torch.float64)
    got = by_blocks(torch, product, vector)
    wanted = by_blocks(torch, left, by_blocks(torch, right, vector))
    return float((got - wanted).norm() / wanted.norm())


def by_blocks(torch, matrix, vector, rows=1024):
    """matrix times vector in float64, without a float64 copy of the whole matrix."""
    return torch.cat([torch.matmul(part.to(torch.float64), vector) for part in matrix.split(rows)])


# --- memory


def free_memory(torch, index):
    """Bytes that the driver has free on the device."""
    ask = getattr(torch.cuda, "mem_get_info", None)
    if ask:
        return int(ask(index)[0])
    # torch 1.10 has the bare call of the runtime only.
    need(torch, "cuda.cudart")
    return int(torch.cuda.cudart().cudaMemGetInfo(index)[0])


def pattern_errors(torch, device, size, row_bytes=16 * MIB, chunk_bytes=256 * MIB, disturb=None):
    """Write patterns to `size` bytes of a device and count rows that come back different.

    All chunks are written before any is read, so that the data really leaves the caches. The counting happens on the
    device, and the host waits once, at the end. A constant row is judged by its least and greatest value: any
    flipped bit moves one of them. `disturb(pattern, chunks)` is called between writing and reading.
    """
    words = row_bytes // 8
    integer = torch.int64
    least_rows = max(1, chunk_bytes // row_bytes)
    chunks = []
    rows_left = max(1, size // row_bytes)
    while rows_left:
        rows = min(rows_left, least_rows)
        chunks.append(torch.empty((rows, words), dtype=integer, device=device))
        rows_left -= rows
    total = sum(int(chunk.shape[0]) for chunk in chunks)
    # Distinct for each row and word: address-in-address.
    addresses = torch.arange(words, dtype=integer, device=device)
    bases = split_like(torch, chunks, torch.arange(total, dtype=integer, device=device) * words)
    torch.manual_seed(20)
    noise = torch.randint(-(1 << 62), 1 << 62, (words,), dtype=integer, device=device)
    keys = split_like(torch, chunks, torch.randint(-(1 << 62), 1 << 62, (total,), dtype=integer, device=device))
    inverse = [torch.bitwise_not(key) for key in keys]
    counts = []

    def turn(pattern, write, restore, wanted):
        for number, chunk in enumerate(chunks):
            write(number, chunk)
        if disturb:
            disturb(pattern, chunks)
        wrong = torch.zeros((), dtype=integer, device=device)
        for number, chunk in enumerate(chunks):
            if restore:
                restore(chunk)
            wrong += rows_that_differ(torch, chunk, wanted(number, chunk))
        counts.append((pattern, wrong))

    for pattern, value in (("0x00", 0), ("0xff", -1), ("0x55", 0x5555555555555555), ("0xaa", -0x5555555555555556)):
        turn(
            pattern,
            lambda number, chunk, value=value: chunk.fill_(value),
            None,
            lambda number, chunk, value=value: torch.full((chunk.shape[0],), value, dtype=integer, device=device),
        )
    turn(
        "address",
        lambda number, chunk: torch.add(addresses, bases[number].unsqueeze(1), out=chunk),
        lambda chunk: chunk.sub_(addresses),
        lambda number, chunk: bases[number],
    )
    for pattern, key in (("random", keys), ("random-complement", inverse)):
        turn(
            pattern,
            lambda number, chunk, key=key: torch.bitwise_xor(noise, key[number].unsqueeze(1), out=chunk),
            lambda chunk: chunk.bitwise_xor_(noise),
            lambda number, chunk, key=key: key[number],
        )

    found = [(pattern, int(wrong)) for pattern, wrong in counts]
    return {
        "tested_mib": total * row_bytes // MIB,
        "row_kib": row_bytes // 1024,
        "passes": len(found),
        "wrong_rows": sum(wrong for _, wrong in found),
        "wrong_patterns": [pattern for pattern, wrong in found if wrong],
    }


def split_like(torch, chunks, values):
    return list(values.split([int(chunk.shape[0]) for chunk in chunks]))


def rows_that_differ(torch, chunk, wanted):
    if hasattr(torch, "aminmax"):
        least, greatest = torch.aminmax(chunk, dim=1)
    else:
        least, greatest = chunk.amin(1), chunk.amax(1)
    return ((least != wanted) | (greatest != wanted)).sum()


# --- running them


def no_memory(error):
    return type(error).__name__ == "OutOfMemoryError" or "out of memory" in str(error).lower()


def others_hold_it(torch, index):
    """Why there was no memory, if it was not this process that took it."""
    try:
        free, total = torch.cuda.mem_get_info(index)
    except Exception as error:
        return "the GPU has no memory for even a first context: %s" % error if no_memory(error) else ""
    if free < total // 4 or free < 1024 * MIB:
        return "%d of %d MiB of the GPU's memory are free; other processes hold the rest" % (free // MIB, total // MIB)
    return ""


def attempt(torch, test, index, mode):
    """One test to an end: (outcome, measured, expected, reason, exception or None)."""
    try:
        measured, expected = TESTS[test](torch, index, mode)
    except Skipped as reason:
        return "skipped", {}, {}, str(reason), None
    except Failed as failure:
        return "failed", failure.measured, failure.expected, str(failure), None
    except BaseException as error:
        if index is not None and no_memory(error):
            free_all(torch)
            held = others_hold_it(torch, index)
            if held:
                return "skipped", {}, {}, held, None
        return "failed", {}, {}, "", error
    return "passed", measured, expected, "", None


def free_all(torch):
    try:
        torch.cuda.empty_cache()
    except BaseException:
        pass


def main(channel, arguments):
    if not arguments or arguments[0].startswith("-"):
        channel.say("usage", text=__doc__)
        return
    asked = arguments[1].split(",") if len(arguments) > 1 else list(TESTS)
    done = set(arguments[2].split(",")) if len(arguments) > 2 else set()
    imported, _ = channel.step("import-torch", lambda: __import__("torch") and None)
    if imported:
        run_tests(channel, sys.modules["torch"], arguments[0], asked, done)


def run_tests(channel, torch, mode, asked, done=()):
    """Each test on each GPU, until one leaves its GPU in a state in which it answers no more."""
    for test in asked:
        for index in [None] if test in ON_THE_CPU else devices(torch):
            if "%s@%s" % (test, "cpu" if index is None else index) in done:
                continue
            channel.say("before", step="test", test=test, device=index)
            began = time.time()
            outcome, measured, expected, reason, error = attempt(torch, test, index, mode)
            told = {} if error is None else {"error": channel.describe(error)}
            free_all(torch)
            channel.say(
                "after",
                step="test",
                test=test,
                device=index,
                outcome=outcome,
                measured=measured,
                expected=expected,
                reason=reason,
                took=round(time.time() - began, 3),
                **told,
            )
            if error is not None and index is not None:
                return


def devices(torch):
    """Indices of the GPUs; the first one where torch counts none, so that the tests can fail on it."""
    try:
        return list(range(max(1, min(64, int(torch.cuda.device_count())))))
    except Exception:
        return [0]


if __name__ == "__main__":
    # By hand: python gpu_tests.py quick torch.matmul
    folder = os.path.dirname(os.path.abspath(__file__))
    names = {"__name__": "channel"}
    with open(os.path.join(folder, "channel.py"), "rb") as source:
        exec(compile(source.read(), os.path.join(folder, "channel.py"), "exec"), names)
    sys.path[0] = os.getcwd()
    names["run"]("", os.path.abspath(__file__), sys.argv[1:])

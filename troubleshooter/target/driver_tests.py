"""Tests of the driver and the card without torch, through the driver's own library: any Python will do.

    driver_tests.py --quick|--full [--yes] [--alone] [--device N]… [--only TEST…]
    driver_tests.py --use

--yes: the whole card may be tested although something else uses it. --alone: nothing of ours uses CUDA beside this, so
that a GPU which admits one process may be taken. --use only says what uses each GPU. Tests: driver.init (the driver starts and counts the GPUs),
driver.context (a context, copies, arithmetic), driver.memory (patterns). The kernels are PTX that the driver compiles for
whatever card there is, from Maxwell on.
"""

import os
import sys
import time

MIB = 1 << 20
GIB = 1 << 30
ALL = (1 << 64) - 1

# The layout of the kernels: each thread handles this many 16-byte vectors, so chunks are multiples of 16 KiB.
THREADS = 256
VECTORS = 4
BLOCK_BYTES = THREADS * VECTORS * 16
LARGEST_CHUNK = 4 * GIB
SMALLEST_CHUNK = 2 * MIB

# What a kernel finds: two counters, the sum of wrong bits, then records of address, what was read, what was expected.
RECORDS = 16
RECORD_BYTES = 24
HEAD_BYTES = 32
REPORT_BYTES = HEAD_BYTES + RECORDS * RECORD_BYTES

SEED = 0x5EED
# name, kernel, and the two numbers that it gets: word = first ^ (address & second), or noise of a seed, inverted or not.
PATTERNS = (
    ("zeros", "plain", 0, 0),
    ("ones", "plain", ALL, 0),
    ("0x55", "plain", 0x5555555555555555, 0),
    ("0xaa", "plain", 0xAAAAAAAAAAAAAAAA, 0),
    ("address", "plain", 0, ALL),
    ("address-inverted", "plain", ALL, ALL),
    ("random", "noise", SEED, 0),
)
INVERTED = ("random-inverted", "noise", SEED, ALL)
# Each pattern is written and read once; the last is also inverted in place (read and written) and read once more.
TRAVERSALS = 2 * len(PATTERNS) + 3

QUICK_SECONDS = 2.5
LONGEST_WAIT = 20.0

OUT_OF_MEMORY, NO_DEVICE, NOT_READY = 2, 100, 600
# Codes of a driver whose compiler of PTX is missing or refuses: nothing is wrong with the card then.
NO_COMPILER = (209, 218, 220, 221, 222, 223)
DEFAULT_MODE = 0
# CUdevice_attribute
WATCHDOG, INTEGRATED, COMPUTE_MODE, TCC, MAJOR, MINOR = 17, 18, 20, 35, 75, 76


class Skipped(Exception):
    """The test cannot be done here; the text says why."""


class Failed(Exception):
    """The test was done and its result is wrong."""

    def __init__(self, reason, measured=None, expected=None):
        Exception.__init__(self, reason)
        self.measured = measured or {}
        self.expected = expected or {}


class CudaError(Exception):
    """A function of the driver answered with an error."""

    def __init__(self, function, code, name):
        Exception.__init__(self, "%s: %s (%d)" % (function, name, code))
        self.code = code


# --- kernels

HEAD = ".version 4.3\n.target sm_50\n.address_size 64\n"

# Threads of a block lie side by side, so that each load and store of a warp is one run of 512 bytes.
ENTRY = """
.visible .entry %(name)s(.param .u64 a_start, .param .u64 a_first, .param .u64 a_second, .param .u64 a_report)
{
.reg .pred p;
.reg .b32 lane, block, vector, h, k1, k2, k3, seed;
.reg .b64 start, first, second, report, offset, here, bad, old, slot, there;
.reg .b64 %(registers)s;
ld.param.u64 start, [a_start];
ld.param.u64 first, [a_first];
ld.param.u64 second, [a_second];
ld.param.u64 report, [a_report];
cvta.to.global.u64 start, start;
cvta.to.global.u64 report, report;
cvt.u32.u64 seed, first;
mov.u32 lane, %%tid.x;
mov.u32 block, %%ctaid.x;
mad.lo.u32 vector, block, %(per_block)d, lane;
mul.wide.u32 offset, vector, 16;
add.u64 here, start, offset;
"""

# A hash of the vector's number and the seed, multiplied into three more words: cheap enough to stay behind the memory.
NOISE = """add.u32 h, vector, %(step)d;
xor.b32 h, h, seed;
shr.u32 k1, h, 16;
xor.b32 h, h, k1;
mul.lo.u32 h, h, 0x7feb352d;
shr.u32 k1, h, 15;
xor.b32 h, h, k1;
mul.lo.u32 h, h, 0x846ca68b;
shr.u32 k1, h, 16;
xor.b32 h, h, k1;
mad.lo.u32 k1, h, 0x9e3779b1, seed;
mad.lo.u32 k2, h, 0x85ebca77, seed;
mad.lo.u32 k3, h, 0xc2b2ae3d, seed;
mov.b64 w%(k)d0, {h, k1};
mov.b64 w%(k)d1, {k2, k3};
xor.b64 w%(k)d0, w%(k)d0, second;
xor.b64 w%(k)d1, w%(k)d1, second;
"""
PLAIN = """add.u64 w%(k)d0, here, %(bytes)d;
add.u64 w%(k)d1, here, %(next)d;
and.b64 w%(k)d0, w%(k)d0, second;
and.b64 w%(k)d1, w%(k)d1, second;
xor.b64 w%(k)d0, w%(k)d0, first;
xor.b64 w%(k)d1, w%(k)d1, first;
"""
REPORT = """setp.eq.u64 p, x%(word)s, 0;
@p bra FINE_%(word)s;
atom.global.add.u64 old, [report], 1;
red.global.or.b64 [report+8], x%(word)s;
setp.ge.u64 p, old, %(records)d;
@p bra FINE_%(word)s;
mul.lo.u64 slot, old, %(record)d;
add.u64 slot, slot, report;
add.u64 there, here, %(bytes)d;
xor.b64 x%(word)s, x%(word)s, w%(word)s;
st.global.u64 [slot+%(head)d], there;
st.global.u64 [slot+%(head8)d], x%(word)s;
st.global.u64 [slot+%(head16)d], w%(word)s;
FINE_%(word)s:
"""

# Whole numbers in two forms, small enough to be exact in float32, so that every card has to give the same bits.
ARITHMETIC = """
.visible .entry arithmetic(.param .u64 a_out)
{
.reg .pred p;
.reg .b32 lane, block, x, n, t, index;
.reg .f32 y, z, whole, seed;
.reg .b64 out, offset;
ld.param.u64 out, [a_out];
cvta.to.global.u64 out, out;
mov.u32 lane, %tid.x;
mov.u32 block, %ctaid.x;
mad.lo.u32 index, block, 256, lane;
cvt.rn.f32.u32 seed, lane;
add.u32 x, lane, 1;
mov.f32 y, seed;
mov.u32 n, 0;
AGAIN:
mad.lo.u32 x, x, 1664525, 1013904223;
shr.u32 t, x, 13;
xor.b32 x, x, t;
fma.rn.f32 y, y, 0f40A00000, seed;
mul.rn.f32 z, y, 0f39800000;
cvt.rmi.f32.f32 whole, z;
fma.rn.f32 y, whole, 0fC5800000, y;
add.u32 n, n, 1;
setp.lt.u32 p, n, 64;
@p bra AGAIN;
cvt.rzi.u32.f32 t, y;
mul.wide.u32 offset, index, 8;
add.u64 out, out, offset;
st.global.v2.u32 [out], {x, t};
ret;
}
"""


def kernel(action, pattern, vectors=VECTORS):
    """The PTX of one kernel: action is write, check or turn (check, then write the inverse)."""
    count = range(vectors)
    words = ["%d%d" % (k, j) for k in count for j in (0, 1)]
    names = ["w" + word for word in words] + ["x" + word for word in words]
    lines = [
        ENTRY
        % {
            "name": "%s_%s" % (action, pattern),
            "registers": ", ".join(names),
            "per_block": THREADS * vectors,
        }
    ]
    step = THREADS * 16
    if action != "write":
        for k in count:
            lines.append("ld.global.cs.v2.u64 {x%d0, x%d1}, [here+%d];\n" % (k, k, k * step))
    for k in count:
        text = PLAIN if pattern == "plain" else NOISE
        lines.append(text % {"k": k, "step": k * THREADS, "bytes": k * step, "next": k * step + 8})
        if action == "write":
            lines.append("st.global.cs.v2.u64 [here+%d], {w%d0, w%d1};\n" % (k * step, k, k))
    if action != "write":
        lines.append("mov.u64 bad, 0;\n")
        for word in words:
            lines.append("xor.b64 x%s, x%s, w%s;\nor.b64 bad, bad, x%s;\n" % (word, word, word, word))
        lines.append("setp.eq.u64 p, bad, 0;\n@p bra ALL_FINE;\n")
        for word in words:
            k, j = int(word[:-1]), int(word[-1])
            values = {"word": word, "bytes": k * step + 8 * j, "records": RECORDS, "record": RECORD_BYTES}
            values.update({"head": HEAD_BYTES, "head8": HEAD_BYTES + 8, "head16": HEAD_BYTES + 16})
            lines.append(REPORT % values)
        lines.append("ALL_FINE:\n")
    if action == "turn":
        for k in count:
            lines.append("not.b64 w%d0, w%d0;\nnot.b64 w%d1, w%d1;\n" % (k, k, k, k))
            lines.append("st.global.cs.v2.u64 [here+%d], {w%d0, w%d1};\n" % (k * step, k, k))
    lines.append("ret;\n}\n")
    return "".join(lines)


def ptx(vectors=VECTORS):
    kernels = [kernel(action, pattern, vectors) for action in ("write", "check") for pattern in ("plain", "noise")]
    return HEAD + "".join(kernels) + kernel("turn", "noise", vectors) + ARITHMETIC


def arithmetic_of(lane):
    """What the kernel `arithmetic` has to give for a lane: two whole numbers."""
    x, y = lane + 1, lane
    for _ in range(64):
        x = (x * 1664525 + 1013904223) & 0xFFFFFFFF
        x ^= x >> 13
        y = (5 * y + lane) % 4096
    return x, y


# --- the driver


class Driver:
    """The driver's library. Every call raises CudaError for every answer but success."""

    def __init__(self, ctypes, library):
        self.ctypes = ctypes
        self.library = library

    def __call__(self, function, *arguments):
        code = self.ask(function, *arguments)
        if code:
            raise CudaError(function, code, self.name_of(code))

    def ask(self, function, *arguments):
        try:
            return getattr(self.library, function)(*arguments)
        except AttributeError:
            raise Skipped("this driver's library has no %s" % function)

    def name_of(self, code):
        name = self.ctypes.c_char_p()
        try:
            self.library.cuGetErrorName(code, self.ctypes.byref(name))
        except AttributeError:
            pass
        return (name.value or b"an error without a name").decode("ascii", "replace")

    def number(self, function, *arguments):
        value = self.ctypes.c_int()
        self(function, self.ctypes.byref(value), *arguments)
        return value.value

    def attribute(self, device, which):
        """0 for what this driver does not know."""
        value = self.ctypes.c_int()
        code = self.ask("cuDeviceGetAttribute", self.ctypes.byref(value), which, device)
        return 0 if code else value.value


class Gpu:
    """A context on one GPU, until `close`. Lengths and addresses are in bytes."""

    def __init__(self, driver, device):
        self.driver = driver
        self.ctypes = driver.ctypes
        self.context = self.ctypes.c_void_p()
        self.functions = {}
        driver("cuCtxCreate_v2", self.ctypes.byref(self.context), 0, device)

    def close(self):
        self.driver.ask("cuCtxDestroy_v2", self.context)

    def load(self, text):
        module = self.ctypes.c_void_p()
        self.driver("cuModuleLoadData", self.ctypes.byref(module), text.encode("ascii"))
        self.module = module

    def function(self, name):
        if name not in self.functions:
            found = self.ctypes.c_void_p()
            self.driver("cuModuleGetFunction", self.ctypes.byref(found), self.module, name.encode("ascii"))
            self.functions[name] = found
        return self.functions[name]

    def free_and_total(self):
        free, total = self.ctypes.c_size_t(), self.ctypes.c_size_t()
        self.driver("cuMemGetInfo_v2", self.ctypes.byref(free), self.ctypes.byref(total))
        return free.value, total.value

    def allocate(self, size):
        address = self.ctypes.c_uint64()
        self.driver("cuMemAlloc_v2", self.ctypes.byref(address), self.ctypes.c_size_t(size))
        return address.value

    def release(self, address):
        self.driver.ask("cuMemFree_v2", self.ctypes.c_uint64(address))

    def clear(self, address, size):
        self.driver("cuMemsetD8_v2", self.ctypes.c_uint64(address), 0, self.ctypes.c_size_t(size))

    def upload(self, address, data):
        self.driver("cuMemcpyHtoD_v2", self.ctypes.c_uint64(address), data, self.ctypes.c_size_t(len(data)))

    def download(self, address, size):
        data = self.ctypes.create_string_buffer(size)
        self.driver("cuMemcpyDtoH_v2", data, self.ctypes.c_uint64(address), self.ctypes.c_size_t(size))
        return data.raw

    def launch(self, name, blocks, *numbers):
        """Numbers are 64-bit. Returns at once; `wait` for the end."""
        ctypes = self.ctypes
        values = [ctypes.c_uint64(number) for number in numbers]
        places = (ctypes.c_void_p * len(values))(*[ctypes.addressof(value) for value in values])
        self.driver("cuLaunchKernel", self.function(name), blocks, 1, 1, THREADS, 1, 1, 0, None, places, None)

    def mark(self):
        """An event behind all that was launched."""
        event = self.ctypes.c_void_p()
        self.driver("cuEventCreate", self.ctypes.byref(event), 0)
        self.driver("cuEventRecord", event, None)
        return event

    def wait(self, event):
        # Asked again and again: a call that waits in the driver would hold an interrupt back, and hang where it hangs.
        began = time.time()
        while True:
            code = self.driver.ask("cuEventQuery", event)
            if code == 0:
                return
            if code != NOT_READY:
                raise CudaError("cuEventQuery", code, self.driver.name_of(code))
            if time.time() - began > LONGEST_WAIT:
                raise Failed("the GPU did not finish its work in %d seconds" % LONGEST_WAIT)
            time.sleep(0.0005)

    def seconds(self, first, last):
        value = self.ctypes.c_float()
        self.driver("cuEventElapsedTime", self.ctypes.byref(value), first, last)
        return value.value / 1000


# --- the tests


def initialise(driver):
    """(measured, expected): the driver starts and has a GPU."""
    version = driver.number("cuDriverGetVersion")
    measured = {"driver_cuda": "%d.%d" % (version // 1000, version % 1000 // 10)}
    expected = {"error": "CUDA_SUCCESS", "device_count_at_least": 1}
    code = driver.ask("cuInit", 0)
    if code == NO_DEVICE:
        raise Skipped("the driver finds no GPU: cuInit answers %s (%d)" % (driver.name_of(code), code))
    if code:
        name = driver.name_of(code)
        measured["error"] = name
        raise Failed("CUDA does not start: cuInit answers %s (%d)" % (name, code), measured, expected)
    measured["device_count"] = driver.number("cuDeviceGetCount")
    if measured["device_count"] < 1:
        raise Failed("cuInit succeeds, and the driver counts no GPU", measured, expected)
    return measured, expected


def wrong_copies(gpu, size=MIB):
    """Bytes go up, from place to place on the card, and down again; returns which way they came back different."""
    data = os.urandom(size)
    wrong = []
    address = gpu.allocate(2 * size)
    try:
        gpu.upload(address, data)
        if gpu.download(address, size) != data:
            wrong.append("up and down")
        there = gpu.ctypes.c_uint64(address + size)
        gpu.driver("cuMemcpyDtoD_v2", there, gpu.ctypes.c_uint64(address), gpu.ctypes.c_size_t(size))
        if gpu.download(address + size, size) != data:
            wrong.append("within the card")
    finally:
        gpu.release(address)
    return wrong


def wrong_results(gpu, blocks=2048, between=None):
    """How many of the results of `blocks` x 256 threads are wrong. `between(address)` is called before they are read."""
    wanted = b"".join(value.to_bytes(4, "little") for lane in range(THREADS) for value in arithmetic_of(lane))
    address = gpu.allocate(len(wanted) * blocks)
    try:
        gpu.clear(address, len(wanted) * blocks)
        gpu.launch("arithmetic", blocks, address)
        gpu.wait(gpu.mark())
        if between:
            between(address)
        got = gpu.download(address, len(wanted) * blocks)
    finally:
        gpu.release(address)
    if got == wanted * blocks:
        return 0
    return sum(got[at : at + 8] != wanted[at % len(wanted) : at % len(wanted) + 8] for at in range(0, len(got), 8))


def chunks_of(gpu, most):
    """Allocate up to `most` bytes: [(address, size), …], large pieces first. Out of memory is no error."""
    chunks = []
    size = LARGEST_CHUNK
    try:
        while size >= SMALLEST_CHUNK:
            if size > most:
                size //= 2
                continue
            try:
                chunks.append((gpu.allocate(size), size))
                most -= size
            except CudaError as error:
                if error.code != OUT_OF_MEMORY:
                    raise
                size //= 2
    except BaseException:
        for address, _ in chunks:
            gpu.release(address)
        raise
    return chunks


class Walk:
    """Sends kernels over all chunks, never more than one traversal ahead of the card: an interrupt then ends it soon."""

    def __init__(self, gpu, chunks):
        self.gpu = gpu
        self.chunks = chunks
        self.ahead = []

    def over(self, name, first, second, report=0):
        for address, size in self.chunks:
            self.gpu.launch(name, size // BLOCK_BYTES, address, first, second, report)
        self.ahead.append(self.gpu.mark())
        if len(self.ahead) > 2:
            event = self.ahead.pop(0)
            self.gpu.wait(event)
            self.gpu.driver.ask("cuEventDestroy_v2", event)


def write_speed(gpu, chunks):
    """Bytes a second of writing alone, the better of two; the first touch of memory is not counted."""
    size = sum(size for _, size in chunks)
    walk = Walk(gpu, chunks)
    walk.over("write_plain", 0, 0)
    marks = [gpu.mark()]
    for _ in range(2):
        walk.over("write_plain", 0, 0)
        marks.append(gpu.mark())
    gpu.wait(marks[-1])
    return size / max(1e-6, min(gpu.seconds(first, last) for first, last in zip(marks, marks[1:])))


def run_patterns(gpu, chunks, between=None):
    """Write each pattern over all chunks, then read it back: (seconds, [(pattern, what was found), …]).

    Nothing waits for a result: the card counts, and the counts are fetched at the end. `between(pattern, chunks)` is
    called between writing and reading.
    """
    walk = Walk(gpu, chunks)
    names = [name for name, _, _, _ in PATTERNS] + [INVERTED[0]]
    reports = gpu.allocate(REPORT_BYTES * len(names))
    try:
        gpu.clear(reports, REPORT_BYTES * len(names))
        first_mark = gpu.mark()
        for number, (name, kind, first, second) in enumerate(PATTERNS):
            walk.over("write_" + kind, first, second)
            if between:
                between(name, chunks)
            # The last is inverted in place while it is read.
            action = "check_" if number + 1 < len(PATTERNS) else "turn_"
            walk.over(action + kind, first, second, reports + number * REPORT_BYTES)
        name, kind, first, second = INVERTED
        if between:
            between(name, chunks)
        walk.over("check_" + kind, first, second, reports + len(PATTERNS) * REPORT_BYTES)
        last_mark = gpu.mark()
        gpu.wait(last_mark)
        found = gpu.download(reports, REPORT_BYTES * len(names))
    finally:
        gpu.release(reports)
    pieces = [found[at : at + REPORT_BYTES] for at in range(0, len(found), REPORT_BYTES)]
    return gpu.seconds(first_mark, last_mark), list(zip(names, map(read_report, pieces)))


def number_at(data, at):
    return int.from_bytes(data[at : at + 8], "little")


def read_report(data):
    """What one traversal found: wrong words, the bits that were ever wrong, and the first (address, read, wanted)."""
    count = number_at(data, 0)
    starts = [HEAD_BYTES + RECORD_BYTES * number for number in range(min(count, RECORDS))]
    records = sorted(tuple(number_at(data, start + 8 * part) for part in range(3)) for start in starts)
    return {"wrong_words": count, "bits": number_at(data, 8), "records": records}


def place_of(address, chunks):
    """Where an address lies: the number of bytes from the start of the memory that was tested."""
    before = 0
    for start, size in chunks:
        if start <= address < start + size:
            return before + address - start
        before += size
    return -1


def summary_of(found, chunks):
    """The figures of a run of patterns, as they are reported."""
    wrong = [(name, one) for name, one in found if one["wrong_words"]]
    summary = {"wrong_words": sum(one["wrong_words"] for _, one in wrong)}
    if wrong:
        bits = 0
        for _, one in wrong:
            bits |= one["bits"]
        summary["wrong_patterns"] = [name for name, _ in wrong]
        summary["wrong_bits"] = "0x%016x" % bits
        summary["first_wrong"] = [
            "%s: address 0x%x (byte %d of the tested memory) gave 0x%016x, not 0x%016x"
            % (name, address, place_of(address, chunks), got, wanted)
            for name, one in wrong
            for address, got, wanted in one["records"]
        ][:RECORDS]
    return summary


def examine_memory(gpu, most, seconds=None, between=None):
    """(measured, expected) of a run of patterns over `most` bytes; a shorter part if `seconds` would not be enough."""
    _, total = gpu.free_and_total()
    chunks = chunks_of(gpu, most)
    try:
        if not chunks:
            raise Skipped("not even %d MiB of the GPU's memory could be had" % (SMALLEST_CHUNK // MIB))
        speed = write_speed(gpu, chunks)
        part = chunks
        while seconds and len(part) > 1 and TRAVERSALS * sum(size for _, size in part) > seconds * speed:
            part = part[1:]
        took, found = run_patterns(gpu, part, between)
        size = sum(one for _, one in part)
        measured = {
            "tested_mib": size // MIB,
            "share_of_total": round(size / float(total), 4),
            "patterns": len(found),
            "seconds": round(took, 4),
            "gb_per_s": round(TRAVERSALS * size / max(took, 1e-6) / 1e9, 1),
            "write_gb_per_s": round(speed / 1e9, 1),
        }
        measured.update(summary_of(found, part))
    finally:
        for address, _ in chunks:
            gpu.release(address)
    expected = {"wrong_words": 0}
    if measured["wrong_words"]:
        raise Failed(
            "memory gave back something else than was written, in %d words of 8 bytes (patterns: %s; first: %s)"
            % (measured["wrong_words"], ", ".join(measured["wrong_patterns"]), measured["first_wrong"][0]),
            measured,
            expected,
        )
    return measured, expected


# --- running them


class Options:
    def __init__(self, arguments):
        self.mode = "full" if "--full" in arguments else "quick"
        self.agreed = "--yes" in arguments or os.environ.get("TROUBLESHOOTER_WHOLE_CARD") == "yes"
        self.alone = "--alone" in arguments
        self.devices = self.only = None
        words = list(arguments)
        if "--only" in words:
            self.only = [word for word in words[words.index("--only") + 1 :] if not word.startswith("-")]
        if "--device" in words:
            places = [at for at, word in enumerate(words) if word == "--device"]
            self.devices = [int(words[at + 1]) for at in places if words[at + 1 : at + 2]]

    def wants(self, test):
        return self.only is None or test in self.only


def main(channel, arguments):
    options = Options(arguments)
    ctypes = channel.from_stdlib("ctypes")
    use = channel.script("gpu_use.py")
    state = {}

    def start():
        try:
            state["driver"] = Driver(ctypes, use["cuda_library"](ctypes))
        except OSError as error:
            raise Skipped("the driver's CUDA library cannot be loaded: %s" % error)
        return initialise(state["driver"])

    # Always: the others stand on it.
    started = report(channel, "driver.init", None, start)
    if started is None:
        return
    count = min(64, started["device_count"])
    indices = [index for index in range(count) if options.devices is None or index in options.devices]
    if "--use" in arguments:
        for index in indices:
            channel.say("use", device=index, users=users_of(state["driver"], use, index))
        return
    for index in indices:
        examine_device(channel, state["driver"], use, options, index, len(indices))


def users_of(driver, use, index):
    who = use["users"](driver.ctypes, use["bus_id"](driver.ctypes, driver.library, index))
    # The watchdog of a display ends kernels that take too long.
    watched = driver.attribute(driver.number("cuDeviceGet", index), WATCHDOG)
    return who if who is None or not watched or "a display" in who else who + ["a display"]


def examine_device(channel, driver, use, options, index, count):
    device = driver.number("cuDeviceGet", index)
    if driver.attribute(device, COMPUTE_MODE) != DEFAULT_MODE and not options.alone:
        for test in ("driver.context", "driver.memory"):
            if options.wants(test):
                reason = "the GPU admits one process or none, and torch may be that process"
                tell(channel, test, index, "skipped", {}, {}, reason, 0.0)
        return
    # Asked before we have a context ourselves.
    who = users_of(driver, use, index)
    borrowing = use["borrowed"](driver.attribute(device, INTEGRATED), driver.attribute(device, TCC))
    held = {}

    def context():
        began = time.time()
        try:
            gpu = held["gpu"] = Gpu(driver, device)
        except CudaError as error:
            if error.code == OUT_OF_MEMORY:
                raise Skipped("the GPU has no memory for even a first context: other processes hold it")
            raise
        measured = {
            "capability": "%d.%d" % (driver.attribute(device, MAJOR), driver.attribute(device, MINOR)),
            "context_seconds": round(time.time() - began, 3),
        }
        expected = {"wrong_copies": [], "wrong_results": 0}
        measured["wrong_copies"] = wrong_copies(gpu)
        began = time.time()
        try:
            gpu.load(ptx())
            measured["compile_seconds"] = round(time.time() - began, 3)
            measured["wrong_results"] = wrong_results(gpu)
        except CudaError as error:
            if error.code not in NO_COMPILER:
                raise
            held["why_no_kernels"] = "the driver cannot compile kernels here: %s" % error
            measured["not_tested"] = "arithmetic: " + held["why_no_kernels"]
        if measured["wrong_copies"]:
            ways = " and ".join(measured["wrong_copies"])
            raise Failed("bytes came back different from a copy (%s)" % ways, measured, expected)
        if measured.get("wrong_results"):
            raise Failed("the GPU computed %d wrong results" % measured["wrong_results"], measured, expected)
        return measured, expected

    def memory():
        if "why_no_kernels" in held:
            raise Skipped(held["why_no_kernels"])
        refused = use["refusal"](options.mode, who, options.agreed)
        if refused:
            raise Skipped(refused)
        free, total = held["gpu"].free_and_total()
        most = use["most_bytes"](options.mode, free, total, who, borrowing)
        return examine_memory(held["gpu"], most, QUICK_SECONDS / count if options.mode == "quick" else None)

    try:
        # Memory stands on the context, which is therefore tested even if only memory is asked for.
        well = report(channel, "driver.context", index, context)
        if options.wants("driver.memory"):
            if well is None:
                tell(channel, "driver.memory", index, "skipped", {}, {}, "driver.context did not pass", 0.0)
            else:
                report(channel, "driver.memory", index, memory)
    finally:
        if "gpu" in held:
            held["gpu"].close()


def report(channel, test, index, work):
    """Do one test between a line before and a line after; returns what it measured, or None if it did not pass."""
    channel.say("before", step="test", test=test, device=index, subject=subject_of(index))
    began = time.time()
    outcome, measured, expected, reason = "passed", {}, {}, ""
    try:
        measured, expected = work()
    except Skipped as why:
        outcome, reason = "skipped", str(why)
    except Failed as failure:
        outcome, measured, expected, reason = "failed", failure.measured, failure.expected, str(failure)
    except Exception as error:
        outcome, reason = "failed", "%s" % error if isinstance(error, CudaError) else channel.describe(error)["line"]
        measured = {"error": reason}
    tell(channel, test, index, outcome, measured, expected, reason, time.time() - began)
    return measured if outcome == "passed" else None


def tell(channel, test, index, outcome, measured, expected, reason, took):
    channel.say(
        "after",
        step="test",
        test=test,
        device=index,
        subject=subject_of(index),
        outcome=outcome,
        measured=measured,
        expected=expected,
        reason=reason,
        took=round(took, 3),
    )


def subject_of(index):
    return "host" if index is None else "gpu:%d" % index


if __name__ == "__main__":
    # By hand: python driver_tests.py --quick
    folder = os.path.dirname(os.path.abspath(__file__))
    names = {"__name__": "channel"}
    with open(os.path.join(folder, "channel.py"), "rb") as source:
        exec(compile(source.read(), os.path.join(folder, "channel.py"), "exec"), names)
    sys.path[0] = os.getcwd()
    names["run"]("", os.path.abspath(__file__), sys.argv[1:])

"""Tests of the memory of a GPU through torch: patterns, copies to and from the machine, and torch's own allocator.

The patterns are what `driver_tests.py` does, for cards on which only torch has kernels to do it with.
"""

import os
import sys
import time

kit = sys.modules["troubleshooter_kit"]
MIB = kit.MIB

ROW_BYTES = 16 * MIB
CHUNK_BYTES = 1024 * MIB
# Room for the tensors that the writing and judging of patterns needs beside what it tests.
SCRATCH_BYTES = 192 * MIB
LEAST_BYTES = 64 * MIB
MOST_PLACES = 16

CONSTANTS = (("zeros", 0), ("ones", -1), ("0x55", 0x5555555555555555), ("0xaa", -0x5555555555555556))
# Times that each byte is written or read. A constant: written, read. Addresses: written, made constant in place, read.
# Noise: written, inverted in place, made constant in place, read.
TRAVERSALS = 2 * len(CONSTANTS) + 4 + 6


def memory_patterns(torch, index, mode):
    kit.need(torch, "empty", "full", "int64", "bitwise_xor", "arange", "cuda.synchronize", "cuda.empty_cache")
    size, total = room(torch, index, mode)
    torch.cuda.synchronize(index)
    measured = pattern_figures(torch, index, size)
    if total:
        measured["share_of_total"] = round(measured["tested_mib"] * MIB / float(total), 4)
    expected = {"wrong_rows": 0}
    if measured["wrong_rows"]:
        raise kit.Failed(
            "memory gave back something else than was written, in %d rows of %d KiB (patterns: %s; first: %s)"
            % (
                measured["wrong_rows"],
                ROW_BYTES // 1024,
                ", ".join(measured["wrong_patterns"]),
                measured["first_wrong"][0],
            ),
            measured,
            expected,
        )
    return measured, expected


def memory_copy(torch, index, mode):
    kit.need(torch, "empty", "randint", "int64", "equal", "manual_seed", "cuda.synchronize")
    size, _ = room(torch, index, mode, least=32 * MIB)
    size = min(size // 3, (64 if mode == "quick" else 512) * MIB)
    measured = copy_figures(torch, index, size)
    expected = {"wrong_ways": []}
    if measured["wrong_ways"]:
        raise kit.Failed(
            "bytes came back different from a copy: " + ", ".join(measured["wrong_ways"]), measured, expected
        )
    return measured, expected


def memory_allocator(torch, index, mode):
    kit.need(torch, "full", "int64", "cuda.memory_allocated", "cuda.memory_reserved", "cuda.empty_cache")
    size, _ = room(torch, index, mode)
    pieces = min(size // 2, 512 * MIB)
    measured = {"pieces_mib": pieces // MIB}
    expected = {"spoilt_pieces": 0, "kept_mib": 0}
    measured["spoilt_pieces"], measured["kept_mib"], measured["most_reserved_mib"] = fragment(torch, index, pieces)
    growing = growing_segments(torch)
    if growing:
        with growing:
            spoilt, kept, reserved = fragment(torch, index, pieces)
        measured["spoilt_pieces"] += spoilt
        measured["kept_mib"] += kept
        measured["most_reserved_mib_expandable"] = reserved
    else:
        measured["not_tested"] = "expandable_segments: this torch, its allocator or this system has none"
    wrong = []
    if measured["spoilt_pieces"]:
        wrong.append("%d pieces changed while their neighbours were freed and given anew" % measured["spoilt_pieces"])
    if measured["kept_mib"]:
        wrong.append("%d MiB are still allocated after all was freed" % measured["kept_mib"])
    if wrong:
        raise kit.Failed("; ".join(wrong), measured, expected)
    return measured, expected


TESTS = {"memory.patterns": memory_patterns, "memory.copy": memory_copy, "memory.allocator": memory_allocator}


# --- how much


def room(torch, index, mode, least=LEAST_BYTES):
    """(bytes that a test may take, bytes of the card or 0), where nobody is harmed; raises Skipped if that is too little."""
    import ctypes

    use = gpu_use()
    free, total = kit.free_memory(torch, index), 0
    if hasattr(torch.cuda, "mem_get_info"):
        total = int(torch.cuda.mem_get_info(index)[1])
    try:
        who = use["users"](ctypes, use["bus_id"](ctypes, use["cuda_library"](ctypes), index), ours=1)
    except (OSError, AttributeError):  # AMD has no such library
        who = None
    # Set by who asked the user, or by the user.
    agreed = os.environ.get("TROUBLESHOOTER_WHOLE_CARD") == "yes"
    refused = use["refusal"](mode, who, agreed)
    if refused:
        raise kit.Skipped(refused)
    properties = kit.need(torch, "cuda.get_device_properties")(index)
    borrowing = use["borrowed"](getattr(properties, "is_integrated", False), False)
    size = use["most_bytes"](mode, free - SCRATCH_BYTES, total or free, who, borrowing)
    if size < least:
        raise kit.Skipped("%d MiB of the GPU's memory are free, which is not enough to test" % (free // MIB))
    return size, total


def gpu_use():
    names = {}
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpu_use.py")
    with open(path, "rb") as file:
        exec(compile(file.read(), path, "exec"), names)
    return names


# --- patterns


def wait(torch, index):
    # Asked again and again: a call that waits in the driver would hold an interrupt back.
    if index is not None:
        event = torch.cuda.Event()
        event.record()
        while not event.query():
            time.sleep(0.0005)


class Stretch:
    """Measures the seconds of a stretch of work on the device, without waiting for it; on the CPU by the clock."""

    def __init__(self, torch, index):
        self.torch = torch
        self.index = index
        self.begin = self.mark()

    def mark(self):
        if self.index is None:
            return time.time()
        event = self.torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def stop(self):
        self.end = self.mark()

    def seconds(self):
        if self.index is None:
            return max(self.end - self.begin, 1e-9)
        return max(self.begin.elapsed_time(self.end) / 1000, 1e-9)


def pattern_figures(torch, index, size, row_bytes=ROW_BYTES, chunk_bytes=CHUNK_BYTES, between=None):
    """Write patterns to `size` bytes of a device and judge what comes back; the figures that were measured.

    Rows of chunks are judged. All chunks are written before any is read, so that the data really leaves the caches; the
    judging happens on the device, and the host waits once, at the end. A row that has to be constant is judged by its
    least and greatest value: any flipped bit moves one of them. `between(pattern, chunks)` is called between writing
    and reading.
    """
    device = kit.device_of(index)
    with on_device(torch, index):
        memory = Memory(torch, device, size, row_bytes, chunk_bytes, between or (lambda pattern, chunks: None))
        writing = []
        for _ in range(2):
            writing.append(Stretch(torch, index))
            for chunk in memory.chunks:
                chunk.fill_(0)
            writing[-1].stop()
        whole = Stretch(torch, index)
        judged = list(memory.patterns())
        whole.stop()
        wait(torch, index)
        tested = memory.rows * row_bytes
        measured = {
            "tested_mib": tested // MIB,
            "patterns": len(judged),
            "seconds": round(whole.seconds(), 4),
            "gb_per_s": round(TRAVERSALS * tested / whole.seconds() / 1e9, 1),
            "write_gb_per_s": round(tested / min(one.seconds() for one in writing) / 1e9, 1),
        }
        wrong = [(name, row, bits) for name, rows in judged for row, bits in wrong_rows(torch, rows)]
        measured["wrong_rows"] = len(wrong)
        if wrong:
            measured["wrong_patterns"] = in_order(name for name, _, _ in wrong)
            measured["first_wrong"] = memory.places(wrong)
    return measured


def in_order(names):
    """Each name once."""
    found = []
    for name in names:
        if name not in found:
            found.append(name)
    return found


class on_device:
    """Makes a device current, where there is one."""

    def __init__(self, torch, index):
        self.guard = None if index is None else torch.cuda.device(index)

    def __enter__(self):
        if self.guard:
            self.guard.__enter__()

    def __exit__(self, *error):
        if self.guard:
            self.guard.__exit__(*error)


def wrong_rows(torch, rows):
    """(number of the row, bits that differ) of each row whose least or greatest value is not the wanted one."""
    least, greatest, wanted = rows
    bits = (least ^ wanted) | (greatest ^ wanted)
    numbers = bits.nonzero().flatten().tolist()
    return [(number, int(bits[number])) for number in numbers]


class Memory:
    """The memory under test: chunks of rows of 64-bit words, and what is written to them."""

    def __init__(self, torch, device, size, row_bytes, chunk_bytes, between):
        self.torch = torch
        self.between = between
        self.row_bytes = row_bytes
        self.chunks = []
        words = row_bytes // 8
        left, most = max(1, size // row_bytes), max(1, chunk_bytes // row_bytes)
        while left:
            try:
                rows = min(left, most)
                self.chunks.append(torch.empty((rows, words), dtype=torch.int64, device=device))
                left -= rows
            except RuntimeError as error:
                # What is free lies in pieces: take smaller ones until not even a row is to be had.
                if "out of memory" not in str(error).lower() or (most == 1 and not self.chunks):
                    raise
                if most == 1:
                    break
                most = max(1, most // 2)
        self.rows = sum(int(chunk.shape[0]) for chunk in self.chunks)
        # Distinct for each row and word: address-in-address.
        self.addresses = torch.arange(words, dtype=torch.int64, device=device)
        self.bases = torch.arange(self.rows, dtype=torch.int64, device=device) * words
        torch.manual_seed(20)
        ends = -(1 << 62), 1 << 62
        self.noise = torch.randint(ends[0], ends[1], (words,), dtype=torch.int64, device=device)
        self.keys = torch.randint(ends[0], ends[1], (self.rows,), dtype=torch.int64, device=device)
        self.inverse = torch.bitwise_not(self.keys)

    def split(self, values):
        return values.split([int(chunk.shape[0]) for chunk in self.chunks])

    def patterns(self):
        """(name, (least, greatest, wanted value of each row)) of every pattern, each judged before the next is written."""
        for name, value in CONSTANTS:
            self.write_constant(name, value)
            yield name, self.judge(self.torch.full_like(self.bases, value))
        self.write_addresses()
        yield "address", self.judge(self.bases)
        self.write_noise()
        yield "random-inverted", self.judge(self.inverse)

    def write_constant(self, name, value):
        for chunk in self.chunks:
            chunk.fill_(value)
        self.between(name, self.chunks)

    def write_addresses(self):
        for chunk, base in zip(self.chunks, self.split(self.bases)):
            # A row has a power of two of words, so this is their sum, and the same again leaves single wrong bits.
            self.torch.bitwise_xor(self.addresses, base.unsqueeze(1), out=chunk)
        self.between("address", self.chunks)
        for chunk in self.chunks:
            chunk.bitwise_xor_(self.addresses)

    def write_noise(self):
        for chunk, key in zip(self.chunks, self.split(self.keys)):
            self.torch.bitwise_xor(self.noise, key.unsqueeze(1), out=chunk)
        self.between("random", self.chunks)
        for chunk in self.chunks:
            chunk.bitwise_not_()
        self.between("random-inverted", self.chunks)
        for chunk in self.chunks:
            chunk.bitwise_xor_(self.noise)

    def judge(self, wanted):
        least, greatest = self.torch.empty_like(wanted), self.torch.empty_like(wanted)
        for chunk, low, high in zip(self.chunks, self.split(least), self.split(greatest)):
            if hasattr(self.torch, "aminmax"):
                self.torch.aminmax(chunk, dim=1, out=(low, high))
            else:
                low.copy_(chunk.amin(1))
                high.copy_(chunk.amax(1))
        return least, greatest, wanted

    def places(self, wrong):
        """Where it was wrong, in words. The pattern is written once more to find the single words in the wrong rows."""
        said = []
        rewrite = dict(
            (name, lambda name=name, value=value: self.write_constant(name, value)) for name, value in CONSTANTS
        )
        rewrite.update({"address": self.write_addresses, "random-inverted": self.write_noise})
        values = dict((name, self.torch.full_like(self.bases, value)) for name, value in CONSTANTS)
        values.update({"address": self.bases, "random-inverted": self.inverse})
        for name in in_order(name for name, _, _ in wrong):
            rewrite[name]()
            for row, bits in [(row, bits) for other, row, bits in wrong if other == name]:
                if len(said) >= MOST_PLACES:
                    return said
                chunk, inner = self.at(row)
                wanted = values[name][row]
                words = (self.chunks[chunk][inner] != wanted).nonzero().flatten().tolist()[:4]
                start = row * self.row_bytes
                if words:
                    address = self.chunks[chunk][inner].data_ptr()
                    said += [
                        "%s: address 0x%x (byte %d of the tested memory), bits 0x%016x"
                        % (
                            name,
                            address + 8 * word,
                            start + 8 * word,
                            int(self.chunks[chunk][inner][word] ^ wanted) & 2**64 - 1,
                        )
                        for word in words
                    ]
                else:
                    said.append(
                        "%s: bytes %d to %d of the tested memory, bits 0x%016x; not again when it was repeated"
                        % (name, start, start + self.row_bytes - 1, bits & 2**64 - 1)
                    )
        return said[:MOST_PLACES]

    def at(self, row):
        """(number of the chunk, row within it) of a row of the whole."""
        for number, chunk in enumerate(self.chunks):
            if row < chunk.shape[0]:
                return number, row
            row -= int(chunk.shape[0])
        raise IndexError(row)


# --- copies


def copy_figures(torch, index, size, between=None):
    """Copies of `size` bytes, pageable and pinned, both ways and on the card. `between(data)` is called on the card."""
    device = kit.device_of(index)
    measured, wrong = {"copied_mib": size // MIB}, []
    torch.manual_seed(21)
    data = torch.randint(-(1 << 62), 1 << 62, (size // 8,), dtype=torch.int64)
    total = int(data.sum())
    with on_device(torch, index):
        there, again = torch.empty_like(data, device=device), torch.empty_like(data, device=device)
        for kind in ("pageable", "pinned"):
            if kind == "pinned" and index is None:
                continue
            host = data.pin_memory() if kind == "pinned" else data
            back = torch.empty_like(data)
            back = back.pin_memory() if kind == "pinned" else back
            up, down = [], []
            for _ in range(2):  # the first is slower, as it sets the way up
                up.append(timed_copy(torch, index, there, host))
                if between:
                    between(there)
                back.zero_()
                down.append(timed_copy(torch, index, back, there))
            measured[kind + "_up_gb_per_s"] = round(size / min(up) / 1e9, 2)
            measured[kind + "_down_gb_per_s"] = round(size / min(down) / 1e9, 2)
            # Sums wrap, and are the same in any order.
            if int(there.sum()) != total:
                wrong.append(kind + " up")
            if not torch.equal(back, data):
                wrong.append(kind + " up and down")
        measured["card_gb_per_s"] = round(2 * size / timed_copy(torch, index, again, there) / 1e9, 1)
        if not torch.equal(again, there):
            wrong.append("within the card")
    measured["wrong_ways"] = wrong
    return measured


def timed_copy(torch, index, to, source):
    stretch = Stretch(torch, index)
    to.copy_(source, non_blocking=True)
    stretch.stop()
    wait(torch, index)
    return stretch.seconds()


# --- the allocator


def fragment(torch, index, size, count=32, between=None):
    """Fill `size` bytes with pieces, free every second, ask for half in one: (spoilt pieces, MiB kept, most MiB reserved).

    The holes are too small for what is asked for then, so the allocator has to get new memory, or to join what it has.
    """
    torch.cuda.empty_cache()
    before = int(torch.cuda.memory_allocated(index))
    words = size // count // 8
    pieces = [torch.full((words,), number, dtype=torch.int64, device=kit.device_of(index)) for number in range(count)]
    for number in range(1, count, 2):
        pieces[number] = None
    large = torch.full((words * count // 2,), -1, dtype=torch.int64, device=kit.device_of(index))
    # Smaller ones, into the holes.
    for number in range(1, count, 2):
        pieces[number] = torch.full((words // 3,), number, dtype=torch.int64, device=kit.device_of(index))
    if between:
        between(pieces)
    reserved = int(torch.cuda.memory_reserved(index)) // MIB
    spoilt = sum(int(not bool((piece == number).all())) for number, piece in enumerate(pieces))
    spoilt += int(not bool((large == -1).all()))
    pieces = large = piece = None
    torch.cuda.empty_cache()
    return spoilt, max(0, int(torch.cuda.memory_allocated(index)) - before) // MIB, reserved


class growing_segments:
    """Within it, torch's allocator has segments that grow; false where there are none."""

    def __init__(self, torch):
        self.set = getattr(getattr(torch.cuda, "memory", None), "_set_allocator_settings", None)
        backend = getattr(torch.cuda, "get_allocator_backend", None)
        self.possible = bool(self.set) and os.name != "nt" and (backend is None or backend() == "native")
        self.before = os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF")

    def __bool__(self):
        return self.possible

    def __enter__(self):
        self.set("expandable_segments:True")

    def __exit__(self, *ignored):
        self.set(self.before or "expandable_segments:False")

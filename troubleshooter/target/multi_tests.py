"""Several GPUs together: which pairs reach each other, whether copies between them arrive whole, whether NCCL adds up.

The all-reduce is done by one process for each GPU, as training does it. Each gives a power of two, so that the bits of a
wrong sum name the processes whose part is missing or doubled.
"""

import os
import sys
import time

kit = sys.modules["troubleshooter_kit"]
MIB = kit.MIB
MOST_GPUS = 16
RANK_SECONDS = 60


def count_of(torch):
    kit.need(torch, "cuda.device_count")
    count = min(MOST_GPUS, int(torch.cuda.device_count()))
    if count < 2:
        raise kit.Skipped("torch sees %d GPU; the test needs two" % count)
    return count


def multi_peer(torch, index, mode):
    """Which pairs may read each other's memory: none at all is slow and no fault, one direction alone is."""
    count = count_of(torch)
    kit.need(torch, "cuda.can_device_access_peer")
    can = {(a, b): torch.cuda.can_device_access_peer(a, b) for a in range(count) for b in range(count) if a != b}
    return peers(can), {}


def peers(can):
    one_way = ["%d-%d" % pair for pair in sorted(can) if can[pair] and not can[pair[::-1]]]
    without = ["%d-%d" % pair for pair in sorted(can) if pair[0] < pair[1] and not (can[pair] or can[pair[::-1]])]
    return {
        "pairs": len(can) // 2,
        "pairs_without_peer_access": len(without),
        "without": without[:64],
        "one_way_pairs": len(one_way),
        "one_way": one_way[:64],
    }


def multi_copy(torch, index, mode):
    """Each pair in both directions: does what arrives equal what was sent, and how fast."""
    count = count_of(torch)
    kit.need(torch, "arange", "int64", "zeros_like", "equal", "cuda.synchronize")
    words = (8 if mode == "quick" else 64) * MIB // 8
    devices = ["cuda:%d" % each for each in range(count)]
    sent = [torch.arange(words, dtype=torch.int64, device=each) * 2654435761 + 97 * n for n, each in enumerate(devices)]
    return copies(torch, sent, lambda n: torch.cuda.synchronize(n)), {}


def copies(torch, sent, wait):
    """`sent`: a tensor on each device, all different. Pairs are named by their places in that list."""
    wrong, rates = [], {}
    for a, source in enumerate(sent):
        for b, target in enumerate(sent):
            if a == b:
                continue
            there = torch.zeros_like(target)
            there.copy_(source)
            wait(a), wait(b)
            began = time.time()
            there.copy_(source)
            wait(a), wait(b)
            rates["%d-%d" % (a, b)] = source.numel() * 8 / max(time.time() - began, 1e-9) / 1e9
            # Compared on the host, on the way that was not tested.
            if not torch.equal(there.cpu(), source.cpu()):
                wrong.append("%d-%d" % (a, b))
    slowest = min(rates, key=rates.get)
    return {
        "pairs": len(rates),
        "wrong_pairs": len(wrong),
        "wrong": wrong[:64],
        "slowest_pair": slowest,
        "slowest_gb_per_s": round(rates[slowest], 2),
        "fastest_gb_per_s": round(max(rates.values()), 2),
    }


# --- the all-reduce

RANK = """
import sys, os
rank, world, backend, place, numbers, device = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5]), int(sys.argv[6])
import torch, torch.distributed as dist, datetime
print("troubleshooter: imported", flush=True)
where = "cuda:%d" % device if device >= 0 else "cpu"
if device >= 0:
    torch.cuda.set_device(device)
dist.init_process_group(backend, init_method="file://" + place, rank=rank, world_size=world,
                        timeout=datetime.timedelta(seconds=40))
print("troubleshooter: joined", flush=True)
for size in (1, numbers):
    data = torch.full((size,), float(2 ** rank), dtype=torch.float64, device=where)
    dist.all_reduce(data)
    least, greatest = int(data.min()), int(data.max())
    print("troubleshooter: sum %d %d" % (least, greatest), flush=True)
os._exit(0)
"""


def multi_allreduce(torch, index, mode):
    kit.need(torch, "distributed.is_available")
    if not torch.distributed.is_available():
        raise kit.Skipped("this torch is built without torch.distributed")
    count = count_of(torch)
    if not (hasattr(torch.distributed, "is_nccl_available") and torch.distributed.is_nccl_available()):
        raise kit.Skipped("this torch is built without NCCL")
    numbers = (4 if mode == "quick" else 32) * MIB // 8
    return together(list(range(count)), "nccl", numbers)


def together(devices, backend, numbers, seconds=RANK_SECONDS, code=RANK):
    """One process for each entry of `devices` (-1: the CPU); (measured, expected), or Failed with the ranks named."""
    import shutil
    import subprocess
    import tempfile

    folder = tempfile.mkdtemp()
    world = len(devices)
    running, outputs = [], []
    try:
        for rank, device in enumerate(devices):
            output = open(os.path.join(folder, "output%d" % rank), "w+b")
            outputs.append(output)
            words = [rank, world, backend, os.path.join(folder, "meeting"), numbers, device]
            # In our process group: whoever ends us ends them.
            running.append(
                subprocess.Popen(
                    [sys.executable, "-c", code] + [str(word) for word in words],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                )
            )
        began, died = time.time(), []
        until = began + seconds
        while time.time() < until and any(one.poll() is None for one in running):
            time.sleep(0.02)
            dead = [rank for rank, one in enumerate(running) if one.poll() not in (None, 0) and rank not in died]
            # A signal comes before the exit codes of those that missed the dead one.
            died += sorted(dead, key=lambda rank: running[rank].poll() > 0)
            if dead and len(dead) == len(died):
                # The others wait for one that is gone: they get a moment to say so, no more.
                until = min(until, time.time() + 3)
        said = []
        for rank, (one, output) in enumerate(zip(running, outputs)):
            code_of_exit = one.poll()
            output.seek(0)
            said.append((code_of_exit, output.read(1 << 20).decode("utf-8", "replace")))
        return judged(said, died, round(time.time() - began, 2))
    finally:
        for one in running:
            if one.poll() is None:
                one.kill()
            one.wait()
        for output in outputs:
            output.close()
        shutil.rmtree(folder, ignore_errors=True)


def judged(said, died, took):
    """`said`: for each rank its exit code (None: still running) and what it printed; `died`: ranks as they went."""
    world = len(said)
    wanted = 2**world - 1
    measured = {"ranks": world, "seconds": took}
    wrong, parts, silent = [], set(), []
    for rank, (code, text) in enumerate(said):
        sums = [line.split()[2:4] for line in text.splitlines() if line.startswith("troubleshooter: sum ")]
        if code != 0 or len(sums) < 2:
            silent.append(rank)
        for value in {int(each) for pair in sums for each in pair}:
            if value != wanted:
                wrong.append(rank)
                parts.update(bit for bit in range(world) if not value >> bit & 1)
    if not wrong and not silent:
        return measured, {"sum": "2^%d - 1 on every rank" % world}
    reasons = []
    if wrong:
        reasons.append("the sum is wrong on rank %s" % listed(sorted(set(wrong))))
        if parts:
            reasons.append("the part of rank %s is missing in it" % listed(sorted(parts)))
    died = died + [rank for rank in silent if said[rank][0] not in (None, 0) and rank not in died]
    for word, chosen in (
        ("died", died[:1]),
        ("died after it", died[1:]),
        ("did not end", [rank for rank in silent if said[rank][0] is None]),
        ("left without a sum", [rank for rank in silent if said[rank][0] == 0]),
    ):
        if chosen:
            reasons.append("rank %s %s" % (listed(chosen), word))
    first = (died + silent + wrong)[0]
    measured["error"] = said[first][1][-8000:]
    measured["ranks_with_trouble"] = sorted(set(wrong) | set(silent))
    raise kit.Failed("; ".join(reasons), measured, {"sum": "2^%d - 1 on every rank" % world})


def listed(ranks):
    return ", ".join(str(rank) for rank in ranks)


TESTS = {"multi.peer": multi_peer, "multi.copy": multi_copy, "multi.allreduce": multi_allreduce}

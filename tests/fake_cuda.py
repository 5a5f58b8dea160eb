"""A libcuda and an NVML of our own, built with gcc at test time: a card in the memory of this process.

The kernels are not written again: the PTX that `driver_tests.py` gives to the driver is translated to C, statement by
statement, so that what runs here is what a card gets. Variables of the environment make the card misbehave:

FAKE_CARDS (count, 1), FAKE_MIB (memory, 64), FAKE_BUSY_MIB (memory that others hold), FAKE_STUCK (byte:bit of the first
piece of memory that reads as 1 always), FAKE_LOST (byte of the first piece where writing has no effect), FAKE_WRONG_SUM
(spoil a result of the kernel `arithmetic`), FAKE_ERROR (function=code), FAKE_HANG and FAKE_CRASH (function), FAKE_MODE
(compute mode), FAKE_LOG (a file that gets the name of every function called). For NVML: FAKE_PIDS (comma-separated),
FAKE_DISPLAY, FAKE_USED_MIB, FAKE_NO_LIST (code of a list of processes that is not told), FAKE_OLD (an NVML without reserves).
"""

import re
import shutil
import subprocess
from pathlib import Path

GCC = shutil.which("gcc")

_TYPES = {"pred": "int", "b32": "uint32_t", "b64": "uint64_t", "f32": "float"}
_C_TYPES = {"u32": "uint32_t", "b32": "uint32_t", "u64": "uint64_t", "b64": "uint64_t", "f32": "float"}
_OPERATORS = {"add": "+", "xor": "^", "and": "&", "or": "|", "shr": ">>", "mul.lo": "*", "mul.rn": "*"}


def build(folder: Path, ptx: str) -> Path:
    """The folder with libcuda.so.1 and libnvidia-ml.so.1, for LD_LIBRARY_PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, code in (("libcuda.so.1", _CUDA.replace("@KERNELS@", kernels_in_c(ptx))), ("libnvidia-ml.so.1", _NVML)):
        source = folder / f"{name}.c"
        source.write_text(code)
        command = [
            str(GCC),
            "-O1",
            "-shared",
            "-fPIC",
            "-ffp-contract=off",
            "-o",
            str(folder / name),
            str(source),
            "-lm",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:3000]
    return folder


def kernels_in_c(ptx: str) -> str:
    functions, names = [], []
    for found in re.finditer(r"\.entry (\w+)\(([^)]*)\)\s*\{(.*?)\nret;\n\}", ptx, re.DOTALL):
        name, parameters, body = found.groups()
        places = {one.split()[-1]: number for number, one in enumerate(parameters.split(","))}
        lines = [_in_c(line.strip(), places) for line in body.strip().splitlines()]
        functions.append(f"static void {name}(uint32_t lane_, uint32_t block_, uint64_t **given)\n{{\n")
        functions += [*(line + "\n" for line in lines), "return;\n}\n"]
        names.append(f'{{"{name}", {name}}}')
    return "".join(functions) + "static const struct kernel kernels[] = {" + ", ".join(names) + "};\n"


def _in_c(line: str, places: dict[str, int]) -> str:
    if line.endswith(":"):
        return line + " ;"
    if line.startswith(".reg"):
        _, kind, names = line.rstrip(";").split(None, 2)
        return f"{_TYPES[kind[1:]]} {names};"
    if line.startswith("@"):
        condition, jump, label = line.rstrip(";").split()
        assert jump == "bra"
        return f"if ({condition[1:]}) goto {label};"
    operation, _, rest = line.rstrip(";").partition(" ")
    vectors = re.findall(r"\{([^}]*)\}", rest)
    operands = [one.strip() for one in re.sub(r"\{[^}]*\}", "{}", rest).split(",")]
    return _operation(operation, operands, [[one.strip() for one in vector.split(",")] for vector in vectors], places)


def _operation(operation: str, operands: list[str], vectors: list[list[str]], places: dict[str, int]) -> str:
    parts = operation.split(".")
    kind = _C_TYPES.get(parts[-1], "")
    head = ".".join(parts[:2]) if ".".join(parts[:2]) in _OPERATORS else parts[0]
    if operation == "ld.param.u64":
        return f"{operands[0]} = *given[{places[operands[1][1:-1]]}];"
    if parts[0] in ("ld", "st"):
        pointer = next(one for one in operands if one.startswith("["))[1:-1]
        values = vectors[0] if vectors else [operands[-1]]
        text = []
        for number, value in enumerate(values):
            place = f"(({kind} *)({pointer}))[{number}]"
            text.append(f"{value} = {place};" if parts[0] == "ld" else f"{place} = {value};")
        return " ".join(text)
    if parts[0] == "atom":
        return (
            f"{operands[0]} = *(uint64_t *)({operands[1][1:-1]}); *(uint64_t *)({operands[1][1:-1]}) += {operands[2]};"
        )
    if parts[0] == "red":
        return f"*(uint64_t *)({operands[0][1:-1]}) |= {operands[1]};"
    if parts[0] == "setp":
        sign = {"eq": "==", "ge": ">=", "lt": "<"}[parts[1]]
        return f"{operands[0]} = {operands[1]} {sign} ({kind}){operands[2]};"
    if parts[0] == "mov" and vectors:
        low, high = vectors[0]
        return f"{operands[0]} = (uint64_t){low} | (uint64_t){high} << 32;"
    if parts[0] in ("mov", "cvta") or operation in ("cvt.u32.u64", "cvt.rn.f32.u32", "cvt.rzi.u32.f32"):
        value = {"%tid.x": "lane_", "%ctaid.x": "block_"}.get(operands[1], operands[1])
        return f"{operands[0]} = {value};"
    if operation == "cvt.rmi.f32.f32":
        return f"{operands[0]} = floorf({operands[1]});"
    if operation == "mul.wide.u32":
        return f"{operands[0]} = (uint64_t){operands[1]} * {operands[2]};"
    if operation == "mad.lo.u32":
        return f"{operands[0]} = {operands[1]} * {operands[2]} + {operands[3]};"
    if operation == "fma.rn.f32":
        return f"{operands[0]} = fmaf({', '.join(map(_float, operands[1:]))});"
    if parts[0] == "not":
        return f"{operands[0]} = ~{operands[1]};"
    return f"{operands[0]} = {_float(operands[1])} {_OPERATORS[head]} {_float(operands[2])};"


def _float(text: str) -> str:
    return f"of_bits(0x{text[2:]}u)" if text.startswith("0f") else text


_CUDA = r"""
#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static float of_bits(uint32_t bits) { float value; memcpy(&value, &bits, 4); return value; }
struct kernel { const char *name; void (*code)(uint32_t, uint32_t, uint64_t **); };
@KERNELS@
static long set(const char *name, long otherwise) { const char *text = getenv(name); return text ? atol(text) : otherwise; }
static int named(const char *variable, const char *function) {
  const char *text = getenv(variable); return text && strcmp(text, function) == 0; }
static int begin(const char *function) {
  const char *log = getenv("FAKE_LOG"), *error = getenv("FAKE_ERROR");
  size_t length = strlen(function);
  if (log) { FILE *file = fopen(log, "a"); if (file) { fprintf(file, "%s\n", function); fclose(file); } }
  if (named("FAKE_HANG", function)) for (;;) sleep(1);
  if (named("FAKE_CRASH", function)) *(volatile int *)0 = 1;
  return error && strncmp(error, function, length) == 0 && error[length] == '=' ? atoi(error + length + 1) : 0; }
#define BEGIN { int code = begin(__func__); if (code) return code; }
static uint64_t pieces[4096], sizes[4096]; static int count_of_pieces;
static uint64_t held(void) { uint64_t sum = 0; for (int n = 0; n < count_of_pieces; n++) sum += sizes[n]; return sum; }
static uint64_t total(void) { return (uint64_t)set("FAKE_MIB", 64) << 20; }
static uint64_t spare(void) { return total() - held() - ((uint64_t)set("FAKE_BUSY_MIB", 0) << 20); }
int cuInit(unsigned flags) { BEGIN return 0; }
int cuDriverGetVersion(int *value) { BEGIN *value = 13000; return 0; }
int cuDeviceGetCount(int *value) { BEGIN *value = set("FAKE_CARDS", 1); return 0; }
int cuDeviceGet(int *device, int index) { BEGIN *device = index; return 0; }
int cuDeviceGetPCIBusId(char *text, int length, int device) { BEGIN snprintf(text, length, "0000:%02x:00.0", device + 1); return 0; }
int cuDeviceGetAttribute(int *value, int which, int device) { BEGIN
  *value = which == 20 ? set("FAKE_MODE", 0) : which == 75 ? 9 : 0; return 0; }
int cuGetErrorName(int code, const char **name) {
  *name = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : code == 100 ? "CUDA_ERROR_NO_DEVICE" : code == 999 ? "CUDA_ERROR_UNKNOWN"
    : code == 46 ? "CUDA_ERROR_DEVICE_UNAVAILABLE" : code == 221 ? "CUDA_ERROR_JIT_COMPILER_NOT_FOUND" : "CUDA_ERROR_OTHER";
  return 0; }
int cuCtxCreate_v2(void **context, unsigned flags, int device) { BEGIN *context = (void *)1; return 0; }
int cuCtxDestroy_v2(void *context) { BEGIN return 0; }
int cuModuleLoadData(void **module, const char *text) { BEGIN *module = (void *)1; return 0; }
int cuModuleGetFunction(void **function, void *module, const char *name) { BEGIN
  for (size_t n = 0; n < sizeof kernels / sizeof *kernels; n++)
    if (!strcmp(kernels[n].name, name)) { *function = (void *)&kernels[n]; return 0; }
  return 500; }
int cuMemGetInfo_v2(size_t *free, size_t *all) { BEGIN *free = spare(); *all = total(); return 0; }
int cuMemAlloc_v2(uint64_t *address, size_t size) { BEGIN
  if (size > spare() || count_of_pieces == 4096) return 2;
  void *got = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (got == MAP_FAILED) return 2;
  pieces[count_of_pieces] = *address = (uint64_t)got; sizes[count_of_pieces++] = size; return 0; }
int cuMemFree_v2(uint64_t address) { BEGIN
  for (int n = 0; n < count_of_pieces; n++) if (pieces[n] == address) {
    munmap((void *)address, sizes[n]); count_of_pieces--; pieces[n] = pieces[count_of_pieces]; sizes[n] = sizes[count_of_pieces]; return 0; }
  return 1; }
int cuMemsetD8_v2(uint64_t address, unsigned char value, size_t size) { BEGIN memset((void *)address, value, size); return 0; }
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) { BEGIN memcpy((void *)to, from, size); return 0; }
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) { BEGIN memcpy(to, (void *)from, size); return 0; }
int cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t size) { BEGIN memmove((void *)to, (void *)from, size); return 0; }
int cuLaunchKernel(void *function, unsigned blocks, unsigned y, unsigned z, unsigned threads, unsigned b, unsigned c,
                   unsigned shared, void *stream, void **given, void **extra) { BEGIN
  const struct kernel *kernel = function;
  int writes = strncmp(kernel->name, "check_", 6) && strcmp(kernel->name, "arithmetic");
  uint64_t start = **(uint64_t **)given;
  const char *stuck = getenv("FAKE_STUCK");
  long lost = set("FAKE_LOST", -1);
  int first = writes && count_of_pieces && start == pieces[0];
  unsigned char kept = first && lost >= 0 ? ((unsigned char *)start)[lost] : 0;
  for (unsigned block = 0; block < blocks; block++)
    for (unsigned thread = 0; thread < threads; thread++) kernel->code(thread, block, (uint64_t **)given);
  if (first && stuck) ((unsigned char *)start)[atol(stuck)] |= 1 << atoi(strchr(stuck, ':') + 1);
  if (first && lost >= 0) ((unsigned char *)start)[lost] = kept;
  if (getenv("FAKE_WRONG_SUM") && !strcmp(kernel->name, "arithmetic")) ((unsigned char *)start)[777] ^= 4;
  return 0; }
static float now = 0;
int cuEventCreate(float **event, unsigned flags) { BEGIN *event = malloc(sizeof **event); return 0; }
int cuEventRecord(float *event, void *stream) { BEGIN *event = now += 1; return 0; }
int cuEventQuery(float *event) { BEGIN return 0; }
int cuEventElapsedTime(float *value, float *first, float *last) { BEGIN *value = *last - *first; return 0; }
int cuEventDestroy_v2(float *event) { BEGIN free(event); return 0; }
"""

_NVML = r"""
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
struct process { unsigned pid; uint64_t used; unsigned instances[2]; };
struct memory { unsigned version; uint64_t total, reserved, free, used; };
struct old { uint64_t total, free, used; };
static long set(const char *name, long otherwise) { const char *text = getenv(name); return text ? atol(text) : otherwise; }
int nvmlInit_v2(void) { return set("FAKE_NVML", 0); }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *address, void **device) { *device = (void *)1; return strlen(address) ? 0 : 2; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *listed) {
  const char *text = getenv("FAKE_PIDS"); unsigned found = 0;
  for (; text && *text; text = strchr(text, ',') ? strchr(text, ',') + 1 : 0) listed[found++].pid = atoi(text);
  *count = found; return set("FAKE_NO_LIST", 0); }
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned *count, struct process *listed) { *count = 0; return 0; }
int nvmlDeviceGetDisplayActive(void *device, unsigned *active) { *active = set("FAKE_DISPLAY", 0); return 0; }
int nvmlDeviceGetMemoryInfo_v2(void *device, struct memory *memory) { memory->used = set("FAKE_USED_MIB", 0) << 20; return set("FAKE_OLD", 0); }
int nvmlDeviceGetMemoryInfo(void *device, struct old *memory) { memory->used = set("FAKE_USED_MIB", 0) << 20; return 0; }
"""

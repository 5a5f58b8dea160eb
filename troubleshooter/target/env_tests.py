"""What surrounds torch: workers that hand tensors over in shared memory, processes that start afresh, a compiler."""

import os
import sys
import time

kit = sys.modules["troubleshooter_kit"]


def sees_a_gpu(torch):
    try:
        return torch.cuda.is_available() is True
    except Exception:
        return False


def env_dataloader(torch, index, mode):
    """Two workers that return batches of 8 MiB through shared memory."""
    kit.need(torch, "utils.data", "arange")
    from torch.utils.data import DataLoader, TensorDataset

    rows = torch.arange(12, dtype=torch.float32).reshape(12, 1).expand(12, 1 << 20)
    began = time.time()
    loader = DataLoader(TensorDataset(rows), batch_size=2, num_workers=2, timeout=20)
    got = [float(batch[:, -1].sum()) for (batch,) in loader]
    measured = {"workers": 2, "batch_mib": 8, "seconds": round(time.time() - began, 2)}
    measured["wrong_batches"] = sum(1 for place, value in enumerate(got) if value != 4.0 * place + 1)
    measured["batches"] = len(got)
    return measured, {}


def env_spawn(torch, index, mode):
    """A fresh process, as vLLM and Windows start them, gives back a tensor and, where there is one, uses the GPU."""
    kit.need(torch, "multiprocessing.get_context", "add", "ones")
    if sys.version_info < (3, 7):
        raise kit.Skipped("this Python's pools cannot choose how their processes start")
    from concurrent.futures import ProcessPoolExecutor

    began = time.time()
    # Not multiprocessing's own pool: that one replaces a worker that dies at its start, for ever.
    pool = ProcessPoolExecutor(1, mp_context=torch.multiprocessing.get_context("spawn"))
    try:
        got = pool.submit(torch.add, torch.ones(1 << 16), 1).result(60)
        measured = {"wrong_elements": int((got != 2).sum())}
        if sees_a_gpu(torch):
            measured["gpu_there"] = str(pool.submit(torch.cuda.get_device_name, 0).result(60))
    finally:
        pool.shutdown(wait=False)
    measured["seconds"] = round(time.time() - began, 2)
    return measured, {}


CPP = "torch::Tensor twice(torch::Tensor data);"
CUDA = """
__global__ void twice_kernel(float* data, int count) {
  int place = blockIdx.x * blockDim.x + threadIdx.x;
  if (place < count) data[place] *= 2.0f;
}
torch::Tensor twice(torch::Tensor data) {
  auto result = data.clone();
  int count = result.numel();
  twice_kernel<<<(count + 255) / 256, 256>>>(result.data_ptr<float>(), count);
  return result;
}
"""


def env_extension(torch, index, mode):
    """Compile a kernel of a few lines with nvcc against this torch, load it and run it."""
    import shutil
    import tempfile

    if mode != "full":
        raise kit.Skipped("compiling takes half a minute; --full does it")
    if not sees_a_gpu(torch):
        raise kit.Skipped("torch sees no GPU")
    kit.need(torch, "utils")
    from torch.utils import cpp_extension

    home = cpp_extension.CUDA_HOME
    if not home or not shutil.which("nvcc", path=os.path.join(home, "bin")):
        raise kit.Skipped("there is no nvcc")
    if not shutil.which("ninja"):
        raise kit.Skipped("there is no ninja")
    folder = tempfile.mkdtemp()
    if "TORCH_CUDA_ARCH_LIST" not in os.environ:
        os.environ["TORCH_CUDA_ARCH_LIST"] = "%d.%d" % kit.capability(torch, 0)
    began = time.time()
    try:
        built = cpp_extension.load_inline(
            "troubleshooter_extension", [CPP], [CUDA], functions=["twice"], build_directory=folder
        )
        got = built.twice(torch.ones(1000, device="cuda:0"))
        return {"seconds": round(time.time() - began, 1), "wrong_elements": int((got != 2).sum())}, {}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


TESTS = {"env.dataloader": env_dataloader, "env.spawn": env_spawn, "env.extension": env_extension}

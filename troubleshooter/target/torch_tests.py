"""Tests of what torch computes: against float64 on the CPU, and against itself where it promises the same again."""

import sys
import time

kit = sys.modules["troubleshooter_kit"]


def torch_init(torch, index, mode):
    kit.need(torch, "cuda.is_available", "cuda.device_count")
    available, count = torch.cuda.is_available(), int(torch.cuda.device_count())
    measured = {"available": available is True, "device_count": count}
    expected = {"available": True, "device_count_at_least": 1}
    if available is not True or count < 1:
        raise kit.Failed(
            "torch sees no GPU: is_available() is %s, device_count() is %d" % (available, count), measured, expected
        )
    if hasattr(torch.cuda, "init"):
        torch.cuda.init()
    if hasattr(torch.cuda, "get_device_name"):
        measured["name"] = str(torch.cuda.get_device_name(index))
    return measured, expected


def torch_arch(torch, index, mode):
    """The smallest kernel of torch's own: it runs only if the build has code for this card."""
    kit.need(torch, "arange", "cuda.synchronize")
    device = kit.device_of(index)
    measured = {}
    if hasattr(torch.cuda, "get_device_capability"):
        measured["capability"] = "%d.%d" % kit.capability(torch, index)
    if hasattr(torch.cuda, "get_arch_list"):
        measured["archs"] = [str(arch) for arch in torch.cuda.get_arch_list()]
    got = (torch.arange(1000, device=device) * 3 + 1).cpu().tolist()
    measured["wrong_elements"] = sum(1 for place, value in enumerate(got) if value != 3 * place + 1)
    return measured, {}


# --- products


def torch_matmul(torch, index, mode):
    kit.need(torch, "randn", "manual_seed", "float32", "float64", "matmul", "bmm", "cuda.synchronize")
    device = kit.device_of(index)
    measured = {}
    names = kit.number_types(torch, index)
    for name in names:
        key = "error_" + kit.label_of(name)
        for rows, inner, columns in ((129, 257, 65), (640, 896, 512)):
            kit.note_worst(measured, key, product_error(torch, device, name, rows, inner, columns))
        if name != "float8":
            kit.note_worst(measured, key, batched_error(torch, device, name))
    large = 4096 if mode == "quick" else 8192
    for name in names:
        # Float64 has few units on cards for games, and a large product of it would take seconds there.
        if kit.free_memory(torch, index) > 32 * large * large and (name != "float64" or mode == "full"):
            error, same = projected_error(torch, device, name, large)
            measured["error_%s_large" % kit.label_of(name)] = error
            measured["repeats_differ"] = measured.get("repeats_differ", 0) + (0 if same else 1)
    torch.cuda.synchronize(index)
    return measured, {}


def multiply(torch, name, left, right):
    """left times right in that number type; the operands have it already."""
    if name == "float8":
        return scaled_product(torch, left, right)
    with kit.Precision(torch, name == "tf32"):
        return torch.matmul(left, right)


def scaled_product(torch, left, right):
    """In float8 with sums in float32 and the result in bfloat16; sizes in multiples of 16, `right` column by column."""
    one = torch.ones((), device=left.device)
    right = right.t().contiguous().t()
    try:
        product = torch._scaled_mm(left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    except TypeError:  # another version of a call that is not public
        raise kit.Skipped("this torch multiplies float8 in another way")
    return product[0] if isinstance(product, tuple) else product


def product_error(torch, device, name, rows, inner, columns):
    """Relative error against the CPU in float64, of operands that are rounded alike."""
    kind = kit.dtype_of(torch, name)
    if name == "float8":
        rows, inner, columns = ((size + 15) // 16 * 16 for size in (rows, inner, columns))
    torch.manual_seed(rows)
    left, right = torch.randn(rows, inner), torch.randn(inner, columns)
    got = multiply(torch, name, left.to(device).to(kind), right.to(device).to(kind))
    return kit.relative_error(
        torch, got, torch.matmul(left.to(kind).to(torch.float64), right.to(kind).to(torch.float64))
    )


def batched_error(torch, device, name):
    kind = kit.dtype_of(torch, name)
    torch.manual_seed(7)
    left, right = torch.randn(6, 65, 129), torch.randn(6, 129, 33)
    with kit.Precision(torch, name == "tf32"):
        got = torch.bmm(left.to(device).to(kind), right.to(device).to(kind))
    return kit.relative_error(torch, got, torch.bmm(left.to(kind).to(torch.float64), right.to(kind).to(torch.float64)))


def projected_error(torch, device, name, size):
    """(error, whether a repeat gave the same bits) of a large product.

    The error is seen through the product's action on one random vector (Freivalds), in float64, and divided by the root of
    size / 2048: rounding errors of a sum grow with the root of its length, and the bounds are for 2048.
    """
    kind = kit.dtype_of(torch, name)
    torch.manual_seed(size)
    left = torch.randn(size, size, device=device).to(kind)
    right = torch.randn(size, size, device=device).to(kind)
    product = multiply(torch, name, left, right)
    same = bool(torch.equal(product, multiply(torch, name, left, right)))
    vector = torch.randn(size, 1, device=device).to(torch.float64)
    got = by_blocks(torch, product, vector)
    wanted = by_blocks(torch, left, by_blocks(torch, right, vector))
    return float((got - wanted).norm() / wanted.norm()) / max(1.0, (size / 2048.0) ** 0.5), same


def by_blocks(torch, matrix, vector, rows=1024):
    """matrix times vector in float64, without a float64 copy of the whole matrix."""
    return torch.cat([torch.matmul(part.to(torch.float64), vector) for part in matrix.split(rows)])


# --- layers


def half_types(torch, index):
    return [name for name in kit.number_types(torch, index) if name in ("float32", "float16", "bfloat16")]


def torch_conv(torch, index, mode):
    kit.need(torch, "nn.functional.conv2d", "float64")
    conv = torch.nn.functional.conv2d
    device = kit.device_of(index)
    measured = {}
    #        image             kernel            stride padding groups
    forms = (
        ((2, 16, 30, 28), (32, 16, 3, 3), 1, 1, 1),
        ((1, 3, 63, 61), (24, 3, 7, 7), 2, 3, 1),
        ((2, 32, 17, 19), (48, 32, 1, 1), 1, 0, 1),
        ((2, 32, 20, 20), (32, 1, 3, 3), 1, 1, 32),
    )
    for name in half_types(torch, index):
        kind = kit.dtype_of(torch, name)
        orders = (torch.contiguous_format, torch.channels_last)
        if mode == "quick":
            # Each plan that cuDNN makes takes some hundredths of a second: two for each of the two usual types.
            forms, orders = forms[:2], orders[:1] if name == "float32" else orders[1:]
            if name == "bfloat16":
                continue
        for image, kernel, stride, padding, groups in forms:
            torch.manual_seed(sum(image))
            data, weight = torch.randn(*image).to(kind), torch.randn(*kernel).to(kind)
            wanted = conv(data.to(torch.float64), weight.to(torch.float64), None, stride, padding, 1, groups)
            for order in orders:
                with kit.Precision(torch):
                    got = conv(
                        data.to(device).contiguous(memory_format=order),
                        weight.to(device).contiguous(memory_format=order),
                        None,
                        stride,
                        padding,
                        1,
                        groups,
                    )
                kit.note_worst(measured, "error_" + kit.label_of(name), kit.relative_error(torch, got, wanted))
    return measured, {}


def torch_rnn(torch, index, mode):
    kit.need(torch, "nn.LSTM", "nn.GRU", "float64")
    device = kit.device_of(index)
    measured = {}
    for name in half_types(torch, index):
        if name == "bfloat16":
            continue  # not every cuDNN has cells for it
        kind = kit.dtype_of(torch, name)
        for cell in (torch.nn.LSTM, torch.nn.GRU)[: 1 if mode == "quick" else 2]:
            torch.manual_seed(3)
            layers = cell(24, 40, num_layers=2, bidirectional=True).to(kind)
            data = torch.randn(13, 5, 24).to(kind)
            with torch.no_grad(), kit.Precision(torch):
                got = layers.to(device)(data.to(device))[0].cpu()
                wanted = layers.cpu().to(torch.float64)(data.to(torch.float64))[0]
            kit.note_worst(measured, "error_" + kit.label_of(name), kit.relative_error(torch, got, wanted))
    return measured, {}


def torch_fft(torch, index, mode):
    kit.need(torch, "fft.fft", "fft.ifft", "fft.rfft2", "complex128")
    device = kit.device_of(index)
    measured = {}
    for length in (4096, 4095, 1009):
        torch.manual_seed(length)
        data = torch.randn(4, length, dtype=torch.complex128)
        wanted = torch.fft.fft(data)
        there = data.to(device).to(torch.complex64)
        got = torch.fft.fft(there)
        parts = [torch.view_as_real(each.cpu().to(torch.complex128)) for each in (got, wanted)]
        kit.note_worst(measured, "error_fft", kit.relative_error(torch, *parts))
        back = torch.view_as_real(torch.fft.ifft(got).cpu().to(torch.complex128))
        kit.note_worst(measured, "error_round_trip", kit.relative_error(torch, back, torch.view_as_real(data)))
    image = torch.randn(3, 60, 84, dtype=torch.float64)
    got = torch.view_as_real(torch.fft.rfft2(image.to(device).to(torch.float32)).cpu().to(torch.complex128))
    wanted = torch.view_as_real(torch.fft.rfft2(image))
    kit.note_worst(measured, "error_fft", kit.relative_error(torch, got, wanted))
    return measured, {}


def torch_reduce(torch, index, mode):
    kit.need(torch, "sort", "topk", "cumsum", "sparse_coo_tensor", "float64", "int64")
    device = kit.device_of(index)
    measured, wrong = {}, []
    torch.manual_seed(11)
    count = 50021 if mode == "quick" else 1000003
    numbers = torch.randn(count)
    whole = torch.randint(-(1 << 40), 1 << 40, (count,))
    exact = {
        "sort": lambda data, ints: torch.sort(data)[0],
        "sort-of-integers": lambda data, ints: torch.sort(ints)[0],
        "topk": lambda data, ints: torch.topk(data, 100)[0],
        "sum-of-integers": lambda data, ints: ints.sum(),
        "cumsum-of-integers": lambda data, ints: torch.cumsum(ints, 0),
        "max": lambda data, ints: data.max(),
        "argmin": lambda data, ints: data.argmin(),
        "bincount": lambda data, ints: torch.bincount(ints.remainder(97), minlength=97),
        "unique": lambda data, ints: torch.unique(ints.remainder(1009)),
        "gather": lambda data, ints: data[ints.remainder(count)],
    }
    for name, work in exact.items():
        if not torch.equal(work(numbers.to(device), whole.to(device)).cpu(), work(numbers, whole)):
            wrong.append(name)
    measured["wrong_operations"] = len(wrong)
    if wrong:
        measured["wrong"] = wrong
    for name, work in (
        ("sum", lambda data: data.sum().reshape(1)),
        ("mean", lambda data: data.abs().mean().reshape(1)),
        ("variance", lambda data: data.var().reshape(1)),
        ("softmax", lambda data: torch.softmax(data[:1000], 0)),
    ):
        positive = numbers.abs() if name == "sum" else numbers
        error = kit.relative_error(torch, work(positive.to(device)), work(positive.to(torch.float64)))
        kit.note_worst(measured, "error_float32", error)
    places = torch.stack([whole[:2000].remainder(300), whole[2000:4000].remainder(200)])
    sparse = torch.sparse_coo_tensor(places, numbers[:2000], (300, 200))
    dense = numbers[: 200 * 50].reshape(200, 50)
    with kit.Precision(torch):
        got = torch.sparse.mm(sparse.to(device), dense.to(device))
    wanted = torch.matmul(sparse.to_dense().to(torch.float64), dense.to(torch.float64))
    kit.note_worst(measured, "error_" + kit.label_of("float32"), kit.relative_error(torch, got, wanted))
    return measured, {}


def network(torch):
    """A small network of the layers that most networks are made of, and its input and targets; the same every time."""
    torch.manual_seed(5)
    nn = torch.nn
    layers = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.GELU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * 8 * 8, 64),
        nn.LayerNorm(64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )
    return layers, torch.randn(16, 3, 16, 16), torch.arange(16) % 10


def gradients(torch, layers, data, targets):
    loss = torch.nn.functional.cross_entropy(layers(data), targets)
    loss.backward()
    return float(loss.detach()), torch.cat([one.grad.detach().reshape(-1) for one in layers.parameters()])


def torch_autograd(torch, index, mode):
    kit.need(torch, "nn.Sequential", "nn.GELU", "nn.functional.cross_entropy", "float64")
    device = kit.device_of(index)
    measured = {}
    layers, data, targets = network(torch)
    wanted_loss, wanted = gradients(torch, layers.to(torch.float64), data.to(torch.float64), targets)
    layers, data, targets = network(torch)
    with kit.Precision(torch):
        loss, got = gradients(torch, layers.to(device), data.to(device), targets.to(device))
    key = "error_" + kit.label_of("float32")
    kit.note_worst(measured, key, kit.relative_error(torch, got, wanted))
    kit.note_worst(measured, key, abs(loss - wanted_loss) / abs(wanted_loss))
    return measured, {}


def torch_amp(torch, index, mode):
    """Mixed precision as training uses it: autocast, a scaled loss, one step of an optimiser that changes the loss."""
    kit.need(torch, "autocast", "cuda.amp.GradScaler", "optim.SGD", "nn.Sequential")
    device = kit.device_of(index)
    layers, data, targets = network(torch)
    layers, data, targets = layers.to(device), data.to(device), targets.to(device)
    wanted = torch.nn.functional.cross_entropy(layers(data), targets)
    # A scale at which nothing overflows, so that no step is left out.
    if hasattr(getattr(torch, "amp", None), "GradScaler"):
        scaler = torch.amp.GradScaler("cuda", init_scale=256.0)
    else:
        scaler = torch.cuda.amp.GradScaler(init_scale=256.0)
    optimiser = torch.optim.SGD(layers.parameters(), lr=0.05)
    measured, losses = {}, []
    for _ in range(6):
        optimiser.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            answer = layers(data)
            loss = torch.nn.functional.cross_entropy(answer, targets)
        scaler.scale(loss).backward()
        scaler.step(optimiser)
        scaler.update()
        losses.append(float(loss.detach()))
    measured["half_used"] = answer.dtype == torch.float16
    measured["error_loss"] = abs(losses[0] - float(wanted)) / abs(float(wanted))
    measured["loss_first"], measured["loss_last"] = losses[0], losses[-1]
    measured["loss_falls"] = losses[-1] < losses[0]
    return measured, {}


def torch_compile(torch, index, mode):
    kit.need(torch, "compile")
    try:
        __import__("triton")
    except ImportError:
        raise kit.Skipped("Triton is not installed, and torch.compile needs it for a GPU")
    device = kit.device_of(index)

    def plain(data, weight):
        hidden = torch.relu(torch.matmul(data, weight)) + torch.sin(data)
        return torch.softmax(hidden * 1.5 - hidden.mean(dim=-1, keepdim=True), dim=-1)

    torch.manual_seed(13)
    data, weight = torch.randn(65, 128), torch.randn(128, 128) / 11
    began = time.time()
    try:
        compiled = torch.compile(plain)
    except RuntimeError as error:  # no support for this Python or this system
        raise kit.Skipped("torch.compile cannot be used here: %s" % str(error).splitlines()[0])
    with kit.Precision(torch):
        got = compiled(data.to(device), weight.to(device))
    measured = {"seconds": round(time.time() - began, 2)}
    measured["error_" + kit.label_of("float32")] = kit.relative_error(
        torch, got, plain(data.to(torch.float64), weight.to(torch.float64))
    )
    return measured, {}


def cpu_tensor(torch, index, mode):
    kit.need(torch, "randn", "manual_seed", "float32", "float64", "tensor", "matmul")
    left = [[(row * 7 + column * 3) % 11 - 5 for column in range(13)] for row in range(17)]
    right = [[(row * 5 + column * 2) % 13 - 6 for column in range(19)] for row in range(13)]
    exact = [[sum(a * b for a, b in zip(row, column)) for column in zip(*right)] for row in left]
    got = torch.matmul(torch.tensor(left, dtype=torch.float64), torch.tensor(right, dtype=torch.float64)).tolist()
    measured = {"integers_exact": got == exact}
    measured["error_float32"] = product_error(torch, "cpu", "float32", 257, 512, 129)
    return measured, {}


TESTS = {
    "torch.init": torch_init,
    "torch.arch": torch_arch,
    "torch.matmul": torch_matmul,
    "torch.conv": torch_conv,
    "torch.rnn": torch_rnn,
    "torch.fft": torch_fft,
    "torch.reduce": torch_reduce,
    "torch.autograd": torch_autograd,
    "torch.amp": torch_amp,
    "torch.compile": torch_compile,
    "cpu.tensor": cpu_tensor,
}

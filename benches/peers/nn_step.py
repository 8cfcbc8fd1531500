"""Training steps of a wide ResNet in PyTorch: the peer of `benches/nn_step.rs`.

    python benches/peers/nn_step.py BATCH STEPS THREADS

Prints `step seconds cpu_seconds` per step, then `peak MB`; driven by the bench, which interleaves both.
"""
import resource
import sys
import time

import torch
from torch.nn import functional as F
from wide_resnet import WideResNet

batch, steps, threads = (int(a) for a in sys.argv[1:4])
torch.set_num_threads(threads)
model = WideResNet(28, 2)
decayed = [p for p in model.parameters() if p.dim() > 1]
spared = [p for p in model.parameters() if p.dim() <= 1]
groups = [{"params": decayed, "weight_decay": 5e-4}, {"params": spared, "weight_decay": 0.0}]
optimiser = torch.optim.SGD(groups, lr=0.03, momentum=0.9, nesterov=True)
x = torch.rand(batch, 3, 32, 32)
classes = torch.arange(batch) % 10
for step in range(steps):
    start, cpu = time.perf_counter(), time.process_time()
    optimiser.zero_grad()
    loss = F.cross_entropy(model(x), classes)
    loss.backward()
    optimiser.step()
    print("step", time.perf_counter() - start, time.process_time() - cpu, flush=True)
assert torch.isfinite(loss)
print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)

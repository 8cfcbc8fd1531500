"""Strong views of CIFAR-10 images by torchvision: the peer of `augmentations --dataset cifar10 --data DIR --speed`.

    python benches/peers/augmentations.py DIR/data_batch_1.bin [WORKERS]

Crop, flip, RandAugment(2, 9), normalisation and a hole of 16 pixels, in batches of 448 from DataLoader workers; images a
second, the best of three passes over 10,000 images, the start of the workers not counted.
"""
import sys
import time

import numpy as np
import torch
from PIL import Image
from torchvision import transforms as T

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616)


def hole(x):
    row, col = (int(torch.randint(32, (1,))) for _ in range(2))
    x[:, max(0, row - 8):row + 8, max(0, col - 8):col + 8] = 0
    return x


class Views(torch.utils.data.Dataset):
    def __init__(self, path):
        raw = np.fromfile(path, dtype=np.uint8).reshape(-1, 3073)[:, 1:].reshape(-1, 3, 32, 32)
        self.images = [Image.fromarray(a.transpose(1, 2, 0)) for a in raw]
        self.view = T.Compose([T.RandomCrop(32, 4, padding_mode="reflect"), T.RandomHorizontalFlip(), T.RandAugment(2, 9),
                               T.ToTensor(), T.Normalize(MEAN, STD), hole])

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.view(self.images[i])


if __name__ == "__main__":
    workers = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    torch.set_num_threads(1)
    views, best = Views(sys.argv[1]), 0.0
    for _ in range(3):
        batches = iter(torch.utils.data.DataLoader(views, batch_size=448, num_workers=workers))
        next(batches)
        start, seen = time.perf_counter(), 0
        for batch in batches:
            seen += len(batch)
        best = max(best, seen / (time.perf_counter() - start))
    print("torchvision, strong: %.0f images/s from %d workers" % (best, workers))

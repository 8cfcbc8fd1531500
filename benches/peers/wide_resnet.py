"""The wide residual network of the paper's experiments in PyTorch, with the same names as ours."""
import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride, activates_first):
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs, momentum=0.001)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs, momentum=0.001)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.shortcut = None
        if inputs != outputs or stride != 1:
            self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, 0, bias=False)
        self.activates_first = activates_first

    def forward(self, x):
        active = F.leaky_relu(self.norm1(x), 0.1)
        straight = active if self.activates_first else x
        if self.shortcut is not None:
            straight = self.shortcut(straight)
        return straight + self.conv2(F.leaky_relu(self.norm2(self.conv1(active)), 0.1))


class WideResNet(nn.Module):
    def __init__(self, depth, width, channels=3, classes=10):
        super().__init__()
        self.stem = nn.Conv2d(channels, 16, 3, 1, 1, bias=False)
        inputs, self.blocks = 16, []
        for group in range(3):
            module = nn.Module()
            for index in range((depth - 4) // 6):
                outputs = 16 * width << group
                stride = 2 if group > 0 and index == 0 else 1
                block = Block(inputs, outputs, stride, group == 0 and index == 0)
                module.add_module(f"block{index + 1}", block)
                self.blocks.append([block])  # in a list: registered once only
                inputs = outputs
            self.add_module(f"group{group + 1}", module)
        self.norm = nn.BatchNorm2d(inputs, momentum=0.001)
        self.head = nn.Linear(inputs, classes)

    def forward(self, x):
        x = self.stem(x)
        for (block,) in self.blocks:
            x = block(x)
        return self.head(F.leaky_relu(self.norm(x), 0.1).mean((2, 3)))

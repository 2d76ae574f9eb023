"""Muon for the stacked matrices, AdamW for the rest.

Muon (Keller Jordan et al., 2024) replaces the momentum matrix by the nearest orthogonal one, found with a fifth-order
Newton-Schulz iteration. On models of this size it needs about half the steps of AdamW.
"""

import torch


def orthogonalized(g):
    """g [n, rows, columns] -> matrices with singular values near 1. The coefficients are those of the Muon report."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.bfloat16()
    wide = x.size(-2) > x.size(-1)
    x = x.mT if wide else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        s = x @ x.mT
        x = a * x + (b * s + c * s @ s) @ x
    return (x.mT if wide else x).to(g.dtype)


class Muon:
    def __init__(self, parameters, learning_rate, weight_decay, momentum=0.95):
        self.parameters = list(parameters)
        self.momentum_buffers = [torch.zeros_like(p) for p in self.parameters]
        self.learning_rate, self.weight_decay, self.momentum = learning_rate, weight_decay, momentum

    @torch.no_grad()
    def step(self, scale: float):
        """`scale` is the schedule's factor for this step."""
        rate = self.learning_rate * scale
        for p, m in zip(self.parameters, self.momentum_buffers):
            m.lerp_(p.grad, 1 - self.momentum)
            update = orthogonalized(torch.lerp(p.grad, m, self.momentum))
            p.mul_(1 - rate * self.weight_decay)
            p.add_(update, alpha=-rate * max(1.0, p.size(-2) / p.size(-1)) ** 0.5)

"""Endless training rows from worker processes, kept in a growing pool on the device.

Workers write examples as [prompt length, answer length, one answer?, prompt ids, answer ids], padded to one row of a fixed
width. The pool keeps them all; a batch of rows of length T takes random examples that fit into T and pads each with the end
token to exactly T. So no row needs an attention mask, and windows of every size from a few positions up to about 250 are seen.
"""

import multiprocessing as mp
import queue
import threading

import numpy as np
import torch

from examples import HEAD, LONGEST, produce

GROUPS = (40, 48, 64, 96, 128, 192, 256)         # examples are kept by the smallest of these that they fit
LONGEST_SHARE = 0.35                             # of the rows of a batch: from the longest group that fits
GROUP_SHARES = (1.5, 1.2, 1, 1, 1, 1, 1)        # how the other groups share the rest
WAITING = 1024                                   # chunks received and not yet taken in, at most


class Pool:
    """All examples so far, grouped by the smallest row length they fit."""

    def __init__(self, tokenizer, seed, workers, weights, practice, device, chunk=1024, capacity=1 << 22):
        context = mp.get_context("spawn")
        self.queue = context.Queue(maxsize=256)
        self.workers = [context.Process(target=produce, daemon=True,
                                        args=(tokenizer.architecture, seed + i, weights, practice, self.queue, chunk))
                        for i in range(workers)]
        for worker in self.workers:
            worker.start()
        self.device, self.total = device, 0
        self.capacity = capacity
        self.groups = [torch.zeros(capacity // len(GROUPS), HEAD + LONGEST, dtype=torch.int16, device=device) for _ in GROUPS]
        self.sizes = [0] * len(GROUPS)
        # A thread that waits for the workers: asked now and then without waiting, their pipe seems empty most of the time.
        self.ready = queue.Queue(maxsize=WAITING)
        threading.Thread(target=self.receive, daemon=True).start()

    def receive(self):
        """Without end: chunks with their rows in order of group, and how many each group has."""
        while True:
            chunk = self.queue.get()
            group_of = np.searchsorted(np.array(GROUPS), chunk[:, 0].astype(int) + chunk[:, 1])
            rows = torch.from_numpy(chunk[group_of.argsort(kind="stable")])
            self.ready.put((rows.pin_memory() if self.device.type == "cuda" else rows,
                            np.bincount(group_of, minlength=len(GROUPS)).tolist()))

    def absorb(self, at_least=0, limit=8):
        """Takes in what the workers have ready, `limit` chunks at most; waits until the pool holds `at_least` examples."""
        taken = 0
        while self.total < at_least or taken < limit:
            try:
                rows, counts = self.ready.get(block=self.total < at_least)
            except queue.Empty:
                return
            taken += 1
            for g, part in enumerate(rows.to(self.device, non_blocking=True).split(counts)):
                if len(part):
                    self.put(g, part)
            self.total += len(rows)

    def put(self, g, rows):
        """Appends, and starts over at the oldest once the group is full."""
        size = self.groups[g].size(0)
        at = self.sizes[g] % size
        first = min(len(rows), size - at)
        self.groups[g][at:at + first] = rows[:first]
        if first < len(rows):
            self.groups[g][:len(rows) - first] = rows[first:]
        self.sizes[g] += len(rows)

    def rows(self, length, rows, generator):
        """Examples that fit into `length` as the workers wrote them, [rows, HEAD + LONGEST] int16.

        Many come from the longest examples that fit, or a batch of long rows would be padding mostly; the others are
        shared out among the shorter groups, so that short answers are learned in long windows too.
        """
        held = [min(s, g.size(0)) for s, g in zip(self.sizes, self.groups)]
        fits = [g for g, longest in enumerate(GROUPS) if longest <= length and held[g] > 0]
        top, others = rows if len(fits) == 1 else int(rows * LONGEST_SHARE), fits[:-1]
        shares = {g: GROUP_SHARES[g] for g in others}
        counts = {g: int((rows - top) * share / sum(shares.values())) for g, share in shares.items()}
        counts[fits[-1]] = rows - sum(counts.values())
        return torch.cat([self.groups[g][torch.randint(held[g], (count,), device=self.device, generator=generator)]
                          for g, count in counts.items()])

    def close(self):
        for worker in self.workers:
            worker.terminate()


def unpack(rows, length, eos):
    """tokens [rows, length] int64; [rows] each: prompt lengths, answer lengths (with the end-of-turn token), 1 if one answer."""
    tokens = rows.new_full((len(rows), length), eos)
    tokens[:, :min(length, LONGEST)] = rows[:, HEAD:HEAD + length]
    return (tokens.long(), *rows[:, :HEAD].long().unbind(1))

"""Endless training rows from worker processes, kept in a growing pool on the device.

Workers write examples as [prompt length, answer length, prompt ids, answer ids], padded to one row of a fixed width. The
pool keeps them all; a batch of rows of length T takes random examples that fit into T and pads each with the end token to
exactly T. So no row needs an attention mask, and windows of every size from a few positions up to about 200 are seen.
"""

import multiprocessing as mp
import queue

import numpy as np
import torch

LONGEST = 256                                   # tokens of prompt and answer together
GROUPS = (64, 96, 128, 192, 256)                # examples are kept by the smallest of these that they fit


def produce(architecture, seed, weights, out, chunk):
    from generator import stream
    from tokenizer import Tokenizer
    tokenizer = Tokenizer(architecture)
    rows, filled = np.zeros((chunk, LONGEST + 2), np.int16), 0
    for task, instance in stream(seed, weights=weights):
        prompt, answer = tokenizer.prompt_ids(instance.prompt), tokenizer.answer_ids(instance.answer)
        n = len(prompt) + len(answer)
        if n > LONGEST:
            continue
        rows[filled, 0], rows[filled, 1] = len(prompt), len(answer)
        rows[filled, 2:2 + n] = prompt + answer
        rows[filled, 2 + n:] = tokenizer.eos
        filled += 1
        if filled == chunk:
            out.put(rows.copy())
            filled = 0


class Pool:
    """All examples so far, grouped by the smallest row length they fit."""

    def __init__(self, tokenizer, seed, workers, weights, device, chunk=1024, capacity=1 << 22):
        self.eos = tokenizer.eos
        context = mp.get_context("spawn")
        self.queue = context.Queue(maxsize=256)
        self.workers = [context.Process(target=produce, args=(tokenizer.architecture, seed + i, weights, self.queue, chunk), daemon=True)
                        for i in range(workers)]
        for worker in self.workers:
            worker.start()
        self.device, self.total = device, 0
        self.capacity = capacity
        self.groups = [torch.zeros(capacity // len(GROUPS), LONGEST + 2, dtype=torch.int16, device=device) for _ in GROUPS]
        self.sizes = [0] * len(GROUPS)

    def absorb(self, at_least=0, limit=8):
        """Takes in what the workers have ready, `limit` chunks at most; waits until the pool holds `at_least` examples."""
        taken = 0
        while self.total < at_least or taken < limit:
            try:
                chunk = self.queue.get(block=self.total < at_least)
            except queue.Empty:
                return
            taken += 1
            lengths = chunk[:, 0].astype(int) + chunk[:, 1]
            group_of = np.searchsorted(np.array(GROUPS), lengths)
            for g in range(len(GROUPS)):
                rows = torch.from_numpy(chunk[group_of == g]).to(self.device, non_blocking=True)
                if len(rows):
                    self.put(g, rows)
            self.total += len(chunk)

    def put(self, g, rows):
        """Appends, and starts over at the oldest once the group is full."""
        size = self.groups[g].size(0)
        at = self.sizes[g] % size
        first = min(len(rows), size - at)
        self.groups[g][at:at + first] = rows[:first]
        if first < len(rows):
            self.groups[g][:len(rows) - first] = rows[first:]
        self.sizes[g] += len(rows)

    def batch(self, length, rows, generator):
        """tokens [rows, length] int64, prompt lengths [rows], answer lengths [rows] (with the end-of-turn token).

        Half of the rows come from the longest examples that fit, or a batch of long rows would be padding mostly; the
        other half is shared out evenly among the shorter groups.
        """
        held = [min(s, g.size(0)) for s, g in zip(self.sizes, self.groups)]
        fits = [g for g, longest in enumerate(GROUPS) if longest <= length and held[g] >= 64]
        top, others = rows if len(fits) == 1 else rows // 2, fits[:-1]
        counts = {g: (rows - top) // len(others) for g in others}
        counts[fits[-1]] = rows - sum(counts.values())
        picked = []
        for g, count in counts.items():
            index = torch.randint(held[g], (count,), device=self.device, generator=generator)
            picked.append(self.groups[g][index])
        taken = torch.cat(picked)
        tokens = taken.new_full((rows, length), self.eos)
        tokens[:, :min(length, LONGEST)] = taken[:, 2:2 + length]
        return tokens.long(), taken[:, 0].long(), taken[:, 1].long()

    def close(self):
        for worker in self.workers:
            worker.terminate()

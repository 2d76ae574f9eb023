"""Writes training examples as rows of token ids: what the worker processes of `batches.py` run."""

import numpy as np

from generator import stream
from tokenizer import Tokenizer

LONGEST = 256                                   # tokens of prompt and answer together


def produce(architecture, seed, weights, out, chunk):
    """Puts arrays [chunk, LONGEST + 2] into the queue `out`, without end."""
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

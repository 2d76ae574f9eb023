"""Writes training examples as rows of token ids: what the worker processes of `batches.py` run."""

import numpy as np

from generator import stream
from tokenizer import Tokenizer

LONGEST = 256                                   # tokens of prompt and answer together
HEAD = 3                                        # prompt length, answer length, 1 if there is one right answer


def produce(architecture, seed, weights, practice, out, chunk):
    """Puts arrays [chunk, HEAD + LONGEST] into the queue `out`, without end."""
    tokenizer = Tokenizer(architecture)
    rows, filled = np.zeros((chunk, HEAD + LONGEST), np.int16), 0
    for task, instance in stream(seed, weights=weights, practice=practice):
        prompt, answer = tokenizer.prompt_ids(instance.prompt), tokenizer.answer_ids(instance.answer)
        n = len(prompt) + len(answer)
        if n > LONGEST:
            continue
        rows[filled, :HEAD] = len(prompt), len(answer), task.one_answer
        rows[filled, HEAD:HEAD + n] = prompt + answer
        rows[filled, HEAD + n:] = tokenizer.eos
        filled += 1
        if filled == chunk:
            out.put(rows.copy())
            filled = 0

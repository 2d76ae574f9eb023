"""The two reference decoders at temperature 0, over many prompts at once.

LLaDA: blocks from left to right, in each step the most probable tokens of the block are committed. Dream: in each step
the least uncertain positions of the whole window. Both follow the public reference code; rows are independent.
"""

import torch


class Canvas:
    """Prompts of different lengths, each followed by `window` masks; rows padded on the right, which no key sees."""

    def __init__(self, tokenizer, prompts, window, device):
        self.tokenizer, self.window = tokenizer, window
        ids = [tokenizer.prompt_ids(p) for p in prompts]
        self.starts = torch.tensor([len(i) for i in ids], device=device)
        longest = max(map(len, ids)) + window
        self.tokens = torch.full((len(ids), longest), tokenizer.eos, device=device)
        for row, i in enumerate(ids):
            self.tokens[row, :len(i)] = torch.tensor(i, device=device)
            self.tokens[row, len(i):len(i) + window] = tokenizer.mask
        self.rows = torch.arange(len(ids), device=device)         # rows still being decoded

    def slots(self, rows, first, count):
        """Token positions of window places first .. first+count-1. [rows, count]"""
        return self.starts[rows, None] + torch.arange(first, first + count, device=rows.device)[None]

    def logits(self, model, rows, slots):
        """[rows, slots, vocab] of the given positions, the mask token excluded."""
        length = int(self.starts[rows].max()) + self.window
        tokens = self.tokens[rows, :length]
        keys = torch.arange(length, device=rows.device)[None] < self.starts[rows, None] + self.window
        # On a GPU in the arithmetic of training.
        dtype = torch.bfloat16 if tokens.is_cuda else torch.float32
        h = model.hidden(tokens, dtype, keys).view(*tokens.shape, -1)
        wanted = slots - 1 if model.config.shifted else slots
        h = h.gather(1, wanted[..., None].expand(-1, -1, h.size(-1)))
        scores = (h @ model.embedding.to(dtype).T).float()
        scores[..., self.tokenizer.mask] = -torch.inf
        return scores

    def commit(self, rows, slots, chosen, confidence, count):
        """Writes `chosen` at the `count` most confident masked slots of each row. count is an int or [rows]."""
        masked = self.tokens[rows[:, None], slots] == self.tokenizer.mask
        confidence = confidence.masked_fill(~masked, -torch.inf)
        order = confidence.argsort(dim=1, descending=True, stable=True)
        rank = torch.empty_like(order).scatter_(1, order, torch.arange(order.size(1), device=order.device).expand_as(order))
        take = masked & (rank < (count if isinstance(count, int) else count[:, None]))
        current = self.tokens[rows[:, None], slots]
        self.tokens[rows[:, None], slots] = torch.where(take, chosen, current)

    def unfinished(self, rows):
        """Rows whose text is not settled: no end token yet, or a mask before the first one."""
        answer = self.tokens[rows[:, None], self.slots(rows, 0, self.window)]
        ends = (answer == self.tokenizer.eos) | (answer == self.tokenizer.eot)
        before = ends.cumsum(1) == 0
        open_masks = ((answer == self.tokenizer.mask) & before).any(1)
        return rows[open_masks | (~ends.any(1) & (answer == self.tokenizer.mask).any(1))]

    def texts(self):
        answer = self.tokens[self.rows[:, None], self.slots(self.rows, 0, self.window)].tolist()
        stops = (self.tokenizer.eos, self.tokenizer.eot)
        cut = [next((i for i, t in enumerate(row) if t in stops), len(row)) for row in answer]
        return [self.tokenizer.decode(row[:end]) for row, end in zip(answer, cut)]


def spread(total: int, parts: int) -> list[int]:
    """`total` in `parts` shares, the larger ones first (LLaDA `get_num_transfer_tokens`)."""
    return [total // parts + (i < total % parts) for i in range(parts)]


@torch.no_grad()
def decode_llada(model, tokenizer, prompts, window, tokens_per_step, block=32):
    canvas = Canvas(tokenizer, prompts, window, model.embedding.device)
    for first in range(0, window, block):
        for count in spread(block, max(1, block // tokens_per_step)):
            rows = canvas.unfinished(canvas.rows)
            if not len(rows):
                return canvas.texts()
            slots = canvas.slots(rows, first, block)
            confidence, chosen = canvas.logits(model, rows, slots).softmax(-1).max(-1)
            canvas.commit(rows, slots, chosen, confidence, count)
    return canvas.texts()


@torch.no_grad()
def decode_dream(model, tokenizer, prompts, window, tokens_per_step, epsilon=1e-3):
    canvas = Canvas(tokenizer, prompts, window, model.embedding.device)
    steps = max(1, window // tokens_per_step)
    times = torch.linspace(1, epsilon, steps + 1)
    left = window
    for step in range(steps):
        count = int(left * (1 - times[step + 1] / times[step])) if step < steps - 1 else left
        left -= count
        if not count:
            continue
        rows = canvas.unfinished(canvas.rows)
        if not len(rows):
            break
        slots = canvas.slots(rows, 0, window)
        p = canvas.logits(model, rows, slots).softmax(-1)
        certainty = (p * (p + 1e-10).log()).sum(-1)
        canvas.commit(rows, slots, p.argmax(-1), certainty, count)
    return canvas.texts()


def decode(model, tokenizer, prompts, window, tokens_per_step, rows_at_once=1024):
    run = decode_llada if model.config.architecture == "llada" else decode_dream
    texts = []
    for start in range(0, len(prompts), rows_at_once):
        texts += run(model, tokenizer, prompts[start:start + rows_at_once], window, tokens_per_step)
    return texts

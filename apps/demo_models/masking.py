"""Which tokens of a training row are hidden, and how much each counts.

Start with `mask_rows`: masks drawn at random, the usual training of masked diffusion. `Unmasking` takes rows through their
decoding instead, in the order in which the model itself would commit.
"""

import torch

from batches import unpack
from examples import HEAD

LEAST_T = 0.1                        # 1/t is cut here; below it, the weight would be mostly variance
PADDING_TOKENS = 3.0                 # all padding of a row with many right answers weighs as much as this many of its tokens
# Shares of rows that are masked as decoding meets them, see mask_rows.
BLOCK_ROWS = {"llada": 0.35, "dream": 0.15}
PADDING_SHOWN = {"llada": 0.0, "dream": 0.0}
COMMON_SHOWN = {"llada": 0.1, "dream": 0.0}
N_COMMON = 120
BLOCK_SIZES = (32, 32, 32, 16, 64)   # drawn per row
# Unmasking: how much of a block's answer is still hidden at each state after the first; with the weight of later blocks.
LEFT = (1.0, 0.75, 0.5, 0.3, 0.12)
LATER_WEIGHT = 0.3


def common_tokens(pool, tokenizer):
    """[vocab], true for the N_COMMON most frequent answer tokens that hold no digit and no spelled letter."""
    rows = torch.cat([group[:size] for group, size in zip(pool.groups, pool.sizes)])
    place = torch.arange(rows.size(1) - HEAD, device=rows.device)[None]
    in_answer = (place >= rows[:, :1]) & (place < rows[:, :1] + rows[:, 1:2])
    counts = torch.bincount(rows[:, HEAD:][in_answer].long(), minlength=len(tokenizer.tokens))
    plain = torch.tensor([not (any(c.isdigit() for c in t) or (len(t) <= 2 and t[-1:].isalpha())) for t in tokenizer.tokens])
    counts = counts * plain.to(counts.device)
    return counts >= counts.sort(descending=True).values[N_COMMON]


def position_weights(at, answer, one_answer):
    """at [rows, length] (position in the answer), answer, one_answer [rows] -> the weight of each position.

    Rows: long answers count more, but not in proportion. Where there is one right answer all positions of a row weigh the
    same, padding too: a weight that depends on what a position truly holds teaches wrong probabilities. With padding at a
    twentieth of a token's weight, a network in doubt whether the text has ended gives text twenty times its chance, and
    decoding commits places of digits that are not there. Texts that may have any length want just that: with true
    probabilities their window fills with padding from its far end, more than the story had room for.
    """
    padding = at >= answer[:, None]
    of_padding = (PADDING_TOKENS / padding.sum(1, keepdim=True).clamp(min=1)).clamp(max=1.0)
    of_padding = torch.where(one_answer[:, None] > 0, 1.0, of_padding)
    return torch.where(padding, of_padding, 1.0) * (answer[:, None] + 4.0).rsqrt()


def mask_rows(tokens, prompt, answer, one_answer, common, shares, generator):
    """Chooses what to hide.

    tokens [rows, length]; prompt, answer, one_answer [rows]; common [vocab]; shares: the (block, padding, common) shares of rows.
    Returns the hidden positions and the loss weight of each, both [rows, length], and the sum the loss is divided by.

    Most rows follow LLaDA's fine-tuning: one t per row, every position of the window hidden with probability t, cross
    entropy weighted 1/t. The t of a batch are spread evenly over (0, 1). Decoding by confidence meets other states, which
    uniform masking almost never makes, so shares of the rows imitate them: semi-autoregressive rows (clean up to a block,
    hidden with probability t inside it, all hidden after it); rows whose padding is already there; rows whose most common
    tokens are already there. Hidden tokens of such rows are still predicted from what is shown, so the target is the same.
    """
    block_rows, padding_shown, common_shown = shares
    rows, length = tokens.shape
    device = tokens.device

    def uniform(*shape):
        return torch.rand(*shape, device=device, generator=generator)

    t = (torch.arange(rows, device=device) + uniform(1)) / rows
    t = t[torch.randperm(rows, device=device, generator=generator)][:, None]
    at = torch.arange(length, device=device)[None] - prompt[:, None]
    size = torch.tensor(BLOCK_SIZES, device=device)[(uniform(rows) * len(BLOCK_SIZES)).long()][:, None]
    current = (uniform(rows, 1) * (answer[:, None] / size + 1)).long()
    current = torch.where(uniform(rows, 1) < block_rows, current, -1)
    block = torch.div(at, size, rounding_mode="floor")
    chance = torch.where(current < 0, t, torch.where(block < current, 0.0, torch.where(block > current, 1.0, t)))
    padding = at >= answer[:, None]
    # Padding is shown from some way behind the answer on: shown from its very end, it would give the length away, and
    # a model that has learned to trust it goes wrong while the padding is being filled in from the far end.
    near = 40 * uniform(rows, 1) * uniform(rows, 1)
    anywhere = (length - prompt - answer)[:, None] * uniform(rows, 1)
    edge = answer[:, None] + torch.where(uniform(rows, 1) < 0.5, near, anywhere).long()
    shown = (at >= edge) & (uniform(rows, 1) < padding_shown) | common[tokens] & (uniform(rows, 1) < common_shown)
    hidden = (uniform(rows, length) < chance) & (at >= 0) & ~shown
    weight = position_weights(at, answer, one_answer)
    return hidden, torch.where(hidden, weight / chance.clamp(min=LEAST_T), 0.0), (weight * (at >= 0)).sum()


class Unmasking:
    """Rows on their way through decoding: the truth where the model would have committed already, masks elsewhere.

    Random masks almost never give the states that decoding by confidence meets, where what is left is what the model is
    least sure of. So a batch is kept for several steps: first all of a block is hidden (for Dream, the whole window), and
    after each step the places that the model was most certain of show their true token. Which places are shown depends only
    on what was visible before, so the right prediction of the rest is what it always was.
    """

    def __init__(self, rows, length, tokenizer, generator):
        self.rows, self.architecture, self.generator = rows, tokenizer.architecture, generator
        self.tokens, prompt, self.answer, one_answer = unpack(rows, length, tokenizer.eos)
        at = torch.arange(length, device=rows.device)[None] - prompt[:, None]
        size = torch.full((len(rows), 1), length, device=rows.device)
        if tokenizer.architecture == "llada":
            size = torch.tensor(BLOCK_SIZES, device=rows.device)[(self.uniform(len(rows), 1) * len(BLOCK_SIZES)).long()]
        block = torch.div(at, size, rounding_mode="floor")
        current = (self.uniform(len(rows), 1) * ((self.answer[:, None] + size - 1) // size)).long()
        self.active, self.later = (block == current) & (at >= 0), block > current
        self.hidden = self.active | self.later
        self.weight = position_weights(at, self.answer, one_answer) * torch.where(self.later, LATER_WEIGHT, 1.0)
        self.in_answer = (self.active & (at < self.answer[:, None])).sum(1)
        self.text = self.active & (at < self.answer[:, None] + 3)
        self.wrong = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
        self.state = 0

    def uniform(self, *shape):
        return torch.rand(*shape, device=self.rows.device, generator=self.generator)

    def weights(self):
        """As mask_rows: the loss weight of each position and the sum the loss is divided by."""
        share = (self.text & self.hidden).sum(1, keepdim=True) / self.text.sum(1, keepdim=True)
        return (torch.where(self.active, self.weight / share.clamp(min=LEAST_T), self.weight) * self.hidden,
                (self.weight * (self.active | self.later)).sum())

    def commit(self, certainty, chosen):
        """Shows more of the truth, where `certainty` is greatest; notes where the token `chosen` there was wrong.

        certainty, chosen [rows, length]. Returns True after the last state.
        """
        if self.state == len(LEFT):
            return True
        # Spread widely: a fixed share of the answer would tell how long it is.
        left = (LEFT[self.state] + 0.24 * (self.uniform(len(self.rows)) - 0.5)) * self.in_answer
        left = left + 6 * self.uniform(len(self.rows))
        self.state += 1
        candidates = self.active & self.hidden
        order = certainty.masked_fill(~candidates, -torch.inf).argsort(dim=1, descending=True)
        place = torch.arange(order.size(1), device=order.device).expand_as(order)
        rank = torch.empty_like(order).scatter_(1, order, place)
        shown = candidates & (rank < (candidates.sum(1) - left.long().clamp(min=1))[:, None])
        self.wrong |= (shown & (chosen != self.tokens)).any(1)
        self.hidden = self.hidden & ~shown
        return False

    def failed(self):
        """The rows with one right answer of which the model would have committed a wrong token."""
        return self.rows[self.wrong & (self.rows[:, 2] == 1)]

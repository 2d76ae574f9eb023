"""Trains one demo model and writes its last and its averaged weights, each quantised (the GGUF file to ship) and as F32.

    python3 train.py --architecture llada --seconds 780 --out DIR          # one GPU
    python3 train.py --architecture dream --steps 20 --micro --out DIR     # a minute on a CPU, to try the code

Start with `mask_rows` in masking.py, which is the whole idea; the rest is feeding it. Schedule and length are given in
seconds, or in steps with --steps. --from-gguf continues from the weights of a finished file.
"""

import argparse
import contextlib
import copy
import csv
import random
import time
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F

import export_gguf
from batches import Pool, unpack
from masking import BLOCK_ROWS, COMMON_SHOWN, PADDING_SHOWN, Unmasking, common_tokens, mask_rows
from model import CONFIGS, DiffusionModel
from optimizer import Muon
from quantize import rounded
from tokenizer import Tokenizer

TOKENS_PER_STEP = 122_880            # divisible by every row length
# length: share of steps. Rows of 40 and 48 are short questions in a window of 8 to 32.
ROW_LENGTHS = {40: 0.04, 48: 0.08, 64: 0.14, 96: 0.19, 128: 0.17, 160: 0.14, 192: 0.15, 256: 0.07, 320: 0.02}
UNMASKING_AT_ONCE = 6                # batches on their way: neighbouring steps see different rows
MOST_REPEATED = 0.2                  # of a batch: rows that went wrong in the last one of the same length
AVERAGED_STEPS = 300                 # what the average of the weights remembers
CHECKPOINTS_AT = (0.4, 0.7, 0.9)     # of the run: a file of the average is written
ROUNDED_EVERY = 16                   # steps: how old the rounding that the network trains with may be


def weighted_cross_entropy(h, embedding, targets, weights):
    """h [n, width], targets [n], weights [n] -> sum of weight * cross entropy."""
    return (F.cross_entropy(F.linear(h, embedding).float(), targets, reduction="none") * weights).sum()


def cross_entropy_and_choice(h, embedding, targets, weights, by_entropy: bool):
    """The same sum, and what decoding would do: certainty and most probable token of each row, both [n].

    Certainty is the probability of that token (LLaDA) or the negative entropy (Dream); for the order the logarithm will do.
    """
    logits = F.linear(h, embedding).float()
    loss = (F.cross_entropy(logits, targets, reduction="none") * weights).sum()
    seen = logits.detach()
    log_sum = seen.logsumexp(-1)
    top, chosen = seen.max(-1)
    if by_entropy:
        return loss, ((seen - log_sum[:, None]).exp() * (seen - log_sum[:, None])).sum(-1), chosen
    return loss, top - log_sum, chosen


class Losses:
    """The two kinds of training step: `masked` hides at random, `unmasking` takes kept rows one state further."""

    def __init__(self, model, tokenizer, pool, common, generator, compiled: bool):
        self.model, self.tokenizer, self.pool, self.common, self.generator = model, tokenizer, pool, common, generator
        self.dtype = torch.bfloat16 if compiled else torch.float32
        functions = weighted_cross_entropy, cross_entropy_and_choice
        self.plain, self.with_choice = (torch.compile(f, dynamic=False) for f in functions) if compiled else functions
        self.live = [None] * UNMASKING_AT_ONCE
        self.again = {}                                     # row length: rows that went wrong
        self.failed = self.finished = 0

    def hidden_states(self, tokens, hidden):
        seen = torch.where(hidden, self.tokenizer.mask, tokens)
        return self.model.hidden(seen, self.dtype), self.model.embedding.to(self.dtype)

    def moved(self, x, by):
        """For shifted logits row i-1 answers for position i. by: -1 from positions to rows, 1 back."""
        return x.roll(by, 1) if self.model.config.shifted else x

    def masked(self, length, rows):
        tokens, *of_rows = unpack(self.pool.rows(length, rows, self.generator), length, self.tokenizer.eos)
        shares = [share[self.tokenizer.architecture] for share in (BLOCK_ROWS, PADDING_SHOWN, COMMON_SHOWN)]
        hidden, weights, total = mask_rows(tokens, *of_rows, self.common, shares, self.generator)
        h, embedding = self.hidden_states(tokens, hidden)
        return self.plain(h, embedding, self.moved(tokens, -1).flatten(), self.moved(weights, -1).flatten()) / total

    def begin(self, length, rows):
        taken = self.pool.rows(length, rows, self.generator)
        again = self.again.pop(length, taken[:0])[:int(MOST_REPEATED * rows)]
        taken[:len(again)] = again
        return Unmasking(taken, length, self.tokenizer, self.generator)

    def unmasking(self, slot, length, rows):
        """`length` and `rows` count for a batch that begins here."""
        batch = self.live[slot] or self.begin(length, rows)
        weights, total = batch.weights()
        h, embedding = self.hidden_states(batch.tokens, batch.hidden)
        loss, *choice = self.with_choice(h, embedding, self.moved(batch.tokens, -1).flatten(), self.moved(weights, -1).flatten(),
                                         self.model.config.shifted)
        done = batch.commit(*(self.moved(x.view(batch.tokens.shape), 1) for x in choice))
        self.live[slot] = None if done else batch
        if done:
            failed = batch.failed()
            self.again[batch.tokens.size(1)] = failed
            self.failed += len(failed)
            self.finished += int((batch.rows[:, 2] == 1).sum())
        return loss / total

    def share_failed(self):
        """Of the rows with one right answer since the last call, per cent in which a wrong token would have been committed."""
        share, self.failed, self.finished = 100 * self.failed / max(1, self.finished), 0, 0
        return share


class Rounding:
    """Matrices rounded as the file rounds them, for the length of a forward and a backward pass: the network learns to live with it.

    The optimizer changes the exact weights. What rounding adds to them is worked out anew every ROUNDED_EVERY steps only, so
    in between they are near what the file will hold, not equal to it.
    """

    def __init__(self, model):
        self.matrices = {name: getattr(model, name) for name in (*model.MATRICES, "embedding")}
        self.kinds = {name: export_gguf.kind_of(model.config.architecture, name) for name in self.matrices}
        self.offsets, self.age = None, 0

    @torch.no_grad()
    def __enter__(self):
        if self.age % ROUNDED_EVERY == 0:
            self.offsets = [rounded(w, self.kinds[name]) - w for name, w in self.matrices.items()]
        self.age += 1
        torch._foreach_add_(list(self.matrices.values()), self.offsets)

    @torch.no_grad()
    def __exit__(self, *_):
        torch._foreach_sub_(list(self.matrices.values()), self.offsets)


def schedule(progress: float, step: int, decay_from: float, warm_up: int) -> float:
    """Warm up, stay, then fall linearly to zero."""
    return min(1.0, (step + 1) / warm_up) * min(1.0, (1.0 - progress) / (1.0 - decay_from))


class Clock:
    """How far the run is. Its time starts at the tenth step: compilation is not training time."""

    def __init__(self, args):
        self.args, self.started, self.elapsed = args, None, 0.0

    def progress(self, step: int) -> float:
        if step == 10 or self.started is None:
            self.started = time.time()
        self.elapsed = time.time() - self.started
        if self.args.steps:
            return step / self.args.steps
        return self.elapsed / (self.args.until - self.started if self.args.until else self.args.seconds)


class Training:
    """Network, average of its weights, optimizers and examples."""

    def __init__(self, args, config, tokenizer, device):
        torch.manual_seed(args.seed)
        self.args, self.on_gpu = args, device.type == "cuda"
        generator = torch.Generator(device).manual_seed(args.seed)
        self.pool = Pool(tokenizer, 1000 * args.seed, args.workers, args.weights, args.practice, device,
                         chunk=64 if args.micro else 1024, capacity=1 << 14 if args.micro else 1 << 22)
        self.model = DiffusionModel(config).to(device)
        if args.from_gguf:
            export_gguf.load_into(self.model, args.from_gguf)
        self.average, self.rounding = copy.deepcopy(self.model), Rounding(self.model)
        if self.on_gpu:
            self.model.compile_parts()
        matrices = [getattr(self.model, name) for name in self.model.MATRICES]
        others = [p for p in self.model.parameters() if all(p is not m for m in matrices)]
        self.muon = Muon(matrices, args.muon_rate, weight_decay=0.1)
        self.adam = torch.optim.AdamW(others, lr=args.adam_rate, betas=(0.9, 0.98), weight_decay=0.0, fused=self.on_gpu)
        self.pool.absorb(at_least=1000 if args.micro else 20_000 if args.from_gguf else 60_000)
        self.losses = Losses(self.model, tokenizer, self.pool, common_tokens(self.pool, tokenizer), generator, self.on_gpu)
        self.draw = random.Random(args.seed)

    def step(self, number: int, progress: float):
        """One batch; returns its loss, on the device."""
        length = self.draw.choices(list(ROW_LENGTHS), list(ROW_LENGTHS.values()))[0]
        rows = (2048 if self.args.micro else TOKENS_PER_STEP) // length
        with self.rounding if progress >= self.args.rounded_from else contextlib.nullcontext():
            if self.draw.random() < self.args.unmasking:
                loss = self.losses.unmasking(number % UNMASKING_AT_ONCE, length, rows)
            else:
                loss = self.losses.masked(length, rows)
            loss.backward()
        scale = schedule(progress, number, self.args.decay_from, self.args.warm_up)
        for group in self.adam.param_groups:
            group["lr"] = self.args.adam_rate * scale
        self.muon.step(scale)
        self.adam.step()
        self.model.zero_grad(set_to_none=True)
        with torch.no_grad():
            torch._foreach_lerp_(list(self.average.parameters()), list(self.model.parameters()),
                                 max(1 / AVERAGED_STEPS, 1 / (number + 1)))
        if number % 8 == 7:
            self.pool.absorb(limit=16)
        return loss.detach()


def train(args, config, tokenizer, device):
    """Returns the last weights and their average."""
    training, clock = Training(args, config, tokenizer, device), Clock(args)
    path, checks = args.out / f"average-{config.architecture}.gguf", list(CHECKPOINTS_AT)
    curve, running, step = [], torch.zeros((), device=device), 0
    while (progress := clock.progress(step)) < 1.0:
        running += training.step(step, progress)
        step += 1
        if step % 50 == 0:
            curve.append((step, round(clock.elapsed, 1), round(float(running) / 50, 5), training.pool.total))
            running.zero_()
            if step % 250 == 0 or step == 50 or args.micro:
                print(*curve[-1], f"progress {progress:.3f} failed {training.losses.share_failed():.2f} %", flush=True)
        if checks and progress > checks[0]:
            checks.pop(0)
            export_gguf.write(training.average, tokenizer, path)      # in case the machine is lost
    training.pool.close()
    print(f"trained {step} steps in {clock.elapsed:.0f} s, {training.pool.total} examples made", flush=True)
    with open(args.out / f"{config.architecture}-loss.csv", "w", newline="") as out:
        csv.writer(out).writerows([("step", "seconds", "loss", "examples_made"), *curve])
    return training.model, training.average


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--architecture", choices=CONFIGS, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=780)
    parser.add_argument("--steps", type=int, default=0, help="instead of --seconds")
    parser.add_argument("--until", type=float, default=0, help="instead of --seconds: the time of day to end at, as time.time()")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--muon-rate", type=float, default=0.02)
    parser.add_argument("--adam-rate", type=float, default=2e-3)
    parser.add_argument("--warm-up", type=int, default=200, help="steps")
    parser.add_argument("--decay-from", type=float, default=0.4, help="share of the run after which the rate falls")
    parser.add_argument("--weights", type=lambda s: {k: float(v) for k, v in (i.split("=") for i in s.split(","))}, default=None,
                        help="task shares that differ from the generator's, as add=8,steps=6")
    parser.add_argument("--practice", type=float, default=0.0, help="share of instances from generator/practice.py")
    parser.add_argument("--unmasking", type=float, default=0.0, help="share of steps that follow decoding, see masking.py")
    parser.add_argument("--rounded-from", type=float, default=1.0,
                        help="share of the run after which the network trains with its matrices as the file will hold them")
    parser.add_argument("--from-gguf", type=Path)
    parser.add_argument("--micro", action="store_true", help="a tiny network, to try the code")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True

    tokenizer = Tokenizer(args.architecture)
    config = CONFIGS[args.architecture]
    if args.micro:
        config = replace(config, layers=2, width=256, heads=4, kv_heads=2 if config.kv_heads < config.heads else 4, ffn=256)
    for name, network in zip(("demo", "average"), train(args, config, tokenizer, device)):
        path = args.out / f"{name}-{args.architecture}.gguf"
        export_gguf.write(network, tokenizer, path)
        export_gguf.write(network, tokenizer, path.with_suffix(".f32.gguf"), exact=True)
        print(f"{path.name}: {path.stat().st_size} bytes", flush=True)
    print("written", flush=True)


if __name__ == "__main__":
    main()

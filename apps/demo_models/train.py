"""Trains one demo model, quantises it into a GGUF file and evaluates that file.

    python3 train.py --architecture llada --seconds 780 --out DIR          # one GPU
    python3 train.py --architecture dream --steps 20 --micro --out DIR     # a minute on a CPU, to try the code

Start with `mask_rows` in masking.py, which is the whole idea; the rest is feeding it. Schedule and length are given in
seconds, or in steps with --steps. --from-gguf continues from the weights of a finished file.
"""

import argparse
import copy
import csv
import random
import time
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F

import evaluate
import export_gguf
from batches import Pool, unpack
from masking import BLOCK_ROWS, COMMON_SHOWN, PADDING_SHOWN, Unmasking, common_tokens, mask_rows
from model import CONFIGS, DiffusionModel
from optimizer import Muon
from tokenizer import Tokenizer

TOKENS_PER_STEP = 122_880            # divisible by every row length
# length: share of steps. Rows of 40 and 48 are short questions in a window of 8 to 32.
ROW_LENGTHS = {40: 0.03, 48: 0.06, 64: 0.12, 96: 0.2, 128: 0.18, 160: 0.13, 192: 0.17, 256: 0.08, 320: 0.03}
UNMASKING_AT_ONCE = 6                # batches on their way: neighbouring steps see different rows
MOST_REPEATED = 0.2                  # of a batch: rows that went wrong in the last one of the same length
AVERAGED_STEPS = 300                 # what the average of the weights remembers


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
        self.plain, self.with_choice = ((torch.compile(f, dynamic=False) for f in (weighted_cross_entropy, cross_entropy_and_choice))
                                        if compiled else (weighted_cross_entropy, cross_entropy_and_choice))
        self.live = [None] * UNMASKING_AT_ONCE
        self.again = {}                                     # row length: rows that went wrong
        self.failed = self.finished = 0

    def hidden_states(self, tokens, hidden):
        return self.model.hidden(torch.where(hidden, self.tokenizer.mask, tokens), self.dtype), self.model.embedding.to(self.dtype)

    def moved(self, x, by):
        """For shifted logits row i-1 answers for position i. by: -1 from positions to rows, 1 back."""
        return x.roll(by, 1) if self.model.config.shifted else x

    def masked(self, length, rows):
        tokens, prompt, answer = unpack(self.pool.rows(length, rows, self.generator), length, self.tokenizer.eos)
        shares = [share[self.tokenizer.architecture] for share in (BLOCK_ROWS, PADDING_SHOWN, COMMON_SHOWN)]
        hidden, weights, total = mask_rows(tokens, prompt, answer, self.common, shares, self.generator)
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


def schedule(progress: float, step: int, decay_from: float, warm_up: int) -> float:
    """Warm up, stay, then fall linearly to zero."""
    return min(1.0, (step + 1) / warm_up) * min(1.0, (1.0 - progress) / (1.0 - decay_from))


def train(args, config, tokenizer, device):
    torch.manual_seed(args.seed)
    generator = torch.Generator(device).manual_seed(args.seed)
    pool = Pool(tokenizer, 1000 * args.seed, args.workers, args.weights, args.practice, device, chunk=64 if args.micro else 1024,
                capacity=1 << 14 if args.micro else 1 << 22)
    model = DiffusionModel(config).to(device)
    if args.from_gguf:
        export_gguf.load_into(model, args.from_gguf)
    average = copy.deepcopy(model)
    if device.type == "cuda":
        model.compile_parts()
    matrices = [getattr(model, name) for name in model.MATRICES]
    others = [p for p in model.parameters() if all(p is not m for m in matrices)]
    muon = Muon(matrices, args.muon_rate, weight_decay=0.1)
    adam = torch.optim.AdamW(others, lr=args.adam_rate, betas=(0.9, 0.98), weight_decay=0.0, fused=device.type == "cuda")
    pool.absorb(at_least=1000 if args.micro else 12_000 if args.from_gguf else 60_000)
    losses = Losses(model, tokenizer, pool, common_tokens(pool, tokenizer), generator, compiled=device.type == "cuda")

    lengths, shares = list(ROW_LENGTHS), list(ROW_LENGTHS.values())
    draw = random.Random(args.seed)
    checks = [] if args.from_gguf else [0.4, 0.8]          # where a look is taken and a file written, in case the machine is lost
    curve, running, step, started, stopped = [], torch.zeros((), device=device), 0, None, 0.0
    while True:
        if step == 10 or started is None:          # compilation is not training time
            started = time.monotonic()
        elapsed = time.monotonic() - started - stopped
        progress = step / args.steps if args.steps else elapsed / args.seconds
        if progress >= 1.0:
            break
        length = draw.choices(lengths, shares)[0]
        rows = (2048 if args.micro else TOKENS_PER_STEP) // length
        if draw.random() < args.unmasking:
            loss = losses.unmasking(step % UNMASKING_AT_ONCE, length, rows)
        else:
            loss = losses.masked(length, rows)
        loss.backward()
        scale = schedule(progress, step, args.decay_from, args.warm_up)
        for group in adam.param_groups:
            group["lr"] = args.adam_rate * scale
        muon.step(scale)
        adam.step()
        model.zero_grad(set_to_none=True)
        with torch.no_grad():
            torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), max(1 / AVERAGED_STEPS, 1 / (step + 1)))
        running += loss.detach()
        step += 1
        if step % 8 == 0:
            pool.absorb(limit=16)
        if step % 50 == 0:
            curve.append((step, round(elapsed, 1), round(float(running) / 50, 5), pool.total))
            running.zero_()
            if step % 500 == 0 or args.micro:
                print(*curve[-1], f"scale {scale:.3f} failed {losses.share_failed():.2f} %", flush=True)
        if checks and progress > checks[0]:
            checks.pop(0)
            before = time.monotonic()
            export_gguf.write(model, tokenizer, args.out / f"checkpoint-{config.architecture}.gguf")
            if not args.micro:
                evaluate.quick_look(model, tokenizer)
            stopped += time.monotonic() - before
    pool.close()
    print(f"trained {step} steps in {elapsed:.0f} s, {pool.total} examples made", flush=True)
    with open(args.out / f"{config.architecture}-loss.csv", "w", newline="") as out:
        csv.writer(out).writerows([("step", "seconds", "loss", "examples_made"), *curve])
    return model, average


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--architecture", choices=CONFIGS, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=780)
    parser.add_argument("--steps", type=int, default=0, help="instead of --seconds")
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
    parser.add_argument("--from-gguf", type=Path)
    parser.add_argument("--evaluate", choices=("all", "trained", "none"), default="all",
                        help="trained: only the weights before quantisation; evaluate.py does the rest")
    parser.add_argument("--micro", action="store_true", help="a tiny network, to try the code")
    parser.add_argument("--per-task", type=int, help="held-out prompts per task in the evaluation; default: all")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True

    tokenizer = Tokenizer(args.architecture)
    config = CONFIGS[args.architecture]
    if args.micro:
        config = replace(config, layers=2, width=256, heads=4, kv_heads=2 if config.kv_heads < config.heads else 4, ffn=256)
    model, average = train(args, config, tokenizer, device)
    path = args.out / f"demo-{args.architecture}.gguf"
    export_gguf.write(average, tokenizer, path.with_name(f"average-{args.architecture}.gguf"))
    export_gguf.write(model, tokenizer, path)
    print(f"{path.name}: {path.stat().st_size} bytes", flush=True)
    if args.evaluate == "none":
        return
    if args.evaluate == "all":
        evaluate.compare_with_file(model, tokenizer, path, args.out, args.per_task)
    else:
        with torch.no_grad():
            evaluate.report(model, tokenizer, args.out, "trained", (1, 4), args.per_task or 60)


if __name__ == "__main__":
    main()

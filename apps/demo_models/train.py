"""Trains one demo model, quantises it into a GGUF file and evaluates that file.

    python3 train.py --architecture llada --seconds 780 --out DIR          # one GPU
    python3 train.py --architecture dream --steps 20 --micro --out DIR     # a minute on a CPU, to try the code

Start with `masked_loss`, which is the whole idea; the rest is feeding it. Schedule and length are given in seconds, or in
steps with --steps. --from-gguf continues from the weights of a finished file.
"""

import argparse
import csv
import time
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F

import evaluate
import export_gguf
from batches import Pool
from model import CONFIGS, DiffusionModel
from optimizer import Muon
from tokenizer import Tokenizer

TOKENS_PER_STEP = 122_880            # divisible by every row length
# length: share of steps. Rows of 40 and 48 are short questions in a window of 8 to 32.
ROW_LENGTHS = {40: 0.03, 48: 0.06, 64: 0.12, 96: 0.2, 128: 0.18, 160: 0.13, 192: 0.17, 256: 0.08, 320: 0.03}
LEAST_T = 0.1                        # 1/t is cut here; below it, the weight would be mostly variance
PADDING_TOKENS = 3.0                 # all padding of a row weighs as much as this many answer tokens
# Shares of rows that are masked as decoding meets them, see mask_rows.
BLOCK_ROWS = {"llada": 0.35, "dream": 0.15}
PADDING_SHOWN = {"llada": 0.0, "dream": 0.0}
COMMON_SHOWN = {"llada": 0.1, "dream": 0.1}
N_COMMON = 120


def common_tokens(pool, tokenizer):
    """[vocab], true for the N_COMMON most frequent answer tokens that hold no digit and no spelled letter."""
    rows = torch.cat([group[:size] for group, size in zip(pool.groups, pool.sizes)])
    place = torch.arange(rows.size(1) - 2, device=rows.device)[None]
    in_answer = (place >= rows[:, :1]) & (place < rows[:, :1] + rows[:, 1:2])
    counts = torch.bincount(rows[:, 2:][in_answer].long(), minlength=len(tokenizer.tokens))
    plain = torch.tensor([not (any(c.isdigit() for c in t) or (len(t) <= 2 and t[-1:].isalpha())) for t in tokenizer.tokens])
    counts = counts * plain.to(counts.device)
    return counts >= counts.sort(descending=True).values[N_COMMON]


def mask_rows(tokens, prompt, answer, common, shares, generator):
    """Chooses what to hide.

    tokens [rows, length]; prompt, answer [rows]; common [vocab]; shares: the (block, padding, common) shares of rows.
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
    size = torch.tensor((32, 32, 32, 16, 64), device=device)[(uniform(rows) * 5).long()][:, None]
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
    padding_weight = (PADDING_TOKENS / padding.sum(1, keepdim=True).clamp(min=1)).clamp(max=1.0)
    # Between one weight per row (LLaDA) and one per token: long answers count more, but not in proportion.
    weight = torch.where(padding, padding_weight, 1.0) * answer[:, None].float().rsqrt()
    return hidden, torch.where(hidden, weight / chance.clamp(min=LEAST_T), 0.0), (weight * (at >= 0)).sum()


def weighted_cross_entropy(h, embedding, targets, weights):
    """h [n, width], targets [n], weights [n] -> sum of weight * cross entropy."""
    return (F.cross_entropy(F.linear(h, embedding).float(), targets, reduction="none") * weights).sum()


def masked_loss(model, cross_entropy, batch, common, mask_id, generator, dtype):
    tokens, prompt, answer = batch
    shares = [share[model.config.architecture] for share in (BLOCK_ROWS, PADDING_SHOWN, COMMON_SHOWN)]
    hidden, weights, total = mask_rows(tokens, prompt, answer, common, shares, generator)
    h = model.hidden(torch.where(hidden, mask_id, tokens), dtype)
    if model.config.shifted:           # row i-1 answers for position i
        tokens, weights = tokens.roll(-1, 1), weights.roll(-1, 1)
    return cross_entropy(h, model.embedding.to(dtype), tokens.flatten(), weights.flatten()) / total


def schedule(progress: float, step: int, decay_from: float, warm_up: int) -> float:
    """Warm up, stay, then fall linearly to zero."""
    return min(1.0, (step + 1) / warm_up) * min(1.0, (1.0 - progress) / (1.0 - decay_from))


def train(args, config, tokenizer, device):
    torch.manual_seed(args.seed)
    generator = torch.Generator(device).manual_seed(args.seed)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    pool = Pool(tokenizer, 1000 * args.seed, args.workers, args.weights, device, chunk=64 if args.micro else 1024,
                capacity=1 << 14 if args.micro else 1 << 22)
    model = DiffusionModel(config).to(device)
    if args.from_gguf:
        export_gguf.load_into(model, args.from_gguf)
    cross_entropy = weighted_cross_entropy
    if device.type == "cuda":
        model.compile_parts()
        cross_entropy = torch.compile(weighted_cross_entropy, dynamic=False)
    matrices = [getattr(model, name) for name in model.MATRICES]
    others = [p for p in model.parameters() if all(p is not m for m in matrices)]
    muon = Muon(matrices, args.muon_rate, weight_decay=0.1)
    adam = torch.optim.AdamW(others, lr=args.adam_rate, betas=(0.9, 0.98), weight_decay=0.0, fused=device.type == "cuda")
    pool.absorb(at_least=1000 if args.micro else 12_000 if args.from_gguf else 60_000)
    common = common_tokens(pool, tokenizer)

    lengths, shares = list(ROW_LENGTHS), list(ROW_LENGTHS.values())
    pick_length = torch.Generator().manual_seed(args.seed)
    checks = [] if args.from_gguf else [0.4, 0.8]          # where a look is taken and a file written, in case the machine is lost
    curve, running, step, started, stopped = [], torch.zeros((), device=device), 0, None, 0.0
    while True:
        if step == 10 or started is None:          # compilation is not training time
            started = time.monotonic()
        elapsed = time.monotonic() - started - stopped
        progress = step / args.steps if args.steps else elapsed / args.seconds
        if progress >= 1.0:
            break
        length = lengths[int(torch.multinomial(torch.tensor(shares), 1, generator=pick_length))]
        batch = pool.batch(length, (2048 if args.micro else TOKENS_PER_STEP) // length, generator)
        loss = masked_loss(model, cross_entropy, batch, common, tokenizer.mask, generator, dtype)
        loss.backward()
        scale = schedule(progress, step, args.decay_from, args.warm_up)
        for group in adam.param_groups:
            group["lr"] = args.adam_rate * scale
        muon.step(scale)
        adam.step()
        for p in model.parameters():
            p.grad = None
        running += loss.detach()
        step += 1
        if step % 8 == 0:
            pool.absorb(limit=16)
        if step % 50 == 0:
            curve.append((step, round(elapsed, 1), round(float(running) / 50, 5), pool.total))
            running.zero_()
            if step % 500 == 0 or args.micro:
                print(*curve[-1], f"scale {scale:.3f}", flush=True)
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
    return model


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
    parser.add_argument("--from-gguf", type=Path)
    parser.add_argument("--evaluate", choices=("all", "trained"), default="all",
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
    model = train(args, config, tokenizer, device)
    path = args.out / f"demo-{args.architecture}.gguf"
    export_gguf.write(model, tokenizer, path)
    print(f"{path.name}: {path.stat().st_size} bytes", flush=True)
    if args.evaluate == "all":
        evaluate.compare_with_file(model, tokenizer, path, args.out, args.per_task)
    else:
        with torch.no_grad():
            evaluate.report(model, tokenizer, args.out, "trained", (1, 4), args.per_task or 60)


if __name__ == "__main__":
    main()

"""The model's own rows: known ones, and those of random weights against the independent float64 forward."""

import numpy as np

from models import CLASSES, chain
from reference_forward import ReferenceModel

IDS = [int(i) for i in np.random.PCG64(7).random_raw(19) % 320]
QUANTS = ("F16", "BF16", "Q8_0", "Q4_0", "Q4_K", "Q6_K")


def register(registry):
    for arch in ("llada", "dream"):
        for shift in (False, True):
            registry.add(f"logits.known_{arch}_shift_{shift}".lower(),
                         f"a row of {arch} is what its token chose, before any shift (metadata say {shift})",
                         lambda t, arch=arch, shift=shift: known_rows(t, arch, shift))
        registry.add(f"logits.random_{arch}", f"all rows of {arch} agree with the float64 forward",
                     lambda t, arch=arch: random_rows(t, t.files.random(arch)))
        for quant in QUANTS:
            registry.add(f"logits.{quant.lower()}_{arch}", f"{arch} with {quant} weights agrees with the float64 forward of the "
                         "same decoded weights",
                         lambda t, arch=arch, quant=quant: random_rows(t, t.files.random(arch, width=256, head_dim=64, ffn=256,
                                                                                           quant=quant)))
    for each in (one_token, rows_in_any_order, switched_off_blocks_of_any_type):
        registry.case("logits")(each)


def known_rows(t, arch, shift):
    path = t.files.known("chain", arch, shift)
    want = chain()[np.array(IDS) % CLASSES]
    got = np.asarray(t.runtime.logits(path, IDS, range(len(IDS))), np.float64)
    t.equal(got.shape, want.shape, "shape")
    worst = np.unravel_index(np.abs(got - want).argmax(), want.shape)
    t.claim(np.abs(got - want).max() < 1e-2, f"row, id {worst}: got {got[worst]}, want {want[worst]}")


def random_rows(t, path):
    t.close(t.runtime.logits(path, IDS, range(len(IDS))), ReferenceModel(path).logits(IDS))


def one_token(t):
    """a sequence of one token has its row, whether the model shifts or not"""
    for arch in ("llada", "dream"):
        path = t.files.random(arch)
        t.close(t.runtime.logits(path, IDS[:1], [0]), ReferenceModel(path).logits(IDS[:1]))


def rows_in_any_order(t):
    """rows come in the order they are asked for, and each is the row of the whole"""
    path = t.files.random("dream")
    whole = ReferenceModel(path).logits(IDS)
    for rows in ([18, 3, 0], [7], list(range(5, 15))):
        t.close(t.runtime.logits(path, IDS, rows), whole[rows], f"rows {rows}")


def switched_off_blocks_of_any_type(t):
    """blocks that are switched off change nothing in any weight type, NEOX or NORM rotation, biases or none"""
    want = chain()[np.array(IDS) % CLASSES]
    for arch in ("llada", "dream"):
        for quant in ("Q8_0", "Q4_0"):
            got = t.runtime.logits(t.files.known("chain", arch, quant=quant), IDS, range(len(IDS)))
            t.claim(np.abs(np.asarray(got) - want).max() < 1e-2, f"{arch} {quant}: off by {np.abs(np.asarray(got) - want).max()}")

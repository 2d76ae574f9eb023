"""Philox4x32-10 as in dllm_sdk/philox.h, written apart from it with numpy.

Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). The high halves of the products
go left to right through the bumped key; ten rounds.
"""

import numpy as np

CANDIDATE, TRANSFER, ORDER, SAMPLER = 0, 1, 2, 3
_M = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_W = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)


def philox4x32(counter, key):
    """counter: four arrays or ints of 32 bits (broadcast), key: two ints. Returns four uint32 arrays."""
    words = np.broadcast_arrays(*[np.asarray(c, dtype=np.uint64) for c in counter])
    for i in range(10):
        round_key = [np.uint64((k + i * w) & 0xFFFFFFFF) for k, w in zip(key, _W)]
        left, right = _M[0] * words[0], _M[1] * words[2]
        words = [
            (right >> np.uint64(32)) ^ words[1] ^ round_key[0],
            right & _LOW,
            (left >> np.uint64(32)) ^ words[3] ^ round_key[1],
            left & _LOW,
        ]
    return [w.astype(np.uint32) for w in words]


def uniform(seed, step, position, index, purpose):
    """Draws in (0, 1); position and index are ints or arrays (broadcast).

    A draw is word index % 4 of the block index // 4.
    """
    index = np.asarray(index, dtype=np.uint64)
    block, lane = index // np.uint64(4), (index % np.uint64(4)).astype(np.int64)
    words = philox4x32((step, position, block, purpose), (seed & 0xFFFFFFFF, seed >> 32))
    chosen = np.choose(np.broadcast_to(lane, words[0].shape), words).astype(np.float64)
    return (chosen + 0.5) / 4294967296.0

"""The Python twin of Philox4x32-10 against the vectors published with Random123 (kat_vectors)."""

import numpy as np

import philox

VECTORS = [
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    ([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0],
     [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]),
]

for counter, key, want in VECTORS:
    got = [int(word) for word in philox.philox4x32(counter, key)]
    assert got == want, f"counter {counter}, key {key}: got {got}, want {want}"

many = philox.uniform(42, 7, 11, np.arange(9), philox.ORDER)
one = [float(philox.uniform(42, 7, 11, i, philox.ORDER)) for i in range(9)]
assert many.tolist() == one, "arrays and single indices differ"
print(f"{len(VECTORS)} vectors agree")

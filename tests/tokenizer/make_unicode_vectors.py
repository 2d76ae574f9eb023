"""Makes data/unicode-15.json; needs PyPI's `tokenizers` (0.23.3) and Qwen's tokenizer.json.

    make_unicode_vectors.py TOKENIZER_JSON > data/unicode-15.json

Texts where a splitter with other Unicode tables gives other ids: U+180E, which is no white space since
Unicode 6.3, and letters and digits of Unicode 15.0. `none` is the same without the NFC normalizer.
"""

import json
import sys

from tokenizers import Tokenizer, normalizers

CHARACTERS = {
    "mongolian vowel separator": 0x180E, "zero width space": 0x200B, "kawi letter": 0x11F04,
    "nag mundari letter": 0x1E4D0, "cjk extension h": 0x31350, "latin extended g": 0x1DF25,
    "cyrillic extended d": 0x1E030, "khojki letter": 0x11240, "small kana ko": 0x1B132,
    "kawi digit": 0x11F50, "nag mundari digit": 0x1E4F0, "kaktovik numeral": 0x1D2C0,
    "line separator": 0x2028, "next line": 0x85, "ideographic space": 0x3000, "ogham space": 0x1680}
CONTEXTS = ["{}", "{}'s", "{}(self", "a{}'ll", " {}", "  {}x", "..{}..", "{0}{0}{0}", "!{}", "{}\n\n",
            " \n{}\n ", "e\u0301{}e\u0301", "x {} y", "  {}  ", "{}.\n"]


def main():
    text = open(sys.argv[1], encoding="utf-8").read()
    reference = Tokenizer.from_str(text)
    plain = Tokenizer.from_str(text)
    plain.normalizer = normalizers.Sequence([])
    vectors = []
    for name, code_point in CHARACTERS.items():
        for context in CONTEXTS:
            sample = context.format(chr(code_point))
            vectors.append({"name": name, "text": sample, "reference": reference.encode(sample).ids,
                            "none": plain.encode(sample).ids})
    print("[\n" + ",\n".join(json.dumps(v) for v in vectors) + "\n]")


if __name__ == "__main__":
    main()

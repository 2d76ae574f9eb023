#!/usr/bin/env python3
"""Broken GGUF files, one named fault each: the table that the reader's tests and the conformance suite share.

    broken_gguf.py FOLDER        # writes NAME.gguf for every fault, correct.gguf, and manifest.json

or, from a test: `for broken in container_faults(): broken.content, broken.fault, ...`

The faults here make a file unreadable as GGUF; files that read well and hold no usable model are in
tests/conformance/broken_models.py. Limits and rules: ggml's gguf.h and docs/decisions/0006.
"""

import json
import struct
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from gguf_writer import TENSOR_TYPES, VALUE_TYPES, GgufWriter, tensor_bytes

HUGE = 1 << 60
ALL_BITS = (1 << 64) - 1
KEYS = ("general.architecture", "llada.block_count", "tokenizer.ggml.token_type")


@dataclass
class BrokenFile:
    """`item`: words that any runtime's message should hold ("a|b": one of them, any case), so that the user
    knows what is wrong. `says`: what dllm's message holds besides, literally. `lists`: keys and tensors that
    stand before the fault, which a tool that shows files can still show."""
    name: str
    fault: str
    content: bytes
    item: tuple
    says: tuple = ()
    lists: tuple = ()


def correct():
    """Three keys, tensors "a" (F32 [4, 2], 32 bytes) and "b" (Q4_K [256, 1], 144 bytes)."""
    writer = GgufWriter()
    writer.set("general.architecture", "llada").set("llada.block_count", 2)
    writer.set("tokenizer.ggml.token_type", [1, 1, 3], "i32")
    for name, kind, shape in (("a", "F32", (4, 2)), ("b", "Q4_K", (256, 1))):
        writer.add_raw(name, kind, shape, bytes(tensor_bytes(kind, shape)))
    return writer


def u64(value):
    return struct.pack("<Q", value)


def array_head(element_type, count):
    return struct.pack("<IQ", element_type, count)


def changed(change):
    writer = correct()
    change(writer)
    return writer.to_bytes()


def cut_before(text, keep=0):
    """The correct file, ending `keep` bytes behind the beginning of these bytes."""
    content = correct().to_bytes()
    return content[:content.index(text) + keep]


def header_faults():
    whole = correct().to_bytes()

    def counts(**fields):
        return changed(lambda w: w.__dict__.update(fields))

    return [
        BrokenFile("Empty", "no byte in it", b"", ("empty",)),
        BrokenFile("Magic", "the first four bytes are GGUX", b"GGUX" + whole[4:], ("magic|GGUF",), ("GGUX", "GGUF")),
        BrokenFile("SwappedMagic", "the magic is byte-swapped", b"FUGG" + whole[4:], ("magic|swap",), ("bytes swapped",)),
        BrokenFile("OldFormat", "GGJT, a format before GGUF", b"tjgg\1\0\0\0", ("magic|GGJT",), ("GGJT",)),
        BrokenFile("Zip", "a zip archive", b"PK\3\4" + b"x" * 60, ("magic|zip",), ("zip",)),
        BrokenFile("LfsPointer", "a git-lfs pointer, not the file it points to", b"version https://git-lfs.example/spec",
                   ("magic|lfs",), ("git lfs pull",)),
        BrokenFile("WebPage", "a web page saved as a model", b"<!DOCTYPE html><html></html>", ("magic|page",), ("web page",)),
        BrokenFile("OneByte", "one byte long", b"G", ("magic|GGUF",), ("GGUF",)),
        BrokenFile("MagicOnly", "ends behind the magic", b"GGUF", ("version",),
                   ("ends inside the version", "4 bytes needed, 0 left")),
        BrokenFile("CutInVersion", "ends in the version", whole[:6], ("version",), ("4 bytes needed, 2 left",)),
        BrokenFile("CutInTensorCount", "ends in the tensor count", whole[:12], ("tensor",), ("tensor count", "8 bytes needed")),
        BrokenFile("CutInKeyCount", "ends in the key count", whole[:20], ("metadata|kv|key",), ("metadata count", "8 bytes needed")),
        BrokenFile("CutBehindHeader", "ends behind the header", whole[:24], ("metadata|kv|key",), ("metadata",)),
        BrokenFile("Version0", "version 0", counts(version=0), ("version",), ("version 0", "2 and 3")),
        BrokenFile("Version1", "version 1, whose lengths have 32 bits", counts(version=1), ("version",),
                   ("version 1", "2 and 3", "convert")),
        BrokenFile("Version4", "a version of the future", counts(version=4), ("version",), ("version 4", "2 and 3")),
        BrokenFile("BigEndian", "written on a big-endian machine", counts(version=0x03000000), ("endian",),
                   ("big-endian", "0x03000000")),
        BrokenFile("TensorCount2To60", "2^60 tensors", counts(n_tensors=HUGE), ("tensor",),
                   ("tensor count", str(HUGE), "header"), ),
        BrokenFile("TensorCountNegative", "-1 tensors", counts(n_tensors=ALL_BITS), ("tensor",), ("tensor count is -1",)),
        BrokenFile("TensorCountTooHigh", "3 tensors, 2 are there", counts(n_tensors=3), ("tensor",), ("tensor entry 2",), KEYS),
        BrokenFile("KeyCount2To60", "2^60 keys", counts(n_keys=HUGE), ("metadata|kv|key",), ("metadata count", str(HUGE))),
        BrokenFile("KeyCountNegative", "a negative number of keys", counts(n_keys=1 << 63), ("metadata|kv|key",),
                   ("metadata count is -",)),
        BrokenFile("KeyCountTooLow", "2 keys, 3 are there", counts(n_keys=2), ("tokenizer.ggml.token_type|dimension",),
                   ("tokenizer.ggml.token_type", "9 dimensions"), KEYS[:2]),
    ]


def with_key(name, fault, type_id, value, says, key="x.key"):
    return BrokenFile(name, fault, changed(lambda w: w.set_raw(key, type_id, value)), (key,), says, KEYS)


def value_faults():
    array, string = VALUE_TYPES["array"], VALUE_TYPES["string"]
    two_keys = GgufWriter().set("general.architecture", "llada").set("llada.block_count", 2).to_bytes()
    return [
        with_key("UnknownValueType", "value type 13", 13, b"\1", ("value type is 13", "0 to 12")),
        with_key("HugeValueType", "value type 2^32 - 1", 0xFFFFFFFF, b"\1", ("4294967295",)),
        with_key("BadBool", "a bool that is 2", 7, b"\2", ("bool is 2", "0 and 1")),
        with_key("StringPastEnd", "a string of 2^60 bytes", string, u64(HUGE), (str(HUGE), "bytes left")),
        with_key("StringLengthWraps", "a string of 2^64 - 1 bytes", string, u64(ALL_BITS), (str(ALL_BITS),)),
        with_key("ArrayOfArrays", "a nested array", array, array_head(array, 1), ("array of arrays",)),
        with_key("ArrayOfUnknownType", "an array of type 77", array, array_head(77, 1), ("77", "0 to 12")),
        with_key("ArrayCount2To60", "an array of 2^60 u32", array, array_head(4, HUGE), (str(HUGE), "type u32", "at most")),
        with_key("ArrayBytesWrap", "an array whose bytes pass 2^64", array, array_head(10, 1 << 61), ("type u64",)),
        with_key("StringArrayCount2To60", "an array of 2^60 strings", array, array_head(string, HUGE), ("type string",)),
        with_key("BoolArrayBadElement", "an array with a bool that is 2", array, array_head(7, 2) + b"\1\2", ("bool is 2",)),
        with_key("StringInArrayPastEnd", "an array whose second string has 2^60 bytes", array,
                 array_head(string, 2) + u64(2) + b"ok" + u64(HUGE), ("a string of the array", str(HUGE))),
        BrokenFile("StringOneByteShort", "ends one byte before the end of a string",
                   GgufWriter().set("k", "abc").to_bytes()[:-1], ("k",), ('"k"', "the string is 3 bytes long", "has 2 bytes left")),
        BrokenFile("NumberOneByteShort", "ends inside a number", GgufWriter().set("k", 1).to_bytes()[:-1], ("k",),
                   ('"k"', "ends inside the value", "4 bytes needed, 3 left")),
        BrokenFile("CutInKeyName", "ends inside a key", two_keys[:two_keys.index(b"block_count")], ("metadata|key|kv",),
                   ("metadata entry 1", "17 bytes long", "6 bytes left"), KEYS[:1]),
        BrokenFile("CutInArray", "ends inside an array", cut_before(struct.pack("<3i", 1, 1, 3), 6),
                   ("tokenizer.ggml.token_type",), ("array",), KEYS[:2]),
        BrokenFile("CutBeforeLastKey", "ends between two keys", cut_before(u64(len(KEYS[2])) + KEYS[2].encode()),
                   ("metadata|key|kv",), ("metadata",), KEYS[:2]),
        BrokenFile("KeyLengthPastEnd", "a key of 2^60 bytes",
                   b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + u64(HUGE) + b"general", ("metadata|key|kv",),
                   ("metadata entry 0", "the key is", str(HUGE), "7 bytes left")),
        BrokenFile("EmptyKey", "a key without a name", changed(lambda w: w.set("", True)), ("key|metadata",),
                   ("key is empty", "entry 3"), KEYS),
        BrokenFile("KeyTooLong", "a key of 65,536 bytes", changed(lambda w: w.set("k" * 65536, True)), ("key|metadata",),
                   ("65536 bytes", "limit is 65535"), KEYS),
        BrokenFile("DuplicateKey", "llada.block_count twice", changed(lambda w: w.set("llada.block_count", 3)),
                   ("llada.block_count",), ('"llada.block_count" occurs twice', "entry 1", "entry 3"), KEYS),
    ]


def alignment_faults():
    def alignment(name, fault, value, says, kind=None):
        return BrokenFile(name, fault, changed(lambda w: w.set("general.alignment", value, kind)), ("alignment",),
                          ("general.alignment", *says), KEYS)

    return [
        alignment("Alignment0", "alignment 0", 0, ("is 0", "powers of two")),
        alignment("Alignment3", "alignment 3", 3, ("is 3",)),
        alignment("AlignmentHuge", "alignment 2^31", 1 << 31, ("2147483648", "1048576")),
        alignment("AlignmentNegative", "alignment -32", -32, ("is -32",)),
        alignment("AlignmentFloat", "alignment 32.0", 32.0, ("f32",)),
        alignment("AlignmentString", "alignment in letters", "32", ("string",)),
    ]


def tensor_fault(name, fault, tensor, change, says, lists=()):
    """One tensor of the correct file with some of its fields changed (a dict)."""
    def apply(writer):
        next(t for t in writer.tensors if t["name"] == tensor).update(change)
    return BrokenFile(name, fault, changed(apply), (change.get("name", tensor) or "name",), says, KEYS + tuple(lists))


def shape_faults():
    def shape(name, sizes, *says, fault=None):
        return tensor_fault(name, fault or "dimensions " + " x ".join(map(str, sizes)), "a", {"shape": list(sizes)}, says)

    big = 1 << 32
    return [
        shape("Dimensions0", [], '"a"', "0 dimensions", fault="no dimensions"),
        shape("Dimensions5", [4, 2, 1, 1, 1], '"a"', "5 dimensions", "1 to 4"),
        tensor_fault("DimensionsHuge", "2^32 - 1 dimensions", "a", {"n_dims": 0xFFFFFFFF}, ('"a"', "4294967295 dimensions")),
        shape("DimensionZero", [4, 0], '"a"', "dimension 1 is 0"),
        shape("DimensionNegative", [ALL_BITS, 1], '"a"', "dimension 0 is -1", fault="dimension -1"),
        shape("Product2To32Squared", [big, big], '"a"', "2^63", "4294967296"),
        shape("Product2To62Times4", [1 << 62, 4], '"a"', "2^63"),
        shape("Product2To61Times8", [1 << 61, 8], '"a"', "2^63"),
        shape("ProductOfFour", [1 << 16] * 4, '"a"', "2^63"),
        shape("BytesPass2To64", [1 << 62], '"a"', "2^64 bytes", fault="more than 2^64 bytes"),
        tensor_fault("RowNoMultipleOf256", "Q4_K rows of 128", "b", {"shape": [128, 2]}, ('"b"', "128", "Q4_K", "256"), ["a"]),
        tensor_fault("RowNoMultipleOf32", "Q8_0 rows of 16", "b", {"shape": [16, 2], "type": TENSOR_TYPES["Q8_0"][0]},
                     ('"b"', "16", "Q8_0", "32"), ["a"]),
    ]


def tensor_faults():
    def third(writer):
        writer.add_raw("c", "F32", (8,), bytes(32))
        writer.tensors[-1]["offset"] = 64

    def no_data(writer):
        for tensor in writer.tensors:
            tensor["data"] = b""

    return [
        tensor_fault("EmptyTensorName", "a tensor without a name", "a", {"name": ""}, ("name is empty", "entry 0")),
        BrokenFile("TensorNameTooLong", "a name of 64 bytes", changed(lambda w: w.tensors[0].update(name="n" * 64)),
                   ("name|" + "n" * 63,), ("64 bytes", "limit is 63"), KEYS),
        tensor_fault("DuplicateTensor", "two tensors named a", "b", {"name": "a"}, ('"a" occurs twice', "entry 0", "entry 1")),
        tensor_fault("TypeRemoved", "type 4, which no file has any more", "a", {"type": 4}, ('"a"', "type 4")),
        tensor_fault("TypeUnknown", "type 999", "a", {"type": 999}, ('"a"', "type 999")),
        BrokenFile("ControlBytesInName", "a name that would move the cursor, of type 999",
                   changed(lambda w: w.tensors[0].update(name=b"a\n\x1b[2J\xff", type=999)), ("999",),
                   ("a\\x0A\\x1B[2J\\xFF", "type 999"), KEYS),
        tensor_fault("OffsetMisaligned", "offset 33", "b", {"offset": 33}, ('"b"', "offset 33", "alignment 32"), ["a"]),
        tensor_fault("OffsetPastEnd", "an offset behind the file's end", "b", {"offset": 1 << 20},
                     ('"b"', "1048576", "end of the file"), ["a"]),
        tensor_fault("OffsetWraps", "an offset that wraps with the size", "b", {"offset": ALL_BITS - 31},
                     ('"b"', "18446744073709551584"), ["a"]),
        tensor_fault("DataPastEnd", "data that passes the file's end", "b", {"shape": [256, 2]},
                     ('"b"', "288 bytes", "end of the file"), ["a"]),
        tensor_fault("SameOffset", "two tensors at one offset", "b", {"offset": 0}, ('"b"', "overlaps", '"a"'), ["a"]),
        BrokenFile("Overlap", "a tensor that reaches into the next", changed(lambda w: w.tensors[0].update(shape=[4, 3])),
                   ("b", ), ('"b"', "offset 32", "overlaps", "48 bytes"), KEYS),
        BrokenFile("Contained", "a tensor inside another", changed(third), ("c",), ('"c"', "overlaps", '"b"'), (*KEYS, "a", "b")),
        BrokenFile("DataMissing", "no tensor data", changed(no_data), ("a",), ('"a"', "end of the file"), KEYS),
        BrokenFile("DataCut", "ends inside the last tensor's data", correct().to_bytes()[:-40], ("b",),
                   ('"b"', "end of the file"), (*KEYS, "a")),
        BrokenFile("CutInTensorName", "ends inside a tensor's name", cut_before(u64(1) + b"b", 8), ("tensor",),
                   ("tensor entry 1", "0 bytes left"), (*KEYS, "a")),
        BrokenFile("CutInDimensions", "ends inside a tensor's dimensions", cut_before(u64(1) + b"b", 15), ("b",),
                   ('"b"', "bytes needed"), (*KEYS, "a")),
        BrokenFile("CutInOffset", "ends inside a tensor's offset", cut_before(u64(1) + b"b", 9 + 4 + 16 + 4 + 3), ("b",),
                   ('"b"', "8 bytes needed, 3 left"), (*KEYS, "a")),
    ]


def container_faults():
    faults = header_faults() + value_faults() + alignment_faults() + shape_faults() + tensor_faults()
    names = [broken.name for broken in faults]
    assert len(names) == len(set(names)), "a fault's name is a file's name"
    return faults


def write_all(folder):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "correct.gguf").write_bytes(correct().to_bytes())
    manifest = []
    for broken in container_faults():
        (folder / f"{broken.name}.gguf").write_bytes(broken.content)
        entry = asdict(broken)
        del entry["content"]
        manifest.append(entry)
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1), encoding="utf-8")


if __name__ == "__main__":
    write_all(sys.argv[1])

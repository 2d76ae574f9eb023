// A GGUF file made readable: text for people, JSON for programs. Any GGUF, supported or not.
//
//   GgufScan scan = GgufFile::scan("model.gguf");
//   std::string text = inspect_text(scan);   // what could be read, even of a broken file
//   if (scan.error) ...                      // exit status 1, the error to stderr
//
// JSON: {"version", "alignment", "file_bytes", "parts": [{"file", "bytes", "data_start"}],
// "metadata": {key: value}, "type_counts": {type: number of tensors},
// "tensors": [{"name", "type", "shape", "offset", "bytes"}]}; of a broken file also "error".
// - `shape` is in GGUF order (row length first); `offset` counts from the part's data section,
//   which starts at `data_start`; tensors of a split model also carry "part", from 0.
// - Arrays of more than 16 elements are {"type", "length", "first": [16 elements]}; strings of more
//   than 65,536 bytes {"type": "string", "bytes", "first": "the first 65,536"}.
// - It is always valid JSON: bytes that are no UTF-8 become U+FFFD, floats that JSON lacks become
//   the strings "NaN", "Infinity" and "-Infinity". An f32 is written with the digits that make it
//   an f32 again (1e-05, not 9.999999747378752e-06). Of a key that occurs twice the first value is
//   shown.
// Text: one line for each key and tensor; control bytes and ill-formed UTF-8 as \xNN.
// Thread rule: pure functions, any thread.
#pragma once

#include <string>

#include "dllm/gguf.hpp"

namespace dllm {

std::string inspect_text(const GgufFile& file);
std::string inspect_json(const GgufFile& file);

/// The same for what a scan could read. Text of a file that could not be opened is empty; its JSON
/// is {"error"}.
std::string inspect_text(const GgufScan& scan);
std::string inspect_json(const GgufScan& scan);

}  // namespace dllm

// Models split over several files: PREFIX-00001-of-00003.gguf and so on.
//
// The name counts from 1, the key `split.no` from 0. Each part has its own header, tensor directory
// and data section; only the first carries the model's metadata. Source: llama.cpp
// `llama-model-loader.cpp` and `gguf-split`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "gguf/fault.hpp"
#include "gguf/part.hpp"

namespace dllm::gguf {

/// Appends to `parts` (holding the file the user gave) the others of its split, checked against
/// `split.no`, `split.count` and `split.tensors.count`. Does nothing for a model in one file.
void read_other_parts(const std::filesystem::path& given, std::vector<Part>& parts, Faults& faults);

}  // namespace dllm::gguf

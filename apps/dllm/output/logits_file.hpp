// Logits in a file: raw little-endian f32 [rows, vocab], or the same as NumPy (.npy).
//
// The file is complete or absent: it is written beside its place under another name, then renamed.
// Thread rule: pure function; one thread per file.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace dllm::cli {

/// "npy" for a path that ends with .npy, else "raw".
std::string logits_format(const std::string& path);

/// `values`: row-major [n_rows, values.size() / n_rows]. Throws Error (resource) with the system's
/// reason; (bad_usage) where the place is taken by something that is no file.
void write_logits(const std::string& path, std::span<const float> values, std::uint64_t n_rows);

/// The part of that which can be found wrong before any work: folder missing, place taken.
void check_logits_path(const std::string& path);

}  // namespace dllm::cli

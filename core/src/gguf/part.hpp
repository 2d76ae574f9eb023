// One file of a model: its header, metadata and tensor directory, checked. A model in one file is a
// single part; of a split model each file is one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "dllm/gguf.hpp"
#include "gguf/cursor.hpp"
#include "gguf/fault.hpp"
#include "gguf/mapped_file.hpp"

namespace dllm::gguf {

// What a file may ask of us. Far above every real model; low enough that a lying count or a sparse
// file of terabytes costs neither time nor memory.
inline constexpr std::uint64_t kMaxKeys = 1U << 16;
inline constexpr std::uint64_t kMaxTensors = 1U << 18;
inline constexpr std::uint64_t kMaxArrayElements = 1U << 23;  ///< all arrays of a file together
inline constexpr std::uint64_t kMaxKeyBytes = 65535;          ///< the format's own limit
inline constexpr std::uint64_t kMaxTensorNameBytes = 63;      ///< ggml.h: GGML_MAX_NAME 64 with NUL
inline constexpr std::uint64_t kMaxDimensions = 4;            ///< ggml.h: GGML_MAX_DIMS
inline constexpr std::uint64_t kMaxAlignment = 1U << 20;
inline constexpr std::uint64_t kDefaultAlignment = 32;  ///< gguf.h: GGUF_DEFAULT_ALIGNMENT

struct Part {
  MappedFile file;
  std::filesystem::path path;
  std::string name;  ///< the path, for messages
  std::uint32_t version = 0;
  std::uint64_t alignment = kDefaultAlignment;
  std::vector<MetadataEntry> metadata = {};
  std::vector<TensorInfo> tensors = {};
  std::uint64_t data_start = 0;  ///< byte where the data section begins
};

/// Reads and checks one file. Faults that leave no file to look at (cannot be opened) always throw;
/// the others go to `faults`, and what was read before stays in the part.
Part read_part(const std::filesystem::path& path, Faults& faults);

// The steps of read_part; each reads its section at the cursor.
void read_metadata(Cursor& cursor, std::uint64_t n_keys, Part& part, Faults& faults);
void read_tensor_directory(Cursor& cursor, std::uint64_t n_tensors, Part& part, Faults& faults);

/// Every tensor aligned, inside the file and apart from the others. Any order and any gap is
/// accepted.
void check_layout(const Part& part, Faults& faults);

}  // namespace dllm::gguf

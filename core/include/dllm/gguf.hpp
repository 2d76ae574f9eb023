// Reading GGUF model files (versions 2 and 3, little-endian), single or split.
//
//   auto file = dllm::GgufFile::open("model.gguf");
//   std::uint32_t layers = file->get_u32("llada.block_count");
//   const dllm::TensorInfo& w = file->tensor("output.weight");
//   std::span<const std::byte> bytes = file->data(w);
//
// The file is mapped read-only and validated once, in open(): every count, length, offset,
// dimension product and alignment. After open() every name, view and number handed out is in range.
//
// File, in order: "GGUF", u32 version, i64 n_tensors, i64 n_kv; n_kv entries (string key, i32 value
// type, value); n_tensors entries (string name, u32 n_dims, n_dims x i64, i32 type, u64 offset);
// zero bytes up to `general.alignment`; tensor data. Source: ggml `gguf.h`.
// What is refused beyond the format's own rules: zero dimensions and dimensions of size 0, more
// than 4 dimensions, names over 63 bytes, alignments above 1 MiB, more than 65,536 keys, 262,144
// tensors or 8,388,608 array elements in one file. Tensor data may lie in any order and with gaps,
// but aligned, inside the file and never overlapping. Types this build cannot decode still load.
// Thread rule: const after open(), any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "dllm/dtype.hpp"
#include "dllm/error.hpp"

namespace dllm {

/// Values equal the value type ids stored in GGUF files.
enum class MetadataType : std::uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12
};

/// "u32", "string", ...
std::string_view metadata_type_name(MetadataType type);

/// A typed array value. Integers of any width are kept as i64/u64, floats as double.
struct MetadataArray {
  MetadataType element_type = MetadataType::u8;
  std::variant<std::vector<std::int64_t>, std::vector<std::uint64_t>, std::vector<double>,
               std::vector<bool>, std::vector<std::string_view>>
      values;  ///< string views point into the mapping and live as long as the GgufFile
  std::size_t size() const;
};

struct MetadataEntry {
  std::string key;
  MetadataType type = MetadataType::u8;
  /// i8..i64 as i64, u8..u64 as u64, f32/f64 as double.
  std::variant<std::int64_t, std::uint64_t, double, bool, std::string_view, MetadataArray> value;
};

/// "[4096, 126464]"
std::string shape_text(std::span<const std::uint64_t> shape);

struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::uint64_t> shape;  ///< GGUF order: shape[0] is the row length (contiguous)
  std::uint64_t offset = 0;          ///< bytes from the start of its part's data section
  std::uint64_t bytes = 0;           ///< size of its data
  std::uint32_t part = 0;            ///< which split part holds it
  std::uint64_t n_elements() const noexcept;
  std::string shape_text() const { return dllm::shape_text(shape); }
};

/// One file of a model.
struct GgufPart {
  std::filesystem::path path;
  std::uint64_t bytes = 0;
  std::uint64_t data_start = 0;  ///< byte of the file where TensorInfo::offset counts from
};

namespace gguf {
class Faults;
}
struct GgufScan;

class GgufFile {
 public:
  /// Maps and validates `path`; for part 1 of a split file also the other parts beside it.
  /// Throws Error (bad_file) naming the item at fault.
  static std::shared_ptr<const GgufFile> open(const std::filesystem::path& path);

  /// Reads as much of a broken file as can be read, to look at it: never throws for a bad file.
  /// For display only: what the scan returns beside an error has not been checked as in open().
  static GgufScan scan(const std::filesystem::path& path);

  GgufFile(const GgufFile&) = delete;
  GgufFile& operator=(const GgufFile&) = delete;
  ~GgufFile();

  const std::filesystem::path& path() const noexcept;
  std::uint32_t version() const noexcept;
  std::uint64_t alignment() const noexcept;
  std::uint64_t file_bytes() const noexcept;  ///< summed over the parts
  std::vector<GgufPart> parts() const;        ///< one for a model in a single file

  std::span<const MetadataEntry> metadata() const noexcept;  ///< file order
  const MetadataEntry* find(std::string_view key) const noexcept;

  // Typed access. get_* throws Error (bad_file) naming the key when it is absent, has another kind
  // of type, or its value does not fit; find_* returns nullopt when absent and throws on the rest.
  // Integer width and signedness do not matter where the value fits.
  std::uint32_t get_u32(std::string_view key) const;
  std::optional<std::uint32_t> find_u32(std::string_view key) const;
  double get_float(std::string_view key) const;
  std::optional<double> find_float(std::string_view key) const;
  std::optional<bool> find_bool(std::string_view key) const;
  std::string_view get_string(std::string_view key) const;
  std::optional<std::string_view> find_string(std::string_view key) const;
  const MetadataArray* find_array(std::string_view key) const;
  /// A scalar, or an array with all elements equal and `n` long (per-layer hyper-parameters);
  /// an array that varies is Error (unsupported).
  std::optional<std::uint32_t> find_u32_or_uniform_array(std::string_view key, std::size_t n) const;

  std::span<const TensorInfo> tensors() const noexcept;  ///< file order, parts in order
  const TensorInfo* find_tensor(std::string_view name) const noexcept;
  /// Throws Error (bad_file) when absent.
  const TensorInfo& tensor(std::string_view name) const;

  /// The tensor's bytes inside the mapping; valid as long as this object.
  std::span<const std::byte> data(const TensorInfo& tensor) const;

  /// Drops the tensor's whole pages from this process (they can be read again from the file).
  void release_pages(const TensorInfo& tensor) const noexcept;

  /// Throws Error (bad_file) naming the tensor and the first element whose value or block scale is
  /// infinite or NaN. Reads all of the tensor, in pieces whose pages it drops again.
  void require_finite(const TensorInfo& tensor) const;

 private:
  struct Impl;
  explicit GgufFile(std::unique_ptr<Impl> impl);
  static std::unique_ptr<Impl> read(const std::filesystem::path& path, gguf::Faults& faults);
  std::unique_ptr<Impl> impl_;
};

/// What GgufFile::scan could read, and the first fault where there is one.
struct GgufScan {
  std::shared_ptr<const GgufFile> file;  ///< null when the path cannot be opened as a file
  std::optional<Error> error;            ///< what open() throws for the same path
};

}  // namespace dllm

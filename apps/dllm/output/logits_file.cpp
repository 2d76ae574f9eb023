#include "output/logits_file.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstddef>
#include <ostream>

#include "output/complete_file.hpp"

namespace dllm::cli {
namespace {

static_assert(std::endian::native == std::endian::little, "values are written as they lie");

// NumPy format 1.0 (numpy.lib.format): magic, version, header length, a dict padded with blanks so
// that the data starts at a multiple of 64.
std::string npy_header(std::uint64_t n_rows, std::uint64_t n_cols) {
  std::string dict = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}",
                                 n_rows, n_cols);
  constexpr std::size_t kPreamble = 10;
  dict.resize((kPreamble + dict.size() + 1 + 63) / 64 * 64 - kPreamble - 1, ' ');
  dict += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(dict.size() & 0xFF);
  header += static_cast<char>(dict.size() >> 8);
  return header + dict;
}

}  // namespace

std::string logits_format(const std::string& path) {
  return path.ends_with(".npy") ? "npy" : "raw";
}

void check_logits_path(const std::string& path) { check_complete_file(path, "--out", "logits"); }

void write_logits(const std::string& path, std::span<const float> values, std::uint64_t n_rows) {
  check_logits_path(path);
  write_complete_file(path, "--out", [&](std::ostream& out) {
    if (logits_format(path) == "npy") out << npy_header(n_rows, values.size() / n_rows);
    const std::span<const std::byte> bytes = std::as_bytes(values);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
  });
}

}  // namespace dllm::cli

#include "gguf/part.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>

namespace dllm::gguf {
namespace {

struct Header {
  std::uint32_t version = 0;
  std::uint64_t n_tensors = 0;
  std::uint64_t n_keys = 0;
};

// What the file seems to be instead, from its first bytes.
std::string_view guess_format(std::string_view start) {
  struct Format {
    std::string_view magic, meaning;
  };
  static constexpr auto kFormats = std::to_array<Format>({
      {"FUGG", "a GGUF file with its bytes swapped"},
      {"ggjt", "a model in the old GGJT format"},
      {"tjgg", "a model in the old GGJT format"},
      {"lmgg", "a model in the old GGML format"},
      {"PK\x03\x04", "a zip archive or PyTorch checkpoint"},
      {"version https://git-lfs", "a Git LFS pointer: run 'git lfs pull'"},
      {"<!DOCTYPE", "a web page"},
      {"<html", "a web page"},
  });
  for (const Format& format : kFormats) {
    if (start.starts_with(format.magic)) return format.meaning;
  }
  return {};
}

void check_magic(const Cursor& cursor, std::span<const std::byte> bytes) {
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()),
                               std::min<std::size_t>(bytes.size(), 32));
  if (start.starts_with("GGUF")) return;
  const std::string_view guess = guess_format(start);
  throw cursor.fault(
      fmt::format("the file starts with {}, not with \"GGUF\"{}{}", in_quotes(start.substr(0, 4)),
                  guess.empty() ? "" : "; it looks like ", guess),
      "give the path of a .gguf file");
}

void check_version(const Cursor& cursor, std::uint32_t version) {
  if (version == 2 || version == 3) return;
  if ((version & 0xFFFFU) == 0 && version != 0) {
    throw cursor.fault(
        fmt::format("the version field reads {:#010x}: the file is big-endian", version),
        "convert the model for little-endian machines");
  }
  throw cursor.fault(fmt::format("GGUF version {} is not supported (2 and 3 are)", version),
                     version == 1 ? "convert the model again with a current converter"
                                  : "update dllm or convert to GGUF version 3");
}

// `what` counted by the header needs `entry_bytes` each at the least.
void check_count(const Cursor& cursor, std::string_view what, std::uint64_t count,
                 std::uint64_t limit, std::uint64_t entry_bytes, Faults& faults) {
  const auto shown = static_cast<std::int64_t>(count);
  if (shown < 0 || count > cursor.remaining() / entry_bytes) {
    faults.report(cursor.fault(
        fmt::format("the {} count is {}, the {} bytes left in the file hold at most {}", what,
                    shown, cursor.remaining(), cursor.remaining() / entry_bytes)));
  } else if (count > limit) {
    faults.report(
        cursor.fault(fmt::format("the {} count is {}, the limit is {}", what, count, limit),
                     "check the file; no known model needs that many"));
  }
}

Header read_header(Cursor& cursor, std::span<const std::byte> bytes, Part& part, Faults& faults) {
  check_magic(cursor, bytes);
  cursor.read<std::uint32_t>("the magic number");
  Header header;
  header.version = cursor.read<std::uint32_t>("the version");
  check_version(cursor, header.version);
  part.version = header.version;
  header.n_tensors = cursor.read<std::uint64_t>("the tensor count");
  header.n_keys = cursor.read<std::uint64_t>("the metadata count");
  // Smallest entries: a key of one byte with a one-byte value; a tensor with a one-byte name.
  check_count(cursor, "metadata", header.n_keys, kMaxKeys, 8 + 1 + 4 + 1, faults);
  check_count(cursor, "tensor", header.n_tensors, kMaxTensors, 8 + 1 + 4 + 8 + 4 + 8, faults);
  return header;
}

std::uint64_t alignment_of(const Cursor& cursor, const MetadataEntry& entry) {
  const auto* u = std::get_if<std::uint64_t>(&entry.value);
  const auto* i = std::get_if<std::int64_t>(&entry.value);
  if (u == nullptr && i == nullptr) {
    throw cursor.fault(fmt::format("key \"general.alignment\" is of type {}, not an integer",
                                   metadata_type_name(entry.type)));
  }
  const std::uint64_t value =
      u != nullptr ? *u : static_cast<std::uint64_t>(std::max<std::int64_t>(*i, 0));
  if (!std::has_single_bit(value) || value > kMaxAlignment) {
    throw cursor.fault(
        fmt::format("key \"general.alignment\" is {}, allowed are powers of two up to {}",
                    u != nullptr ? fmt::format("{}", *u) : fmt::format("{}", *i), kMaxAlignment));
  }
  return value;
}

void read_alignment(Cursor& cursor, Part& part, Faults& faults) {
  cursor.begin_item("end of the metadata");
  for (const MetadataEntry& entry : part.metadata) {
    if (entry.key != "general.alignment") continue;
    try {
      part.alignment = alignment_of(cursor, entry);
    } catch (const Error& error) {
      faults.report(error);
    }
    return;
  }
}

std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

void read_sections(Part& part, Faults& faults) {
  const std::span<const std::byte> bytes = part.file.bytes();
  Cursor cursor(bytes, part.name);
  const Header header = read_header(cursor, bytes, part, faults);
  read_metadata(cursor, header.n_keys, part, faults);
  read_alignment(cursor, part, faults);
  read_tensor_directory(cursor, header.n_tensors, part, faults);
  part.data_start = align_up(cursor.position(), part.alignment);
  check_layout(part, faults);
}

}  // namespace

Part read_part(const std::filesystem::path& path, Faults& faults) {
  Part part{.file = MappedFile::open(path), .path = path, .name = printable_path(path)};
  try {
    read_sections(part, faults);
  } catch (const Error& error) {
    faults.report(error);
  }
  return part;
}

}  // namespace dllm::gguf

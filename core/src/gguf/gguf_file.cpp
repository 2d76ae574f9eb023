#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dllm/quant.hpp"
#include "gguf/gguf_impl.hpp"
#include "gguf/name_order.hpp"
#include "gguf/split.hpp"

namespace dllm {
namespace {

void check_unique_over_parts(const std::vector<gguf::Part>& parts,
                             const std::vector<TensorInfo>& tensors,
                             const std::vector<std::uint32_t>& order, gguf::Faults& faults) {
  const auto name_of = [&](std::uint32_t i) -> std::string_view { return tensors[i].name; };
  const auto twice = gguf::find_duplicate(order, name_of);
  if (!twice) return;
  const TensorInfo& later = tensors[twice->second];
  faults.report({ErrorCode::bad_file,
                 fmt::format("tensor {} occurs in part {} and part {}", gguf::in_quotes(later.name),
                             tensors[twice->first].part + 1, later.part + 1),
                 parts[later.part].name, "split the model again"});
}

}  // namespace

GgufFile::GgufFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GgufFile::~GgufFile() = default;

std::unique_ptr<GgufFile::Impl> GgufFile::read(const std::filesystem::path& path,
                                               gguf::Faults& faults) {
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  impl->name = gguf::printable_path(path);
  impl->parts.push_back(gguf::read_part(path, faults));
  gguf::read_other_parts(path, impl->parts, faults);
  for (std::size_t i = 0; i < impl->parts.size(); ++i) {
    for (TensorInfo& tensor : impl->parts[i].tensors) {
      tensor.part = static_cast<std::uint32_t>(i);
      impl->tensors.push_back(std::move(tensor));
    }
    impl->parts[i].tensors = {};
  }
  const Impl& made = *impl;
  impl->keys_by_name = gguf::order_by_name(made.parts.front().metadata.size(),
                                           [&](std::uint32_t i) { return made.key_of(i); });
  impl->tensors_by_name =
      gguf::order_by_name(made.tensors.size(), [&](std::uint32_t i) { return made.name_of(i); });
  if (made.parts.size() > 1) {
    check_unique_over_parts(made.parts, made.tensors, made.tensors_by_name, faults);
  }
  return impl;
}

std::shared_ptr<const GgufFile> GgufFile::open(const std::filesystem::path& path) {
  gguf::Faults faults(/*keep_going=*/false);
  return std::shared_ptr<const GgufFile>(new GgufFile(read(path, faults)));
}

GgufScan GgufFile::scan(const std::filesystem::path& path) {
  GgufScan scan;
  gguf::Faults faults(/*keep_going=*/true);
  try {
    scan.file = std::shared_ptr<const GgufFile>(new GgufFile(read(path, faults)));
    scan.error = faults.first();
  } catch (const Error& error) {
    scan.error = error;
  }
  return scan;
}

const std::filesystem::path& GgufFile::path() const noexcept { return impl_->path; }
std::uint32_t GgufFile::version() const noexcept { return impl_->parts.front().version; }
std::uint64_t GgufFile::alignment() const noexcept { return impl_->parts.front().alignment; }

std::uint64_t GgufFile::file_bytes() const noexcept {
  std::uint64_t total = 0;
  for (const gguf::Part& part : impl_->parts) total += part.file.bytes().size();
  return total;
}

std::vector<GgufPart> GgufFile::parts() const {
  std::vector<GgufPart> parts;
  for (const gguf::Part& part : impl_->parts) {
    parts.push_back({part.path, part.file.bytes().size(), part.data_start});
  }
  return parts;
}

std::span<const MetadataEntry> GgufFile::metadata() const noexcept {
  return impl_->parts.front().metadata;
}

const MetadataEntry* GgufFile::find(std::string_view key) const noexcept {
  const auto found =
      gguf::find_name(impl_->keys_by_name, key, [&](std::uint32_t i) { return impl_->key_of(i); });
  return found ? &impl_->parts.front().metadata[*found] : nullptr;
}

std::span<const TensorInfo> GgufFile::tensors() const noexcept { return impl_->tensors; }

const TensorInfo* GgufFile::find_tensor(std::string_view name) const noexcept {
  const auto found = gguf::find_name(impl_->tensors_by_name, name,
                                     [&](std::uint32_t i) { return impl_->name_of(i); });
  return found ? &impl_->tensors[*found] : nullptr;
}

const TensorInfo& GgufFile::tensor(std::string_view name) const {
  const TensorInfo* found = find_tensor(name);
  if (found == nullptr) {
    throw Error(ErrorCode::bad_file,
                fmt::format("tensor {} is missing (the file has {} tensors)", gguf::in_quotes(name),
                            impl_->tensors.size()),
                impl_->name, "convert the model again");
  }
  return *found;
}

std::span<const std::byte> GgufFile::data(const TensorInfo& tensor) const {
  DLLM_ASSERT(tensor.part < impl_->parts.size());
  const gguf::Part& part = impl_->parts[tensor.part];
  const std::span<const std::byte> bytes = part.file.bytes();
  // open() has checked this; a scan hands out directories whose data may not be there.
  const bool inside = part.data_start <= bytes.size() &&
                      tensor.offset <= bytes.size() - part.data_start &&
                      tensor.bytes <= bytes.size() - part.data_start - tensor.offset;
  if (!inside) {
    throw Error(ErrorCode::bad_file, "the tensor's data lies outside the file",
                fmt::format("{}, tensor {}", part.name, gguf::in_quotes(tensor.name)),
                "download or convert the model again");
  }
  return bytes.subspan(part.data_start + tensor.offset, tensor.bytes);
}

void GgufFile::release_pages(const TensorInfo& tensor) const noexcept {
  if (tensor.part >= impl_->parts.size()) return;
  const gguf::Part& part = impl_->parts[tensor.part];
  const std::span<const std::byte> bytes = part.file.bytes();
  if (part.data_start > bytes.size() || tensor.offset > bytes.size() - part.data_start) return;
  const std::span<const std::byte> from = bytes.subspan(part.data_start + tensor.offset);
  part.file.release_pages(from.first(std::min<std::uint64_t>(tensor.bytes, from.size())));
}

void GgufFile::require_finite(const TensorInfo& tensor) const {
  const DTypeInfo& type = dtype_info(tensor.dtype);
  const std::uint64_t piece = (std::uint64_t{8} << 20) / type.block_bytes * type.block_bytes;
  const std::span<const std::byte> bytes = data(tensor);
  for (std::uint64_t at = 0; at < bytes.size(); at += piece) {
    const auto part = bytes.subspan(at, std::min<std::uint64_t>(piece, bytes.size() - at));
    const auto found = find_non_finite(tensor.dtype, part);
    impl_->parts[tensor.part].file.release_pages(part);
    if (!found) continue;
    throw Error(
        ErrorCode::bad_file,
        fmt::format("element {} of {} is infinite or not a number",
                    at / type.block_bytes * type.block_size + *found, type.name),
        fmt::format("{}, tensor {}", impl_->parts[tensor.part].name, gguf::in_quotes(tensor.name)),
        "download or convert the model again");
  }
}

}  // namespace dllm

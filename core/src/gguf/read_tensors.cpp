#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>

#include "gguf/name_order.hpp"
#include "gguf/part.hpp"

namespace dllm::gguf {
namespace {

std::string read_name(Cursor& cursor, std::uint64_t index) {
  cursor.begin_item(fmt::format("tensor entry {}", index));
  const std::string_view name = cursor.read_string("the tensor name");
  if (name.empty()) throw cursor.fault("the tensor name is empty");
  if (name.size() > kMaxTensorNameBytes) {
    throw cursor.fault(fmt::format("the tensor name is {} bytes long, the limit is {}", name.size(),
                                   kMaxTensorNameBytes));
  }
  cursor.rename_item("tensor " + in_quotes(name));
  return std::string(name);
}

std::vector<std::uint64_t> read_shape(Cursor& cursor) {
  const auto n_dims = cursor.read<std::uint32_t>("the number of dimensions");
  if (n_dims == 0 || n_dims > kMaxDimensions) {
    throw cursor.fault(
        fmt::format("the tensor has {} dimensions, allowed are 1 to {}", n_dims, kMaxDimensions));
  }
  std::vector<std::uint64_t> shape(n_dims);
  for (std::uint64_t& size : shape) size = cursor.read<std::uint64_t>("a dimension");
  return shape;
}

// Elements of a shape; every partial product stays below 2^63.
std::uint64_t count_elements(const Cursor& cursor, const TensorInfo& tensor) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  std::uint64_t product = 1;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    const std::uint64_t size = tensor.shape[i];
    if (size == 0 || size > kMost) {
      throw cursor.fault(fmt::format("dimension {} is {}, the smallest allowed is 1", i,
                                     static_cast<std::int64_t>(size)));
    }
    if (product > kMost / size) {
      throw cursor.fault(
          fmt::format("the product of the dimensions {} passes 2^63", tensor.shape_text()));
    }
    product *= size;
  }
  return product;
}

std::uint64_t count_bytes(const Cursor& cursor, const TensorInfo& tensor) {
  const std::uint64_t n_elements = count_elements(cursor, tensor);
  const DTypeInfo& type = dtype_info(tensor.dtype);
  if (tensor.shape[0] % type.block_size != 0) {
    throw cursor.fault(fmt::format("a row of {} elements is no multiple of the {} block size {}",
                                   tensor.shape[0], type.name, type.block_size),
                       "quantise the model again with a type whose block divides the row");
  }
  const std::uint64_t n_blocks = n_elements / type.block_size;
  if (n_blocks > std::numeric_limits<std::uint64_t>::max() / type.block_bytes) {
    throw cursor.fault(fmt::format("the size of shape {} as {} passes 2^64 bytes",
                                   tensor.shape_text(), type.name));
  }
  return n_blocks * type.block_bytes;
}

void check_tensor(const Cursor& cursor, TensorInfo& tensor) {
  const auto raw_type = static_cast<std::uint32_t>(tensor.dtype);
  if (find_dtype(raw_type) == nullptr) {
    throw cursor.fault(fmt::format("tensor type {} is unknown or was removed from GGUF", raw_type),
                       "update dllm or convert the model to a supported type");
  }
  tensor.bytes = count_bytes(cursor, tensor);
}

// A tensor whose entry can be read but is wrong is kept (with 0 bytes) when a scan goes on.
TensorInfo read_tensor(Cursor& cursor, std::uint64_t index, Faults& faults) {
  TensorInfo tensor;
  tensor.name = read_name(cursor, index);
  tensor.shape = read_shape(cursor);
  tensor.dtype = static_cast<DType>(cursor.read<std::uint32_t>("the tensor type"));
  tensor.offset = cursor.read<std::uint64_t>("the tensor offset");
  try {
    check_tensor(cursor, tensor);
  } catch (const Error& error) {
    faults.report(error);
  }
  return tensor;
}

class LayoutCheck {
 public:
  explicit LayoutCheck(const Part& part) : part_(part) {
    const std::uint64_t file_bytes = part.file.bytes().size();
    data_bytes_ = file_bytes > part.data_start ? file_bytes - part.data_start : 0;
  }

  std::optional<Error> check(const TensorInfo& tensor) const {
    if (tensor.offset % part_.alignment != 0) {
      return fault(tensor, fmt::format("offset {} is no multiple of the alignment {}",
                                       tensor.offset, part_.alignment));
    }
    if (tensor.offset > data_bytes_ || tensor.bytes > data_bytes_ - tensor.offset) {
      return fault(tensor,
                   fmt::format("{} bytes at offset {} pass the end of the file: its data section "
                               "has {} bytes, from byte {} to {}",
                               tensor.bytes, tensor.offset, data_bytes_, part_.data_start,
                               part_.file.bytes().size()));
    }
    return std::nullopt;
  }

  // `next` is the tensor after `tensor` in offset order.
  std::optional<Error> check_apart(const TensorInfo& tensor, const TensorInfo& next) const {
    if (next.offset - tensor.offset >= tensor.bytes) return std::nullopt;
    return fault(next,
                 fmt::format("its data at offset {} overlaps tensor {}, {} bytes at offset {}",
                             next.offset, in_quotes(tensor.name), tensor.bytes, tensor.offset));
  }

 private:
  Error fault(const TensorInfo& tensor, std::string fact) const {
    return {ErrorCode::bad_file, std::move(fact),
            fmt::format("{}, tensor {}", part_.name, in_quotes(tensor.name)),
            "the file is damaged or incomplete: download or convert it again"};
  }

  const Part& part_;
  std::uint64_t data_bytes_ = 0;
};

}  // namespace

void read_tensor_directory(Cursor& cursor, std::uint64_t n_tensors, Part& part, Faults& faults) {
  for (std::uint64_t i = 0; i < std::min(n_tensors, kMaxTensors); ++i) {
    part.tensors.push_back(read_tensor(cursor, i, faults));
  }
  const auto name_of = [&](std::uint32_t i) -> std::string_view { return part.tensors[i].name; };
  const auto twice = find_duplicate(order_by_name(part.tensors.size(), name_of), name_of);
  if (!twice) return;
  cursor.begin_item("end of the tensor directory");
  faults.report(
      cursor.fault(fmt::format("tensor {} occurs twice, as entry {} and entry {}",
                               in_quotes(name_of(twice->first)), twice->first, twice->second),
                   "convert the model again"));
}

void check_layout(const Part& part, Faults& faults) {
  const LayoutCheck layout(part);
  for (const TensorInfo& tensor : part.tensors) {
    if (auto error = layout.check(tensor)) faults.report(*std::move(error));
  }
  std::vector<const TensorInfo*> by_offset;
  by_offset.reserve(part.tensors.size());
  for (const TensorInfo& tensor : part.tensors) by_offset.push_back(&tensor);
  std::ranges::sort(by_offset, [](const TensorInfo* a, const TensorInfo* b) {
    return a->offset != b->offset ? a->offset < b->offset : a < b;  // equal ones in file order
  });
  for (std::size_t i = 1; i < by_offset.size(); ++i) {
    auto error = layout.check_apart(*by_offset[i - 1], *by_offset[i]);
    if (error) faults.report(*std::move(error));
  }
}

}  // namespace dllm::gguf

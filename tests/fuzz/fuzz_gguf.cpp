// The GGUF reader on any bytes: what the scan says is what open() does, and what an accepted file
// hands out lies in the file, apart, aligned and decodable.
#include <vector>

#include "dllm/gguf.hpp"
#include "dllm/quant.hpp"
#include "fuzz_target.hpp"
#include "memory_file.hpp"

namespace {

using dllm::ErrorCode;
using dllm::GgufFile;
using dllm::TensorInfo;

// Typed access gives a value or names the fault; never anything else.
template <typename Access>
void ask(Access&& access) {
  const auto error = dllm::test::refusal_of(access);
  FUZZ_REQUIRE(!error || error->code() == ErrorCode::bad_file ||
               error->code() == ErrorCode::unsupported);
}

void ask_for_everything(const GgufFile& file) {
  for (const dllm::MetadataEntry& entry : file.metadata()) {
    const std::string& key = entry.key;
    const dllm::MetadataEntry* found = file.find(key);
    FUZZ_REQUIRE(found != nullptr && found->key == key);
    ask([&] { file.get_u32(key); });
    ask([&] { file.get_float(key); });
    ask([&] { file.find_bool(key); });
    ask([&] { file.get_string(key); });
    ask([&] { file.find_array(key); });
    ask([&] { file.find_u32_or_uniform_array(key, 3); });
  }
}

// What a model would do with the tensor.
void decode_first_row(const GgufFile& file, const TensorInfo& tensor) {
  const auto bytes = file.data(tensor);
  FUZZ_REQUIRE(bytes.size() == tensor.bytes);
  ask([&] { file.require_finite(tensor); });
  if (!dllm::can_decode(tensor.dtype)) return;
  const std::uint32_t block = dllm::dtype_info(tensor.dtype).block_size;
  std::vector<float> row(std::min<std::uint64_t>(tensor.shape[0], 4096) / block * block);
  dllm::decode_row(tensor.dtype, bytes.first(dllm::row_bytes(tensor.dtype, row.size())), row);
}

void check_tensors(const GgufFile& file) {
  std::vector<std::pair<const std::byte*, const std::byte*>> ranges;
  for (const TensorInfo& tensor : file.tensors()) {
    FUZZ_REQUIRE(file.find_tensor(tensor.name) == &tensor);
    FUZZ_REQUIRE(tensor.offset % file.alignment() == 0);
    decode_first_row(file, tensor);
    const auto bytes = file.data(tensor);
    ranges.emplace_back(bytes.data(), bytes.data() + bytes.size());
  }
  std::ranges::sort(ranges);
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    FUZZ_REQUIRE(ranges[i - 1].second <= ranges[i].first);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const dllm::test::MemoryFile memory;
  memory.set(dllm::test::as_text(data, size));
  const dllm::GgufScan scan = GgufFile::scan(memory.path());
  std::shared_ptr<const GgufFile> file;
  const auto error = dllm::test::refusal_of([&] { file = GgufFile::open(memory.path()); });
  FUZZ_REQUIRE(error.has_value() == scan.error.has_value());
  if (error) {
    FUZZ_REQUIRE(error->code() == ErrorCode::bad_file);
    FUZZ_REQUIRE(std::string_view(error->what()) == scan.error->what());
    return 0;
  }
  ask_for_everything(*file);
  check_tensors(*file);
  return 0;
}

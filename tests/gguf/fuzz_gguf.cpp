// libFuzzer target: the GGUF reader, `inspect` and the first row of every tensor, on any bytes.
//
//   cmake -B build/fuzz -DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19 \
//     -DDLLM_FUZZ=ON -DDLLM_SANITIZE=address,undefined,fuzzer-no-link
//   cmake --build build/fuzz --target fuzz_gguf && build/fuzz/tests/fuzz_gguf -max_total_time=60
//
// A finding becomes a case in broken_file_test.cpp.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "dllm/error.hpp"
#include "dllm/gguf.hpp"
#include "dllm/inspect.hpp"
#include "dllm/quant.hpp"

namespace {

// What a model would do with an accepted file.
void decode_first_rows(const dllm::GgufFile& file) {
  for (const dllm::TensorInfo& tensor : file.tensors()) {
    const auto bytes = file.data(tensor);
    if (!dllm::can_decode(tensor.dtype)) continue;
    const std::uint64_t length = std::min<std::uint64_t>(tensor.shape[0], 4096);
    std::vector<float> row(length / 256 * 256);
    dllm::decode_row(tensor.dtype, bytes.first(dllm::row_bytes(tensor.dtype, row.size())), row);
  }
}

void read_file(const std::string& path) {
  const dllm::GgufScan scan = dllm::GgufFile::scan(path);
  dllm::inspect_json(scan);
  dllm::inspect_text(scan);
  try {
    decode_first_rows(*dllm::GgufFile::open(path));
    if (scan.error) std::abort();  // open() took what the scan refuses
  } catch (const dllm::Error& error) {
    if (error.code() != dllm::ErrorCode::bad_file || !scan.error) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int fd = ::memfd_create("gguf", MFD_CLOEXEC);
  const auto length = static_cast<off_t>(size);
  if (::ftruncate(fd, length) != 0 || ::pwrite(fd, data, size, 0) != length) std::abort();
  read_file("/proc/self/fd/" + std::to_string(fd));
  return 0;
}

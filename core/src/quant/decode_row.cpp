#include <fmt/format.h>

#include <array>
#include <cstring>

#include "dllm/error.hpp"
#include "dllm/quant.hpp"
#include "quant/decode_blocks.hpp"

namespace dllm {
namespace {

template <typename Block, std::size_t kElements>
void decode_blocks(const std::byte* bytes, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); i += kElements, bytes += sizeof(Block)) {
    Block block;
    std::memcpy(&block, bytes, sizeof block);
    decode_block(block, out.data() + i);
  }
}

template <auto to_f32>
void decode_halves(const std::byte* bytes, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    HalfBytes half;
    std::memcpy(&half, bytes + 2 * i, sizeof half);
    out[i] = to_f32(load_u16(half));
  }
}

void copy_floats(const std::byte* bytes, std::span<float> out) {
  if (!out.empty()) std::memcpy(out.data(), bytes, out.size_bytes());
}

using Decoder = void (*)(const std::byte*, std::span<float>);

Decoder find_decoder(DType dtype) noexcept {
  switch (dtype) {
    case DType::f32:
      return copy_floats;
    case DType::f16:
      return decode_halves<f16_to_f32>;
    case DType::bf16:
      return decode_halves<bf16_to_f32>;
    case DType::q4_0:
      return decode_blocks<BlockQ4_0, kQuantBlock>;
    case DType::q4_1:
      return decode_blocks<BlockQ4_1, kQuantBlock>;
    case DType::q5_0:
      return decode_blocks<BlockQ5_0, kQuantBlock>;
    case DType::q5_1:
      return decode_blocks<BlockQ5_1, kQuantBlock>;
    case DType::q8_0:
      return decode_blocks<BlockQ8_0, kQuantBlock>;
    case DType::iq4_nl:
      return decode_blocks<BlockIq4Nl, kQuantBlock>;
    case DType::q2_k:
      return decode_blocks<BlockQ2K, kQuantBlockK>;
    case DType::q3_k:
      return decode_blocks<BlockQ3K, kQuantBlockK>;
    case DType::q4_k:
      return decode_blocks<BlockQ4K, kQuantBlockK>;
    case DType::q5_k:
      return decode_blocks<BlockQ5K, kQuantBlockK>;
    case DType::q6_k:
      return decode_blocks<BlockQ6K, kQuantBlockK>;
    case DType::iq4_xs:
      return decode_blocks<BlockIq4Xs, kQuantBlockK>;
    default:
      return nullptr;
  }
}

std::string supported_names() {
  std::string names;
  for (const DTypeInfo& info : all_dtypes()) {
    if (!can_decode(info.dtype)) continue;
    if (!names.empty()) names += ' ';
    names += info.name;
  }
  return names;
}

}  // namespace

bool can_decode(DType dtype) noexcept { return find_decoder(dtype) != nullptr; }

void decode_row(DType dtype, std::span<const std::byte> bytes, std::span<float> out) {
  const Decoder decode = find_decoder(dtype);
  if (decode == nullptr) {
    throw Error(ErrorCode::unsupported,
                fmt::format("tensor type {} has no decoder", dtype_name(dtype)), "decode_row",
                fmt::format("requantise to one of: {}", supported_names()));
  }
  DLLM_ASSERT(out.size() % dtype_info(dtype).block_size == 0);
  DLLM_ASSERT(bytes.size() == row_bytes(dtype, out.size()));
  decode(bytes.data(), out);
}

}  // namespace dllm

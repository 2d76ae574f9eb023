// Block layouts and scalar decoders of the quantised tensor types: the oracle every kernel is
// held to.
//
//   std::vector<float> row(n);
//   decode_row(DType::q4_k, bytes, row);     // throws Error (unsupported) for IQ2_XXS and the like
//
// Results equal PyPI `gguf`'s `dequantize` bit for bit (compiled without fused contraction).
// Layouts: ggml `ggml-common.h`; formulas: ggml `ggml-quants.c`, dequantize_row_*.
// Thread rule: pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "dllm/dtype.hpp"
#include "dllm/quant_blocks.hpp"

namespace dllm {

/// True where decode_row can decode the type.
bool can_decode(DType dtype) noexcept;

/// Decodes one row (or any whole number of blocks).
/// `bytes`: row_bytes(dtype, out.size()) bytes, any alignment; `out`: f32, owner the caller.
/// Throws Error (unsupported) for a type without a decoder, (internal) for sizes that disagree.
void decode_row(DType dtype, std::span<const std::byte> bytes, std::span<float> out);

/// Index of the first element whose value (F32, F16, BF16, F64) or block scale (quantised types) is
/// infinite or NaN; nullopt where all are finite, and for types that hold neither or that this
/// build cannot decode. `bytes`: whole blocks, any alignment.
std::optional<std::uint64_t> find_non_finite(DType dtype, std::span<const std::byte> bytes);

/// IEEE binary16 to f32, subnormals, infinities and NaN included.
float f16_to_f32(std::uint16_t bits) noexcept;

/// bfloat16 to f32.
float bf16_to_f32(std::uint16_t bits) noexcept;

}  // namespace dllm

// One block decoder per quantised type: reads one block, writes its elements in order.
// `out` has room for the type's block size. Formulas: ggml `ggml-quants.c`, dequantize_row_*.
#pragma once

#include "dllm/quant_blocks.hpp"

namespace dllm {

void decode_block(const BlockQ4_0& block, float* out);
void decode_block(const BlockQ4_1& block, float* out);
void decode_block(const BlockQ5_0& block, float* out);
void decode_block(const BlockQ5_1& block, float* out);
void decode_block(const BlockQ8_0& block, float* out);
void decode_block(const BlockIq4Nl& block, float* out);
void decode_block(const BlockQ2K& block, float* out);
void decode_block(const BlockQ3K& block, float* out);
void decode_block(const BlockQ4K& block, float* out);
void decode_block(const BlockQ5K& block, float* out);
void decode_block(const BlockQ6K& block, float* out);
void decode_block(const BlockIq4Xs& block, float* out);

}  // namespace dllm

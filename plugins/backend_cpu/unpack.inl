// Block-quantised weights to integer codes, one row at a time; formulas: ggml `ggml-quants.c`,
// dequantize_row_*. Written as plain loops that every instruction set's compiler flags vectorise,
// so an instruction set adds nothing here. Included inside the unnamed namespace of a
// kernels_*.cpp, which defines half_to_float(const uint8_t*) first.
//
// Each unpack_row_* writes the codes of one row of a block, and scale[g * kTileRows] and
// minimum[g * kTileRows] of its groups g. Types with an offset (w = d (q - offset)) get
// minimum = -offset * scale; the signed 8-bit ones keep int8 codes and no minimum.

struct Format {
  uint32_t block_cols;
  uint32_t block_bytes;
  bool half_groups;
  bool is_signed;
  uint8_t code_bits;
  void (*unpack_row)(const uint8_t* block, uint8_t* codes, float* scale, float* minimum);
};

void nibbles(const uint8_t* q, uint8_t* codes) {  // 16 bytes: low halves, then high halves
  for (int j = 0; j < 16; ++j) {
    codes[j] = q[j] & 15;
    codes[16 + j] = q[j] >> 4;
  }
}

void fifth_bits(const uint8_t* qh, uint8_t* codes) {
  uint32_t bits;
  __builtin_memcpy(&bits, qh, 4);
  for (int j = 0; j < 32; ++j) codes[j] |= static_cast<uint8_t>(((bits >> j) & 1) << 4);
}

void unpack_row_q4_0(const uint8_t* b, uint8_t* codes, float* scale, float* minimum) {
  nibbles(b + 2, codes);
  *scale = half_to_float(b);
  *minimum = -8.0f * *scale;
}

void unpack_row_q4_1(const uint8_t* b, uint8_t* codes, float* scale, float* minimum) {
  nibbles(b + 4, codes);
  *scale = half_to_float(b);
  *minimum = half_to_float(b + 2);
}

void unpack_row_q5_0(const uint8_t* b, uint8_t* codes, float* scale, float* minimum) {
  nibbles(b + 6, codes);
  fifth_bits(b + 2, codes);
  *scale = half_to_float(b);
  *minimum = -16.0f * *scale;
}

void unpack_row_q5_1(const uint8_t* b, uint8_t* codes, float* scale, float* minimum) {
  nibbles(b + 8, codes);
  fifth_bits(b + 4, codes);
  *scale = half_to_float(b);
  *minimum = half_to_float(b + 2);
}

void unpack_row_q8_0(const uint8_t* b, uint8_t* codes, float* scale, float* minimum) {
  __builtin_memcpy(codes, b + 2, 32);
  *scale = half_to_float(b);
  *minimum = 0;
}

// Non-linear 4-bit levels of IQ4_NL and IQ4_XS (ggml `kvalues_iq4nl`).
constexpr int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};

void iq4_levels(const uint8_t* q, uint8_t* codes) {
  for (int j = 0; j < 16; ++j) {
    codes[j] = static_cast<uint8_t>(kIq4Levels[q[j] & 15]);
    codes[16 + j] = static_cast<uint8_t>(kIq4Levels[q[j] >> 4]);
  }
}

void unpack_row_iq4_nl(const uint8_t* b, uint8_t* codes, float* scale, float* minimum) {
  iq4_levels(b + 2, codes);
  *scale = half_to_float(b);
  *minimum = 0;
}

void unpack_row_iq4_xs(const uint8_t* b, uint8_t* codes, float* scale, float* minimum) {
  const float d = half_to_float(b);
  uint16_t high;
  __builtin_memcpy(&high, b + 2, 2);
  for (int g = 0; g < 8; ++g) {
    iq4_levels(b + 8 + 16 * g, codes + 32 * g);
    const int low = (b[4 + g / 2] >> (4 * (g & 1))) & 15;
    const int six = low | (((high >> (2 * g)) & 3) << 4);
    scale[g * kTileRows] = d * static_cast<float>(six - 32);
    minimum[g * kTileRows] = 0;
  }
}

void unpack_row_q2_k(const uint8_t* b, uint8_t* codes, float* scale, float* minimum) {
  const uint8_t* q = b + 16;
  for (int n = 0; n < 2; ++n)
    for (int j = 0; j < 4; ++j)
      for (int l = 0; l < 32; ++l) codes[128 * n + 32 * j + l] = (q[32 * n + l] >> (2 * j)) & 3;
  const float d = half_to_float(b + 80);
  const float dmin = half_to_float(b + 82);
  for (int g = 0; g < 16; ++g) {
    scale[g * kTileRows] = d * static_cast<float>(b[g] & 15);
    minimum[g * kTileRows] = -(dmin * static_cast<float>(b[g] >> 4));
  }
}

void unpack_row_q3_k(const uint8_t* b, uint8_t* codes, float* scale, float* minimum) {
  const uint8_t* high = b;
  const uint8_t* q = b + 32;
  const uint8_t* s = b + 96;
  for (int n = 0; n < 2; ++n)
    for (int j = 0; j < 4; ++j)
      for (int l = 0; l < 32; ++l)
        codes[128 * n + 32 * j + l] = static_cast<uint8_t>(((q[32 * n + l] >> (2 * j)) & 3) |
                                                           (((high[l] >> (4 * n + j)) & 1) << 2));
  const float d = half_to_float(b + 108);
  for (int g = 0; g < 16; ++g) {
    const int low = g < 8 ? s[g] & 15 : s[g - 8] >> 4;
    const int top = (s[8 + g % 4] >> (2 * (g / 4))) & 3;
    scale[g * kTileRows] = d * static_cast<float>((low | (top << 4)) - 32);
    minimum[g * kTileRows] = -4.0f * scale[g * kTileRows];
  }
}

// Scales and minimums of Q4_K and Q5_K: six bits each, packed into 12 bytes.
void k4_scales(const uint8_t* b, float* scale, float* minimum) {
  const float d = half_to_float(b);
  const float dmin = half_to_float(b + 2);
  const uint8_t* s = b + 4;
  for (int g = 0; g < 4; ++g) {
    scale[g * kTileRows] = d * static_cast<float>(s[g] & 63);
    minimum[g * kTileRows] = -(dmin * static_cast<float>(s[g + 4] & 63));
  }
  for (int g = 4; g < 8; ++g) {
    const int sc = (s[g + 4] & 15) | ((s[g - 4] >> 6) << 4);
    const int mn = (s[g + 4] >> 4) | ((s[g] >> 6) << 4);
    scale[g * kTileRows] = d * static_cast<float>(sc);
    minimum[g * kTileRows] = -(dmin * static_cast<float>(mn));
  }
}

void unpack_row_q4_k(const uint8_t* b, uint8_t* codes, float* scale, float* minimum) {
  const uint8_t* q = b + 16;
  for (int k = 0; k < 4; ++k) {
    for (int l = 0; l < 32; ++l) codes[64 * k + l] = q[32 * k + l] & 15;
    for (int l = 0; l < 32; ++l) codes[64 * k + 32 + l] = q[32 * k + l] >> 4;
  }
  k4_scales(b, scale, minimum);
}

void unpack_row_q5_k(const uint8_t* b, uint8_t* codes, float* scale, float* minimum) {
  const uint8_t* high = b + 16;
  const uint8_t* q = b + 48;
  for (int k = 0; k < 4; ++k) {
    for (int l = 0; l < 32; ++l)
      codes[64 * k + l] =
          static_cast<uint8_t>((q[32 * k + l] & 15) | (((high[l] >> (2 * k)) & 1) << 4));
    for (int l = 0; l < 32; ++l)
      codes[64 * k + 32 + l] =
          static_cast<uint8_t>((q[32 * k + l] >> 4) | (((high[l] >> (2 * k + 1)) & 1) << 4));
  }
  k4_scales(b, scale, minimum);
}

void unpack_row_q6_k(const uint8_t* b, uint8_t* codes, float* scale, float* minimum) {
  for (int n = 0; n < 2; ++n) {
    const uint8_t* low = b + 64 * n;
    const uint8_t* high = b + 128 + 32 * n;
    uint8_t* out = codes + 128 * n;
    for (int l = 0; l < 32; ++l) {
      out[l] = static_cast<uint8_t>((low[l] & 15) | ((high[l] & 3) << 4));
      out[32 + l] = static_cast<uint8_t>((low[32 + l] & 15) | (((high[l] >> 2) & 3) << 4));
      out[64 + l] = static_cast<uint8_t>((low[l] >> 4) | (((high[l] >> 4) & 3) << 4));
      out[96 + l] = static_cast<uint8_t>((low[32 + l] >> 4) | ((high[l] >> 6) << 4));
    }
  }
  const float d = half_to_float(b + 208);
  for (int g = 0; g < 16; ++g) {
    scale[g * kTileRows] = d * static_cast<float>(static_cast<int8_t>(b[192 + g]));
    minimum[g * kTileRows] = -32.0f * scale[g * kTileRows];
  }
}

Format format_of(CodeType type) {
  switch (type) {
    case CodeType::q4_0:
      return {32, 18, false, false, 4, unpack_row_q4_0};
    case CodeType::q4_1:
      return {32, 20, false, false, 4, unpack_row_q4_1};
    case CodeType::q5_0:
      return {32, 22, false, false, 5, unpack_row_q5_0};
    case CodeType::q5_1:
      return {32, 24, false, false, 5, unpack_row_q5_1};
    case CodeType::q8_0:
      return {32, 34, false, true, 8, unpack_row_q8_0};
    case CodeType::q2_k:
      return {256, 84, true, false, 2, unpack_row_q2_k};
    case CodeType::q3_k:
      return {256, 110, true, false, 3, unpack_row_q3_k};
    case CodeType::q4_k:
      return {256, 144, false, false, 4, unpack_row_q4_k};
    case CodeType::q5_k:
      return {256, 176, false, false, 5, unpack_row_q5_k};
    case CodeType::q6_k:
      return {256, 210, true, false, 6, unpack_row_q6_k};
    case CodeType::iq4_nl:
      return {32, 18, false, true, 8, unpack_row_iq4_nl};
    case CodeType::iq4_xs:
      return {256, 136, false, true, 8, unpack_row_iq4_xs};
  }
  return {};
}

// Row by row into tile.linear; the caller interleaves.
void unpack_linear(CodeType type, const WeightBlock& block, CodeTile& tile) {
  const Format format = format_of(type);
  tile.half_groups = format.half_groups;
  tile.is_signed = format.is_signed;
  tile.code_bits = format.code_bits;
  tile.n_groups32 = block.n_cols / kGroupCols;
  const uint32_t n_blocks = block.n_cols / format.block_cols;
  const uint32_t groups_per_block = format.block_cols / (format.half_groups ? 16 : 32);
  for (uint32_t row = 0; row < block.n_rows; ++row) {
    const uint8_t* bytes = block.data + static_cast<uint64_t>(row) * block.row_bytes;
    for (uint32_t i = 0; i < n_blocks; ++i) {
      const uint32_t group = i * groups_per_block;
      format.unpack_row(bytes + i * format.block_bytes, tile.linear[row] + i * format.block_cols,
                        &tile.scale[group][row], &tile.minimum[group][row]);
    }
  }
  const uint32_t n_groups = n_blocks * groups_per_block;
  for (uint32_t row = block.n_rows; row < kTileRows; ++row) {
    __builtin_memset(tile.linear[row], 0, kBlockCols);
    for (uint32_t g = 0; g < n_groups; ++g) tile.scale[g][row] = tile.minimum[g][row] = 0;
  }
}

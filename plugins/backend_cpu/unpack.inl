// Packed weight blocks (layout: pack.hpp) to a CodeTile; formulas: ggml `ggml-quants.c`,
// dequantize_row_*. All 32 rows of a tile lie side by side, so every step is one plain loop over
// rows that each instruction set's compiler flags vectorise: loads, ands, shifts, no transposition.
// Included inside the unnamed namespace of a kernels_*.cpp, after half.inl.
//
// A Word is four consecutive codes of one row. Types with an offset (w = d (q - offset)) get
// minimum = -offset * scale; the signed 8-bit ones keep int8 codes and no minimum.

typedef uint32_t Word __attribute__((may_alias));

// Where a format's field starts in the packed block: `offset` is that of the GGUF block.
inline const uint8_t* field(const uint8_t* block, uint32_t offset) {
  return block + static_cast<uint64_t>(offset) * kTileRows;
}
inline const Word* words(const uint8_t* block, uint32_t offset, uint32_t unit) {
  return reinterpret_cast<const Word*>(field(block, offset)) +
         static_cast<uint64_t>(unit) * kTileRows;
}

typedef uint8_t (*Codes)[kTileRows][4];  // CodeTile::codes

inline Word* codes_at(Codes codes, uint32_t col) {
  return reinterpret_cast<Word*>(codes[col / 4][0]);
}

void halves(const uint8_t* from, float* to) {
  for (uint32_t row = 0; row < kTileRows; ++row) to[row] = half_to_float(from + 2 * row);
}

void scaled(const float* from, float factor, float* to) {
  for (uint32_t row = 0; row < kTileRows; ++row) to[row] = factor * from[row];
}

// to = d * multiplier, a byte per row.
template <typename Byte>
void multiples(const float* d, const Byte* multiplier, float* to) {
  for (uint32_t row = 0; row < kTileRows; ++row)
    to[row] = d[row] * static_cast<float>(multiplier[row]);
}

// Fields of a word, `shift` and up: 4, 3, 2 bits and so on in each of its bytes.
inline void bit_fields(const Word* __restrict from, uint32_t shift, Word mask,
                       Word* __restrict to) {
  for (uint32_t row = 0; row < kTileRows; ++row) to[row] = (from[row] >> shift) & mask;
}

// to += 1 << place for each byte whose bit `shift` of `from` is set.
inline void add_fields(const Word* __restrict from, uint32_t shift, Word mask, uint32_t place,
                       Word* __restrict to) {
  for (uint32_t row = 0; row < kTileRows; ++row) to[row] |= ((from[row] >> shift) & mask) << place;
}

constexpr Word kNibbles = 0x0F0F0F0F;
constexpr Word kPairs = 0x03030303;
constexpr Word kBits = 0x01010101;

// 16 bytes a row: low halves are inputs 0 to 15, high halves 16 to 31 of the group at `col`.
void nibbles(const uint8_t* block, uint32_t offset, uint32_t col, Codes codes) {
  for (uint32_t unit = 0; unit < 4; ++unit) {
    bit_fields(words(block, offset, unit), 0, kNibbles, codes_at(codes, col + 4 * unit));
    bit_fields(words(block, offset, unit), 4, kNibbles, codes_at(codes, col + 16 + 4 * unit));
  }
}

// Bit i of a row's word is the fifth bit of input i. The product moves bit b of a nibble to bit 8b.
void fifth_bits(const uint8_t* block, uint32_t offset, uint32_t col, Codes codes) {
  const Word* bits = words(block, offset, 0);
  for (uint32_t unit = 0; unit < 8; ++unit) {
    Word* to = codes_at(codes, col + 4 * unit);
    for (uint32_t row = 0; row < kTileRows; ++row)
      to[row] |= ((((bits[row] >> (4 * unit)) & 15) * 0x00204081) & kBits) << 4;
  }
}

// unpack_*: one packed block whose first input is `col` and first group of scales `group`.

void unpack_q4_0(const uint8_t* b, uint32_t col, uint32_t group, CodeTile& tile) {
  nibbles(b, 2, col, tile.codes);
  halves(b, tile.scale[group]);
  scaled(tile.scale[group], -8.0f, tile.minimum[group]);
}

void unpack_q4_1(const uint8_t* b, uint32_t col, uint32_t group, CodeTile& tile) {
  nibbles(b, 4, col, tile.codes);
  halves(b, tile.scale[group]);
  halves(field(b, 2), tile.minimum[group]);
}

void unpack_q5_0(const uint8_t* b, uint32_t col, uint32_t group, CodeTile& tile) {
  nibbles(b, 6, col, tile.codes);
  fifth_bits(b, 2, col, tile.codes);
  halves(b, tile.scale[group]);
  scaled(tile.scale[group], -16.0f, tile.minimum[group]);
}

void unpack_q5_1(const uint8_t* b, uint32_t col, uint32_t group, CodeTile& tile) {
  nibbles(b, 8, col, tile.codes);
  fifth_bits(b, 4, col, tile.codes);
  halves(b, tile.scale[group]);
  halves(field(b, 2), tile.minimum[group]);
}

void unpack_q8_0(const uint8_t* b, uint32_t col, uint32_t group, CodeTile& tile) {
  __builtin_memcpy(codes_at(tile.codes, col), field(b, 2), sizeof(uint8_t) * 32 * kTileRows);
  halves(b, tile.scale[group]);
  scaled(tile.scale[group], 0, tile.minimum[group]);
}

// Non-linear 4-bit levels of IQ4_NL and IQ4_XS (ggml `kvalues_iq4nl`).
constexpr int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};

// Levels of `n` bytes' low and high halves. The compiler knows no table look-up in a register.
#if defined(__AVX512BW__) && defined(__AVX512DQ__)
void look_up_levels(const uint8_t* q, uint32_t n, uint8_t* low, uint8_t* high) {
  const __m512i levels =
      _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(kIq4Levels)));
  const __m512i nibble = _mm512_set1_epi8(15);
  for (uint32_t i = 0; i < n; i += 64) {
    const __m512i both = _mm512_loadu_si512(q + i);
    const __m512i top = _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble);
    _mm512_storeu_si512(low + i, _mm512_shuffle_epi8(levels, _mm512_and_si512(both, nibble)));
    _mm512_storeu_si512(high + i, _mm512_shuffle_epi8(levels, top));
  }
}
#elif defined(__AVX2__)
void look_up_levels(const uint8_t* q, uint32_t n, uint8_t* low, uint8_t* high) {
  const __m256i levels =
      _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(kIq4Levels)));
  const __m256i nibble = _mm256_set1_epi8(15);
  for (uint32_t i = 0; i < n; i += 32) {
    const __m256i both = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(q + i));
    const __m256i top = _mm256_and_si256(_mm256_srli_epi16(both, 4), nibble);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(low + i),
                        _mm256_shuffle_epi8(levels, _mm256_and_si256(both, nibble)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(high + i), _mm256_shuffle_epi8(levels, top));
  }
}
#else
void look_up_levels(const uint8_t* q, uint32_t n, uint8_t* low, uint8_t* high) {
  for (uint32_t i = 0; i < n; ++i) {
    low[i] = static_cast<uint8_t>(kIq4Levels[q[i] & 15]);
    high[i] = static_cast<uint8_t>(kIq4Levels[q[i] >> 4]);
  }
}
#endif

void iq4_levels(const uint8_t* block, uint32_t offset, uint32_t col, Codes codes) {
  look_up_levels(field(block, offset), 16 * kTileRows,
                 reinterpret_cast<uint8_t*>(codes_at(codes, col)),
                 reinterpret_cast<uint8_t*>(codes_at(codes, col + 16)));
}

void unpack_iq4_nl(const uint8_t* b, uint32_t col, uint32_t group, CodeTile& tile) {
  iq4_levels(b, 2, col, tile.codes);
  halves(b, tile.scale[group]);
  scaled(tile.scale[group], 0, tile.minimum[group]);
}

void unpack_iq4_xs(const uint8_t* b, uint32_t col, uint32_t group, CodeTile& tile) {
  float d[kTileRows];
  halves(b, d);
  const uint8_t* high = field(b, 2);
  for (uint32_t g = 0; g < 8; ++g) {
    iq4_levels(b, 8 + 16 * g, col + 32 * g, tile.codes);
    const uint8_t* low = field(b, 4 + g / 2);
    for (uint32_t row = 0; row < kTileRows; ++row) {
      uint16_t tops;
      __builtin_memcpy(&tops, high + 2 * row, 2);
      const int six = ((low[row] >> (4 * (g & 1))) & 15) | (((tops >> (2 * g)) & 3) << 4);
      tile.scale[group + g][row] = d[row] * static_cast<float>(six - 32);
      tile.minimum[group + g][row] = 0;
    }
  }
}

void unpack_q2_k(const uint8_t* b, uint32_t col, uint32_t group, CodeTile& tile) {
  for (uint32_t n = 0; n < 2; ++n)
    for (uint32_t j = 0; j < 4; ++j)
      for (uint32_t unit = 0; unit < 8; ++unit)
        bit_fields(words(b, 16 + 32 * n, unit), 2 * j, kPairs,
                   codes_at(tile.codes, col + 128 * n + 32 * j + 4 * unit));
  float d[kTileRows], dmin[kTileRows];
  halves(field(b, 80), d);
  halves(field(b, 82), dmin);
  for (uint32_t g = 0; g < 16; ++g) {
    const uint8_t* both = field(b, g);
    for (uint32_t row = 0; row < kTileRows; ++row) {
      tile.scale[group + g][row] = d[row] * static_cast<float>(both[row] & 15);
      tile.minimum[group + g][row] = -(dmin[row] * static_cast<float>(both[row] >> 4));
    }
  }
}

// Six-bit scales of Q3_K, less 32.
void q3_k_scales(const uint8_t* b, uint32_t g, int8_t* to) {
  const uint8_t* low = field(b, 96 + g % 8);
  const uint8_t* top = field(b, 104 + g % 4);
  const uint32_t low_shift = g < 8 ? 0 : 4;
  for (uint32_t row = 0; row < kTileRows; ++row)
    to[row] = static_cast<int8_t>(
        (((low[row] >> low_shift) & 15) | (((top[row] >> (2 * (g / 4))) & 3) << 4)) - 32);
}

void q3_k_codes(const uint8_t* b, uint32_t col, Codes codes) {
  for (uint32_t n = 0; n < 2; ++n)
    for (uint32_t j = 0; j < 4; ++j)
      for (uint32_t unit = 0; unit < 8; ++unit) {
        Word* to = codes_at(codes, col + 128 * n + 32 * j + 4 * unit);
        bit_fields(words(b, 32 + 32 * n, unit), 2 * j, kPairs, to);
        add_fields(words(b, 0, unit), 4 * n + j, kBits, 2, to);
      }
}

void unpack_q3_k(const uint8_t* b, uint32_t col, uint32_t group, CodeTile& tile) {
  q3_k_codes(b, col, tile.codes);
  float d[kTileRows];
  halves(field(b, 108), d);
  for (uint32_t g = 0; g < 16; ++g) {
    int8_t sixes[kTileRows];
    q3_k_scales(b, g, sixes);
    multiples(d, sixes, tile.scale[group + g]);
    scaled(tile.scale[group + g], -4.0f, tile.minimum[group + g]);
  }
}

// Scales and minimums of group g of Q4_K and Q5_K: six bits each, packed into 12 bytes at 4.
void k4_scales(const uint8_t* b, uint32_t g, uint8_t* scales, uint8_t* minimums) {
  const uint8_t* s0 = field(b, 4 + g % 4);
  const uint8_t* s4 = field(b, 8 + g % 4);
  const uint8_t* s8 = field(b, 12 + g % 4);
  for (uint32_t row = 0; row < kTileRows; ++row) {
    scales[row] =
        static_cast<uint8_t>(g < 4 ? s0[row] & 63 : (s8[row] & 15) | ((s0[row] >> 6) << 4));
    minimums[row] =
        static_cast<uint8_t>(g < 4 ? s4[row] & 63 : (s8[row] >> 4) | ((s4[row] >> 6) << 4));
  }
}

void k4_float_scales(const uint8_t* b, uint32_t group, CodeTile& tile) {
  float d[kTileRows], dmin[kTileRows];
  halves(b, d);
  halves(field(b, 2), dmin);
  scaled(dmin, -1.0f, dmin);
  for (uint32_t g = 0; g < 8; ++g) {
    uint8_t scales[kTileRows], minimums[kTileRows];
    k4_scales(b, g, scales, minimums);
    multiples(d, scales, tile.scale[group + g]);
    multiples(dmin, minimums, tile.minimum[group + g]);
  }
}

void q4_k_codes(const uint8_t* b, uint32_t col, uint32_t offset, Codes codes) {
  for (uint32_t k = 0; k < 4; ++k)
    for (uint32_t unit = 0; unit < 8; ++unit) {
      const Word* q = words(b, offset + 32 * k, unit);
      bit_fields(q, 0, kNibbles, codes_at(codes, col + 64 * k + 4 * unit));
      bit_fields(q, 4, kNibbles, codes_at(codes, col + 64 * k + 32 + 4 * unit));
    }
}

void q5_k_codes(const uint8_t* b, uint32_t col, Codes codes) {
  q4_k_codes(b, col, 48, codes);
  for (uint32_t g = 0; g < 8; ++g)
    for (uint32_t unit = 0; unit < 8; ++unit)
      add_fields(words(b, 16, unit), g, kBits, 4, codes_at(codes, col + 32 * g + 4 * unit));
}

void q6_k_codes(const uint8_t* b, uint32_t col, Codes codes) {
  for (uint32_t n = 0; n < 2; ++n)
    for (uint32_t j = 0; j < 4; ++j)  // 32 inputs each
      for (uint32_t unit = 0; unit < 8; ++unit) {
        Word* to = codes_at(codes, col + 128 * n + 32 * j + 4 * unit);
        bit_fields(words(b, 64 * n + 32 * (j % 2), unit), 4 * (j / 2), kNibbles, to);
        add_fields(words(b, 128 + 32 * n, unit), 2 * j, kPairs, 4, to);
      }
}

void q6_k_float_scales(const uint8_t* b, uint32_t group, CodeTile& tile) {
  float d[kTileRows];
  halves(field(b, 208), d);
  for (uint32_t g = 0; g < 16; ++g) {
    multiples(d, reinterpret_cast<const int8_t*>(field(b, 192 + g)), tile.scale[group + g]);
    scaled(tile.scale[group + g], -32.0f, tile.minimum[group + g]);
  }
}

void unpack_q4_k(const uint8_t* b, uint32_t col, uint32_t group, CodeTile& tile) {
  q4_k_codes(b, col, 16, tile.codes);
  k4_float_scales(b, group, tile);
}

void unpack_q5_k(const uint8_t* b, uint32_t col, uint32_t group, CodeTile& tile) {
  q5_k_codes(b, col, tile.codes);
  k4_float_scales(b, group, tile);
}

void unpack_q6_k(const uint8_t* b, uint32_t col, uint32_t group, CodeTile& tile) {
  q6_k_codes(b, col, tile.codes);
  q6_k_float_scales(b, group, tile);
}

struct Format {
  uint32_t block_cols;
  uint32_t block_bytes;  // of one row
  bool half_groups;
  bool is_signed;
  uint8_t code_bits;
  void (*unpack)(const uint8_t* block, uint32_t col, uint32_t group, CodeTile& tile);
};

Format format_of(CodeType type) {
  switch (type) {
    case CodeType::q4_0:
      return {32, 18, false, false, 4, unpack_q4_0};
    case CodeType::q4_1:
      return {32, 20, false, false, 4, unpack_q4_1};
    case CodeType::q5_0:
      return {32, 22, false, false, 5, unpack_q5_0};
    case CodeType::q5_1:
      return {32, 24, false, false, 5, unpack_q5_1};
    case CodeType::q8_0:
      return {32, 34, false, true, 8, unpack_q8_0};
    case CodeType::q2_k:
      return {256, 84, true, false, 2, unpack_q2_k};
    case CodeType::q3_k:
      return {256, 110, true, false, 3, unpack_q3_k};
    case CodeType::q4_k:
      return {256, 144, false, false, 4, unpack_q4_k};
    case CodeType::q5_k:
      return {256, 176, false, false, 5, unpack_q5_k};
    case CodeType::q6_k:
      return {256, 210, true, false, 6, unpack_q6_k};
    case CodeType::iq4_nl:
      return {32, 18, false, true, 8, unpack_iq4_nl};
    case CodeType::iq4_xs:
      return {256, 136, false, true, 8, unpack_iq4_xs};
  }
  return {};
}

void unpack_tile(CodeType type, const WeightBlock& block, CodeTile& tile) {
  const Format format = format_of(type);
  tile.half_groups = format.half_groups;
  tile.is_signed = format.is_signed;
  tile.code_bits = format.code_bits;
  tile.n_groups32 = block.n_cols / kGroupCols;
  const uint32_t groups_per_block = format.block_cols / (format.half_groups ? 16 : 32);
  for (uint32_t i = 0; i < block.n_cols / format.block_cols; ++i)
    format.unpack(field(block.data, i * format.block_bytes), i * format.block_cols,
                  i * groups_per_block, tile);
}

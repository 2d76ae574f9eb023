// The table of functions an instruction set provides: everything hot, and nothing else.
//
//   const Kernels& k = *choose_isa("auto", "").kernels;
//   k.unpack_codes(block, tile);                              // once per weight block
//   k.multiply_codes(tile, panel, stride, n_rows, acc);       // for all rows of the canvas
//
// Each table lives in one file (kernels_avx2.cpp, ...), compiled with its own flags. Those files
// hold plain data and unnamed namespaces only: an inline std template compiled with AVX could
// otherwise be the copy the linker keeps for a machine without it (one-definition rule). For the
// same reason this header uses no std types beyond integers. Thread rule: pure functions, any
// thread.
#pragma once

#include <stdint.h>

/// A step of a kernel: with a call in its place the registers of the loop around it would spill.
#define DLLM_INLINE inline __attribute__((always_inline))

namespace dllm::cpu {

/// Weight rows (outputs) that are unpacked and multiplied together.
constexpr uint32_t kTileRows = 32;
/// Inputs per unpacked block: one super-block of the K types, eight blocks of the others.
constexpr uint32_t kBlockCols = 256;
/// Inputs that share one activation scale.
constexpr uint32_t kGroupCols = 32;
/// Row buffers handed to kernels are padded to a multiple of this.
constexpr uint32_t kPadCols = 32;
/// Inputs that one call of multiply_floats takes at most: its weights fit the first-level cache.
constexpr uint32_t kFloatCols = 128;
/// Rows of codes that must be readable behind the last one of a fast panel.
constexpr uint32_t kFastRowSlack = 32;

/// 32 activations of one row: x[k] ~ scale * codes[k], codes in [-127, 127]. The sums serve the
/// constant part of a weight group: sum = scale * (sum of the codes it covers).
/// A panel is ActivationGroup[n_groups][n_rows]: for one group all rows lie side by side, so the
/// multiplication streams through memory whatever the row length.
struct ActivationGroup {
  int8_t codes[kGroupCols];
  float scale;
  float sum32;     // of all 32 codes
  float sum16[2];  // of each half; or what the table's own `quantise` keeps there
};

/// Integer codes of kTileRows weight rows over one block: w = scale * code + minimum per group.
/// Rows and groups that do not exist hold zeros.
struct CodeTile {
  // Four consecutive inputs of one row side by side, then the next row: what a 32-bit lane of an
  // integer dot product takes. [input / 4][row][input % 4], unsigned, or signed where `is_signed`.
  alignas(64) uint8_t codes[kBlockCols / 4][kTileRows][4];
  alignas(64) float scale[kBlockCols / 16][kTileRows];    // [group][row]
  alignas(64) float minimum[kBlockCols / 16][kTileRows];  // [group][row]
  alignas(64) float row_scale[kTileRows];  // of requantised codes; or that of scale_codes
  // scale = row_scale * scale_codes (twice the same), where the instruction set wants it so.
  alignas(64) int16_t scale_codes[kBlockCols / 16][kTileRows][2];
  bool has_scale_codes;
  uint32_t n_groups32;  // inputs / 32 of this block
  bool half_groups;     // a scale covers 16 inputs (else 32)
  bool is_signed;       // codes are int8; minimum is not used
  uint8_t code_bits;    // unsigned codes are below 1 << code_bits
};

/// BF16 weights of kTileRows rows over one block, the two inputs that a 32-bit lane of a BF16
/// product takes side by side: [input / 2][row][input % 2]. What does not exist is 0.
struct BrainTile {
  alignas(64) uint16_t pairs[kBlockCols / 2][kTileRows][2];
};

/// Block-quantised types a CodeTile can hold. Values equal dllm::DType.
enum class CodeType : uint32_t {
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  iq4_nl = 20,
  iq4_xs = 23
};

/// 16-bit float types. Values equal dllm::DType.
enum class FloatType : uint32_t { f16 = 1, bf16 = 30 };

/// One block of packed weights (layout: pack.hpp), kTileRows rows: those that do not exist are 0.
struct WeightBlock {
  const uint8_t* data;  // 64-byte aligned
  uint32_t n_cols;      // <= kBlockCols; a multiple of 32 in block-quantised types
};

/// Sums over a stretch of logits relative to `max`: d = (l - max) * inverse_temperature.
struct ExpSums {
  double sum;       // of exp(d)
  double weighted;  // of exp(d) * d
};

/// The two largest values of a stretch (equal where they tie), and whether any is NaN or +inf.
struct Extent {
  float max;
  float second;
  bool bad;
};

/// Rows whose codes a tile register takes, and codes of a row it takes.
constexpr uint32_t kCodeRows = 16;
constexpr uint32_t kCodeCols = 64;

/// Activations for the fast products: x[k] ~ scale * code, one scale per row and block of
/// kBlockCols inputs. Rows of one block lie side by side.
struct FastBlock {
  int8_t* codes;  // [row][kBlockCols], in [-127, 127]; or in tiles (FastKernels::in_tiles)
  float* scales;  // [row]
  int32_t* sums;  // [row]: of the codes
};

/// The fast products of an instruction set: a block of weights is rounded again, to int8 with one
/// scale per row, so that kBlockCols inputs accumulate in integers with a single scale at the end.
struct FastKernels {
  /// Whether weights of a type go this way: K types, whose activations llama.cpp gives one scale
  /// per 256 as well. The others have a scale per 32, of which requantising would lose more than
  /// the activations do.
  bool (*takes)(CodeType type);
  /// Rewrites tile.codes as round(w / row_scale) in [-127, 127] (plus 128 where the instruction set
  /// multiplies unsigned codes) and fills tile.row_scale; tile.scale and .minimum stay.
  /// Needs unsigned codes of at most 6 bits and kBlockCols inputs.
  void (*requantise)(CodeTile& tile);
  /// Unpacks a block of a K type to what unpack_codes and requantise would make of it.
  void (*unpack)(CodeType type, const WeightBlock& block, CodeTile& tile);
  /// Quantises one row: x[g * group_stride + k] for the 8 groups of 32 values. A value that is not
  /// finite makes the scale NaN.
  void (*quantise)(const float* x, uint64_t group_stride, const FastBlock& row);
  /// acc[r * kTileRows + i] += row_scale[i] * scale[r] * (sum of code products over the block).
  /// Up to kFastRowSlack - 1 rows of codes behind the last one may be read.
  void (*multiply)(const CodeTile& tile, const FastBlock& first, uint32_t n_rows, float* acc);
  /// Around a run of `multiply` calls on one thread: its processor state.
  void (*enter)();
  void (*leave)();
  /// Tiles of weights that share a pass over an input too long for the second-level cache, where
  /// `multiply` outruns the third-level one; else 1.
  uint32_t pass_tiles;
  /// Codes lie as tile registers take them, which loads them from the second-level cache faster:
  /// [row / kCodeRows][code / kCodeCols][row % kCodeRows][code % kCodeCols]. Then the first row of
  /// `multiply` is the first of a tile, and `quantise` gets the place of a row's first code.
  bool in_tiles;
};

/// Products of BF16 weights with activations rounded to BF16, as llama.cpp rounds them: two a lane
/// and instruction, summed in f32.
struct BrainKernels {
  /// kGroupCols values to BF16, to nearest, ties to even.
  void (*round)(const float* x, uint16_t* out);
  /// A block of packed BF16 weights.
  void (*unpack)(const WeightBlock& block, BrainTile& tile);
  /// acc[r * kTileRows + i] += products of rows[r * kBlockCols + k] and weight row i over a block.
  /// Up to kFastRowSlack - 1 rows behind the last one may be read.
  void (*multiply)(const BrainTile& tile, const uint16_t* rows, uint32_t n_rows, float* acc);
  /// Around a run of `multiply` calls on one thread: its processor state.
  void (*enter)();
  void (*leave)();
};

/// Rows to quantise, n_groups groups of kGroupCols inputs each: x[r * stride + i], times
/// factors[r] * weight[i] where weight is not null.
struct QuantiseRows {
  const float* x;
  uint64_t stride;
  uint32_t n_rows;
  uint32_t n_groups;
  const float* factors;
  const float* weight;
};

/// A draw's Philox key and counter (dllm_sdk/philox.h) but for the id.
struct DrawKey {
  uint64_t seed;
  uint32_t step;
  uint32_t position;
  uint32_t purpose;
};

/// One head of n_rows queries: q[r * stride + d]; results have the same stride.
struct AttentionQueries {
  const float* q;
  uint64_t stride;
  uint32_t n_rows;
  uint32_t head_dim;
  float scale;
};

/// One head of n_keys rows of keys and values: k[i * stride + d].
struct AttentionKeys {
  const float* k;
  const float* v;
  uint64_t stride;
  uint32_t n_keys;
  uint32_t head_dim;
};

/// Packed keys and values of one head, AttentionMath::key_block keys a panel.
struct AttentionPanels {
  const float* first;
  uint64_t stride;  // floats from panel to panel
  uint32_t n_keys;
};

/// Attention of one block of queries. Memory is 64-byte aligned; sizes are multiples of 16 floats.
struct AttentionMath {
  uint32_t query_block;  // queries that walk over the keys together, at most
  uint32_t key_block;    // keys that are taken at a time
  uint64_t (*panel_floats)(uint32_t head_dim);
  uint64_t (*scratch_floats)(uint32_t head_dim);  // of one thread
  /// Packs n_keys <= key_block rows; the panel is theirs alone.
  void (*pack)(const AttentionKeys& from, float* panel);
  /// out[r] = softmax(scale q k^T) v.
  void (*attend)(const AttentionQueries& in, const AttentionPanels& keys, float* scratch,
                 float* out);
};

/// Row-wise arithmetic: one source (row_math.inl) that each table compiles to its own width.
struct RowMath {
  /// 1 / sqrt(mean(x^2) + eps), the mean in double.
  float (*norm_factor)(const float* x, uint32_t n, float eps);
  /// out = x * norm_factor(x) * weight; out may alias x.
  void (*normalise)(const float* x, const float* weight, uint32_t n, float eps, float* out);
  /// Group g of row r goes to out[g * group_stride + r]. A value that is not finite makes its
  /// group's scale NaN, so that it is not lost.
  void (*quantise)(const QuantiseRows& in, ActivationGroup* out, uint64_t group_stride);
  /// out = silu(gate) * up, n values.
  void (*silu_multiply)(const float* gate, const float* up, uint32_t n, float* out);
  /// Rotates the leading n_rot values of each head of a row. Pairs (2i, 2i + 1): the table holds
  /// n_rot cosines, each twice, then n_rot sines, of each pair -sine and sine. Pairs
  /// (i, i + n_rot / 2): n_rot / 2 cosines, then n_rot / 2 sines.
  void (*rotate_pairs)(float* row, uint32_t n_heads, uint32_t head_dim, const float* table,
                       uint32_t n_rot);
  void (*rotate_halves)(float* row, uint32_t n_heads, uint32_t head_dim, const float* table,
                        uint32_t n_rot);
  /// x = exp(x) in place.
  void (*exponentials)(float* x, uint32_t n);
  Extent (*extent)(const float* x, uint32_t n);
  ExpSums (*exp_sums)(const float* x, uint32_t n, float max, float inverse_temperature);
  /// First index of `value`; n where there is none.
  uint32_t (*index_of)(const float* x, uint32_t n, float value);
  /// Of 64 ids from first_id (a multiple of 4): bit i is 0 only where id first_id + i surely has
  /// l * inverse_temperature + g < b, for the b that `offset` = ln 2^32 + slack - b was made of.
  uint64_t (*may_win)(const DrawKey& key, uint32_t first_id, const float* logits,
                      float inverse_temperature, float offset);
  AttentionMath attention;
};

struct BlockKernels;

struct Kernels {
  const char* name;

  /// Fills `tile` from a block.
  void (*unpack_codes)(CodeType type, const WeightBlock& block, CodeTile& tile);
  /// acc[r * kTileRows + i] += sum over the block's inputs of activation r and weight row i.
  /// `panel` points at the block's first group and the first row; groups are `group_stride` apart.
  /// The order of additions to an element depends on the tile's type alone, never on n_rows.
  void (*multiply_codes)(const CodeTile& tile, const ActivationGroup* panel, uint32_t group_stride,
                         uint32_t n_rows, float* acc);
  /// acc[r * kTileRows + i] += sum over inputs [0, n_k), n_k <= kFloatCols, of value r and weight
  /// row i: weights[k * kTileRows + i], 64-byte aligned. Values lie as in the panel of groups:
  /// values[(k / kGroupCols * group_stride + r) * kGroupCols + k % kGroupCols].
  void (*multiply_floats)(const float* weights, uint32_t n_k, const float* values,
                          uint64_t group_stride, uint32_t n_rows, float* acc);
  /// n values, a multiple of 16, to f32.
  void (*widen_floats)(FloatType type, const uint8_t* from, uint32_t n, float* to);

  /// kRowMath of row_math.inl; `quantise` may keep other sums where multiply_codes wants them.
  RowMath rows;

  /// Exact products with integer group scales (block_kernels.hpp); null where the table has none.
  const BlockKernels* blocks = nullptr;
};

// Tables that this build has; null where the compiler's target cannot have it.
const Kernels* portable_kernels();
const Kernels* avx2_kernels();
const Kernels* avxvnni_kernels();
const Kernels* avx512vnni_kernels();
// Fast products of the instruction set of that name; null likewise.
const FastKernels* avxvnni_fast();
const FastKernels* avx512vnni_fast();
const FastKernels* amx_fast();
// BF16 products likewise; avx512bf16 also rounds and unpacks for amx.
const BrainKernels* avx512bf16_brains();
const BrainKernels* amx_brains();
// Attention with AMX BF16 tiles; null likewise.
const AttentionMath* amx_attention();

}  // namespace dllm::cpu

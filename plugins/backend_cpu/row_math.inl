// Row-wise arithmetic in GCC's vector types: one source, compiled by each instruction set's file to
// its own width. Included inside the unnamed namespace of a kernels_*.cpp.
// Every reduction has a fixed shape (8 lanes, then a fixed tree), so a row's result never depends
// on anything but the row.

typedef float F8 __attribute__((vector_size(32)));
typedef int32_t I8 __attribute__((vector_size(32)));
typedef float F4 __attribute__((vector_size(16)));
typedef double D4 __attribute__((vector_size(32)));
typedef int8_t B8 __attribute__((vector_size(8)));

constexpr float kMaxFinite = 3.4028234663852886e38f;
constexpr float kInfinity = __builtin_inff();

inline __attribute__((always_inline)) F8 load8(const float* p) {
  F8 v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
inline __attribute__((always_inline)) void store8(float* p, F8 v) {
  __builtin_memcpy(p, &v, sizeof v);
}
inline __attribute__((always_inline)) F8 splat(float x) { return F8{} + x; }

// The last n < 8 values, the rest filled.
inline __attribute__((always_inline)) F8 load_tail(const float* p, uint32_t n, float fill) {
  F8 v = splat(fill);
  for (uint32_t i = 0; i < n; ++i) v[i] = p[i];
  return v;
}

// Eight doubles as two vectors: g++ 12 sends 64-byte vectors through memory without AVX-512.
struct D8 {
  D4 low, high;
};
inline __attribute__((always_inline)) D8 widen(F8 v) {
  F4 halves[2];
  __builtin_memcpy(halves, &v, sizeof v);
  return {__builtin_convertvector(halves[0], D4), __builtin_convertvector(halves[1], D4)};
}
inline __attribute__((always_inline)) double sum_lanes(D8 v) {
  const D4 s = v.low + v.high;
  return (s[0] + s[2]) + (s[1] + s[3]);
}
inline __attribute__((always_inline)) float sum_lanes(F8 v) {
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}
inline __attribute__((always_inline)) float max_lanes(F8 v) {
  float m = v[0];
  for (int i = 1; i < 8; ++i) m = v[i] > m ? v[i] : m;
  return m;
}
inline __attribute__((always_inline)) F8 absolute(F8 x) {
  I8 bits = reinterpret_cast<I8>(x) & 0x7FFFFFFF;
  return reinterpret_cast<F8>(bits);
}

// e^x: x = n ln 2 + r with |r| <= ln 2 / 2 (ln 2 split in two: Cody and Waite), e^r by its Taylor
// polynomial of degree 7, whose remainder is below 6e-9, then the exponent n. Relative error below
// 2.5e-7 for x >= -87; below that 0, above 88.37 the value saturates at 2.4e38. NaN stays NaN.
inline __attribute__((always_inline)) F8 exp8(F8 x) {
  const F8 high = splat(88.37f);
  const F8 magic = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  x = x > high ? high : x;
  const I8 underflow = x < splat(-87.0f);
  F8 n = x * 1.44269504088896341f + magic;
  const I8 exponent = reinterpret_cast<I8>(n) - 0x4B400000;
  n = n - magic;
  F8 r = x - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  F8 p = splat(1.0f / 5040.0f);
  p = p * r + 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const I8 power = (exponent + 127) << 23;
  p = p * reinterpret_cast<F8>(power);
  return underflow ? F8{} : p;
}

void exponentials(float* x, uint32_t n) {
  uint32_t i = 0;
  for (; i + 8 <= n; i += 8) store8(x + i, exp8(load8(x + i)));
  if (i < n) {
    const F8 e = exp8(load_tail(x + i, n - i, 0));
    for (uint32_t j = 0; i + j < n; ++j) x[i + j] = e[j];
  }
}

void normalise(const float* x, const float* weight, uint32_t n, float eps, float* out) {
  D8 squares = {};
  uint32_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const D8 v = widen(load8(x + i));
    squares.low += v.low * v.low;
    squares.high += v.high * v.high;
  }
  double sum = sum_lanes(squares);
  for (; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
  const float factor = static_cast<float>(1.0 / __builtin_sqrt(sum / n + static_cast<double>(eps)));
  for (i = 0; i + 8 <= n; i += 8) store8(out + i, load8(x + i) * factor * load8(weight + i));
  for (; i < n; ++i) out[i] = x[i] * factor * weight[i];
}

// Below this a group is all zeros: its products could not be told from rounding.
constexpr float kSmallestGroup = 1e-30f;

void quantise(const float* x, ActivationGroup* out) {
  F8 largest = {};
  I8 finite = I8{} - 1;
  for (int i = 0; i < 32; i += 8) {
    const F8 a = absolute(load8(x + i));
    finite &= a <= splat(kMaxFinite);
    largest = a > largest ? a : largest;
  }
  bool all_finite = true;
  for (int i = 0; i < 8; ++i) all_finite &= finite[i] != 0;
  const float amax = max_lanes(largest);
  const bool usable = all_finite && amax >= kSmallestGroup;
  out->scale = usable ? amax * (1.0f / 127.0f) : (all_finite ? 0.0f : __builtin_nanf(""));
  const float inverse = usable ? 127.0f / amax : 0.0f;
  const F8 magic = splat(12582912.0f);  // rounds to nearest, ties to even
  int32_t sums[2] = {};
  for (int i = 0; i < 32; i += 8) {
    const F8 v = usable ? load8(x + i) * inverse : F8{};
    const I8 q = reinterpret_cast<I8>(v + magic) - 0x4B400000;
    const B8 bytes = __builtin_convertvector(q, B8);
    __builtin_memcpy(out->codes + i, &bytes, 8);
    sums[i / 16] += ((q[0] + q[4]) + (q[2] + q[6])) + ((q[1] + q[5]) + (q[3] + q[7]));
  }
  out->sum16[0] = out->scale * static_cast<float>(sums[0]);
  out->sum16[1] = out->scale * static_cast<float>(sums[1]);
  out->sum32 = out->scale * static_cast<float>(sums[0] + sums[1]);
}

void silu_multiply(const float* gate, const float* up, uint32_t n, float* out) {
  for (uint32_t i = 0; i < n; i += 8) {
    const uint32_t left = n - i;
    const F8 g = left >= 8 ? load8(gate + i) : load_tail(gate + i, left, 0);
    const F8 u = left >= 8 ? load8(up + i) : load_tail(up + i, left, 0);
    const F8 y = g / (1.0f + exp8(-g)) * u;
    if (left >= 8) {
      store8(out + i, y);
    } else {
      for (uint32_t j = 0; j < left; ++j) out[i + j] = y[j];
    }
  }
}

float softmax_step(float* scores, uint32_t n, float scale, float* max, float* sum) {
  F8 largest = splat(-kInfinity);
  for (uint32_t i = 0; i < n; i += 8) {
    const F8 s = n - i >= 8 ? load8(scores + i) : load_tail(scores + i, n - i, -kInfinity);
    const F8 v = s * scale;
    largest = v > largest ? v : largest;
  }
  const float block_max = max_lanes(largest);
  const float new_max = block_max > *max ? block_max : *max;
  float correction[8] = {*max - new_max};
  exponentials(correction, 8);
  F8 total = {};
  for (uint32_t i = 0; i < n; i += 8) {
    const uint32_t left = n - i;
    const F8 s = left >= 8 ? load8(scores + i) : load_tail(scores + i, left, -kInfinity);
    const F8 e = exp8(s * scale - new_max);
    total += e;
    if (left >= 8) {
      store8(scores + i, e);
    } else {
      for (uint32_t j = 0; j < left; ++j) scores[i + j] = e[j];
    }
  }
  *sum = *sum * correction[0] + sum_lanes(total);
  *max = new_max;
  return correction[0];
}

Extent extent(const float* x, uint32_t n) {
  F8 largest = splat(-kInfinity);
  I8 good = I8{} - 1;
  uint32_t i = 0;
  for (; i < n; i += 8) {
    const F8 v = n - i >= 8 ? load8(x + i) : load_tail(x + i, n - i, -kInfinity);
    good &= v <= splat(kMaxFinite);
    largest = v > largest ? v : largest;
  }
  bool all_good = true;
  for (int j = 0; j < 8; ++j) all_good &= good[j] != 0;
  return {max_lanes(largest), !all_good};
}

ExpSums exp_sums(const float* x, uint32_t n, float max, float inverse_temperature) {
  D8 sum = {};
  D8 weighted = {};
  const F8 floor = splat(-200.0f);  // e^-200 counts as 0; keeps -inf * 0 out of the products
  for (uint32_t i = 0; i < n; i += 8) {
    const F8 l = n - i >= 8 ? load8(x + i) : load_tail(x + i, n - i, -kInfinity);
    F8 d = (l - max) * inverse_temperature;
    d = d > floor ? d : floor;
    const D8 e = widen(exp8(d));
    const D8 wide = widen(d);
    sum.low += e.low;
    sum.high += e.high;
    weighted.low += e.low * wide.low;
    weighted.high += e.high * wide.high;
  }
  return {sum_lanes(sum), sum_lanes(weighted)};
}

// n binary16 values to f32.
void widen_halves(const uint8_t* from, uint32_t n, float* to) {
  for (uint32_t i = 0; i < n; ++i) to[i] = half_to_float(from + 2 * i);
}

constexpr RowMath kRowMath = {normalise,    quantise, silu_multiply, exponentials,
                              softmax_step, extent,   exp_sums,      widen_halves};

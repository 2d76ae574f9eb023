// AMX tile registers: eight of 16 rows of 64 bytes. Needs DLLM_LANES of vector.inl.
//
// All instructions are inline assembly that says which memory it reads and writes: g++ 12's
// intrinsics do not, and stores to memory only they read are dropped.

constexpr uint32_t kRegisterRows = 16;
constexpr uint32_t kStepBytes = 64;

// Intel SDM volume 1, "Tile configuration".
struct alignas(64) TileConfig {
  uint8_t palette;
  uint8_t start_row;
  uint8_t reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};
static_assert(sizeof(TileConfig) == 64);

void enter_tiles() {
  TileConfig config = {};
  config.palette = 1;
  for (int i = 0; i < 8; ++i) {
    config.row_bytes[i] = kStepBytes;
    config.rows[i] = kRegisterRows;
  }
  asm volatile("ldtilecfg %0" : : "m"(config));
}

void leave_tiles() { asm volatile("tilerelease"); }

template <int kRegister>
DLLM_LANES void load_tile(const void* from, uint64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2"
               :
               : "r"(from), "r"(stride), "i"(kRegister)
               : "memory");
}
template <int kRegister>
DLLM_LANES void store_tile(void* to, uint64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)"
               :
               : "r"(to), "r"(stride), "i"(kRegister)
               : "memory");
}
template <int kRegister>
DLLM_LANES void zero_tile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kRegister));
}

// sums[m][n] += the 32 products of BF16 row m of kA and BF16 pairs of column n of kB, in f32.
struct BrainTiles {
  template <int kSum, int kA, int kB>
  DLLM_LANES static void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
  }
};

// What a step multiplies: two tiles of the left side, two of the right one.
struct TileInputs {
  const void* left[2];
  uint64_t left_stride;
  const void* right[2];
  uint64_t right_stride;
};

// Registers: 4 and 5 the left tiles, 6 and 7 the right ones.
DLLM_LANES void load_inputs(const TileInputs& x) {
  load_tile<4>(x.left[0], x.left_stride);
  load_tile<6>(x.right[0], x.right_stride);
  load_tile<7>(x.right[1], x.right_stride);
  load_tile<5>(x.left[1], x.left_stride);
}

// Adds the products of what is loaded to sums 0 to 3, [left tile][right tile], and loads the next
// step's inputs: each register as soon as its last product has been issued, so that loads hide
// behind products. A step starts with the tiles that came first; `kOdd`: after a step that was not.
template <typename Products, bool kOdd>
DLLM_LANES void multiply_inputs(const TileInputs& next) {
  constexpr int kFirst = kOdd ? 1 : 0;   // the right tile that is multiplied first
  constexpr int kSecond = kOdd ? 0 : 1;  // and the one that is free first
  Products::template multiply<kFirst, 4, 6 + kFirst>();
  Products::template multiply<kSecond, 4, 6 + kSecond>();
  load_tile<4>(next.left[0], next.left_stride);
  Products::template multiply<2 + kSecond, 5, 6 + kSecond>();
  load_tile<6 + kSecond>(next.right[kSecond], next.right_stride);
  Products::template multiply<2 + kFirst, 5, 6 + kFirst>();
  load_tile<5>(next.left[1], next.left_stride);
  load_tile<6 + kFirst>(next.right[kFirst], next.right_stride);
}

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
template <int kSum, int kA, int kB>
DLLM_LANES void multiply_brains() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
}

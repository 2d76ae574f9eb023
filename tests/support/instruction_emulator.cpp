#include "instruction_emulator.hpp"

#if defined(__x86_64__) && defined(__linux__)

#include <signal.h>
#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstring>

namespace dllm::test {
namespace {

struct Tile {
  std::uint8_t rows[16][64];
};

struct TileState {
  std::uint16_t row_bytes[8];
  std::uint8_t rows[8];
  Tile tiles[8];
};

thread_local TileState state;

// One VEX-coded instruction of the 0F38 map without a width bit; the fields the SDM names.
struct Instruction {
  int prefix = 0;     // 0: none, 1: 66, 2: F3, 3: F2
  bool wide = false;  // 256 bits
  int opcode = 0;
  int mod = 0;
  int reg = 0;
  int rm = 0;
  int vvvv = 0;
  std::uint64_t address = 0;
  std::int64_t stride = 0;
  int length = 0;
};

// General registers in the order instructions number them.
std::uint64_t general_register(const ucontext_t& context, int number) {
  static constexpr int kOrder[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                     REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                     REG_R12, REG_R13, REG_R14, REG_R15};
  return static_cast<std::uint64_t>(context.uc_mcontext.gregs[kOrder[number]]);
}

bool decode(const ucontext_t& context, Instruction& out) {
  const auto start = static_cast<std::uint64_t>(context.uc_mcontext.gregs[REG_RIP]);
  const auto* code = reinterpret_cast<const std::uint8_t*>(start);
  if (code[0] != 0xC4 || (code[1] & 0x1F) != 2 || (code[2] & 0x80) != 0) return false;
  out.wide = (code[2] & 4) != 0;
  const int reg_high = (code[1] & 0x80) == 0 ? 8 : 0;
  const int index_high = (code[1] & 0x40) == 0 ? 8 : 0;
  const int base_high = (code[1] & 0x20) == 0 ? 8 : 0;
  out.vvvv = (~code[2] >> 3) & 15;
  out.prefix = code[2] & 3;
  out.opcode = code[3];
  out.mod = code[4] >> 6;
  out.reg = ((code[4] >> 3) & 7) + reg_high;
  out.rm = code[4] & 7;
  int at = 5;
  if (out.mod == 3) {
    out.rm += base_high;
  } else {
    if (out.mod == 0 && out.rm == 5) {  // relative to the next instruction
      std::int32_t offset = 0;
      std::memcpy(&offset, code + at, 4);
      out.length = at + 4;
      out.address = start + static_cast<std::uint64_t>(out.length + std::int64_t{offset});
      return true;
    }
    int base = out.rm + base_high;
    bool has_base = true;
    if (out.rm == 4) {
      const int sib = code[at++];
      base = (sib & 7) + base_high;
      has_base = !((sib & 7) == 5 && out.mod == 0);
      const int index = ((sib >> 3) & 7) + index_high;
      if (index != 4)
        out.stride = static_cast<std::int64_t>(general_register(context, index) << (sib >> 6));
    }
    if (has_base) out.address = general_register(context, base);
    if (out.mod == 1) {
      out.address += static_cast<std::uint64_t>(std::int64_t{static_cast<std::int8_t>(code[at])});
      at += 1;
    } else if (out.mod == 2 || !has_base) {
      std::int32_t offset = 0;
      std::memcpy(&offset, code + at, 4);
      out.address += static_cast<std::uint64_t>(std::int64_t{offset});
      at += 4;
    }
  }
  out.length = at;
  return true;
}

bool configure(const std::uint8_t* config) {
  if (config[0] != 1 || config[1] != 0) return false;
  state = {};
  for (int i = 0; i < 8; ++i) {
    std::memcpy(&state.row_bytes[i], config + 16 + 2 * i, 2);
    state.rows[i] = config[48 + i];
    if (state.rows[i] > 16 || state.row_bytes[i] > 64) return false;
  }
  return true;
}

void move_rows(const Instruction& instruction, bool store) {
  Tile& tile = state.tiles[instruction.reg];
  if (!store) tile = {};
  for (int r = 0; r < state.rows[instruction.reg]; ++r) {
    auto* memory = reinterpret_cast<std::uint8_t*>(
        instruction.address + static_cast<std::uint64_t>(r * instruction.stride));
    std::uint8_t* row = tile.rows[r];
    std::memcpy(store ? memory : row, store ? row : memory, state.row_bytes[instruction.reg]);
  }
}

// sums[m][n] += a[m][4 k + i] * b[k][4 n + i], signed bytes.
void multiply_signed(int sums, int a, int b) {
  for (int m = 0; m < state.rows[sums]; ++m)
    for (int k = 0; k < state.row_bytes[a] / 4; ++k)
      for (int n = 0; n < state.row_bytes[sums] / 4; ++n) {
        std::int32_t sum = 0;
        std::memcpy(&sum, state.tiles[sums].rows[m] + 4 * n, 4);
        for (int i = 0; i < 4; ++i)
          sum += static_cast<std::int8_t>(state.tiles[a].rows[m][4 * k + i]) *
                 static_cast<std::int8_t>(state.tiles[b].rows[k][4 * n + i]);
        std::memcpy(state.tiles[sums].rows[m] + 4 * n, &sum, 4);
      }
}

float from_brain(const std::uint8_t* at) {
  std::uint32_t bits = 0;
  std::memcpy(reinterpret_cast<std::uint8_t*>(&bits) + 2, at, 2);
  float value = 0;
  std::memcpy(&value, &bits, 4);
  return value;
}

// sums[m][n] += the products of even inputs, summed, plus those of odd ones; BF16 into f32.
// Numbers too small to be normal, which the instruction takes for 0, are not looked for.
void multiply_brains(int sums, int a, int b) {
  for (int m = 0; m < state.rows[sums]; ++m)
    for (int n = 0; n < state.row_bytes[sums] / 4; ++n) {
      float part[2] = {0, 0};
      for (int k = 0; k < state.row_bytes[a] / 4; ++k)
        for (int i = 0; i < 2; ++i)
          part[i] = std::fma(from_brain(state.tiles[a].rows[m] + 4 * k + 2 * i),
                             from_brain(state.tiles[b].rows[k] + 4 * n + 2 * i), part[i]);
      float sum = 0;
      std::memcpy(&sum, state.tiles[sums].rows[m] + 4 * n, 4);
      sum += part[0] + part[1];
      std::memcpy(state.tiles[sums].rows[m] + 4 * n, &sum, 4);
    }
}

// The 256-bit registers as the kernel saved them: lower halves in the FXSAVE area, upper ones at
// byte 576 of the XSAVE area where bit 2 of XSTATE_BV (at 512) says so (Intel SDM volume 1, chapter
// "Managing state using the XSAVE feature set"; signal frames are not compacted).
class VectorRegisters {
 public:
  explicit VectorRegisters(ucontext_t& context)
      : area_(reinterpret_cast<std::uint8_t*>(context.uc_mcontext.fpregs)) {
    std::uint64_t saved = 0;
    std::memcpy(&saved, area_ + 512, 8);
    if ((saved & 4) != 0) return;
    std::memset(area_ + 576, 0, 16 * 16);
    saved |= 4;
    std::memcpy(area_ + 512, &saved, 8);
  }
  std::uint8_t* byte(int number, int index) {
    return index < 16 ? area_ + 160 + 16 * number + index : area_ + 576 + 16 * number + index - 16;
  }

 private:
  std::uint8_t* area_;
};

// vpdpbusd: 32-bit sums[n] += unsigned a[4 n + i] * signed b[4 n + i].
bool dot_bytes(const Instruction& instruction, ucontext_t& context) {
  if (instruction.prefix != 1) return false;
  VectorRegisters registers(context);
  const auto* memory = reinterpret_cast<const std::uint8_t*>(instruction.address);
  for (int n = 0; n < (instruction.wide ? 32 : 16); n += 4) {
    std::int32_t sum = 0;
    std::memcpy(&sum, registers.byte(instruction.reg, n), 4);
    for (int i = n; i < n + 4; ++i) {
      const std::uint8_t b = instruction.mod == 3 ? *registers.byte(instruction.rm, i) : memory[i];
      sum += *registers.byte(instruction.vvvv, i) * static_cast<std::int8_t>(b);
    }
    std::memcpy(registers.byte(instruction.reg, n), &sum, 4);
  }
  if (!instruction.wide)
    for (int i = 16; i < 32; ++i) *registers.byte(instruction.reg, i) = 0;
  return true;
}

bool execute(const Instruction& instruction, ucontext_t& context) {
  constexpr int kNone = 0;
  constexpr int kF3 = 2;
  constexpr int kF2 = 3;
  if (instruction.opcode == 0x50) return dot_bytes(instruction, context);
  if (instruction.wide) return false;
  const bool configured = state.rows[0] != 0;
  switch (instruction.opcode) {
    case 0x49:
      if (instruction.prefix == kNone && instruction.mod != 3)
        return configure(reinterpret_cast<const std::uint8_t*>(instruction.address));
      if (instruction.prefix == kNone) {
        state = {};
        return true;
      }
      if (instruction.prefix != kF2 || !configured) return false;
      state.tiles[instruction.reg] = {};
      return true;
    case 0x4B:
      if ((instruction.prefix != kF2 && instruction.prefix != kF3) || !configured) return false;
      move_rows(instruction, instruction.prefix == kF3);
      return true;
    case 0x5C:
      if (instruction.prefix != kF3 || !configured) return false;
      multiply_brains(instruction.reg, instruction.rm, instruction.vvvv);
      return true;
    case 0x5E:
      if (instruction.prefix != kF2 || !configured) return false;
      multiply_signed(instruction.reg, instruction.rm, instruction.vvvv);
      return true;
    default:
      return false;
  }
}

void on_illegal_instruction(int number, siginfo_t*, void* raw) {
  auto& context = *static_cast<ucontext_t*>(raw);
  Instruction instruction;
  if (decode(context, instruction) && execute(instruction, context)) {
    context.uc_mcontext.gregs[REG_RIP] += instruction.length;
    return;
  }
  signal(number, SIG_DFL);  // returning runs the instruction again, this time fatally
}

}  // namespace

bool emulate_missing_instructions() {
  struct sigaction action = {};
  action.sa_sigaction = on_illegal_instruction;
  action.sa_flags = SA_SIGINFO;
  return sigaction(SIGILL, &action, nullptr) == 0;
}

}  // namespace dllm::test

#else

namespace dllm::test {
bool emulate_missing_instructions() { return false; }
}  // namespace dllm::test

#endif

#include "amx_emulator.hpp"

#if defined(__x86_64__) && defined(__linux__)

#include <signal.h>
#include <ucontext.h>

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
  int prefix = 0;  // 0: none, 1: 66, 2: F3, 3: F2
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
  if (code[0] != 0xC4 || (code[1] & 0x1F) != 2 || (code[2] & 0x84) != 0) return false;
  const int index_high = (code[1] & 0x40) == 0 ? 8 : 0;
  const int base_high = (code[1] & 0x20) == 0 ? 8 : 0;
  out.vvvv = (~code[2] >> 3) & 15;
  out.prefix = code[2] & 3;
  out.opcode = code[3];
  out.mod = code[4] >> 6;
  out.reg = (code[4] >> 3) & 7;
  out.rm = code[4] & 7;
  int at = 5;
  if (out.mod != 3) {
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

bool execute(const Instruction& instruction) {
  constexpr int kNone = 0;
  constexpr int kF3 = 2;
  constexpr int kF2 = 3;
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
  if (decode(context, instruction) && execute(instruction)) {
    context.uc_mcontext.gregs[REG_RIP] += instruction.length;
    return;
  }
  signal(number, SIG_DFL);  // returning runs the instruction again, this time fatally
}

}  // namespace

bool emulate_amx() {
  struct sigaction action = {};
  action.sa_sigaction = on_illegal_instruction;
  action.sa_flags = SA_SIGINFO;
  return sigaction(SIGILL, &action, nullptr) == 0;
}

}  // namespace dllm::test

#else

namespace dllm::test {
bool emulate_amx() { return false; }
}  // namespace dllm::test

#endif

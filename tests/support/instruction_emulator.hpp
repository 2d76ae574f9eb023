// AMX tile instructions and AVX-VNNI's vpdpbusd on processors without them, so that kernels made of
// them are tested everywhere: the instruction faults, a handler does its work in plain C++ and goes
// on behind it.
//
//   if (!emulate_missing_instructions()) GTEST_SKIP() << "...";
//
// Covers ldtilecfg, tilerelease, tilezero, tileloadd, tilestored, tdpbssd and tdpbf16ps (palette
// 1), and the VEX encoding of vpdpbusd, as the Intel SDM (volume 2) defines them. Each costs about
// a microsecond. Tiles are kept per thread, as the processor does.
#pragma once

namespace dllm::test {

/// Installs the handler of SIGILL for the rest of the process; an instruction it does not know ends
/// the process as before. False where it cannot work: not x86-64 Linux.
bool emulate_missing_instructions();

}  // namespace dllm::test

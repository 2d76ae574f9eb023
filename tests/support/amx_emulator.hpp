// AMX tile instructions on processors without them, so that kernels made of them are tested
// everywhere: the instruction faults, a handler does its work in plain C++ and goes on behind it.
//
//   if (!emulate_amx()) GTEST_SKIP() << "...";
//
// Covers ldtilecfg, tilerelease, tilezero, tileloadd, tilestored and tdpbssd as the Intel SDM
// (volume 2, chapter "AMX instruction set reference") defines them, for palette 1. Each instruction
// costs about a microsecond. State is kept per thread, as the processor does.
#pragma once

namespace dllm::test {

/// Installs the handler of SIGILL for the rest of the process; an instruction it does not know ends
/// the process as before. False where it cannot work: not x86-64 Linux.
bool emulate_amx();

}  // namespace dllm::test

// An instruction set of the CPU backend by name, whether this processor has it or not.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "isa.hpp"

namespace dllm::cpu::test {

inline const Isa& isa_named(std::string_view name) {
  for (const Isa& isa : all_isas())
    if (isa.name == name) return isa;
  throw std::logic_error("no instruction set is called " + std::string(name));
}

}  // namespace dllm::cpu::test

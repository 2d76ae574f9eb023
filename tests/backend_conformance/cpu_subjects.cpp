#include "conformance.hpp"
#include "subjects.hpp"

namespace dllm::test {

const std::vector<Subject>& subjects() {
  static const std::vector<Subject> all = [] {
    std::vector<Subject> made;
    for (const std::string& isa : usable_isas())
      made.push_back({isa, [isa] { return make_backend({isa}); }, read});
    return made;
  }();
  return all;
}

std::vector<Subject> attention_subjects() {
  std::vector<Subject> all = subjects();
  for (const std::string& isa : usable_isas())
    if (isa == "amx")
      all.push_back({.name = "amx/fast",
                     .make = [] { return make_backend({"amx", "fast"}); },
                     .read = read,
                     .split_operands = true});
  return all;
}

std::string no_subjects_reason() { return ""; }

}  // namespace dllm::test

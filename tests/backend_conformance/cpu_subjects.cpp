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

namespace {

// `read` imports an F32 matrix, after which attention is f32: another backend reads.
std::vector<float> read_beside(Backend&, TensorView view) {
  const auto reader = make_backend({"amx"});
  return read(*reader, view);
}

std::unique_ptr<Backend> make_backend_with_half_weights() {
  auto backend = make_backend({"amx", "fast"});
  WeightFile file;
  file.add("w", DType::f16, 32, 64, 1);
  file.import_to(*backend, "w");
  return backend;
}

}  // namespace

std::vector<Subject> attention_subjects() {
  std::vector<Subject> all = subjects();
  for (const std::string& isa : usable_isas()) {
    if (isa != "amx") continue;
    all.push_back({.name = "amx/fast",
                   .make = [] { return make_backend({"amx", "fast"}); },
                   .read = read_beside,
                   .brain_operands = true});
    all.push_back(
        {.name = "amx/fast beside F16", .make = make_backend_with_half_weights, .read = read});
  }
  return all;
}

std::string no_subjects_reason() { return ""; }

}  // namespace dllm::test

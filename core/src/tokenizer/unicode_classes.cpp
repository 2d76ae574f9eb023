#include "tokenizer/unicode_classes.hpp"

#include <array>

namespace dllm::tokenizing {
namespace {

// The property White_Space (PropList.txt; unchanged since Unicode 6.3). PCRE2 10.42's own `\s` also
// holds U+180E, which left the property then.
constexpr std::string_view kWhiteSpace =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

// Code points that got their general category in Unicode 15.0 (DerivedGeneralCategory.txt).
constexpr std::string_view kNewLetters =
    R"(\x{1123f}\x{11240}\x{11f02}\x{11f04}-\x{11f10}\x{11f12}-\x{11f33}\x{1342f}\x{13441}-\x{13446})"
    R"(\x{1b132}\x{1b155}\x{1df25}-\x{1df2a}\x{1e030}-\x{1e06d}\x{1e4d0}-\x{1e4eb}\x{2b739})"
    R"(\x{31350}-\x{323af})";
constexpr std::string_view kNewNumbers =
    R"(\x{11f50}-\x{11f59}\x{1d2c0}-\x{1d2d3}\x{1e4f0}-\x{1e4f9})";
constexpr std::string_view kNewPunctuation = R"(\x{11b00}-\x{11b09}\x{11f43}-\x{11f4f})";

struct Class {
  std::string_view written;
  std::string_view builtin;  ///< kept in front of `added`
  std::string_view added;
  bool negated = false;  ///< only outside of [...]
};

constexpr std::array kClasses{
    Class{R"(\s)", "", kWhiteSpace},
    Class{R"(\S)", "", kWhiteSpace, true},
    Class{R"(\p{L})", R"(\p{L})", kNewLetters},
    Class{R"(\p{N})", R"(\p{N})", kNewNumbers},
    Class{R"(\p{P})", R"(\p{P})", kNewPunctuation},
};

const Class* class_at(std::string_view pattern) {
  for (const Class& known : kClasses) {
    if (pattern.starts_with(known.written)) return &known;
  }
  return nullptr;
}

}  // namespace

std::string with_unicode_15_classes(std::string_view pattern) {
  std::string out;
  bool inside_set = false;
  while (!pattern.empty()) {
    std::size_t taken = pattern.front() == '\\' ? 2 : 1;
    if (const Class* found = class_at(pattern)) {
      taken = found->written.size();
      if (!inside_set) out += found->negated ? "[^" : "[";
      out.append(found->builtin).append(found->added);
      if (!inside_set) out += ']';
    } else {
      if (pattern.front() == '[') inside_set = true;
      if (pattern.front() == ']') inside_set = false;
      out.append(pattern.substr(0, taken));
    }
    pattern.remove_prefix(taken);
  }
  return out;
}

}  // namespace dllm::tokenizing

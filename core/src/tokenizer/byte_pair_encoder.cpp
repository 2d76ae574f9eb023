#include "tokenizer/byte_pair_encoder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "dllm/error.hpp"
#include "tokenizer/byte_map.hpp"

namespace dllm::tokenizing {
namespace {

constexpr std::string_view kMerges = "tokenizer.ggml.merges";
constexpr std::uint32_t kEnd = std::numeric_limits<std::uint32_t>::max();

// A byte-only vocabulary needs no merges, and some writers cannot store an empty array.
std::span<const std::string_view> merges_of(const GgufFile& file, const Vocabulary& vocabulary) {
  if (!file.find_array(kMerges) && vocabulary.has_only_single_bytes()) return {};
  if (const MetadataArray* array = file.find_array(kMerges); array && array->size() == 0) return {};
  return string_array(file, kMerges);
}

}  // namespace

BytePairEncoder::BytePairEncoder(const GgufFile& file, const Vocabulary& vocabulary,
                                 std::span<const std::int32_t> reserved, bool ignore_merges)
    : vocabulary_(vocabulary),
      reserved_(static_cast<std::size_t>(vocabulary.size()), false),
      ignore_merges_(ignore_merges),
      merges_(merges_of(file, vocabulary).size()) {
  for (const std::int32_t id : reserved) reserved_[static_cast<std::size_t>(id)] = true;
  require_all_bytes(file);
  read_merges(file);
}

void BytePairEncoder::require_all_bytes(const GgufFile& file) {
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    const std::int32_t id = vocabulary_.find({&text, 1});
    if (id < 0) {
      throw Error(
          ErrorCode::bad_file,
          fmt::format("no token stands for byte 0x{:02X}; byte-level BPE needs all 256", byte),
          place(file, "tokenizer.ggml.tokens"), "convert the model again");
    }
    byte_ids_[static_cast<std::size_t>(byte)] = id;
  }
}

void BytePairEncoder::read_merges(const GgufFile& file) {
  const auto merges = merges_of(file, vocabulary_);
  std::string left;
  std::string right;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view text = merges[rank];
    const std::size_t space = text.find(' ', 1);  // from index 1, as llama.cpp splits it
    if (space == std::string_view::npos || space + 1 == text.size()) {
      throw Error(
          ErrorCode::bad_file,
          fmt::format("merge {} is \"{}\", expected two parts with a space between", rank, text),
          place(file, kMerges), "convert the model again");
    }
    left.clear();
    right.clear();
    const bool reachable = bytes_of_token_text(text.substr(0, space), left) &&
                           bytes_of_token_text(text.substr(space + 1), right);
    if (!reachable) continue;  // outside the byte alphabet: no piece can hold it
    const std::int32_t left_symbol = symbol_of(left);
    const std::int32_t right_symbol = symbol_of(right);
    merges_.insert(left_symbol, right_symbol,
                   {static_cast<std::uint32_t>(rank), symbol_of(left + right)});
  }
}

std::int32_t BytePairEncoder::symbol_of(std::string_view bytes) {
  if (const std::int32_t id = vocabulary_.find(bytes); id >= 0) return id;
  if (const auto found = extra_symbols_.find(bytes); found != extra_symbols_.end()) {
    return found->second;
  }
  const auto symbol = vocabulary_.size() + static_cast<std::int32_t>(extra_.size());
  extra_symbols_.emplace(extra_.emplace_back(bytes), symbol);
  return symbol;
}

// Whether a symbol may stand in the ids of plain text.
bool BytePairEncoder::is_text(std::int32_t symbol) const {
  if (symbol >= vocabulary_.size() || reserved_[static_cast<std::size_t>(symbol)]) return false;
  const TokenType type = vocabulary_.type(symbol);
  return type != TokenType::control && type != TokenType::unknown && type != TokenType::unused;
}

void BytePairEncoder::encode(std::string_view piece, Scratch& scratch,
                             std::vector<std::int32_t>& ids) const {
  if (piece.size() == 1) return ids.push_back(byte_id(static_cast<unsigned char>(piece[0])));
  DLLM_ASSERT(piece.size() < kEnd);
  if (ignore_merges_) {
    if (const std::int32_t id = vocabulary_.find(piece); id >= 0 && is_text(id)) {
      return ids.push_back(id);
    }
  }
  const auto n = static_cast<std::uint32_t>(piece.size());
  scratch.nodes_.clear();
  for (std::uint32_t i = 0; i < n; ++i) {
    scratch.nodes_.push_back({byte_id(static_cast<unsigned char>(piece[i])), i == 0 ? kEnd : i - 1,
                              i + 1 == n ? kEnd : i + 1});
  }
  merge_all(scratch);
  for (std::uint32_t at = 0; at != kEnd; at = scratch.nodes_[at].next) {
    const std::uint32_t next = scratch.nodes_[at].next;
    append_symbol(scratch.nodes_[at].symbol, piece.substr(at, (next == kEnd ? n : next) - at), ids);
  }
}

// Invariant: a node that is gone has symbol -1; the node at byte i starts at byte i of the piece.
void BytePairEncoder::merge_all(Scratch& scratch) const {
  auto& nodes = scratch.nodes_;
  auto& heap = scratch.heap_;
  const auto later = [](const Scratch::Candidate& a, const Scratch::Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  };
  heap.clear();
  for (std::uint32_t i = 0; i + 1 < nodes.size(); ++i) push_candidate(scratch, i);
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const Scratch::Candidate best = heap.back();
    heap.pop_back();
    Scratch::Node& left = nodes[best.left];
    // A neighbour's merge may have changed either side since.
    if (left.symbol != best.left_symbol || left.next == kEnd ||
        nodes[left.next].symbol != best.right_symbol) {
      continue;
    }
    Scratch::Node& right = nodes[left.next];
    left.symbol = best.result;
    left.next = right.next;
    right.symbol = -1;
    if (left.next != kEnd) nodes[left.next].previous = best.left;
    const auto push = [&](std::uint32_t at) {
      const std::size_t before = heap.size();
      push_candidate(scratch, at);
      if (heap.size() != before) std::push_heap(heap.begin(), heap.end(), later);
    };
    if (left.previous != kEnd) push(left.previous);
    if (left.next != kEnd) push(best.left);
  }
}

void BytePairEncoder::push_candidate(Scratch& scratch, std::uint32_t left) const {
  ++scratch.n_candidates_;
  const std::int32_t left_symbol = scratch.nodes_[left].symbol;
  const std::int32_t right_symbol = scratch.nodes_[scratch.nodes_[left].next].symbol;
  const Merge merge = merges_.find(left_symbol, right_symbol);
  if (merge.exists()) {
    scratch.heap_.push_back({merge.rank, left, left_symbol, right_symbol, merge.result});
  }
}

void BytePairEncoder::append_symbol(std::int32_t symbol, std::string_view bytes,
                                    std::vector<std::int32_t>& ids) const {
  if (bytes.size() == 1 || is_text(symbol)) return ids.push_back(symbol);
  for (const char byte : bytes) ids.push_back(byte_id(static_cast<unsigned char>(byte)));
}

}  // namespace dllm::tokenizing

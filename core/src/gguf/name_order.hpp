// Looking names up, and finding those that occur twice, in n log n whatever the names are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace dllm::gguf {

/// Indices 0..n-1 in the order of `name_of(index)`, equal names in index order.
template <typename NameOf>
std::vector<std::uint32_t> order_by_name(std::size_t n, const NameOf& name_of) {
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, [&](std::uint32_t a, std::uint32_t b) {
    const std::string_view left = name_of(a);
    const std::string_view right = name_of(b);
    return left != right ? left < right : a < b;
  });
  return order;
}

/// The first pair of equal names, by the index of the later one.
template <typename NameOf>
std::optional<std::pair<std::uint32_t, std::uint32_t>> find_duplicate(
    const std::vector<std::uint32_t>& order, const NameOf& name_of) {
  std::optional<std::pair<std::uint32_t, std::uint32_t>> found;
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (std::string_view(name_of(order[i - 1])) != std::string_view(name_of(order[i]))) continue;
    if (!found || order[i] < found->second) found = {order[i - 1], order[i]};
  }
  return found;
}

/// Index of `name` in a list ordered by order_by_name, or nullopt.
template <typename NameOf>
std::optional<std::uint32_t> find_name(const std::vector<std::uint32_t>& order,
                                       std::string_view name, const NameOf& name_of) {
  const auto found = std::ranges::lower_bound(
      order, name, {}, [&](std::uint32_t i) -> std::string_view { return name_of(i); });
  if (found == order.end() || std::string_view(name_of(*found)) != name) return std::nullopt;
  return *found;
}

}  // namespace dllm::gguf

#include "trace/step_stats_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "dllm/error.hpp"
#include "output/complete_file.hpp"
#include "output/json.hpp"
#include "output/open_output.hpp"
#include "trace/trace.hpp"

namespace dllm::cli {

StepStatsFile::StepStatsFile(const std::string& path, const Tokenizer& tokenizer)
    : path_(path), tokenizer_(tokenizer) {
  open_output(out_, path, path, "--dump-step-stats");
}

void StepStatsFile::on_step(const StepView& view) {
  Json edits = Json::array();
  for (const dllm_edit& edit : view.edits) {
    const bool has_token = edit.kind != DLLM_EDIT_REMASK;
    edits.push_back({{"kind", edit_kind_name(edit.kind)},
                     {"position", edit.position},
                     {"token", has_token ? Json(edit.token) : Json(nullptr)},
                     {"piece", has_token ? Json(tokenizer_.piece(edit.token)) : Json(nullptr)},
                     {"confidence", edit.confidence}});
  }
  const Json line{{"step", view.step.step},       {"forward", view.step.forward},
                  {"scored", view.step.n_scored}, {"edits", std::move(edits)},
                  {"masked", view.step.n_masked}, {"ms", view.ms}};
  if (!out_) return;  // the reason stays that of the first line that was not taken
  errno = 0;
  out_ << dump_line(line) << std::endl;  // a line at once, for those who watch the file
  if (!out_ && errno != 0) reason_ = std::strerror(errno);
}

void StepStatsFile::finish() {
  out_.flush();
  if (out_) return;
  out_.close();
  std::error_code ignored;  // a device or a pipe stays, and so does a link
  const bool removed = std::filesystem::is_regular_file(path_, ignored) &&
                       std::filesystem::remove(followed(path_), ignored);
  throw Error(
      ErrorCode::resource,
      fmt::format("the step statistics could not be written to '{}'{}{}", path_,
                  reason_.empty() ? "" : ": " + reason_, removed ? "; the file was removed" : ""),
      "--dump-step-stats", "give a place with enough room that can be written");
}

}  // namespace dllm::cli

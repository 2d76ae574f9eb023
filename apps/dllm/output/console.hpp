// Standard error for people, standard output for the answer.
//
//   Console console(STDERR_FILENO, verbose);
//   console.note("backend cpu");
//   console.status("step 3");          // a line in place; only on a terminal
//   write_answer(text);                // checked: a full disk or closed pipe is an Error
//
// No escape codes and no carriage return unless standard error is a terminal and NO_COLOR is not
// set. Thread rule: Console may be used from any thread (plugins log from theirs).
#pragma once

#include <mutex>
#include <string>
#include <string_view>

#include "dllm/log.hpp"

namespace dllm::cli {

/// A terminal that takes escape codes: a tty, NO_COLOR not set, TERM not "dumb".
bool is_fancy_terminal(int fd);

/// Columns and rows of a terminal; 80 x 24 where it does not say.
struct TerminalSize {
  std::size_t columns = 80;
  std::size_t rows = 24;
};
TerminalSize terminal_size(int fd);

/// "1 step", "3 steps".
std::string counted(std::size_t n, std::string_view thing);

class Console {
 public:
  Console(int fd, bool verbose);
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;
  ~Console();

  bool fancy() const { return fancy_; }
  bool verbose() const { return verbose_; }
  int fd() const { return fd_; }

  void note(std::string_view text);     ///< "dllm: text"
  void warning(std::string_view text);  ///< "dllm: warning: text"
  void error(std::string_view text);    ///< "dllm: error: text"
  /// Shows `text` (ASCII) in place of the last status; nothing where not fancy().
  void status(std::string_view text);
  void clear_status();
  /// Bytes as they are, after the status line is gone.
  void write(std::string_view bytes);
  /// Warnings and errors always, the rest with --verbose.
  LogSink log_sink();

 private:
  void line(std::string_view prefix, std::string_view text);
  void clear_status_locked();

  int fd_;
  bool verbose_;
  bool fancy_;
  bool has_status_ = false;
  std::mutex mutex_;
};

/// Writes to standard output and checks it. Throws Error (resource) with the system's reason.
void write_answer(std::string_view bytes);
/// A model's text and a line feed, likewise; on a terminal nothing in it steers the terminal
/// (terminal_text.hpp), elsewhere it goes as it is. `text` is valid UTF-8.
void write_model_text(const std::string& text);
/// Throws Error (resource) when standard output is closed; asked before work starts.
void check_answer_can_be_written();

/// The descriptor answers go to: the standard output the program was started with.
int answer_descriptor();

/// Keeps descriptors 0 to 2 taken, so that a file opened later never becomes standard output, lets
/// a closed pipe be an error instead of a signal, and lets only answers reach standard output: what
/// a plugin prints there joins standard error. Called once by main.
void prepare_standard_streams();

/// One line of valid UTF-8: control characters become spaces.
std::string single_line(std::string_view text);

}  // namespace dllm::cli

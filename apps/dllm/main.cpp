// dllm: the command line. Start at commands/dispatch.cpp.
#include <unistd.h>

#include "commands/commands.hpp"
#include "output/console.hpp"
#include "output/foreign_exit.hpp"

int main(int argc, char** argv) {
  dllm::cli::prepare_standard_streams();
  dllm::cli::watch_for_foreign_exit();
  const int status = dllm::cli::main_program({argv + (argc > 0 ? 1 : 0), argv + argc}, environ);
  dllm::cli::end_is_expected();
  return status;
}

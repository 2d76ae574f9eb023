// dllm: the command line. Start at commands/dispatch.cpp.
#include <unistd.h>

#include "commands/commands.hpp"
#include "output/console.hpp"

int main(int argc, char** argv) {
  dllm::cli::prepare_standard_streams();
  return dllm::cli::main_program({argv + (argc > 0 ? 1 : 0), argv + argc}, environ);
}

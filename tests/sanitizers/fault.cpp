// Deliberate faults, to prove that the tool in use reports them: fault address | undefined |
// thread. Without a tool it ends with status 0 and says nothing.
#include <climits>
#include <memory>
#include <string_view>
#include <thread>

namespace {

volatile int sink = 0;

void read_past_the_end(int n) {
  const auto numbers = std::make_unique<int[]>(static_cast<std::size_t>(n));
  const int* volatile begin = numbers.get();
  sink = begin[n];
}

void overflow(int n) {
  volatile int largest = INT_MAX;
  sink = largest + n;
}

void race() {
  int counter = 0;
  const auto count = [&counter] {
    for (int i = 0; i < 1000; ++i) ++counter;
  };
  std::thread other(count);
  count();
  other.join();
  sink = counter;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view fault = argc > 1 ? argv[1] : "";
  if (fault == "address") {
    read_past_the_end(argc);
  } else if (fault == "undefined") {
    overflow(argc);
  } else if (fault == "thread") {
    race();
  } else {
    return 2;
  }
  return 0;
}

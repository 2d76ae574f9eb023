// Small text rules: escapes, file text, number lists, the canvas on a screen.
#include <gtest/gtest.h>

#include "arguments/escapes.hpp"
#include "expect_refusal.hpp"
#include "output/canvas_view.hpp"
#include "output/console.hpp"
#include "session/number_list.hpp"
#include "session/text_input.hpp"

namespace dllm::cli {
namespace {

TEST(Escapes, BecomeWhatTheyName) {
  EXPECT_EQ(unescape(R"(a\nb\tc\rd\\e\"f\'g)"), "a\nb\tc\rd\\e\"f'g");
  EXPECT_EQ(unescape(R"(\x41\x4g\xe2\x96\x91)"), "A\x04g\xE2\x96\x91");
  EXPECT_EQ(unescape(R"(\x00)"), std::string(1, '\0'));
}

TEST(Escapes, OtherBackslashesStay) {
  EXPECT_EQ(unescape(R"(C:\dir \q \x \xzz \)"), R"(C:\dir \q \x \xzz \)");
}

TEST(FileText, DropsOneNewlineAndAByteOrderMark) {
  EXPECT_EQ(clean_file_text("a\n", "f"), "a");
  EXPECT_EQ(clean_file_text("a\n\n", "f"), "a\n");
  EXPECT_EQ(clean_file_text("a\r\n", "f"), "a");
  EXPECT_EQ(clean_file_text("a\r", "f"), "a\r");
  EXPECT_EQ(clean_file_text("a", "f"), "a");
  EXPECT_EQ(clean_file_text("\xEF\xBB\xBF"
                            "a\\n\n",
                            "f"),
            "a\\n");
  expect_refusal(
      [] {
        clean_file_text(
            "\xFF\xFE"
            "a",
            "f.txt");
      },
      {"UTF-16", "f.txt", "UTF-8"});
}

TEST(NumberList, ReadsIds) {
  EXPECT_EQ(parse_ids("1,2, 3", "o"), (std::vector<std::int32_t>{1, 2, 3}));
  EXPECT_EQ(parse_ids("[4 5]", "o"), (std::vector<std::int32_t>{4, 5}));
  EXPECT_TRUE(parse_ids("", "o").empty());
  for (const char* bad : {"1,x", "-1", "1.5", "2147483648"}) {
    expect_refusal([&] { parse_ids(bad, "--tokens"); }, {"--tokens", "is not allowed"});
  }
}

TEST(NumberList, ReadsRowsAndRanges) {
  EXPECT_EQ(parse_rows("0,5,2-4", 6, "o"), (std::vector<std::uint32_t>{0, 5, 2, 3, 4}));
  expect_refusal([] { parse_rows("6", 6, "--rows"); }, {"--rows", "'6'", "0 to 5"});
  expect_refusal([] { parse_rows("4-2", 6, "--rows"); }, {"'4-2'"});
  expect_refusal([] { parse_rows("", 6, "--rows"); }, {"--rows"});
  expect_refusal([] { parse_rows("1-", 6, "--rows"); }, {"'1-'"});
}

TEST(CanvasView, RowsNeverExceedTheScreen) {
  using Rows = std::vector<std::string>;
  EXPECT_EQ(wrap_rows("abcdef", {.columns = 4, .rows = 9}), (Rows{"abcd", "ef"}));
  EXPECT_EQ(wrap_rows("a\n\nb", {.columns = 4, .rows = 9}), (Rows{"a", "", "b"}));
  EXPECT_EQ(wrap_rows("1\n2\n3", {.columns = 4, .rows = 2}), (Rows{"2", "3"}));
  EXPECT_EQ(wrap_rows("\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E", {.columns = 5, .rows = 9}),
            (Rows{"\xE6\x97\xA5\xE6\x9C\xAC", "\xE8\xAA\x9E"}));
}

TEST(CanvasView, ControlCharactersNeverReachTheTerminal) {
  for (const std::string& row : wrap_rows("a\x1b[2Jb\r\x07\xC2\x9B", {.columns = 80, .rows = 9})) {
    for (const char c : row) EXPECT_GE(static_cast<unsigned char>(c), 0x20);
    EXPECT_EQ(row.find("\xC2\x9B"), std::string::npos);
  }
}

TEST(Console, MessagesStayOnOneLine) {
  EXPECT_EQ(single_line("a\nb\x1b[0m\xFF"), "a b [0m\xEF\xBF\xBD");
}

}  // namespace
}  // namespace dllm::cli

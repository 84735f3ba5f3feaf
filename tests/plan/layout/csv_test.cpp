#include "cli/plan/layout_csv.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace plimsoll::layout {
namespace {

TEST(LayoutCsv, ReadsColumnsInAnyOrderAndWritesInInputOrder) {
  const NamedProblem named = read_csv("note,size, upper ,id,lower\r\nx,5,10,\"b,1\",0\r\n\r\ny,7,20,a,-3", "in.csv");
  ASSERT_EQ(named.ids, (std::vector<std::string>{"b,1", "a"}));
  EXPECT_EQ(named.problem.buffers[1].lower, -3);
  EXPECT_EQ(named.problem.buffers[1].size, 7);
  const std::string out = write_csv(named, {{0, 5}, 12});
  EXPECT_EQ(out, "id,lower,upper,size,offset\n\"b,1\",0,10,5,0\na,-3,20,7,5\n");
  EXPECT_EQ(read_csv(out, "again").ids, named.ids);
  EXPECT_TRUE(read_csv("id,lower,upper,size\n", "none").ids.empty());
}

void expect_fault(const std::string& text, const std::string& where, const std::string& words) {
  try {
    read_csv(text, "in.csv");
    FAIL() << "accepted: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code, "E-LAYOUT-CSV");
    EXPECT_EQ(error.exit, ExitCode::data);
    EXPECT_EQ(error.where, where) << text;
    EXPECT_NE(error.message.find(words), std::string::npos) << error.message;
  }
}

TEST(LayoutCsv, NamesLineAndValueOfEveryFault) {
  const std::string head = "id,lower,upper,size\n";
  expect_fault("", "in.csv:1", "empty");
  expect_fault("id,lower,size\n", "in.csv:1", "'upper'");
  expect_fault("id,lower,upper,size,id\n", "in.csv:1", "twice");
  expect_fault(head + "a,0,1,2\nb,0,1\n", "in.csv:3", "3 fields");
  expect_fault(head + "a,0,1,2,3\n", "in.csv:2", "5 fields");
  expect_fault(head + "a,0,1,2\n\na,0,1,2\n", "in.csv:4", "'a'");
  expect_fault(head + ",0,1,2\n", "in.csv:2", "id is empty");
  expect_fault(head + "a,0,1,-2\n", "in.csv:2", "-2");
  expect_fault(head + "a,5,1,2\n", "in.csv:2", "upper is 1 but lower is 5");
  expect_fault(head + "a,0,1,2.5\n", "in.csv:2", "'2.5'");
  expect_fault(head + "a,0,,2\n", "in.csv:2", "upper is ''");
  expect_fault(head + "a,0,0x10,2\n", "in.csv:2", "'0x10'");
  expect_fault(head + "a,0,1,99999999999999999999\n", "in.csv:2", "beyond 64 bits");
  expect_fault(head + "a,0,1,2305843009213693952\nb,0,1,1\n", "in.csv:3", "add up");
  expect_fault(head + "a,-9223372036854775808,1,2\n", "in.csv:2", "out of range");
  expect_fault(head + "\"a,0,1,2\n", "in.csv:2", "no end");
  expect_fault(head + "\"a\"b,0,1,2\n", "in.csv:2", "follows");
  expect_fault(head + std::string("a,0,1,\0\x1b[2J\n", 12), "in.csv:2", "'??[2J'");
}

TEST(LayoutCsv, UnreadableFileIsADataError) {
  try {
    read_csv_file("no/such/file.csv");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code, "E-LAYOUT-CSV");
    EXPECT_EQ(error.where, "no/such/file.csv");
  }
}

}  // namespace
}  // namespace plimsoll::layout

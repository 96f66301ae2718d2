#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tune/variation.h"

namespace drydock::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

using Command = std::vector<std::string>;

Command put(const Command& command, const Variation& variation) {
  Placed placed;
  EXPECT_TRUE(place(command, variation, placed).is_ok());
  EXPECT_TRUE(placed.environment.empty());
  return placed.command;
}

TEST(Variation, FillsPlaceholders) {
  const Command command = {"python", "train.py", "--size", "{batch}", "--name=b{batch}-{batch}"};
  EXPECT_EQ(channel_of(command, "batch", true), Channel::kPlaceholder);
  EXPECT_THAT(put(command, {{"batch", "16"}}), ElementsAre("python", "train.py", "--size", "16", "--name=b16-16"));
  EXPECT_THAT(put({"run", "{more}", "x{more}"}, {{"more", ""}}), ElementsAre("run", "x"));
  EXPECT_THAT(put({"run", "{more}"}, {{"more", "{more}"}}), ElementsAre("run", "{more}")) << "a value is no template";
}

TEST(Variation, BlankBracesStandForTheOnlyValue) {
  const Command command = {"python", "train.py", "{}"};
  EXPECT_THAT(put(command, {{"batch", "16"}}), ElementsAre("python", "train.py", "16"));
  EXPECT_EQ(channel_of(command, "batch", false), Channel::kVariable);
  EXPECT_THAT(put({"train", "--batch", "4", "--config", "{}"}, {{"batch", "16"}}),
              ElementsAre("train", "--batch", "16", "--config", "{}"))
      << "an option of that name is what is meant";
}

TEST(Variation, SetsOptions) {
  const Command option = {"python", "train.py", "--batch_size", "4", "--batch-size=2", "batch_size=3"};
  EXPECT_EQ(channel_of(option, "batch_size", true), Channel::kOption);
  EXPECT_THAT(put(option, {{"batch_size", "16"}}),
              ElementsAre("python", "train.py", "--batch_size", "16", "--batch-size=16", "batch_size=16"));
  EXPECT_THAT(put(option, {{"batch-size", "16"}}),
              ElementsAre("python", "train.py", "--batch_size", "16", "--batch-size=16", "batch_size=16"));
  EXPECT_EQ(channel_of(option, "batch", true), Channel::kVariable) << "the beginning of a name is another name";
  EXPECT_THAT(put({"train", "-b", "4", "--scale", "-1"}, {{"b", "8"}, {"scale", "-2"}}),
              ElementsAre("train", "-b", "8", "--scale", "-2"));
}

TEST(Variation, SwitchesComeAndGo) {
  const Command command = {"train", "--checkpointing", "--batch", "4"};
  EXPECT_THAT(put(command, {{"checkpointing", "true"}}), ElementsAre("train", "--checkpointing", "--batch", "4"));
  EXPECT_THAT(put(command, {{"checkpointing", "False"}}), ElementsAre("train", "--batch", "4"));
  EXPECT_THAT(put(command, {{"checkpointing", "full"}}),
              ElementsAre("train", "--checkpointing", "full", "--batch", "4"));
  EXPECT_THAT(put({"train", "--checkpointing", "true"}, {{"checkpointing", "false"}}),
              ElementsAre("train", "--checkpointing", "false"));
  EXPECT_THAT(put({"train", "--batch"}, {{"batch", "4"}}), ElementsAre("train", "--batch", "4"));
}

TEST(Variation, ElseItIsAVariable) {
  Placed placed;
  ASSERT_TRUE(place({"python", "train.py"}, {{"BATCH", "4"}}, placed).is_ok());
  EXPECT_THAT(placed.command, ElementsAre("python", "train.py"));
  EXPECT_THAT(placed.environment, ElementsAre(Pair("BATCH", "4")));
  EXPECT_EQ(shell_line(placed), "BATCH=4 python train.py");
  for (const char* name : {"a.b", "a b", "4a", "", "a-b"})
    EXPECT_THAT(place({"python"}, {{name, "4"}}, placed).message(), HasSubstr("has no place")) << name;
}

TEST(Variation, ReadsAxes) {
  Axis axis;
  ASSERT_TRUE(parse_axis("batch=1,2,4", axis).is_ok());
  EXPECT_EQ(axis.name, "batch");
  EXPECT_THAT(axis.values, ElementsAre("1", "2", "4"));
  ASSERT_TRUE(parse_axis("more=,--fast=1", axis).is_ok());
  EXPECT_THAT(axis.values, ElementsAre("", "--fast=1"));
  ASSERT_TRUE(parse_axis("more=", axis).is_ok());
  EXPECT_THAT(axis.values, ElementsAre(""));
  for (const char* wrong : {"", "batch", "=1,2", "batch=1,1", "batch=,"})
    EXPECT_FALSE(parse_axis(wrong, axis).is_ok()) << wrong;
}

TEST(Variation, CombinesAxes) {
  const auto all = combinations_of({{"a", {"1", "2"}}, {"b", {"x", "y"}}});
  std::vector<std::string> texts;
  for (const Variation& each : all) texts.push_back(text_of(each));
  EXPECT_THAT(texts, ElementsAre("a=1 b=x", "a=1 b=y", "a=2 b=x", "a=2 b=y"));
  EXPECT_THAT(combinations_of({}), ElementsAre(Variation{}));
}

TEST(Variation, QuotesForAShell) {
  Placed placed{{"sh", "-c", "echo 'a' $b", ""}, {{"X", "a b"}}};
  EXPECT_EQ(shell_line(placed), "X='a b' sh -c 'echo '\\''a'\\'' $b' ''");
}

}  // namespace
}  // namespace drydock::tune

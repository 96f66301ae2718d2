#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "snapshot/pickle.h"

// Pickles written by hand, byte for byte as CPython's pickler writes them, and such as no pickler would.

namespace drydock::snapshot {
namespace {

using testing::HasSubstr;
using namespace std::string_literals;

std::string sentence_of(const std::string& bytes, const PickleLimits& limits = PickleLimits()) {
  Pickle pickle;
  const Status status = Pickle::parse(std::as_bytes(std::span(bytes)), limits, pickle);
  EXPECT_FALSE(status.is_ok());
  EXPECT_EQ(status.code(), kNoSnapshot);
  return status.message();
}

// The pickle keeps views of `bytes`.
Pickle parse(const std::string& bytes) {
  Pickle pickle;
  const Status status = Pickle::parse(std::as_bytes(std::span(bytes)), PickleLimits(), pickle);
  EXPECT_TRUE(status.is_ok()) << status.message();
  return pickle;
}

TEST(Pickle, ReadsWhatAPicklerOfProtocol4Writes) {
  // pickle.dumps({"a": [1, 300, -5, 2**40, 2**63, 1.5, None, True, False], "b": (1,), "c": b"xy"}, 4)
  const std::string bytes =
      "\x80\x04\x95\x46\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01"
      "a\x94]\x94(K\x01M\x2c\x01J\xfb\xff\xff\xff\x8a\x06\x00\x00\x00\x00\x00\x01\x8a\x09\x00\x00\x00\x00\x00\x00\x00"
      "\x80\x00G\x3f\xf8\x00\x00\x00\x00\x00\x00N\x88\x89"
      "e\x8c\x01"
      "b\x94K\x01\x85\x94\x8c\x01"
      "c\x94"
      "C\x02xy\x94u."s;
  const Pickle pickle = parse(bytes);
  const Value* list = pickle.find(pickle.root(), "a");
  ASSERT_NE(list, nullptr);
  const std::span<const Value> items = pickle.items(*list);
  ASSERT_EQ(items.size(), 9U);
  EXPECT_EQ(items[0].integer, 1);
  EXPECT_EQ(items[1].integer, 300);
  EXPECT_EQ(items[2].integer, -5);
  EXPECT_EQ(items[3].integer, int64_t{1} << 40);
  EXPECT_EQ(items[4].kind, ValueKind::kNatural);
  EXPECT_EQ(items[4].natural, uint64_t{1} << 63);
  EXPECT_EQ(items[5].real, 1.5);
  EXPECT_EQ(items[6].kind, ValueKind::kNone);
  EXPECT_EQ(items[7].kind, ValueKind::kTrue);
  EXPECT_EQ(items[8].kind, ValueKind::kFalse);
  const Value* tuple = pickle.find(pickle.root(), "b");
  ASSERT_NE(tuple, nullptr);
  EXPECT_EQ(tuple->kind, ValueKind::kTuple);
  const Value* data = pickle.find(pickle.root(), "c");
  ASSERT_NE(data, nullptr);
  EXPECT_EQ(pickle.text(*data), "xy");
  EXPECT_EQ(pickle.find(pickle.root(), "d"), nullptr);
}

TEST(Pickle, ReadsTheInstructionsOfProtocols2And5) {
  // BINPUT and BINGET, BINUNICODE, TUPLE behind a mark, APPEND, SETITEM, LONG4, BYTEARRAY8, a text of Python 2.
  const std::string bytes =
      "\x80\x02}q\x00X\x01\x00\x00\x00kq\x01]q\x02(h\x01h\x01K\x07tq\x03"
      "a\x8b\x02\x00\x00\x00\x00\x80"
      "a\x96\x02\x00\x00\x00\x00\x00\x00\x00zz"
      "aU\x02py"
      "ah\x02"
      "as."s;
  const Pickle pickle = parse(bytes);
  const Value* list = pickle.find(pickle.root(), "k");
  ASSERT_NE(list, nullptr);
  const std::span<const Value> items = pickle.items(*list);
  ASSERT_EQ(items.size(), 5U);
  EXPECT_EQ(pickle.items(items[0]).size(), 3U);
  EXPECT_EQ(items[1].integer, -32768);
  EXPECT_EQ(pickle.text(items[2]), "zz");
  EXPECT_EQ(pickle.text(items[3]), "py");
  EXPECT_EQ(items[4].index, list->index);  // a list that holds itself
}

TEST(Pickle, AKeyThatStandsTwiceHasItsLastValue) {
  const std::string bytes = "\x80\x04}(\x8c\x01kK\x01\x8c\x01kK\x02u."s;
  const Pickle pickle = parse(bytes);
  EXPECT_EQ(pickle.find(pickle.root(), "k")->integer, 2);
}

TEST(Pickle, NamesOfPythonObjectsAreRefusedByName) {
  EXPECT_THAT(sentence_of("\x80\x02"s + "cposix\nsystem\n(X\x02\x00\x00\x00idtR."s), HasSubstr("posix.system"));
  EXPECT_THAT(sentence_of("\x80\x04\x8c\x05posix\x8c\x06system\x93."s), HasSubstr("posix.system"));
  EXPECT_THAT(sentence_of("\x80\x02(iposix\nsystem\n."s), HasSubstr("posix.system"));
  EXPECT_THAT(sentence_of("\x80\x04\x93."s), HasSubstr("names a Python object"));
  EXPECT_THAT(sentence_of("\x80\x02"s + "c\x1b[31m\nx\n."s), Not(HasSubstr("\x1b")));
  EXPECT_THAT(sentence_of("\x80\x02"s + "c" + std::string(5000, 'm') + "\nx\n."s), HasSubstr("mmm..."));
}

TEST(Pickle, WhateverIsNotPlainDataIsRefused) {
  const std::string values = "\x80\x04NN"s;
  for (const std::string& opcode : {"R"s, "b"s, "o"s, "\x81"s, "\x92"s, "Pid\n"s, "Q"s, "\x82\x01"s, "\x83\x01\x00"s,
                                    "\x84\x01\x00\x00\x00"s, "\x8f"s, "\x90"s, "\x91"s, "\x97"s, "\x98"s}) {
    EXPECT_THAT(sentence_of(values + opcode + "."), HasSubstr("plain data")) << opcode;
  }
  for (const std::string& opcode : {"I1\n"s, "F1\n"s, "S'x'\n"s, "Vx\n"s, "g0\n"s, "p0\n"s, "\x7f"s, "\xff"s}) {
    EXPECT_THAT(sentence_of(values + opcode + "."), HasSubstr("no such instruction")) << opcode;
  }
}

TEST(Pickle, OtherFilesAreNone) {
  EXPECT_THAT(sentence_of(""), HasSubstr("empty"));
  EXPECT_THAT(sentence_of("(dp0\n."), HasSubstr("no pickle of protocol 2 to 5"));
  EXPECT_THAT(sentence_of("\x80\x01N."s), HasSubstr("protocol is 1"));
  EXPECT_THAT(sentence_of("\x80\x06N."s), HasSubstr("protocol is 6"));
  EXPECT_THAT(sentence_of("\x80"s), HasSubstr("cut off"));
}

TEST(Pickle, AClaimedLengthAllocatesNothing) {
  EXPECT_THAT(sentence_of("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7f."s), HasSubstr("longer than"));
  EXPECT_THAT(sentence_of("\x80\x04X\xff\xff\xff\x0f."s), HasSubstr("cut off"));
  EXPECT_THAT(sentence_of("\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xffN."s), HasSubstr("cut off"));
  EXPECT_THAT(sentence_of("\x80\x04\x8b\xff\xff\xff\x7fN."s), HasSubstr("cut off"));
  EXPECT_THAT(sentence_of("\x80\x04\x8b\xff\xff\xff\xffN."s), HasSubstr("negative length"));
  EXPECT_THAT(sentence_of("\x80\x04Nr\xff\xff\xff\xff."s), HasSubstr("remembers"));
  EXPECT_THAT(sentence_of("\x80\x04Nj\xff\xff\xff\xff."s), HasSubstr("did not remember"));
  EXPECT_THAT(sentence_of("\x80\x04\x8a\x0a"s + std::string(10, '\x01') + "."), HasSubstr("a number of 10 bytes"));
}

TEST(Pickle, LimitsHold) {
  EXPECT_THAT(sentence_of("\x80\x04"s + std::string(101, '(') + "."), HasSubstr("nested deeper than 100"));
  EXPECT_THAT(sentence_of("\x80\x04"s + std::string(200, 'N') + ".", {.values = 150}),
              HasSubstr("more than 150 values"));
  // Nested a million deep without marks: lists in lists, taken apart by no recursion.
  const std::string deep = "\x80\x04"s + std::string(1'000'000, ']') + std::string(999'999, 'a') + ".";
  const Pickle pickle = parse(deep);
  EXPECT_EQ(pickle.containers(), 1'000'000U);
}

TEST(Pickle, AMachineOutOfOrderIsDamaged) {
  for (const std::string& body :
       {"."s,     "NN."s, "a."s,     "e."s,    "u."s,    "s."s,   "t."s,        "0."s,     "1."s,     "2."s,
        "\x85."s, "(N."s, "]N(Nu."s, "}(Ne."s, "}(Nu."s, "(Nd."s, "N(Nt\x87."s, "q\x00."s, "h\x00."s, "(N0N\x86."s}) {
    const std::string sentence = sentence_of("\x80\x04"s + body);
    EXPECT_THAT(sentence, HasSubstr("damaged at byte")) << body;
  }
}

TEST(Pickle, CutAnywhereItSaysWhereItEnds) {
  const std::string bytes =
      "\x80\x04\x95\x1e\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x08segments\x94]\x94(}\x94K\x01G?\xf8"
      "\x00\x00\x00\x00\x00\x00"
      "es."s;
  parse(bytes);
  for (size_t length = 1; length < bytes.size(); ++length) {
    const std::string sentence = sentence_of(bytes.substr(0, length));
    EXPECT_THAT(sentence, HasSubstr("ends at byte " + std::to_string(length))) << length;
    EXPECT_THAT(sentence, HasSubstr("end mark is missing")) << length;
  }
}

}  // namespace
}  // namespace drydock::snapshot

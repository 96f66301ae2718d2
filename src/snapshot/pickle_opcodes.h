#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace drydock::snapshot {

// Opcodes of the pickle machine, as CPython's manual numbers them. Those of protocol 0 and 1 that later picklers still
// write are among them.
enum Opcode : uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNoneOp = 'N',
  kBinString = 'T',
  kShortBinString = 'U',
  kBinUnicode = 'X',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kAppend = 'a',
  kAppends = 'e',
  kEmptyDict = '}',
  kEmptyList = ']',
  kEmptyTuple = ')',
  kDictOp = 'd',
  kListOp = 'l',
  kTupleOp = 't',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kSetItems = 'u',
  kProtocol = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes8 = 0x8e,
  kMemoize = 0x94,
  kFrame = 0x95,
  kByteArray8 = 0x96,
  // Refused.
  kGlobal = 'c',
  kInst = 'i',
  kStackGlobal = 0x93,
  kReduce = 'R',
  kBuild = 'b',
  kObj = 'o',
  kNewObj = 0x81,
  kNewObjEx = 0x92,
  kPersistent = 'P',
  kBinPersistent = 'Q',
  kExtension1 = 0x82,
  kExtension2 = 0x83,
  kExtension4 = 0x84,
  kEmptySet = 0x8f,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kNextBuffer = 0x97,
  kReadOnlyBuffer = 0x98,
};

// Why an opcode is refused; null for those that are merely unknown.
inline const char* refusal_of(uint8_t opcode) {
  switch (opcode) {
    case kReduce: return "it calls a function";
    case kBuild: return "it sets an object's state";
    case kObj:
    case kNewObj:
    case kNewObjEx: return "it makes an object of a class";
    case kPersistent:
    case kBinPersistent: return "it refers to an object outside of the file";
    case kExtension1:
    case kExtension2:
    case kExtension4: return "it refers to Python's registry of extensions";
    case kEmptySet:
    case kAddItems:
    case kFrozenSet: return "it holds a set";
    case kNextBuffer:
    case kReadOnlyBuffer: return "it refers to a buffer outside of the file";
    default: return nullptr;
  }
}

inline constexpr size_t kShownBytes = 80;  // of a name in a sentence

// Names of a hostile file go to a terminal: nothing but printable ASCII.
inline std::string shown(std::string_view name) {
  std::string text;
  for (const char letter : name.substr(0, kShownBytes)) text += letter >= ' ' && letter < 0x7f ? letter : '?';
  return name.size() > kShownBytes ? text + "..." : text;
}

}  // namespace drydock::snapshot

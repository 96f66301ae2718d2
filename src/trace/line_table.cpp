#include "trace/line_table.h"

#include <cstddef>

namespace drydock::trace {
namespace {

constexpr int kInstructionBytes = 2;

// Entries of the location table: a first byte 1ccccnnn (form c, covers n + 1 instructions), then the form's bytes.
constexpr int kOneLineForm = 10;  // 10, 11, 12: the line moves by form - 10
constexpr int kNoColumnsForm = 13;
constexpr int kLongForm = 14;
constexpr int kNoLocationForm = 15;

// Numbers in 6-bit pieces, least first; bit 6 says that more follow. Signed ones keep their sign in the last bit.
unsigned read_number(std::span<const uint8_t> table, size_t& position) noexcept {
  unsigned value = 0;
  for (unsigned shift = 0; position < table.size() && shift < 30; shift += 6) {
    const uint8_t byte = table[position++];
    value |= static_cast<unsigned>(byte & 63) << shift;
    if ((byte & 64) == 0) break;
  }
  return value;
}

int read_signed(std::span<const uint8_t> table, size_t& position) noexcept {
  const unsigned value = read_number(table, position);
  const int magnitude = static_cast<int>(value >> 1);
  return (value & 1) != 0 ? -magnitude : magnitude;
}

int decode_location_table(std::span<const uint8_t> table, int first_line, int byte_offset) noexcept {
  int line = first_line;
  int covered = 0;
  size_t position = 0;
  while (position < table.size()) {
    const uint8_t head = table[position++];
    if ((head & 128) == 0) return -1;
    const int form = head >> 3 & 15;
    covered += ((head & 7) + 1) * kInstructionBytes;
    bool has_line = true;
    if (form == kNoLocationForm) {
      has_line = false;
    } else if (form == kLongForm) {
      line += read_signed(table, position);
      for (int number = 0; number < 3; ++number) read_number(table, position);
    } else if (form == kNoColumnsForm) {
      line += read_signed(table, position);
    } else if (form >= kOneLineForm) {
      line += form - kOneLineForm;
      position += 2;
    } else {
      position += 1;
    }
    if (byte_offset < covered) return has_line ? line : -1;
  }
  return -1;
}

// Pairs of bytes: how many bytes of instructions, and by how much the line moves before them (-128: they have none).
int decode_pairs(std::span<const uint8_t> table, int first_line, int byte_offset) noexcept {
  int line = first_line;
  int covered = 0;
  for (size_t position = 0; position + 1 < table.size(); position += 2) {
    const auto move = static_cast<int8_t>(table[position + 1]);
    covered += table[position];
    if (move != -128) line += move;
    if (byte_offset < covered) return move == -128 ? -1 : line;
  }
  return -1;
}

}  // namespace

int decode_line(int minor, std::span<const uint8_t> table, int first_line, int byte_offset) noexcept {
  if (byte_offset < 0) return first_line;
  return minor >= 11 ? decode_location_table(table, first_line, byte_offset)
                     : decode_pairs(table, first_line, byte_offset);
}

}  // namespace drydock::trace

#include "export/pickle_writer.h"

#include <bit>
#include <cstring>

namespace drydock::exports {
namespace {

template <class Number>
std::string_view bytes_of(const Number& number) {
  return {reinterpret_cast<const char*>(&number), sizeof(Number)};
}

// A pickled text is UTF-8; names of files are bytes.
bool is_utf8(std::string_view text) {
  for (size_t index = 0; index < text.size();) {
    const auto lead = static_cast<unsigned char>(text[index]);
    const size_t length = lead < 0x80                   ? 1
                          : lead >= 0xc2 && lead < 0xe0 ? 2
                          : (lead & 0xf0) == 0xe0       ? 3
                          : lead >= 0xf0 && lead < 0xf5 ? 4
                                                        : 0;
    if (length == 0 || index + length > text.size()) return false;
    for (size_t next = 1; next < length; ++next)
      if ((static_cast<unsigned char>(text[index + next]) & 0xc0) != 0x80) return false;
    const auto second = length > 1 ? static_cast<unsigned char>(text[index + 1]) : 0;
    // Overlong forms, surrogates, and what is beyond Unicode.
    if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second >= 0xa0) || (lead == 0xf0 && second < 0x90) ||
        (lead == 0xf4 && second >= 0x90))
      return false;
    index += length;
  }
  return true;
}

}  // namespace

uint32_t PickleWriter::remember() {
  file_.write("\x94");
  return kept_++;
}

void PickleWriter::again(uint32_t kept) {
  if (kept < 256) {
    const auto index = static_cast<uint8_t>(kept);
    file_.write("h");
    file_.write(bytes_of(index));
  } else {
    file_.write("j");
    file_.write(bytes_of(kept));
  }
}

void PickleWriter::text(std::string_view text) {
  const auto known = texts_.find(std::string(text));
  if (known != texts_.end()) {
    again(known->second);
    return;
  }
  std::string clean(text);
  if (!is_utf8(clean))
    for (char& letter : clean)
      if ((letter & 0x80) != 0) letter = '?';
  if (clean.size() < 256) {
    const auto length = static_cast<uint8_t>(clean.size());
    file_.write("\x8c");
    file_.write(bytes_of(length));
  } else {
    const auto length = static_cast<uint32_t>(clean.size());
    file_.write("X");
    file_.write(bytes_of(length));
  }
  file_.write(clean);
  texts_.emplace(std::string(text), remember());
}

void PickleWriter::number(uint64_t number) {
  if (number < 0x100) {
    const auto small = static_cast<uint8_t>(number);
    file_.write("K");
    file_.write(bytes_of(small));
  } else if (number < 0x10000) {
    const auto small = static_cast<uint16_t>(number);
    file_.write("M");
    file_.write(bytes_of(small));
  } else if (number < 0x80000000) {
    const auto small = static_cast<uint32_t>(number);
    file_.write("J");
    file_.write(bytes_of(small));
  } else {
    // As long as it needs; a leading one is a sign, so that it gets a byte of zeros.
    const size_t length = static_cast<size_t>(std::bit_width(number)) / 8 + 1;
    char bytes[9] = {};
    std::memcpy(bytes, &number, sizeof(number));
    const auto count = static_cast<uint8_t>(length);
    file_.write("\x8a");
    file_.write(bytes_of(count));
    file_.write({bytes, length});
  }
}

void PickleWriter::real(double value) {
  const uint64_t bits = __builtin_bswap64(std::bit_cast<uint64_t>(value));
  file_.write("G");
  file_.write(bytes_of(bits));
}

}  // namespace drydock::exports
